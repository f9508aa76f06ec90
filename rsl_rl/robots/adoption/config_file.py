"""Write the config of an adopted robot: a Python file with its Robot object and a task, every guess with its reason."""

from __future__ import annotations

import math
import os
import re
from typing import Dict, List, Sequence, Tuple

import numpy as np

from rsl_rl.robots.adoption.adopt import AdoptedRobot
from rsl_rl.robots.adoption.mjcf import contact_links

_GO2 = {"mass": 15.0, "reach": 0.40, "torque_scale": 14.8}
"""Of the Unitree Go2, with which the values of the task were found, as this package measures them: mass [kg], leg length
[m], torque scale [N m]."""

_ACTION_TORQUE = 0.45
"""Torque of one unit of action in units of the torque scale, as that of the Go2."""


def class_name(name: str) -> str:
    """Return the name of the experiment's class, such as MyRobotFlat for my_robot."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + "Flat"


def write_config(robot: AdoptedRobot) -> str:
    """Return the text of the config file."""
    values = {
        "name": robot.name,
        "source": robot.source.path.name,
        "class_name": class_name(robot.name),
        "notes": _notes(robot),
        "policy": "SymmetricActorCriticConfig" if robot.symmetry.holds else "ActorCriticConfig",
        **_robot_values(robot),
        **_task_values(robot),
    }
    return _TEMPLATE.format(**values)


def _robot_values(robot: AdoptedRobot) -> Dict[str, str]:
    tree = robot.tree
    groups = {"left": tree.legs[::2], "right": tree.legs[1::2]}
    if len(tree.legs) == 4:
        groups = {"front": tree.legs[:2], "rear": tree.legs[2:], **groups}
    heights = [link.foot.height for link in tree.links if link.foot is not None]
    joints = {
        "abduction": [leg.joints[i] for leg in tree.legs for i in _sideways(robot, leg.joints)],
        "knee": [leg.joints[_knee(len(leg.joints))] for leg in tree.legs],
    }
    rows = []
    for leg in tree.legs:
        angles = [_number(robot.targets.angles[_index(robot, joint)], 3) for joint in leg.joints]
        rows.append(f"        *({', '.join(angles)}),  # {leg.name}: {', '.join(leg.joints)}")
    sizes = [len(leg.joints) for leg in tree.legs]
    return {
        "legs": ", ".join(f"{leg.name} ({leg.links[-1]})" for leg in tree.legs),
        "locked": _locked(tree.locked),
        "default_joint_pos": "\n".join(rows),
        "standing_height": _number(robot.stance.height + _clearance(robot), 3),
        "foot_radius": _number(float(np.mean(heights)), 3),
        "mirrored_joints": _rows(robot.symmetry.joints, sizes),
        "mirror_signs": _rows(robot.symmetry.signs, sizes),
        "mirrored_feet": repr(robot.symmetry.feet),
        "mirror_error": f"{1000 * robot.symmetry.error:.1f} mm" if robot.symmetry.holds else "none found",
        "foot_groups": _dict({group: tuple(leg.foot for leg in legs) for group, legs in groups.items()}),
        "joint_groups": _dict({group: common_pattern(names) for group, names in joints.items() if names}),
    }


def _task_values(robot: AdoptedRobot) -> Dict[str, str]:
    tree, scale = robot.tree, robot.choice.torque_scale
    size = robot.reach / _GO2["reach"]
    growth = math.sqrt(size)
    quadruped = len(tree.legs) == 4
    motor = next(iter(robot.choice.motors.values()))
    base = tree.links[0].name
    mass = tree.mass / _GO2["mass"]
    payload = (-min(1.0 * mass, 0.3 * tree.links[0].mass), 2.0 * mass)
    widest = 0.3 if quadruped else 0.1
    largest = float(np.abs(robot.targets.angles).max()) or 1.0
    start = min(widest, (0.45 if quadruped else 0.1) / largest)
    weights: List[Tuple[str, float, str]] = [
        ("track_lin_vel", 1.5, ""),
        ("track_yaw_rate", 0.75, ""),
        ("lin_vel_z", -2.0, ""),
        ("ang_vel_xy", -0.05, ""),
        ("orientation", -1.0 if quadruped else -5.0, ""),
        ("base_height", -10.0 / size**2, "by the square of the leg length"),
        ("torques", -1e-4 * (_GO2["torque_scale"] / scale) ** 2, "by the square of the torque scale"),
        ("joint_acc", -2.5e-7, ""),
        ("action_rate", -0.01, ""),
        ("joint_limits", -5.0, ""),
        ("collision", -1.0, ""),
        ("feet_air_time", 1.0, ""),
        *([("trot", 0.75, "diagonal feet together")] if quadruped else [("alive", 0.5, "")]),
        ("foot_slip", -0.04 / growth**2 if quadruped else -0.2, ""),
        *([("abduction_deviation", -0.5, "")] if _has_abduction(robot) else []),
        ("stand_still", -0.2, ""),
    ]
    lines = [
        f'                "{name}": {_number(value, 2)},' + (f"  # {why}" if why else "") for name, value, why in weights
    ]
    speed = max(0.6, round(growth, 1))
    return {
        "max_iterations": "300" if quadruped else "1500",
        "mass": f"{tree.mass:.1f}",
        "reach": f"{robot.reach:.2f}",
        "torque_scale": f"{scale:.1f}",
        "stiffness": repr(motor.stiffness),
        "damping": repr(motor.damping),
        "action_scale": _number(float(np.clip(_ACTION_TORQUE * scale / motor.stiffness, 0.1, 0.3)), 2),
        "lin_vel_x": repr((-speed, speed)),
        "lin_vel_y": repr((-speed / 2, speed / 2)),
        "weights": "\n".join(lines),
        "base": base,
        "collision_links": _tuple([name for name in contact_links(tree) if name != base]),
        "base_height": _number(robot.stance.height, 3),
        "air_time": _number(0.3 * growth, 2),
        "payload": repr((round(payload[0], 2), round(payload[1], 2))),
        "start": repr((round(1 - start, 2), round(1 + start, 2))),
        "push": _number(0.6 * growth if quadruped else 0.3 * growth, 2),
    }


def common_pattern(names: Sequence[str]) -> str:
    """Return a regular expression that matches these names, with their common start and end written once."""
    unique = sorted(set(names))
    if len(unique) == 1:
        return re.escape(unique[0]).replace("\\-", "-")
    start = _cut(os.path.commonprefix(unique))
    end = _cut(os.path.commonprefix([name[len(start) :][::-1] for name in unique]))[::-1]
    middles = [name[len(start) : len(name) - len(end)] for name in unique]
    return f"{re.escape(start)}({'|'.join(map(re.escape, middles))}){re.escape(end)}".replace("\\-", "-")


def _cut(start: str) -> str:
    """Return the part of a common start up to its last underscore or other separator."""
    found = re.match(r".*[^A-Za-z0-9]", start)
    return found.group(0) if found else ""


def _sideways(robot: AdoptedRobot, joints: Sequence[str]) -> List[int]:
    """Return the positions in a leg of the joints that turn about the forward axis, before the knee."""
    import mujoco

    model = robot.model
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    axes = [data.xaxis[model.joint(joint).id] for joint in joints[: _knee(len(joints))]]
    return [i for i, axis in enumerate(axes) if abs(axis[0]) > 0.8]


def _has_abduction(robot: AdoptedRobot) -> bool:
    return all(_sideways(robot, leg.joints) for leg in robot.tree.legs)


def _knee(count: int) -> int:
    """Return the position of the knee in a leg of ``count`` joints."""
    return 3 if count >= 5 else count - 1


def _index(robot: AdoptedRobot, joint: str) -> int:
    return robot.model.joint(joint).id - 1


def _clearance(robot: AdoptedRobot) -> float:
    """Return how far above its standing height an episode starts [m]: feet must not start below the floor."""
    return 0.05 * robot.reach if len(robot.tree.legs) > 2 else 0.01 * robot.reach


def _locked(locked: Dict[str, float]) -> str:
    if not locked:
        return "none"
    text = ", ".join(f"{name} {angle:.3g}" for name, angle in locked.items())
    return text


def _notes(robot: AdoptedRobot) -> str:
    notes = [*robot.notes]
    if not robot.stands:
        notes.append("it does not keep standing with constant joint targets; the policy has to balance it")
    return "\n".join(f"- {note}" for note in notes) or "- nothing"


def _number(value: float, digits: int) -> str:
    text = f"{float(value):.{digits}g}" if abs(value) < 1e-3 else f"{float(f'{float(value):.{max(digits, 2)}g}'):g}"
    text = "0.0" if float(text) == 0 else text
    return text if any(mark in text for mark in ".e") else f"{text}.0"


def _rows(values: Sequence[float], sizes: Sequence[int]) -> str:
    """Return a tuple with a line for each leg."""
    lines, first = [], 0
    for size in sizes:
        lines.append("        *(" + ", ".join(str(value) for value in values[first : first + size]) + "),")
        first += size
    return "\n".join(lines)


def _dict(values: Dict[str, object]) -> str:
    return "\n".join(f"        {_quoted(key)}: {_value(value)}," for key, value in values.items())


def _tuple(values: Sequence[str]) -> str:
    return "\n".join(f"                {_quoted(value)}," for value in values)


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(_quoted(item) for item in value) + ("," if len(value) == 1 else "") + ")"
    return _quoted(str(value))


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


_TEMPLATE = '''"""{name} on flat ground, following velocity commands. Written by `rsl-rl adopt` from {source}.

