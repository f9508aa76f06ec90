// Evaluate the networks of exported policies: the operators that they are made of, in double precision.

import type { Attribute, GraphNode, Model, Tensor } from "./onnx";

type Attributes = Map<string, Attribute>;
type Operator = (inputs: (Tensor | undefined)[], attributes: Attributes, outputs: number) => Tensor[];

const sigmoid = (x: number) => 1 / (1 + Math.exp(-x));
const softplus = (x: number) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));

/** The error function, by its series and, for large numbers, by the continued fraction of its complement. */
function erf(x: number): number {
  const size = Math.abs(x);
  if (size > 6) return Math.sign(x);
  if (size < 3) {
    let term = x;
    let sum = x;
    for (let n = 1; Math.abs(term) > 1e-17; n++) {
      term *= (-x * x) / n;
      sum += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * sum;
  }
  let fraction = 0;
  for (let n = 60; n > 0; n--) fraction = n / 2 / (size + fraction);
  return Math.sign(x) * (1 - Math.exp(-size * size) / Math.sqrt(Math.PI) / (size + fraction));
}

const ACTIVATIONS: Record<string, (x: number, attribute: (name: string, fallback: number) => number) => number> = {
  Identity: (x) => x,
  Relu: (x) => Math.max(x, 0),
  LeakyRelu: (x, attribute) => (x < 0 ? attribute("alpha", 0.01) * x : x),
  Elu: (x, attribute) => (x < 0 ? attribute("alpha", 1) * Math.expm1(x) : x),
  Celu: (x, attribute) => (x < 0 ? attribute("alpha", 1) * Math.expm1(x / attribute("alpha", 1)) : x),
  Selu: (x, attribute) =>
    attribute("gamma", 1.0507010221481323) * (x <= 0 ? attribute("alpha", 1.6732631921768188) * Math.expm1(x) : x),
  Tanh: (x) => Math.tanh(x),
  Sigmoid: (x) => sigmoid(x),
  Softplus: (x) => softplus(x),
  Mish: (x) => x * Math.tanh(softplus(x)),
  Erf: (x) => erf(x),
};

const BINARY: Record<string, (a: number, b: number) => number> = {
  Add: (a, b) => a + b,
  Sub: (a, b) => a - b,
  Mul: (a, b) => a * b,
  Div: (a, b) => a / b,
  Greater: (a, b) => Number(a > b),
};

const sizeOf = (dims: number[]) => dims.reduce((product, dim) => product * dim, 1);

function needed(tensor: Tensor | undefined): Tensor {
  if (!tensor) throw new Error("an operator of the network lacks an input");
  return tensor;
}

function numberOf(attributes: Attributes, name: string, fallback: number): number {
  const value = attributes.get(name) ?? fallback;
  if (typeof value !== "number") throw new Error(`the attribute ${name} of the network is not a number`);
  return value;
}

const axisOf = (axis: number, rank: number) => (axis < 0 ? axis + rank : axis);

function broadcast(a: Tensor, b: Tensor, compute: (x: number, y: number) => number): Tensor {
  const rank = Math.max(a.dims.length, b.dims.length);
  const padded = [a, b].map((x) => [...Array(rank - x.dims.length).fill(1), ...x.dims]);
  const dims = padded[0].map((dim, i) => (dim === 1 ? padded[1][i] : dim));
  if (padded.some((own) => own.some((dim, i) => dim !== dims[i] && dim !== 1))) {
    throw new Error(`the network combines tensors of shapes ${a.dims} and ${b.dims}`);
  }
  const data = new Float64Array(sizeOf(dims));
  for (let i = 0; i < data.length; i++) {
    const places = [0, 0];
    for (let axis = rank - 1, rest = i, strides = [1, 1]; axis >= 0; axis--) {
      const index = rest % dims[axis];
      rest = Math.floor(rest / dims[axis]);
      for (const side of [0, 1]) {
        if (padded[side][axis] > 1) places[side] += index * strides[side];
        strides[side] *= padded[side][axis];
      }
    }
    data[i] = compute(a.data[places[0]], b.data[places[1]]);
  }
  return { dims, data };
}

/** Select along each axis the given indices. */
function select(x: Tensor, indices: number[][]): Tensor {
  const dims = indices.map((each) => each.length);
  const data = new Float64Array(sizeOf(dims));
  for (let i = 0; i < data.length; i++) {
    let place = 0;
    for (let axis = dims.length - 1, rest = i, stride = 1; axis >= 0; axis--) {
      place += indices[axis][rest % dims[axis]] * stride;
      rest = Math.floor(rest / dims[axis]);
      stride *= x.dims[axis];
    }
    data[i] = x.data[place];
  }
  return { dims, data };
}

const range = (from: number, to: number) => Array.from({ length: Math.max(0, to - from) }, (_, i) => from + i);
const everything = (x: Tensor) => x.dims.map((dim) => range(0, dim));

/** Matrix [n, k] times matrix [k, m], each given by its strides; plus a bias [m] or [n, m] times a factor. */
function gemm([a, b, c]: (Tensor | undefined)[], attributes: Attributes): Tensor[] {
  const [left, right] = [needed(a), needed(b)];
  const [turnLeft, turnRight] = ["transA", "transB"].map((name) => numberOf(attributes, name, 0) === 1);
  const [n, k] = turnLeft ? [left.dims[1], left.dims[0]] : left.dims;
  const [rows, m] = turnRight ? [right.dims[1], right.dims[0]] : right.dims;
  if (left.dims.length !== 2 || right.dims.length !== 2 || rows !== k) {
    throw new Error(`the network multiplies matrices of shapes ${left.dims} and ${right.dims}`);
  }
  const [alpha, beta] = ["alpha", "beta"].map((name) => numberOf(attributes, name, 1));
  const product = new Float64Array(n * m);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j < m; j++) {
      let sum = 0;
      for (let l = 0; l < k; l++) {
        sum += left.data[turnLeft ? l * n + i : i * k + l] * right.data[turnRight ? j * k + l : l * m + j];
      }
      product[i * m + j] = alpha * sum;
    }
  }
  const result = { dims: [n, m], data: product };
  return [c ? broadcast(result, c, (x, bias) => x + beta * bias) : result];
}

