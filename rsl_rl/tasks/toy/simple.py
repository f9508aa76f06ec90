"""The base class of environments without physics, and the simple ones."""

from __future__ import annotations

from typing import Dict, Mapping, Sequence, Union

import torch
from torch import Tensor

from rsl_rl.config.task import CameraConfig, ChoiceConfig, FarGoalConfig, ToyConfig
from rsl_rl.env.protocols import Mirror
from rsl_rl.env.vec_env import Observations, StepResult, VecEnv


class ToyEnv(VecEnv):
    """Base class of toy environments: episodes of limited length with a random start state x [N, ...]."""

    num_actions = 1

    def __init__(self, cfg: ToyConfig, device: str = "cpu", seed: int = 0):
        self.cfg = cfg
        self.num_envs = cfg.num_envs
        self.max_episode_length = cfg.episode_steps
        self.device = torch.device(device)
        self._generator = torch.Generator(self.device).manual_seed(seed)
        self._group_size = 1
        self.x = self._draw()
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long, device=self.device)
        self._groups = self._observe_groups()

    def _draw(self) -> Tensor:
        """Draw start states [N, ...]."""
        raise NotImplementedError

    def _observe(self) -> Tensor:
        """Return the group "policy" [N, D] of the current state."""
        raise NotImplementedError

    def _observe_groups(self) -> Dict[str, Tensor]:
        """Return all groups of the current state."""
        return {"policy": self._observe()}

    def get_observations(self) -> Observations:
        return dict(self._groups)

    def reset(self, env_ids: Union[Sequence[int], Tensor, None] = None) -> Observations:
        mask = torch.zeros(self.num_envs, dtype=torch.bool, device=self.device)
        mask[slice(None) if env_ids is None else torch.as_tensor(env_ids)] = True
        self._reset(mask)
        return self.get_observations()

    def _finish_step(self, rewards: Tensor, failed: Tensor) -> StepResult:
        """Count the step and reset finished episodes; ``failed`` [N] bool ends them before the time limit."""
        self.episode_length_buf += 1
        time_outs = (self.episode_length_buf >= self.max_episode_length) & ~failed
        done = failed | time_outs
        extras = {"time_outs": time_outs, "final_obs": self._observe_groups()}
        self._reset(done)
        return StepResult(self.get_observations(), rewards, done, extras)

    def _require_indices(self, actions: Tensor, what: str) -> None:
        """Raise a ValueError unless actions are indices [N, 1]."""
        if actions.shape != (self.num_envs, 1) or actions.is_floating_point():
            expected = f"give the index of {what}, int64 [{self.num_envs}, 1]"
            raise ValueError(f"actions are {actions.dtype} {list(actions.shape)}; {expected}")

    def share_starts(self, group_size: int) -> None:
        """Start those of each ``group_size`` consecutive environments that are reset together in the same state."""
        self._group_size = group_size

    def _reset(self, mask: Tensor) -> None:
        rows = mask.reshape(-1, *[1] * (self.x.dim() - 1))  # [N, 1, ...]
        first_of_group = torch.arange(self.num_envs, device=self.device) // self._group_size * self._group_size
        self.x = torch.where(rows, self._draw()[first_of_group], self.x)
        self.episode_length_buf = self.episode_length_buf.masked_fill(mask, 0)
        self._groups = self._observe_groups()

    def state_dict(self) -> Dict[str, Tensor]:
        return {
            "x": self.x.clone(),
            "episode_length": self.episode_length_buf.clone(),
            "obs": self._groups["policy"].clone(),  # episode lengths may have been changed since it was computed
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: Dict[str, Tensor]) -> None:
        if len(state["x"]) != self.num_envs:
            raise ValueError(
                f"the state has num_envs={len(state['x'])} and this environment has {self.num_envs}; use the same "
                "number, or load it with load_env=False (--fresh_episodes)"
            )
        self.x = state["x"].to(self.device, copy=True)
        self.episode_length_buf = state["episode_length"].to(self.device, copy=True)
        self._generator.set_state(state["generator"].cpu())
        self._groups = self._observe_groups()
        if "obs" in state:
            self._groups["policy"] = state["obs"].to(self.device, copy=True)


class PointEnv(ToyEnv):
    """N points on a line, x' = x + 0.2 clip(a, -1, 1), rewarded by 1 - |x|; beyond |x| = 3 the episode fails.

    Points start in [-2, 2]. The best policy moves to the origin at full speed and stays there; the action 0 gives a
    reward of about 0 per step.
    """

    def _draw(self) -> Tensor:
        return 4.0 * torch.rand(self.num_envs, device=self.device, generator=self._generator) - 2.0

    def _observe(self) -> Tensor:
        return self.x.unsqueeze(1)

    def step(self, actions: Tensor) -> StepResult:
        self.x = self.x + 0.2 * actions[:, 0].clamp(-1.0, 1.0)
        return self._finish_step(1.0 - self.x.abs(), failed=self.x.abs() > 3.0)