All values are guesses from the model: check them against report.html, and change what you know better. "Go2" below
means that a value is that of the Unitree Go2 (configs/go2_flat.py), scaled where a comment says so: {mass} kg against
15 kg, legs of {reach} m against 0.4 m, weight on one leg times its length {torque_scale} N m against 14.8 N m.

Found in the source:
{notes}
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import (
    CommandConfig,
    ControlConfig,
    ObservationTerm,
    RandomizationConfig,
    RewardConfig,
    TerminationConfig,
)
from rsl_rl.config.policy import {policy}
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.robots import Robot

# Legs, by their place, with the source's last link: {legs}.
# Locked joints with their angles [rad]: {locked}.
ROBOT = Robot(
    model_path=Path(__file__).parent / "{name}.xml",
    # Joint targets of the standing pose [rad]: feet below hips, level trunk, small torques against gravity. They differ
    # from the pose that the robot then stands in, because gravity bends the joints.
    default_joint_pos=(
{default_joint_pos}
    ),
    standing_height={standing_height},  # of the trunk at the start of an episode: a little above the standing pose [m]
    foot_radius={foot_radius},  # [m]
    # Mirror image of joints and feet, from axes and places of the joints; largest error in random poses: {mirror_error}.
    mirrored_joints=(
{mirrored_joints}
    ),
    mirror_signs=(
{mirror_signs}
    ),
    mirrored_feet={mirrored_feet},
    foot_groups={{
{foot_groups}
    }},
    joint_groups={{
{joint_groups}
    }},
)

