"""Proximal policy optimisation."""

from __future__ import annotations

import math
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, nn

from rsl_rl.algorithms.adam import FlatAdam
from rsl_rl.algorithms.losses import LossTerms, adapt_learning_rate, ppo_loss
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.modules.gaussian import DiagonalGaussian
from rsl_rl.storage.returns import bootstrap_timeouts
from rsl_rl.storage.rollout_storage import MiniBatch, RolloutStorage
from rsl_rl.storage.unrolling import Unrolling, plan_unrolling
from rsl_rl.utils.trajectories import HiddenState

_ACTIVATIONS_AT_ONCE = 1 << 21
"""Results of hidden units that a CPU computes together, as many as stay in its cache."""


class PolicyStep(NamedTuple):
    """What a policy says about one step of all environments."""

    actions: Tensor  # [N, A]
    mean: Tensor  # [N, A]
    stddev: Tensor  # [N, A] or [A]
    values: Optional[Tensor]  # [N, 1]; None from a policy without memory, which values the rollout as a whole
    hidden_states: Tuple[HiddenState, HiddenState]  # after the step, of actor and critic


class PPO:
    """Collect rollouts with a policy and improve it by the clipped surrogate, https://arxiv.org/abs/1707.06347.

    ``settings`` are the fields of :class:`PPOConfig`, and attributes of the same names. The order of calls is
    ``init_storage`` once; then, T times, ``act`` and, after the environment's step, ``process_env_step``; then
    ``compute_returns`` and ``update``. From the first ``act`` of a rollout to ``compute_returns`` the weights must stay
    as they are. Results stay tensors on the device until somebody logs them.
    """

    def __init__(self, actor_critic: ActorCritic, device: Union[str, torch.device] = "cpu", **settings: Any):
        cfg = PPOConfig(**settings)
        self.num_learning_epochs = cfg.num_learning_epochs
        self.num_mini_batches = cfg.num_mini_batches
        self.clip_param = cfg.clip_param
        self.gamma = cfg.gamma
        self.lam = cfg.lam
        self.value_loss_coef = cfg.value_loss_coef
        self.use_clipped_value_loss = cfg.use_clipped_value_loss
        self.entropy_coef = cfg.entropy_coef
        self.schedule = cfg.schedule
        self.desired_kl = cfg.desired_kl
        self.unroll_len, self.last_fn_type, self.burn_in = cfg.unroll_len, cfg.last_fn_type, cfg.burn_in

        self.device = torch.device(device)
        self.actor_critic = actor_critic.to(self.device)
        self._learning_rate = torch.tensor(cfg.learning_rate, device=self.device)
        actor: List[nn.Parameter] = []
        critic: List[nn.Parameter] = []
        for name, parameter in self.actor_critic.named_parameters():
            (critic if name.startswith(("critic.", "memory_c.")) else actor).append(parameter)
        parameters = list(self.actor_critic.parameters())
        self.optimizer = FlatAdam(parameters, (actor, critic), self._learning_rate, cfg.max_grad_norm)
        self.skips_in_row = torch.zeros((), device=self.device)  # gradient steps skipped since the last one taken
        networks = self.actor_critic.actor, self.actor_critic.critic
        num_units = max(sum(len(p) for p in network.parameters() if p.dim() == 2) for network in networks)
        self._rows_at_once = max(1, _ACTIVATIONS_AT_ONCE // num_units)
        self.loss = ppo_loss
        self.storage: RolloutStorage = None  # type: ignore[assignment]  # made by init_storage
        self.transition = RolloutStorage.Transition()

    @property
    def learning_rate(self) -> float:
        """Adam's step size; reading it waits for the device, so the loop logs the tensor that ``update`` returns."""
        return float(self._learning_rate)

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self._learning_rate.fill_(value)

    @property
    def max_grad_norm(self) -> float:
        """Longest gradient of the actor, and of the critic."""
        return self.optimizer.max_grad_norm

    @max_grad_norm.setter
    def max_grad_norm(self, value: float) -> None:
        self.optimizer.max_grad_norm = value

    def init_storage(
        self,
        num_envs: int,
        num_transitions_per_env: int,
        actor_obs_shape: Sequence[int],
        critic_obs_shape: Optional[Sequence[int]],
        action_shape: Sequence[int],
    ) -> None:
        """Allocate the rollout; one that is too small for the mini-batches is a ValueError.

        ``critic_obs_shape`` is None for a critic that reads what the actor reads.
        """
        num_samples = num_envs if self.actor_critic.is_recurrent else num_envs * num_transitions_per_env
        if num_samples < self.num_mini_batches or num_envs * num_transitions_per_env < 2:
            kind = "environments" if self.actor_critic.is_recurrent else "steps"
            raise ValueError(
                f"a rollout of {num_envs} environments x {num_transitions_per_env} steps has {num_samples} {kind} for "
                f"num_mini_batches={self.num_mini_batches}; take more environments or steps, or fewer mini-batches"
            )
        self.storage = RolloutStorage(
            num_envs,
            num_transitions_per_env,
            actor_obs_shape,
            critic_obs_shape,
            action_shape,
            self.device,
            self._plan_unrolling(num_transitions_per_env),
            one_sigma=not self.actor_critic.state_dependent_std,
        )

    def _plan_unrolling(self, num_steps: int) -> Optional[Unrolling]:
        if self.unroll_len == 0:
            return None
        if not self.actor_critic.is_recurrent:
            raise ValueError(f"unroll_len={self.unroll_len} is for policies with memory; set it to 0 for this one")
        if self.unroll_len > num_steps:
            raise ValueError(
                f"unroll_len={self.unroll_len} exceeds the {num_steps} steps of a rollout; take at most {num_steps}, "
                "or 0 for all of them"
            )
        return plan_unrolling(num_steps, self.unroll_len, self.last_fn_type, self.burn_in)

    def train_mode(self) -> None:
        """Put the networks into training mode."""
        self.actor_critic.train()

    def test_mode(self) -> None:
        """Put the networks into evaluation mode."""
        self.actor_critic.eval()

    def state_dict(self) -> Dict[str, Any]:
        """Return what learning has made of the policy, the optimiser and the step size so far."""
        return {
            "model_state_dict": self.actor_critic.state_dict(),
            "optimizer_state_dict": self.optimizer.state_dict(),
            "learning_rate": self.learning_rate,
            "skips_in_row": float(self.skips_in_row),
        }

    def load_state_dict(self, state: Mapping[str, Any], load_optimizer: bool = True) -> None:
        """Take over what :meth:`state_dict` gave, or the policy alone; states of other networks are a RuntimeError,
        KeyError or ValueError."""
        self.actor_critic.load_state_dict(state["model_state_dict"])
        if load_optimizer:
            self.optimizer.load_state_dict(state["optimizer_state_dict"])
            self.skips_in_row.fill_(state.get("skips_in_row", 0.0))

    # Collecting

    @torch.no_grad()
    def act(self, obs: Tensor, critic_obs: Tensor) -> Tensor:
        """Draw actions [N, A] for obs [N, D] and critic_obs [N, C], and store them with all that is known by now.

        Log-probabilities, and the values of a policy without memory, are those of the whole rollout at once, made by
        ``compute_returns``. The actions returned are the caller's own: an environment may clip or scale them in place.
        """
        row = self.storage.row()
        if self.storage.step == 0 and self.device.type == "cpu":  # on a GPU, a recording would keep those held first
            self.actor_critic.hold()
        row.hidden_states = self.actor_critic.get_hidden_states()
        if row.hidden_states[0] is None:
            row.hidden_states = self.actor_critic.zero_hidden_states(self.storage.num_envs)
        row.observations.copy_(obs)
        if self.storage.privileged_observations is not None:
            row.critic_observations.copy_(critic_obs)
        step = self.policy_step(row.observations, row.critic_observations, row.hidden_states)
        self.actor_critic.set_hidden_states(step.hidden_states)
        self.actor_critic.distribution = DiagonalGaussian(step.mean, step.stddev)
        row.actions.copy_(step.actions)
        row.action_mean.copy_(step.mean)
        row.action_sigma.copy_(step.stddev)
        if step.values is not None:
            row.values.copy_(step.values)
        self.transition = row
        return step.actions.clone()

    def policy_step(
        self, obs: Tensor, critic_obs: Tensor, hidden_states: Tuple[HiddenState, HiddenState]
    ) -> PolicyStep:
        """Draw actions for one step of all environments, from the memories before it."""
        policy = self.actor_critic
        policy.set_hidden_states(hidden_states)
        actions = policy.act(obs)
        values = policy.evaluate(critic_obs) if policy.is_recurrent else None
        distribution = policy.distribution
        return PolicyStep(actions, distribution.mean, distribution.stddev, values, policy.get_hidden_states())

    @torch.no_grad()
    def process_env_step(self, rewards: Tensor, dones: Tensor, infos: Mapping[str, Any]) -> None:
        """Finish the step with rewards [N] and dones [N].

        Where ``infos["time_outs"]`` [N] says that only the clock ended an episode, the reward is credited with the
        value of what would have come: V of ``infos["final_obs"]`` (groups, or the critic's tensor) where given, else V
        of the last state acted on, as soon as ``compute_returns`` knows it. Where ``infos["valid"]`` [N] is false
        nothing is learned from the step, which must be done.
        """
        row = self.transition
        row.rewards.copy_(rewards.reshape(row.rewards.shape))
        row.dones.copy_(dones.reshape(row.dones.shape))
        if "time_outs" in infos:
            time_outs = infos["time_outs"].to(self.device).reshape(row.dones.shape)
            if "final_obs" in infos:
                final_obs = self.actor_critic.critic_obs(infos["final_obs"]).to(self.device)
                final_values = self.actor_critic.peek_value(final_obs)
                row.rewards.copy_(bootstrap_timeouts(row.rewards, final_values, time_outs, row.dones, self.gamma))
            else:
                row.time_outs.copy_(time_outs)
        if "valid" in infos:
            row.weights.copy_(infos["valid"].reshape(row.weights.shape))
        self.storage.add_transitions(row)
        self.actor_critic.reset(row.dones)
        self.transition = RolloutStorage.Transition()

    @torch.no_grad()
    def compute_returns(self, last_critic_obs: Tensor) -> None:
        """Estimate returns and advantages; ``last_critic_obs`` [N, C] follows the last stored step."""
        storage, policy = self.storage, self.actor_critic
        if not policy.is_recurrent:
            storage.values.copy_(policy.evaluate(storage.critic_observations))
        old_policy = DiagonalGaussian(storage.mu, storage.unexpanded_sigma)
        squared = (storage.actions - storage.mu).div_(old_policy.stddev).square_()
        storage.actions_log_prob.copy_(old_policy.joint_log_prob(squared))
        storage.rewards.copy_(
            bootstrap_timeouts(storage.rewards, storage.values, storage.time_outs, storage.dones, self.gamma)
        )
        storage.time_outs.zero_()  # credited
        storage.compute_returns(policy.peek_value(last_critic_obs), self.gamma, self.lam)
        policy.release()

    def _in_pieces(self, x: Tensor) -> Sequence[Tensor]:
        """Cut rows into as many at a time as the device likes; on a GPU, where launches are what costs, all of them."""
        if len(x) <= self._rows_at_once or self.device.type != "cpu":
            return (x,)
        return x.tensor_split(math.ceil(len(x) / self._rows_at_once))

    # Learning

    def update(self) -> Dict[str, Tensor]:
        """Improve the policy on the rollout and clear it.

        Returns scalars on the device: surrogate_loss, value_loss, entropy [nats] and kl [nats], averaged over the
        gradient steps taken; the last learning_rate; and skipped_steps and skipped_in_row, how many gradient steps were
        not taken for something that was not finite, and the most of them one after the other, earlier updates included.
        """
        self.optimizer.attach()
        storage = self.storage
        shuffled = storage.shuffled_envs if self.actor_critic.is_recurrent else storage.shuffled_steps
        totals = torch.zeros(len(LossTerms._fields) + 1, device=self.device)
        skipped_in_row = self.skips_in_row.clone()
        for indices in shuffled(self.num_mini_batches, self.num_learning_epochs):
            totals += self.learning_step(indices)
            torch.maximum(skipped_in_row, self.skips_in_row, out=skipped_in_row)
        self.actor_critic.update_normalization(storage.observations, storage.critic_observations, storage.weights)
        storage.clear()
        num_taken = totals[-1]
        means = LossTerms._make((totals[:-1] / num_taken).unbind())
        return {
            "surrogate_loss": means.surrogate,
            "value_loss": means.value,
            "entropy": means.entropy,
            "kl": means.kl,
            "learning_rate": self._learning_rate.clone(),
            "skipped_steps": self.num_mini_batches * self.num_learning_epochs - num_taken,
            "skipped_in_row": skipped_in_row,
        }

    @torch.no_grad()
    def learning_step(self, indices: Tensor) -> Tensor:
        """Take one gradient step on the samples, or the environments, with these indices.

        Returns the LossTerms before it, and 1, as one tensor. A loss or a gradient that is not finite, or nothing to
        learn from, leaves weights and optimiser as they are; the tensor is then zero.
        """
        self.optimizer.zero_grad()
        if self.actor_critic.is_recurrent:
            batch = self.storage.sequences(indices)
            weight = batch.weights.sum()
            terms = self._add_gradients(batch, 1.0 / weight.clamp(min=1.0))
        else:
            weight = self.storage.total_weight(indices)
            share = 1.0 / weight.clamp(min=1.0)
            pieces = self._in_pieces(indices)
            terms = torch.stack([self._add_gradients(self.storage.rows(piece), share) for piece in pieces]).sum(dim=0)
        if self.schedule == "adaptive":
            kl = LossTerms._make(terms.unbind()).kl
            self._learning_rate.copy_(adapt_learning_rate(self._learning_rate, kl, self.desired_kl))
        taken = self.optimizer.step_if(terms.isfinite().all().logical_and(weight > 0))
        self.skips_in_row.add_(1.0).mul_(~taken)
        return torch.where(taken, torch.cat((terms, torch.ones_like(terms[:1]))), 0.0)

    def _add_gradients(self, batch: MiniBatch, share: Tensor) -> Tensor:
        """Add the gradient of the loss of a mini-batch, or of a part of it, to the parameters'; return the LossTerms as
        one tensor. ``share`` is what a sample of weight 1 contributes to the mean."""
        policy = self.actor_critic
        with torch.enable_grad():
            policy.update_distribution(batch.observations, batch.flow, batch.hidden_states[0])
            values = policy.evaluate(batch.critic_observations, batch.flow, batch.hidden_states[1])
        mean, stddev = policy.distribution.mean, policy.distribution.stddev
        policy.distribution = DiagonalGaussian(mean.detach(), stddev.detach())  # which lets go of the graph
        terms, gradients = self.loss(
            policy.distribution,
            values.detach(),
            batch,
            batch.weights * share,
            self.clip_param,
            self.value_loss_coef,
            self.entropy_coef,
            self.use_clipped_value_loss,
        )
        learned = [(x, gradient) for x, gradient in zip((mean, stddev, values), gradients) if x.requires_grad]
        torch.autograd.backward([x for x, _ in learned], [gradient for _, gradient in learned])
        return terms
