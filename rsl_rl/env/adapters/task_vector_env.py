"""A task of a config as ``gymnasium.vector.VectorEnv``; needs the package gymnasium."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from torch import Tensor

from rsl_rl.config.task import TaskConfig
from rsl_rl.env.protocols import Resettable, supports
from rsl_rl.env.vec_env import Observations, StepResult, require_group


class TaskVectorEnv(VectorEnv):
    """The instances of a task as a vector environment of NumPy arrays, for other libraries.

    Observations are a box for one group, and a dict for several ``groups``. Actions are numbers in the task's own
    units, unbounded or within ``action_limit``, and with ``discrete`` one of ``num_actions`` choices. A finished
    instance is reset in the same step: ``infos["final_obs"]`` holds its last observation. ``infos["invalid"]`` marks
    instances that broke, which count as terminated.

    ``reset(seed=...)`` builds the task again, so that everything random in it follows the seed; ``reset()`` starts
    new episodes, and the option "reset_mask" [N] bool restricts it to some instances.
    """

    metadata: Dict[str, Any] = {"render_modes": [], "autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(
        self,
        cfg: TaskConfig,
        groups: Sequence[str] = ("policy",),
        discrete: bool = False,
        action_limit: float = float("inf"),
        device: str = "cpu",
        seed: int = 0,
    ):
        self.cfg, self.num_envs, self._device = cfg, cfg.num_envs, device
        self._env = cfg.build(device, seed)
        self._groups = tuple(groups)
        obs = self._env.get_observations()
        for group in self._groups:
            require_group(obs, group, "groups names")
        shapes = {group: tuple(obs[group].shape[1:]) for group in self._groups}
        boxes: Dict[str, Any] = {group: spaces.Box(-np.inf, np.inf, shape) for group, shape in shapes.items()}
        self.single_observation_space = spaces.Dict(boxes) if len(boxes) > 1 else boxes[self._groups[0]]
        size = self._env.num_actions
        self.single_action_space = (
            spaces.Discrete(size) if discrete else spaces.Box(-float(action_limit), float(action_limit), (size,))
        )
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)

    def reset(
        self, *, seed: Optional[int] = None, options: Optional[Mapping[str, Any]] = None
    ) -> Tuple[Any, Dict[str, Any]]:
        """Start new episodes and return the observations of all instances."""
        mask = (options or {}).get("reset_mask")
        if seed is not None:
            if mask is not None:
                raise ValueError("a seed starts all instances again; leave out the option 'reset_mask', or the seed")
            if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
                raise ValueError(f"seed={seed!r}: give one whole number from 0 for all instances")
            super().reset(seed=int(seed))
            self._close_task()
            self._env = self.cfg.build(self._device, int(seed))
            return self._numbers(self._env.get_observations()), {}
        ids = None if mask is None else torch.as_tensor(np.flatnonzero(mask), device=self._env.device)
        if not supports(self._env, Resettable):
            raise TypeError(
                f"{type(self._env).__name__} has no reset(env_ids), which reset() needs; give it the method"
            )
        return self._numbers(self._env.reset(ids)), {}

    def step(self, actions: Any) -> Tuple[Any, np.ndarray, np.ndarray, np.ndarray, Dict[str, Any]]:
        obs, reward, done, extras = StepResult(*self._env.step(self._task_actions(actions)))
        done_rows = _array(done).astype(bool)
        truncated = done_rows & _array(extras.get("time_outs", torch.zeros_like(done))).astype(bool)
        infos: Dict[str, Any] = {}
        if done_rows.any():
            infos["final_obs"] = self._final_rows(extras.get("final_obs", obs), done_rows)
            infos["_final_obs"] = done_rows.copy()
        if extras.get("invalid"):
            invalid = torch.stack(tuple(extras["invalid"].values())).any(dim=0)
            infos["invalid"], infos["_invalid"] = _array(invalid), np.ones(self.num_envs, dtype=bool)
        reward = _array(reward).reshape(self.num_envs).astype(np.float32)
        return self._numbers(obs), reward, done_rows & ~truncated, truncated, infos

    def _task_actions(self, actions: Any) -> Tensor:
        """Return actions [N, A], or the indices of choices [N, 1]."""
        actions = torch.as_tensor(np.asarray(actions), device=self._env.device)
        expected = self.action_space.shape
        if tuple(actions.shape) != expected:
            raise ValueError(f"actions have the shape {list(actions.shape)}; give {list(expected or ())}")
        if isinstance(self.single_action_space, spaces.Discrete):
            return actions.long().unsqueeze(1)
        return actions.float()

    def _numbers(self, obs: Observations) -> Union[np.ndarray, Dict[str, np.ndarray]]:
        """Return copies of the groups as arrays, which the next step leaves as they are."""
        arrays = {group: _array(obs[group]).astype(np.float32) for group in self._groups}
        return arrays if len(arrays) > 1 else arrays[self._groups[0]]

    def _final_rows(self, final: Observations, done: np.ndarray) -> np.ndarray:
        """Return an array [N] of objects: the last observation of each finished instance, None for the others."""
        numbers, rows = self._numbers(final), np.full(self.num_envs, None, dtype=object)
        for i in np.flatnonzero(done):
            rows[i] = {name: part[i] for name, part in numbers.items()} if isinstance(numbers, dict) else numbers[i]
        return rows

    def close_extras(self) -> None:
        self._close_task()

    def _close_task(self) -> None:
        """Release the engine, where it has something to release."""
        close = getattr(getattr(self._env, "sim", None), "close", None)
        if callable(close):
            close()


def _array(values: Tensor) -> np.ndarray:
    """Return a tensor as an array, of the same memory on the CPU."""
    return values.detach().cpu().numpy()
