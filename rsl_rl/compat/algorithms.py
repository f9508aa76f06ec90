"""PPO, GRPO and distillation with the constructors, calls and results of rsl_rl 1 to 5."""

from __future__ import annotations

from dataclasses import fields, replace
from functools import cached_property
from types import SimpleNamespace
from typing import Any, ClassVar, Dict, Iterator, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

import torch
from torch import Tensor, nn

from rsl_rl.algorithms import distillation, grpo, ppo
from rsl_rl.algorithms.algorithm import Algorithm, UpdateResult
from rsl_rl.algorithms.build import build_storage
from rsl_rl.algorithms.extension import Extension
from rsl_rl.algorithms.teacher import actor_state
from rsl_rl.compat.checkpoints import (
    models_to_native,
    parts_of_models,
    rejoined,
    shift_std,
    student_and_teacher,
    to_native,
)
from rsl_rl.compat.former_names import Facade
from rsl_rl.compat.model_policy import ModelPolicy, ModelView, as_version_5, networks_of
from rsl_rl.compat.policies import as_client_policy
from rsl_rl.compat.rollout_buffer import ENDS, RolloutBuffer
from rsl_rl.compat.storage import GroupStorage, RolloutStorage, Transition, vector_group_specs
from rsl_rl.config.algorithm import DistillationConfig, GRPOConfig, PPOConfig
from rsl_rl.config.learn import AccelerationConfig, LearnConfig
from rsl_rl.env.vec_env import Observations, VecEnv, is_groups
from rsl_rl.modules.networks import CRITIC_PARTS
from rsl_rl.modules.policy import ActorCritic
from rsl_rl.storage.rollout import Column
from rsl_rl.utils.registry import import_object

T = TypeVar("T")

TEACHER_ONLY = "teacher_only"
"""Entry of a converted file of a trained teacher, whose iteration is not that of the distillation."""

FORMER_NAMES = {
    "value_function": "value_loss",
    "value": "value_loss",
    "surrogate": "surrogate_loss",
    "behavior": "behavior_loss",
}
"""Names of metrics in rsl_rl 2.3 to 5, and ours."""

_FIXED = (
    "joint_grad_norm", "ema_decay", "unroll_len", "last_fn_type", "burn_in", "normalize_advantage_per_mini_batch",
    "group_size",
)  # fmt: skip
"""Settings that are read when an algorithm is constructed, and cannot be changed later."""

_OWN = ("learning_rate", "max_grad_norm", "teacher")
"""Settings whose attributes algorithms have themselves."""

IN_ORDER = (
    "num_learning_epochs", "num_mini_batches", "clip_param", "gamma", "lam", "value_loss_coef", "entropy_coef",
    "learning_rate", "max_grad_norm",
)  # fmt: skip
"""Settings of PPO that every version has, in their order behind the networks and the storage."""

_UNSET = ("rnd_cfg", "symmetry_cfg", "multi_gpu_cfg")
"""Settings of earlier versions that are None where a client has nothing to say."""

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


def with_settings(cls: Type[T]) -> Type[T]:
    """Give a class a property for each field of its config.

    Reading one reads ``self.cfg``; writing one replaces ``self.cfg``, whose checks apply.
    """

    def setting(name: str) -> property:
        def read(self: Any) -> Any:
            return getattr(self.cfg, name)

        def write(self: Any, value: Any) -> None:
            self.cfg = replace(self.cfg, **{name: value})

        return property(read, None if name in _FIXED else write, doc=f"The setting ``{name}``.")

    for field in fields(cls.config_class):  # type: ignore[attr-defined]
        if field.name not in _OWN:
            setattr(cls, field.name, setting(field.name))
    return cls


def _of_parts(cfg: LearnConfig, parts: ppo.Parts, device: Any) -> Dict[str, Any]:
    """Return the arguments of an algorithm behind its policies."""
    return {
        "device": device, "cfg": cfg.algorithm, "extensions": parts.extensions, "acceleration": cfg.acceleration
    }  # fmt: skip


def in_our_order(args: Tuple[Any, ...]) -> Tuple[Any, ...]:
    """Return the arguments of ``process_env_step`` as (rewards, dones, extras) or with the next observations behind
    them; since version 3 these come first."""
    return (*args[1:], args[0]) if len(args) == 4 and is_groups(args[0]) else args


