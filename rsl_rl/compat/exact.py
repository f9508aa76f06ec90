"""PPO with the update of rsl_rl 5.5.1, to the last bit: ``compat: "exact"`` in a configuration of version 4 or 5.

What is computed in which order, and with which random numbers, is that of version 5.5.1; steps that are not valid, and
gradients that are not finite, are left out as everywhere in this package.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

import torch
from torch import Tensor, nn
from torch.distributions import Normal, kl_divergence

from rsl_rl.algorithms.algorithm import UpdateResult
from rsl_rl.algorithms.ppo import PolicyStep
from rsl_rl.compat.algorithms import PPO, ClientResult, in_our_order
from rsl_rl.compat.batches import step_batches, trajectory_batches
from rsl_rl.compat.distributions import GaussianDistribution
from rsl_rl.compat.model_policy import ModelPolicy
from rsl_rl.modules.distributions import DiagonalGaussian, GaussianFamily, Parameters


class ExactGaussian(DiagonalGaussian):
    """Independent normal distributions of A action components, computed by ``torch.distributions``."""

    def __init__(self, action_mean: Tensor, action_std: Tensor):
        super().__init__(action_mean, action_std)
        # one object for all terms of a loss: the order in which their gradients are added depends on it
        self.normal = Normal(action_mean, action_std, validate_args=False)

    def sample(self) -> Tensor:
        return self.normal.sample()

    def log_prob(self, actions: Tensor) -> Tensor:
        return self.normal.log_prob(actions).sum(dim=-1, keepdim=True)

    def entropy(self) -> Tensor:
        return self.normal.entropy().sum(dim=-1, keepdim=True)

    def kl_from(self, old: Parameters) -> Tensor:
        before = Normal(old["action_mean"], old["action_std"], validate_args=False)
        return kl_divergence(before, self.normal).sum(dim=-1, keepdim=True)


class ExactGaussianFamily(GaussianFamily):
    """Makes :class:`ExactGaussian` of an actor's outputs."""

    def __call__(self, outputs: Tensor, std: Optional[Tensor]) -> ExactGaussian:
        assert std is not None
        return ExactGaussian(outputs, std)

    def of_parameters(self, parameters: Parameters) -> ExactGaussian:
        return ExactGaussian(parameters["action_mean"], parameters["action_std"])


class ExactOutput(GaussianDistribution):
    """A :class:`GaussianDistribution` that is computed by ``torch.distributions``."""

    def __init__(self, output_dim: int, **settings: Any):
        super().__init__(output_dim, **settings)
        self._family = ExactGaussianFamily(output_dim)


