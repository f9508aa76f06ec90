"""Proximal policy optimisation."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, nn

from rsl_rl.algorithms.losses import adapt_learning_rate, clipped_value_loss, surrogate_loss, value_loss
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.modules.gaussian import gaussian_kl
from rsl_rl.storage.returns import bootstrap_timeouts
from rsl_rl.storage.rollout_storage import MiniBatch, RolloutStorage
from rsl_rl.storage.unrolling import Unrolling, plan_unrolling


class PPO:
    """Collect rollouts with a policy and improve it by the clipped surrogate, https://arxiv.org/abs/1707.06347.

    ``settings`` are the fields of :class:`PPOConfig`, and attributes of the same names. The order of calls is
    ``init_storage`` once; then, T times, ``act`` and, after the environment's step, ``process_env_step``; then
    ``compute_returns`` and ``update``. Results stay tensors on the device until somebody logs them.
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
        self.max_grad_norm = cfg.max_grad_norm
        self.unroll_len, self.last_fn_type, self.burn_in = cfg.unroll_len, cfg.last_fn_type, cfg.burn_in

        self.device = torch.device(device)
        self.actor_critic = actor_critic.to(self.device)
        self._learning_rate = torch.tensor(cfg.learning_rate, device=self.device)
        self.optimizer = torch.optim.Adam(
            self.actor_critic.parameters(), lr=self._learning_rate, fused=_fused_adam_exists(self.device)
        )
        named = list(self.actor_critic.named_parameters())
        self._critic_parameters = [p for name, p in named if name.startswith(("critic.", "memory_c."))]
        self._actor_parameters = [p for name, p in named if not name.startswith(("critic.", "memory_c."))]
        self.storage: RolloutStorage = None  # type: ignore[assignment]  # made by init_storage
        self.transition = RolloutStorage.Transition()

    @property
    def learning_rate(self) -> float:
        """Adam's step size; reading it waits for the device, so the loop logs the tensor that ``update`` returns."""
        return float(self._learning_rate)

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self._learning_rate.fill_(value)

    def init_storage(
        self,
        num_envs: int,
        num_transitions_per_env: int,
        actor_obs_shape: Sequence[int],
        critic_obs_shape: Sequence[int],
        action_shape: Sequence[int],
    ) -> None:
        """Allocate the rollout; one that is too small for the mini-batches is a ValueError."""
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

    def load_optimizer_state(self, state: Dict[str, Any]) -> None:
        """Take over an optimiser's state and its step size."""
        self.learning_rate = float(state["param_groups"][0]["lr"])
        self.optimizer.load_state_dict(state)
        for group in self.optimizer.param_groups:
            group.update(lr=self._learning_rate, fused=_fused_adam_exists(self.device))

    # Collecting

    @torch.no_grad()
    def act(self, obs: Tensor, critic_obs: Tensor) -> Tensor:
        """Draw actions [N, A] for obs [N, D] and critic_obs [N, C], and store them with all that is known by now.

        The actions returned are the caller's own: an environment may clip or scale them in place.
        """
        policy, row = self.actor_critic, self.storage.row()
        row.hidden_states = policy.get_hidden_states()
        row.observations.copy_(obs)
        row.critic_observations.copy_(critic_obs)
        row.actions.copy_(policy.act(row.observations))
        row.values.copy_(policy.evaluate(row.critic_observations))
        row.actions_log_prob.copy_(policy.get_actions_log_prob(row.actions).unsqueeze(-1))
        row.action_mean.copy_(policy.action_mean)
        row.action_sigma.copy_(policy.action_std)
        self.transition = row
        return row.actions.clone()

    @torch.no_grad()
    def process_env_step(self, rewards: Tensor, dones: Tensor, infos: Mapping[str, Any]) -> None:
        """Finish the step with rewards [N] and dones [N].

        Where ``infos["time_outs"]`` [N] says that only the clock ended an episode, the reward is credited with the
        value of what would have come: V of ``infos["final_obs"]`` (groups, or the critic's tensor) where given, else V
        of the last state acted on.
        """
        row = self.transition
        row.rewards.copy_(rewards.reshape(row.rewards.shape))
        row.dones.copy_(dones.reshape(row.dones.shape))
        if "time_outs" in infos:
            final_values = row.values
            if "final_obs" in infos:
                final_obs = self.actor_critic.critic_obs(infos["final_obs"]).to(self.device)
                final_values = self.actor_critic.peek_value(final_obs)
            time_outs = infos["time_outs"].to(self.device).reshape(row.dones.shape)
            row.rewards.copy_(bootstrap_timeouts(row.rewards, final_values, time_outs, row.dones, self.gamma))
        self.storage.add_transitions(row)
        self.actor_critic.reset(row.dones)
        self.transition = RolloutStorage.Transition()

    @torch.no_grad()
    def compute_returns(self, last_critic_obs: Tensor) -> None:
        """Estimate returns and advantages; ``last_critic_obs`` [N, C] follows the last stored step."""
        last_values = self.actor_critic.peek_value(last_critic_obs)
        self.storage.compute_returns(last_values, self.gamma, self.lam)

    # Learning

    def update(self) -> Dict[str, Tensor]:
        """Improve the policy on the rollout and clear it.

        Returns scalars on the device, averaged over the gradient steps: surrogate_loss, value_loss, entropy [nats], kl
        [nats], and the last learning_rate.
        """
        storage = self.storage
        recurrent = self.actor_critic.is_recurrent
        batches = storage.reccurent_mini_batch_generator if recurrent else storage.mini_batch_generator
        steps = [self._step(batch) for batch in batches(self.num_mini_batches, self.num_learning_epochs)]
        self.actor_critic.update_normalization(storage.observations, storage.privileged_observations)
        storage.clear()
        means = torch.stack([torch.stack(step) for step in steps]).mean(dim=0)
        metrics: Dict[str, Tensor] = dict(zip(("surrogate_loss", "value_loss", "entropy", "kl"), means.unbind()))
        metrics["learning_rate"] = self._learning_rate.clone()
        return metrics

    def _step(self, batch: MiniBatch) -> Tuple[Tensor, Tensor, Tensor, Tensor]:
        """Take one gradient step; return the surrogate and value losses, the entropy and the KL before it."""
        policy = self.actor_critic
        policy.update_distribution(batch.observations, batch.flow, batch.hidden_states[0])
        values = policy.evaluate(batch.critic_observations, batch.flow, batch.hidden_states[1])
        kl = batch.mean(
            gaussian_kl(batch.old_mu, batch.old_sigma, policy.action_mean.detach(), policy.action_std.detach())
        )
        if self.schedule == "adaptive":
            self._learning_rate.copy_(adapt_learning_rate(self._learning_rate, kl, self.desired_kl))

        log_prob = policy.get_actions_log_prob(batch.actions).unsqueeze(-1)
        surrogate = batch.mean(surrogate_loss(log_prob, batch.old_actions_log_prob, batch.advantages, self.clip_param))
        if self.use_clipped_value_loss:
            critic = batch.mean(clipped_value_loss(values, batch.values, batch.returns, self.clip_param))
        else:
            critic = batch.mean(value_loss(values, batch.returns))
        entropy = batch.mean(policy.entropy)
        loss = surrogate + self.value_loss_coef * critic - self.entropy_coef * entropy

        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self._actor_parameters, self.max_grad_norm)
        nn.utils.clip_grad_norm_(self._critic_parameters, self.max_grad_norm)
        self.optimizer.step()
        return surrogate.detach(), critic.detach(), entropy.detach(), kl


def _fused_adam_exists(device: torch.device) -> Optional[bool]:
    """Whether this torch has Adam as one kernel on the device: on CUDA always, on the CPU since 2.4; None leaves the
    choice."""
    version = tuple(int(part) for part in torch.__version__.split(".")[:2])
    return True if device.type == "cuda" or version >= (2, 4) else None
