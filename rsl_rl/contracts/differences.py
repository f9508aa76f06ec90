"""Differences of two contracts, in sentences."""

from __future__ import annotations

from typing import Any, Iterator, List, Mapping

from rsl_rl.contracts.contract import PER_JOINT, Contract, contract_json
from rsl_rl.utils.config_io import short_repr

TOLERANCE = 1e-6
"""Relative difference of numbers that are equal; files are written with different precision."""

_NOT_COMPARED = ("joint_names", "observations", "provenance", "network_sha256", "nominal_observation", *PER_JOINT)


def differences(first: Contract, second: Contract) -> List[str]:
    """Return a sentence for each difference; joints are compared by name. Networks and provenance are not compared."""
    return [*_of_joints(first, second), *_of_terms(first, second), *_of_others(first, second)]


def _of_joints(first: Contract, second: Contract) -> Iterator[str]:
    ours, theirs = first.joint_names, second.joint_names
    for one, other, where in ((ours, theirs, "first"), (theirs, ours, "second")):
        alone = [name for name in one if name not in other]
        if alone:
            yield f"joint_names: only the {where} has {', '.join(alone)}"
    common = [name for name in ours if name in theirs]
    if common != [name for name in theirs if name in ours]:
        yield f"joint_names: another order; the first has {', '.join(ours)}, the second {', '.join(theirs)}"
    for field in PER_JOINT:
        one, other = (_by_name(contract, field) for contract in (first, second))
        unequal = [name for name in common if not _equal(one.get(name), other.get(name))]
        pairs = {(short_repr(one.get(name)), short_repr(other.get(name))) for name in unequal}
        for mine, yours in sorted(pairs):
            named = [n for n in unequal if (short_repr(one.get(n)), short_repr(other.get(n))) == (mine, yours)]
            whose = "all joints" if len(named) == len(ours) else ", ".join(named)
            yield f"{field} of {whose}: {mine} and {yours}"


def _by_name(contract: Contract, field: str) -> Mapping[str, Any]:
    value = getattr(contract, field)
    if not isinstance(value, tuple):
        value = (value,) * len(contract.joint_names)
    return dict(zip(contract.joint_names, value))


def _of_terms(first: Contract, second: Contract) -> Iterator[str]:
    ours, theirs = ([own.name for own in contract.observations] for contract in (first, second))
    if ours != theirs:
        yield f"observations: the first has {', '.join(ours)}; the second {', '.join(theirs)}"
    others = {own.name: own for own in second.observations}
    for own in first.observations:
        other = others.get(own.name)
        for field in ("size", "scale", "history", "clip", "delay") if other is not None else ():
            one, two = _spread(getattr(own, field), own.size), _spread(getattr(other, field), own.size)
            if not _equal(one, two):
                shown = short_repr(getattr(own, field)), short_repr(getattr(other, field))
                yield f"observations: {field} of {own.name}: {shown[0]} and {shown[1]}"


def _spread(value: Any, size: int) -> Any:
    return (value,) * size if isinstance(value, float) else value


def _of_others(first: Contract, second: Contract) -> Iterator[str]:
    one, other = contract_json(first), contract_json(second)
    for field in one:
        if field not in _NOT_COMPARED and not _equal(one[field], other[field]):
            yield f"{field}: {short_repr(one[field])} and {short_repr(other[field])}"


def _equal(one: Any, other: Any) -> bool:
    """Return whether values are equal, numbers nearly."""
    if isinstance(one, float) and isinstance(other, (int, float)):
        return abs(one - other) <= TOLERANCE * max(1.0, abs(one))
    if isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        return len(one) == len(other) and all(map(_equal, one, other))
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_equal(one[name], other[name]) for name in one)
    return bool(one == other)
