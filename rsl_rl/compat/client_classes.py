"""Classes that a client derives from ours, constructed with the arguments of its version.

A class is derived from the client's and, behind it, from one that stands before ours in the order of bases. So the
client's ``super().__init__(...)`` reaches the latter, which takes the arguments of any version.
"""

from __future__ import annotations

import inspect
from typing import Any, Dict, List, Mapping, Optional, Tuple, Type

from torch import nn

from rsl_rl.compat.eras import Era
from rsl_rl.compat.policies import ActorCritic
from rsl_rl.env.vec_env import Observations
from rsl_rl.modules.mlp import MLP

POLICY_SETTINGS = {
    "actor_hidden_dims": "actor_hidden_dims",
    "critic_hidden_dims": "critic_hidden_dims",
    "activation": "activation",
    "init_noise_std": "init_noise_std",
    "noise_std_type": "noise_std_type",
    "state_dependent_std": "state_dependent_std",
    "actor_obs_normalization": "actor_obs_normalization",
    "critic_obs_normalization": "critic_obs_normalization",
    "rnn_type": "rnn_type",
    "rnn_hidden_size": "rnn_hidden_size",
    "rnn_hidden_dim": "rnn_hidden_size",
    "rnn_num_layers": "rnn_num_layers",
}
"""Settings of policies in earlier versions, and ours."""


def joined(cls: Type, before_ours: Type) -> Type:
    """Return a class derived from a client's and from ``before_ours``, with the client's name."""
    return type(cls)(cls.__name__, (cls, before_ours), {"__module__": cls.__module__, "__qualname__": cls.__qualname__})


def own_method(cls: Type, base: Type, name: str) -> Optional[Any]:
    """Return the function of a method that a class, or one between it and ``base``, defines; None if ``base`` does, or
    the class of this version that ``base`` stands for."""
    for part in cls.__mro__:
        if part in (base, getattr(base, "stands_for", base)):
            return None
        if name in vars(part):
            return vars(part)[name]
    return None


def argument_names(function: Any) -> List[str]:
    """Return the names of the positional arguments of a method; empty for ``*args`` alone."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return [parameter.name for parameter in parameters if parameter.kind in kinds]


def changed(given: Mapping[str, Any], section: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the arguments that a client gives and that differ from its configuration."""
    missing = object()
    return {name: value for name, value in given.items() if section.get(name, missing) != value}


def policy_class(cls: Type, base: Type, section: Mapping[str, Any], era: Era, obs: Observations) -> Type:
    """Return a class of policies that constructs a client's class as its version does.

    ``section`` are the settings of the configuration. A constructor with the arguments of a version up to 2 is called
    with sizes, one with (obs, obs_groups, num_actions) with observations.
    """
    settings = {name: value for name, value in section.items() if name != "class_name"}
    own = own_method(cls, base, "__init__")
    names = [] if own is None else argument_names(own)
    by_groups = names[:1] == ["obs"] or (own is not None and not names and era.major == 3)

    class BeforeOurs(base):
        def __init__(self, *args: Any, **given: Any):
            sizes, image_shapes, ours = self.__dict__.pop("_own_arguments")
            ours = {**ours, **_our_settings(changed(given, settings))}
            super().__init__(*sizes, image_shapes=image_shapes, **ours)

    class Built(joined(cls, BeforeOurs)):  # type: ignore[misc]
        def __init__(self, *sizes: Any, image_shapes: Any = None, **ours: Any):
            self.__dict__["_own_arguments"] = sizes, image_shapes, ours
            groups = {"policy": list(ours["actor_groups"]), "critic": list(ours["critic_groups"])}
            arguments = (obs, groups, sizes[2]) if by_groups else sizes
            if own is None:
                super().__init__(*arguments)
            else:
                super().__init__(*arguments, **settings)
            _use_replaced_heads(self)

    Built.__name__, Built.__qualname__, Built.__module__ = cls.__name__, cls.__qualname__, cls.__module__
    return Built


def _our_settings(given: Mapping[str, Any]) -> Dict[str, Any]:
    """Return settings under our names; others are left out, as in the versions that take them."""
    ours = {POLICY_SETTINGS[name]: value for name, value in given.items() if name in POLICY_SETTINGS}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in ours.items()}


def _use_replaced_heads(policy: ActorCritic) -> None:
    """Compute with the actor and critic that a client put in the place of ours."""
    for role, model in zip(("actor", "critic"), (policy.actor_model, policy.critic_model)):
        head = getattr(policy, role)
        if isinstance(head, nn.Sequential) and not isinstance(head, MLP):
            head = MLP(*head)
            setattr(policy, role, head)
        model.head = head


def network_arguments(names: List[str], era: Era) -> Tuple[str, ...]:
    """Return which networks the constructor of an algorithm takes first, by the names of its arguments."""
    if names[:1] == ["actor"] or (not names and era.major >= 4):
        return "actor", "critic", "storage"
    return ("policy", "storage") if names[1:2] == ["storage"] else ("policy",)
