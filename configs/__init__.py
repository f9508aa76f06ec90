"""Experiments by name; `scripts/train.py --task NAME` looks here."""

from rsl_rl.utils.registry import Registry

EXPERIMENTS = Registry(
    "task",
    {
        "camera": "configs.toy:Camera",
        "choice": "configs.toy:Choice",
        "far_goal": "configs.toy:FarGoal",
        "far_goal_rnd": "configs.toy:FarGoalRND",
        "go2_flat": "configs.go2_flat:Go2Flat",
        "go2_flat_blind": "configs.go2_flat_blind:Go2FlatBlind",
        "go2_flat_blind_mlp": "configs.go2_flat_blind:Go2FlatBlindMlp",
        "go2_flat_distilled": "configs.go2_flat_distilled:Go2FlatDistilled",
        "go2_flat_mlp": "configs.go2_flat_mlp:Go2FlatMlp",
        "go2_flat_mlp_augmented": "configs.go2_flat_mlp:Go2FlatMlpAugmented",
        "go2_flat_mlp_mirror_loss": "configs.go2_flat_mlp:Go2FlatMlpMirrorLoss",
        "go2_flat_teacher": "configs.go2_flat_distilled:Go2FlatTeacher",
        "recall": "configs.toy:Recall",
        "toy": "configs.toy:Toy",
    },
)