SENSED = {{  # observations that sensors of a robot provide; scales and noise as those of the Go2
    "base_lin_vel": ObservationTerm(scale=2.0, noise=0.1),
    "base_ang_vel": ObservationTerm(scale=0.25, noise=0.2),
    "gravity": ObservationTerm(scale=1.0, noise=0.05),
    "command": ObservationTerm(scale=2.0),
    "joint_pos": ObservationTerm(scale=1.0, noise=0.01),
    "joint_vel": ObservationTerm(scale=0.05, noise=1.5),
    "action": ObservationTerm(scale=1.0),
}}
PRIVILEGED = {{  # of the critic only
    "base_height": ObservationTerm(scale=5.0),
    "foot_contact": ObservationTerm(scale=1.0),
    "foot_height": ObservationTerm(scale=10.0),
    "air_time": ObservationTerm(scale=2.0),
    "friction": ObservationTerm(scale=1.0),
    "payload": ObservationTerm(scale=0.5),
}}


def flat_task() -> LeggedRobotConfig:
    """Return the task: robot, observations, rewards, terminations and randomisation."""
    return LeggedRobotConfig(
        robot="{name}.flat:ROBOT",
        num_envs=512,
        policy_observations=dict(SENSED),
        critic_observations={{**{{name: replace(term, noise=0.0) for name, term in SENSED.items()}}, **PRIVILEGED}},
        control=ControlConfig(
            stiffness={stiffness},  # [N m/rad] the lowest of a few with which the robot stands still
            damping={damping},  # [N m s/rad] in proportion, by the root of the leg length
            action_scale={action_scale},  # [rad] so that one unit of action is about as much torque as the Go2's
        ),
        commands=CommandConfig(
            resampling_time=5.0,
            lin_vel_x={lin_vel_x},  # [m/s] by the root of the leg length
            lin_vel_y={lin_vel_y},
        ),
        rewards=RewardConfig(
            weights={{  # Go2
{weights}
            }},
            collision_links=(  # every link but trunk and feet
{collision_links}
            ),
            base_height_target={base_height},  # [m] of the standing pose
            air_time_target={air_time},  # [s] by the root of the leg length
        ),
        gate={{"fall_rate": 0.05, "lin_vel_error": 0.2, "yaw_rate_error": 0.2}},
        randomization=RandomizationConfig(
            payload={payload},  # [kg] in proportion to the mass
            initial_joint_scale={start},
            push_interval=6.0,
            push_velocity={push},  # [m/s] by the root of the leg length
        ),
        terminations=TerminationConfig(contact_links=("{base}",), max_tilt=1.0),  # the trunk must not touch the floor
    )


@dataclass(frozen=True)
class {class_name}(TrainConfig):
    """{name} on flat ground, following velocity commands."""

    task: str = "{name}.flat:{class_name}"
    env: LeggedRobotConfig = field(default_factory=flat_task)
    policy: {policy} = {policy}(
        actor_hidden_dims=(128, 64, 32), critic_hidden_dims=(128, 64, 32)
    )
    algorithm: PPOConfig = PPOConfig(desired_kl=0.02, entropy_coef=0.01)
    runner: RunnerConfig = RunnerConfig(max_iterations={max_iterations}, save_interval=20, experiment_name="{name}_flat")
'''
