"""Write the config of an adopted robot: a Python file with its Robot object and a task, every guess with its reason."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import math
import re
import textwrap
from typing import Dict, List, Sequence

import mujoco
import numpy as np

from rsl_rl.adoption.adopt import AdoptedRobot
from rsl_rl.adoption.mjcf import contact_links
from rsl_rl.adoption.structure import knee_of
from rsl_rl.utils.text import one_line, python_text

_ACTION_TORQUE = 0.45
"""Torque of one unit of action in units of the torque scale, as that of the Go2."""

_ANKLE_SHARE = 0.2
"""Torque of one unit of action at the ankles of flat feet, as a share of that at other joints: 10 N m for an adopted
G1, as in g1_flat. With larger torques the sole tips over, and a robot that is told to stop creeps."""

GO2 = {"mass": 15.0, "reach": 0.40, "torque_scale": 14.8}
"""Of the Unitree Go2, with which the values for four legs were found, as this package measures them: mass [kg], leg
length [m], torque scale [N m]."""

G1_REACH = 0.70
"""Leg length of the Unitree G1, with which the values for two legs were found, as this package measures it [m]."""

_BIPED = {
    "runner": "num_steps_per_env=16, max_iterations=2500, save_interval=100",
    "lin_vel_x": "(-0.5, 1.0)",
    "lin_vel_y": "(-0.3, 0.3)",
    "speed_of": "as the G1's",
    "noise": "init_noise_std=0.6, ",
    "entropy": "0.005",
    "final_entropy": "0.001",
    "yaw_rate": "(-0.8, 0.8)",
    "standing_fraction": "0.15",
    "push_period": "3.0",
    "weights_of": "g1_task (configs/g1_flat.py)",
    "clipping": "",
}
"""Texts in the config of a robot with two legs: those of g1_flat, the same for every size."""

_QUADRUPED = {
    "runner": "max_iterations=450, save_interval=20",
    "speed_of": "by the root of the leg length",
    "noise": "",
    "entropy": "0.01",
    "final_entropy": "0.002",
    "yaw_rate": "(-1.0, 1.0)",
    "standing_fraction": "0.06",
    "push_period": "2.0",
    "weights_of": "Go2 where nothing else is said",
    "clipping": ",\n            only_positive=False,  # a fall costs the reward of being alive",
}
"""Texts in the config of a robot with four legs or more: those of go2_flat, but longer training."""


def class_name(name: str, ending: str = "Flat") -> str:
    """Return the name of an experiment's class, such as MyRobotFlat for my_robot."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_")) + ending


def write_config(robot: AdoptedRobot) -> str:
    """Return the text of the config file."""
    values = {
        "name": robot.name,
        "class_name": class_name(robot.name),
        "notes": _notes(robot),
        "policy": "SymmetricActorCriticConfig" if robot.symmetry.holds else "ActorCriticConfig",
        **_robot_values(robot),
        **_task_values(robot),
    }
    return TEMPLATE.format(**values)


def _robot_values(robot: AdoptedRobot) -> Dict[str, str]:
    tree = robot.tree
    legs = [f"{leg.name} ({leg.links[-1]})" for leg in tree.legs]
    locked = [f"{name} {angle:.3g}" for name, angle in tree.locked.items()]
    groups = {"left": tree.legs[::2], "right": tree.legs[1::2]}
    if len(tree.legs) == 4:
        groups = {"front": tree.legs[:2], "rear": tree.legs[2:], **groups}
    rows = []
    for leg in tree.legs:
        angles = [float(robot.targets.angles[robot.model.joint(joint).id - 1]) for joint in leg.joints]
        rows.append(_comment(f"{leg.name}: {', '.join(leg.joints)}", 8))
        rows.append(f"        *({', '.join(f'{round(angle, 3) + 0.0:.3f}' for angle in angles)}),")
    clearance = (0.05 if len(tree.legs) > 2 else 0.01) * robot.reach  # feet must not start below the floor
    sizes = [len(leg.joints) for leg in tree.legs]
    return {
        "legs": _comment(f"Legs, by their place, with the source's last link: {', '.join(legs)}.", 0),
        "locked": _comment(f"Locked joints with their angles [rad]: {', '.join(locked) or 'none'}.", 0),
        "default_joint_pos": "\n".join(rows),
        "standing_height": number(robot.stance.height + clearance, 3),
        "foot_radius": number(float(np.mean([foot.height for foot in robot.tree.feet])), 3),
        "mirrored_joints": _rows(robot.symmetry.joints, sizes),
        "mirror_signs": _rows(robot.symmetry.signs, sizes),
        "mirrored_feet": repr(robot.symmetry.feet),
        "mirror_error": f"{1000 * robot.symmetry.error:.1f} mm" if robot.symmetry.holds else "none found",
        "foot_groups": _dict({group: tuple(leg.foot for leg in legs) for group, legs in groups.items()}),
        "joint_groups": _dict({group: common_pattern(names) for group, names in joint_groups(robot).items()}),
    }


