"""Environments without physics in which an episode is an answer of L tokens, rewarded when it is complete."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from rsl_rl.config.task import TokensConfig
from rsl_rl.env.vec_env import StepResult
from rsl_rl.tasks.toy.simple import ToyEnv


class TokensEnv(ToyEnv):
    """Base class: each step appends a token of V to the answer; the L-th ends the episode with the only reward.

    The state x [N, P + L] int64 is a prompt of P numbers and the answer, with -1 for tokens that are still to come.
    ``num_actions`` is V, and actions are the index of a token, [N, 1] int64, as of a categorical policy.
    """

    def __init__(self, cfg: TokensConfig, prompt_size: int, device: str, seed: int):
        self.num_actions, self.length, self._prompt_size = cfg.num_tokens, cfg.episode_steps, prompt_size
        super().__init__(cfg, device, seed)

    @property
    def prompt(self) -> Tensor:
        """The numbers [N, P] that are given."""
        return self.x[:, : self._prompt_size]

    @property
    def answer(self) -> Tensor:
        """The tokens [N, L], -1 where there is none yet."""
        return self.x[:, self._prompt_size :]

    @property
    def position(self) -> Tensor:
        """Number of tokens of the answer [N]."""
        return (self.answer >= 0).sum(dim=1)

    def _draw_prompt(self) -> Tensor:
        """Draw prompts [N, P]."""
        raise NotImplementedError

    def _score(self) -> Tensor:
        """Return the reward [N] of complete answers."""
        raise NotImplementedError

    def _draw_tokens(self) -> Tensor:
        """Draw a sequence [N, L] of tokens."""
        shape = self.num_envs, self.length
        return torch.randint(self.num_actions, shape, device=self.device, generator=self._generator)

    def _draw(self) -> Tensor:
        prompt = self._draw_prompt()
        return torch.cat((prompt, prompt.new_full((self.num_envs, self.length), -1)), dim=1)

    def step(self, actions: Tensor) -> StepResult:
        self._require_indices(actions, "a token")
        place = self._prompt_size + self.position.clamp(max=self.length - 1)
        self.x = self.x.scatter(1, place.unsqueeze(1), actions)
        complete = self.position == self.length
        return self._finish_step(torch.where(complete, self._score(), 0.0), failed=complete)


class ReverseEnv(TokensEnv):
    """The prompt is a sequence of L tokens, and the right answer is the same backwards; the reward is the share of
    tokens that are right.

    The observation [N, L * V + L + 1] is the one-hot vectors of the prompt and of the position. A random answer has a
    mean reward of 1 / V.
    """

    def __init__(self, cfg: TokensConfig, device: str = "cpu", seed: int = 0):
        super().__init__(cfg, prompt_size=cfg.episode_steps, device=device, seed=seed)

    def _draw_prompt(self) -> Tensor:
        return self._draw_tokens()

    def _observe(self) -> Tensor:
        prompt = one_hot(self.prompt, self.num_actions).flatten(1)
        return torch.cat((prompt, one_hot(self.position, self.length + 1)), dim=1).float()

    def _score(self) -> Tensor:
        return (self.answer == self.prompt.flip(1)).float().mean(dim=1)


class TargetSumEnv(TokensEnv):
    """The prompt is a number, and an answer is right if its tokens, the digits 0 to V - 1, add up to it; the reward of
    a right answer is 1, of others 0.

    A prompt is the sum of L random digits, at most S = L (V - 1). The observation [N, 2 (S + 1) + L + 1] is the one-hot
    vectors of the prompt, of the sum so far, and of the position.
    """

    def __init__(self, cfg: TokensConfig, device: str = "cpu", seed: int = 0):
        self.largest = cfg.episode_steps * (cfg.num_tokens - 1)
        super().__init__(cfg, prompt_size=1, device=device, seed=seed)

    def _draw_prompt(self) -> Tensor:
        return self._draw_tokens().sum(dim=1, keepdim=True)

    def _sum(self) -> Tensor:
        return self.answer.clamp(min=0).sum(dim=1)

    def _observe(self) -> Tensor:
        numbers = [one_hot(number, self.largest + 1) for number in (self.prompt[:, 0], self._sum())]
        return torch.cat((*numbers, one_hot(self.position, self.length + 1)), dim=1).float()

    def _score(self) -> Tensor:
        return (self._sum() == self.prompt[:, 0]).float()