class ExactPPO(PPO):
    """PPO over an actor and a critic of a :class:`ModelPolicy`, with the arithmetic of rsl_rl 5.5.1."""

    policy: ModelPolicy

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        optimizer: Any = torch.optim.Adam(list(self.policy.parameters()), lr=self.cfg.learning_rate)
        optimizer.max_grad_norm = self.cfg.max_grad_norm
        self.learner.optimizer = optimizer
        self._policy_step = self.acceleration.graphed(self.policy_step)

    @property
    def learning_rate(self) -> float:
        """Learning rate of Adam, a number of Python."""
        return self.optimizer.param_groups[0]["lr"]

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self.optimizer.param_groups[0]["lr"] = value
        self.learner.learning_rate.fill_(value)  # for checkpoints

    def policy_step(self, policy: Any, groups: Dict[str, Tensor], hidden_states: Any) -> PolicyStep:
        policy.set_hidden_states((hidden_states[0], hidden_states[1]))
        actions = policy.actor(groups, stochastic_output=True)
        distribution = policy.actor.latest_distribution
        columns = {**distribution.parameters, "actions_log_prob": distribution.log_prob(actions)}
        return PolicyStep(actions, columns, policy.critic(groups), policy.get_hidden_states())

    @torch.no_grad()
    def process_env_step(self, *args: Any, **kwargs: Any) -> None:
        """Finish the step. A time-out adds gamma * V(s_t) to the reward; ``final_obs`` is not read."""
        rewards, dones, extras, *next_obs = in_our_order(args)
        row = self.transition.columns
        if "time_outs" in extras:
            flags = extras["time_outs"].to(self.device).reshape(-1, 1)
            rewards = rewards.reshape(-1) + self.cfg.gamma * (row["values"] * flags).squeeze(1)
        others = {name: value for name, value in extras.items() if name == "valid"}
        super().process_env_step(rewards, dones, others, *next_obs, **kwargs)

    @torch.no_grad()
    def compute_returns(self, obs: Any) -> None:
        storage, critic, cfg = self.storage, self.policy.critic, self.cfg
        rewards, dones, values = (storage.columns[name] for name in ("rewards", "dones", "values"))
        state = critic.get_hidden_state()
        next_values = critic(obs)
        critic.reset(hidden_state=state)
        advantage = torch.zeros_like(next_values)
        for t in reversed(range(len(rewards))):
            going = 1.0 - dones[t].float()
            error = rewards[t] + going * cfg.gamma * next_values - values[t]
            advantage = error + going * cfg.gamma * cfg.lam * advantage
            storage.returns[t] = advantage + values[t]
            next_values = values[t]
        advantages = storage.returns - values
        valid = storage.sample_mask > 0
        storage.advantages.copy_(_normalized(advantages, valid) if self.normalizes_rollout else advantages)

    def update(self) -> ClientResult:
        storage, policy, cfg = self.storage, self.policy, self.cfg
        batches = trajectory_batches if policy.is_recurrent else step_batches
        names = tuple(policy.family.parameter_shapes)
        seen: List[Tensor] = []  # terms of the loss, of the gradient steps taken
        skips_in_row = self.learner.skips_in_row
        longest, num_steps = skips_in_row.clone(), 0
        for batch in batches(storage, names, cfg.num_mini_batches, cfg.num_learning_epochs):
            terms = self._exact_step(batch)
            skips_in_row.add_(1.0).mul_(0.0 if terms is not None else 1.0)
            torch.maximum(longest, skips_in_row, out=longest)
            seen += [] if terms is None else [terms]
            num_steps += 1
        for model in (policy.actor_model, policy.critic_model):
            model.update_normalization(storage.groups, storage.sample_mask, self.collective)
        for average in self.learner.averages:
            average.update()
        taken = float(len(seen))
        means = torch.stack(seen).mean(dim=0) if seen else torch.full((len(self.learner.term_names),), torch.nan)
        metrics = dict(zip(self.learner.term_names, means.unbind()))
        numbers = {"learning_rate": self.learning_rate, "skipped_steps": num_steps - taken}
        metrics.update({name: torch.tensor(value, device=self.device) for name, value in numbers.items()})
        metrics["noise_std"] = policy.noise_std().detach().mean()
        storage.clear()
        return ClientResult(UpdateResult(metrics, torch.tensor(taken, device=self.device), longest), self.unpacked)

    def _exact_step(self, batch: Any) -> Optional[Tensor]:
        """Take a gradient step; return the terms of the loss before it, or None where none can be taken."""
        cfg = self.cfg
        actor, critic = self.policy.actor, self.policy.critic
        old = dict(zip(self.policy.family.parameter_shapes, batch.old_distribution_params))
        valid = batch.sample_mask > 0
        advantages = batch.advantages
        if not self.normalizes_rollout:
            advantages = _normalized(advantages, valid)
        valid = valid.squeeze(-1)
        with torch.enable_grad():
            # the drawn actions are not used; drawing them leaves the random numbers as version 5.5.1 leaves them
            actor(batch.observations, masks=batch.masks, hidden_state=batch.hidden_states[0], stochastic_output=True)
            new = actor.latest_distribution
            values = critic(batch.observations, masks=batch.masks, hidden_state=batch.hidden_states[1])
            log_prob, entropy = new.log_prob(batch.actions), new.entropy()
            with torch.no_grad():
                kl = new.kl_from(old)
            parts = [log_prob, batch.old_actions_log_prob, advantages, entropy, kl]
            parts = [part.squeeze(-1) for part in parts]
            of_values = [values, batch.values, batch.returns]
            if not valid.all():
                if not valid.any():
                    return None
                parts, of_values = ([part[valid] for part in some] for some in (parts, of_values))
            log_prob, old_log_prob, advantages, entropy, kl = parts
            kl_mean = kl.mean()
            self._adapt_exactly(kl_mean)
            ratio = torch.exp(log_prob - old_log_prob)
            clipped = torch.clamp(ratio, 1.0 - cfg.clip_param, 1.0 + cfg.clip_param)
            surrogate = torch.max(-advantages * ratio, -advantages * clipped).mean()
            value = self._value_loss(*of_values)
            mean_entropy = entropy.mean()
            loss = surrogate + cfg.value_loss_coef * value - cfg.entropy_coef * mean_entropy
            self.optimizer.zero_grad()
            loss.backward()
        assert actor.distribution is not None  # every actor has one
        actor.distribution.free_graph()
        self.policy.distribution = new.detach()
        limit = self.optimizer.max_grad_norm
        norms = [nn.utils.clip_grad_norm_(network.parameters(), limit) for network in (actor, critic)]
        if not torch.stack([loss.detach(), *norms]).isfinite().all():
            return None
        self.optimizer.step()
        return torch.stack((surrogate, value, mean_entropy, kl_mean)).detach()

    def _value_loss(self, values: Tensor, old: Tensor, returns: Tensor) -> Tensor:
        if not self.cfg.use_clipped_value_loss:
            return (returns - values).pow(2).mean()
        clip = self.cfg.clip_param
        near = old + (values - old).clamp(-clip, clip)
        return torch.max((values - returns).pow(2), (near - returns).pow(2)).mean()

    def _adapt_exactly(self, kl: Tensor) -> None:
        """Change the learning rate, a number of Python, by a KL [nats], a scalar."""
        desired = self.cfg.desired_kl
        if self.cfg.schedule != "adaptive" or desired is None:
            return
        if kl > desired * 2.0:
            self.learning_rate = max(1e-5, self.learning_rate / 1.5)
        elif desired / 2.0 > kl > 0.0:
            self.learning_rate = min(1e-2, self.learning_rate * 1.5)


def _normalized(advantages: Tensor, valid: Tensor) -> Tensor:
    """Return advantages [..., 1] with mean 0 and deviation 1 over the valid ones, bool [..., 1]."""
    some = advantages if valid.all() else advantages[valid]
    return (advantages - some.mean()) / (some.std() + 1e-8)
