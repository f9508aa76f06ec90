"""Collecting rollouts with a policy: what comes before an update."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.acceleration.selection import Acceleration
from rsl_rl.algorithms.algorithm import Algorithm, HiddenStates
from rsl_rl.algorithms.extension import Extension, Extensions
from rsl_rl.algorithms.rollout_setup import allocate_storage
from rsl_rl.config.acceleration import AccelerationConfig
from rsl_rl.config.algorithm import OnPolicyConfig
from rsl_rl.env.vec_env import Observations
from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.storage.columns import Column, GroupSpec, vector_group_specs
from rsl_rl.storage.rollout_storage import RolloutStorage


class PolicyStep(NamedTuple):
    """What an algorithm computes for one step of all environments."""

    actions: Tensor  # [N, A]
    columns: Dict[str, Tensor]  # to store, each [N, size] or [size]: parameters of the distribution, and others
    values: Optional[Tensor]  # [N, 1]; None where they are computed for the whole rollout together
    hidden_states: HiddenStates  # after the step, of actor and critic first


class OnPolicyAlgorithm(Algorithm):
    """Collect rollouts of an :class:`ActorCritic` into a :class:`RolloutStorage`.

    A subclass has ``finish_step``, ``estimate_returns``, ``update``, ``from_env``, ``state_dict`` and
    ``load_state_dict``. Call ``init_storage`` or ``init_groups`` before the first rollout.
    """

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
        reads what the actor reads."""
        specs = vector_group_specs(actor_obs_shape, critic_obs_shape)
        self.policy.critic_model.set_groups(("critic",) if critic_obs_shape is not None else ("policy",))
        self.init_groups(num_envs, num_transitions_per_env, specs)

    def init_groups(self, num_envs: int, num_steps: int, groups: Mapping[str, GroupSpec]) -> None:
        """Allocate the rollout for observation groups; one that is too small for the mini-batches is a ValueError."""
        self.obs_groups = tuple(groups)
        self.storage = allocate_storage(
            self.policy, self.cfg, num_envs, num_steps, groups, self.columns, self.device, self.stores_last_obs
        )

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
    def stores_last_obs(self) -> bool:
        """Whether the storage has memory for the observation after a rollout."""
        return False

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
        without memory, are computed by ``compute_returns`` for the whole rollout, or when they are read from
        ``transition``.
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
        policy, distribution = self.policy, self.policy.distribution
        view.on_demand = {"actions_log_prob": lambda: distribution.log_prob(view.columns["actions"])}
        if step.values is None:
            view.on_demand["values"] = lambda: policy.evaluate_stateless(policy.critic_obs(view.groups))
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
        """Finish the step with rewards [N] and dones [N]; see :meth:`finish_step` for time-outs.

        Where ``extras["valid"]`` [N] is false the step is masked.
        """
        row = self.transition.columns
        row["rewards"].copy_(rewards.reshape(-1, 1))
        row["dones"].copy_(dones.reshape(-1, 1))
        if "valid" in extras:
            row["sample_mask"].copy_(extras["valid"].reshape(-1, 1))
        self.extensions.add_rewards(self.transition, next_obs, row["dones"])
        self.finish_step(row, extras)
        self.storage.add_transitions(self.transition)
        self.reset(row["dones"].squeeze(-1))
        self.transition = RolloutStorage.Transition()

    @abstractmethod
    def finish_step(self, row: Dict[str, Tensor], extras: Mapping[str, Any]) -> None:
        """Write what remains to be written of a step, such as how its episode ended, into the columns ``row``."""

    @torch.no_grad()
    def compute_returns(self, obs: Union[Observations, Tensor]) -> None:
        """Estimate returns and advantages; ``obs``, groups or the critic's tensor, follows the last stored step."""
        columns = self.storage.columns
        acted = self.policy.family.of_parameters(columns)
        columns["actions_log_prob"].copy_(acted.log_prob(columns["actions"]))
        self.estimate_returns(obs)
        self._acceleration.end_rollout()
        self.extensions.finish_rollout(self.storage)

    @abstractmethod
    def estimate_returns(self, obs: Union[Observations, Tensor]) -> None:
        """Fill the returns and advantages of the storage; ``obs`` are those of :meth:`compute_returns`."""