class ClientCalls:
    """The calls of clients, translated to those of this version; it stands before an algorithm among the bases.

    ``unpacked`` are the metrics that the result of ``update`` unpacks into; none where it is a plain dict.
    """

    config_class: ClassVar[Any]
    unpacked: Tuple[str, ...] = ()
    storage_class: Any = RolloutStorage.of_groups
    cfg: Any
    policy: Any
    learner: Any
    acceleration: Any
    extensions: Any
    collective: Any

    def __init__(
        self,
        actor_critic: Any,
        *args: Any,
        device: Union[str, torch.device] = "cpu",
        cfg: Any = None,
        extensions: Sequence[Extension] = (),
        acceleration: Optional[AccelerationConfig] = None,
        teacher: Optional[ActorCritic] = None,
        **settings: Any,
    ):
        storage: Any = args[0] if args and isinstance(args[0], GroupStorage) else settings.pop("storage", None)
        settings = {**dict(zip(IN_ORDER, args[1:] if args and args[0] is storage else args)), **settings}
        settings = {name: value for name, value in settings.items() if name not in _UNSET or value is not None}
        cfg = self.config_class(**settings) if cfg is None else replace(cfg, **settings)
        policy = as_client_policy(actor_critic.to(device))
        networks = (policy,) if teacher is None else (policy, teacher)
        super().__init__(*networks, _NO_STORAGE, cfg, extensions, acceleration)  # type: ignore[call-arg]
        self.storage: Any = None  # until init_storage
        self.transition: Any = Transition()
        if storage is not None:
            storage.adopt(policy.family.parameter_shapes, sequences=policy.memories != (None, None))
            self.set_storage(storage)

    # The rollout

    def set_storage(self, storage: Any) -> None:
        """Set the rollout."""
        self.storage, self.obs_groups = storage, tuple(storage.groups)

    def more_columns(self) -> Dict[str, Column]:
        """Return what is stored beside the standard columns and those of extensions."""
        return {}

    def init_storage(self, *args: Any, **named: Any) -> None:
        """Allocate the rollout: with the arguments of rsl_rl 1 (num_envs, num_steps, shape of observations, shape of
        the critic's or None, shape of actions), of 2, which has the kind of training before them, or of 3
        (kind of training, num_envs, num_steps, observation groups, shape of actions).

        The result of ``update`` unpacks into the losses of value and surrogate after the form of version 1.
        """
        kind = named.pop("training_type", None)
        if kind is None and args and isinstance(args[0], str):
            kind, args = args[0], args[1:]
        if kind is None:
            self._init_storage_of_shapes(*args, **named)
            self.unpacked = ("value_loss", "surrogate_loss")
        elif "obs" in named or (len(args) > 2 and is_groups(args[2])):
            storage = GroupStorage(kind, *args, **named, device=next(self.policy.parameters()).device)
            storage.adopt(self.policy.family.parameter_shapes, sequences=self.policy.memories != (None, None))
            self.set_storage(storage)
        else:
            self._init_storage_of_shapes(*args, **named)

    def _init_storage_of_shapes(
        self,
        num_envs: int,
        num_transitions_per_env: int,
        actor_obs_shape: Sequence[int],
        critic_obs_shape: Optional[Sequence[int]],
        action_shape: Optional[Sequence[int]] = None,
        **named: Any,
    ) -> None:
        """Allocate the rollout for observations of one or two tensors; ``critic_obs_shape`` is None or [None] for a
        critic that reads what the actor reads."""
        if critic_obs_shape is not None and list(critic_obs_shape) == [None]:
            critic_obs_shape = None
        specs = vector_group_specs(actor_obs_shape, critic_obs_shape)
        self.policy.critic_model.set_groups(("critic",) if critic_obs_shape is not None else ("policy",))
        columns = {**self.extensions.columns, **self.more_columns()}
        sizes = num_envs, num_transitions_per_env
        self.set_storage(build_storage(self.policy, self.cfg, *sizes, specs, columns, self.storage_class))

    # Calls

    @torch.no_grad()
    def act(self, obs: Union[Observations, Tensor], critic_obs: Optional[Tensor] = None) -> Tensor:
        """Return actions [N, A] for observation groups; two tensors, as in rsl_rl 1, are the groups "policy" and
        "critic". ``transition`` then has the names of rsl_rl; log-probabilities, and the values of a critic without
        memory, are computed when they are read."""
        groups: Any = {"policy": obs, "critic": critic_obs} if isinstance(obs, Tensor) else obs
        if self.storage is None:
            return self._act_without_storage(groups)
        if self.storage.step == 0:
            for policy in self.acceleration.cached:
                policy.cache_weights()
        states = self.policy.current_states(self.storage.num_envs)
        actions = super().act(groups)  # type: ignore[misc]
        groups, columns = self.transition
        storage, policy = self.storage, self.policy
        view = Transition(groups, columns, states)
        if storage.by_group:
            view.by_group = True
            view.distribution_params = tuple(columns[name] for name in policy.family.parameter_shapes)
        policy.distribution = policy.family.of_parameters(columns)
        distribution = policy.distribution
        view.on_demand = {"actions_log_prob": lambda: distribution.log_prob(columns["actions"])}
        if policy.critic_model.memory is None:
            view.on_demand["values"] = lambda: policy.evaluate(view.groups, advance=False)
        self.transition = view
        return actions

    def _act_without_storage(self, groups: Any) -> Tensor:
        """Return actions [N, A] for observation groups before ``init_storage``; the transition is not stored."""
        policy = self.policy
        actions = policy.act(groups)
        parameters = {name: x.expand_as(actions) for name, x in policy.distribution.parameters.items()}
        self.transition = Transition(groups, {"actions": actions, **parameters}, policy.get_hidden_states())
        critic_obs = groups.get("critic")
        self.transition.values = policy.evaluate(groups if critic_obs is None else critic_obs)
        self.transition.actions_log_prob = policy.get_actions_log_prob(actions)
        return actions

    @torch.no_grad()
    def process_env_step(self, *args: Any, **kwargs: Any) -> None:
        """Finish the step with (rewards, dones, extras), or as since version 3 with (obs, rewards, dones, extras)."""
        super().process_env_step(*in_our_order(args), **kwargs)  # type: ignore[misc]
        self.transition = Transition()

    def update(self) -> ClientResult:
        """Learn from the rollout and clear it."""
        return ClientResult(super().update(), self.unpacked)  # type: ignore[misc]

    # What clients read; where it is cached, they may write it too

    actor_critic = property(lambda self: self.policy)
    optimizer = property(lambda self: self.learner.optimizer)
    actor = cached_property(lambda self: networks_of(self.policy)[0])
    critic = cached_property(lambda self: networks_of(self.policy)[1])
    rnd = cached_property(lambda self: next((x for x in self.extensions.all if hasattr(x, "predictor")), None))
    is_multi_gpu = cached_property(lambda self: self.collective.size > 1)
    gpu_world_size = cached_property(lambda self: self.collective.size)
    gpu_global_rank = cached_property(lambda self: self.collective.rank)

    @property
    def max_grad_norm(self) -> float:
        """Max gradient norm of the actor, and of the critic."""
        return self.optimizer.max_grad_norm

    @max_grad_norm.setter
    def max_grad_norm(self, value: float) -> None:
        self.optimizer.max_grad_norm = value

    def get_policy(self) -> nn.Module:
        """Return the actor as a network of version 4 and 5."""
        return self.actor

    def compile(self, mode: Optional[str] = None) -> None:
        """Do nothing: networks are accelerated as the configuration says."""

    def test_mode(self) -> None:
        """Put the networks into evaluation mode."""
        self.eval_mode()  # type: ignore[attr-defined]

    # Checkpoints

    def save(self) -> Dict[str, Any]:
        """Return networks and optimiser in the form of version 5."""
        state = self.state_dict()  # type: ignore[attr-defined]
        if isinstance(self.policy, ModelPolicy):
            networks = parts_of_models(state["model_state_dict"], 5)
            return {**networks, "optimizer_state_dict": state["optimizer_state_dict"]}
        return as_version_5(state, self.policy)

    def load(
        self, loaded_dict: Mapping[str, Any], load_cfg: Optional[Mapping[str, bool]] = None, strict: bool = True
    ) -> bool:
        """Load what :meth:`save` returned, or the content of a file of any version; return whether its iteration is to
        be loaded."""
        state = self.converted(dict(loaded_dict), load_cfg, strict)
        self.load_state_dict(state, wants(load_cfg, "optimizer"))  # type: ignore[attr-defined]
        return wants(load_cfg, "iteration")

    def converted(self, state: Any, load_cfg: Optional[Mapping[str, bool]], strict: bool) -> Any:
        """Return what a file holds as a checkpoint for this algorithm; see :func:`fitted`."""
        return fitted(state, self, load_cfg, strict)  # type: ignore[arg-type]


