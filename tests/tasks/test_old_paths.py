"""Paths of modules that users have imported still work, with a warning."""

import importlib
import sys

import pytest


@pytest.mark.parametrize(
    ("old", "new", "name"),
    [
        ("rsl_rl.tasks.robots", "rsl_rl.robots", "ROBOTS"),
        ("rsl_rl.config.command_limit", "rsl_rl.config.mdp", "CommandLimitConfig"),
    ],
)
def test_old_path_of_a_module_warns_and_has_the_same_objects(old, new, name):
    sys.modules.pop(old, None)
    with pytest.warns(DeprecationWarning, match=f"{old} is deprecated; import {new}"):
        module = importlib.import_module(old)
    assert getattr(module, name).__doc__ == getattr(importlib.import_module(new), name).__doc__
