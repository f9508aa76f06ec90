"""A reward for transitions that look like those of reference motions."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Sequence, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.acceleration.flat_adam import FlatAdam
from rsl_rl.algorithms.extension import Extension
from rsl_rl.config.extensions import AMPConfig
from rsl_rl.env.vec_env import Observations, VecEnv, require_group
from rsl_rl.modules.mlp import mlp
from rsl_rl.modules.normalizer import RunningNorm
from rsl_rl.modules.policy import ActorCritic
from rsl_rl.storage.mini_batches import MiniBatch, weighted_mean
from rsl_rl.storage.rollout import Column, RolloutStorage, Transition
from rsl_rl.utils.registry import import_object

Demonstrations = Mapping[str, Sequence[Tensor]]
"""Sequences of states [F, D] of consecutive control steps by style."""

Source = Callable[[VecEnv, str, Mapping[str, Sequence[str]]], Demonstrations]
"""Function of (environment, observation group, clips by style) that returns what the group observes in the clips."""

POLICY, DEMONSTRATED, WEIGHT = "amp_policy", "amp_demonstrated", "amp_weight"
"""Columns of a rollout: a transition of the policy, now or earlier, one of the clips, and the weight of the former."""


class AdversarialMotionPrior(Extension):
    """Reward transitions that a discriminator classifies as those of reference motions (Peng et al. 2021,
    https://arxiv.org/abs/2104.02180).

    A transition is the states of two consecutive control steps; a state is the observation group ``cfg.group``. The
    discriminator D learns to give 1 for transitions of the clips and -1 for those of the policy by least squares, with
    a penalty on its gradient at the clips. The reward of a step is ``weight * max(0, 1 - (D - 1)^2 / 4)``; it is 0
    where the step ended an episode, because the state after it belongs to the next one, and where the style changed.

    A part of the policy's transitions is replaced by those of earlier rollouts. States are normalised by the mean and
    variance of both kinds. If the group has the requested style, as one number for each style, then the discriminator
    is conditional on it, and the policy can be told at run time which style to show. Each style has the same share of
    the transitions that are drawn, and each clip the same share of those of its style.

    Random numbers are drawn from a generator of its own, so that a weight of 0 leaves the training bit by bit as it is
    without the extension. Metrics are ``amp_loss``, ``amp_gradient_penalty``, the mean outputs ``amp_policy_score`` and
    ``amp_demonstrated_score``, and ``style_reward``, the mean of a step.
    """

    def __init__(self, cfg: AMPConfig, demonstrations: Demonstrations, device: Union[str, torch.device] = "cpu"):
        self.cfg, self.groups = cfg, (cfg.group,)
        pairs, shares = _transitions(demonstrations)
        self.demonstrated, self._shares = pairs.to(device), shares.to(device)  # [K, 2 D], [K]
        size = pairs.shape[1]
        self.columns = {POLICY: Column(size), DEMONSTRATED: Column(size), WEIGHT: Column(1)}
        self._generator = torch.Generator(device).manual_seed(torch.initial_seed() % 2**63)
        with torch.random.fork_rng(devices=[]):  # the policy's random numbers stay as they are
            self.discriminator = mlp(size, cfg.hidden_dims, 1, cfg.activation).to(device)
        self.normalizer = RunningNorm(size // 2).to(device)
        parameters = list(self.discriminator.parameters())
        rate = torch.tensor(cfg.learning_rate, device=device)
        self.optimizer = FlatAdam(parameters, (parameters,), rate, max_grad_norm=cfg.max_grad_norm)
        self.replayed = torch.zeros(cfg.replay_size, size, device=device)  # earlier transitions of the policy
        self.num_stored = 0  # transitions that were ever written there, one after the other, again from the beginning
        self._sums = torch.zeros(2, device=device)  # of the rewards in this rollout, and of their sample masks

    @classmethod
    def from_env(
        cls, cfg: AMPConfig, env: VecEnv, policy: ActorCritic, device: Union[str, torch.device]
    ) -> AdversarialMotionPrior:
        obs = env.get_observations()
        require_group(obs, cfg.group, "AMPConfig.group names")
        source: Source = import_object(cfg.source)
        demonstrations = source(env, cfg.group, cfg.motions)
        for style, sequences in demonstrations.items():
            for states in sequences:
                if states.dim() != 2 or len(states) < 2 or states.shape[1:] != obs[cfg.group].shape[1:]:
                    raise ValueError(
                        f"AMPConfig.motions: the style '{style}' has states {list(states.shape)}; the group "
                        f"'{cfg.group}' needs [frames, {obs[cfg.group][0].numel()}] with at least 2"
                    )
        return cls(cfg, demonstrations, device)

    @torch.no_grad()
    def reward(self, transition: Transition, next_obs: Observations, dones: Tensor) -> Tensor:
        columns, name = transition.columns, self.cfg.group
        pairs, weight = columns[POLICY], columns[WEIGHT]
        torch.cat((transition.groups[name].float(), next_obs[name].to(pairs.device).float()), dim=-1, out=pairs)
        state, after = pairs.unflatten(-1, (2, -1)).unbind(-2)  # [N, D] each
        size = self.cfg.style_size
        same = (state[:, state.shape[1] - size :] == after[:, after.shape[1] - size :]).all(dim=1, keepdim=True)
        weight.copy_(columns["sample_mask"] * ~dones.bool() * same)
        reward = self.cfg.weight * style_reward(self.discriminator(self._normalized(pairs)))
        reward = torch.where(weight > 0, reward, 0.0)
        self._sums += torch.stack((reward.sum(), columns["sample_mask"].sum()))
        return reward

    @torch.no_grad()
    def finish_rollout(self, storage: RolloutStorage) -> None:
        pairs, weight = (storage.columns[name].flatten(0, 1) for name in (POLICY, WEIGHT))  # views [T*N, ...]
        demonstrated = self._drawn(self.demonstrated, self._shares, len(pairs))
        storage.columns[DEMONSTRATED].copy_(demonstrated.view_as(storage.columns[DEMONSTRATED]))
        states = torch.cat((pairs, demonstrated)).unflatten(1, (2, -1))  # [2 T*N, 2, D]
        masks = torch.cat((weight, torch.ones_like(weight))).unsqueeze(1).expand(-1, 2, 1)
        self.normalizer.update(states.flatten(0, 1), masks.reshape(-1, 1), self.collective)
        self._store(pairs, weight)
        earlier = torch.rand(len(pairs), generator=self._generator, device=pairs.device) < self.cfg.replay_share
        stored = min(self.num_stored, len(self.replayed))
        chosen = torch.randint(stored, (len(pairs),), generator=self._generator, device=pairs.device)
        column = earlier.unsqueeze(1)
        pairs.copy_(torch.where(column, self.replayed[chosen], pairs))
        weight.masked_fill_(column, 1.0)

    def learn(self, batch: MiniBatch) -> Dict[str, Tensor]:
        columns, mask = batch.columns, batch.sample_mask
        policy, demonstrated = (self._normalized(columns[name]) for name in (POLICY, DEMONSTRATED))
        self.optimizer.zero_grad()
        with torch.enable_grad():
            demonstrated.requires_grad_()
            own, theirs = self.discriminator(policy), self.discriminator(demonstrated)
            # A transition over the end of an episode counts as 0, in a mean over all samples: ranks have other numbers.
            counted = columns[WEIGHT]
            loss = weighted_mean((theirs - 1).square(), mask) + weighted_mean((own + 1).square() * counted, mask)
            (gradient,) = torch.autograd.grad(theirs.sum(), demonstrated, create_graph=True)
            penalty = weighted_mean(gradient.square().sum(dim=-1, keepdim=True), mask)
            (loss / 2 + self.cfg.gradient_penalty / 2 * penalty).backward()
        metrics = {
            "amp_loss": loss / 2,
            "amp_gradient_penalty": penalty,
            "amp_policy_score": weighted_mean(own * counted, mask),
            "amp_demonstrated_score": weighted_mean(theirs, mask),
        }
        metrics = {name: value.detach() for name, value in metrics.items()}
        loss = metrics["amp_loss"] + metrics["amp_gradient_penalty"]
        weight = self.collective.weighted_mean((*self.optimizer.gradients, loss), mask.sum())
        self.optimizer.step_where_finite(loss.isfinite() & (weight > 0))
        return metrics

    @torch.no_grad()
    def update(self, storage: RolloutStorage) -> Dict[str, Tensor]:
        total, count = self.collective.sum(self._sums).unbind()
        self._sums = torch.zeros_like(self._sums)
        return {"style_reward": total / count.clamp(min=1.0)}

    def state_dict(self) -> Dict[str, Any]:
        parts = {name: getattr(self, name).state_dict() for name in self._PARTS}
        replayed = self.replayed[: min(self.num_stored, len(self.replayed))].clone()
        generator = self._generator.get_state()
        own = {"replayed": replayed, "num_stored": self.num_stored}
        return {**parts, **own, "generator": generator, "rank": self.collective.rank}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name in self._PARTS:
            getattr(self, name).load_state_dict(state[name])
        saved = state["replayed"][: len(self.replayed)]
        self.replayed[: len(saved)] = saved.to(self.replayed.device)
        whole = len(saved) == min(int(state["num_stored"]), len(self.replayed))
        self.num_stored = int(state["num_stored"]) if whole else len(saved)  # of a buffer that was smaller
        generator = state["generator"].cpu()
        if state.get("rank", 0) != self.collective.rank:  # each rank draws other transitions
            self._generator.manual_seed((torch.initial_seed() + self.collective.rank) % 2**63)
        elif generator.shape == self._generator.get_state().shape:  # of the same type of device
            self._generator.set_state(generator)

    _PARTS = ("discriminator", "normalizer", "optimizer")

    def _normalized(self, pairs: Tensor) -> Tensor:
        """Return normalised transitions [..., 2 D]."""
        return self.normalizer(pairs.unflatten(-1, (2, -1))).flatten(-2)

    def _drawn(self, rows: Tensor, weights: Tensor, count: int) -> Tensor:
        """Return ``count`` random rows; weights [K] are relative chances."""
        return rows[torch.multinomial(weights, count, replacement=True, generator=self._generator)]

    def _store(self, pairs: Tensor, weight: Tensor) -> None:
        """Write random transitions of a rollout over the oldest ones of the buffer, a sixteenth of it at most."""
        size = len(self.replayed)
        count = min(len(pairs), max(1, size // 16))
        chances = weight.squeeze(1) + 1e-12  # a rollout may have no transition that counts
        place = (torch.arange(count, device=pairs.device) + self.num_stored) % size
        self.replayed[place] = self._drawn(pairs, chances, count)
        self.num_stored += count


def style_reward(score: Tensor) -> Tensor:
    """Return the reward for outputs of the discriminator: 1 for the output 1, 0 for -1, 3 and beyond."""
    return (1 - (score - 1).square() / 4).clamp(min=0.0)


def _transitions(demonstrations: Demonstrations) -> Tuple[Tensor, Tensor]:
    """Return the transitions of all sequences [K, 2 D], and the chance of each to be drawn [K], equal for all styles
    and within a style for all sequences."""
    if not demonstrations or not all(demonstrations.values()):
        raise ValueError("AMPConfig.motions names no clips, or a style without one; give clips for each style")
    pairs, shares = [], []
    for sequences in demonstrations.values():
        for states in sequences:
            own = torch.cat((states[:-1], states[1:]), dim=1).float()
            pairs.append(own)
            share = 1.0 / (len(own) * len(sequences) * len(demonstrations))
            shares.append(torch.full((len(own),), share, device=own.device))
    return torch.cat(pairs), torch.cat(shares)
