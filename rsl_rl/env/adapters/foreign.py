"""Environments of other classes as :class:`VecEnv`."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import torch
from torch import Tensor

from rsl_rl.env.contract import four_of
from rsl_rl.env.vec_env import Observations, StepResult, VecEnv, is_groups

NO_LIMIT = 2**31 - 1
"""Length of an episode [control steps] where an environment names none."""


class ForeignEnv(VecEnv):
    """Another object's environment behind the interface of :class:`VecEnv`.

    What this class does not define is looked up in ``client``, and what is set is set there.
    """

    form: ClassVar[str]
    """The interface of ``client``, in words."""

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
        try:
            limit = torch.as_tensor(limit, device=self.device)
        except (TypeError, ValueError, RuntimeError):  # the checks of the contract report it
            return limit
        return limit.item() if limit.numel() == 1 else limit

    def _result(self, obs: Observations, reward: Any, done: Any, extras: Any) -> StepResult:
        """Return a step with floating-point rewards and extras of our own, whose flags are on the environment's device.

        What is not of the promised kind is left to the checks of the contract.
        """
        extras = {} if extras is None else dict(extras) if is_groups(extras) else extras
        if is_groups(extras) and isinstance(extras.get("time_outs"), Tensor):
            extras["time_outs"] = extras["time_outs"].to(self.device)
        if isinstance(reward, Tensor) and not (reward.is_floating_point() or reward.is_complex()):
            reward = reward.float()
        return StepResult(obs, reward, done, extras)


class GroupsEnv(ForeignEnv):
    """An environment of observation groups that lacks some attribute of :class:`VecEnv`."""

    form = "observation groups, some attributes missing"

    @classmethod
    def has_all(cls, client: Any) -> bool:
        """Return whether an environment has every attribute itself, each of a kind that is understood."""
        present = all(hasattr(client, name) for name in ("num_envs", "num_actions", "cfg"))
        limit = isinstance(getattr(client, "max_episode_length", None), (numbers.Real, Tensor))
        return present and limit and getattr(client, "device", None) is not None

    def get_observations(self) -> Observations:
        return self.client.get_observations()

    def step(self, actions: Tensor) -> StepResult:
        return self._result(*four_of(self.client.step(actions)))
