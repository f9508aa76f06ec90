"""Experiments by name; `rsl-rl train --task NAME` looks here.

The wheel installs this folder as the package rsl_rl_configs, and each name as an entry point of the group rsl_rl.tasks.
"""

from rsl_rl.utils.registry import Registry

PATHS = {
    "anymal_c_flat": "anymal_c_flat:AnymalCFlat",
    "anymal_c_rough": "anymal_c_rough:AnymalCRough",
    "camera": "toy:Camera",
    "choice": "toy:Choice",
    "far_goal": "toy:FarGoal",
    "far_goal_rnd": "toy:FarGoalRND",
    "g1_flat": "g1_flat:G1Flat",
    "g1_track": "g1_track:G1Track",
    "go2_flat": "go2_flat:Go2Flat",
    "go2_flat_blind": "go2_flat_blind:Go2FlatBlind",
    "go2_flat_blind_mlp": "go2_flat_blind:Go2FlatBlindMlp",
    "go2_flat_distilled": "go2_flat_distilled:Go2FlatDistilled",
    "go2_flat_mlp": "go2_flat_mlp:Go2FlatMlp",
    "go2_flat_mlp_augmented": "go2_flat_mlp:Go2FlatMlpAugmented",
    "go2_flat_mlp_mirror_loss": "go2_flat_mlp:Go2FlatMlpMirrorLoss",
    "go2_flat_robust": "go2_flat_robust:Go2FlatRobust",
    "go2_flat_teacher": "go2_flat_distilled:Go2FlatTeacher",
    "go2_rough": "go2_rough:Go2Rough",
    "go2_rough_student": "go2_rough_distilled:Go2RoughStudent",
    "go2_rough_teacher": "go2_rough_distilled:Go2RoughTeacher",
    "go2_style": "go2_style:Go2Style",
    "go2_track": "go2_track:Go2Track",
    "gym_cartpole": "gymnasium:GymCartPole",
    "gym_halfcheetah": "gymnasium:GymHalfCheetah",
    "gym_hopper": "gymnasium:GymHopper",
    "gym_pendulum": "gymnasium:GymPendulum",
    "gym_walker2d": "gymnasium:GymWalker2d",
    "gymnasium": "gymnasium:Gymnasium",
    "h1_flat": "h1_flat:H1Flat",
    "recall": "toy:Recall",
    "reverse": "grpo:Reverse",
    "target_sum": "grpo:TargetSum",
    "toy": "toy:Toy",
    "toy_grpo": "grpo:ToyGRPO",
}
"""Module and class of each experiment, within this package."""

EXPERIMENTS = Registry("task", {name: f"{__name__}.{path}" for name, path in PATHS.items()})
