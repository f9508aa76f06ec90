"""Reward terms, joint groups and numbers of the config file of an adopted robot."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

from typing import Dict, List

import mujoco
import numpy as np

from rsl_rl.adoption.adopt import AdoptedRobot
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


def quadruped_weights(robot: AdoptedRobot, size: float) -> List[str]:
    """Return reward terms with their weights, those of go2_flat."""
    weights = [
        '"track_lin_vel": 1.5,',
        '"track_yaw_rate": 0.75,',
        '"lin_vel_z": -2.0,',
        '"ang_vel_xy": -0.05,',
        '"orientation": -1.0,',
        f'"base_height": {number(-10.0 / size**2, 2)},  # by the square of the leg length',
        f'"torques": {number(-1e-4 * _torque_ratio(robot), 2)},  # by the square of the torque scale',
        '"joint_acc": -2.5e-7,',
        '"action_rate": -0.01,',
        '"joint_limits": -5.0,',
        '"collision": -1.0,',
        '"feet_air_time": 1.0,',
        f'"foot_slip": {number(-0.04 / size, 2)},  # by the square of the speed',
    ]
    if len(robot.tree.legs) == 4:
        weights.append('"trot": 0.75,  # diagonal feet together')
    if joint_groups(robot).get("abduction"):
        weights.append('"abduction_deviation": -0.5,')
    return [*weights, '"stand_still": -0.2,']


def biped_weights(robot: AdoptedRobot, size: float) -> List[str]:
    """Return reward terms with their weights, those of g1_flat."""
    hips = ", ".join(f'"{group}"' for group in ("abduction", "hip_yaw") if group in joint_groups(robot))
    deviation = f'"hip_deviation": RewardTerm(-1.0, "joint_deviation", {{"joints": ({hips},)}}),'
    flat = next(link.foot.is_flat for link in robot.tree.links if link.foot is not None)
    return [
        '"track_lin_vel": 1.5,',
        '"track_yaw_rate": 0.75,',
        '"alive": 0.2,',
        '"lin_vel_z": -0.5,',
        '"ang_vel_xy": -0.05,',
        '"orientation": -2.0,',
        '"base_height": -10.0,',
        f'"torques": {number(-2.5e-4 * _torque_ratio(robot), 2)},  # by the square of the torque scale',
        '"joint_acc": -2.5e-7,',
        '"action_rate": -0.01,',
        '"joint_limits": -5.0,',
        '"single_stance": 1.5,',
        '"foot_clearance": -10.0,',
        '"foot_slip": -0.15,',
        *(['"foot_tilt": -1.0,'] if flat else []),
        *([deviation] if hips else []),
        '"stand_still": -0.1,',
    ]


def _torque_ratio(robot: AdoptedRobot) -> float:
    return (GO2["torque_scale"] / robot.choice.torque_scale) ** 2


def foot_heights(robot: AdoptedRobot) -> List[float]:
    return [link.foot.height for link in robot.tree.links if link.foot is not None]


def number(value: float, digits: int) -> str:
    text = f"{float(value):.{digits}g}" if abs(value) < 1e-3 else f"{float(f'{float(value):.{max(digits, 2)}g}'):g}"
    text = "0.0" if float(text) == 0 else text
    return text if any(mark in text for mark in ".e") else f"{text}.0"
