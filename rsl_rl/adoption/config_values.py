"""Reward terms, joint groups and numbers of the config file of an adopted robot."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import math
from typing import Dict, List

import mujoco
import numpy as np

from rsl_rl.adoption.adopt import AdoptedRobot
from rsl_rl.adoption.mjcf import contact_links
from rsl_rl.adoption.structure import knee_of

GO2 = {"mass": 15.0, "reach": 0.40, "torque_scale": 14.8}
"""Of the Unitree Go2, with which the values of the task were found, as this package measures them: mass [kg], leg
length [m], torque scale [N m]."""


def joint_groups(robot: AdoptedRobot) -> Dict[str, List[str]]:
    """Return the names of joints by what they do: those before the knee by their axis at zero angles."""
    model = robot.model
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    groups: Dict[str, List[str]] = {"abduction": [], "hip_yaw": [], "hip": [], "knee": [], "ankle": []}
    for leg in robot.tree.legs:
        knee = knee_of(len(leg.joints))
        for i, joint in enumerate(leg.joints):
            axis = int(np.abs(data.xaxis[model.joint(joint).id]).argmax())
            before = ("abduction", "hip", "hip_yaw")[axis]
            groups[before if i < knee else "knee" if i == knee else "ankle"].append(joint)
    return {group: names for group, names in groups.items() if names}


def quadruped_rewards(robot: AdoptedRobot, size: float) -> List[str]:
    """Return the lines of the reward terms, with the weights of go2_flat."""
    groups, base = joint_groups(robot), robot.tree.links[0].name
    by_torque = "by the square of the torque scale"
    return [
        *_tracking_rewards(),
        _term("lin_vel_z", "-2.0"),
        _term("ang_vel_xy", "-0.05"),
        _term("orientation", "-1.0"),
        "# the weight by the square of the leg length; [m] of the standing pose",
        _term("base_height", number(-10.0 / size**2, 2), base_height_target=number(robot.stance.height, 3)),
        _term("torques", number(-1e-4 * _torque_ratio(robot), 2), by_torque),
        _term("joint_acc", "-2.5e-7"),
        _term("action_rate", "-0.01"),
        _term("joint_limits", "-5.0", soft_joint_limit="0.9"),
        '"collision": RewardTerm(',
        "    -1.0,",
        "    params={",
        '        "collision_links": (  # every link but trunk and feet',
        *(f"            {quoted(name)}," for name in contact_links(robot.tree) if name != base),
        "        )",
        "    },",
        "),",
        _term("feet_air_time", "1.0", "[s] by the root of the leg length", air_time_target=swing_time(size)),
        _term("foot_slip", number(-0.04 / size, 2), "by the square of the speed"),
        *([_term("trot", "0.75", "diagonal feet together")] if len(robot.tree.legs) == 4 else []),
        *([_term("abduction_deviation", "-0.5")] if groups.get("abduction") else []),
        _term("stand_still", "-0.2"),
    ]


def biped_rewards(robot: AdoptedRobot, size: float) -> List[str]:
    """Return the lines of the reward terms, with the weights of g1_flat."""
    hips = ", ".join(quoted(group) for group in ("abduction", "hip_yaw") if group in joint_groups(robot))
    deviation = f'"hip_deviation": RewardTerm(-1.0, "joint_deviation", {{"joints": ({hips},)}}),'
    flat = next(link.foot.is_flat for link in robot.tree.links if link.foot is not None)
    clearance = number(0.14 * robot.reach + min(foot_heights(robot)), 2)
    return [
        *_tracking_rewards(),
        _term("alive", "0.2"),
        _term("lin_vel_z", "-0.5"),
        _term("ang_vel_xy", "-0.05"),
        _term("orientation", "-2.0"),
        _term("base_height", "-10.0", "[m] of the standing pose", base_height_target=number(robot.stance.height, 3)),
        _term("torques", number(-2.5e-4 * _torque_ratio(robot), 2), "by the square of the torque scale"),
        _term("joint_acc", "-2.5e-7"),
        _term("action_rate", "-0.01"),
        _term("joint_limits", "-5.0", soft_joint_limit="0.9"),
        _term("single_stance", "1.5", "[s] by the root of the leg length", air_time_target=swing_time(size)),
        _term("foot_clearance", "-10.0", "[m]", foot_clearance_target=clearance),
        _term("foot_slip", "-0.15"),
        *([_term("foot_tilt", "-1.0")] if flat else []),
        *([deviation] if hips else []),
        _term("stand_still", "-0.1"),
    ]


def _tracking_rewards() -> List[str]:
    weights = {"track_lin_vel": "1.5", "track_yaw_rate": "0.75"}
    return [_term(name, weight, tracking_sigma="0.25") for name, weight in weights.items()]


def _term(name: str, weight: str, comment: str = "", **params: str) -> str:
    """Return the line of a reward term; values are texts of Python."""
    given = ", ".join(f'"{key}": {value}' for key, value in params.items())
    term = f'"{name}": RewardTerm({weight}, params={{{given}}}),' if given else f'"{name}": RewardTerm({weight}),'
    return f"{term}  # {comment}" if comment else term


def swing_time(size: float) -> str:
    """Return the duration of a swing [s] of legs ``size`` times as long as the Go2's."""
    return number(0.3 * math.sqrt(size), 2)


def quoted(text: str) -> str:
    """Return a text as a literal of Python."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _torque_ratio(robot: AdoptedRobot) -> float:
    return (GO2["torque_scale"] / robot.choice.torque_scale) ** 2


def foot_heights(robot: AdoptedRobot) -> List[float]:
    return [link.foot.height for link in robot.tree.links if link.foot is not None]


def number(value: float, digits: int) -> str:
    text = f"{float(value):.{digits}g}" if abs(value) < 1e-3 else f"{float(f'{float(value):.{max(digits, 2)}g}'):g}"
    text = "0.0" if float(text) == 0 else text
    return text if any(mark in text for mark in ".e") else f"{text}.0"
