"""Classes that a client derives from ours, constructed and called as in its version.

A class is derived from the client's and, behind it, from one that stands before ours in the order of bases. So the
client's ``super().__init__(...)`` reaches the latter, which takes the arguments of any version.
"""

from __future__ import annotations

import inspect
from dataclasses import fields, replace
from typing import Any, Dict, List, Mapping, Optional, Tuple, Type

import torch
from torch import Tensor, nn

from rsl_rl.algorithms.algorithm import UpdateResult
from rsl_rl.algorithms.ppo import PolicyStep, build_parts, draw_actions
from rsl_rl.compat.algorithms import FORMER_NAMES, IN_ORDER, PPO, ClientResult, in_our_order
from rsl_rl.compat.eras import Era
from rsl_rl.compat.exact import ExactPPO
from rsl_rl.compat.model_policy import networks_of
from rsl_rl.compat.policies import ActorCritic, as_client_policy
from rsl_rl.compat.storage import RolloutStorage
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.env.vec_env import Observations, is_groups
from rsl_rl.modules.distributions import DiagonalGaussian, Distribution, GaussianFamily, smooth_floor
from rsl_rl.modules.mlp import MLP
from rsl_rl.modules.model import Model
from rsl_rl.storage.returns import bootstrap_timeouts
from rsl_rl.utils.trajectories import HiddenState


def named_like(cls: Type, built: Type) -> Type:
    """Return a class with the name of a client's."""
    built.__name__, built.__qualname__, built.__module__ = cls.__name__, cls.__qualname__, cls.__module__
    return built


def own_method(cls: Type, base: Type, name: str) -> Optional[Any]:
    """Return the function of a method that a class, or one between it and ``base``, defines; None if ``base`` does, or
    the class of this version that ``base`` stands for."""
    for part in cls.__mro__:
        if part in (base, getattr(base, "stands_for", base)):
            return None
        if name in vars(part):
            return vars(part)[name]
    return None


def argument_names(function: Any) -> List[str]:
    """Return the names of the positional arguments of a method; empty for ``*args`` alone."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = list(inspect.signature(function).parameters.values())[1:]
    return [parameter.name for parameter in parameters if parameter.kind in kinds]


def changed(given: Mapping[str, Any], section: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the arguments that a client gives and that differ from its configuration."""
    missing = object()
    return {name: value for name, value in given.items() if section.get(name, missing) != value}


# Policies

_POLICY_SETTINGS = (
    "actor_hidden_dims", "critic_hidden_dims", "activation", "init_noise_std", "noise_std_type", "state_dependent_std",
    "actor_obs_normalization", "critic_obs_normalization", "rnn_type", "rnn_hidden_size", "rnn_num_layers",
)  # fmt: skip
"""Settings of policies in earlier versions that are ours too; beside them is ``rnn_hidden_dim``."""


