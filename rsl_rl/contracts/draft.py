"""What a file of any format says of a policy: fields of the contract, and where each came from."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence

from rsl_rl.config.base import require
from rsl_rl.contracts.contract import (
    FORMAT,
    REQUIRED,
    Contract,
    contract_json,
    contract_of,
    nominal_observation,
    plain_mapping,
)
from rsl_rl.utils.config_io import convert, declared_types, short_repr
from rsl_rl.utils.registry import suggest

FIELDS = tuple(f.name for f in fields(Contract))

MAX_NUMBERS = 1_000_000
"""Largest size of an observation."""

UNITREE_MOTORS: Dict[str, Sequence[str]] = {
    "go2": [f"{leg}_{part}_joint" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf")],
    "g1": [
        *(
            f"{side}_{part}_joint"
            for side in ("left", "right")
            for part in ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
        ),
        *(f"waist_{axis}_joint" for axis in ("yaw", "roll", "pitch")),
        *(
            f"{side}_{part}_joint"
            for side in ("left", "right")
            for part in (
                *("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow"),
                *("wrist_roll", "wrist_pitch", "wrist_yaw"),
            )
        ),
    ],
}
"""Joints of Unitree's robots in the order of their motors."""


class Draft(NamedTuple):
    """What a file says of a policy."""

    kind: str  # name of the format
    values: Dict[str, Any]  # of the contract's fields, by name
    sources: Dict[str, str]  # where each value came from

    @property
    def missing(self) -> List[str]:
        """Needed fields that are not there; those that follow from the joints are not listed without joint_names."""
        follow = ("inputs", "outputs", "joint_signs", "joint_zeros") if "joint_names" not in self.values else ()
        return [name for name in REQUIRED if name not in self.values and name not in follow]

    def with_values(self, values: Mapping[str, Any], source: str) -> Draft:
        """Return the draft with other values."""
        return self._replace(
            values={**self.values, **values}, sources={**self.sources, **dict.fromkeys(values, source)}
        )

    def completed(self) -> Draft:
        """Return the draft with what follows from other fields: shapes of the network and the nominal observation."""
        terms, names = self.values.get("observations"), self.values.get("joint_names")
        found: Dict[str, Any] = {}
        if terms is not None and names is not None:
            total = sum(term["size"] * term.get("history", 1) for term in terms)
            require(total <= MAX_NUMBERS, f"observations has {total:,} numbers; give at most {MAX_NUMBERS:,}")
            found["inputs"] = {"obs": [1, total]}
            found["outputs"] = {"actions": [1, len(names)]}
            found["nominal_observation"] = nominal_observation(terms, self.values.get("history_order", "term"))
        return self.with_values(
            {name: value for name, value in found.items() if name not in self.values}, "sizes of the terms and joints"
        )

    def contract(self) -> Contract:
        """Return the contract; missing fields and those that do not fit are a ValueError that names them."""
        complete = self.completed()
        if complete.missing:
            raise ValueError(
                f"{self.kind} does not say {', '.join(complete.missing)}; give each with --set FIELD=VALUE"
            )
        return contract_of({"format": FORMAT, **complete.values})


def check_given(given: Mapping[str, Any]) -> None:
    """Raise a ValueError for a field that a contract does not have, or a value that does not fit."""
    hints = declared_types(Contract)
    for name, value in given.items():
        if name not in hints:
            raise ValueError(f"the contract has no field '{name}'; known: {', '.join(FIELDS)}.{suggest(name, FIELDS)}")
        convert(hints[name], value, name)


def draft_of(contract: Contract, kind: str, where: str) -> Draft:
    """Return the draft of a whole contract."""
    values = contract_json(contract)
    return Draft(kind, values, dict.fromkeys(values, where))


def plain_draft(kind: str, values: Mapping[str, Any], sources: Mapping[str, str], convention: str) -> Draft:
    """Return a draft of a format whose robots read and move as the simulation does, which ``convention`` says."""
    joints = len(values["joint_names"]) if "joint_names" in values else None
    mapping = plain_mapping(joints or 0)
    known = {name: value for name, value in mapping.items() if joints or not name.startswith("joint_")}
    draft = Draft(kind, dict(values), dict(sources))
    return draft.with_values({name: value for name, value in known.items() if name not in values}, convention)


def term(name: str, size: int, scale: Any = 1.0, **more: Any) -> Dict[str, Any]:
    """Return an observation term as plain values; equal scales become one."""
    if isinstance(scale, (list, tuple)) and len(set(scale)) == 1:
        scale = scale[0]
    frame = "joint" if name in ("joint_pos", "joint_vel", "action") else "base"
    return {"name": name, "size": size, "scale": scale, "frame": frame, **more}


def size_of(name: str, num_joints: int) -> int:
    """Return the numbers of a term that a robot senses."""
    return num_joints if name in ("joint_pos", "joint_vel", "action") else 2 if name == "gait_clock" else 3


def known_term(name: str, names: Mapping[str, str], where: str) -> str:
    """Return the contract's name of another program's term."""
    if name not in names:
        raise ValueError(
            f"{where}: the term {short_repr(name)} cannot be read on a robot; known: {', '.join(names)}"
            f".{suggest(str(name), names)}"
        )
    return names[name]


def other_name(name: str, names: Mapping[str, str], kind: str) -> str:
    """Return another program's name of a term of the contract; without one it is a ValueError."""
    for theirs, ours in names.items():
        if ours == name:
            return theirs
    raise ValueError(f"observations: {kind} has no term {name}; it has {', '.join(names.values())}")


def per_joint(value: Any, num_joints: int) -> List[float]:
    """Return a number for each joint of one number or a list."""
    return list(value) if isinstance(value, (list, tuple)) else [value] * num_joints


def section(values: Any, name: str, where: str) -> Mapping[str, Any]:
    """Return a mapping of a file; what is none is a ValueError."""
    found = values.get(name) if isinstance(values, Mapping) else None
    if not isinstance(found, Mapping):
        raise ValueError(f"{where}{name}={short_repr(found)}; give names with values")
    return found


def numbers(values: Mapping[str, Any], name: str, count: Optional[int] = None) -> Any:
    """Return a finite number of a file, or a list of ``count`` of them."""
    value = values.get(name)
    items = value if count is not None and isinstance(value, list) else [value]
    fits = all(isinstance(x, (int, float)) and not isinstance(x, bool) and abs(x) < 1e30 for x in items)
    if not fits or (count is not None and (not isinstance(value, list) or len(value) != count)):
        raise ValueError(f"{name}={short_repr(value)}; give {'a number' if count is None else f'{count} numbers'}")
    return value


def lost(contract: Contract, kept: Sequence[str]) -> List[str]:
    """Return the names of the fields that a format does not keep and that say more than their default."""
    plain, found = contract_json(contract), []
    plainest = {
        **{f.name: f.default for f in fields(Contract)},
        **plain_mapping(len(contract.joint_names)),
        "actuator": {"type": "pd"},
    }
    for name, value in plain.items():
        says_nothing = value in (None, {}, [], "", [0.0, 0.0]) or value == plainest.get(name)
        if name not in (*kept, "format", "inputs", "outputs", "nominal_observation") and not says_nothing:
            found.append(name)
    return found
