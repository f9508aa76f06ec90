"""Symmetry by a function of the client, ``data_augmentation_func``, as rsl_rl 2.2 to 5 call it."""

from __future__ import annotations

import inspect
from typing import Any, Callable, Dict, Mapping, Optional, Tuple

import torch
from torch import Tensor

from rsl_rl.algorithms.extension import Extension
from rsl_rl.config.extensions import SymmetryConfig
from rsl_rl.env.vec_env import VecEnv
from rsl_rl.modules.policy import ActorCritic
from rsl_rl.storage.mini_batches import MiniBatch, weighted_mean


class Augmentation:
    """A client's function, with the arguments of its era.

    ``function(obs=, actions=, env=)`` returns both for all images of B samples, the samples themselves first, [k*B,
    ...]; each may be None. Observations are all groups (3 to 5), or with an argument ``is_critic`` (2.2) or
    ``obs_type`` (2.3) the tensor of one network. ``example`` are observations of the client's environment.
    """

    def __init__(self, function: Callable[..., Any], env: Any, example: Any):
        self._function, self._env, self._example = function, env, example
        parameters = inspect.signature(function).parameters
        self._by_network = next((name for name in ("is_critic", "obs_type") if name in parameters), "")

    def of_actions(self, actions: Tensor) -> Tensor:
        """Return the images [k*B, A] of actions [B, A]."""
        return self._call(None, actions)[1]

    def __call__(
        self, groups: Mapping[str, Tensor], actions: Optional[Tensor], critic_groups: Tuple[str, ...]
    ) -> Tuple[Dict[str, Tensor], Optional[Tensor]]:
        """Return the images of observation groups, each [B, ...], and of actions [B, A]."""
        if not self._by_network:
            images, mirrored = self._call(self._as_given(groups), actions)
            return {name: images[name] for name in groups}, mirrored
        result = {name: self._call(group, actions, name in critic_groups) for name, group in groups.items()}
        return {name: images for name, (images, _) in result.items()}, next(iter(result.values()))[1]

    def _call(self, obs: Any, actions: Optional[Tensor], is_critic: bool = False) -> Any:
        named: Dict[str, Any] = {"is_critic": is_critic, "obs_type": "critic" if is_critic else "policy"}
        chosen = {self._by_network: named[self._by_network]} if self._by_network else {}
        return self._function(obs=obs, actions=actions, env=self._env, **chosen)

    def _as_given(self, groups: Mapping[str, Tensor]) -> Any:
        """Return groups as the environment gives them: a dict, or a TensorDict with a batch size."""
        kind = type(self._example)
        if not hasattr(self._example, "batch_size"):
            return dict(groups)
        return kind(dict(groups), batch_size=[len(next(iter(groups.values())))])


class ClientSymmetry(Extension):
    """Learn from the images of each sample too, or penalise actions that differ from the image of the action.

    The images of a mini-batch have the log-probability, value, advantage and return of their samples. The metric
    ``symmetry_loss`` is the mean squared difference, times its weight where it is part of the loss.
    """

    def __init__(self, cfg: SymmetryConfig, function: Augmentation, critic_groups: Tuple[str, ...]):
        self.cfg, self._augment, self._critic_groups = cfg, function, critic_groups

    @classmethod
    def from_env(cls, cfg: Any, env: VecEnv, policy: ActorCritic, device: Any) -> ClientSymmetry:
        """Return the extension for a client's function, ``cfg.function``."""
        if policy.memories != (None, None):
            raise ValueError(
                "data_augmentation_func has no images of recurrent states; leave it out and give the environment "
                "mirrors(), which recurrent policies learn from too"
            )
        actor = policy.actor_model.groups
        critic_groups = tuple(group for group in policy.critic_model.groups if group not in actor)
        images = Augmentation(cfg.function, getattr(env, "client", env), env.get_observations())
        return cls(cfg, images, critic_groups)

    def transform(self, batch: MiniBatch) -> MiniBatch:
        if not self.cfg.use_data_augmentation:
            return batch
        size = len(batch.sample_mask)
        groups, actions = self._augment(dict(batch.groups), batch.columns["actions"], self._critic_groups)
        assert actions is not None
        times = len(actions) // size
        columns = {name: _rows(x, size).repeat(times, 1) for name, x in batch.columns.items()}
        return batch.replace(groups=groups, columns={**columns, "actions": actions}, num_original=size)

    def losses(self, policy: ActorCritic, batch: MiniBatch) -> Dict[str, Tensor]:
        means, size = policy.distribution.mode, len(batch.original(batch.sample_mask))
        if not self.cfg.use_data_augmentation:
            with torch.set_grad_enabled(self.cfg.use_mirror_loss):
                groups = {name: batch.groups[name] for name in policy.actor_model.groups}
                images = self._augment(groups, None, self._critic_groups)[0]
                means = policy.family.mode(policy.actor_model(images))
        targets = self._augment.of_actions(means[:size].detach())[size:]
        errors = (means[size:] - targets).square().mean(dim=-1, keepdim=True)
        mask = batch.original(batch.sample_mask).repeat(len(errors) // size, 1)
        loss = weighted_mean(errors, mask)
        return {"symmetry_loss": self.cfg.mirror_loss_coeff * loss if self.cfg.use_mirror_loss else loss.detach()}


def _rows(column: Tensor, size: int) -> Tensor:
    """Return a column as [B, size], also where it is [size] because all samples share it."""
    return column if column.dim() > 1 else column.expand(size, -1)
