"""Random network distillation and symmetry of earlier configurations as our extensions."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple, Type

from rsl_rl.compat.classes import resolve_class, settings_for
from rsl_rl.compat.client_symmetry import ClientSymmetry
from rsl_rl.compat.eras import filled, is_filled
from rsl_rl.config.extensions import ExtensionConfig, RNDConfig, SymmetryConfig
from rsl_rl.env.protocols import Mirrored, supports
from rsl_rl.env.vec_env import Observations, VecEnv

_RND_KEYS = (
    "state_normalization", "reward_normalization", "num_outputs", "predictor_hidden_dims", "target_hidden_dims",
    "activation", "learning_rate",
)  # fmt: skip


def extensions_of(
    cfg: Mapping[str, Any], env: VecEnv, obs: Observations, near: Tuple[Any, ...], unused: List[str]
) -> Tuple[ExtensionConfig, ...]:
    """Return the extensions that a section "algorithm" asks for; what has no effect is added to ``unused``."""
    section = cfg["algorithm"]
    found: List[ExtensionConfig] = []
    if is_filled(section.get("rnd_cfg")):
        found.append(_rnd_of(section["rnd_cfg"], cfg, env, obs, unused))
    if is_filled(section.get("symmetry_cfg")):
        symmetry = section["symmetry_cfg"]
        if symmetry.get("data_augmentation_func") not in (None, {}, ""):
            function = resolve_class(symmetry["data_augmentation_func"], near)
            cls = settings_for(SymmetryConfig, ClientSymmetry, {"function": function})
            found.append(_symmetry_of(symmetry, cls))
        elif supports(env, Mirrored):
            found.append(_symmetry_of(symmetry, SymmetryConfig))
        else:
            unused.append("algorithm.symmetry_cfg, it needs data_augmentation_func or the environment mirrors()")
    return tuple(found)


def _rnd_of(
    given: Mapping[str, Any], cfg: Mapping[str, Any], env: VecEnv, obs: Observations, unused: List[str]
) -> RNDConfig:
    """Return the config, with the weight for one control step, as earlier versions multiply it by the step's length."""
    sets = filled(cfg.get("obs_groups"))
    groups = tuple(sets.get("rnd_state") or (("rnd_state",) if "rnd_state" in obs.keys() else ("policy",)))  # noqa: SIM118
    size = sum(obs[group].shape[-1] for group in groups)
    settings: Dict[str, Any] = {key: given[key] for key in _RND_KEYS if given.get(key) not in (None, {})}
    settings.setdefault("state_normalization", False)
    settings.setdefault("reward_normalization", False)
    settings.setdefault("num_outputs", 1)
    for key in ("predictor_hidden_dims", "target_hidden_dims"):
        dims = settings.get(key, [-1])
        settings[key] = tuple(size if units == -1 else units for units in dims)
    duration = getattr(getattr(env, "unwrapped", env), "step_dt", 1.0)
    settings["weight"] = float(given.get("weight", 0.0)) * duration
    schedule = given.get("weight_schedule")
    if is_filled(schedule):
        settings["weight_schedule"] = schedule.get("mode", "constant")
        settings.update({key: schedule[key] for key in ("initial_step", "final_step") if key in schedule})
        if "final_value" in schedule:
            settings["final_weight"] = float(schedule["final_value"])
    known = {*_RND_KEYS, "weight", "weight_schedule", "num_states", "obs_groups"}
    unused += [f"algorithm.rnd_cfg.{key}" for key in given if key not in known]
    return RNDConfig(groups=groups, **settings)


def _symmetry_of(given: Mapping[str, Any], cls: Type[SymmetryConfig]) -> SymmetryConfig:
    mirror = bool(given.get("use_mirror_loss", False)) and float(given.get("mirror_loss_coeff", 0.0)) > 0
    return cls(
        use_data_augmentation=bool(given.get("use_data_augmentation", False)),
        use_mirror_loss=mirror,
        mirror_loss_coeff=float(given.get("mirror_loss_coeff", 0.0)),
    )
