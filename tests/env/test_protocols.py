import inspect

import pytest
import torch

from rsl_rl.config.task import ToyConfig
from rsl_rl.env import VecEnv
from rsl_rl.env.protocols import Checkpointable, HasEpisodeLengths, Mirrored, ReportsFaults, Resettable, supports
from rsl_rl.tasks.toy import PointEnv


class Bare(VecEnv):
    """An environment without any optional ability."""

    def get_observations(self):
        return {}

    def step(self, actions):
        raise NotImplementedError


class Delegating:
    """An adapter that takes what it lacks from another environment."""

    def __init__(self, env):
        self.env = env

    def __getattr__(self, name):
        return getattr(self.env, name)


def with_methods(**methods):
    """Return a bare environment whose class has more methods."""
    return type("Env", (Bare,), methods)()


HAS = {
    "reset of env_ids": (Resettable, {"reset": lambda self, env_ids: None}),
    "reset of indices": (Resettable, {"reset": lambda self, indices=None: None}),
    "reset of idx and more": (Resettable, {"reset": lambda self, robot_idx, seed=None: None}),
    "a module's state": (
        Checkpointable,
        {
            "state_dict": lambda self, *args, destination=None, prefix="", keep_vars=False: {},
            "load_state_dict": lambda self, state, strict=True, assign=False: None,
        },
    ),
    "mirrors": (Mirrored, {"mirrors": lambda self: {}}),
    "mirrors with a default": (Mirrored, {"mirrors": lambda self, axis="y": {}}),
    "a static method": (Mirrored, {"mirrors": staticmethod(lambda: {})}),
    "postmortem": (ReportsFaults, {"postmortem": lambda self, cause: {}}),
    "postmortem with another name": (ReportsFaults, {"postmortem": lambda self, reason, depth=1: {}}),
    "episode lengths": (HasEpisodeLengths, {"episode_length_buf": torch.zeros(2, dtype=torch.long)}),
}

LACKS = {
    "VecEnv's own reset": (Resettable, {}),
    "Gymnasium's reset": (Resettable, {"reset": lambda self, *, seed=None, options=None: None}),
    "a reset of a seed": (Resettable, {"reset": lambda self, seed=None, options=None: None}),
    "a reset of all": (Resettable, {"reset": lambda self: None}),
    "a reset of a grid": (Resettable, {"reset": lambda self, grids: None}),
    "a reset to an identity": (Resettable, {"reset": lambda self, identity: None}),
    "a reset of several things": (Resettable, {"reset": lambda self, env_ids, poses: None}),
    "a reset of named indices only": (Resettable, {"reset": lambda self, *, env_ids=None: None}),
    "no reset": (Resettable, {"reset": None}),
    "a state that cannot be loaded": (Checkpointable, {"state_dict": lambda self: {}}),
    "a state that cannot be saved": (Checkpointable, {"load_state_dict": lambda self, state: None}),
    "the state of a named part": (
        Checkpointable,
        {"state_dict": lambda self, part: {}, "load_state_dict": lambda self, state: None},
    ),
    "a state loaded from nothing": (
        Checkpointable,
        {"state_dict": lambda self: {}, "load_state_dict": lambda self: None},
    ),
    "mirrors of an axis": (Mirrored, {"mirrors": lambda self, axis: {}}),
    "mirrors that are data": (Mirrored, {"mirrors": {}}),
    "no mirrors": (Mirrored, {}),
    "postmortem of all": (ReportsFaults, {"postmortem": lambda self: {}}),
    "postmortem of two": (ReportsFaults, {"postmortem": lambda self, cause, path: {}}),
    "no postmortem": (ReportsFaults, {}),
    "no episode lengths": (HasEpisodeLengths, {}),
    "episode lengths from a method": (HasEpisodeLengths, {"episode_length_buf": lambda self: torch.zeros(2)}),
    "episode lengths as a list": (HasEpisodeLengths, {"episode_length_buf": [0, 0]}),
}


@pytest.mark.parametrize("case", HAS)
def test_ability_with_the_declared_call_is_recognised(case):
    ability, methods = HAS[case]
    assert supports(with_methods(**methods), ability)
    assert supports(Delegating(with_methods(**methods)), ability)


@pytest.mark.parametrize("case", LACKS)
def test_ability_of_the_same_name_with_another_call_is_not_recognised(case):
    ability, methods = LACKS[case]
    assert not supports(with_methods(**methods), ability)
    assert not supports(Delegating(with_methods(**methods)), ability)


def test_episode_lengths_behind_a_read_only_property_are_not_recognised():
    lengths = property(lambda self: torch.zeros(2))
    assert not supports(with_methods(episode_length_buf=lengths), HasEpisodeLengths)
    assert supports(with_methods(episode_length_buf=lengths.setter(lambda self, value: None)), HasEpisodeLengths)


def test_ability_set_on_the_instance_is_recognised():
    env = with_methods()
    env.mirrors = lambda: {}
    env.reset = lambda env_ids: None
    assert supports(env, Mirrored) and supports(env, Resettable) and not supports(env, ReportsFaults)


def test_method_without_a_signature_is_not_recognised():
    env = with_methods(mirrors=type)  # a builtin that inspect cannot read
    with pytest.raises(ValueError, match="no signature"):
        inspect.signature(env.mirrors)
    assert not supports(env, Mirrored)


def test_subclass_of_a_protocol_has_its_own_instances_only():
    class Symmetric(Bare, Mirrored):
        def mirrors(self):
            return {}

    class Undefined(Bare, Mirrored):
        pass

    assert isinstance(Symmetric(), Symmetric) and supports(Symmetric(), Mirrored)
    assert not isinstance(with_methods(mirrors=lambda self: {}), Symmetric)
    assert not supports(Undefined(), Mirrored)  # the protocol's declaration is no implementation


def test_toy_environment_can_be_reset_and_saved_only():
    env = PointEnv(ToyConfig(num_envs=2))
    abilities = (Resettable, Checkpointable, HasEpisodeLengths, Mirrored, ReportsFaults)
    assert [supports(env, ability) for ability in abilities] == [True, True, True, False, False]
    assert supports(env, Resettable) and not supports(with_methods(), Resettable)
