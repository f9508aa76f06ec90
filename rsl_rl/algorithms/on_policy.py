"""Collecting rollouts with an actor and a critic, and estimating returns: what comes before an update."""

from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.acceleration.selection import Acceleration
from rsl_rl.algorithms.algorithm import Algorithm, HiddenStates
from rsl_rl.algorithms.extension import Extension, Extensions
from rsl_rl.algorithms.rollout_setup import allocate_storage, seed_group_specs
from rsl_rl.config.acceleration import AccelerationConfig
from rsl_rl.config.algorithm import OnPolicyConfig
from rsl_rl.env.vec_env import Observations
from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.storage.returns import bootstrap_timeouts
from rsl_rl.storage.rollout_storage import Column, GroupSpec, RolloutStorage


class PolicyStep(NamedTuple):
    """What an algorithm computes for one step of all environments."""

    actions: Tensor  # [N, A]
    columns: Dict[str, Tensor]  # to store, each [N, size] or [size]: parameters of the distribution, and others
    values: Optional[Tensor]  # [N, 1]; None where they are computed for the whole rollout together
    hidden_states: HiddenStates  # after the step, of actor and critic first


class OnPolicyAlgorithm(Algorithm):
    """Collect rollouts of an :class:`ActorCritic` into a :class:`RolloutStorage`.

    A subclass has ``update``, ``from_env``, ``state_dict`` and ``load_state_dict``. Call ``init_storage`` or
    ``init_groups`` before the first rollout.
    """

    unpacked: Tuple[str, ...] = ()
    """Metrics that the result of ``update`` unpacks into; none where it is a plain dict."""

    def __init__(
        self,
        actor_critic: ActorCritic,
        device: Union[str, torch.device],
        cfg: OnPolicyConfig,
        extensions: Sequence[Extension],
        acceleration: Optional[AccelerationConfig],
    ):
        self.cfg = cfg
        self.device = torch.device(device)
        self.actor_critic = self.policy = actor_critic.to(self.device)
        self.extensions = Extensions(extensions)
        self._acceleration = Acceleration(acceleration or AccelerationConfig(), self.device)
        self._acceleration.accelerate_networks(self.policy)
        self.policy_step = self._acceleration.graphed(self.policy_step)  # type: ignore[method-assign]
        self.storage: RolloutStorage = None  # type: ignore[assignment]  # made by init_storage
        self.transition = RolloutStorage.Transition()

    def init_storage(
        self,
        num_envs: int,
        num_transitions_per_env: int,
        actor_obs_shape: Sequence[int],
        critic_obs_shape: Optional[Sequence[int]],
        action_shape: Sequence[int],
    ) -> None:
        """Allocate the rollout for observations of one or two tensors; ``critic_obs_shape`` is None for a critic that
        reads what the actor reads. The result of ``update`` then unpacks into the losses of value and surrogate."""
        self.unpacked = ("value_loss", "surrogate_loss")
        specs = seed_group_specs(actor_obs_shape, critic_obs_shape)
        self.policy.critic_model.set_groups(("critic",) if critic_obs_shape is not None else ("policy",))
        self.init_groups(num_envs, num_transitions_per_env, specs)

    def init_groups(self, num_envs: int, num_steps: int, groups: Mapping[str, GroupSpec]) -> None:
        """Allocate the rollout for observation groups; one that is too small for the mini-batches is a ValueError."""
        self.obs_groups = tuple(groups)
        self.storage = allocate_storage(self.policy, self.cfg, num_envs, num_steps, groups, self.columns, self.device)

    @property
    def read_groups(self) -> Tuple[str, ...]:
        """Observation groups that the networks and the extensions read."""
        policy = self.policy
        return (*policy.actor_model.groups, *policy.critic_model.groups, *self.extensions.groups)

    @property
    def columns(self) -> Dict[str, Column]:
        """Columns to be stored beside those of every rollout."""
        return self.extensions.columns

    @property
    def normalizes_over_rollout(self) -> bool:
        """Whether the advantages of a rollout are normalised together."""
        return True

    @property
    def description(self) -> str:
        return self._acceleration.description

    def reset(self, dones: Optional[Tensor] = None) -> None:
        super().reset(dones)
        self.extensions.reset(dones)

    def begin_rollout(self) -> None:
        self.storage.clear()

    @torch.no_grad()
    def act(self, obs: Union[Observations, Tensor], critic_obs: Optional[Tensor] = None) -> Tensor:
        """Return actions [N, A] for observation groups, and store what is known of the step.

        Two tensors, as in rsl_rl 1, are the groups "policy" and "critic". Log-probabilities, and the values of a critic
        without memory, are computed by ``compute_returns`` for the whole rollout.
        """
        groups = obs if critic_obs is None and not isinstance(obs, Tensor) else {"policy": obs, "critic": critic_obs}
        view = self.storage.current_step_view()
        if self.storage.step == 0:
            self._acceleration.begin_rollout()
        for name, place in view.groups.items():
            place.copy_(groups[name])
        states = self.current_states()
        step = self.policy_step(view.groups, states)
        self.set_hidden_states(step.hidden_states)
        self.policy.distribution = self.policy.family.of_parameters(step.columns)
        view.columns["actions"].copy_(step.actions)
        for name, value in step.columns.items():
            view.columns[name].copy_(value)
        if step.values is not None:
            view.columns["values"].copy_(step.values)
        view.hidden_states = states[0], states[1]
        self.transition = view
        return step.actions.clone()

    def current_states(self) -> HiddenStates:
        """Return the recurrent states as tensors [L, N, H], of actor and critic first; None without memory."""
        return self.policy.current_states(self.storage.num_envs)

    def policy_step(self, groups: Dict[str, Tensor], hidden_states: HiddenStates) -> PolicyStep:
        """Draw actions for one step of all environments, from the recurrent states before it."""
        policy = self.policy
        policy.set_hidden_states((hidden_states[0], hidden_states[1]))
        actions = policy.act(policy.actor_obs(groups))
        values = policy.evaluate_step(groups)
        return PolicyStep(actions, policy.distribution.parameters, values, policy.get_hidden_states())

    @torch.no_grad()
    def process_env_step(
        self, rewards: Tensor, dones: Tensor, extras: Mapping[str, Any], next_obs: Optional[Observations] = None
    ) -> None:
        """Finish the step with rewards [N] and dones [N].

        Where ``extras["time_outs"]`` [N] says that only the clock ended an episode, the reward is credited with the
        value of what would have come: V of ``extras["final_obs"]`` (groups, or the critic's tensor) where given, else V
        of the last state acted on, once ``compute_returns`` has computed it. Where ``extras["valid"]`` [N] is false the
        step is masked.
        """
        row = self.transition.columns
        row["rewards"].copy_(rewards.reshape(-1, 1))
        row["dones"].copy_(dones.reshape(-1, 1))
        if "valid" in extras:
            row["sample_mask"].copy_(extras["valid"].reshape(-1, 1))
        self.extensions.add_rewards(self.transition, next_obs, row["dones"])
        if "time_outs" in extras:
            time_outs = extras["time_outs"].to(self.device).reshape(-1, 1)
            if "final_obs" in extras:
                final_values = self.policy.evaluate_stateless(self.policy.critic_obs(extras["final_obs"]))
                bootstrapped = bootstrap_timeouts(row["rewards"], final_values, time_outs, row["dones"], self.cfg.gamma)
                row["rewards"].copy_(bootstrapped)
            else:
                row["time_outs"].copy_(time_outs)
        self.storage.add_transitions(self.transition)
        self.reset(row["dones"].squeeze(-1))
        self.transition = RolloutStorage.Transition()

    @torch.no_grad()
    def compute_returns(self, obs: Union[Observations, Tensor]) -> None:
        """Estimate returns and advantages; ``obs``, groups or the critic's tensor, follows the last stored step."""
        storage, policy, gamma = self.storage, self.policy, self.cfg.gamma
        columns = storage.columns
        policy.evaluate_rollout(storage.groups, columns["values"])
        acted = policy.family.of_parameters(columns)
        columns["actions_log_prob"].copy_(acted.log_prob(columns["actions"]))
        bootstrapped = bootstrap_timeouts(
            columns["rewards"], columns["values"], columns["time_outs"], columns["dones"], gamma
        )
        columns["rewards"].copy_(bootstrapped)
        columns["time_outs"].zero_()  # credited
        last_values = policy.evaluate_stateless(policy.critic_obs(obs))
        storage.compute_returns(last_values, gamma, self.cfg.lam, normalize=self.normalizes_over_rollout)
        self._acceleration.end_rollout()
        self.extensions.finish_rollout(storage)