function reshape(x: Tensor, shape: number[]): Tensor {
  const dims = shape.map((dim, i) => (dim === 0 ? x.dims[i] : dim));
  const missing = dims.indexOf(-1);
  if (missing >= 0) dims[missing] = x.data.length / -sizeOf(dims);
  if (sizeOf(dims) !== x.data.length) throw new Error(`the network gives ${x.dims} the shape ${shape}`);
  return { dims, data: x.data };
}

/** Matrix [rows, size] of a weight, times a vector, plus the vector's own bias. */
function affine(weight: Float64Array, x: Float64Array, bias: Float64Array, row: number): number {
  let sum = bias[row];
  for (let i = 0, at = row * x.length; i < x.length; i++) sum += weight[at + i] * x[i];
  return sum;
}

/** Weights, biases and states of a recurrent layer of one direction and one robot, in one step. */
function recurrent(inputs: (Tensor | undefined)[], attributes: Attributes, gates: number) {
  const [x, weight, recurrence, bias] = inputs.slice(0, 4).map(needed);
  const size = recurrence.dims[2];
  const alike = x.dims[0] === 1 && x.dims[1] === 1 && recurrence.dims[0] === 1;
  const direction = attributes.get("direction") ?? "forward";
  if (!alike || direction !== "forward" || weight.dims[2] !== x.data.length || recurrence.dims[1] !== gates * size) {
    throw new Error("a recurrent layer of the network has another shape than those of exported policies");
  }
  return {
    size,
    input: (row: number) => affine(weight.data, x.data, bias.data.subarray(0, gates * size), row),
    state: (row: number, h: Float64Array) => affine(recurrence.data, h, bias.data.subarray(gates * size), row),
  };
}