@with_settings
class PPO(ClientCalls, ppo.PPO, metaclass=Facade):
    """:class:`rsl_rl.algorithms.ppo.PPO` with the constructor of rsl_rl 1: ``settings`` are the fields of
    :class:`PPOConfig`, in place of ``cfg`` or to change it, and can be read as attributes, most of them written. Call
    ``init_storage`` before the first rollout."""

    stands_for = ppo.PPO
    config_class = PPOConfig

    @staticmethod
    def construct_algorithm(obs: Observations, env: Any, cfg: Mapping[str, Any], device: Any) -> Any:
        """Return the algorithm of a configuration of rsl_rl 4 or 5 for an environment."""
        return import_object("rsl_rl.compat.runner:OnPolicyRunner")(env, cfg, None, device).alg

    @classmethod
    def from_env(cls, cfg: LearnConfig, env: VecEnv, device: Union[str, torch.device]) -> PPO:
        parts = ppo.build_parts(cfg, env, device, storage_class=RolloutStorage.of_groups)
        alg = cls(parts.policy, **_of_parts(cfg, parts, device))
        alg.set_storage(parts.storage)
        return alg


@with_settings
class GRPO(ClientCalls, grpo.GRPO, metaclass=Facade):
    """:class:`rsl_rl.algorithms.grpo.GRPO` over a :class:`RolloutBuffer`, ``buffer``, to which each update attaches
    ``seq_return``, the return that a step is credited with, ``seq_mask``, which is 0 for steps that are not learned
    from, and ``advantage``. ``settings`` are the fields of :class:`GRPOConfig`."""

    stands_for = grpo.GRPO
    config_class = GRPOConfig
    buffer: RolloutBuffer

    @classmethod
    def from_env(cls, cfg: LearnConfig, env: VecEnv, device: Union[str, torch.device]) -> GRPO:
        assert isinstance(cfg.algorithm, GRPOConfig)
        grpo.prepare_env(env, cfg.algorithm)
        parts = ppo.build_parts(cfg, env, device, more_columns=ENDS, storage_class=cls.storage_class)
        alg = cls(parts.policy, **_of_parts(cfg, parts, device))
        alg.set_storage(parts.storage)
        return alg

    @staticmethod
    def storage_class(*args: Any) -> RolloutStorage:  # type: ignore[override]
        """Return a storage with memory for the observation after the rollout."""
        return RolloutStorage.of_groups(*args, extra_step=True)

    def more_columns(self) -> Dict[str, Column]:
        return ENDS

    def init_storage(self, num_envs: int, *args: Any, **kwargs: Any) -> None:
        grpo.require_groups(num_envs, self.cfg.group_size)
        super().init_storage(num_envs, *args, **kwargs)

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


