"""Environments of other interfaces as :class:`VecEnv`, recognised by what they give."""

from __future__ import annotations

import sys
from typing import Any, Sequence

from rsl_rl.env.adapters.foreign import ForeignEnv, GroupsEnv
from rsl_rl.env.vec_env import Observations, VecEnv, is_groups

__all__ = ["as_vec_env"]


def as_vec_env(env: Any, actions: str = "clip") -> VecEnv:
    """Return an environment as a :class:`VecEnv`: itself where it is one, else an adapter of it.

    Recognised are environments whose ``get_observations()`` returns groups (a dict or TensorDict), and
    ``gymnasium.vector.VectorEnv``, of which ``actions`` is how actions map to a bounded box: "clip" or "tanh" from
    [-1, 1], or "none".

    Attributes that are set on the adapter are set on ``env``. Anything else is a TypeError.
    """
    if isinstance(env, ForeignEnv):
        return env
    if is_vector_env(env):
        from rsl_rl.env.adapters.gymnasium_vector import GymnasiumEnv  # imports an optional package

        return GymnasiumEnv(env, actions)
    if not callable(getattr(env, "get_observations", None)):
        raise unknown(env, "no get_observations()")
    obs = env.get_observations()
    if not is_groups(obs):
        raise unknown(env, f"get_observations() that returns a {type(obs).__name__}")
    return of_groups(env, obs)


def is_vector_env(env: Any) -> bool:
    """Return whether an environment is a ``gymnasium.vector.VectorEnv``."""
    gymnasium = sys.modules.get("gymnasium")  # of an object of its classes it has been imported
    return gymnasium is not None and isinstance(env, gymnasium.vector.VectorEnv)


def of_groups(env: Any, obs: Observations) -> VecEnv:
    """Return an environment of observation groups, adapted where it lacks an attribute; ``obs`` are its first ones."""
    return env if GroupsEnv.has_all(env) else GroupsEnv(env, next(iter(obs.values())))


def unknown(env: Any, found: str, others: Sequence[str] = ()) -> TypeError:
    """Return the error about an environment of no known interface; ``others`` are what its ``get_observations()`` might
    have returned besides groups."""
    returns = ", ".join(("groups (a dict or TensorDict of tensors)", *others))
    return TypeError(
        f"{type(env).__name__} is not an environment known here: it has {found}. Looked for: get_observations() that "
        f"returns {returns}; or a gymnasium.vector.VectorEnv (gymnasium.make_vec makes one of an id)"
    )
