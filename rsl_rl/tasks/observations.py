"""Observation terms: functions of the robots' state, each [N, k], in SI units.

A term is a function and a line in ``TERMS``, which says how the term looks in the robot's left-right mirror image.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Tuple

import torch
from torch import Tensor

from rsl_rl.config.task import ObservationTerm
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.tasks.robots import Robot
from rsl_rl.utils.registry import suggest


def base_lin_vel(state: RobotState) -> Tensor:
    """Velocity of the trunk in the base frame [m/s]."""
    return state.base_lin_vel


def base_ang_vel(state: RobotState) -> Tensor:
    """Angular velocity of the trunk in the base frame [rad/s]."""
    return state.base_ang_vel


def gravity(state: RobotState) -> Tensor:
    """Unit vector of gravity in the base frame."""
    return state.gravity


def command(state: RobotState) -> Tensor:
    """Commanded vx, vy [m/s] and yaw rate [rad/s] in the base frame."""
    return state.command


def joint_pos(state: RobotState) -> Tensor:
    """Joint angles less those of the default pose [rad]."""
    return state.joint_offset


def joint_vel(state: RobotState) -> Tensor:
    """Joint velocities [rad/s]."""
    return state.joint_vel


def action(state: RobotState) -> Tensor:
    """The last action."""
    return state.action


def foot_contact(state: RobotState) -> Tensor:
    """1 for each foot on the floor, else 0."""
    return state.foot_contact.to(state.action.dtype)


def foot_height(state: RobotState) -> Tensor:
    """Height of each foot's centre above the floor [m]."""
    return state.foot_pos[:, :, 2]


def air_time(state: RobotState) -> Tensor:
    """Time that each foot has been in the air [s]."""
    return state.air_time


def base_height(state: RobotState) -> Tensor:
    """Height of the trunk above the floor [m]."""
    return state.base_height.unsqueeze(1)


def friction(state: RobotState) -> Tensor:
    """Sliding friction of the floor."""
    return state.friction.unsqueeze(1)


def payload(state: RobotState) -> Tensor:
    """Mass added to the trunk [kg]."""
    return state.payload.unsqueeze(1)


class Term(NamedTuple):
    """A term and its kind: what it is made of, which decides how it is mirrored and described."""

    function: Callable[[RobotState], Tensor]
    kind: str  # a key of mirror_of_kind
    frame: str


TERMS: Dict[str, Term] = {
    "base_lin_vel": Term(base_lin_vel, "vector", "base"),
    "base_ang_vel": Term(base_ang_vel, "axial_vector", "base"),
    "gravity": Term(gravity, "vector", "base"),
    "command": Term(command, "command", "base"),
    "joint_pos": Term(joint_pos, "joints", "joint"),
    "joint_vel": Term(joint_vel, "joints", "joint"),
    "action": Term(action, "joints", "joint"),
    "foot_contact": Term(foot_contact, "feet", "world"),
    "foot_height": Term(foot_height, "feet", "world"),
    "air_time": Term(air_time, "feet", "world"),
    "base_height": Term(base_height, "scalar", "world"),
    "friction": Term(friction, "scalar", "world"),
    "payload": Term(payload, "scalar", "base"),
}

Mirror = Tuple[Tensor, Tensor]
"""Left-right mirror image of a vector x [..., k]: x[..., index] * sign, both [k]."""


def mirror_of_kind(robot: Robot) -> Dict[str, Tuple[Tuple[int, ...], Tuple[float, ...]]]:
    """Return index and sign of the mirror image for each kind of term."""
    return {
        "scalar": ((0,), (1.0,)),
        "vector": ((0, 1, 2), (1.0, -1.0, 1.0)),
        "axial_vector": ((0, 1, 2), (-1.0, 1.0, -1.0)),
        "command": ((0, 1, 2), (1.0, -1.0, -1.0)),
        "joints": (robot.mirrored_joints, robot.mirror_signs),
        "feet": (robot.mirrored_feet, (1.0,) * len(robot.mirrored_feet)),
    }


class ObservationGroup:
    """Named terms, scaled, with noise, side by side: [N, D]."""

    def __init__(self, terms: Mapping[str, ObservationTerm], state: RobotState, generator: torch.Generator):
        if not terms:
            raise ValueError(f"an observation group has no terms; name some of {', '.join(sorted(TERMS))}")
        unknown = [name for name in terms if name not in TERMS]
        if unknown:
            raise ValueError(
                f"unknown observation term '{unknown[0]}'; known: {', '.join(sorted(TERMS))}."
                f"{suggest(unknown[0], TERMS)}"
            )
        self.terms = dict(terms)
        self._functions = [TERMS[name].function for name in terms]
        self._generator = generator
        self.sizes = [function(state).shape[1] for function in self._functions]
        self._scale = self._row([term.scale for term in terms.values()], state)
        self._noise = self._row([term.noise for term in terms.values()], state) * self._scale
        self._noisy = any(term.noise > 0 for term in terms.values())

    def _row(self, values: list, state: RobotState) -> Tensor:
        device = state.action.device
        return torch.cat([torch.full((size,), value, device=device) for size, value in zip(self.sizes, values)])

    def __call__(self, state: RobotState) -> Tensor:
        x = torch.cat([function(state) for function in self._functions], dim=1).mul_(self._scale)
        if self._noisy:
            x.addcmul_(torch.empty_like(x).uniform_(-1.0, 1.0, generator=self._generator), self._noise)
        return x

    def split(self, x: Tensor) -> Dict[str, List[float]]:
        """Cut the observation of one robot [D] into its terms."""
        return {name: part.tolist() for name, part in zip(self.terms, x.split(self.sizes))}

    def describe(self) -> List[Dict[str, Any]]:
        """Return name, size, scale and frame of each term in order; "joint" has one number a joint, in their order."""
        return [
            {"name": name, "size": size, "scale": term.scale, "frame": TERMS[name].frame}
            for (name, term), size in zip(self.terms.items(), self.sizes)
        ]

    def mirror(self, robot: Robot) -> Mirror:
        """Return the mirror image of the whole group."""
        index, sign, start = [], [], 0
        for name, size in zip(self.terms, self.sizes):
            term_index, term_sign = mirror_of_kind(robot)[TERMS[name].kind]
            index += [start + i for i in term_index]
            sign += term_sign
            start += size
        return torch.tensor(index, device=self._scale.device), torch.tensor(sign, device=self._scale.device)
