"""The eras of rsl_rl, recognised by what a configuration holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Dict, Mapping, Optional

from typing_extensions import TypeGuard

_FIRST_DEFAULTS = {
    "num_learning_epochs": 1,
    "num_mini_batches": 1,
    "gamma": 0.998,
    "entropy_coef": 0.0,
    "schedule": "fixed",
}
_LATER_DEFAULTS = {
    "num_learning_epochs": 5,
    "num_mini_batches": 4,
    "gamma": 0.99,
    "entropy_coef": 0.01,
    "schedule": "adaptive",
}


@dataclass(frozen=True)
class Era:
    """What versions of rsl_rl with one major number have in common."""

    major: int
    first_iteration: int
    """Number of the first update: files are named model_<number>.pt."""
    joint_grad_norm: bool
    """Whether the gradient norm is clipped over actor and critic together."""
    ppo_defaults: Dict[str, Any] = field(default_factory=dict)
    """Settings of PPO where a configuration is silent."""


ERAS = {
    1: Era(1, 1, True, _FIRST_DEFAULTS),
    2: Era(2, 0, True, _FIRST_DEFAULTS),
    3: Era(3, 0, True, _LATER_DEFAULTS),
    4: Era(4, 0, False, _LATER_DEFAULTS),
    5: Era(5, 0, False, _LATER_DEFAULTS),
}

STD_KEYS = ("stochastic", "init_noise_std", "noise_std_type", "state_dependent_std")
"""Settings of a network that only version 4 has."""


def is_filled(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a section of a configuration is there; clients write {} for none."""
    return isinstance(value, Mapping) and len(value) > 0


def filled(value: Any) -> Mapping[str, Any]:
    """Return a section of a configuration, empty if it is not there."""
    return value if is_filled(value) else {}


def is_exact(cfg: Mapping[str, Any]) -> bool:
    """Return whether a configuration asks for the arithmetic of rsl_rl 5.5.1; another value is a ValueError."""
    value = cfg.get("compat")
    if value in (None, {}, ""):
        return False
    if value != "exact":
        raise ValueError(f"compat={value!r} is unknown; give 'exact', or leave it out")
    return True


def era_of(cfg: Mapping[str, Any]) -> Optional[Era]:
    """Return the era that a configuration is written for; None for our own format and all else."""
    if not is_filled(cfg.get("algorithm")):
        return None
    if "num_steps_per_env" in cfg:
        networks = [cfg[name] for name in ("actor", "critic", "student", "teacher") if is_filled(cfg.get(name))]
        if networks:
            return ERAS[4] if any(key in network for network in networks for key in STD_KEYS) else ERAS[5]
        if is_filled(cfg.get("policy")):
            by_group = "obs_groups" in cfg or "actor_obs_normalization" in cfg["policy"]
            return ERAS[3] if by_group else ERAS[2]
    runner: Any = cfg.get("runner")
    if is_filled(runner) and ("policy_class_name" in runner or "algorithm_class_name" in runner):
        return ERAS[1]
    return None