class RecallEnv(ToyEnv):
    """N signs, -1 or 1, which only the first observation of an episode contains; the reward is 1 - |action - sign|.

    The observation is the sign in the first step and 0 later, and a flag for the first step. A policy with memory can
    reach a reward of 1 per step. A policy without memory reaches it in the first step only, and a mean of 0 in all
    other steps for actions within [-1, 1].
    """

    def _draw(self) -> Tensor:
        return 2.0 * torch.randint(2, (self.num_envs,), device=self.device, generator=self._generator).float() - 1.0

    def _observe(self) -> Tensor:
        shown = (self.episode_length_buf == 0).float()
        return torch.stack((self.x * shown, shown), dim=1)

    def step(self, actions: Tensor) -> StepResult:
        return self._finish_step(1.0 - (actions[:, 0] - self.x).abs(), failed=torch.zeros_like(self.x).bool())


class ChoiceEnv(ToyEnv):
    """N questions with K possible answers; the reward of a step is 1 for the right answer and 0 otherwise.

    ``num_actions`` is K, and actions are the index of an answer, [N, 1] int64, as of a categorical policy. The
    observation is the one-hot vector [N, K] of (right answer + 1) modulo K. Each step has a new question. Random
    answers have a mean reward of 1 / K.
    """

    def __init__(self, cfg: ChoiceConfig, device: str = "cpu", seed: int = 0):
        self.num_actions = cfg.num_choices
        super().__init__(cfg, device, seed)

    def _draw(self) -> Tensor:
        """Draw the index of the right answer, [N] int64."""
        return torch.randint(self.num_actions, (self.num_envs,), device=self.device, generator=self._generator)

    def _observe(self) -> Tensor:
        return torch.nn.functional.one_hot(self.x, self.num_actions).float().roll(1, dims=1)

    def step(self, actions: Tensor) -> StepResult:
        self._require_indices(actions, "an answer")
        rewards = (actions[:, 0] == self.x).float()
        self.x = self._draw()
        return self._finish_step(rewards, failed=torch.zeros_like(rewards).bool())


class CameraEnv(ToyEnv):
    """The points of :class:`PointEnv`, with the position in an image only.

    The state x [N, 2] is the position and the last action. The group "camera" [N, 1, 8, 16] is an image of the range
    [-3, 3] from left to right, with a bright column at the position. The group "policy" [N, 1] is the last action.
    """

    height, width = 8, 16  # [pixels]

    def __init__(self, cfg: CameraConfig, device: str = "cpu", seed: int = 0):
        self._columns = torch.linspace(-3.0, 3.0, self.width, device=device)  # positions of the columns' centres
        super().__init__(cfg, device, seed)

    def _draw(self) -> Tensor:
        position = 4.0 * torch.rand(self.num_envs, device=self.device, generator=self._generator) - 2.0
        return torch.stack((position, torch.zeros_like(position)), dim=1)

    def _observe(self) -> Tensor:
        return self.x[:, 1:]

    def _observe_groups(self) -> Dict[str, Tensor]:
        distance = (self.x[:, :1] - self._columns) / 0.4  # [N, 16], in widths of a column
        brightness = torch.exp(-distance.square())
        image = brightness[:, None, None, :].repeat(1, 1, self.height, 1)
        return {"policy": self._observe(), "camera": image}

    def step(self, actions: Tensor) -> StepResult:
        action = actions[:, 0].clamp(-1.0, 1.0)
        position = self.x[:, 0] + 0.2 * action
        self.x = torch.stack((position, action), dim=1)
        return self._finish_step(1.0 - position.abs(), failed=position.abs() > 3.0)

    def mirrors(self) -> Mapping[str, Mirror]:
        """Return the mirror image of each observation group and of "actions", over the last axis."""
        number = (torch.zeros(1, dtype=torch.long, device=self.device), -torch.ones(1, device=self.device))
        columns = torch.arange(self.width - 1, -1, -1, device=self.device)
        return {
            "policy": number,
            "camera": (columns, torch.ones(self.width, device=self.device)),
            "actions": number,
        }


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
        super().__init__(cfg, device, seed)

    def _draw(self) -> Tensor:
        """Return the first room for each walker, [N] int64."""
        return torch.zeros(self.num_envs, dtype=torch.int64, device=self.device)

    def _observe(self) -> Tensor:
        return torch.nn.functional.one_hot(self.x, self.num_rooms).float()

    def step(self, actions: Tensor) -> StepResult:
        self._require_indices(actions, "a door")
        last = self.num_rooms - 1
        right = (actions[:, 0] == self.right_doors[self.x]) | (self.x == last)
        self.x = torch.where(right, (self.x + 1).clamp(max=last), 0)
        return self._finish_step((self.x == last).float(), failed=torch.zeros_like(right))
