"""go1 on flat ground, following velocity commands. Written by `rsl-rl adopt`.

All values are guesses from the model: check them against report.html, and change what you know better. "Go2" below
means that a value is that of the Unitree Go2 (configs/go2_flat.py), scaled where a comment says so: 12.7 kg against
15 kg, legs of 0.39 m against 0.4 m, weight on one leg times its length 12.3 N m against 14.8 N m.
"""

# Prepared from go1.xml. Remarks on it:
# - none

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import (
    CommandConfig,
    CommandLimitConfig,
    CommandTerm,
    ControlConfig,
    EventTerm,
    ObservationGroupConfig,
    ObservationTerm,
    RandomizationConfig,
    RewardConfig,
    RewardTerm,
    TerminationConfig,
)
from rsl_rl.config.policy import SymmetricActorCriticConfig
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.robots import Robot

# Legs, by their place, with the source's last link: FL (FL_calf), FR (FR_calf), RL (RL_calf), RR (RR_calf).
# Locked joints with their angles [rad]: none.
ROBOT = Robot(
    model_path=Path(__file__).parent / "go1.xml",
    # Joint targets of the standing pose [rad]: feet below hips, level trunk, small torques against gravity. They differ
    # from the pose that the robot then stands in, because gravity bends the joints.
    default_joint_pos=(
        # FL: FL_hip_joint, FL_thigh_joint, FL_calf_joint
        *(-0.031, 0.815, -1.510),
        # FR: FR_hip_joint, FR_thigh_joint, FR_calf_joint
        *(0.031, 0.815, -1.510),
        # RL: RL_hip_joint, RL_thigh_joint, RL_calf_joint
        *(-0.031, 0.816, -1.510),
        # RR: RR_hip_joint, RR_thigh_joint, RR_calf_joint
        *(0.031, 0.816, -1.510),
    ),
    standing_height=0.337,  # of the trunk at the start, a little above the standing pose [m]
    foot_radius=0.023,  # [m]
    # Mirror image of joints and feet, from axes and places of joints; largest error in random poses: 0.0 mm.
    mirrored_joints=(
        *(3, 4, 5),
        *(0, 1, 2),
        *(9, 10, 11),
        *(6, 7, 8),
    ),
    mirror_signs=(
        *(-1.0, 1.0, 1.0),
        *(-1.0, 1.0, 1.0),
        *(-1.0, 1.0, 1.0),
        *(-1.0, 1.0, 1.0),
    ),
    mirrored_feet=(1, 0, 3, 2),
    foot_groups={
        "front": ("FL_foot", "FR_foot"),
        "rear": ("RL_foot", "RR_foot"),
        "left": ("FL_foot", "RL_foot"),
        "right": ("FR_foot", "RR_foot"),
    },
    joint_groups={
        "abduction": "(FL|FR|RL|RR)_hip_joint",
        "hip": "(FL|FR|RL|RR)_thigh_joint",
        "knee": "(FL|FR|RL|RR)_calf_joint",
    },
)

SENSED = {  # observations that sensors of a robot provide; scales and noise as those of the Go2
    "base_lin_vel": ObservationTerm(scale=2.0, noise=0.1),
    "base_ang_vel": ObservationTerm(scale=0.25, noise=0.2),
    "gravity": ObservationTerm(scale=1.0, noise=0.05),
    "command": ObservationTerm(scale=2.0),
    "joint_pos": ObservationTerm(scale=1.0, noise=0.01),
    "joint_vel": ObservationTerm(scale=0.05, noise=1.5),
    "action": ObservationTerm(scale=1.0),
    "gait_clock": ObservationTerm(),
}
PRIVILEGED = {  # of the critic only
    "base_height": ObservationTerm(scale=5.0),
    "foot_contact": ObservationTerm(scale=1.0),
    "foot_height": ObservationTerm(scale=10.0),
    "air_time": ObservationTerm(scale=2.0),
    "friction": ObservationTerm(scale=1.0),
    "payload": ObservationTerm(scale=0.5),
}


