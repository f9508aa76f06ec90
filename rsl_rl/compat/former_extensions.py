"""Random network distillation and symmetry with the constructors and calls of rsl_rl 5, for programs without a runner.

A runner builds this version's extensions, see :mod:`rsl_rl.extensions`.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Union

import torch
from torch import Tensor, nn

from rsl_rl.compat.batches import Batch
from rsl_rl.compat.former_code import (
    MLP,
    EmpiricalDiscountedVariationNormalization,
    EmpiricalNormalization,
    resolve_callable,
)
from rsl_rl.config.extensions import RNDConfig
from rsl_rl.extensions import random_network_distillation

_SAMPLES = 1e8
"""Samples after which statistics stay as they are."""


class RandomNetworkDistillation(nn.Module):
    """Reward observations that a trained network predicts badly; see
    :class:`rsl_rl.extensions.RandomNetworkDistillation`.

    ``obs_groups["rnd_state"]`` names the groups that both networks read; ``weight_schedule`` has "mode" (constant, step
    or linear), "initial_step", "final_step" and "final_value".
    """

    def __init__(
        self,
        num_states: int,
        obs_groups: Mapping[str, Sequence[str]],
        num_outputs: int,
        predictor_hidden_dims: Sequence[int],
        target_hidden_dims: Sequence[int],
        activation: str = "elu",
        state_normalization: bool = False,
        reward_normalization: bool = False,
        weight: float = 0.0,
        weight_schedule: Optional[Mapping[str, Any]] = None,
        learning_rate: float = 1e-3,
        device: Union[str, torch.device] = "cpu",
    ):
        super().__init__()
        self.obs_groups, self.initial_weight, self.weight, self.device = obs_groups, weight, weight, device
        schedule = dict(weight_schedule or {"mode": "constant"})
        names = {"mode": "weight_schedule", "final_value": "final_weight"}
        given: Dict[str, Any] = {names.get(name, name): value for name, value in schedule.items()}
        self._schedule = RNDConfig(weight=weight, **given)
        self.state_normalizer = (
            EmpiricalNormalization(num_states, until=_SAMPLES) if state_normalization else nn.Identity()
        )
        self.reward_normalizer = (
            EmpiricalDiscountedVariationNormalization([], until=_SAMPLES) if reward_normalization else nn.Identity()
        )
        self.predictor = MLP(num_states, num_outputs, predictor_hidden_dims, activation)
        self.target = MLP(num_states, num_outputs, target_hidden_dims, activation).eval()
        self.update_counter = 0
        self.to(device)
        self.optimizer = torch.optim.Adam(self.predictor.parameters(), lr=learning_rate)

    @torch.no_grad()
    def get_intrinsic_reward(self, obs: Any) -> Tensor:
        """Return the weighted reward [N] of observation groups [N, ...], and count the step."""
        self.update_counter += 1
        self.weight = random_network_distillation.scheduled_weight(self._schedule, self.update_counter)
        states = self.state_normalizer(self.get_rnd_state(obs))
        distance = torch.linalg.vector_norm(self.target(states) - self.predictor(states), dim=-1)
        return self.weight * self.reward_normalizer(distance)

    def compute_loss(self, obs: Any) -> Tensor:
        """Return the mean squared error of the predictor, a scalar."""
        with torch.no_grad():
            states = self.state_normalizer(self.get_rnd_state(obs))
            wanted = self.target(states)
        return nn.functional.mse_loss(self.predictor(states), wanted)

    def get_rnd_state(self, obs: Any) -> Tensor:
        """Return what both networks read of observation groups, [N, D]."""
        return torch.cat([obs[group] for group in self.obs_groups["rnd_state"]], dim=-1)

    def update_normalization(self, obs: Any) -> None:
        """Merge observations into the running statistics."""
        if isinstance(self.state_normalizer, EmpiricalNormalization):
            self.state_normalizer.update(self.get_rnd_state(obs))

    def train(self, mode: bool = True) -> RandomNetworkDistillation:
        super().train(mode)
        self.target.eval()
        return self


class Symmetry:
    """Append the images of a mini-batch to it, or penalise actions that differ from the image of the action.

    ``data_augmentation_func(env=, obs=, actions=)`` returns both for all images, the samples themselves first.
    """

    def __init__(
        self,
        env: Any,
        data_augmentation_func: Union[str, Callable[..., Any]],
        use_data_augmentation: bool = False,
        use_mirror_loss: bool = False,
        mirror_loss_coeff: float = 0.0,
    ):
        self.env, self.data_augmentation_func = env, resolve_callable(data_augmentation_func)
        self.use_data_augmentation, self.use_mirror_loss = use_data_augmentation, use_mirror_loss
        self.mirror_loss_coeff = mirror_loss_coeff

    def augment_batch(self, batch: Batch, original_batch_size: int) -> None:
        """Append the images to a mini-batch of steps, where ``use_data_augmentation`` is set."""
        if not self.use_data_augmentation:
            return
        batch.observations, batch.actions = self._images(batch.observations, batch.actions)
        times = len(batch.actions) // original_batch_size
        for name in ("values", "advantages", "returns", "old_actions_log_prob"):
            setattr(batch, name, getattr(batch, name).repeat(times, 1))

    def compute_loss(self, actor: Callable[..., Tensor], batch: Batch, original_batch_size: int) -> Tensor:
        """Return the mean squared difference between the actions for the images and the images of the action; its
        gradient is that of the former. The images are appended to a mini-batch that has none."""
        if not self.use_data_augmentation:
            batch.observations = self._images(batch.observations, None)[0]
        means = actor(batch.observations)
        wanted = self._images(None, means[:original_batch_size].detach())[1]
        loss = nn.functional.mse_loss(means[original_batch_size:], wanted[original_batch_size:])
        return loss if self.use_mirror_loss else loss.detach()

    def _images(self, obs: Any, actions: Optional[Tensor]) -> Any:
        return self.data_augmentation_func(env=self.env, obs=obs, actions=actions)