def _task_values(robot: AdoptedRobot) -> Dict[str, str]:
    tree, scale = robot.tree, robot.choice.torque_scale
    size = robot.reach / GO2["reach"]
    growth = math.sqrt(size)
    biped = len(tree.legs) == 2
    motor = next(iter(robot.choice.motors.values()))
    mass = tree.mass / GO2["mass"]
    payload = (-min(mass, 0.3 * tree.links[0].mass), 2.0 * mass)
    largest = float(np.abs(robot.targets.angles).max()) or 1.0
    start = min(0.3, (0.1 if biped else 0.45) / largest)
    rewards = biped_rewards(robot) if biped else quadruped_rewards(robot, size)
    speed = max(0.6, round(growth, 1))
    speeds = {"lin_vel_x": repr((-speed, speed)), "lin_vel_y": repr((-speed / 2, speed / 2))}
    period = 0.8 * math.sqrt(robot.reach / G1_REACH) if biped else 0.5 * growth
    return {
        **(_BIPED if biped else {**_QUADRUPED, **speeds}),
        "mass": f"{tree.mass:.1f}",
        "reach": f"{robot.reach:.2f}",
        "torque_scale": f"{scale:.1f}",
        "stiffness": repr(motor.stiffness),
        "damping": repr(motor.damping),
        "action_scale": _action_scale(robot, float(np.clip(_ACTION_TORQUE * scale / motor.stiffness, 0.1, 0.3))),
        "clock": _clock(period) if _has_clock(robot) else "",
        "clock_sensed": '\n    "gait_clock": ObservationTerm(),' if _has_clock(robot) else "",
        "clock_import": "\n    CommandTerm," if _has_clock(robot) else "",
        "rewards": "\n".join(f"                {line}" for line in rewards),
        "base": python_text(tree.links[0].name),
        "payload": repr((round(payload[0], 2), round(payload[1], 2))),
        "start": repr((round(1 - start, 2), round(1 + start, 2))),
        "push": number((0.5 if biped else 0.6) * growth, 2),
    }


def _action_scale(robot: AdoptedRobot, scale: float) -> str:
    """Return the scale of actions [rad] as text of Python; the ankles of flat feet have a smaller one."""
    others = number(scale, 2)
    if not robot.tree.has_flat_feet:
        return others
    ankle = number(_ANKLE_SHARE * float(others), 2)
    indent = " " * 12
    lines = ["{  # of the ankles a fifth, because the sole tips over at larger torques"]
    for group, names in joint_groups(robot).items():
        pattern = python_text(common_pattern(names))
        lines.append(f"{indent}    {pattern}: {ankle if group == 'ankle' else others},")
    return "\n".join([*lines, indent + "}"])


def common_pattern(names: Sequence[str]) -> str:
    """Return a regular expression that matches these names, with their common start and end written once."""
    unique = sorted(set(names))
    if len(unique) == 1:
        return re.escape(unique[0]).replace("\\-", "-")
    start = _common_start(unique)
    end = _common_start([name[len(start) :][::-1] for name in unique])[::-1]
    middles = [name[len(start) : len(name) - len(end)] for name in unique]
    return f"{re.escape(start)}({'|'.join(map(re.escape, middles))}){re.escape(end)}".replace("\\-", "-")


def _common_start(names: Sequence[str]) -> str:
    """Return the common start of names, up to its last underscore or other separator."""
    length = next((i for i, letters in enumerate(zip(*names)) if len(set(letters)) > 1), min(map(len, names)))
    found = re.match(r".*[^A-Za-z0-9]", names[0][:length])
    return found.group(0) if found else ""


def _comment(text: str, indent: int) -> str:
    """Return a comment of as many lines as it needs."""
    start = " " * indent + "# "
    return _filled(text, start, start)


def _filled(text: str, first: str, others: str) -> str:
    return textwrap.fill(one_line(text), 116, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)


def _notes(robot: AdoptedRobot) -> str:
    """Return what is known of the source, as comments."""
    notes = [*robot.warnings, *robot.notes]
    if not robot.stands:
        reasons = "; ".join(robot.faults)
        notes.append(f"it does not keep standing with constant joint targets ({reasons}); the policy has to balance it")
    lines = [_comment(f"Prepared from {robot.source.path.name}. Remarks on it:", 0)]
    return "\n".join([*lines, *(_filled(note, "# - ", "#   ") for note in notes or ["none"])])


