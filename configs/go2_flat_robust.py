"""go2_flat with a delay of actions, weaker and stronger motors, and more randomisation, for use outside simulation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import EventTerm, ObservationTerm
from rsl_rl.config.task import LeggedRobotConfig

from .go2_flat import GROWING, Go2Flat, go2_task


def robust_task() -> LeggedRobotConfig:
    """Return go2_flat with delays, weaker and stronger motors, forces, more randomisation, and a heavier and narrower
    reward of the velocity; contacts hold standing feet. The hips are at 0.1 rad, as in the robot's own pose."""
    task = go2_task(hip_angle=0.1)
    policy, critic = task.observations["policy"], task.observations["critic"]
    biases = {"base_lin_vel": 0.05, "base_ang_vel": 0.05, "gravity": 0.02}
    privileged = ("motor_strength", "action_delay", "trunk_com", "trunk_force")
    return replace(
        task,
        gate={
            "fall_rate": 0.01,
            "lin_vel_error": 0.15,
            "yaw_rate_error": 0.15,
            "failures_per_hour": 1.0,
            "freezes_per_hour": 0.0,
            "dead_zone": 0.05,
            "stop_drift": 0.2,  # a sixth of the floors has a friction below 0.15
        },
        sim=replace(task.sim, contact_impedance=0.999),
        rewards=task.rewards.with_weights(
            {"track_lin_vel": 2.0, "stand_still": -1.0, "standing_steps": -1.0}
        ).with_params("track_lin_vel", tracking_sigma=0.15),
        observations={
            "policy": policy.with_terms({name: replace(policy.terms[name], bias=x) for name, x in biases.items()}),
            "critic": critic.with_terms({name: ObservationTerm() for name in privileged}),
        },
        randomization=task.randomization.with_params("model_parameters", payload=(-1.0, 4.0)).with_terms(
            {
                "friction": EventTerm("startup", params={"range": (0.1, 1.25), "distribution": "log_uniform"}),
                "action_delay": EventTerm("reset", params={"range": (0, 4)}),
                "motor_strength": EventTerm("reset", params={"range": (0.7, 1.1), "schedule": GROWING}),
                "trunk_com": EventTerm("startup", params={"range": {"x": (-0.03, 0.03), "y": (-0.02, 0.02)}}),
                "encoder_offset": EventTerm("startup", params={"range": (-0.02, 0.02)}),
                "push_force": EventTerm("interval", 8.0, params={"force": 40.0, "schedule": GROWING}),
            }
        ),
    )


@dataclass(frozen=True)
class Go2FlatRobust(Go2Flat):
    """Unitree Go2 on flat ground, trained with delays, weak motors, forces and more randomisation."""

    task: str = "go2_flat_robust"
    env: LeggedRobotConfig = field(default_factory=robust_task)
    algorithm: PPOConfig = replace(Go2Flat.algorithm, entropy_coef=0.003)  # with 0.01 it does not learn to stand still
    runner: RunnerConfig = replace(Go2Flat.runner, max_iterations=1500, experiment_name="go2_flat_robust")
