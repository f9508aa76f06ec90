"""solo12 on flat ground, following velocity commands. Written by `rsl-rl adopt`.

All values are guesses from the model: check them against report.html, and change what you know better. "Go2" below
means that a value is that of the Unitree Go2 (configs/go2_flat.py), scaled where a comment says so: 2.5 kg against
15 kg, legs of 0.33 m against 0.4 m, weight on one leg times its length 2.0 N m against 14.8 N m.
"""

# Prepared from solo12.urdf. Remarks on it:
# - torque limit of all joints: 2 times the torque scale, because the source has none or a huge one

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

# Legs, by their place, with the source's last link: FL (FL_LOWER_LEG), FR (FR_LOWER_LEG), RL (HL_LOWER_LEG), RR
# (HR_LOWER_LEG).
# Locked joints with their angles [rad]: none.
ROBOT = Robot(
    model_path=Path(__file__).parent / "solo12.xml",
    # Joint targets of the standing pose [rad]: feet below hips, level trunk, small torques against gravity. They differ
    # from the pose that the robot then stands in, because gravity bends the joints.
    default_joint_pos=(
        # FL: FL_HAA, FL_HFE, FL_KFE
        *(-0.190, -5.498, 4.926),
        # FR: FR_HAA, FR_HFE, FR_KFE
        *(0.190, -5.498, 4.926),
        # RL: HL_HAA, HL_HFE, HL_KFE
        *(-0.190, 0.780, -1.349),
        # RR: HR_HAA, HR_HFE, HR_KFE
        *(0.190, 0.780, -1.349),
    ),
    standing_height=0.276,  # of the trunk at the start, a little above the standing pose [m]
    foot_radius=0.016,  # [m]
    # Mirror image of joints and feet, from axes and places of joints; largest error in random poses: 0.1 mm.
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
        "abduction": "(FL|FR|HL|HR)_HAA",
        "hip": "(FL|FR|HL|HR)_HFE",
        "knee": "(FL|FR|HL|HR)_KFE",
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
        robot="rsl_rl_zoo.robots.solo12.flat:ROBOT",
        num_envs=512,
        observations={
            "policy": ObservationGroupConfig(SENSED),
            "critic": ObservationGroupConfig(
                {**{name: replace(term, noise=0.0) for name, term in SENSED.items()}, **PRIVILEGED}
            ),
        },
        control=ControlConfig(
            stiffness=5.03,  # [N m/rad] the lowest of a few with which the robot stands still
            damping=0.113,  # [N m s/rad] in proportion, by the root of the leg length
            action_scale=0.18,  # [rad] so that one unit of action is about as much torque as the Go2's
        ),
        commands=CommandConfig(
            resampling_time=3.0,
            standing_fraction=0.06,
            standing_time=9.0,  # [s] robots that stand badly tip over after some seconds
            dead_zone=0.04,  # [m/s], [rad/s]
            lin_vel_x=(-0.9, 0.9),  # [m/s] by the root of the leg length
            lin_vel_y=(-0.45, 0.45),
            limit=CommandLimitConfig(max_lin_acc=2.0, max_yaw_acc=4.0),  # [m/s^2], [rad/s^2], not in training
            # a step of each foot takes [s], by the root of the leg length
            terms={"gait_clock": CommandTerm(params={"period": 0.45})},
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
                "base_height": RewardTerm(-15.0, params={"base_height_target": 0.26}),
                "torques": RewardTerm(-0.0055),  # by the square of the torque scale
                "joint_acc": RewardTerm(-2.5e-7),
                "action_rate": RewardTerm(-0.01),
                "joint_limits": RewardTerm(-5.0, params={"soft_joint_limit": 0.9}),
                "collision": RewardTerm(
                    -1.0,
                    params={
                        "collision_links": (  # every link but trunk and feet
                            "FL_SHOULDER",
                            "FL_UPPER_LEG",
                            "FL_LOWER_LEG",
                            "FR_SHOULDER",
                            "FR_UPPER_LEG",
                            "FR_LOWER_LEG",
                            "HL_SHOULDER",
                            "HL_UPPER_LEG",
                            "HL_LOWER_LEG",
                            "HR_SHOULDER",
                            "HR_UPPER_LEG",
                            "HR_LOWER_LEG",
                        )
                    },
                ),
                "feet_air_time": RewardTerm(1.0, params={"air_time_target": 0.27}),  # [s] by the root of the leg length
                "foot_slip": RewardTerm(-0.049),  # by the square of the speed
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
                "model_parameters": EventTerm("startup", params={"payload": (-0.17, 0.33)}),
                "start_state": EventTerm("reset", params={"initial_joint_scale": (0.92, 1.08)}),
                # on average after [s]; by up to [m/s], by the root of the leg length, and [rad/s]; none at first
                "push": EventTerm(
                    "interval",
                    period=2.0,
                    params={
                        "push_velocity": 0.54,
                        "push_turning": 1.5,
                        "schedule": {"start": 0.0, "end": 1.0, "steps": 100 * 24},
                    },
                ),
            }
        ),
        terminations=TerminationConfig(
            contact_links=("base_link",), max_tilt=1.0
        ),  # the trunk must not touch the floor
    )


@dataclass(frozen=True)
class Solo12Flat(TrainConfig):
    """solo12 on flat ground, following velocity commands."""

    task: str = "rsl_rl_zoo.robots.solo12.flat:Solo12Flat"
    env: LeggedRobotConfig = field(default_factory=flat_task)
    policy: SymmetricActorCriticConfig = SymmetricActorCriticConfig(
        actor_hidden_dims=(128, 64, 32), critic_hidden_dims=(128, 64, 32)
    )
    algorithm: PPOConfig = PPOConfig(
        desired_kl=0.02, final_desired_kl=0.008, entropy_coef=0.01, final_entropy_coef=0.002
    )
    runner: RunnerConfig = RunnerConfig(max_iterations=300, save_interval=20, experiment_name="solo12_flat")