def policy_class(cls: Type, base: Type, section: Mapping[str, Any], era: Era, obs: Observations) -> Type:
    """Return a class of policies that constructs a client's class as its version does.

    ``section`` are the settings of the configuration. A constructor with the arguments of a version up to 2 is called
    with sizes, one with (obs, obs_groups, num_actions) with observations.
    """
    settings = {name: value for name, value in section.items() if name != "class_name"}
    own = own_method(cls, base, "__init__")
    names = [] if own is None else argument_names(own)
    by_groups = names[:1] == ["obs"] or (own is not None and not names and era.major == 3)
    own_distribution = own_method(cls, base, "update_distribution")
    if own_distribution is not None and len(argument_names(own_distribution)) > 1:
        own_distribution = None  # it takes the arguments of this version

    class BeforeOurs(base):
        def __init__(self, *args: Any, **given: Any):
            sizes, image_shapes, ours = self.__dict__.pop("_own_arguments")
            ours = {**ours, **_our_settings(changed(given, settings))}
            super().__init__(*sizes, image_shapes=image_shapes, **ours)

        def update_distribution(self, obs: Any, *others: Any) -> Any:
            if not vars(self).get("_reads_features"):
                return super().update_distribution(obs, *others)
            std = self.log_std.exp() if self.cfg.noise_std_type == "log" else self.std
            self.distribution = self.family(self.actor(obs), smooth_floor(std, self.cfg.min_noise_std))
            return self.distribution

    class Built(cls, BeforeOurs):  # type: ignore[misc]
        def __init__(self, *sizes: Any, image_shapes: Any = None, **ours: Any):
            self.__dict__["_own_arguments"] = sizes, image_shapes, ours
            groups = {"policy": list(ours["actor_groups"]), "critic": list(ours["critic_groups"])}
            arguments = (obs, groups, sizes[2]) if by_groups else sizes
            if own is None:
                super().__init__(*arguments)
            else:
                super().__init__(*arguments, **settings)
            _use_replaced_heads(self)
            if own_distribution is not None:
                self.family = PerSampleGaussians(sizes[2])

    if own_distribution is not None:

        def update_distribution(self: Any, obs: Any, masks: Any = None, state: Any = None) -> Distribution:
            """Call the client's method, whose argument is what the actor's head reads."""
            vars(self)["_reads_features"] = True
            try:
                own_distribution(self, _features(self.actor_model, obs, masks, state))
            finally:
                vars(self)["_reads_features"] = False
            given = self.distribution
            if isinstance(given, torch.distributions.Normal):
                self.distribution = DiagonalGaussian(given.mean, given.stddev)
            elif given.std.dim() < given.mode.dim():
                self.distribution = DiagonalGaussian(given.mode, given.std.expand_as(given.mode))
            return self.distribution

        Built.update_distribution = update_distribution  # type: ignore[method-assign]
    return named_like(cls, Built)


class PerSampleGaussians(GaussianFamily):
    """Gaussians with a mean and a standard deviation for each sample, as a client's method gives them."""

    shared_parameters = ()

    def __call__(self, outputs: Tensor, std: Optional[Tensor]) -> DiagonalGaussian:
        return DiagonalGaussian(outputs, torch.ones_like(outputs) if std is None else std.expand_as(outputs))


def _features(model: Model, obs: Any, masks: Any, state: HiddenState) -> Tensor:
    """Return what a network's head reads of observations [N, ...], or with masks of sequences [T, n, ...]."""
    features = model.encode(obs)
    if model.memory is None:
        return features
    return model.memory.step(features) if masks is None else model.memory.sequence(features, masks, state)


def _our_settings(given: Mapping[str, Any]) -> Dict[str, Any]:
    """Return settings under our names; others are left out, as in the versions that take them."""
    named = {"rnn_hidden_size" if name == "rnn_hidden_dim" else name: value for name, value in given.items()}
    ours = {name: value for name, value in named.items() if name in _POLICY_SETTINGS}
    return {name: tuple(value) if isinstance(value, list) else value for name, value in ours.items()}


def _use_replaced_heads(policy: ActorCritic) -> None:
    """Compute with the actor and critic that a client put in the place of ours."""
    for role, model in zip(("actor", "critic"), (policy.actor_model, policy.critic_model)):
        head = getattr(policy, role)
        if isinstance(head, nn.Sequential) and not isinstance(head, MLP):
            head = MLP(*head)
            setattr(policy, role, head)
        model.head = head


# Algorithms

_ELSEWHERE = (
    "policy", "actor_critic", "actor", "critic", "storage", "device", "optimizer", "use_mixed_precision", "rnd_cfg",
    "symmetry_cfg", "multi_gpu_cfg", "grad_reduce_bucket_mb",
)  # fmt: skip
"""Arguments that say nothing new: what they stand for was read in the configuration."""


