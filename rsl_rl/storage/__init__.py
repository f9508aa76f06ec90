"""Storage of rollouts, returns and mini-batches."""

from rsl_rl.storage.adder import Adder, list_split, lists_to_dicts
from rsl_rl.storage.columns import Column, GroupSpec
from rsl_rl.storage.mini_batch import MiniBatch
from rsl_rl.storage.rollout_buffer import RolloutBuffer, iterate_minibatches, transition_view
from rsl_rl.storage.rollout_storage import RolloutStorage
from rsl_rl.utils.trajectories import split_and_pad_trajectories, unpad_trajectories

__all__ = [
    "Adder",
    "Column",
    "GroupSpec",
    "MiniBatch",
    "RolloutBuffer",
    "RolloutStorage",
    "iterate_minibatches",
    "list_split",
    "lists_to_dicts",
    "split_and_pad_trajectories",
    "transition_view",
    "unpad_trajectories",
]
