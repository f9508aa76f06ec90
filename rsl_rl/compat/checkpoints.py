"""Checkpoints of rsl_rl 1 to 5, read and written, as dicts."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.modules.policy import ActorCritic
from rsl_rl.modules.symmetry import SymmetricLinear
from rsl_rl.utils.checkpoints import FORMAT, CheckpointError, read_checkpoint, write_checkpoint
from rsl_rl.utils.files import atomic_write

ROLES = ("actor", "critic")

UNKNOWN_COUNT = 1e6
"""Samples behind a normaliser whose file does not say."""

_STATS = ("_mean", "_var", "_std", "count")
_KEPT = ("iter", "infos")
_OF_ADAM = {"betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "amsgrad": False, "maximize": False}


class Version(NamedTuple):
    """A version of rsl_rl."""

    major: int
    minor: int

    @classmethod
    def parse(cls, text: str) -> Version:
        """Return the version of a text such as "5.4" or "2.3.3"."""
        match = re.fullmatch(r"v?([1-5])(?:\.(\d+))?(?:\.\w+)*", text)
        if match is None:
            raise ValueError(f"to='{text}' is no version of rsl_rl known here; give one from 1.0 to 5.5, such as '5.4'")
        return cls(int(match.group(1)), int(match.group(2) or 0))


def convert_checkpoint(src: Union[str, Path], dst: Union[str, Path], to: str) -> None:
    """Write a checkpoint of this package, or of any version of rsl_rl, as a file of another version.

    ``to`` is that version, such as "5.4", or "native" for a file of this package. Running statistics, optimiser and
    iteration go along; what only a resumed run of this package needs does not. A network that the other version does
    not have is a :class:`CheckpointError`.
    """
    state = read_checkpoint(Path(src), convert=to_native)
    version = None if to == "native" else Version.parse(to)
    try:
        result = {"format": FORMAT, **state} if version is None else _for_version(state, version)
    except CheckpointError as error:
        raise CheckpointError(f"{src} cannot be converted to {to}: {error}") from error
    if version is None:
        write_checkpoint(Path(dst), result)
        return
    Path(dst).parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    torch.save(result, content)
    atomic_write(Path(dst), content.getvalue())


def _for_version(state: Mapping[str, Any], version: Version) -> Dict[str, Any]:
    """Return a checkpoint in our names, of whatever layers and networks, as one of a version."""
    _require_convertible(state)
    weights = state["model_state_dict"]
    if any(name in weights for name in _STD_OF_MODELS):
        kept = {key: state[key] for key in ("optimizer_state_dict", *_KEPT) if key in state}
        return {**parts_of_models(weights, version.major), "iter": 0, "infos": None, **kept}
    plain = _plain_weights(weights)
    state = {**state, "model_state_dict": plain}
    if plain.keys() != weights.keys() and "optimizer_state_dict" in state:  # its moments are those of other weights
        state["optimizer_state_dict"] = {**state["optimizer_state_dict"], "state": {}}
    return from_native(state, version)


# From a version to ours


def to_native(state: Any) -> Any:
    """Return a checkpoint of any version in our names; ours, and what is no checkpoint, as it is."""
    if not isinstance(state, dict) or "format" in state:
        return state
    weights: Dict[str, Any] = {}
    if "actor_state_dict" in state:
        for role in ROLES:
            weights.update(_renamed(state[f"{role}_state_dict"], _names_in_files(role)))
    elif "model_state_dict" not in state or _is_distillation(state["model_state_dict"]):
        return state
    else:
        weights.update(state["model_state_dict"])
        for key, beginning in _NORMALIZERS:
            weights.update(_renamed(state.get(key, {}), {"": beginning}))
    trained = [name for name in weights if name.rpartition(".")[2] not in _STATS]  # in the order of the optimiser
    native = {"model_state_dict": our_statistics(weights), **{key: state[key] for key in _KEPT if key in state}}
    if "optimizer_state_dict" in state:
        native["optimizer_state_dict"] = _reordered(state["optimizer_state_dict"], trained, _in_order(trained))
    return native


def rejoined(state: Any) -> Any:
    """Return a checkpoint of ours whose networks a client has parted, as mjlab 1.1 does, with all weights together;
    others as they are."""
    if not isinstance(state, dict) or "format" not in state or "actor_state_dict" not in state:
        return state
    parts = {role: f"{role}_state_dict" for role in ROLES}
    weights: Dict[str, Any] = {}
    for role, part in parts.items():
        weights.update(_renamed(state[part], {"mlp.": f"{role}.", "obs_normalizer.": f"{role}_obs_normalizer."}))
    others = {key: value for key, value in state.items() if key not in parts.values()}
    return {**others, "model_state_dict": weights}


_NORMALIZERS = (
    ("obs_norm_state_dict", "actor_obs_normalizer."),
    ("critic_obs_norm_state_dict", "critic_obs_normalizer."),
    ("privileged_obs_norm_state_dict", "critic_obs_normalizer."),
)
"""Parts of files of version 2, and how our names of their tensors begin."""


def _is_distillation(weights: Mapping[str, Any]) -> bool:
    return any(name.startswith("student.") for name in weights)


def student_and_teacher(state: Mapping[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Return the weights of the student, if there are some, and of the teacher under the names of an actor, from a file
    of a distillation or of a teacher's training."""
    roles = ("student", "teacher")
    if "student_state_dict" in state:
        parts = [_renamed(state[f"{role}_state_dict"], _names_in_files("actor")) for role in roles]
        return our_statistics(parts[0]), our_statistics(parts[1])
    weights = state.get("model_state_dict", {})
    if not _is_distillation(weights):
        native = to_native(state)
        return {}, native.get("model_state_dict", {}) if isinstance(native, dict) else {}
    std = {name: weights[name] for name in ("std", "log_std") if name in weights}
    parts = []
    for role in roles:
        normalizer = "actor_obs_normalizer."
        names = {f"{role}.": "actor.", f"memory_{role[0]}.": "memory_a.", f"{role}_obs_normalizer.": normalizer}
        parts.append(our_statistics({**_renamed(_starting_with(weights, *names), names), **std}))
    return parts[0], parts[1]


