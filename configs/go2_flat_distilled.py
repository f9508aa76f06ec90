"""go2_flat_blind by distillation: the student observes no velocity, the teacher has all observations of go2_flat.

rsl-rl train --task go2_flat_teacher
rsl-rl train --task go2_flat_distilled --algorithm.teacher_run logs/go2_flat_teacher/<run>
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rsl_rl.config.algorithm import DistillationConfig
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import ObservationGroupConfig
from rsl_rl.config.policy import SymmetricActorCriticRecurrentConfig
from rsl_rl.config.task import LeggedRobotConfig

from .go2_flat import Go2Flat, flat_task, without_noise
from .go2_flat_blind import Go2FlatBlind, blind_task


def teacher_task() -> LeggedRobotConfig:
    """Return go2_flat_blind for a policy that observes what it observes in go2_flat."""
    task = blind_task()
    return replace(task, observations={**task.observations, "policy": flat_task().observations["policy"]})


def distilled_task() -> LeggedRobotConfig:
    """Return go2_flat_blind with the group "teacher": what a policy of go2_flat reads, without noise."""
    task, sensed = blind_task(), flat_task().observations["policy"].terms
    teacher = ObservationGroupConfig(without_noise(sensed))
    return replace(task, observations={**task.observations, "teacher": teacher})


@dataclass(frozen=True)
class Go2FlatTeacher(Go2Flat):
    """The teacher of go2_flat_distilled: a policy of go2_flat with the floors, loads and rewards of its student."""

    task: str = "go2_flat_teacher"
    env: LeggedRobotConfig = field(default_factory=teacher_task)
    runner: RunnerConfig = replace(Go2Flat.runner, experiment_name="go2_flat_teacher")


@dataclass(frozen=True)
class Go2FlatDistilled(TrainConfig):
    """The task and the networks of go2_flat_blind, learned from a teacher: give algorithm.teacher_run."""

    task: str = "go2_flat_distilled"
    env: LeggedRobotConfig = field(default_factory=distilled_task)
    policy: SymmetricActorCriticRecurrentConfig = replace(Go2FlatBlind.policy, init_noise_std=0.1)
    algorithm: DistillationConfig = DistillationConfig(
        teacher=Go2Flat.policy, teacher_groups=("teacher",), teacher_share=0.5, teacher_updates=20, ema_decay=0.9
    )
    runner: RunnerConfig = RunnerConfig(max_iterations=180, save_interval=20, experiment_name="go2_flat_distilled")
