"""Write the config of reference motions of an adopted robot, beside that of its task on flat ground."""

from __future__ import annotations

import math
from typing import List, Sequence, Tuple

from rsl_rl.adoption.adopt import AdoptedRobot
from rsl_rl.adoption.config_file import G1_REACH, GO2, class_name, number
from rsl_rl.adoption.structure import knee_of
from rsl_rl.utils.text import python_text


def track_clips(robot: AdoptedRobot) -> Tuple[str, ...]:
    """Return names of motions that suit the robot, none without two or four legs; its joints may not allow all."""
    growth = math.sqrt(_size(robot))  # of speeds
    if len(robot.tree.legs) == 2:
        return (f"walk speed={number(0.4 * growth, 2)}", "squat", "side_step")
    if len(robot.tree.legs) == 4:
        return (*(f"trot speed={number(speed * growth, 2)}" for speed in (0.3, 0.7)), "sit", "stand_up")
    return ()


def _size(robot: AdoptedRobot) -> float:
    """Return the length of the legs divided by that of the robot whose values the task has."""
    return robot.reach / (G1_REACH if len(robot.tree.legs) == 2 else GO2["reach"])


def key_bodies(robot: AdoptedRobot) -> Tuple[Tuple[str, ...], ...]:
    """Return the trunk, and thigh, shin and foot of each leg: the links before and after the knee, and the foot."""
    rows: List[Tuple[str, ...]] = [(robot.tree.links[0].name,)]
    for leg in robot.tree.legs:
        knee = knee_of(len(leg.joints))
        moved = {joint.name: link.name for link in robot.tree.links for joint in link.joints}
        around = [moved[joint] for joint in leg.joints[max(knee - 1, 0) : knee + 1]]
        rows.append((*dict.fromkeys(around), leg.foot))
    return tuple(rows)


def write_track_config(robot: AdoptedRobot, clips: Sequence[str]) -> str:
    """Return the text of the config file."""
    biped = len(robot.tree.legs) == 2
    policy = "" if robot.symmetry.holds else _POLICY
    return _TEMPLATE.format(
        name=robot.name,
        class_name=class_name(robot.name, "Track"),
        like="g1_track" if biped else "go2_track",
        like_class="G1Track" if biped else "Go2Track",
        function="biped_tracking_task" if biped else "tracking_task",
        model="G1" if biped else "Go2",
        model_reach=f"{G1_REACH if biped else GO2['reach']:.2g}",
        reach=f"{robot.reach:.2f}",
        size=number(_size(robot), 2),
        clips="\n".join(f"    {python_text(clip)}," for clip in clips),
        key_bodies="\n".join(f"    {', '.join(map(python_text, row))}," for row in key_bodies(robot)),
        policy_import="from rsl_rl.config.policy import ActorCriticConfig\n" if policy else "",
        policy=policy,
    )


_POLICY = """
    policy: ActorCriticConfig = ActorCriticConfig(  # not symmetric, as the robot is not
        init_noise_std=0.6, actor_hidden_dims=(256, 128, 64), critic_hidden_dims=(256, 128, 64)
    )"""

_TEMPLATE = '''"""{name}, following reference motions. Written by `rsl-rl adopt`.

Gains and payload are those of flat.py; weights and action scale are those of {like} (rsl_rl_configs/tracking.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rsl_rl.config.learn import RunnerConfig
{policy_import}from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl_configs.{like} import {like_class}
from rsl_rl_configs.tracking import {function}

from .flat import flat_task

CLIPS = (  # motions that are generated for the robot, or files such as "walk.npz"
{clips}
)
KEY_BODIES = (  # that are compared with the reference: trunk, then thigh, shin and foot of each leg
{key_bodies}
)


def track_task() -> LeggedRobotConfig:
    """Return the task."""
    size = {size}  # legs of {reach} m against {model_reach} m of the {model}; scales lengths and velocities
    return {function}(flat_task(), KEY_BODIES, CLIPS, size)


@dataclass(frozen=True)
class {class_name}({like_class}):
    """{name}, following reference motions."""

    task: str = "{name}.track:{class_name}"
    env: LeggedRobotConfig = field(default_factory=track_task){policy}
    runner: RunnerConfig = replace({like_class}.runner, experiment_name="{name}_track")
'''
