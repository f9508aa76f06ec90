"""Checks of single tensors that an environment gives: type, device, shape, dtype and finite values."""

from __future__ import annotations

from typing import Any, List

import torch
from torch import Tensor

from rsl_rl.env.vec_env import VecEnv


class ContractError(ValueError):
    """An environment that PPO cannot learn from; the message lists every violation and its remedy."""


class TensorChecks:
    """Check tensors against the environment's size and device, and collect a sentence for each violation."""

    def __init__(self, env: VecEnv):
        self.env = env
        self.num_envs = env.num_envs  # at the start; it must not change
        self.errors: List[str] = []
        self.corrections: List[str] = []

    def error(self, sentence: str) -> None:
        """Add a violation that cannot be corrected, once."""
        if sentence not in self.errors:
            self.errors.append(sentence)

    def correct(self, sentence: str) -> None:
        """Add a violation that the runner corrects, once."""
        if sentence not in self.corrections:
            self.corrections.append(sentence)

    def finish(self) -> None:
        """Raise a ContractError if there are errors."""
        if self.errors:
            raise ContractError(f"{type(self.env).__name__} breaks the VecEnv contract: " + "; ".join(self.errors))

    def finite(self, rows: Tensor, name: str) -> None:
        """Check which environments hold finite values, rows [N] bool; some may not, but not all."""
        broken = int((~rows).sum())
        if broken == self.num_envs:
            self.error(f"{name} holds values that are not finite in every environment; repair the term behind them")
        elif broken:
            self.correct(
                f"{name} holds values that are not finite in {broken} of {self.num_envs} environments; such steps are "
                "left out of learning"
            )

    def flags(self, x: Any, name: str, meaning: str) -> None:
        """Check for one bool per environment; the numbers 0 and 1 are corrected."""
        if self.column(x, name) and x.dtype != torch.bool:
            self.correct(f"{name} is {dtype_name(x)}; it is read as bool")
            if not ((x == 0) | (x == 1)).all():
                self.error(f"{name} holds values other than 0 and 1; return {meaning}")

    def column(self, x: Any, name: str, floating: bool = False, columns: bool = True) -> bool:
        """Check for one number per environment: [N], or with ``columns`` [N, 1], which is corrected."""
        if not self.tensor(x, name, floating):
            return False
        if columns and x.shape == (self.num_envs, 1):
            self.correct(f"{name} has the shape {list(x.shape)}; it is read as [{self.num_envs}]")
        elif x.shape != (self.num_envs,):
            self.error(f"{name} has the shape {list(x.shape)}; give one number per environment, [{self.num_envs}]")
            return False
        return True

    def tensor(self, x: Any, name: str, floating: bool = False) -> bool:
        """Check for a tensor with N rows of real numbers on the environment's device."""
        if not isinstance(x, Tensor):
            self.error(f"{name} is a {type(x).__name__}; give a torch tensor")
        elif x.device.type != torch.device(self.env.device).type:
            self.error(
                f"{name} lies on {x.device} and env.device is {self.env.device}; keep every tensor on env.device"
            )
        elif x.dim() == 0 or x.shape[0] != self.num_envs:
            self.error(f"{name} has the shape {list(x.shape)}; its first dimension must be num_envs={self.num_envs}")
        elif floating and not x.is_floating_point():
            self.error(f"{name} is {dtype_name(x)}; give floating-point numbers")
        elif x.is_complex():
            self.error(f"{name} is {dtype_name(x)}; give real numbers")
        else:
            return True
        return False


def is_integer(x: Tensor) -> bool:
    """Return whether a tensor's dtype is an integer type."""
    return not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)


def dtype_name(x: Tensor) -> str:
    """Return a tensor's dtype without "torch."."""
    return str(x.dtype).replace("torch.", "")