def our_statistics(weights: Mapping[str, Tensor]) -> Dict[str, Tensor]:
    """Return weights with running statistics as RunningNorm keeps them."""
    result: Dict[str, Tensor] = {}
    for name, value in weights.items():
        prefix, _, last = name.rpartition(".")
        if last in ("_mean", "_var"):
            result[f"{prefix}.{last[1:]}"] = value.squeeze(0)
            result.setdefault(f"{prefix}.count", torch.tensor(UNKNOWN_COUNT, dtype=torch.float64))
        elif last == "count":
            result[name] = value.double()
        elif last != "_std":
            result[name] = value
    return result


# From ours to a version


def from_native(state: Mapping[str, Any], version: Version) -> Dict[str, Any]:
    """Return a checkpoint in our names as one of a version of rsl_rl."""
    weights = dict(state["model_state_dict"])
    foreign = [name for name in weights if name.startswith(("encoder_", "value_normalizer.", "action_mirror"))]
    if foreign:
        raise CheckpointError(f"rsl_rl {version.major}.{version.minor} has no {foreign[0].partition('.')[0]}")
    statistics = {name: weights.pop(name) for name in list(weights) if "_obs_normalizer." in name}
    if statistics and version.major == 1:
        raise CheckpointError("rsl_rl 1 has no running normalisation of observations; convert to 2.0 or later")
    before, after = _in_order(list(weights)), _in_order(list(weights), version.major)
    weights = {name: weights[name] for name in after}
    statistics = _their_statistics(statistics, version)
    result: Dict[str, Any] = {}
    if version.major >= 4:
        for role in ROLES:
            theirs = {our: their for their, our in _names_in_files(role, version.major).items()}
            result[f"{role}_state_dict"] = _renamed(_starting_with({**weights, **statistics}, *theirs), theirs)
    else:
        result["model_state_dict"] = weights if version.major < 3 else {**weights, **statistics}
    if version.major == 2 and statistics:
        other = "privileged_obs_norm_state_dict" if version >= (2, 3) else "critic_obs_norm_state_dict"
        for key, start in (("obs_norm_state_dict", "actor_obs_normalizer."), (other, "critic_obs_normalizer.")):
            result[key] = _renamed(_starting_with(statistics, start), {start: ""})
    if "optimizer_state_dict" in state:
        result["optimizer_state_dict"] = _reordered(state["optimizer_state_dict"], before, after)
    result["iter"], result["infos"] = state.get("iter", 0), state.get("infos")
    return result