function gru(inputs: (Tensor | undefined)[], attributes: Attributes): Tensor[] {
  const { size, input, state } = recurrent(inputs, attributes, 3);
  if (numberOf(attributes, "linear_before_reset", 0) !== 1) throw new Error("the network's GRU is not PyTorch's");
  const before = needed(inputs[5]).data;
  const after = before.map((h, i) => {
    const update = sigmoid(input(i) + state(i, before));
    const reset = sigmoid(input(size + i) + state(size + i, before));
    const candidate = Math.tanh(input(2 * size + i) + reset * state(2 * size + i, before));
    return (1 - update) * candidate + update * h;
  });
  return [
    { dims: [1, 1, 1, size], data: after },
    { dims: [1, 1, size], data: after },
  ];
}

function lstm(inputs: (Tensor | undefined)[], attributes: Attributes): Tensor[] {
  const { size, input, state } = recurrent(inputs, attributes, 4);
  const [before, cell] = [needed(inputs[5]).data, needed(inputs[6]).data];
  const gate = (row: number) => input(row) + state(row, before);
  const next = cell.map(
    (c, i) => sigmoid(gate(2 * size + i)) * c + sigmoid(gate(i)) * Math.tanh(gate(3 * size + i)),
  );
  const after = next.map((c, i) => sigmoid(gate(size + i)) * Math.tanh(c));
  return [
    { dims: [1, 1, 1, size], data: after },
    { dims: [1, 1, size], data: after },
    { dims: [1, 1, size], data: next },
  ];
}

const integers = (tensor: Tensor | undefined) => [...needed(tensor).data];