@with_settings
class Distillation(ClientCalls, distillation.Distillation, metaclass=Facade):
    """:class:`rsl_rl.algorithms.distillation.Distillation` with ``settings``, the fields of
    :class:`DistillationConfig`; call ``init_storage`` before the first rollout."""

    stands_for = distillation.Distillation
    config_class = DistillationConfig

    def __init__(self, actor_critic: ActorCritic, teacher: Optional[ActorCritic] = None, *args: Any, **settings: Any):
        if teacher is None:
            raise ValueError("a distillation needs a teacher; pass a policy, or set algorithm.teacher_run")
        super().__init__(actor_critic, *args, teacher=teacher, **settings)

    @classmethod
    def from_env(  # type: ignore[override]
        cls, cfg: LearnConfig, env: VecEnv, device: Union[str, torch.device], teacher: Optional[ActorCritic] = None
    ) -> Distillation:
        assert isinstance(cfg.algorithm, DistillationConfig)
        teacher = distillation.load_teacher(cfg.algorithm, env) if teacher is None else teacher
        groups, columns = teacher.actor_model.groups, distillation.teacher_columns(teacher)
        parts = ppo.build_parts(cfg, env, device, groups, columns, RolloutStorage.of_groups)
        alg = cls(parts.policy, teacher, **_of_parts(cfg, parts, device))
        alg.set_storage(parts.storage)
        return alg

    def more_columns(self) -> Dict[str, Column]:
        return distillation.teacher_columns(self.teacher)


