"""Unitree Go2, following reference motions."""

from __future__ import annotations

from dataclasses import dataclass, field

from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import (
    CommandConfig,
    CommandTerm,
    ControlConfig,
    EventTerm,
    MetricTerm,
    ObservationGroupConfig,
    ObservationTerm,
    RandomizationConfig,
    RewardConfig,
    RewardTerm,
    TerminationConfig,
    TerminationTerm,
)
from rsl_rl.config.policy import SymmetricActorCriticConfig
from rsl_rl.config.task import LeggedRobotConfig

from .go2_flat import GROWING, without_noise

_TERMS = "rsl_rl.tasks.mdp.motion_terms"
_MOTION = "rsl_rl.tasks.mdp.motion"

CLIPS = ("trot speed=0.3", "trot speed=0.7", "bound", "sit", "stand_up")

_LEGS = ("FL", "FR", "RL", "RR")
KEY_BODIES = ("trunk", *(f"{leg}_{part}" for part in ("thigh", "calf", "foot") for leg in _LEGS))
"""Links and feet that are compared with the reference."""

_SENSED = {
    "reference_joint_pos": ObservationTerm(),
    "reference_joint_vel": ObservationTerm(scale=0.05),
    "reference_offset": ObservationTerm(scale=5.0, noise=0.01),
    "reference_turn": ObservationTerm(noise=0.02),
    "base_lin_vel": ObservationTerm(scale=2.0, noise=0.1),
    "base_ang_vel": ObservationTerm(scale=0.25, noise=0.2),
    "gravity": ObservationTerm(noise=0.05),
    "joint_pos": ObservationTerm(noise=0.01),
    "joint_vel": ObservationTerm(scale=0.05, noise=1.5),
    "action": ObservationTerm(scale=0.5),
}
"""What a robot with an estimate of its position and velocity provides, and the reference of the next control step."""

_PRIVILEGED = {
    "reference_phase": ObservationTerm(),
    "reference_clip": ObservationTerm(),
    "reference_feet": ObservationTerm(scale=2.0),
    "foot_positions": ObservationTerm(scale=2.0),
    "base_height": ObservationTerm(scale=5.0),
    "foot_contact": ObservationTerm(),
    "friction": ObservationTerm(),
    "payload": ObservationTerm(scale=0.5),
}
"""What only the critic reads."""


def track_task() -> LeggedRobotConfig:
    """Return the task; other robots replace its names of links, and its clips."""
    return LeggedRobotConfig(
        robot="go2",
        num_envs=512,
        episode_length=10.0,
        observations={
            "policy": ObservationGroupConfig(_SENSED),
            "critic": ObservationGroupConfig({**without_noise(_SENSED), **_PRIVILEGED}),
        },
        control=ControlConfig(stiffness=40.0, damping=1.0, action_scale=0.4),
        commands=CommandConfig(
            terms={
                "velocity": CommandTerm(f"{_MOTION}:MotionVelocity"),
                "motion": CommandTerm(f"{_MOTION}:Motion", {"clips": CLIPS, "steps": (0, 5)}),
            }
        ),
        rewards=RewardConfig(
            {
                "anchor_pos": RewardTerm(0.75, f"{_TERMS}:anchor_pos", {"sigma": 0.3}),
                # anchor_pos is above 0 at any distance before the termination, and this one only within centimetres
                "anchor_pos_near": RewardTerm(0.75, f"{_TERMS}:anchor_pos", {"sigma": 0.08}),
                "anchor_turn": RewardTerm(0.5, f"{_TERMS}:anchor_turn", {"sigma": 0.3}),
                "link_pos": RewardTerm(1.5, f"{_TERMS}:link_pos", {"links": KEY_BODIES, "sigma": 0.06}),
                "link_turn": RewardTerm(0.5, f"{_TERMS}:link_turn", {"links": KEY_BODIES, "sigma": 0.3}),
                "link_vel": RewardTerm(0.75, f"{_TERMS}:link_vel", {"links": KEY_BODIES, "sigma": 0.6}),
                "link_ang_vel": RewardTerm(0.5, f"{_TERMS}:link_ang_vel", {"links": KEY_BODIES, "sigma": 3.0}),
                "action_rate": RewardTerm(-0.02),
                "joint_limits": RewardTerm(-5.0, params={"soft_joint_limit": 0.95}),
                "torques": RewardTerm(-2e-5),
            },
            only_positive=False,
        ),
        terminations=TerminationConfig(
            terms={
                "forbidden_contact": None,
                "tilt": None,
                "anchor_height": TerminationTerm(f"{_TERMS}:anchor_height", {"largest": 0.12}),
                "anchor_tilt": TerminationTerm(f"{_TERMS}:anchor_tilt", {"largest": 0.5}),
                "anchor_distance": TerminationTerm(f"{_TERMS}:anchor_distance", {"largest": 0.4}),
                "motion_end": TerminationTerm(f"{_TERMS}:motion_end", {"loop_time": 5.0}, time_out=True),
            }
        ),
        randomization=RandomizationConfig(
            {
                "start_state": EventTerm("reset", func=f"{_MOTION}:MotionStart"),
                "push": EventTerm(
                    "interval", 4.0, params={"push_velocity": 0.5, "push_turning": 0.5, "schedule": GROWING}
                ),
            }
        ),
        metrics={
            "mpkpe": MetricTerm(f"{_TERMS}:mpkpe", {"links": KEY_BODIES}),
            "root_relative_mpkpe": MetricTerm(f"{_TERMS}:root_relative_mpkpe", {"links": KEY_BODIES}),
            "joint_error": MetricTerm(f"{_TERMS}:joint_error"),
            "turn_error": MetricTerm(f"{_TERMS}:turn_error"),
        },
        gate={"mpkpe": 0.03, "fall_rate": 0.05},
    )


@dataclass(frozen=True)
class Go2Track(TrainConfig):
    """Unitree Go2, following reference motions: trot, bound, sit and stand up, in one policy."""

    task: str = "go2_track"
    env: LeggedRobotConfig = field(default_factory=track_task)
    policy: SymmetricActorCriticConfig = SymmetricActorCriticConfig(
        init_noise_std=0.6, actor_hidden_dims=(256, 128, 64), critic_hidden_dims=(256, 128, 64)
    )
    algorithm: PPOConfig = PPOConfig(
        desired_kl=0.015, final_desired_kl=0.006, entropy_coef=0.003, final_entropy_coef=0.0005
    )
    runner: RunnerConfig = RunnerConfig(max_iterations=480, save_interval=60, experiment_name="go2_track")