class BeforePPO(PPO):
    """Take the arguments of PPO of any version, and fill every transition when the policy acts."""

    era: Era
    section: Mapping[str, Any]
    """Settings of the configuration."""
    _next_obs: Optional[Observations] = None  # of the present step, which up to version 2 is no argument
    _rollout_finished = False

    def __init__(self, *args: Any, **given: Any):
        ours: Dict[str, Any] = vars(self).pop("_own_arguments")
        networks = [arg for arg in args if isinstance(arg, torch.nn.Module) or arg is ours["storage"]]
        given = {**dict(zip(IN_ORDER, args[len(networks) :])), **given}
        unknown = set(given) - {field.name for field in fields(PPOConfig)} - set(_ELSEWHERE)
        if unknown or len(args) > len(networks) + len(IN_ORDER):
            raise TypeError(f"PPO has no argument {', '.join(sorted(unknown)) or args[-1]}; see PPOConfig")
        own = {name: value for name, value in given.items() if name not in _ELSEWHERE}
        cfg = replace(ours["cfg"], **changed(own, self.section))
        others = {name: ours[name] for name in ("device", "extensions", "acceleration")}
        super().__init__(ours["policy"], cfg=cfg, **others)
        self._policy_step = self.acceleration.graphed(self.policy_step)
        self.set_storage(ours["storage"])

    @classmethod
    def from_env(cls, cfg: Any, env: Any, device: Any) -> Any:
        parts = build_parts(cfg, env, device, storage_class=RolloutStorage.of_groups)
        policy, storage = as_client_policy(parts.policy), parts.storage
        alg: Any = cls.__new__(cls)
        ours = {"policy": policy, "device": device, "cfg": cfg.algorithm, "extensions": parts.extensions}
        vars(alg)["_own_arguments"] = {**ours, "acceleration": cfg.acceleration, "storage": storage}
        alg.construct(policy, storage, device)
        alg.set_storage(storage)
        return alg

    def construct(self, policy: Any, storage: Any, device: Any) -> None:
        """Call the client's constructor with the arguments of its version."""
        cls = type(self)
        own = own_method(cls, BeforePPO, "__init__")
        if own is None:
            cls.__init__(self, policy)
            return
        actor, critic = networks_of(policy)
        known = {"policy": policy, "actor": actor, "critic": critic, "storage": storage}
        names = argument_names(own)
        positional = [known[name] for name in network_arguments(names, self.era)]
        others = {name: x for name, x in self.section.items() if name not in ("class_name", "share_cnn_encoders")}
        others["device"] = str(device)
        if "multi_gpu_cfg" in names:
            others["multi_gpu_cfg"] = None
        cls.__init__(self, *positional, **others)

    def policy_step(self, policy: Any, groups: Dict[str, Tensor], states: Any) -> PolicyStep:
        """Draw actions, with the values and log-probabilities that a client reads in the transition."""
        step = draw_actions(policy, groups, states)
        values = policy.evaluate(groups) if step.values is None else step.values
        log_prob = policy.distribution.log_prob(step.actions)
        return step._replace(values=values, columns={**step.columns, "actions_log_prob": log_prob})

    def process_env_step(self, *args: Any, **kwargs: Any) -> None:
        """Finish the step; the arguments are those of any version."""
        args = in_our_order(args)
        if len(args) == 3 and "next_obs" not in kwargs:
            args = (*args, self._next_obs)
        rewards, dones, extras = args[:3]
        if "time_outs" in extras and "final_obs" not in extras:  # credited now: a client may compute returns itself
            flags = extras["time_outs"].to(self.device).reshape(-1, 1), dones.reshape(-1, 1)
            values, rewards = self.transition.columns["values"], rewards.reshape(-1, 1)
            rewards = bootstrap_timeouts(rewards, values, *flags, self.cfg.gamma).reshape(-1)
            extras = {name: value for name, value in extras.items() if name != "time_outs"}
        super().process_env_step(rewards, dones, extras, *args[3:], **kwargs)

    def compute_returns(self, obs: Any) -> None:
        super().compute_returns(obs)
        self._rollout_finished = True


