"""Export policies of robots as C99: one header and one source."""

from __future__ import annotations

import math
import re
import struct
from pathlib import Path
from string import Template
from typing import Any, Dict, List, Mapping, Sequence, Tuple, Union, cast

import torch
from torch import Tensor, nn

from rsl_rl.exporters.policy_module import BetaMean, FeedForwardPolicy, GRUPolicy, LSTMPolicy, Mean, policy_module
from rsl_rl.modules.mlp import Linear
from rsl_rl.modules.normalizer import RunningNorm
from rsl_rl.modules.policy import ActorCritic
from rsl_rl.modules.symmetry import SymmetricLinear
from rsl_rl.utils.files import atomic_write, make_folder

TEMPLATES = Path(__file__).parent / "c_source"
TERMS = ("base_lin_vel", "base_ang_vel", "gravity", "command", "joint_pos", "joint_vel", "action", "gait_clock")
"""Observation terms that policy.c can compute; in capitals they are its names of them."""
NEEDED = (
    *("task", "inputs", "observations", "observation_clip", "history_order", "control_period", "joint_names"),
    *("default_joint_pos", "joint_signs", "joint_zeros", "action_scale", "action_clip", "stiffness", "damping"),
    *("torque_limits", "target_limits", "input_limits", "command_ranges", "commands"),
    *("quaternion_order", "imu_mounting", "units"),
)
"""Fields of policy.json that become C."""
ACTIVATIONS = {
    nn.ELU: "x > 0.0f ? x : expm1f(x)",
    nn.CELU: "x > 0.0f ? x : expm1f(x)",
    nn.SELU: "1.0507009873554805f * (x > 0.0f ? x : 1.6732632423543772f * expm1f(x))",
    nn.ReLU: "x > 0.0f ? x : 0.0f",
    nn.LeakyReLU: "x > 0.0f ? x : 0.01f * x",
    nn.Tanh: "tanhf(x)",
    nn.Sigmoid: "1.0f / (1.0f + expf(-x))",
    nn.SiLU: "x / (1.0f + expf(-x))",
    nn.GELU: "0.5f * x * (1.0f + erff(x * 0.7071067811865476f))",
    nn.Softplus: "x > 20.0f ? x : log1pf(expf(x))",
    nn.Mish: "x * tanhf(x > 20.0f ? x : log1pf(expf(x)))",
    nn.Identity: "x",
}
"""C expressions of activations, with the parameters that rsl_rl.modules.mlp.get_activation gives them."""
_FLOAT_MAX = torch.finfo(torch.float32).max
_DEGREE = math.pi / 180.0
_LAYER = """typedef struct {
    int inputs, outputs;
    const float *weight; /* [outputs][inputs] */
    const float *bias; /* [outputs] */
} linear_layer;"""
_LAYER_INT8 = """typedef struct {
    int inputs, outputs;
    const signed char *weight; /* [outputs][inputs], -127 to 127 */
    const float *scale; /* [outputs], of the weights */
    const float *bias; /* [outputs] */
} linear_layer;"""
_PRODUCT = "dot(layer->weight + (long)i * layer->inputs, x, layer->inputs)"
_PRODUCT_INT8 = "layer->scale[i] * dot_int8(layer->weight + (long)i * layer->inputs, x, layer->inputs)"
_DOT_INT8 = """static float dot_int8(const signed char *a, const float *b, int size)
{
    float sums[8] = {0.0f};
    int i = 0;

    for (; i + 8 <= size; i += 8)
        for (int k = 0; k < 8; k++)
            sums[k] += (float)a[i + k] * b[i + k];
    for (; i < size; i++)
        sums[0] += (float)a[i] * b[i];
    return ((sums[0] + sums[4]) + (sums[1] + sums[5])) + ((sums[2] + sums[6]) + (sums[3] + sums[7]));
}

"""
_SIGMOID = """static float sigmoid(float x)
{
    return 1.0f / (1.0f + expf(-x));
}
"""
_GRU = """/* Advance a layer of gated recurrent units; the gates are reset, update, new. */
static void gru(const linear_layer *input, const linear_layer *hidden, const float *x, float *h)
{
    float from_x[3 * UNITS], from_h[3 * UNITS];

    linear(input, x, from_x);
    linear(hidden, h, from_h);
    for (int i = 0; i < UNITS; i++) {
        const float reset = sigmoid(from_x[i] + from_h[i]);
        const float update = sigmoid(from_x[UNITS + i] + from_h[UNITS + i]);
        const float candidate = tanhf(from_x[2 * UNITS + i] + reset * from_h[2 * UNITS + i]);
        h[i] = (1.0f - update) * candidate + update * h[i];
    }
}
"""
_LSTM = """/* Advance a layer of long short-term memory; the gates are input, forget, cell, output. */
static void lstm(const linear_layer *input, const linear_layer *hidden, const float *x, float *h, float *c)
{
    float from_x[4 * UNITS], from_h[4 * UNITS];

    linear(input, x, from_x);
    linear(hidden, h, from_h);
    for (int i = 0; i < 4 * UNITS; i++)
        from_x[i] += from_h[i];
    for (int i = 0; i < UNITS; i++) {
        c[i] = sigmoid(from_x[UNITS + i]) * c[i] + sigmoid(from_x[i]) * tanhf(from_x[2 * UNITS + i]);
        h[i] = sigmoid(from_x[3 * UNITS + i]) * tanhf(c[i]);
    }
}
"""
_BETA_MEAN = """static float softplus(float x)
{
    return x > 20.0f ? x : log1pf(expf(x));
}
"""


