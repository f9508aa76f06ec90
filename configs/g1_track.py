"""Unitree G1, following reference motions with its legs; the upper body is fixed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Tuple

from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.task import LeggedRobotConfig

from .g1_flat import biped_task
from .go2_track import Go2Track, track_task

CLIPS = ("walk", "squat", "side_step")

_KEY_BODIES = ("trunk", *(f"{side}_{part}" for part in ("thigh", "shin", "foot") for side in ("left", "right")))


def g1_track_task() -> LeggedRobotConfig:
    """Return go2_track with the links, the gains and the sizes of a G1."""
    task, flat = with_key_bodies(track_task(), _KEY_BODIES), biped_task()
    sizes = {
        "link_pos": {"sigma": 0.08},
        "link_vel": {"sigma": 0.8},
    }
    for name, params in sizes.items():
        task = replace(task, rewards=task.rewards.with_params(name, **params))
    # twice that of a Go2: with less, robots kept away from the place of the reference
    weights = {"anchor_pos_near": 1.5, "torques": -5e-6}
    return replace(
        task,
        robot="g1",
        control=replace(flat.control, action_scale=0.3),
        commands=task.commands.with_params("motion", clips=CLIPS),
        rewards=task.rewards.with_weights(weights),
        terminations=task.terminations.with_params("anchor_height", largest=0.2),
        randomization=task.randomization.with_params("model_parameters", payload=(-1.0, 3.0)).with_params(
            "start_state", joint_error=0.07, turn_error=0.07, velocity_error=0.2
        ),
        gate={"mpkpe": 0.04, "fall_rate": 0.1},
    )


def with_key_bodies(task: LeggedRobotConfig, names: Tuple[str, ...]) -> LeggedRobotConfig:
    """Return a task of reference motions with the key bodies of another robot: names of links and feet."""
    rewards, metrics = task.rewards, dict(task.metrics)
    for name in ("link_pos", "link_turn", "link_vel", "link_ang_vel"):
        rewards = rewards.with_params(name, links=names)
    for name in ("mpkpe", "root_relative_mpkpe"):
        metrics[name] = replace(metrics[name], params={"links": names})
    return replace(task, rewards=rewards, metrics=metrics)


@dataclass(frozen=True)
class G1Track(Go2Track):
    """Unitree G1, following reference motions with its legs: walk, squat and side step, in one policy."""

    task: str = "g1_track"
    env: LeggedRobotConfig = field(default_factory=g1_track_task)
    runner: RunnerConfig = RunnerConfig(max_iterations=1400, save_interval=100, experiment_name="g1_track")
