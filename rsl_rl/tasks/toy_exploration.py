"""A toy whose reward is found by exploration only."""

from __future__ import annotations

import torch
from torch import Tensor

from rsl_rl.config.task import FarGoalConfig
from rsl_rl.env.vec_env import StepResult
from rsl_rl.tasks.toy import ToyEnv


class FarGoalEnv(ToyEnv):
    """N points in a U-shaped corridor, rewarded by 1 a step at its far end and by 0 elsewhere.

    ::

        +--------------------------------+
        | goal                           |   y = 1
        |-------------------------       |   wall at y = 0
        | start                          |   y = -1
        +--------------------------------+

    The state x [N, 2] is the position [m], which is the whole observation. An action [N, 2] moves the point by
    ``step_size * clip(a, -1, 1)`` in x and y; walls stop it. The way to the goal leads forth and back in x, so that no
    constant action reaches the goal.

    With the default config the way is 85 to 90 full steps long in x, of an episode of 200. Random actions of std 1 move
    a point by sqrt(0.516 * 200) = 10 full steps in an episode (one std), so that the goal is more than 8 std away.
    """

    num_actions = 2

    def __init__(self, cfg: FarGoalConfig, device: str = "cpu", seed: int = 0):
        self._step_size, self._half_length = cfg.step_size, cfg.corridor_length / 2
        super().__init__(cfg, num_obs=2, device=device, seed=seed)

    def _draw(self) -> Tensor:
        """Draw positions [N, 2] near the closed end of the lower corridor."""
        low = torch.tensor([-self._half_length, -0.75], device=self.device)
        size = torch.tensor([0.25, 0.5], device=self.device)
        return low + size * torch.rand(self.num_envs, 2, device=self.device, generator=self._generator)

    def _observe(self) -> Tensor:
        return self.x

    def at_goal(self) -> Tensor:
        """Return which points are within 0.5 m of the upper corridor's closed end, [N] bool."""
        return (self.x[:, 1] > 0.0) & (self.x[:, 0] < 0.5 - self._half_length)

    def step(self, actions: Tensor) -> StepResult:
        moved = self.x + self._step_size * actions.clamp(-1.0, 1.0)
        x = moved[:, 0].clamp(-self._half_length, self._half_length)
        y = moved[:, 1].clamp(-1.0, 1.0)
        beside_gap = torch.minimum(x, self.x[:, 0]) < self._half_length - 0.5
        blocked = beside_gap & ((y > 0.0) != (self.x[:, 1] > 0.0))
        self.x = torch.stack((x, torch.where(blocked, self.x[:, 1], y)), dim=1)
        return self._finish_step(self.at_goal().float(), failed=torch.zeros_like(blocked))
