"""Paths of modules that users have imported still work, with a warning."""

import importlib
import sys
from types import SimpleNamespace

import pytest
import torch

from rsl_rl.config.mdp import RewardConfig


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("rsl_rl.tasks.robots", "rsl_rl.robots", "ROBOTS"),
        ("rsl_rl.config.command_limit", "rsl_rl.config.mdp", "CommandLimitConfig"),
        ("rsl_rl.tasks.rewards", "rsl_rl.tasks.mdp.rewards", "track_lin_vel"),
    ],
)
def test_old_path_of_a_module_warns_and_has_the_same_objects(old, new, name):
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} is deprecated; import {new}"):
        module = importlib.import_module(old)
    assert getattr(module, name).__doc__ == getattr(importlib.import_module(new), name).__doc__


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_reward_of_the_old_path_has_the_old_signature():
    old = importlib.import_module("rsl_rl.tasks.rewards")
    state = SimpleNamespace(base_height=torch.tensor([0.2, 0.5]))
    torch.testing.assert_close(old.base_height(state, RewardConfig(base_height_target=0.4)), torch.tensor([0.04, 0.01]))
    assert old.alive(state, RewardConfig()).tolist() == [1.0, 1.0]
