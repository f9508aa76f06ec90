"""Configurations of earlier versions as ours."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, List, Mapping, NamedTuple, Tuple

from rsl_rl.algorithms import ppo
from rsl_rl.compat.algorithms import PPO
from rsl_rl.compat.classes import resolve_class, settings_for
from rsl_rl.compat.client_algorithm import algorithm_class
from rsl_rl.compat.distillation import distillation_of, is_distillation
from rsl_rl.compat.eras import Era, is_exact, is_filled
from rsl_rl.compat.exact import ExactPPO
from rsl_rl.compat.extensions import extensions_of
from rsl_rl.compat.networks import policy_of
from rsl_rl.config.algorithm import AlgorithmConfig, PPOConfig
from rsl_rl.config.extensions import ExtensionConfig
from rsl_rl.config.learn import AccelerationConfig, LearnConfig, RunnerConfig
from rsl_rl.env.vec_env import Observations, VecEnv

_SECTIONS = ("algorithm", "policy", "actor", "critic", "student", "teacher", "runner", "obs_groups")
_RUNNER_KEYS = ("num_steps_per_env", "save_interval", "max_iterations", "experiment_name", "run_name", "logger")
_WITHOUT_EFFECT = (
    "seed", "device", "class_name", "runner_class_name", "policy_class_name", "algorithm_class_name",
    "init_member_classes", "empirical_normalization", "resume", "resume_path", "load_run", "load_checkpoint",
    "checkpoint", "clip_actions", "wandb_project", "wandb_tags", "neptune_project", "upload_model", "log_interval",
    "record_interval", "check_for_nan", "torch_compile_mode", "multi_gpu", "verbose", "compat",
)  # fmt: skip
"""Settings that are read by clients alone, or that ask for what is done anyway."""
_PPO_ELSEWHERE = ("class_name", "rnd_cfg", "symmetry_cfg", "grad_reduce_bucket_mb")
_HARMLESS_VALUES = {"optimizer": "adam", "use_mixed_precision": False, "share_cnn_encoders": False}
"""Settings of PPO that are not ours, with the value that needs nothing."""


class Translation(NamedTuple):
    """A configuration in our form."""

    settings: LearnConfig
    unused: List[str]
    """Settings that have no effect here, each with its section."""


def translate(cfg: Mapping[str, Any], era: Era, env: VecEnv, obs: Observations, near: Tuple[Any, ...]) -> Translation:
    """Return a configuration of an era in our form, for an environment with these observations.

    ``near`` are objects of the client, in whose modules a class may be defined. The configuration is not changed.
    """
    unused: List[str] = []
    exact = is_exact(cfg)
    if exact and (era.major < 4 or is_distillation(cfg)):
        given = "a distillation" if era.major >= 4 else f"for version {era.major}"
        raise ValueError(
            "compat='exact' reproduces PPO of rsl_rl 5.5.1, whose configuration has the sections 'algorithm', 'actor' "
            f"and 'critic'; this one is {given}. Leave out compat, or translate the configuration"
        )
    if is_distillation(cfg):
        policy, algorithm = distillation_of(cfg, era, obs, unused)
        extensions: Tuple[ExtensionConfig, ...] = ()
    else:
        algorithm = _algorithm_of(cfg, era, near, unused)
        policy = policy_of(cfg, era, env, obs, near, unused)
        extensions = extensions_of(cfg, env, obs, near, unused)
    settings = LearnConfig(
        seed=_seed(cfg.get("seed")),
        policy=policy,
        algorithm=algorithm,
        extensions=extensions,
        acceleration=AccelerationConfig(fused=not exact),
        runner=_runner_of(cfg, unused),
    )
    own = cfg["runner"] if era.major == 1 else cfg
    known = {*_SECTIONS, *_RUNNER_KEYS, *_WITHOUT_EFFECT}
    unused += [name for name in own if name not in known]
    return Translation(settings, unused)


def _seed(value: Any) -> int:
    return value if isinstance(value, int) and 0 <= value < 2**32 else LearnConfig.seed


def _runner_of(cfg: Mapping[str, Any], unused: List[str]) -> RunnerConfig:
    """Return the runner's settings, of a section "runner" or flat."""
    merged = {**(cfg["runner"] if is_filled(cfg.get("runner")) else {}), **cfg}
    given = {name: merged[name] for name in _RUNNER_KEYS if merged.get(name) not in (None, {}, "")}
    for name in ("experiment_name", "run_name"):
        if name in given:
            given[name] = str(given[name]).replace("/", "_").replace("\\", "_")[:100]
    if "logger" in given:
        given["logger"] = _logger_of(given["logger"], unused)
    given["max_iterations"] = max(1, int(given.get("max_iterations", RunnerConfig.max_iterations)))
    return RunnerConfig(**given)


def _logger_of(logger: Any, unused: List[str]) -> str:
    name = str(logger.get("class_name", "tensorboard") if isinstance(logger, Mapping) else logger)
    for known in ("tensorboard", "wandb", "none"):
        if name.lower().startswith(known):
            return known
    unused.append(f"logger={name}, tensorboard is used")
    return "tensorboard"


def _algorithm_of(cfg: Mapping[str, Any], era: Era, near: Tuple[Any, ...], unused: List[str]) -> AlgorithmConfig:
    """Return the config of PPO, or of a client's subclass, which also gets the settings that PPO does not have."""
    section = cfg["algorithm"]
    runner = cfg["runner"] if era.major == 1 else {}
    cls = resolve_class(section.get("class_name") or runner.get("algorithm_class_name") or "PPO", near)
    if not (isinstance(cls, type) and issubclass(cls, ppo.PPO)):
        raise ValueError(
            f"algorithm.class_name names {cls!r}; a configuration of rsl_rl {era.major} can name PPO, a subclass of "
            "rsl_rl.algorithms.PPO, or Distillation; for others give one of our configs (docs/migrating.md)"
        )
    names = {field.name for field in fields(PPOConfig)}
    given = {**era.ppo_defaults, **{key: value for key, value in section.items() if key in names}}
    adaptive = given["schedule"] == "adaptive" and given.get("desired_kl", 0.01) is not None
    given.update(schedule="adaptive" if adaptive else "fixed", joint_grad_norm=era.joint_grad_norm)
    for key, default in _HARMLESS_VALUES.items():
        if section.get(key, default) not in (default, None):
            unused.append(f"algorithm.{key}={section[key]}")
    known = {*names, *_PPO_ELSEWHERE, *_HARMLESS_VALUES}
    others = {key: value for key, value in section.items() if key not in known}
    if is_exact(cfg):
        _require_exact(cls, section)
        cls = ExactPPO
    if cls in (PPO, ppo.PPO):
        unused += [f"algorithm.{key}" for key in others]
        return PPOConfig(**given)
    if cls is not ExactPPO:
        cls = algorithm_class(cls, section, era)
    return settings_for(PPOConfig, cls, {})(**given)


def _require_exact(cls: Any, section: Mapping[str, Any]) -> None:
    """Raise a ValueError if a section "algorithm" asks for more than compat="exact" reproduces."""
    extras = [name for name in ("rnd_cfg", "symmetry_cfg") if is_filled(section.get(name))]
    if cls not in (PPO, ppo.PPO):
        extras.append(f"class_name={cls.__name__}")
    if extras:
        raise ValueError(f"compat='exact' reproduces PPO without {', '.join(extras)}; leave out one of the two")
