"""Names of classes and functions that earlier versions have, by package."""

from __future__ import annotations

from typing import Any, Dict, Mapping

from rsl_rl.utils.registry import import_object, suggest

_NETWORKS = {
    "MLP": "rsl_rl.compat.former_modules:MLP",
    "CNN": "rsl_rl.compat.former_modules:CNN",
    "RNN": "rsl_rl.compat.former_modules:RNN",
    "EmpiricalNormalization": "rsl_rl.compat.former_modules:EmpiricalNormalization",
    "EmpiricalDiscountedVariationNormalization": "rsl_rl.extensions.random_network_distillation:RewardNormalizer",
    "HiddenState": "rsl_rl.utils.trajectories:HiddenState",
    "Memory": "rsl_rl.compat.policies:Memory",
}

_CONFIGS = {
    "resolve_rnd_config": "rsl_rl.compat.former_functions:resolve_rnd_config",
    "resolve_symmetry_config": "rsl_rl.compat.former_functions:resolve_symmetry_config",
}

_FUNCTIONS = ("check_nan", "compile_model", "get_param", "resolve_callable", "resolve_class", "resolve_nn_activation",
              "resolve_obs_groups", "resolve_optimizer", "store_code_state", "string_to_callable")  # fmt: skip

_POLICIES = ("ActorCritic", "ActorCriticRecurrent", "SymmetricActorCritic", "SymmetricActorCriticRecurrent")
_BUFFERS = ("RolloutBuffer", "iterate_minibatches", "transition_view")

NAMES: Dict[str, Dict[str, str]] = {
    "rsl_rl.algorithms": {name: f"rsl_rl.compat.algorithms:{name}" for name in ("PPO", "GRPO", "Distillation")},
    "rsl_rl.modules": {
        **_NETWORKS,
        **_CONFIGS,
        **{name: f"rsl_rl.compat.policies:{name}" for name in _POLICIES},
        "ActorCriticCNN": "rsl_rl.compat.policies:ActorCritic",
        "RandomNetworkDistillation": "rsl_rl.extensions.random_network_distillation:RandomNetworkDistillation",
    },
    "rsl_rl.networks": _NETWORKS,
    "rsl_rl.extensions": _CONFIGS,
    "rsl_rl.runners": {name: f"rsl_rl.compat.runner:{name}" for name in ("OnPolicyRunner", "DistillationRunner")},
    "rsl_rl.storage": {
        **{name: f"rsl_rl.compat.adder:{name}" for name in ("Adder", "list_split", "lists_to_dicts")},
        **{name: f"rsl_rl.compat.rollout_buffer:{name}" for name in _BUFFERS},
        "RolloutStorage": "rsl_rl.compat.storage:RolloutStorage",
    },
    "rsl_rl.utils": {
        **{name: f"rsl_rl.compat.former_functions:{name}" for name in _FUNCTIONS},
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
