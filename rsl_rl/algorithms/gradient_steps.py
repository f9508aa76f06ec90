"""Learning from a rollout by gradient steps on mini-batches: what algorithms with an actor and a critic share."""

from __future__ import annotations

from typing import Any, Callable, ClassVar, Dict, Iterator, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

import torch
from torch import Tensor

from rsl_rl.algorithms.extension import Extension
from rsl_rl.algorithms.losses import BatchTransform
from rsl_rl.algorithms.metrics import UnpackedMetrics
from rsl_rl.algorithms.on_policy import OnPolicyAlgorithm
from rsl_rl.algorithms.optimizer import GuardedAdam
from rsl_rl.algorithms.policy_average import PolicyAverage
from rsl_rl.algorithms.policy_setup import build_policy
from rsl_rl.algorithms.rollout_setup import group_specs
from rsl_rl.config.acceleration import AccelerationConfig
from rsl_rl.config.algorithm import OnPolicyConfig
from rsl_rl.config.learn import LearnConfig
from rsl_rl.env.vec_env import VecEnv
from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.storage.mini_batch import MiniBatch

T = TypeVar("T", bound="GradientStepAlgorithm")

FIXED = ("joint_grad_norm", "ema_decay", "unroll_len", "last_fn_type", "burn_in")
"""Settings that are read when the algorithm is constructed, and cannot be changed later."""