class BeforeExactPPO(BeforePPO, ExactPPO):
    """:class:`BeforePPO` over networks that compute their distribution themselves."""

    def policy_step(self, policy: Any, groups: Dict[str, Tensor], states: Any) -> PolicyStep:
        return ExactPPO.policy_step(self, policy, groups, states)

    def process_env_step(self, *args: Any, **kwargs: Any) -> None:
        args = in_our_order(args)
        if len(args) == 3 and "next_obs" not in kwargs:
            args = (*args, self._next_obs)
        ExactPPO.process_env_step(self, *args, **kwargs)


def network_arguments(names: List[str], era: Era) -> Tuple[str, ...]:
    """Return which networks the constructor of an algorithm takes first, by the names of its arguments."""
    if names[:1] == ["actor"] or (not names and era.major >= 4):
        return "actor", "critic", "storage"
    return ("policy", "storage") if names[1:2] == ["storage"] else ("policy",)


def algorithm_class(cls: Any, section: Mapping[str, Any], era: Era, plain: bool = False) -> Type[PPO]:
    """Return a class of algorithms that constructs and calls a client's class as its version does; a ``plain`` one is
    an ExactPPO."""
    base: Any = BeforeExactPPO if plain else BeforePPO
    own = ("process_env_step", "compute_returns", "update")
    step, returns, update = (own_method(cls, PPO, name) for name in own)
    step_takes_obs = step is not None and argument_names(step)[:1] == ["obs"]

    class Built(cls, base):  # type: ignore[misc]
        def process_env_step(self, *args: Any, **kwargs: Any) -> None:
            rewards, dones, extras, *rest = in_our_order(args)
            self._next_obs = next_obs = rest[0] if rest else kwargs.get("next_obs")
            if step is None:
                super().process_env_step(rewards, dones, extras, next_obs)
            elif step_takes_obs:
                super().process_env_step(next_obs, rewards, dones, extras)
            else:
                super().process_env_step(rewards, dones, extras)

        def compute_returns(self, obs: Any) -> None:
            if returns is not None and era.major < 3 and is_groups(obs):
                obs = self.policy.critic_model.vectors(obs)
            self._rollout_finished = False
            super().compute_returns(obs)
            if not self._rollout_finished:
                for policy in self.acceleration.cached:
                    policy.clear_cache()
                for extension in self.extensions.all:
                    extension.finish_rollout(self.storage)

        def update(self) -> ClientResult:
            result = super().update()
            return result if update is None else _as_result(self, result)

    Built.era, Built.section = era, {**section}
    return named_like(cls, Built)


def _as_result(alg: Any, result: Any) -> ClientResult:
    """Return what a client's ``update`` returns, a tuple or dict of losses, as a result of an update."""
    if isinstance(result, ClientResult):
        added = {name: value for name, value in result.items() if name not in result.metrics}
        result.metrics.update(
            {name: torch.as_tensor(value, device=alg.device).float() for name, value in added.items()}
        )
        return result
    names = ("value_loss", "surrogate_loss", "entropy", "rnd_loss", "symmetry_loss")
    losses = dict(zip(names, result)) if isinstance(result, tuple) else dict(result.items())
    losses = {FORMER_NAMES.get(name, name): value for name, value in losses.items()}
    defaults = {
        "learning_rate": alg.learning_rate,
        "noise_std": alg.policy.noise_std().detach().mean(),
        "skipped_steps": 0.0,
    }
    values = {**defaults, **{name: value for name, value in losses.items() if value is not None}}
    metrics = {name: torch.as_tensor(value, device=alg.device).float() for name, value in values.items()}
    taken = torch.tensor(float(alg.num_learning_epochs * alg.num_mini_batches), device=alg.device)
    return ClientResult(UpdateResult(metrics, taken, torch.zeros_like(taken)), alg.unpacked)
