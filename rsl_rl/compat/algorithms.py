"""PPO, GRPO and distillation with the constructors, calls and results of rsl_rl 1 to 5."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Dict, Iterator, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.algorithms import distillation, grpo, ppo
from rsl_rl.algorithms.algorithm import UpdateResult
from rsl_rl.algorithms.build import build_storage
from rsl_rl.algorithms.extension import Extension
from rsl_rl.compat.config_attributes import config_attributes
from rsl_rl.compat.facade import Facade
from rsl_rl.compat.policies import as_client_policy
from rsl_rl.compat.rollout_buffer import ENDS, RolloutBuffer
from rsl_rl.compat.storage import RolloutStorage, Transition, vector_group_specs
from rsl_rl.config.algorithm import DistillationConfig, GRPOConfig, PPOConfig
from rsl_rl.config.learn import AccelerationConfig, LearnConfig
from rsl_rl.env.adapters.foreign import is_groups
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.storage.rollout_storage import Column, GroupSpec

FORMER_NAMES = {
    "value_function": "value_loss",
    "value": "value_loss",
    "surrogate": "surrogate_loss",
    "behavior": "behavior_loss",
}
"""Names of metrics in rsl_rl 2.3 to 5, and ours."""

FIXED = ("joint_grad_norm", "ema_decay", "unroll_len", "last_fn_type", "burn_in")
"""Settings that are read when an algorithm is constructed, and cannot be changed later."""

_NO_STORAGE: Any = SimpleNamespace(groups={})


class ClientResult(Dict[str, Any]):
    """The result of an update as clients read it: metrics by name, also by the names of other versions, which unpack
    into what ``update`` returned as a tuple. It has the fields of an ``UpdateResult`` too.

    With ``unpacked``, iterating yields these numbers, None for one that is not there; ``keys()`` and ``items()`` are
    those of all metrics.
    """

    def __init__(self, result: UpdateResult, unpacked: Tuple[str, ...]):
        super().__init__(result.metrics)
        self.metrics, self.steps_taken, self.steps_skipped = result
        self._unpacked = unpacked

    def __iter__(self) -> Iterator[Any]:
        if self._unpacked:
            return iter([float(self[name]) if name in self else None for name in self._unpacked])
        return super().__iter__()

    def __missing__(self, name: str) -> Tensor:
        former = FORMER_NAMES.get(name)
        if former is None or former not in self:
            raise KeyError(name)
        return self[former]


def in_our_order(args: Tuple[Any, ...]) -> Tuple[Any, ...]:
    """Return the arguments of ``process_env_step`` as (rewards, dones, extras) or with the next observations behind
    them; since version 3 these come first."""
    return (*args[1:], args[0]) if len(args) == 4 and is_groups(args[0]) else args


class ClientCalls:
    """The calls of clients, translated to those of this version; it stands before an algorithm among the bases.

    ``unpacked`` are the metrics that the result of ``update`` unpacks into; none where it is a plain dict.
    """

    unpacked: Tuple[str, ...] = ()
    cfg: Any
    policy: Any
    storage: Any
    learner: Any
    transition: Any
    acceleration: Any
    extensions: Any

    def set_storage(self, storage: Any) -> None:
        """Set the rollout."""
        self.storage, self.obs_groups = storage, tuple(storage.groups)

    def more_columns(self) -> Dict[str, Column]:
        """Return what is stored beside the standard columns and those of extensions."""
        return {}

    def init_groups(self, num_envs: int, num_steps: int, groups: Mapping[str, GroupSpec]) -> None:
        """Allocate the rollout for observation groups; one that is too small for the mini-batches is a ValueError."""
        columns = {**self.extensions.columns, **self.more_columns()}
        self.set_storage(build_storage(self.policy, self.cfg, num_envs, num_steps, groups, columns, self.storage_class))

    storage_class: Any = RolloutStorage.of_groups

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
        specs = vector_group_specs(actor_obs_shape, critic_obs_shape)
        self.policy.critic_model.set_groups(("critic",) if critic_obs_shape is not None else ("policy",))
        self.init_groups(num_envs, num_transitions_per_env, specs)

    @property
    def actor_critic(self) -> ActorCritic:
        """The policy."""
        return self.policy

    @property
    def optimizer(self) -> Any:
        """The optimiser."""
        return self.learner.optimizer

    @property
    def max_grad_norm(self) -> float:
        """Max gradient norm of the actor, and of the critic."""
        return self.optimizer.max_grad_norm

    @max_grad_norm.setter
    def max_grad_norm(self, value: float) -> None:
        self.optimizer.max_grad_norm = value

    def test_mode(self) -> None:
        """Put the networks into evaluation mode."""
        self.eval_mode()  # type: ignore[attr-defined]

    @torch.no_grad()
    def act(self, obs: Union[Observations, Tensor], critic_obs: Optional[Tensor] = None) -> Tensor:
        """Return actions [N, A] for observation groups; two tensors, as in rsl_rl 1, are the groups "policy" and
        "critic". ``transition`` then has the names of rsl_rl; log-probabilities, and the values of a critic without
        memory, are computed when they are read."""
        groups: Any = {"policy": obs, "critic": critic_obs} if isinstance(obs, Tensor) else obs
        if self.storage.step == 0:
            for policy in self.acceleration.cached:
                policy.cache_weights()
        states = self.policy.current_states(self.storage.num_envs)
        actions = super().act(groups)  # type: ignore[misc]
        groups, columns = self.transition
        view = Transition(groups, columns, states)
        policy = self.policy
        policy.distribution = policy.family.of_parameters(columns)
        distribution = policy.distribution
        view.on_demand = {"actions_log_prob": lambda: distribution.log_prob(columns["actions"])}
        if policy.critic_model.memory is None:
            view.on_demand["values"] = lambda: policy.evaluate(view.groups, advance=False)
        self.transition = view
        return actions

    @torch.no_grad()
    def process_env_step(self, *args: Any, **kwargs: Any) -> None:
        """Finish the step with (rewards, dones, extras), or as since version 3 with (obs, rewards, dones, extras)."""
        super().process_env_step(*in_our_order(args), **kwargs)  # type: ignore[misc]
        self.transition = Transition()

    def update(self) -> ClientResult:
        """Learn from the rollout and clear it."""
        return ClientResult(super().update(), self.unpacked)  # type: ignore[misc]


@config_attributes(PPOConfig, "learning_rate", "max_grad_norm", fixed=(*FIXED, "normalize_advantage_per_mini_batch"))
class PPO(ClientCalls, ppo.PPO, metaclass=Facade):
    """:class:`rsl_rl.algorithms.ppo.PPO` with the constructor of rsl_rl 1: ``settings`` are the fields of
    :class:`PPOConfig`, in place of ``cfg`` or to change it, and can be read as attributes, most of them written. Call
    ``init_storage`` before the first rollout."""

    stands_for = ppo.PPO

    def __init__(
        self,
        actor_critic: ActorCritic,
        device: Union[str, torch.device] = "cpu",
        cfg: Optional[PPOConfig] = None,
        extensions: Sequence[Extension] = (),
        acceleration: Optional[AccelerationConfig] = None,
        **settings: Any,
    ):
        cfg = PPOConfig(**settings) if cfg is None else replace(cfg, **settings)
        policy = actor_critic.to(device)
        super().__init__(policy, _NO_STORAGE, cfg, extensions, acceleration)
        self.storage: Any = None  # until init_storage
        self.transition: Any = Transition()

    @classmethod
    def from_env(cls, cfg: LearnConfig, env: VecEnv, device: Union[str, torch.device]) -> PPO:
        parts = ppo.build_parts(cfg, env, device, storage_class=RolloutStorage.of_groups)
        policy: Any = as_client_policy(parts.policy)
        alg = cls(policy, device, cfg.algorithm, parts.extensions, cfg.acceleration)  # type: ignore[arg-type]
        alg.set_storage(parts.storage)
        return alg


@config_attributes(GRPOConfig, "learning_rate", "max_grad_norm", fixed=(*FIXED, "group_size"))
class GRPO(ClientCalls, grpo.GRPO, metaclass=Facade):
    """:class:`rsl_rl.algorithms.grpo.GRPO` over a :class:`RolloutBuffer`, ``buffer``, to which each update attaches
    ``seq_return``, the return that a step is credited with, ``seq_mask``, which is 0 for steps that are not learned
    from, and ``advantage``. ``settings`` are the fields of :class:`GRPOConfig`."""

    stands_for = grpo.GRPO
    buffer: RolloutBuffer

    def __init__(
        self,
        actor_critic: ActorCritic,
        device: Union[str, torch.device] = "cpu",
        cfg: Optional[GRPOConfig] = None,
        extensions: Sequence[Extension] = (),
        acceleration: Optional[AccelerationConfig] = None,
        **settings: Any,
    ):
        cfg = GRPOConfig(**settings) if cfg is None else replace(cfg, **settings)
        policy = actor_critic.to(device)
        super().__init__(policy, _NO_STORAGE, cfg, extensions, acceleration)
        self.storage: Any = None
        self.transition: Any = Transition()

    @staticmethod
    def storage_class(*args: Any) -> RolloutStorage:  # type: ignore[override]
        """Return a storage with memory for the observation after the rollout."""
        return RolloutStorage.of_groups(*args, extra_step=True)

    def more_columns(self) -> Dict[str, Column]:
        return ENDS

    def init_groups(self, num_envs: int, num_steps: int, groups: Mapping[str, GroupSpec]) -> None:
        grpo.require_groups(num_envs, self.cfg.group_size)
        super().init_groups(num_envs, num_steps, groups)

    def set_storage(self, storage: Any) -> None:
        super().set_storage(storage)
        self.buffer = RolloutBuffer.over(storage)

    def begin_rollout(self) -> None:
        super().begin_rollout()
        self.buffer.start_rollout()

    @torch.no_grad()
    def process_env_step(self, *args: Any, **kwargs: Any) -> None:
        row, args = self.transition.columns, in_our_order(args)
        super().process_env_step(*args, **kwargs)
        extras = args[2]
        row["truncated"].zero_()
        if "time_outs" in extras:
            row["truncated"].copy_(extras["time_outs"].reshape(-1, 1)).logical_and_(row["dones"])
        torch.logical_and(row["dones"], ~row["truncated"], out=row["terminated"])

    @torch.no_grad()
    def compute_returns(self, obs: Union[Observations, Tensor]) -> None:  # type: ignore[override]
        buffer = self.buffer
        obs = {"policy": obs} if isinstance(obs, Tensor) else obs
        buffer.write_last_obs(obs)
        buffer.add(buffer.rollout)
        buffer.get(flatten=False)
        super().compute_returns(obs)
        columns = self.storage.columns
        fields = {"advantage": "advantages", "return": "returns", "seq_return": "returns", "seq_mask": "sample_mask"}
        buffer.attach(**{name: columns[column].squeeze(-1).t() for name, column in fields.items()})


@config_attributes(DistillationConfig, "learning_rate", "max_grad_norm", "teacher", fixed=FIXED)
class Distillation(ClientCalls, distillation.Distillation, metaclass=Facade):
    """:class:`rsl_rl.algorithms.distillation.Distillation` with ``settings``, the fields of
    :class:`DistillationConfig`; call ``init_storage`` before the first rollout."""

    stands_for = distillation.Distillation

    def __init__(
        self,
        actor_critic: ActorCritic,
        teacher: Optional[ActorCritic] = None,
        device: Union[str, torch.device] = "cpu",
        cfg: Optional[DistillationConfig] = None,
        extensions: Sequence[Extension] = (),
        acceleration: Optional[AccelerationConfig] = None,
        **settings: Any,
    ):
        if teacher is None:
            raise ValueError("a distillation needs a teacher; pass a policy, or set algorithm.teacher_run")
        cfg = DistillationConfig(**settings) if cfg is None else replace(cfg, **settings)
        policy = actor_critic.to(device)
        super().__init__(policy, teacher, _NO_STORAGE, cfg, extensions, acceleration)
        self.storage: Any = None
        self.transition: Any = Transition()

    @classmethod
    def from_env(  # type: ignore[override]
        cls, cfg: LearnConfig, env: VecEnv, device: Union[str, torch.device], teacher: Optional[ActorCritic] = None
    ) -> Distillation:
        assert isinstance(cfg.algorithm, DistillationConfig)
        teacher = distillation.load_teacher(cfg.algorithm, env) if teacher is None else teacher
        groups, columns = teacher.actor_model.groups, distillation.teacher_columns(teacher)
        parts = ppo.build_parts(cfg, env, device, groups, columns, RolloutStorage.of_groups)
        policy: Any = as_client_policy(parts.policy)
        alg = cls(policy, teacher, device, cfg.algorithm, parts.extensions, cfg.acceleration)
        alg.set_storage(parts.storage)
        return alg

    def more_columns(self) -> Dict[str, Column]:
        return distillation.teacher_columns(self.teacher)