class LaterTeacherDistillation(Distillation):
    """A :class:`Distillation` that starts when its teacher has been loaded; with the names of rsl_rl 2.3 to 5."""

    teacher_loaded = False

    def __init__(self, *args: Any, **settings: Any):
        super().__init__(*args, **settings)
        policy = self.policy  # its parts are not registered a second time
        vars(policy).update(student=policy.actor, student_obs_normalizer=policy.actor_obs_normalizer)
        if policy.is_recurrent:
            vars(policy).update(memory_s=policy.memory_a)

    student = property(lambda self: self.actor)

    def begin_rollout(self) -> None:
        if not self.teacher_loaded:
            raise ValueError("the teacher has not been loaded; call runner.load() with a checkpoint of its training")
        super().begin_rollout()

    def save(self) -> Dict[str, Any]:
        roles = {"student": self.policy, "teacher": self.teacher}
        return {f"{role}_state_dict": ModelView(policy, "actor").state_dict() for role, policy in roles.items()}  # type: ignore[arg-type]

    def converted(self, state: Any, load_cfg: Optional[Mapping[str, bool]], strict: bool) -> Any:
        """Return a file of a trained teacher, or of a distillation, as a checkpoint for a distillation.

        Of a teacher's file only the teacher is taken: student, optimiser and iteration stay.
        """
        if not isinstance(state, dict) or ("teacher_state_dict" in state and "format" in state):
            return state
        present = self.state_dict()
        student, teacher = student_and_teacher(state)
        if not teacher:
            return state
        self.teacher_loaded = True
        noise = {name: value for name, value in self.teacher.state_dict().items() if name in ("std", "log_std")}
        teacher = actor_state({**noise, **teacher})  # a teacher of version 4 or 5 may have no deviation
        weights = {**present["model_state_dict"], **student}
        kept: Dict[str, Any] = {key: state[key] for key in ("iter", "infos") if student and key in state}
        if not student:
            kept = {"iter": 0, TEACHER_ONLY: True}
        return {**present, "model_state_dict": weights, "teacher_state_dict": teacher, **kept}


# Checkpoints for an algorithm that is there


def wants(load_cfg: Optional[Mapping[str, bool]], part: str) -> bool:
    """Return whether a part of a checkpoint is to be loaded; None stands for all."""
    return load_cfg is None or bool(load_cfg.get(part, False))


def fitted(state: Any, alg: Algorithm, load_cfg: Optional[Mapping[str, bool]] = None, strict: bool = True) -> Any:
    """Return what a file holds as a checkpoint for an algorithm.

    Of networks that ``load_cfg`` leaves out, and without ``strict`` of tensors that the file lacks, the present values
    are taken.
    """
    of_models, state = isinstance(alg.policy, ModelPolicy), rejoined(state)
    native = models_to_native(state) if of_models else to_native(state)
    if not isinstance(native, dict) or "model_state_dict" not in native:
        return native
    weights: Dict[str, Any] = dict(native["model_state_dict"])
    if "format" not in native:
        weights = weights if of_models else shift_std(weights, alg.policy, -1)
        _fit_optimizer(native, alg)
    if load_cfg is not None or not strict:
        present = alg.policy.state_dict()
        for name, value in present.items():
            part = "critic" if name.startswith(CRITIC_PARTS) else "actor"
            if not wants(load_cfg, part) or (not strict and name not in weights):
                weights[name] = value
        if not strict:
            weights = {name: value for name, value in weights.items() if name in present}
    return {**native, "model_state_dict": weights}


def _fit_optimizer(state: Dict[str, Any], alg: Algorithm) -> None:
    """Add the parameters of extensions, which a file of another version has elsewhere."""
    optimizer = getattr(alg.learner, "optimizer", None)
    if optimizer is not None and "optimizer_state_dict" in state:
        size = len(optimizer.param_groups[0]["params"])
        state["optimizer_state_dict"]["param_groups"][0]["params"] = list(range(size))