def _their_statistics(weights: Mapping[str, Tensor], version: Version) -> Dict[str, Tensor]:
    """Return running statistics as EmpiricalNormalization keeps them."""
    result: Dict[str, Tensor] = {}
    for name, value in weights.items():
        prefix, _, last = name.rpartition(".")
        if last != "count":
            result[f"{prefix}._{last}"] = value.unsqueeze(0)
        if last == "var":
            result[f"{prefix}._std"] = value.sqrt().unsqueeze(0)
        if last == "count" and version >= (2, 2):
            result[name] = value.long()
    return result


# Names, and the order of an optimiser


def _names_in_files(role: str, major: int = 5) -> Dict[str, str]:
    """Return how the names of a network's tensors begin in files of version 4 or 5, and how ours begin."""
    names = {"mlp.": f"{role}.", "rnn.rnn.": f"memory_{role[0]}.rnn.", "obs_normalizer.": f"{role}_obs_normalizer."}
    if role == "actor":
        theirs = "{}" if major == 4 else "distribution.{}_param"
        names.update({theirs.format(name): name for name in ("log_std", "std")})
    return names


def _starting_with(weights: Mapping[str, Tensor], *names: str) -> Dict[str, Tensor]:
    """Return the tensors whose names begin with one of ``names``."""
    return {name: value for name, value in weights.items() if name.startswith(names)}


def _renamed(weights: Mapping[str, Tensor], names: Mapping[str, str]) -> Dict[str, Tensor]:
    """Return tensors whose names begin otherwise; those that begin with none of ``names`` keep their names."""
    result: Dict[str, Tensor] = {}
    for name, value in weights.items():
        old = next((old for old in names if name.startswith(old)), None)
        result[name if old is None else names[old] + name[len(old) :]] = value
    return result


_ORDERS = {
    3: ("memory_a.", "actor.", "memory_c.", "critic."),
    4: ("actor.", "memory_a.", "critic.", "memory_c."),
    5: ("actor.", "memory_a.", "critic.", "memory_c."),
}
"""Order of the parameters in an optimiser, behind the standard deviation; that of versions 1 and 2 is ours."""


def _in_order(names: Sequence[str], major: int = 1) -> List[str]:
    """Return our names of parameters in the order of the optimiser of a version."""
    order = _ORDERS.get(major, ("actor.", "critic.", "memory_a.", "memory_c."))
    return sorted(names, key=lambda name: next((i + 1 for i, start in enumerate(order) if name.startswith(start)), 0))


def _reordered(optimizer: Mapping[str, Any], before: List[str], after: List[str]) -> Dict[str, Any]:
    """Return the state of an optimiser over the same parameters in another order."""
    group = {key: value for key, value in optimizer["param_groups"][0].items() if key != "params"}
    group["lr"] = float(group["lr"])
    places = [before.index(name) for name in after]
    own = {new: optimizer["state"][old] for new, old in enumerate(places) if old in optimizer["state"]}
    return {"state": own, "param_groups": [{**_OF_ADAM, **group, "params": list(range(len(after)))}]}


# A client's networks, symmetric layers, and a deviation that depends on the state

_STD_OF_MODELS = ("actor.distribution.std_param", "actor.distribution.log_std_param")
"""Names of the standard deviation of a client's networks."""
_MIRRORS = ("input_index", "input_sign", "output_index", "output_sign")


