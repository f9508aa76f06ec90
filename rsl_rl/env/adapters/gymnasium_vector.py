"""Gymnasium's vector environments as :class:`VecEnv`; needs the package gymnasium."""

from __future__ import annotations

import re
from typing import Any, Dict, Mapping, Optional, Tuple

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode
from torch import Tensor
from torch.nn import functional as F

from rsl_rl.config.task import ACTION_MAPS, GymnasiumConfig
from rsl_rl.env.adapters.foreign import NO_LIMIT, ForeignEnv
from rsl_rl.env.vec_env import Observations, StepResult
from rsl_rl.utils.text import one_line


class GymnasiumEnv(ForeignEnv):
    """A ``gymnasium.vector.VectorEnv``, of NumPy arrays or tensors, that starts all episodes when it is wrapped.

    A dict of observations becomes groups, other observations the group "policy"; choices become one-hot vectors and
    images [H, W, C] of bytes become [C, H, W] in [0, 1]. Bounded actions are mapped from [-1, 1] to the box as
    ``actions`` says; choices need a categorical policy. Whichever way the environment resets itself, ``final_obs``
    holds the last observation of an episode that was cut off; steps that only start one are ``no_transition``.
    """

    def __init__(self, client: gymnasium.vector.VectorEnv, actions: str = "clip", seed: Optional[int] = None):
        if actions not in ACTION_MAPS:
            raise ValueError(f"actions='{actions}'; allowed: {', '.join(ACTION_MAPS)}")
        space = client.single_action_space
        if not isinstance(space, (spaces.Box, spaces.Discrete)):
            raise TypeError(f"the action space {space} is not supported; take a Box or Discrete one")
        obs, _ = client.reset(seed=seed)
        tensors = isinstance(_first_leaf(obs), Tensor)
        device = _first_leaf(obs).device if tensors else torch.device("cpu")
        vars(self).update(
            client=client,
            num_actions=int(space.n if isinstance(space, spaces.Discrete) else np.prod(space.shape)),
            _device=device,
            _tensors=tensors,
            _map=actions,
            _bounds=_bounds(space, device),
            _autoreset=_autoreset_mode(client),
            _obs={},
            _starting=torch.zeros(client.num_envs, dtype=torch.bool, device=device),
        )
        self._obs = self._groups(obs)

    @property
    def cfg(self) -> Any:
        spec = getattr(self.client, "spec", None)
        return {} if spec is None else {"id": spec.id}

    @property
    def max_episode_length(self) -> int:
        limit = getattr(getattr(self.client, "spec", None), "max_episode_steps", None)
        return NO_LIMIT if limit is None else int(limit)

    def get_observations(self) -> Observations:
        return self._obs

    def step(self, actions: Tensor) -> StepResult:
        obs, reward, terminated, truncated, infos = self.client.step(self._client_actions(actions))
        terminated, truncated = self._flags(terminated), self._flags(truncated)
        done, time_outs = terminated | truncated, truncated & ~terminated
        extras: Dict[str, Any] = {"time_outs": time_outs}
        final = obs
        if self._autoreset == "samestep":
            final = _with_final_rows(obs, infos.get("final_obs", infos.get("final_observation")), done)
        elif self._autoreset == "disabled" and done.any():
            final = _copy(obs)
            mask = done if self._tensors else done.cpu().numpy()
            obs, _ = self.client.reset(options={"reset_mask": mask})
        if time_outs.any():
            extras["final_obs"] = self._groups(final)
        if self._autoreset == "nextstep":  # the step after a done ignores the actions and starts an episode
            extras["no_transition"] = self._starting
            self._starting = done
        self._obs = self._groups(obs)
        reward = torch.as_tensor(reward, dtype=torch.float32, device=self._device).reshape(-1)
        return StepResult(self._obs, reward, done, extras)

    def _flags(self, values: Any) -> Tensor:
        return torch.as_tensor(values, device=self._device).reshape(-1).bool()

    def _groups(self, obs: Any) -> Dict[str, Tensor]:
        space = self.client.single_observation_space
        if not isinstance(space, spaces.Dict):
            return {"policy": _tensor(space, obs, self._device)}
        return {name: _tensor(part, obs[name], self._device) for name, part in space.spaces.items()}

    def _client_actions(self, actions: Tensor) -> Any:
        """Return actions [N, A] in the space of the environment."""
        space = self.client.single_action_space
        if isinstance(space, spaces.Discrete):
            if actions.is_floating_point():
                raise ValueError(
                    f"the environment takes one of {space.n} choices and got numbers {list(actions.shape)}; set "
                    "policy.distribution to 'categorical'"
                )
            chosen = actions.reshape(-1) + int(space.start)
        else:
            if not actions.is_floating_point():
                raise ValueError(
                    f"the environment takes numbers {list(space.shape)} and got choices; set policy.distribution to "
                    "'gaussian' or 'beta'"
                )
            if self._map != "none" and self._bounds is not None:
                middle, half = self._bounds
                unit = actions.tanh() if self._map == "tanh" else actions.clamp(-1.0, 1.0)
                actions = middle + half * unit
            chosen = actions.reshape(-1, *space.shape)
        return chosen if self._tensors else chosen.cpu().numpy().astype(space.dtype)