const OPERATORS: Record<string, Operator> = {
  Gemm: gemm,
  GRU: gru,
  LSTM: lstm,
  Constant: (_, attributes) => [attributes.get("value") as Tensor],
  Reshape: ([x, shape]) => [reshape(needed(x), integers(shape))],
  Unsqueeze: ([x, axes]) => {
    const dims = [...needed(x).dims];
    const rank = dims.length + integers(axes).length;
    for (const axis of integers(axes).map((each) => axisOf(each, rank)).sort((a, b) => a - b)) dims.splice(axis, 0, 1);
    return [{ dims, data: needed(x).data }];
  },
  Squeeze: ([x, axes]) => {
    const { dims, data } = needed(x);
    const gone = axes ? integers(axes).map((axis) => axisOf(axis, dims.length)) : dims.map((_, i) => i);
    return [{ dims: dims.filter((dim, i) => dim !== 1 || !gone.includes(i)), data }];
  },
  Transpose: ([x], attributes) => {
    const { dims, data } = needed(x);
    const order = (attributes.get("perm") as number[] | undefined) ?? range(0, dims.length).reverse();
    const turned = order.map((axis) => dims[axis]);
    const strides = dims.map((_, axis) => sizeOf(dims.slice(axis + 1)));
    const result = new Float64Array(data.length);
    for (let i = 0; i < result.length; i++) {
      let place = 0;
      for (let axis = turned.length - 1, rest = i; axis >= 0; axis--) {
        place += (rest % turned[axis]) * strides[order[axis]];
        rest = Math.floor(rest / turned[axis]);
      }
      result[i] = data[place];
    }
    return [{ dims: turned, data: result }];
  },
  Slice: ([x, starts, ends, axes, steps]) => {
    const tensor = needed(x);
    const indices = everything(tensor);
    const chosen = axes ? integers(axes) : range(0, integers(starts).length);
    chosen.forEach((each, i) => {
      if (steps && steps.data[i] !== 1) throw new Error("the network slices with a step");
      const axis = axisOf(each, tensor.dims.length);
      const [from, to] = [starts, ends].map((limit) => axisOf(needed(limit).data[i], tensor.dims[axis]));
      indices[axis] = range(Math.max(0, from), Math.min(to, tensor.dims[axis]));
    });
    return [select(tensor, indices)];
  },
  Split: ([x, sizes], attributes, outputs) => {
    const tensor = needed(x);
    const axis = axisOf(numberOf(attributes, "axis", 0), tensor.dims.length);
    const equal = Math.ceil(tensor.dims[axis] / outputs);
    let start = 0;
    return (sizes ? integers(sizes) : Array(outputs).fill(equal)).map((size: number) => {
      const indices = everything(tensor);
      indices[axis] = range(start, Math.min((start += size), tensor.dims[axis]));
      return select(tensor, indices);
    });
  },
  Gather: ([x, index], attributes) => {
    const tensor = needed(x);
    const [axis, chosen] = [axisOf(numberOf(attributes, "axis", 0), tensor.dims.length), needed(index)];
    const indices = everything(tensor);
    indices[axis] = integers(chosen).map((each) => axisOf(each, tensor.dims[axis]));
    const dims = [...tensor.dims.slice(0, axis), ...chosen.dims, ...tensor.dims.slice(axis + 1)];
    return [{ dims, data: select(tensor, indices).data }];
  },
  Concat: (inputs, attributes) => {
    const tensors = inputs.map(needed);
    const axis = axisOf(numberOf(attributes, "axis", 0), tensors[0].dims.length);
    const dims = [...tensors[0].dims];
    dims[axis] = tensors.reduce((sum, each) => sum + each.dims[axis], 0);
    const [outer, inner] = [sizeOf(dims.slice(0, axis)), sizeOf(dims.slice(axis + 1))];
    const data = new Float64Array(sizeOf(dims));
    for (let i = 0, at = 0; i < outer; i++) {
      for (const tensor of tensors) {
        const length = tensor.dims[axis] * inner;
        data.set(tensor.data.subarray(i * length, (i + 1) * length), at);
        at += length;
      }
    }
    return [{ dims, data }];
  },
  Where: (inputs) => {
    const tensors = inputs.map(needed);
    const [condition, yes, no] = tensors.map((each) => tensors.reduce((a, b) => broadcast(a, b, (x) => x), each));
    return [{ dims: yes.dims, data: yes.data.map((value, i) => (condition.data[i] ? value : no.data[i])) }];
  },
};
for (const [name, compute] of Object.entries(ACTIVATIONS)) {
  OPERATORS[name] = ([x], attributes) => {
    const attribute = (key: string, fallback: number) => numberOf(attributes, key, fallback);
    return [{ dims: needed(x).dims, data: needed(x).data.map((value) => compute(value, attribute)) }];
  };
}
for (const [name, compute] of Object.entries(BINARY)) {
  OPERATORS[name] = ([a, b]) => [broadcast(needed(a), needed(b), compute)];
}

/** A network that maps tensors by name to its outputs in order. */
export class Network {
  private constants: Map<string, Tensor>;
  private nodes: GraphNode[];

  constructor(private model: Model) {
    this.constants = new Map(model.constants);
    this.nodes = model.nodes.filter((node) => {
      if (!Object.hasOwn(OPERATORS, node.operator)) {
        throw new Error(`the network has the operator ${node.operator}, which no exported policy has`);
      }
      const isConstant = node.inputs.every((name) => name === "" || this.constants.has(name));
      if (isConstant) run(node, this.constants);
      return !isConstant;
    });
  }

  get inputs(): string[] {
    return this.model.inputs;
  }

  run(inputs: Tensor[]): Tensor[] {
    const values = new Map(this.constants);
    this.model.inputs.forEach((name, i) => values.set(name, inputs[i]));
    for (const node of this.nodes) run(node, values);
    return this.model.outputs.map((name) => needed(values.get(name)));
  }
}

/** Compute the outputs of a node from values by name, and add them. */
function run(node: GraphNode, values: Map<string, Tensor>): void {
  const inputs = node.inputs.map((name) => (name === "" ? undefined : needed(values.get(name))));
  const outputs = OPERATORS[node.operator](inputs, node.attributes, node.outputs.length);
  node.outputs.forEach((name, i) => name && values.set(name, needed(outputs[i])));
}
