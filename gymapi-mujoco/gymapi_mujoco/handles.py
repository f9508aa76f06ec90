"""Checks of the handles that clients pass, shared by the parts of ``Gym``."""

from __future__ import annotations

from typing import Any

from gymapi_mujoco.asset import Asset
from gymapi_mujoco.engine import Engine
from gymapi_mujoco.scene import Actor, Env, Sim


def sim_of(sim: Any, call: str) -> Sim:
    """Return a simulation that is open; anything else is an error that names the call."""
    if not isinstance(sim, Sim):
        raise TypeError(f"{call}: got {type(sim).__name__}; pass what create_sim returned")
    if sim.closed:
        raise RuntimeError(f"{call}: the simulation was destroyed by destroy_sim")
    return sim


def unprepared(sim: Any, call: str) -> Sim:
    """Return a simulation that can still be built."""
    if sim_of(sim, call).engine is not None:
        raise RuntimeError(f"{call}: prepare_sim was called already; build everything before it")
    return sim


def engine_of(sim: Any, call: str) -> Engine:
    """Return the engine of a simulation that was prepared."""
    engine = sim_of(sim, call).engine
    if engine is None:
        raise RuntimeError(f"{call}: call prepare_sim first")
    return engine


def env_of(env: Any, call: str) -> Env:
    if not isinstance(env, Env):
        raise TypeError(f"{call}: got {type(env).__name__}; pass what create_env returned")
    return env


def actor_of(env: Any, handle: int, call: str) -> Actor:
    try:
        return env_of(env, call).actor(int(handle))
    except IndexError as error:
        raise IndexError(f"{call}: {error}") from None


def asset_of(asset: Any, call: str) -> Asset:
    if not isinstance(asset, Asset):
        raise TypeError(f"{call}: got {type(asset).__name__}; pass what load_asset returned")
    return asset