def _rows(values: Sequence[float], sizes: Sequence[int]) -> str:
    """Return a tuple with a line for each leg."""
    lines, first = [], 0
    for size in sizes:
        lines.append("        *(" + ", ".join(repr(value) for value in values[first : first + size]) + "),")
        first += size
    return "\n".join(lines)


def _dict(values: Dict[str, object]) -> str:
    return "\n".join(f"        {python_text(key)}: {_value(value)}," for key, value in values.items())


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(python_text(item) for item in value) + ("," if len(value) == 1 else "") + ")"
    return python_text(str(value))


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
    """Return the lines of the reward terms: weights of go2_flat, but a heavier and narrower reward of the velocity."""
    groups, base = joint_groups(robot), robot.tree.links[0].name
    by_torque = "by the square of the torque scale"
    return [
        _term("track_lin_vel", "2.0", "Go2: 1.5, 0.25; for large robots", tracking_sigma="0.15"),
        _term("track_yaw_rate", "0.75", tracking_sigma="0.25"),
        _term("alive", "1.0"),
        _term("lin_vel_z", "-2.0"),
        _term("ang_vel_xy", "-0.05"),
        _term("orientation", "-5.0"),
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
        *(f"            {python_text(name)}," for name in contact_links(robot.tree) if name != base),
        "        )",
        "    },",
        "),",
        _term("feet_air_time", "1.0", "[s] by the root of the leg length", air_time_target=swing_time(size)),
        _term("foot_slip", number(-0.04 / size, 2), "by the square of the speed"),
        *([_term("foot_timing", "1.0", "a trot", offsets="(0.0, 0.5, 0.5, 0.0)")] if _has_clock(robot) else []),
        *([_term("abduction_deviation", "-0.5")] if groups.get("abduction") else []),
        _term("stand_still", "-0.5"),
        _term("standing_steps", "-0.5"),
    ]


def _has_clock(robot: AdoptedRobot) -> bool:
    """Return whether the robot walks by a gait clock: the walk of two legs or the trot of four."""
    return len(robot.tree.legs) in (2, 4)


def _clock(period: float) -> str:
    """Return the lines of a gait clock."""
    indent = "\n" + " " * 12
    comment = "# a step of each foot takes [s], by the root of the leg length"
    return f'{indent}{comment}{indent}terms={{"gait_clock": CommandTerm(params={{"period": {number(period, 2)}}})}},'


def biped_rewards(robot: AdoptedRobot) -> List[str]:
    """Return the lines of the reward terms, with the weights of g1_task of configs/g1_flat.py."""
    hips = ", ".join(python_text(group) for group in ("abduction", "hip_yaw") if group in joint_groups(robot))
    deviation = f'"hip_deviation": RewardTerm(-1.0, "joint_deviation", {{"joints": ({hips},)}}),'
    clearance = number(0.14 * robot.reach + min(foot.height for foot in robot.tree.feet), 2)
    return [
        _term("track_lin_vel", "2.0", tracking_sigma="0.1"),
        _term("track_yaw_rate", "1.0", tracking_sigma="0.2"),
        _term("alive", "0.2"),
        _term("lin_vel_z", "-0.5"),
        _term("ang_vel_xy", "-0.05"),
        _term("orientation", "-2.0"),
        _term("base_height", "-10.0", "[m] of the standing pose", base_height_target=number(robot.stance.height, 3)),
        _term("torques", number(-2.5e-4 * _torque_ratio(robot), 2), "by the square of the torque scale"),
        _term("joint_acc", "-2.5e-7"),
        _term("action_rate", "-0.01"),
        _term("joint_limits", "-5.0", soft_joint_limit="0.9"),
        _term("gait", "1.5"),
        _term("foot_clearance", "-10.0", "[m]", foot_clearance_target=clearance),
        _term("foot_slip", "-0.15"),
        *([_term("foot_tilt", "-1.0")] if robot.tree.has_flat_feet else []),
        *([deviation] if hips else []),
        _term("stand_still", "-0.1"),
    ]


def _term(name: str, weight: str, comment: str = "", **params: str) -> str:
    """Return the line of a reward term; values are texts of Python."""
    given = ", ".join(f'"{key}": {value}' for key, value in params.items())
    term = f'"{name}": RewardTerm({weight}, params={{{given}}}),' if given else f'"{name}": RewardTerm({weight}),'
    return f"{term}  # {comment}" if comment else term


def swing_time(size: float) -> str:
    """Return the duration of a swing [s] of legs ``size`` times as long as the Go2's."""
    return number(0.3 * math.sqrt(size), 2)


def _torque_ratio(robot: AdoptedRobot) -> float:
    return (GO2["torque_scale"] / robot.choice.torque_scale) ** 2


