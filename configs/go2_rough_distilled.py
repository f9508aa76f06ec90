"""go2_rough by distillation: the student is blind, the teacher knows the exact heights around it.

rsl-rl train --task go2_rough_teacher
rsl-rl train --task go2_rough_student --algorithm.teacher_run logs/go2_rough_teacher/<run>
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rsl_rl.config.algorithm import DistillationConfig
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import ObservationGroupConfig, ObservationTerm
from rsl_rl.config.policy import SymmetricActorCriticRecurrentConfig
from rsl_rl.config.task import LeggedRobotConfig

from .go2_flat import without_noise
from .go2_rough import Go2Rough, rough_task

_EXACT = {"height_scan": ObservationTerm(scale=5.0, params={"trunk_height": 0.3})}

_UNKNOWN = ("height_scan", "base_lin_vel")
"""Observations of the teacher that the student does not have."""


def teacher_task() -> LeggedRobotConfig:
    """Return go2_rough with a height scan without errors."""
    task = rough_task()
    return replace(
        task,
        observations={name: group.with_terms(_EXACT) for name, group in task.observations.items()},
    )


def student_task() -> LeggedRobotConfig:
    """Return go2_rough for a policy without height scan and velocity, with the group "teacher"."""
    task = teacher_task()
    teacher = task.observations["policy"].terms
    student = {name: term for name, term in teacher.items() if name not in _UNKNOWN}
    return replace(
        task,
        observations={
            **task.observations,
            "policy": ObservationGroupConfig(student),
            "teacher": ObservationGroupConfig(without_noise(teacher)),
        },
    )


@dataclass(frozen=True)
class Go2RoughTeacher(Go2Rough):
    """The teacher of go2_rough_student."""

    task: str = "go2_rough_teacher"
    env: LeggedRobotConfig = field(default_factory=teacher_task)
    runner: RunnerConfig = replace(Go2Rough.runner, max_iterations=900, experiment_name="go2_rough_teacher")


@dataclass(frozen=True)
class Go2RoughStudent(TrainConfig):
    """A blind policy with a memory, learned from a teacher: give algorithm.teacher_run."""

    task: str = "go2_rough_student"
    env: LeggedRobotConfig = field(default_factory=student_task)
    policy: SymmetricActorCriticRecurrentConfig = SymmetricActorCriticRecurrentConfig(
        rnn_type="gru",
        rnn_hidden_size=64,
        actor_hidden_dims=(128, 64),
        critic_hidden_dims=(128, 64),
        init_noise_std=0.1,
    )
    algorithm: DistillationConfig = DistillationConfig(
        teacher=Go2Rough.policy, teacher_groups=("teacher",), teacher_share=0.5, teacher_updates=20, ema_decay=0.9
    )
    runner: RunnerConfig = RunnerConfig(max_iterations=500, save_interval=50, experiment_name="go2_rough_student")
