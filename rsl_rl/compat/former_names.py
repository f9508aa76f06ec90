"""Names of classes and functions that earlier versions have, by package, and how a class stands for another."""

from __future__ import annotations

from abc import ABCMeta
from typing import Any, Dict, Mapping

from rsl_rl.utils.registry import import_object, suggest


def _here(module: str, *names: str) -> Dict[str, str]:
    return {name: f"rsl_rl.compat.{module}:{name}" for name in names}


_NETWORKS = {
    **_here("former_code", "MLP", "CNN", "RNN", "EmpiricalNormalization"),
    **_here("policies", "Memory"),
    "EmpiricalDiscountedVariationNormalization": "rsl_rl.extensions.random_network_distillation:RewardNormalizer",
    "HiddenState": "rsl_rl.utils.trajectories:HiddenState",
}
_CONFIGS = _here("former_code", "resolve_rnd_config", "resolve_symmetry_config")
_FUNCTIONS = ("check_nan", "compile_model", "get_param", "resolve_callable", "resolve_class", "resolve_nn_activation",
              "resolve_obs_groups", "resolve_optimizer", "store_code_state", "string_to_callable")  # fmt: skip
_POLICIES = ("ActorCritic", "ActorCriticRecurrent", "SymmetricActorCritic", "SymmetricActorCriticRecurrent")

NAMES: Dict[str, Dict[str, str]] = {
    "rsl_rl.algorithms": _here("algorithms", "PPO", "GRPO", "Distillation"),
    "rsl_rl.env": _here("env", "VecEnv", "as_vec_env", "check_env"),
    "rsl_rl.modules": {
        **_NETWORKS,
        **_CONFIGS,
        **_here("policies", *_POLICIES),
        "ActorCriticCNN": "rsl_rl.compat.policies:ActorCritic",
        "RandomNetworkDistillation": "rsl_rl.extensions.random_network_distillation:RandomNetworkDistillation",
    },
    "rsl_rl.networks": _NETWORKS,
    "rsl_rl.extensions": _CONFIGS,
    "rsl_rl.runners": _here("runner", "OnPolicyRunner", "DistillationRunner"),
    "rsl_rl.storage": {
        **_here("adder", "Adder", "list_split", "lists_to_dicts"),
        **_here("rollout_buffer", "RolloutBuffer", "iterate_minibatches", "transition_view"),
        **_here("storage", "RolloutStorage"),
    },
    "rsl_rl.utils": {
        **_here("former_code", *_FUNCTIONS),
        "split_and_pad_trajectories": "rsl_rl.utils.trajectories:split_and_pad_trajectories",
        "unpad_trajectories": "rsl_rl.utils.trajectories:unpad_trajectories",
    },
}


def find(module: str, name: str, own: Mapping[str, str] = {}) -> Any:
    """Return what a name in a package stands for, ``own`` being that of this version; an unknown name is an
    AttributeError."""
    known = {**own, **NAMES[module]}
    if name not in known:
        raise AttributeError(f"module '{module}' has no attribute '{name}'.{suggest(name, known)}")
    return import_object(known[name])


class Facade(ABCMeta):
    """Metaclass of subclasses that stand for this version's classes where clients name them: objects and subclasses of
    the class that ``stands_for`` names are those of the facade too."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return cls.__subclasscheck__(type(instance))

    def __subclasscheck__(cls, subclass: type) -> bool:
        return cls in subclass.__mro__ or vars(cls).get("stands_for") in subclass.__mro__