def number(value: float, digits: int) -> str:
    text = f"{float(value):.{digits}g}" if abs(value) < 1e-3 else f"{float(f'{float(value):.{max(digits, 2)}g}'):g}"
    text = "0.0" if float(text) == 0 else text
    return text if any(mark in text for mark in ".e") else f"{text}.0"


TEMPLATE = '''"""{name} on flat ground, following velocity commands. Written by `rsl-rl adopt`.

All values are guesses from the model: check them against report.html, and change what you know better. "Go2" below
means that a value is that of the Unitree Go2 (configs/go2_flat.py), scaled where a comment says so: {mass} kg against
15 kg, legs of {reach} m against 0.4 m, weight on one leg times its length {torque_scale} N m against 14.8 N m.
"""

{notes}

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import (
    CommandConfig,
    CommandLimitConfig,{clock_import}
    ControlConfig,
    EventTerm,
    ObservationGroupConfig,
    ObservationTerm,
    RandomizationConfig,
    RewardConfig,
    RewardTerm,
    TerminationConfig,
)
from rsl_rl.config.policy import {policy}
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.robots import Robot

{legs}
{locked}
ROBOT = Robot(
    model_path=Path(__file__).parent / "{name}.xml",
    # Joint targets of the standing pose [rad]: level trunk, small torques against gravity. They differ from the
    # pose that the robot then stands in, because gravity bends the joints.
    default_joint_pos=(
{default_joint_pos}
    ),
    standing_height={standing_height},  # of the trunk at the start, a little above the standing pose [m]
    foot_radius={foot_radius},  # [m]
    # Mirror image of joints and feet, from axes and places of joints; largest error in random poses: {mirror_error}.
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
    "action": ObservationTerm(scale=1.0),{clock_sensed}
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
        observations={{
            "policy": ObservationGroupConfig(SENSED),
            "critic": ObservationGroupConfig(
                {{**{{name: replace(term, noise=0.0) for name, term in SENSED.items()}}, **PRIVILEGED}}
            ),
        }},
        control=ControlConfig(
            stiffness={stiffness},  # [N m/rad] the lowest of a few with which the robot stands still
            damping={damping},  # [N m s/rad] in proportion, by the root of the leg length
            # [rad] so that one unit of action is about as much torque as the Go2's
            action_scale={action_scale},
        ),
        commands=CommandConfig(
            resampling_time=3.0,
            standing_fraction={standing_fraction},
            slow_fraction=0.3,
            standing_time=9.0,  # [s] robots that stand badly tip over after some seconds
            dead_zone=0.04,  # [m/s], [rad/s]
            lin_vel_x={lin_vel_x},  # [m/s] {speed_of}
            lin_vel_y={lin_vel_y},
            yaw_rate={yaw_rate},  # [rad/s]
            limit=CommandLimitConfig(max_lin_acc=2.0, max_yaw_acc=4.0),  # [m/s^2], [rad/s^2], not in training{clock}
        ),
        rewards=RewardConfig(
            {{  # weights are those of {weights_of}
{rewards}
            }}{clipping}
        ),
        gate={{
            "fall_rate": 0.05,
            "lin_vel_error": 0.2,
            "yaw_rate_error": 0.2,
            "failures_per_hour": 0.5,
            "freezes_per_hour": 0.0,
            "stop_drift": 0.1,
        }},
        randomization=RandomizationConfig(
            {{
                # [kg] in proportion to the mass
                "model_parameters": EventTerm("startup", params={{"payload": {payload}}}),
                "start_state": EventTerm("reset", params={{"initial_joint_scale": {start}}}),
                # on average after [s]; by up to [m/s], by the root of the leg length, and [rad/s]; none at first
                "push": EventTerm(
                    "interval",
                    period={push_period},
                    params={{
                        "push_velocity": {push},
                        "push_turning": 1.5,
                        "schedule": {{"start": 0.0, "end": 1.0, "steps": 100 * 24}},
                    }},
                ),
            }}
        ),
        terminations=TerminationConfig(contact_links=({base},), max_tilt=1.0),  # the trunk must not touch the floor
    )


@dataclass(frozen=True)
class {class_name}(TrainConfig):
    """{name} on flat ground, following velocity commands."""

    task: str = "{name}.flat:{class_name}"
    env: LeggedRobotConfig = field(default_factory=flat_task)
    policy: {policy} = {policy}(
        {noise}actor_hidden_dims=(128, 64, 32), critic_hidden_dims=(128, 64, 32)
    )
    algorithm: PPOConfig = PPOConfig(
        desired_kl=0.02, final_desired_kl=0.008, entropy_coef={entropy}, final_entropy_coef={final_entropy}
    )
    runner: RunnerConfig = RunnerConfig(
        {runner},
        experiment_name="{name}_flat",
    )
'''