def flat_task() -> LeggedRobotConfig:
    """Return the task: robot, observations, rewards, terminations and randomisation."""
    return LeggedRobotConfig(
        robot="rsl_rl_zoo.robots.go1.flat:ROBOT",
        num_envs=512,
        observations={
            "policy": ObservationGroupConfig(SENSED),
            "critic": ObservationGroupConfig(
                {**{name: replace(term, noise=0.0) for name, term in SENSED.items()}, **PRIVILEGED}
            ),
        },
        control=ControlConfig(
            stiffness=44.2,  # [N m/rad] the lowest of a few with which the robot stands still
            damping=1.1,  # [N m s/rad] in proportion, by the root of the leg length
            action_scale=0.13,  # [rad] so that one unit of action is about as much torque as the Go2's
        ),
        commands=CommandConfig(
            resampling_time=3.0,
            standing_fraction=0.06,
            standing_time=9.0,  # [s] robots that stand badly tip over after some seconds
            dead_zone=0.04,  # [m/s], [rad/s]
            lin_vel_x=(-1.0, 1.0),  # [m/s] by the root of the leg length
            lin_vel_y=(-0.5, 0.5),
            limit=CommandLimitConfig(max_lin_acc=2.0, max_yaw_acc=4.0),  # [m/s^2], [rad/s^2], not in training
            # a step of each foot takes [s], by the root of the leg length
            terms={"gait_clock": CommandTerm(params={"period": 0.5})},
        ),
        rewards=RewardConfig(
            {  # weights are those of Go2
                "track_lin_vel": RewardTerm(1.5, params={"tracking_sigma": 0.25}),
                "track_yaw_rate": RewardTerm(0.75, params={"tracking_sigma": 0.25}),
                "alive": RewardTerm(1.0),
                "lin_vel_z": RewardTerm(-2.0),
                "ang_vel_xy": RewardTerm(-0.05),
                "orientation": RewardTerm(-5.0),
                # the weight by the square of the leg length; [m] of the standing pose
                "base_height": RewardTerm(-10.0, params={"base_height_target": 0.318}),
                "torques": RewardTerm(-0.00015),  # by the square of the torque scale
                "joint_acc": RewardTerm(-2.5e-7),
                "action_rate": RewardTerm(-0.01),
                "joint_limits": RewardTerm(-5.0, params={"soft_joint_limit": 0.9}),
                "collision": RewardTerm(
                    -1.0,
                    params={
                        "collision_links": (  # every link but trunk and feet
                            "FL_hip",
                            "FL_thigh",
                            "FL_calf",
                            "FR_hip",
                            "FR_thigh",
                            "FR_calf",
                            "RL_hip",
                            "RL_thigh",
                            "RL_calf",
                            "RR_hip",
                            "RR_thigh",
                            "RR_calf",
                        )
                    },
                ),
                "feet_air_time": RewardTerm(1.0, params={"air_time_target": 0.3}),  # [s] by the root of the leg length
                "foot_slip": RewardTerm(-0.041),  # by the square of the speed
                "foot_timing": RewardTerm(1.0, params={"offsets": (0.0, 0.5, 0.5, 0.0)}),  # a trot
                "abduction_deviation": RewardTerm(-0.5),
                "stand_still": RewardTerm(-0.5),
                "standing_steps": RewardTerm(-0.5),
            },
            only_positive=False,  # a fall costs the reward of being alive
        ),
        gate={
            "fall_rate": 0.05,
            "lin_vel_error": 0.2,
            "yaw_rate_error": 0.2,
            "failures_per_hour": 0.5,
            "freezes_per_hour": 0.0,
            "stop_drift": 0.1,
        },
        randomization=RandomizationConfig(
            {
                # [kg] in proportion to the mass
                "model_parameters": EventTerm("startup", params={"payload": (-0.85, 1.7)}),
                "start_state": EventTerm("reset", params={"initial_joint_scale": (0.7, 1.3)}),
                # on average after [s]; by up to [m/s], by the root of the leg length, and [rad/s]; none at first
                "push": EventTerm(
                    "interval",
                    period=2.0,
                    params={
                        "push_velocity": 0.59,
                        "push_turning": 1.5,
                        "schedule": {"start": 0.0, "end": 1.0, "steps": 100 * 24},
                    },
                ),
            }
        ),
        terminations=TerminationConfig(contact_links=("trunk",), max_tilt=1.0),  # the trunk must not touch the floor
    )


@dataclass(frozen=True)
class Go1Flat(TrainConfig):
    """go1 on flat ground, following velocity commands."""

    task: str = "rsl_rl_zoo.robots.go1.flat:Go1Flat"
    env: LeggedRobotConfig = field(default_factory=flat_task)
    policy: SymmetricActorCriticConfig = SymmetricActorCriticConfig(
        actor_hidden_dims=(128, 64, 32), critic_hidden_dims=(128, 64, 32)
    )
    algorithm: PPOConfig = PPOConfig(
        desired_kl=0.02, final_desired_kl=0.008, entropy_coef=0.01, final_entropy_coef=0.002
    )
    runner: RunnerConfig = RunnerConfig(max_iterations=300, save_interval=20, experiment_name="go1_flat")
