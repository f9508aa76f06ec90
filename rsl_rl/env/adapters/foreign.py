"""Environments of rsl_rl's own interfaces, past and present, as :class:`VecEnv`."""

from __future__ import annotations

import numbers
from typing import Any, Dict, Mapping, Tuple

import torch
from torch import Tensor

from rsl_rl.env.vec_env import Observations, StepResult, VecEnv

NO_LIMIT = 2**31 - 1
"""Length of an episode [control steps] where an environment names none."""


class ForeignEnv(VecEnv):
    """Another object's environment behind the interface of :class:`VecEnv`.

    What this class does not define is looked up in ``client``, and what is set is set there.
    """

    def __init__(self, client: Any, obs: Tensor):
        vars(self).update(client=client, _device=obs.device)

    def __getattr__(self, name: str) -> Any:
        if name == "client":  # of an object that is just being copied
            raise AttributeError(name)
        return getattr(self.client, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in vars(self):
            vars(self)[name] = value
        else:
            setattr(self.client, name, value)

    @property
    def reset(self) -> Any:  # type: ignore[override]
        """The environment's own ``reset``, if it has one."""
        return self.client.reset

    @property
    def get_privileged_observations(self) -> Any:  # type: ignore[override]
        """The environment's own method, if it has one."""
        return self.client.get_privileged_observations

    @property
    def device(self) -> Any:  # type: ignore[override]
        """Device that the environment names, else that of its observations."""
        device = getattr(self.client, "device", None)
        return self._device if device is None else device

    @property
    def cfg(self) -> Any:  # type: ignore[override]
        """What the environment was built from; {} where it does not say."""
        return getattr(self.client, "cfg", {})

    @property
    def max_episode_length(self) -> Any:  # type: ignore[override]
        """Control steps until a time-out, as a number or tensor."""
        limit = getattr(self.client, "max_episode_length", None)
        if limit is None:
            return NO_LIMIT
        if isinstance(limit, (numbers.Real, Tensor)):
            return limit
        limit = torch.as_tensor(limit, device=self.device)
        return limit.item() if limit.numel() == 1 else limit

    def _result(self, obs: Observations, reward: Tensor, done: Tensor, extras: Any) -> StepResult:
        """Return a step with extras of our own, whose flags are on the environment's device."""
        extras = dict(extras or {})
        if isinstance(extras.get("time_outs"), Tensor):
            extras["time_outs"] = extras["time_outs"].to(self.device)
        return StepResult(obs, reward if reward.is_floating_point() else reward.float(), done, extras)


class GroupsEnv(ForeignEnv):
    """An environment of observation groups that lacks some attribute of :class:`VecEnv`."""

    @classmethod
    def has_all(cls, client: Any) -> bool:
        """Return whether an environment has every attribute itself, each of a kind that is understood."""
        present = all(hasattr(client, name) for name in ("num_envs", "num_actions", "cfg"))
        limit = isinstance(getattr(client, "max_episode_length", None), (numbers.Real, Tensor))
        return present and limit and getattr(client, "device", None) is not None

    def get_observations(self) -> Observations:
        return self.client.get_observations()

    def step(self, actions: Tensor) -> StepResult:
        return self._result(*self.client.step(actions))


class ExtrasEnv(ForeignEnv):
    """An environment that returns one tensor, and all of its groups in ``extras["observations"]``."""

    def get_observations(self) -> Observations:
        obs, extras = self.client.get_observations()
        return _with_extras(obs, extras)

    def step(self, actions: Tensor) -> StepResult:
        obs, reward, done, extras = self.client.step(actions)
        return self._result(_with_extras(obs, extras), reward, done, extras)


class FiveTupleEnv(ForeignEnv):
    """An environment that returns (obs, privileged_obs or None, reward, done, extras)."""

    @staticmethod
    def names_privileged(client: Any) -> bool:
        """Return whether an environment says itself what privileged observations it has."""
        method = getattr(type(client), "get_privileged_observations", None)
        return method is not None and method is not VecEnv.get_privileged_observations

    def get_observations(self) -> Observations:
        named = self.names_privileged(self.client)
        return _with_privileged(
            self.client.get_observations(), self.client.get_privileged_observations() if named else None
        )

    def step(self, actions: Tensor) -> StepResult:
        obs, privileged, reward, done, extras = _five(self.client.step(actions), type(self.client).__name__)
        return self._result(_with_privileged(obs, privileged), reward, done, extras)


def is_groups(obs: Any) -> bool:
    """Return whether observations are named groups."""
    return isinstance(obs, Mapping) or (hasattr(obs, "keys") and hasattr(obs, "values"))


def _with_extras(obs: Tensor, extras: Any) -> Dict[str, Tensor]:
    others = (extras or {}).get("observations", {})
    return {"policy": obs, **{name: others[name] for name in others.keys() if name != "policy"}}  # noqa: SIM118


def _with_privileged(obs: Tensor, privileged: Any) -> Dict[str, Tensor]:
    has_some = isinstance(privileged, Tensor) and privileged.shape[-1] > 0
    return {"policy": obs, "critic": privileged} if has_some else {"policy": obs}


def _five(result: Any, name: str) -> Tuple[Any, ...]:
    """Return the five results of a step; four stand for one without privileged observations."""
    if isinstance(result, (tuple, list)) and len(result) in (4, 5):
        return tuple(result) if len(result) == 5 else (result[0], None, *result[1:])
    got = f"{len(result)} values" if isinstance(result, (tuple, list)) else f"a {type(result).__name__}"
    raise TypeError(
        f"{name}.step() gives {got}; with get_observations() that returns a tensor, give (obs, privileged_obs, reward, "
        "done, extras)"
    )