def rounded_weights(weight: Tensor) -> Tuple[Tensor, Tensor]:
    """Return weights [O, I] as whole numbers from -127 to 127 (int8), and the scale of each output [O]."""
    largest = weight.detach().abs().amax(dim=1)
    scale = torch.where(largest > 0, largest / 127, torch.ones_like(largest))
    return (weight.detach() / scale[:, None]).round().to(torch.int8), scale


def export_c(policy: ActorCritic, path: Path, description: Mapping[str, Any], int8: bool = False) -> Path:
    """Write a policy of a robot as C99 with the header beside it; names in it begin with the name of the file.

    ``description`` is the content of policy.json; with ``int8`` the weights of linear and recurrent layers are rounded,
    see :func:`rounded_weights`. What the C program cannot do is a ValueError.
    """
    prefix = path.stem
    if not re.fullmatch(r"[a-z]\w*", prefix, flags=re.ASCII):
        raise ValueError(f"{path.name}: functions in C begin with this name; give lower-case letters, digits and _")
    module = policy_module(policy)
    values = {
        "header": path.with_suffix(".h").name,
        **_description_values(description),
        **_network_values(module, int8),
    }
    if module.num_obs != values["num_obs"] or values["num_actions"] != values["num_joints"]:
        raise ValueError(
            f"the network has {module.num_obs} observations and {values['num_actions']} actions; the description has "
            f"{values['num_obs']} and {values['num_joints']}"
        )
    make_folder(path.parent)
    for suffix in (".h", ".c"):
        text = (TEMPLATES / f"policy{suffix}").read_text()
        text = re.sub(r"\bpolicy_", f"{prefix}_", re.sub(r"\bPOLICY_", f"{prefix.upper()}_", text))
        atomic_write(path.with_suffix(suffix), Template(text).substitute(values).encode())
    return path


def _description_values(description: Mapping[str, Any]) -> Dict[str, Any]:
    """Return what the templates need of policy.json; a description of another form is a ValueError."""
    try:
        return _values_of(description)
    except (KeyError, TypeError, AttributeError, IndexError, OverflowError, struct.error) as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:100]}"
        raise ValueError(f"the description does not fit ({reason}); give the content of policy.json") from error


