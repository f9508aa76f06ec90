"""The parameters that an identification estimates: names, units, nominal values, and what counts as determined."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, NamedTuple, Sequence, Tuple

import numpy as np

LEVEL = 1.645
"""Half width of a 90 % interval of a normal distribution, in standard deviations."""


class Kind(NamedTuple):
    """One kind of parameter."""

    unit: str
    size: str  # "joints", "xyz", or "" for one number
    floor_only: bool  # whether a robot on a stand tells nothing of it
    what: str
    excite: str  # what determines it


KINDS: Dict[str, Kind] = {
    "armature": Kind(
        "kg m^2", "joints", False, "inertia of the rotor, seen at the joint", "faster motions of the joint, above 2 Hz"
    ),
    "motor_strength": Kind(
        "", "joints", False, "torque over the torque that was asked for", "motions that lift or accelerate the leg"
    ),
    "viscous_friction": Kind(
        "N m s/rad", "joints", False, "friction in proportion to the velocity", "fast motions of the joint"
    ),
    "joint_friction": Kind(
        "N m", "joints", False, "dry friction", "slow motions of the joint that turn round often"
    ),
    "torque_limit": Kind(
        "N m", "joints", False, "largest torque that can be asked for", "targets so far away that the torque is limited"
    ),
    "encoder_offset": Kind(
        "rad", "joints", False, "angle that the encoder adds", "slow motions on a stand over a large range"
    ),
    "action_delay": Kind(
        "s", "", False, "time between a target and its torque, and between a motion and its reading", "faster motions"
    ),
    "payload": Kind("kg", "", True, "mass added to the trunk", "a log of walking and one on a stand"),
    "trunk_com": Kind(
        "m", "xyz", True, "displacement of the trunk's centre of mass", "a log of the robot walking on the floor"
    ),
    "friction": Kind("", "", True, "sliding friction of the feet", "a log in which feet slip"),
}  # fmt: skip

ALIKE = (
    ("action_delay", "a delay of the readings: only the sum of both is in a log whose times are of one computer"),
    ("motor_strength", "a factor of the stiffness: the same as long as the torque is not limited"),
    ("viscous_friction", "a factor of the damping: the same as long as the torque is not limited"),
)
"""Parameters, and others with the same effect on every log. The first of each pair stands for both."""


class Parameter(NamedTuple):
    """One number to estimate."""

    kind: str
    name: str  # of the joint, group of joints or axis; empty for one number
    nominal: float
    spread: float  # standard deviation of what is believed before the log
    least: float
    useful: float  # half width of an interval that counts as determined, at the nominal value
    places: Tuple[int, ...]  # its numbers among those of the kind

    @property
    def label(self) -> str:
        return f"{self.kind} of {self.name}" if self.name else self.kind

    def is_determined(self, value: float, half_width: float) -> bool:
        """Return whether an interval of this half width is narrow enough to use."""
        relative = 0.2 * abs(value) if self.kind in ("armature", "viscous_friction", "joint_friction") else 0.0
        return bool(half_width <= max(self.useful, relative))


@dataclass(frozen=True)
class Layout:
    """The parameters of a fit, and the numbers of the robot that they stand for."""

    parameters: Tuple[Parameter, ...]
    numbers: Dict[str, np.ndarray]
    """Numbers of each kind [size]; those that no parameter stands for are known."""

    def with_known(self, known: Mapping[Parameter, float]) -> Layout:
        """Return the layout in which some parameters are known, so that they are not estimated."""
        numbers = {kind: values.copy() for kind, values in self.numbers.items()}
        for parameter, value in known.items():
            numbers[parameter.kind][list(parameter.places)] = value
        return Layout(tuple(one for one in self.parameters if one not in known), numbers)

    @property
    def sizes(self) -> Dict[str, int]:
        return {kind: len(values) for kind, values in self.numbers.items()}

    def values(self, x: np.ndarray) -> Dict[str, np.ndarray]:
        """Return the numbers of each kind [size] of scaled parameters [P]; zero is nominal."""
        out = {kind: values.copy() for kind, values in self.numbers.items()}
        for parameter, number in zip(self.parameters, x):
            value = max(parameter.least, parameter.nominal + parameter.spread * number)
            out[parameter.kind][list(parameter.places)] = value
        return out

    @property
    def least(self) -> np.ndarray:
        """Return the lowest scaled parameters [P]."""
        return np.array([(one.least - one.nominal) / one.spread for one in self.parameters])

    def indices(self, kind: str) -> List[int]:
        return [i for i, one in enumerate(self.parameters) if one.kind == kind]


def groups_of(joint_names: Sequence[str], per: str) -> Dict[str, List[int]]:
    """Return joints that share a value: each its own, or those whose names differ in the first part only, such as the
    knees of all legs."""
    groups: Dict[str, List[int]] = {}
    for i, name in enumerate(joint_names):
        tail = re.sub(r"^[^_]+_", "", name) if per == "group" else name
        groups.setdefault(tail, []).append(i)
    return groups


def layout_of(nominal: Dict[str, np.ndarray], description: Dict[str, Any], mass: float, per: str = "joint") -> Layout:
    """Return the parameters of a robot with these nominal numbers [size] and this contract; ``mass`` is its own [kg].

    The spreads are wide: they keep numbers in range that the log says nothing of.
    """
    limit, damping = np.array(description["torque_limits"]), np.array(description["damping"])
    groups = groups_of(description["joint_names"], per)
    parameters = []
    for kind, (_, size, *_) in KINDS.items():
        places = {"joints": groups, "xyz": {axis: [i] for i, axis in enumerate("xyz")}, "": {"": [0]}}[size]
        for name, own in places.items():
            first = own[0]
            value, low = float(nominal[kind][first]), 0.0
            spread, useful = {
                "armature": (max(value, 5e-4 * limit[first]), 5e-5 * limit[first]),
                "motor_strength": (0.3, 0.1),
                "viscous_friction": (max(value, 0.5 * damping[first]), 0.1 * damping[first]),
                "joint_friction": (max(value, 0.04 * limit[first]), 0.006 * limit[first]),
                "torque_limit": (0.3 * limit[first], 0.1 * limit[first]),
                "encoder_offset": (0.2, 0.025),
                "action_delay": (0.03, 0.003),
                "payload": (0.2 * mass, 0.03 * mass),
                "trunk_com": (0.05, 0.012),
                "friction": (0.5, 0.15),
            }[kind]
            if kind in ("encoder_offset", "trunk_com", "payload"):
                low = -0.3 * mass if kind == "payload" else -np.inf
            elif kind in ("motor_strength", "torque_limit", "friction"):
                low = 0.05 * value
            parameters.append(Parameter(kind, name, value, float(spread), float(low), float(useful), tuple(own)))
    return Layout(tuple(parameters), dict(nominal))
