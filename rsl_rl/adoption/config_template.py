"""The text of the config file of an adopted robot, with the names of values in braces."""

TEMPLATE = '''"""{name} on flat ground, following velocity commands. Written by `rsl-rl adopt` from {source}.

All values are guesses from the model: check them against report.html, and change what you know better. "Go2" below
means that a value is that of the Unitree Go2 (configs/go2_flat.py), scaled where a comment says so: {mass} kg against
15 kg, legs of {reach} m against 0.4 m, weight on one leg times its length {torque_scale} N m against 14.8 N m.

Remarks on the source:
{notes}
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import (
    CommandConfig,
    CommandLimitConfig,
    ControlConfig,
    EventTerm,
    ObservationGroupConfig,
    ObservationTerm,
    RandomizationConfig,
    RewardConfig,
    RewardTerm,
    TerminationConfig,
)
from rsl_rl.config.policy import {policy}
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.robots import Robot

{legs}
{locked}
ROBOT = Robot(
    model_path=Path(__file__).parent / "{name}.xml",
    # Joint targets of the standing pose [rad]: feet below hips, level trunk, small torques against gravity. They differ
    # from the pose that the robot then stands in, because gravity bends the joints.
    default_joint_pos=(
{default_joint_pos}
    ),
    standing_height={standing_height},  # of the trunk at the start, a little above the standing pose [m]
    foot_radius={foot_radius},  # [m]
    # Mirror image of joints and feet, from axes and places of joints; largest error in random poses: {mirror_error}.
    mirrored_joints=(
{mirrored_joints}
    ),
    mirror_signs=(
{mirror_signs}
    ),
    mirrored_feet={mirrored_feet},
    foot_groups={{
{foot_groups}
    }},
    joint_groups={{
{joint_groups}
    }},
)

SENSED = {{  # observations that sensors of a robot provide; scales and noise as those of the Go2
    "base_lin_vel": ObservationTerm(scale=2.0, noise=0.1),
    "base_ang_vel": ObservationTerm(scale=0.25, noise=0.2),
    "gravity": ObservationTerm(scale=1.0, noise=0.05),
    "command": ObservationTerm(scale=2.0),
    "joint_pos": ObservationTerm(scale=1.0, noise=0.01),
    "joint_vel": ObservationTerm(scale=0.05, noise=1.5),
    "action": ObservationTerm(scale=1.0),
}}
PRIVILEGED = {{  # of the critic only
    "base_height": ObservationTerm(scale=5.0),
    "foot_contact": ObservationTerm(scale=1.0),
    "foot_height": ObservationTerm(scale=10.0),
    "air_time": ObservationTerm(scale=2.0),
    "friction": ObservationTerm(scale=1.0),
    "payload": ObservationTerm(scale=0.5),
}}


def flat_task() -> LeggedRobotConfig:
    """Return the task: robot, observations, rewards, terminations and randomisation."""
    return LeggedRobotConfig(
        robot="{name}.flat:ROBOT",
        num_envs=512,
        observations={{
            "policy": ObservationGroupConfig(SENSED),
            "critic": ObservationGroupConfig(
                {{**{{name: replace(term, noise=0.0) for name, term in SENSED.items()}}, **PRIVILEGED}}
            ),
        }},
        control=ControlConfig(
            stiffness={stiffness},  # [N m/rad] the lowest of a few with which the robot stands still
            damping={damping},  # [N m s/rad] in proportion, by the root of the leg length
            action_scale={action_scale},  # [rad] so that one unit of action is about as much torque as the Go2's
        ),
        commands=CommandConfig(
            resampling_time=5.0,
            lin_vel_x={lin_vel_x},  # [m/s] by the root of the leg length
            lin_vel_y={lin_vel_y},
            limit=CommandLimitConfig(max_lin_acc=2.0, max_yaw_acc=4.0),  # [m/s^2], [rad/s^2], not in training
        ),
        rewards=RewardConfig(
            {{  # weights are those of {weights_of}
{rewards}
            }}
        ),
        gate={{"fall_rate": 0.05, "lin_vel_error": 0.2, "yaw_rate_error": 0.2}},
        randomization=RandomizationConfig(
            {{
                # [kg] in proportion to the mass
                "model_parameters": EventTerm("startup", params={{"payload": {payload}}}),
                "start_state": EventTerm("reset", params={{"initial_joint_scale": {start}}}),
                # every 6 s; by up to [m/s], by the root of the leg length
                "push": EventTerm("interval", period=6.0, params={{"push_velocity": {push}}}),
            }}
        ),
        terminations=TerminationConfig(contact_links=("{base}",), max_tilt=1.0),  # the trunk must not touch the floor
    )


@dataclass(frozen=True)
class {class_name}(TrainConfig):
    """{name} on flat ground, following velocity commands."""

    task: str = "{name}.flat:{class_name}"
    env: LeggedRobotConfig = field(default_factory=flat_task)
    policy: {policy} = {policy}(
        {noise}actor_hidden_dims=(128, 64, 32), critic_hidden_dims=(128, 64, 32)
    )
    algorithm: PPOConfig = PPOConfig(desired_kl=0.02, entropy_coef={entropy})
    runner: RunnerConfig = RunnerConfig(
        max_iterations={max_iterations}, save_interval=20, experiment_name="{name}_flat"
    )
'''
