// Read ONNX files: the fields of the protobuf messages that an exported policy has.

/** Numbers in row-major order. */
export interface Tensor {
  dims: number[];
  data: Float64Array;
}

export type Attribute = number | number[] | string | Tensor;

export interface GraphNode {
  operator: string;
  inputs: string[];
  outputs: string[];
  attributes: Map<string, Attribute>;
}

export interface Model {
  nodes: GraphNode[];
  constants: Map<string, Tensor>;
  inputs: string[];
  outputs: string[];
  metadata: Map<string, string>;
}

type Field = number | bigint | Uint8Array;

/** Fields of one protobuf message by number, each with all its values in order. */
class Message {
  private fields = new Map<number, Field[]>();

  constructor(bytes: Uint8Array) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    let at = 0;
    const varint = (): bigint => {
      let value = 0n;
      for (let shift = 0n; shift < 70n; shift += 7n) {
        const byte = view.getUint8(at++);
        value |= BigInt(byte & 127) << shift;
        if (byte < 128) return BigInt.asIntN(64, value);
      }
      throw new RangeError("a number is too long");
    };
    const chunk = (length: number): Uint8Array => {
      if (!(length >= 0 && at + length <= bytes.length)) throw new RangeError("a field is cut off");
      return bytes.subarray(at, (at += length));
    };
    while (at < bytes.length) {
      const tag = Number(varint());
      const kind = tag & 7;
      let value: Field;
      if (kind === 0) value = varint();
      else if (kind === 1) (value = view.getFloat64(at, true)), (at += 8);
      else if (kind === 2) value = chunk(Number(varint()));
      else if (kind === 5) (value = view.getFloat32(at, true)), (at += 4);
      else throw new RangeError(`a field has the wire type ${kind}`);
      const values = this.fields.get(tag >> 3);
      if (values) values.push(value);
      else this.fields.set(tag >> 3, [value]);
    }
  }

  bytes(field: number): Uint8Array[] {
    return (this.fields.get(field) ?? []).filter((value): value is Uint8Array => value instanceof Uint8Array);
  }

  messages(field: number): Message[] {
    return this.bytes(field).map((value) => new Message(value));
  }

  texts(field: number): string[] {
    return this.bytes(field).map((value) => new TextDecoder().decode(value));
  }

  text(field: number): string {
    return this.texts(field)[0] ?? "";
  }

  /** Integers, of which several may be packed into one value. */
  integers(field: number): number[] {
    return (this.fields.get(field) ?? []).flatMap((value) =>
      value instanceof Uint8Array ? new Message(unpacked(value)).integers(1) : [Number(value)],
    );
  }

  number(field: number): number | undefined {
    const value = this.fields.get(field)?.[0];
    return value === undefined || value instanceof Uint8Array ? undefined : Number(value);
  }
}

/** Put a tag before each of several packed integers. */
function unpacked(bytes: Uint8Array): Uint8Array {
  const tagged: number[] = [];
  let starts = true;
  for (const byte of bytes) {
    if (starts) tagged.push(8);
    tagged.push(byte);
    starts = byte < 128;
  }
  return new Uint8Array(tagged);
}

const FLOAT = 1;
const INT64 = 7;
const DOUBLE = 11;

function readTensor(message: Message): Tensor {
  const dims = message.integers(1);
  const type = message.number(2);
  const raw = message.bytes(9)[0] ?? new Uint8Array();
  const view = new DataView(raw.buffer, raw.byteOffset, raw.byteLength);
  const size = type === FLOAT ? 4 : 8;
  const count = dims.reduce((product, dim) => product * dim, 1);
  if (type !== FLOAT && type !== INT64 && type !== DOUBLE) throw new Error(`a tensor has the type ${type}`);
  if (raw.length !== count * size) throw new Error(`a tensor of shape ${dims} has ${raw.length} bytes`);
  const read = {
    [FLOAT]: (i: number) => view.getFloat32(4 * i, true),
    [INT64]: (i: number) => Number(view.getBigInt64(8 * i, true)),
    [DOUBLE]: (i: number) => view.getFloat64(8 * i, true),
  }[type];
  return { dims, data: Float64Array.from({ length: count }, (_, i) => read(i)) };
}

function readAttribute(message: Message): Attribute {
  const kind = message.number(20);
  if (kind === 1) return message.number(2) ?? 0;
  if (kind === 2) return message.integers(3)[0] ?? 0;
  if (kind === 3) return message.text(4);
  if (kind === 4) return readTensor(message.messages(5)[0]);
  if (kind === 7) return message.integers(8);
  throw new Error(`the attribute ${message.text(1)} has the type ${kind}`);
}

function readNode(message: Message): GraphNode {
  const attributes = message.messages(5).map((each): [string, Attribute] => [each.text(1), readAttribute(each)]);
  return {
    operator: message.text(4),
    inputs: message.texts(1),
    outputs: message.texts(2),
    attributes: new Map(attributes),
  };
}

/** Read an ONNX file; one that is damaged, or has what no exported policy has, is an error. */
export function readModel(bytes: Uint8Array): Model {
  try {
    const model = new Message(bytes);
    const graph = model.messages(7)[0];
    const constants = graph.messages(5).map((each): [string, Tensor] => [each.text(8), readTensor(each)]);
    const metadata = model.messages(14).map((each): [string, string] => [each.text(1), each.text(2)]);
    return {
      nodes: graph.messages(1).map(readNode),
      constants: new Map(constants),
      inputs: graph.messages(11).map((each) => each.text(1)),
      outputs: graph.messages(12).map((each) => each.text(1)),
      metadata: new Map(metadata),
    };
  } catch (error) {
    throw new Error(`the network is not an ONNX file of an exported policy: ${(error as Error).message}`);
  }
}
