"""Names of classes and functions that earlier versions have, by package, and how a class stands for another."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Tuple

from rsl_rl.utils.public_names import FormerCalls
from rsl_rl.utils.registry import import_object, suggest


def _here(module: str, *names: str) -> Dict[str, str]:
    return {name: f"rsl_rl.compat.{module}:{name}" for name in names}


_DISTRIBUTIONS = ("GaussianDistribution", "HeteroscedasticGaussianDistribution", "BetaDistribution")
_NETWORKS = {
    **_here("former_code", "MLP", "CNN", "RNN", "EmpiricalNormalization", "EmpiricalDiscountedVariationNormalization"),
    **_here("policies", "Memory"),
    **_here("distributions", *_DISTRIBUTIONS),
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
        **_here("former_extensions", "RandomNetworkDistillation"),
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
        **_here("batches", "split_and_pad_trajectories", "unpad_trajectories"),
    },
}


def find(module: str, name: str, own: Mapping[str, str] = {}) -> Any:
    """Return what a name in a package stands for, ``own`` being that of this version; an unknown name is an
    AttributeError."""
    known = {**own, **NAMES[module]}
    if name not in known:
        raise AttributeError(f"module '{module}' has no attribute '{name}'.{suggest(name, known)}")
    return import_object(known[name])


class Former(NamedTuple):
    """A class in rsl_rl.compat that takes the arguments of earlier versions."""

    place: str
    takes: Callable[[Tuple[Any, ...], Mapping[str, Any]], bool]


def _is_for_a_group_storage(args: Tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    return isinstance(args[0] if args else kwargs.get("training_type"), str)


def _is_for_networks(args: Tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    first = args[0] if args else kwargs.get("actor", kwargs.get("student"))
    return hasattr(first, "get_latent")


def _has_no_config(args: Tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    return not any(hasattr(arg, "build") for arg in (*args, kwargs.get("cfg")))


def _names_a_function(args: Tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    return "data_augmentation_func" in kwargs or (len(args) > 1 and not hasattr(args[1], "actor_model"))


FORMER = {
    "rsl_rl.compat.storage:RolloutStorage": Former("rsl_rl.compat.storage:GroupStorage", _is_for_a_group_storage),
    "rsl_rl.compat.algorithms:PPO": Former("rsl_rl.compat.of_networks:PPO", _is_for_networks),
    "rsl_rl.compat.algorithms:Distillation": Former("rsl_rl.compat.of_networks:Distillation", _is_for_networks),
    "rsl_rl.algorithms.ppo:PPO": Former("rsl_rl.compat.algorithms:PPO", _has_no_config),
    "rsl_rl.algorithms.distillation:Distillation": Former("rsl_rl.compat.of_networks:Distillation", _is_for_networks),
    "rsl_rl.extensions.symmetry:Symmetry": Former("rsl_rl.compat.former_extensions:Symmetry", _names_a_function),
}
"""What is constructed in place of a class for arguments of earlier versions."""

_JOINED: Dict[Tuple[type, type], type] = {}
"""Classes of clients, each joined with the class that takes its arguments."""


def former_class(cls: type, args: Tuple[Any, ...], kwargs: Mapping[str, Any]) -> Optional[type]:
    """Return the class that takes these arguments in place of ``cls``, or, for a client's class, one derived from both;
    None if ``cls`` takes them itself."""
    for part in cls.__mro__:
        former = FORMER.get(f"{part.__module__}:{part.__qualname__}")
        if former is None or not former.takes(args, kwargs):
            continue
        built = import_object(former.place)
        if built in cls.__mro__:
            return None
        if part is cls:
            return built
        return _JOINED.setdefault((cls, built), type(cls)(cls.__name__, (cls, built), {"__module__": cls.__module__}))
    return None


class Facade(FormerCalls):
    """Metaclass of subclasses that stand for this version's classes where clients name them: objects and subclasses of
    the class that ``stands_for`` names are those of the facade too."""

    def __instancecheck__(self, instance: Any) -> bool:
        return self.__subclasscheck__(type(instance))

    def __subclasscheck__(self, subclass: type) -> bool:
        return self in subclass.__mro__ or vars(self).get("stands_for") in subclass.__mro__