def _plain_weights(weights: Mapping[str, Tensor]) -> Dict[str, Tensor]:
    """Return weights with plain layers in the place of symmetric ones.

    A plain layer has the averages that a symmetric one computes with. A symmetric memory is a CheckpointError.
    """
    layers = [name[: -len("input_index")] for name in weights if name.endswith(".input_index")]
    if not layers:
        return dict(weights)
    if any(name.startswith("memory_") for name in weights):
        raise CheckpointError("rsl_rl has no counterpart of a symmetric memory; train a policy without symmetry")
    result = {name: value for name, value in weights.items() if name.rpartition(".")[2] not in _MIRRORS}
    for layer in layers:
        index, sign, out_index, out_sign = (weights[layer + name] for name in _MIRRORS)
        mirrors = [(tuple(i.tolist()), tuple(s.tolist())) for i, s in ((index, sign), (out_index, out_sign))]
        module = SymmetricLinear(mirrors[0], mirrors[1])
        module.load_state_dict({name: weights[layer + name] for name in module.state_dict()})
        with torch.no_grad():
            result[f"{layer}weight"], result[f"{layer}bias"] = module.weight_and_bias()
    heads = [layer for layer in layers if layer.startswith("actor.")]
    mirrored = weights[f"{heads[-1]}output_index"]  # that of the actions
    for name in ("std", "log_std"):
        if name in result:
            value = result[name].exp() if name == "log_std" else result[name]
            value = 0.5 * (value + value[mirrored])
            result[name] = value.log() if name == "log_std" else value
    return result


def _require_convertible(state: Mapping[str, Any]) -> None:
    """Raise a CheckpointError where a file of another version cannot say what a checkpoint of this package says."""
    weights = state.get("model_state_dict", {})
    if "teacher_state_dict" in state or _is_distillation(weights):
        raise CheckpointError("it is a distillation; load it with its runner and save runner.alg.save()")
    if not any(name in weights for name in ("std", "log_std", *_STD_OF_MODELS)):
        raise CheckpointError(
            "its standard deviation depends on the state, or its distribution has none, and the file does not say "
            "which; load it with its runner and save runner.alg.save()"
        )


def parts_of_models(weights: Mapping[str, Tensor], major: int) -> Dict[str, Dict[str, Tensor]]:
    """Return the weights of a client's networks as a file of version 4 or 5 holds them."""
    if major < 4:
        raise CheckpointError("its networks are derived from MLPModel, CNNModel or RNNModel; convert to 4.0 or later")
    parts: Dict[str, Dict[str, Tensor]] = {}
    for role in ROLES:
        own = _renamed(_starting_with(weights, f"{role}."), {f"{role}.": ""})
        if major == 4:
            own = {name.replace("distribution.", "").replace("_param", ""): value for name, value in own.items()}
        parts[f"{role}_state_dict"] = own
    return parts


def models_to_native(state: Any) -> Any:
    """Return a file of version 5 as a checkpoint for a policy of a client's networks; others as they are."""
    if not isinstance(state, dict) or "actor_state_dict" not in state:
        return state
    weights = {f"{role}.{name}": value for role in ROLES for name, value in state[f"{role}_state_dict"].items()}
    kept = {key: state[key] for key in (*_KEPT, "optimizer_state_dict") if key in state}
    return {"model_state_dict": weights, **kept}


def shift_std(weights: Mapping[str, Any], policy: ActorCritic, sign: int) -> Dict[str, Any]:
    """Return weights with the last bias of a policy whose standard deviation depends on the state where others have it
    (``sign`` 1), or back where we have it (-1): ours is relative to the deviation of the start."""
    cfg = policy.cfg
    if not cfg.state_dependent_std:
        return dict(weights)
    name = f"actor.{len(policy.actor) - 1}.bias"
    bias = torch.clone(weights[name])
    first = math.log(cfg.init_noise_std) if cfg.noise_std_type == "log" else cfg.init_noise_std
    bias[len(bias) // 2 :] += sign * first
    return {**weights, name: bias}
