"""ANYmal C on flat ground, following velocity commands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import CommandTerm, ControlConfig
from rsl_rl.config.task import LeggedRobotConfig

from .go2_flat import Go2Flat, flat_task

_THIGHS_AND_SHANKS = tuple(f"{leg}_{part}" for part in ("thigh", "shank") for leg in ("LF", "RF", "LH", "RH"))


def anymal_task() -> LeggedRobotConfig:
    """Return go2_flat with the gains and sizes of a robot of 52 kg: gains and the weight of torques of legged_gym, and
    slower steps."""
    task = flat_task()
    return replace(
        task,
        robot="anymal_c",
        commands=replace(task.commands, slow_fraction=0.3, terms={"gait_clock": CommandTerm(params={"period": 0.6})}),
        control=ControlConfig(stiffness=80.0, damping=2.0, action_scale=0.5),
        rewards=task.rewards.with_weights({"torques": -1e-5})
        .with_params("base_height", base_height_target=0.5)
        .with_params("feet_air_time", air_time_target=0.35)
        .with_params("collision", collision_links=_THIGHS_AND_SHANKS),
        randomization=task.randomization.with_params("model_parameters", payload=(-5.0, 5.0)),
        gate={**task.gate, "stop_drift": 0.1},
        terminations=replace(task.terminations, contact_links=("trunk",)),
    )


@dataclass(frozen=True)
class AnymalCFlat(Go2Flat):
    """ANYmal C on flat ground, following velocity commands."""

    task: str = "anymal_c_flat"
    env: LeggedRobotConfig = field(default_factory=anymal_task)
    runner: RunnerConfig = replace(Go2Flat.runner, experiment_name="anymal_c_flat")
