"""Write the config of an adopted robot: a Python file with its Robot object and a task, every guess with its reason."""

from __future__ import annotations

import math
import re
import textwrap
from typing import Dict, Sequence

import numpy as np

from rsl_rl.adoption.adopt import AdoptedRobot
from rsl_rl.adoption.config_template import TEMPLATE
from rsl_rl.adoption.config_values import (
    GO2,
    biped_rewards,
    foot_heights,
    joint_groups,
    number,
    quadruped_rewards,
    quoted,
)

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
        angles = [f"{round(robot.targets.angles[_index(robot, joint)], 3) + 0.0:.3f}" for joint in leg.joints]
        rows.append(_comment(f"{leg.name}: {', '.join(leg.joints)}", 8))
        rows.append(f"        *({', '.join(angles)}),")
    sizes = [len(leg.joints) for leg in tree.legs]
    return {
        "legs": _comment(f"Legs, by their place, with the source's last link: {', '.join(legs)}.", 0),
        "locked": _comment(f"Locked joints with their angles [rad]: {', '.join(locked) or 'none'}.", 0),
        "default_joint_pos": "\n".join(rows),
        "standing_height": number(robot.stance.height + _clearance(robot), 3),
        "foot_radius": number(float(np.mean(foot_heights(robot))), 3),
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
    base = tree.links[0].name
    mass = tree.mass / GO2["mass"]
    payload = (-min(mass, 0.3 * tree.links[0].mass), 2.0 * mass)
    largest = float(np.abs(robot.targets.angles).max()) or 1.0
    start = min(0.3, (0.1 if biped else 0.45) / largest)
    rewards = biped_rewards(robot, size) if biped else quadruped_rewards(robot, size)
    speed = max(0.6, round(growth, 1))
    return {
        "max_iterations": "800" if biped else "300",
        "noise": "init_noise_std=0.6, " if biped else "",
        "entropy": "0.005" if biped else "0.01",
        "mass": f"{tree.mass:.1f}",
        "reach": f"{robot.reach:.2f}",
        "torque_scale": f"{scale:.1f}",
        "stiffness": repr(motor.stiffness),
        "damping": repr(motor.damping),
        "action_scale": number(float(np.clip(_ACTION_TORQUE * scale / motor.stiffness, 0.1, 0.3)), 2),
        "lin_vel_x": repr((-0.5, 1.0) if biped else (-speed, speed)),
        "lin_vel_y": repr((-0.3, 0.3) if biped else (-speed / 2, speed / 2)),
        "rewards": "\n".join(f"                {line}" for line in rewards),
        "weights_of": "the Unitree G1 (configs/g1_flat.py)" if biped else "Go2",
        "base": base,
        "payload": repr((round(payload[0], 2), round(payload[1], 2))),
        "start": repr((round(1 - start, 2), round(1 + start, 2))),
        "push": number((0.3 if biped else 0.6) * growth, 2),
    }


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


def _index(robot: AdoptedRobot, joint: str) -> int:
    return robot.model.joint(joint).id - 1


def _clearance(robot: AdoptedRobot) -> float:
    """Return how far above its standing height an episode starts [m]: feet must not start below the floor."""
    return 0.05 * robot.reach if len(robot.tree.legs) > 2 else 0.01 * robot.reach


def _comment(text: str, indent: int) -> str:
    """Return a comment of as many lines as it needs."""
    start = " " * indent + "# "
    return textwrap.fill(text, 116, initial_indent=start, subsequent_indent=start, break_on_hyphens=False)


def _notes(robot: AdoptedRobot) -> str:
    notes = [*robot.notes]
    if not robot.stands:
        notes.append("it does not keep standing with constant joint targets; the policy has to balance it")
    lines = [textwrap.fill(note, 116, initial_indent="- ", subsequent_indent="  ") for note in notes or ["nothing"]]
    return "\n".join(lines).replace("\\", "/")


def _rows(values: Sequence[float], sizes: Sequence[int]) -> str:
    """Return a tuple with a line for each leg."""
    lines, first = [], 0
    for size in sizes:
        lines.append("        *(" + ", ".join(str(value) for value in values[first : first + size]) + "),")
        first += size
    return "\n".join(lines)


def _dict(values: Dict[str, object]) -> str:
    return "\n".join(f"        {quoted(key)}: {_value(value)}," for key, value in values.items())


def _value(value: object) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(quoted(item) for item in value) + ("," if len(value) == 1 else "") + ")"
    return quoted(str(value))