class GradientStepAlgorithm(OnPolicyAlgorithm):
    """Learn from rollouts by several epochs of gradient steps on mini-batches.

    A subclass sets ``loss`` and ``term_names`` in its constructor, and ``transforms`` if it has some.
    """

    RANK_STATE = ("extensions",)
    term_names: ClassVar[Tuple[str, ...]]
    """Names of the terms that ``loss`` returns, which become metrics."""
    loss: Callable[..., Tensor]
    """Function of (distribution, values, batch, weights, cfg, additional losses): adds the gradient of the loss to the
    parameters, and returns its terms as one tensor; see :class:`PPOLoss`."""
    transforms: Sequence[BatchTransform] = ()
    """What is changed in each mini-batch before extensions and the loss."""

    def __init__(
        self,
        actor_critic: ActorCritic,
        device: Union[str, torch.device],
        cfg: OnPolicyConfig,
        extensions: Sequence[Extension],
        acceleration: Optional[AccelerationConfig],
    ):
        super().__init__(actor_critic, device, cfg, extensions, acceleration)
        self._learning_rate = torch.tensor(cfg.learning_rate, device=self.device)
        parameters = [*self.policy.parameters(), *self.extensions.parameters]
        apart = [group for group in (*self.policy.parameter_groups(), self.extensions.parameters) if group]
        groups = [parameters] if cfg.joint_grad_norm else apart
        optimizer = self._acceleration.optimizer or GuardedAdam
        self.optimizer = optimizer(parameters, groups, self._learning_rate, cfg.max_grad_norm)
        self.skips_in_row = torch.zeros((), device=self.device)  # gradient steps skipped since the last one taken
        self.average = PolicyAverage(self.policy, cfg.ema_decay)
        self.learning_step = self._acceleration.graphed(self.learning_step)  # type: ignore[method-assign]
        self._added_names: Tuple[str, ...] = ()  # of the metrics that extensions give with each mini-batch

    @classmethod
    def from_env(cls: Type[T], cfg: LearnConfig, env: VecEnv, device: Union[str, torch.device], **parts: Any) -> T:
        """Return the algorithm for an environment; ``parts`` are further arguments of the constructor."""
        obs = env.get_observations()
        policy = build_policy(cfg.policy, env, obs).to(device)
        extensions = [extension.build(env=env, policy=policy, device=device) for extension in cfg.extensions]
        settings = {"cfg": cfg.algorithm, "extensions": extensions, "acceleration": cfg.acceleration}
        alg = cls(policy, device=device, **settings, **parts)
        alg.init_groups(env.num_envs, cfg.runner.num_steps_per_env, group_specs(obs, alg.read_groups))
        return alg

    @property
    def learning_rate(self) -> float:
        """Learning rate of Adam; reading it synchronises with the device, the metric of ``update`` does not."""
        return float(self._learning_rate)

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self._learning_rate.fill_(value)

    @property
    def max_grad_norm(self) -> float:
        """Max gradient norm of the actor, and of the critic."""
        return self.optimizer.max_grad_norm

    @max_grad_norm.setter
    def max_grad_norm(self, value: float) -> None:
        self.optimizer.max_grad_norm = value

    @property
    def inference_policy(self) -> ActorCritic:
        return self.average.policy

    def state_dict(self) -> Dict[str, Any]:
        return {
            "model_state_dict": self.policy.state_dict(),
            "optimizer_state_dict": self.optimizer.state_dict(),
            "learning_rate": self.learning_rate,
            "skips_in_row": float(self.skips_in_row),
            "extensions": self.extensions.state_dict(),
            **self.average.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any], load_optimizer: bool = True) -> None:
        self.policy.load_state_dict(state["model_state_dict"])
        self.average.load_state_dict(state)
        if load_optimizer:
            self.optimizer.load_state_dict(state["optimizer_state_dict"])
            self.learning_rate = state.get("learning_rate", self.learning_rate)
            self.skips_in_row.fill_(state.get("skips_in_row", 0.0))
            self.extensions.load_state_dict(state.get("extensions", {}))

    def restart_from(self, state: Mapping[str, Any], learning_rate: float) -> None:
        super().restart_from(state, learning_rate)
        self.skips_in_row.zero_()

    def update(self) -> Dict[str, Tensor]:
        """Learn from the rollout and clear it.

        Returns scalars on the device: the terms of the loss and what extensions give, averaged over the gradient steps
        taken; the last learning_rate and noise_std; and skipped_steps, how many gradient steps were skipped because
        something was not finite, or all samples were masked.
        """
        self.optimizer.attach()
        scheduled = self.cfg.learning_rate_at(self.progress)
        if scheduled is not None:
            self.learning_rate = scheduled
        storage, policy = self.storage, self.policy
        totals: Optional[Tensor] = None
        consecutive_skips, num_steps = self.skips_in_row.clone(), 0
        for indices in self.mini_batches():
            terms = self.learning_step(indices)
            totals = terms.clone() if totals is None else totals.add_(terms)
            num_steps += 1
            torch.maximum(consecutive_skips, self.skips_in_row, out=consecutive_skips)
        assert totals is not None
        taken = totals[len(self.term_names)]
        policy.update_normalization(storage.groups, storage.groups, storage.sample_mask, self.collective)
        policy.value_normalizer.update(storage.returns, storage.sample_mask, self.collective)
        self.average.update()
        names = (*self.term_names, self.STEPS_TAKEN, *self._added_names)
        metrics = dict(zip(names, (totals / taken).unbind()))
        metrics["learning_rate"] = self._learning_rate.clone()
        metrics["noise_std"] = policy.noise_std().detach().mean()
        metrics["skipped_steps"] = num_steps - taken
        metrics[self.STEPS_TAKEN], metrics[self.CONSECUTIVE_SKIPS] = taken, consecutive_skips
        self.extensions.update(storage, metrics)
        storage.clear()
        return UnpackedMetrics(metrics, self.unpacked) if self.unpacked else metrics

    def mini_batches(self) -> Iterator[Tensor]:
        """Yield the indices of the mini-batches of an update."""
        return self.storage.batches.shuffled(self.cfg.num_mini_batches, self.cfg.num_learning_epochs)

    @torch.no_grad()
    def learning_step(self, indices: Tensor) -> Tensor:
        """Take one gradient step on the steps, or the environments, with these indices; all ranks take it together.

        Returns the terms of the loss before it, 1, and the metrics of extensions, as one tensor. A loss or a gradient
        that is not finite on any rank, or no unmasked sample, leaves weights and optimiser as they are; the tensor is
        then zero.
        """
        self.optimizer.zero_grad()
        batches = self.storage.batches
        weight = batches.total_weight(indices)
        share = 1.0 / weight.clamp(min=1.0)  # of a sample of weight 1 in the mean
        added = self.extensions.learn(lambda: batches.gather(indices))
        parts = [self._add_gradients(batches.gather(part), share, added) for part in self._acceleration.split(indices)]
        terms = torch.stack(parts).sum(dim=0)
        self._added_names = tuple(added)
        metrics = torch.cat((terms, torch.ones_like(terms[:1]), *(metric.reshape(1) for metric in added.values())))
        weight = self.collective.weighted_mean((*self.optimizer.gradients, metrics), weight)
        terms = metrics[: len(terms)]
        self.adapt(terms)
        taken = self.optimizer.step_where_finite(terms.isfinite().all().logical_and(weight > 0))
        self.skips_in_row.add_(1.0).mul_(~taken)
        return torch.where(taken, metrics, 0.0)

    def adapt(self, terms: Tensor) -> None:
        """Change settings on the device, such as the learning rate, by the terms of the loss before a gradient step."""

    def evaluate(self, batch: MiniBatch) -> Optional[Tensor]:
        """Return the values [..., 1] that the loss gets, in the units of the critic's output; None for a loss without
        values."""
        return None

    def _add_gradients(self, batch: MiniBatch, share: Tensor, added: Dict[str, Tensor]) -> Tensor:
        """Add the gradient of the loss of a mini-batch to the parameters'; return its terms as one tensor.

        ``share`` is what a sample of weight 1 contributes to the mean; ``added`` takes the metrics of extensions.
        """
        policy, extensions = self.policy, self.extensions
        with torch.enable_grad():
            for transform in self.transforms:
                batch = transform(batch)
            num_collected = batch.sample_mask.numel()
            batch = extensions.transform(batch)
            share = share * (num_collected / batch.sample_mask.numel())
            policy.update_distribution(policy.actor_obs(batch.groups), batch.masks, batch.hidden_states[0])
            values = self.evaluate(batch)
            losses = extensions.losses(policy, batch)
            distribution = policy.distribution
            policy.distribution = distribution.detach()  # which frees the graph
            weights = batch.sample_mask * share
            terms = self.loss(distribution, values, batch, weights, self.cfg, losses)
        for name, loss in losses.items():
            if name in added or name in self.term_names:
                raise ValueError(f"an extension adds the loss '{name}', and this name is taken; rename it")
            added[name] = loss.detach()
        return terms
