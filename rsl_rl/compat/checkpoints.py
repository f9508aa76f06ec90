"""Checkpoints of rsl_rl 1 to 5, read and written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, NamedTuple, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.compat.names_in_files import Names, names_for, optimizer_order
from rsl_rl.compat.plain_weights import is_of_models, parts_of_models, plain_weights, require_convertible
from rsl_rl.utils.checkpoints import FORMAT, CheckpointError, read_checkpoint, write_checkpoint

UNKNOWN_COUNT = 1e6
"""Samples behind a normaliser whose file does not say."""

_STATS = ("_mean", "_var", "count")
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
    torch.save(result, Path(dst))


def _for_version(state: Mapping[str, Any], version: Version) -> Dict[str, Any]:
    """Return a checkpoint in our names, of whatever layers and networks, as one of a version."""
    require_convertible(state)
    if is_of_models(state["model_state_dict"]):
        kept = {key: state[key] for key in ("optimizer_state_dict", *_KEPT) if key in state}
        return {**parts_of_models(state["model_state_dict"], version.major), "iter": 0, "infos": None, **kept}
    weights, was_symmetric = plain_weights(state["model_state_dict"])
    state = {**state, "model_state_dict": weights}
    if was_symmetric and "optimizer_state_dict" in state:  # its moments are those of other weights
        state["optimizer_state_dict"] = {**state["optimizer_state_dict"], "state": {}}
    return from_native(state, version)


def to_native(state: Any) -> Any:
    """Return a checkpoint of any version in our names; ours, and what is no checkpoint, as it is."""
    if not isinstance(state, dict) or "format" in state:
        return state
    parts = _parts(state)
    if parts is None:
        return state
    weights: Dict[str, Any] = {}
    trained: List[str] = []  # the optimiser's parameters in its order
    for names, tensors in parts:
        renamed = {names.to_native(name): value for name, value in tensors.items()}
        trained += [name for name in renamed if name.rpartition(".")[2] not in (*_STATS, "_std")]
        weights.update(renamed)
    weights = our_statistics(weights)
    native = {"model_state_dict": weights, **{key: state[key] for key in _KEPT if key in state}}
    if "optimizer_state_dict" in state:
        native["optimizer_state_dict"] = _reordered(state["optimizer_state_dict"], trained, native_order(trained))
    return native


def _parts(state: Mapping[str, Any]) -> Any:
    """Return pairs of names and tensors of the networks in a file, in the order of its optimiser; None for none."""
    if "actor_state_dict" in state:
        return [(names_for(5, role), state[f"{role}_state_dict"]) for role in ("actor", "critic")]
    if "model_state_dict" not in state:
        return None
    weights = state["model_state_dict"]
    if any(name.startswith("student.") for name in weights):
        return None  # a distillation, which has no critic
    parts = [(names_for(3, ""), weights)]
    for key, prefix in (
        ("obs_norm_state_dict", "actor_obs_normalizer."),
        ("critic_obs_norm_state_dict", "critic_obs_normalizer."),
        ("privileged_obs_norm_state_dict", "critic_obs_normalizer."),
    ):
        if key in state:
            parts.append((Names({"": prefix}), state[key]))
    return parts


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


def native_order(names: List[str]) -> List[str]:
    """Return the names of parameters in the order of our optimiser."""
    order = ("actor.", "critic.", "memory_a.", "memory_c.")
    return sorted(names, key=lambda name: next((i + 1 for i, prefix in enumerate(order) if name.startswith(prefix)), 0))


def _reordered(optimizer: Mapping[str, Any], before: List[str], after: List[str]) -> Dict[str, Any]:
    """Return the state of an optimiser over the same parameters in another order."""
    group = {key: value for key, value in optimizer["param_groups"][0].items() if key != "params"}
    group["lr"] = float(group["lr"])
    places = [before.index(name) for name in after]
    own = {new: optimizer["state"][old] for new, old in enumerate(places) if old in optimizer["state"]}
    return {"state": own, "param_groups": [{**_OF_ADAM, **group, "params": list(range(len(after)))}]}


def from_native(state: Mapping[str, Any], version: Version) -> Dict[str, Any]:
    """Return a checkpoint in our names as one of a version of rsl_rl."""
    weights = dict(state["model_state_dict"])
    foreign = [name for name in weights if name.startswith(("encoder_", "value_normalizer.", "action_mirror"))]
    if foreign:
        raise CheckpointError(f"rsl_rl {version.major}.{version.minor} has no {foreign[0].partition('.')[0]}")
    statistics = {name: weights.pop(name) for name in list(weights) if "_obs_normalizer." in name}
    if statistics and version.major == 1:
        raise CheckpointError("rsl_rl 1 has no running normalisation of observations; convert to 2.0 or later")
    before, after = native_order(list(weights)), optimizer_order(list(weights), version)
    weights = {name: weights[name] for name in after}
    result: Dict[str, Any] = {}
    if version.major >= 4:
        _write_models(result, {**weights, **_their_statistics(statistics, version)}, version)
    else:
        _write_policy(result, weights, _their_statistics(statistics, version), version)
    if "optimizer_state_dict" in state:
        optimizer = _policy_alone(state["optimizer_state_dict"], len(before))
        result["optimizer_state_dict"] = _reordered(optimizer, before, after)
    result["iter"], result["infos"] = state.get("iter", 0), state.get("infos")
    return result


def _policy_alone(optimizer: Mapping[str, Any], size: int) -> Dict[str, Any]:
    """Return the state of an optimiser without the parameters behind those of the policy."""
    own = {i: dict(moments) for i, moments in optimizer["state"].items() if i < size}
    return {"state": own, "param_groups": optimizer["param_groups"]}


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


def _write_models(result: Dict[str, Any], weights: Mapping[str, Tensor], version: Version) -> None:
    for role in ("actor", "critic"):
        names = names_for(version.major, role)
        result[f"{role}_state_dict"] = {
            names.from_native(name): value for name, value in weights.items() if names.has(name)
        }


def _write_policy(
    result: Dict[str, Any], weights: Mapping[str, Tensor], statistics: Mapping[str, Tensor], version: Version
) -> None:
    result["model_state_dict"] = dict(weights) if version.major < 3 else {**weights, **statistics}
    if version.major == 2 and statistics:
        other = "privileged_obs_norm_state_dict" if version >= (2, 3) else "critic_obs_norm_state_dict"
        for key, prefix in (("obs_norm_state_dict", "actor_obs_normalizer."), (other, "critic_obs_normalizer.")):
            own: Tuple[Tuple[str, Tensor], ...] = tuple(statistics.items())
            result[key] = {name[len(prefix) :]: value for name, value in own if name.startswith(prefix)}
