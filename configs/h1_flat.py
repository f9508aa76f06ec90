"""Unitree H1 on flat ground, following velocity commands with its legs; the upper body is fixed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import ControlConfig
from rsl_rl.config.task import LeggedRobotConfig

from .g1_flat import G1Flat, biped_task


def h1_task() -> LeggedRobotConfig:
    """Return g1_flat with the gains and sizes of a robot of 59 kg."""
    task = biped_task()
    return replace(
        task,
        robot="h1",
        control=ControlConfig(
            stiffness={".*_hip_.*": 150.0, ".*_knee_.*": 200.0, ".*_ankle_.*": 40.0},
            damping={".*_hip_.*": 2.0, ".*_knee_.*": 4.0, ".*_ankle_.*": 2.0},
            action_scale=0.25,
        ),
        rewards=task.rewards.with_weights({"torques": -2e-6})
        .with_params("base_height", base_height_target=0.98)
        .with_params("foot_clearance", foot_clearance_target=0.11),
        randomization=task.randomization.with_params("model_parameters", payload=(-2.0, 5.0)),
    )


@dataclass(frozen=True)
class H1Flat(G1Flat):
    """Unitree H1 on flat ground, following velocity commands with its legs."""

    task: str = "h1_flat"
    env: LeggedRobotConfig = field(default_factory=h1_task)
    runner: RunnerConfig = RunnerConfig(max_iterations=700, save_interval=50, experiment_name="h1_flat")
