"""Tasks of reference motions, made of the tasks on flat ground of the same robots."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Tuple

from rsl_rl.config.mdp import (
    CommandConfig,
    CommandTerm,
    EventTerm,
    MetricTerm,
    ObservationGroupConfig,
    ObservationTerm,
    RewardConfig,
    RewardTerm,
    TerminationConfig,
    TerminationTerm,
)
from rsl_rl.config.task import LeggedRobotConfig

from .go2_flat import GROWING, without_noise

_TERMS = "rsl_rl.tasks.mdp.motion_terms"
_MOTION = "rsl_rl.tasks.mdp.motion"

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


def tracking_task(
    flat: LeggedRobotConfig, links: Tuple[str, ...], clips: Tuple[str, ...], size: float = 1.0
) -> LeggedRobotConfig:
    """Return a task in which the robot of a flat task follows clips.

    ``links`` are the key bodies: names of links and feet that are compared with the reference. ``size`` is the length
    of the legs divided by that of the Go2's; lengths are in proportion to it, and velocities to its root. Robot,
    simulation, gains and randomised parameters are those of the flat task. Torques cost a fifth of what they cost
    there.
    """
    speed = math.sqrt(size)
    return replace(
        flat,
        episode_length=10.0,
        observations={
            "policy": ObservationGroupConfig(_SENSED),
            "critic": ObservationGroupConfig({**without_noise(_SENSED), **_PRIVILEGED}),
        },
        # [rad] more than for walking: a robot that lies or sits is far from the default pose
        control=replace(flat.control, action_scale=0.4),
        commands=CommandConfig(
            terms={
                "velocity": CommandTerm(f"{_MOTION}:MotionVelocity"),
                "motion": CommandTerm(f"{_MOTION}:Motion", {"clips": clips, "steps": (0, 5)}),
            }
        ),
        rewards=RewardConfig(
            {
                "anchor_pos": RewardTerm(0.75, f"{_TERMS}:anchor_pos", {"sigma": 0.3 * size}),
                # anchor_pos is above 0 at any distance before the termination, and this one only within centimetres
                "anchor_pos_near": RewardTerm(0.75, f"{_TERMS}:anchor_pos", {"sigma": 0.08 * size}),
                "anchor_turn": RewardTerm(0.5, f"{_TERMS}:anchor_turn", {"sigma": 0.3}),
                "link_pos": RewardTerm(1.5, f"{_TERMS}:link_pos", {"links": links, "sigma": 0.06 * size}),
                "link_turn": RewardTerm(0.5, f"{_TERMS}:link_turn", {"links": links, "sigma": 0.3}),
                "link_vel": RewardTerm(0.75, f"{_TERMS}:link_vel", {"links": links, "sigma": 0.6 * speed}),
                "link_ang_vel": RewardTerm(0.5, f"{_TERMS}:link_ang_vel", {"links": links, "sigma": 3.0}),
                "action_rate": RewardTerm(-0.02),
                "joint_limits": RewardTerm(-5.0, params={"soft_joint_limit": 0.95}),
                "torques": RewardTerm(_torques(flat) / 5),
            },
            only_positive=False,
        ),
        terminations=TerminationConfig(
            terms={
                "forbidden_contact": None,
                "tilt": None,
                "anchor_height": TerminationTerm(f"{_TERMS}:anchor_height", {"largest": 0.12 * size}),
                "anchor_tilt": TerminationTerm(f"{_TERMS}:anchor_tilt", {"largest": 0.5}),
                "anchor_distance": TerminationTerm(f"{_TERMS}:anchor_distance", {"largest": 0.4 * size}),
                "motion_end": TerminationTerm(f"{_TERMS}:motion_end", {"loop_time": 5.0}, time_out=True),
            }
        ),
        randomization=flat.randomization.with_terms(
            {
                "start_state": EventTerm("reset", func=f"{_MOTION}:MotionStart"),
                "push": EventTerm(
                    "interval", 4.0, params={"push_velocity": 0.5 * speed, "push_turning": 0.5, "schedule": GROWING}
                ),
            }
        ),
        metrics={
            "mpkpe": MetricTerm(f"{_TERMS}:mpkpe", {"links": links}),
            "root_relative_mpkpe": MetricTerm(f"{_TERMS}:root_relative_mpkpe", {"links": links}),
            "joint_error": MetricTerm(f"{_TERMS}:joint_error"),
            "turn_error": MetricTerm(f"{_TERMS}:turn_error"),
        },
        gate={"mpkpe": round(0.03 * size, 3), "fall_rate": 0.05},
    )


def _torques(flat: LeggedRobotConfig) -> float:
    """Return the weight of the term torques; 0 without one."""
    return flat.rewards.terms.get("torques", RewardTerm(0.0)).weight


def biped_tracking_task(
    flat: LeggedRobotConfig, links: Tuple[str, ...], clips: Tuple[str, ...], size: float = 1.0
) -> LeggedRobotConfig:
    """Return :func:`tracking_task` with the weights and the sizes of a G1.

    ``size`` is the length of the legs divided by that of the G1's. Torques cost as much as in the flat task.
    """
    task = tracking_task(flat, links, clips, size)
    # twice that of a Go2: with less, robots kept away from the place of the reference
    weights = {"anchor_pos_near": 1.5, "torques": _torques(flat)}
    rewards = task.rewards.with_weights(weights).with_params("link_pos", sigma=0.08 * size)
    errors = {"joint_error": 0.07, "turn_error": 0.07, "velocity_error": 0.2}
    return replace(
        task,
        control=replace(flat.control, action_scale=0.3),
        rewards=rewards.with_params("link_vel", sigma=0.8 * math.sqrt(size)),
        terminations=task.terminations.with_params("anchor_height", largest=0.2 * size),
        randomization=task.randomization.with_params("start_state", **errors),
        gate={"mpkpe": round(0.04 * size, 3), "fall_rate": 0.1},
    )