def _values_of(description: Mapping[str, Any]) -> Dict[str, Any]:
    if "joint_names" not in description:
        raise ValueError("a policy in C is for robots, and this task has none; use ONNX or TorchScript")
    missing = [name for name in NEEDED if name not in description]
    if missing:
        raise ValueError(f"the description lacks {', '.join(missing)}; give the content of policy.json")
    clips = (description["observation_clip"], *(term.get("clip") for term in description["observations"]))
    if any(clip is not None for clip in clips) or description["history_order"] != "term":
        raise ValueError("C has no clip of observations, and no history_order but term; use ONNX or TorchScript")
    joints = len(description["joint_names"])
    if not all(name.isascii() and name.isprintable() for name in description["joint_names"]):
        raise ValueError(f"joint_names={description['joint_names']}; C needs names of ASCII letters")
    scale, limits = description["action_scale"], description["input_limits"]
    if description["target_limits"] is None:
        raise ValueError("the description has no target_limits; C needs the lowest and highest target of each joint")
    targets = list(zip(*description["target_limits"]))
    per_joint = {
        "default_joint_pos": description["default_joint_pos"],
        "action_scale": scale if isinstance(scale, (list, tuple)) else [scale] * joints,
        "lowest_target": targets[0],
        "highest_target": targets[1],
        "joint_stiffness": description["stiffness"],
        "joint_damping": description["damping"],
        "joint_torque_limits": description["torque_limits"],
        "joint_signs": description["joint_signs"],
        "joint_zeros": description["joint_zeros"],
    }
    _check_sizes(description, per_joint)
    order, units = description["quaternion_order"], description["units"]
    unit = {"pos": units["joint_pos"], "vel": units["joint_vel"], "ang_vel": units["base_ang_vel"]}
    if order not in ("wxyz", "xyzw") or unit["pos"] not in ("rad", "deg"):
        raise ValueError(f"quaternion_order={order!r} and units={units!r}; give wxyz or xyzw, and rad or deg")
    if not {unit["vel"], unit["ang_vel"]} <= {"rad/s", "deg/s"}:
        raise ValueError(f"units={units!r}; give rad/s or deg/s for velocities")
    commands = description["commands"]
    rates = [commands.get("velocity", {}).get(name, 0.0) for name in ("max_lin_acc", "max_yaw_acc")]
    clock = commands.get("gait_clock", {"period": 1.0, "dead_zone": 0.0})
    sensed = _sensed(description["observations"])
    known = description["command_ranges"] or [(-_FLOAT_MAX, _FLOAT_MAX)] * 3
    ranges = [(min(low, 0.0), max(high, 0.0)) for low, high in known]
    return {
        **{f"{name}_unit": text for name, text in unit.items()},
        **{f"{name}_factor": _number(_DEGREE if text[:3] == "deg" else 1.0) for name, text in unit.items()},
        "task": re.sub(r"[^\w .:-]", "_", description["task"], flags=re.ASCII),
        "num_joints": joints,
        "num_obs": description["inputs"]["obs"][1],
        "control_period": _double(description["control_period"]),
        "sensed": ", ".join(sensed),
        "reads_command": int("command" in sensed),
        "quaternion_order": f"{' '.join(order)}, to the world",
        "quaternion_index": ", ".join(str(order.index(axis)) for axis in "wxyz"),
        "imu_mounting": _row(description["imu_mounting"]),
        "joint_names": ",\n".join(f'    "{_escaped(name)}"' for name in description["joint_names"]),
        "joints": "\n".join(_array(name, values) for name, values in per_joint.items()),
        "action_clip": _number(_FLOAT_MAX if description["action_clip"] is None else description["action_clip"]),
        "lowest_command": _row([low for low, _ in ranges]),
        "highest_command": _row([high for _, high in ranges]),
        "largest_change": _row([rate * description["control_period"] for rate in (rates[0], *rates)]),
        "clock_period": _double(clock["period"]),
        "clock_dead_zone": _double(-1.0 if clock.get("dead_zone") is None else clock["dead_zone"]),
        "largest_number": _number(limits.get("observation", _FLOAT_MAX)),
        "terms": ",\n".join(_term(term, limits) for term in description["observations"]),
    }


def _check_sizes(description: Mapping[str, Any], per_joint: Mapping[str, Sequence[float]]) -> None:
    """Raise a ValueError for sizes that contradict each other; C would read beyond its arrays."""
    joints, total = len(description["joint_names"]), 0
    for name, values in per_joint.items():
        if len(values) != joints:
            raise ValueError(f"{name} has {len(values)} values; give one for each of {joints} joints")
    for term in description["observations"]:
        name = term["name"]
        if name not in TERMS:
            raise ValueError(
                f"C code does not read {' '.join(str(name).split())}, but {', '.join(TERMS)}; run policy.onnx"
            )
        size = joints if name in ("joint_pos", "joint_vel", "action") else 2 if name == "gait_clock" else 3
        if term["size"] != size or term["history"] < 1:
            raise ValueError(
                f"observations: {name} has the size {term['size']} and a history of {term['history']}; give {size} "
                "numbers and at least one step"
            )
        total += size * term["history"]
    if description["inputs"]["obs"] != [1, total]:
        raise ValueError(f"inputs: obs is {description['inputs']['obs']}; the observations have {total} numbers")


