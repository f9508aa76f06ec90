"""Experiments by name; `scripts/train.py --task NAME` looks here."""

from rsl_rl.utils.registry import Registry

EXPERIMENTS = Registry(
    "task",
    {
        "go2_flat": "configs.go2_flat:Go2Flat",
        "go2_flat_blind": "configs.go2_flat_blind:Go2FlatBlind",
        "go2_flat_blind_mlp": "configs.go2_flat_blind:Go2FlatBlindMlp",
        "recall": "configs.toy:Recall",
        "toy": "configs.toy:Toy",
    },
)
