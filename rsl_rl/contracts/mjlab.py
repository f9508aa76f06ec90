"""Metadata of mjlab's ONNX files: lists with commas, and lists in them with semicolons.

Joint targets are default_joint_pos + action_scale * action. The file has neither rates nor limits.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Union

from rsl_rl.contracts.contract import Contract
from rsl_rl.contracts.draft import Draft, known_term, lost, other_name, plain_draft, size_of, term
from rsl_rl.contracts.onnx_file import read_metadata, with_metadata
from rsl_rl.utils.config_io import short_repr
from rsl_rl.utils.files import atomic_write

KIND = "mjlab"
CONVENTION = "convention of mjlab"
TERMS = {
    "base_lin_vel": "base_lin_vel",
    "base_ang_vel": "base_ang_vel",
    "projected_gravity": "gravity",
    "command": "command",
    "joint_pos": "joint_pos",
    "joint_vel": "joint_vel",
    "actions": "action",
}
"""Their names of observation terms, and ours."""
_PER_TERM = ("scale", "history_length", "clip")


def recognises(path: Path) -> bool:
    """Return whether a file is of this format."""
    return path.suffix == ".onnx" and "observation_names" in read_metadata(path)


def read(path: Path, given: Mapping[str, Any]) -> Draft:
    """Read the metadata of an ONNX file."""
    file = read_metadata(path)
    values: Dict[str, Any] = {"joint_names": _listed(file, "joint_names")}
    joints = len(values["joint_names"])
    names = {"stiffness": "joint_stiffness", "damping": "joint_damping", "default_joint_pos": "default_joint_pos"}
    for ours, theirs in names.items():
        values[ours] = _numbers(file, theirs, joints)
    values["action_scale"] = _numbers(file, "action_scale", joints if "," in file.get("action_scale", "") else 1)
    values["action_scale"] = values["action_scale"] if len(values["action_scale"]) > 1 else values["action_scale"][0]
    values["observations"] = _terms(file, joints)
    sources = {ours: f"metadata {names.get(ours, ours)}" for ours in values}
    sources["observations"] = "metadata observation_names and observation_terms_*"
    values["action_clip"], sources["action_clip"] = None, f"{CONVENTION}: actions are not clipped"
    if file.get("run_path"):
        values["provenance"], sources["provenance"] = {"checkpoint": file["run_path"]}, "metadata run_path"
    return plain_draft(KIND, values, sources, CONVENTION)


def _listed(file: Mapping[str, str], name: str) -> List[str]:
    if not file.get(name):
        raise ValueError(f"the metadata lacks {name}; export the policy again, or give --set {name}")
    return [item.strip() for item in file[name].split(",")]


def _numbers(file: Mapping[str, str], name: str, count: int) -> List[float]:
    items = _listed(file, name)
    if len(items) != count:
        raise ValueError(f"{name}={short_repr(file[name])} has {len(items)} numbers; there are {count}")
    return [_number(item, name) for item in items]


def _number(text: str, name: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"{name}: {short_repr(text)} is no number") from error


def _terms(file: Mapping[str, str], joints: int) -> List[Dict[str, Any]]:
    names = _listed(file, "observation_names")
    settings = {}
    for setting in _PER_TERM:
        key = f"observation_terms_{setting}"
        settings[setting] = _listed(file, key) if key in file else [""] * len(names)
        if len(settings[setting]) != len(names):
            raise ValueError(f"{key}={short_repr(file[key])}; give one for each of {len(names)} terms")
    terms = []
    for i, name in enumerate(names):
        ours = known_term(name, TERMS, "observation_names")
        scale: Union[float, List[float]] = 1.0
        if settings["scale"][i]:
            scales = [_number(x, f"scale of {name}") for x in settings["scale"][i].split(";")]
            scale = scales if len(scales) > 1 else scales[0]
        clip = [_number(x, f"clip of {name}") for x in settings["clip"][i].split(";")] if settings["clip"][i] else []
        history = _number(settings["history_length"][i] or "0", f"history of {name}")
        if not 0 <= history <= 1000:  # false of NaN
            raise ValueError(f"observation_terms_history_length: {history:g} of {name}; give a number of steps")
        clipped = len(clip) == 2 and any(map(math.isfinite, clip))
        terms.append(
            term(
                ours,
                size_of(ours, joints),
                scale,
                history=max(1, int(history)),
                clip=_bounded(clip) if clipped else None,
            )
        )
    return terms


def _bounded(clip: List[float]) -> List[float]:
    """Return finite limits; JSON has no others."""
    return [max(-3e38, min(3e38, x)) for x in clip]


def write(contract: Contract, path: Path, network: Optional[Path] = None) -> List[str]:
    """Write a copy of an ONNX network with the metadata; return the names of the fields that it cannot carry."""
    if network is None or network.suffix != ".onnx":
        raise ValueError(f"{KIND} writes metadata into an ONNX file; give --network policy.onnx")
    wrong_name = next((name for name in contract.joint_names if "," in name or name != name.strip()), None)
    if wrong_name is not None:
        raise ValueError(f"joint_names: {short_repr(wrong_name)} has a comma or spaces, which {KIND} cannot carry")
    terms = contract.observations
    scale = contract.action_scale
    metadata = {
        "run_path": contract.provenance.checkpoint,
        "joint_names": ",".join(contract.joint_names),
        "joint_stiffness": _joined(contract.stiffness),
        "joint_damping": _joined(contract.damping),
        "default_joint_pos": _joined(contract.default_joint_pos),
        "command_names": "twist",
        "observation_names": ",".join(other_name(own.name, TERMS, KIND) for own in terms),
        "observation_terms_scale": ",".join(
            _joined(own.scale, ";") if isinstance(own.scale, tuple) else repr(own.scale) for own in terms
        ),
        "observation_terms_flatten_history_dim": ",".join("True" for _ in terms),
        "observation_terms_history_length": ",".join(str(own.history if own.history > 1 else 0) for own in terms),
        "observation_terms_clip": ",".join(_joined(own.clip or (-math.inf, math.inf), ";") for own in terms),
        "action_scale": _joined(scale) if isinstance(scale, tuple) else repr(scale),
    }
    atomic_write(path, with_metadata(network, metadata))
    kept = ["joint_names", "stiffness", "damping", "default_joint_pos", "action_scale", "observations"]
    kept.append("network_sha256")  # the file has the network itself
    return lost(contract, kept)


def _joined(numbers: Any, separator: str = ",") -> str:
    return separator.join(map(repr, numbers))
