"""Environments of other interfaces as :class:`VecEnv`, recognised by what they give."""

from __future__ import annotations

import sys
from typing import Any

from torch import Tensor

from rsl_rl.env.adapters.foreign import ExtrasEnv, FiveTupleEnv, ForeignEnv, GroupsEnv, is_groups
from rsl_rl.env.vec_env import VecEnv

__all__ = ["as_vec_env"]


def as_vec_env(env: Any, actions: str = "clip") -> VecEnv:
    """Return an environment as a :class:`VecEnv`: itself where it is one, else an adapter of it.

    Recognised are, by what ``get_observations()`` returns: groups (a dict or TensorDict); a pair (tensor, extras), with
    further groups in ``extras["observations"]``; a tensor, with ``get_privileged_observations()`` beside it and five
    results of ``step``. Such an environment is reset once. A ``gymnasium.vector.VectorEnv`` is recognised by its class;
    ``actions`` is how it maps actions to a bounded box: "clip" or "tanh" from [-1, 1], or "none".

    Attributes that are set on the adapter are set on ``env``. Anything else is a TypeError.
    """
    if isinstance(env, ForeignEnv):
        return env
    if _is_vector_env(env):
        from rsl_rl.env.adapters.gymnasium_vector import GymnasiumEnv  # imports an optional package

        return GymnasiumEnv(env, actions)
    if not callable(getattr(env, "get_observations", None)):
        raise TypeError(_unknown(env, "no get_observations()"))
    obs = _first_observations(env)
    if is_groups(obs):
        return env if GroupsEnv.has_all(env) else GroupsEnv(env, next(iter(obs.values())))
    if isinstance(obs, Tensor):
        return FiveTupleEnv(env, obs)
    if isinstance(obs, (tuple, list)) and len(obs) == 2 and isinstance(obs[0], Tensor):
        return ExtrasEnv(env, obs[0])
    raise TypeError(_unknown(env, f"get_observations() that returns a {type(obs).__name__}"))


def _is_vector_env(env: Any) -> bool:
    gymnasium = sys.modules.get("gymnasium")  # of an object of its classes it has been imported
    return gymnasium is not None and isinstance(env, gymnasium.vector.VectorEnv)


def _first_observations(env: Any) -> Any:
    """Return what ``get_observations()`` gives; an environment of single tensors is reset before, which it expects."""
    resets = callable(getattr(env, "reset", None)) and FiveTupleEnv.names_privileged(env)
    try:
        obs = env.get_observations()
    except AttributeError:  # its buffers are made by the first reset
        if not resets:
            raise
        obs = None
    if resets and (obs is None or isinstance(obs, Tensor)):
        env.reset()
        obs = env.get_observations()
    return obs


def _unknown(env: Any, found: str) -> str:
    return (
        f"{type(env).__name__} is no environment known here: it has {found}. Looked for: get_observations() that "
        "returns groups (a dict or TensorDict of tensors), a pair (tensor, extras), or a tensor beside "
        "get_privileged_observations(); or a gymnasium.vector.VectorEnv (gymnasium.make_vec makes one of an id)"
    )
