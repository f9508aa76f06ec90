"""Storage of rollouts, returns and mini-batches."""

from rsl_rl.storage.adder import Adder, list_split, lists_to_dicts
from rsl_rl.storage.mini_batch import MiniBatch
from rsl_rl.storage.rollout_storage import Column, GroupSpec, RolloutStorage
from rsl_rl.utils.trajectories import split_and_pad_trajectories, unpad_trajectories

__all__ = [
    "Adder",
    "Column",
    "GroupSpec",
    "MiniBatch",
    "RolloutStorage",
    "list_split",
    "lists_to_dicts",
    "split_and_pad_trajectories",
    "unpad_trajectories",
]
