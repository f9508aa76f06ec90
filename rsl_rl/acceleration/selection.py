"""Choose the implementations of an algorithm: plain ones, or faster ones with the same results."""

from __future__ import annotations

import math
from typing import Any, Callable, List, Optional, Type

import torch
from torch import nn

from rsl_rl.acceleration.cuda_graph import GraphedFunction
from rsl_rl.acceleration.flat_adam import FlatAdam
from rsl_rl.acceleration.fused_mlp import FusedMLP
from rsl_rl.acceleration.ppo_loss_and_gradient import PPOLossAndGradient
from rsl_rl.acceleration.products import library
from rsl_rl.acceleration.rnn_scan import FusedRNN
from rsl_rl.config.learn import AccelerationConfig
from rsl_rl.distributed import Collective
from rsl_rl.modules.distributions import DiagonalGaussian
from rsl_rl.modules.memory import Memory
from rsl_rl.modules.mlp import MLP
from rsl_rl.modules.policy import ActorCritic

_ACTIVATIONS_AT_ONCE = 1 << 21
"""Activations of hidden units that fit into a CPU's cache."""


class Acceleration:
    """The implementations that were chosen for one algorithm; ``description`` names them.

    ``optimizer`` is None where the plain one is to be used. Flat mini-batches are computed in micro-batches of at most
    ``rows_at_once`` samples. ``cached`` are policies whose weights are to be cached during a rollout.
    """

    def __init__(self, cfg: Optional[AccelerationConfig], device: torch.device):
        self._cfg = cfg = cfg or AccelerationConfig()
        self._device = device
        self.rows_at_once = math.inf
        self.cached: List[ActorCritic] = []
        self._names: List[str] = []
        self.optimizer: Optional[Type[FlatAdam]] = None
        if cfg.fused:
            self.optimizer = FlatAdam
            self._names.append("flat Adam")

    @property
    def description(self) -> str:
        """Names of the faster implementations and of the library of products on a CPU, for the start of a run."""
        names = ", ".join(self._names) or "none"
        products = f" (products by {library()})" if self._device.type == "cpu" and self._cfg.fused else ""
        return f"acceleration on {self._device.type}: {names}{products}"

    def require_fit(self, collective: Collective) -> None:
        """Raise a ValueError where a chosen implementation cannot be used by several ranks."""
        if collective.size > 1 and self._cfg.cuda_graphs and self._device.type == "cuda":
            raise ValueError(
                f"acceleration.cuda_graphs=True with {collective.size} ranks: their communication is not recorded in "
                "graphs; use --acceleration.no_cuda_graphs"
            )

    def accelerate_networks(self, module: nn.Module) -> None:
        """Install faster kernels in the networks of a module."""
        networks = [part for part in module.modules() if isinstance(part, (MLP, Memory))]
        dtype = torch.bfloat16 if self._cfg.bfloat16 else None
        for part in networks if self._cfg.fused else ():
            if isinstance(part, MLP):
                part.kernel = FusedMLP(dtype)
            else:
                part.kernel, part.autocast_dtype = FusedRNN(), dtype
        if self._cfg.fused:
            memory = any(isinstance(part, Memory) for part in networks)
            self._names += ["fused MLP"] + ["recurrent scan"] * memory
            if self._can_cache and isinstance(module, ActorCritic):
                self.cached.append(module)
        if dtype is not None:
            self._names.append("bfloat16")

    def ppo_backward(self, policy: ActorCritic, is_plain: bool) -> Optional[PPOLossAndGradient]:
        """Return the loss with its gradient in closed form; None if it was not chosen, the policy is not Gaussian, or
        extensions change loss or mini-batches (``is_plain`` is False).

        Flat mini-batches on a CPU are then split into micro-batches that fit into its cache.
        """
        if not (self._cfg.fused and is_plain and isinstance(policy.distribution, DiagonalGaussian)):
            return None
        self._names.append("compiled closed-form loss" if self._cfg.compile else "closed-form loss")
        if self._device.type == "cpu" and policy.memories == (None, None):
            networks = policy.actor, policy.critic
            num_units = max(sum(len(p) for p in network.parameters() if p.dim() == 2) for network in networks)
            self.rows_at_once = max(1, _ACTIVATIONS_AT_ONCE // num_units)
        return PPOLossAndGradient(self._cfg.compile)

    def graphed(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of tensors as one that is recorded and replayed as a CUDA graph, where that was chosen."""
        if not (self._cfg.cuda_graphs and self._device.type == "cuda"):
            return function
        self._names += ["CUDA graphs"] * ("CUDA graphs" not in self._names)
        return GraphedFunction(function, self._device)

    @property
    def _can_cache(self) -> bool:
        # a CUDA graph would go on to read the weights that were cached when it was recorded
        return self._cfg.fused and self._device.type == "cpu"

    def cache_frozen(self, policy: ActorCritic) -> None:
        """Cache what depends on the weights of a policy that does not learn; call it again after loading others."""
        if self._can_cache:
            policy.cache_weights()