def _sensed(terms: Sequence[Mapping[str, Any]]) -> List[str]:
    """Return the names of the readings that the policy needs."""
    source = {"gravity": "base_quat", "gait_clock": "command"}
    names = [str(term["name"]) for term in terms if term["name"] != "action"]
    return list(dict.fromkeys(source.get(name, name) for name in names))


def _term(term: Mapping[str, Any], limits: Mapping[str, float]) -> str:
    """Return the row of an observation term."""
    name = term["name"]
    what = "base_quat is missing or not a unit quaternion" if name == "gravity" else None
    what = what or f"{name} is missing, not finite, or larger than any in training"
    scale = term["scale"] if isinstance(term["scale"], (list, tuple)) else [term["scale"]] * term["size"]
    if len(scale) != term["size"]:
        raise ValueError(f"observations: {name} has {len(scale)} scales; give one number, or {term['size']}")
    numbers = f"{{{_row(scale)}}}, {_number(limits.get(name, _FLOAT_MAX))}"
    return f'    {{{name.upper()}, {term["size"]}, {term["history"]}, {numbers}, "{what}"}}'


def _network_values(module: FeedForwardPolicy, int8: bool) -> Dict[str, Any]:
    """Return what the templates need of the network: weights, functions, and statements that fill ``action``."""
    if type(module) not in (FeedForwardPolicy, GRUPolicy, LSTMPolicy):
        raise ValueError(f"C has no {type(module).__name__}, such as networks with images; use ONNX or TorchScript")
    program = _Program(int8)
    if isinstance(module.normalizer, RunningNorm):
        std = module.normalizer.var.sqrt() + module.normalizer.eps
        program.add_arrays(obs_mean=module.normalizer.mean, obs_std=std)
        program.add_loop("NUM_OBS", "x[i] = (obs[i] - obs_mean[i]) / obs_std[i];")
    else:
        program.add_statement("copy(obs, x, NUM_OBS);")
    program.width = module.num_obs
    if isinstance(module, GRUPolicy):
        program.add_memory(cast(nn.RNNBase, module.rnn))
    else:
        program.add_statement("(void)memory;")
    for layer in module.actor:
        program.add_layer(layer)
    program.add_statement(f"copy({program.current}, action, NUM_JOINTS);")
    return program.values()


