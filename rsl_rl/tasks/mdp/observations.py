"""Observation terms: functions of the robots' state, each [N, k], in SI units. To add one, see docs/own-task.md.

A term is a function and an entry of ``TERMS``, which says how the term is mirrored. Another package names its own term
by "package.module:function"; it may be a ``Term`` too.
"""

from __future__ import annotations

import functools
from typing import Callable, Dict, NamedTuple, Tuple

from torch import Tensor

from rsl_rl.config.mdp import ObservationTerm
from rsl_rl.robots import Robot
from rsl_rl.tasks.mdp.randomization import nominal_values
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.terrain.scan import MIRROR
from rsl_rl.utils.binding import bind_term, find_function


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


def gait_clock(state: RobotState) -> Tensor:
    """Sine and cosine of the phase of the command term gait_clock; 0 while no motion is commanded."""
    return state.command_of("gait_clock") * state.commands_motion().unsqueeze(1)


def joint_pos(state: RobotState) -> Tensor:
    """Joint angles that the encoders report less those of the default pose [rad]."""
    return state.sensed_joint_offset


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
    return state.foot_height


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


def height_scan(state: RobotState, *, trunk_height: float = 0.3, with_error: bool = False) -> Tensor:
    """Height of the trunk above the ground at 17 x 11 points around it, less ``trunk_height`` [m], from -1 to 1.

    The points lie in a rectangle of 1.6 m along the heading and 1.0 m across it, see :class:`ScanGrid`. With
    ``with_error``, the scan has the errors of the event scan_error.
    """
    return (state.trunk_above_scan(with_error) - trunk_height).clamp_(-1.0, 1.0)


def parameter(state: RobotState, *, name: str) -> Tensor:
    """A parameter that an event of rsl_rl.tasks.mdp.randomization draws, by its name; the nominal value without it."""
    if name not in state.parameters:
        state.parameters[name] = nominal_values(name, state.sim).expand(state.sim.num_envs, -1).clone()
    return state.parameters[name]


class Term(NamedTuple):
    """A term, how it is mirrored, and its frame."""

    function: Callable[..., Tensor]
    mirror_type: str  # a key of mirrors_by_type; empty: unknown
    frame: str


TERMS: Dict[str, Term] = {
    "base_lin_vel": Term(base_lin_vel, "vector", "base"),
    "base_ang_vel": Term(base_ang_vel, "axial_vector", "base"),
    "gravity": Term(gravity, "vector", "base"),
    "command": Term(command, "command", "base"),
    "gait_clock": Term(gait_clock, "half_turn", "base"),
    "joint_pos": Term(joint_pos, "joints", "joint"),
    "joint_vel": Term(joint_vel, "joints", "joint"),
    "action": Term(action, "joints", "joint"),
    "foot_contact": Term(foot_contact, "feet", "world"),
    "foot_height": Term(foot_height, "feet", "world"),
    "air_time": Term(air_time, "feet", "world"),
    "base_height": Term(base_height, "scalar", "world"),
    "friction": Term(friction, "scalar", "world"),
    "payload": Term(payload, "scalar", "base"),
    "height_scan": Term(height_scan, "height_scan", "base"),
    **{
        name: Term(functools.partial(parameter, name=name), mirror_type, frame)
        for name, mirror_type, frame in (
            ("restitution", "scalar", "world"),
            ("link_mass", "", "base"),
            ("trunk_com", "vector", "base"),
            ("gravity_change", "vector", "world"),
            ("motor_strength", "joint_factors", "joint"),
            ("stiffness", "joint_factors", "joint"),
            ("damping", "joint_factors", "joint"),
            ("armature", "joint_factors", "joint"),
            ("joint_friction", "joint_factors", "joint"),
            ("encoder_offset", "joints", "joint"),
            ("action_delay", "scalar", "base"),
            ("trunk_force", "vector", "world"),
        )
    },
}


def bind_observation(name: str, term: ObservationTerm, where: str) -> Term:
    """Find the function of a term of the config and bind its parameters."""
    found = find_function(term.func or name, TERMS, "observation term")
    found = found if isinstance(found, Term) else Term(found, mirror_type="", frame="")
    return found._replace(function=bind_term(found.function, term.params, where, {}))


def mirrors_by_type(robot: Robot) -> Dict[str, Tuple[Tuple[int, ...], Tuple[float, ...]]]:
    """Return index and sign of the mirror image for each mirror type."""
    return {
        "scalar": ((0,), (1.0,)),
        "vector": ((0, 1, 2), (1.0, -1.0, 1.0)),
        "axial_vector": ((0, 1, 2), (-1.0, 1.0, -1.0)),
        "command": ((0, 1, 2), (1.0, -1.0, -1.0)),
        "half_turn": ((0, 1), (-1.0, -1.0)),  # left and right feet are half a turn apart
        "joints": (robot.mirrored_joints, robot.mirror_signs),
        "joint_factors": (robot.mirrored_joints, (1.0,) * len(robot.mirrored_joints)),
        "feet": (robot.mirrored_feet, (1.0,) * len(robot.mirrored_feet)),
        "height_scan": (MIRROR, (1.0,) * len(MIRROR)),
    }
