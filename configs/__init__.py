"""Experiments by name; `scripts/train.py --task NAME` looks here."""

from rsl_rl.utils.registry import Registry

EXPERIMENTS = Registry("task", {"go2_flat": "configs.go2_flat:Go2Flat", "toy": "configs.toy:Toy"})
