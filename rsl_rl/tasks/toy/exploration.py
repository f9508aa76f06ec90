"""An environment without physics whose reward is hard to find."""

from __future__ import annotations

import torch
from torch import Tensor

from rsl_rl.config.task import FarGoalConfig
from rsl_rl.env.vec_env import StepResult
from rsl_rl.tasks.toy.simple import ToyEnv


class FarGoalEnv(ToyEnv):
    """N walkers in a row of rooms, rewarded by 1 a step in the last room and by 0 elsewhere.

    Each room has K doors. One leads to the next room, the others lead back to the first; which one is part of the task,
    drawn once with ``cfg.layout_seed``. Every door of the last room leads back into it. The state x [N] is the number
    of the room, the observation [N, rooms] its one-hot vector, and an action [N, 1] int64 the index of a door: a task
    for a categorical policy, with ``num_actions`` K. Episodes begin in the first room and end by the time limit.

    With R rooms, random doors lead from the first to the last without a return with the probability K^-(R-1): 1e-14
    for the default config.
    """

    def __init__(self, cfg: FarGoalConfig, device: str = "cpu", seed: int = 0):
        self.num_actions, self.num_rooms = cfg.num_doors, cfg.num_rooms
        layout = torch.Generator().manual_seed(cfg.layout_seed)
        self.right_doors = torch.randint(cfg.num_doors, (cfg.num_rooms,), generator=layout).to(device)  # [rooms]
        super().__init__(cfg, num_obs=cfg.num_rooms, device=device, seed=seed)

    def _draw(self) -> Tensor:
        """Return the first room for each walker, [N] int64."""
        return torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)

    def _observe(self) -> Tensor:
        return torch.nn.functional.one_hot(self.x, self.num_rooms).float()

    def step(self, actions: Tensor) -> StepResult:
        if actions.shape != (self.num_envs, 1) or actions.is_floating_point():
            expected = f"give the index of a door, int64 [{self.num_envs}, 1]"
            raise ValueError(f"actions are {actions.dtype} {list(actions.shape)}; {expected}")
        last = self.num_rooms - 1
        right = (actions[:, 0] == self.right_doors[self.x]) | (self.x == last)
        self.x = torch.where(right, (self.x + 1).clamp(max=last), 0)
        return self._finish_step((self.x == last).float(), failed=torch.zeros_like(right))