class _Program:
    """The network as C, layer by layer: activations are in ``x`` or ``y``, and a linear layer writes the other one."""

    def __init__(self, int8: bool) -> None:
        self._int8 = int8
        self.current, self.width, self.widest, self.num_states, self.num_linear = "x", 0, 0, 0, 0
        self.arrays: List[str] = []
        self.functions: Dict[str, str] = {}
        self.statements: List[str] = []

    def values(self) -> Dict[str, Any]:
        return {
            "linear_layer": _LAYER_INT8 if self._int8 else _LAYER,
            "row_product": _PRODUCT_INT8 if self._int8 else _PRODUCT,
            "int8_product": _DOT_INT8 if self._int8 else "",
            "weights": "\n".join(self.arrays),
            "functions": "\n".join(self.functions.values()),
            "network": "\n".join(f"    {line}" for line in self.statements),
            "width": max(self.widest, self.width),
            "num_actions": self.width,
            "num_states": max(1, self.num_states),
        }

    def add_statement(self, line: str) -> None:
        self.statements.append(line)

    def add_loop(self, count: Union[int, str], statement: str) -> None:
        self.statements += [f"for (int i = 0; i < {count}; i++)", f"    {statement}"]

    def add_arrays(self, **tensors: Tensor) -> None:
        if not all(tensor.isfinite().all() for tensor in tensors.values()):
            raise ValueError("the network has weights that are not finite; export another checkpoint")
        self.arrays += [_array(name, tensor.flatten().tolist()) for name, tensor in tensors.items()]

    def add_linear_layer(self, name: str, weight: Tensor, bias: Tensor) -> None:
        self.add_arrays(**{f"{name}_bias": bias})
        outputs, inputs = weight.shape
        parts = [f"{name}_weight", f"{name}_bias"]
        if self._int8 and weight.isfinite().all():
            whole, scale = rounded_weights(weight)
            self.arrays.append(_array(parts[0], whole.flatten().tolist(), "signed char"))
            self.add_arrays(**{f"{name}_scale": scale})
            parts.insert(1, f"{name}_scale")
        else:
            self.add_arrays(**{parts[0]: weight})
        self.arrays.append(f"static const linear_layer {name} = {{{inputs}, {outputs}, {', '.join(parts)}}};\n")

    def add_layer(self, layer: nn.Module) -> None:
        """Add a layer of the actor."""
        self.widest = max(self.widest, self.width)
        x, y = self.current, "y" if self.current == "x" else "x"
        if isinstance(layer, (Linear, SymmetricLinear)):
            name = f"linear_{self.num_linear}"
            self.add_linear_layer(name, *layer.weight_and_bias())
            self.add_statement(f"linear(&{name}, {x}, {y});")
            self.current, self.width, self.num_linear = y, layer.out_features, self.num_linear + 1
        elif isinstance(layer, Mean):
            self.width //= 2
        elif isinstance(layer, BetaMean):
            self.functions["softplus"] = _BETA_MEAN
            alpha, beta = (f"(1.0f + softplus({x}[{place}]))" for place in ("i", "NUM_JOINTS + i"))
            low, width = _number(layer.low), _number(layer.width)
            self.add_loop("NUM_JOINTS", f"{y}[i] = {low} + {width} * {alpha} / ({alpha} + {beta});")
            self.current, self.width = y, self.width // 2
        elif type(layer) in ACTIVATIONS:
            name, expression = f"apply_{type(layer).__name__.lower()}", ACTIVATIONS[type(layer)]
            self.functions[name] = f"static float {name}(float x)\n{{\n    return {expression};\n}}\n"
            self.add_loop(self.width, f"{x}[i] = {name}({x}[i]);")
        else:
            raise ValueError(f"C has no layer {type(layer).__name__}; use ONNX or TorchScript")

    def add_memory(self, rnn: nn.RNNBase) -> None:
        """Add recurrent layers; the states of all layers come after one another, first h, then c."""
        units, kind = rnn.hidden_size, "gru" if isinstance(rnn, nn.GRU) else "lstm"
        self.functions = {
            "sigmoid": f"enum {{ UNITS = {units} }};\n\n{_SIGMOID}",
            kind: _GRU if kind == "gru" else _LSTM,
        }
        source = "x"
        for layer in range(rnn.num_layers):
            names = [f"memory_{layer}_{part}" for part in ("input", "hidden")]
            for name, part in zip(names, ("ih", "hh")):
                self.add_linear_layer(name, *(getattr(rnn, f"{field}_{part}_l{layer}") for field in ("weight", "bias")))
            states = [f"memory->units + {(layer + rnn.num_layers * i) * units}" for i in range(1 + (kind == "lstm"))]
            self.add_statement(f"{kind}(&{names[0]}, &{names[1]}, {source}, {', '.join(states)});")
            source = states[0]
        self.add_statement(f"copy({source}, x, UNITS);")
        self.num_states = rnn.num_layers * units * (1 if kind == "gru" else 2)
        self.widest, self.width = max(self.widest, self.width), units


def _number(value: float) -> str:
    """Return a number as a float constant of C that is exactly the number in 32 bits; a larger one is a ValueError."""
    (rounded,) = struct.unpack("f", struct.pack("f", value))
    if not math.isfinite(rounded):
        raise ValueError(f"the description has the number {value}; C needs finite ones")
    text = f"{rounded:.9g}"
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def _double(value: float) -> str:
    """Return a number as a constant of C with 64 bits."""
    if not math.isfinite(value):
        raise ValueError(f"the description has the number {value}; C needs finite ones")
    return repr(float(value))


def _row(values: Sequence[float]) -> str:
    return ", ".join(map(_number, values))


def _array(name: str, values: Sequence[float], kind: str = "float") -> str:
    """Return the definition of an array, eight numbers a line."""
    row = _row if kind == "float" else lambda part: ", ".join(map(str, part))
    rows = ",\n".join(f"    {row(values[i : i + 8])}" for i in range(0, len(values), 8))
    return f"static const {kind} {name}[{len(values)}] = {{\n{rows}\n}};"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("?", "\\?")  # two of them begin a trigraph