def _bounds(space: spaces.Space, device: torch.device) -> Optional[Tuple[Tensor, Tensor]]:
    """Return middle and half range [A] of a box that is bounded on all sides, else None."""
    if not isinstance(space, spaces.Box) or not space.is_bounded():
        return None
    low, high = (torch.as_tensor(x, dtype=torch.float32, device=device).reshape(-1) for x in (space.low, space.high))
    return (low + high) / 2, (high - low) / 2


def _autoreset_mode(client: Any) -> str:
    """Return when finished episodes are reset: samestep, nextstep or disabled; before Gymnasium 1 always samestep."""
    mode = (getattr(client, "metadata", None) or {}).get("autoreset_mode")
    if mode is None:
        return "samestep" if gymnasium.__version__.startswith("0.") else "nextstep"
    name = re.sub(r"[^a-z]", "", str(getattr(mode, "value", mode)).lower())
    if name not in ("samestep", "nextstep", "disabled"):
        raise ValueError(f"the environment's autoreset_mode is {mode}; known: SAME_STEP, NEXT_STEP, DISABLED")
    return name


def _tensor(space: spaces.Space, values: Any, device: torch.device) -> Tensor:
    """Return a batch of a space's values as numbers [N, ...]."""
    x = torch.as_tensor(values, device=device)
    if isinstance(space, spaces.Discrete):
        return F.one_hot(x.reshape(-1).long() - int(space.start), int(space.n)).float()
    if isinstance(space, spaces.MultiDiscrete):
        parts = [F.one_hot(column.long(), int(n)) for column, n in zip(x.flatten(1).unbind(1), space.nvec.ravel())]
        return torch.cat(parts, dim=1).float()
    if isinstance(space, spaces.MultiBinary):
        return x.flatten(1).float()
    if not isinstance(space, spaces.Box):
        raise TypeError(f"the observation space {space} is not supported; take Box, Discrete, or a Dict of these")
    if x.dim() == 4 and x.shape[-1] in (1, 3, 4):
        x = x.permute(0, 3, 1, 2)
    if x.dtype == torch.uint8:
        return x / 255.0
    x = x.reshape(len(x), -1) if x.dim() < 2 or x.dim() > 4 else x
    return x.float()


def _first_leaf(obs: Any) -> Any:
    return _first_leaf(next(iter(obs.values()))) if isinstance(obs, Mapping) else obs


def _copy(obs: Any) -> Any:
    if isinstance(obs, Mapping):
        return {name: _copy(part) for name, part in obs.items()}
    return obs.clone() if isinstance(obs, Tensor) else np.array(obs)


def _with_final_rows(obs: Any, final: Any, done: Tensor) -> Any:
    """Return a copy of observations with the final ones where an episode ended.

    ``final`` is a batch, or a sequence with one observation for each environment that is done.
    """
    rows = done.nonzero().flatten().tolist()
    if isinstance(obs, Mapping):
        parts = {}
        for name, part in obs.items():
            final_part = final[name] if isinstance(final, Mapping) else {i: final[i][name] for i in rows}
            parts[name] = _with_final_rows(part, final_part, done)
        return parts
    merged = _copy(obs)
    for i in rows:
        merged[i] = final[i]
    return merged


def make_vec_env(cfg: GymnasiumConfig, device: str = "cpu", seed: int = 0) -> GymnasiumEnv:
    """Return the environment of a config; an id that cannot be made is a ValueError.

    ``device`` does not matter: Gymnasium's environments choose their own.
    """
    by_instance = cfg.vectorization in ("sync", "async")
    try:
        client = gymnasium.make_vec(
            cfg.id,
            num_envs=cfg.num_envs,
            vectorization_mode=cfg.vectorization,
            vector_kwargs={"autoreset_mode": AutoresetMode.SAME_STEP} if by_instance else None,
            **cfg.settings,
        )
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        raise ValueError(f"env.id={cfg.id!r} cannot be made: {one_line(str(error))}") from error
    return GymnasiumEnv(client, cfg.actions, seed)
