"""Configurations of earlier versions as ours, and what the client that gives one expects."""

from __future__ import annotations

import copy
import sys
from dataclasses import dataclass, fields
from typing import Any, Dict, List, Mapping, Optional, Tuple, Type, Union

from rsl_rl.algorithms import distillation, ppo
from rsl_rl.algorithms.build import build_policy
from rsl_rl.compat.algorithms import PPO, Distillation, LaterTeacherDistillation
from rsl_rl.compat.client_classes import algorithm_class
from rsl_rl.compat.client_symmetry import ClientSymmetry
from rsl_rl.compat.config_networks import (
    Network,
    distribution_of,
    groups_of,
    needs_plain_ppo,
    policy_config,
    policy_of,
)
from rsl_rl.compat.eras import STD_KEYS, Era, Given, era_of, filled, is_exact, is_filled, resolve_class, settings_for
from rsl_rl.compat.exact import ExactPPO
from rsl_rl.compat.models import std_settings
from rsl_rl.compat.policies import as_client_policy
from rsl_rl.config.algorithm import AlgorithmConfig, DistillationConfig, PPOConfig
from rsl_rl.config.extensions import ExtensionConfig, RNDConfig, SymmetryConfig
from rsl_rl.config.learn import AccelerationConfig, LearnConfig, RunnerConfig
from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.env.protocols import Mirrored, supports
from rsl_rl.env.vec_env import VecEnv
from rsl_rl.utils.config_io import from_dict

_SECTIONS = ("algorithm", "policy", "actor", "critic", "student", "teacher", "runner", "obs_groups")
_RUNNER_KEYS = ("num_steps_per_env", "save_interval", "max_iterations", "experiment_name", "run_name", "logger")
_WITHOUT_EFFECT = (
    "seed", "device", "class_name", "runner_class_name", "policy_class_name", "algorithm_class_name",
    "init_member_classes", "empirical_normalization", "resume", "resume_path", "load_run", "load_checkpoint",
    "checkpoint", "clip_actions", "init_at_random_ep_len", "wandb_project", "wandb_tags", "neptune_project",
    "upload_model", "log_interval", "record_interval", "check_for_nan", "torch_compile_mode", "multi_gpu", "verbose",
    "compat",
)  # fmt: skip
"""Settings that are read by clients alone, or that ask for what is done anyway."""
_PPO_ELSEWHERE = ("class_name", "rnd_cfg", "symmetry_cfg", "grad_reduce_bucket_mb")
_HARMLESS_VALUES = {"optimizer": "adam", "use_mixed_precision": False, "share_cnn_encoders": False}
"""Settings of PPO that are not ours, with the value that needs nothing."""


class Client:
    """The code that constructs a runner, as far as it matters to the runner.

    ``settings`` are ours. ``cfg``, ``alg_cfg`` and ``policy_cfg`` are what the client finds as the runner's attributes:
    in an earlier format, copies of what it gave. ``era`` is None in our own.
    """

    def __init__(self, settings: LearnConfig, given: Optional[Mapping[str, Any]] = None, era: Optional[Era] = None):
        self.settings, self.era = settings, era
        self.first_iteration = 1 if era is None else era.first_iteration
        self.cfg: Any = settings.runner
        self.alg_cfg: Any = settings.algorithm
        self.policy_cfg: Any = settings.policy
        if era is not None and given is not None:
            own = _copied(given)
            self.cfg = own["runner"] if era.major == 1 else own
            self.alg_cfg, self.policy_cfg = own["algorithm"], own.get("policy", own.get("actor"))


def client_of(train_cfg: Union[LearnConfig, Mapping[str, Any]], env: VecEnv, runner: Any) -> Client:
    """Return the client of a configuration: ours, as an object or nested dict, or that of an earlier version.

    Settings of an earlier version without effect here are named in one line. In our own format an unknown one is a
    ValueError.
    """
    if isinstance(train_cfg, LearnConfig):
        return Client(train_cfg)
    era = era_of(train_cfg) if isinstance(train_cfg, Mapping) else None
    if era is None:
        return Client(from_dict(LearnConfig, train_cfg))
    near = (runner, getattr(env, "client", env))
    given = Given(train_cfg, era, env, env.get_observations(), near, [])
    settings = _settings_of(given)
    if given.unused:
        names = ", ".join(given.unused)
        print(f"rsl_rl: settings of a configuration for version {era.major} without effect: {names}", file=sys.stderr)
    return Client(settings, train_cfg, era)


def _copied(value: Any) -> Any:
    """Return a copy of nested dicts and lists; what else is in them is shared."""
    if isinstance(value, Mapping):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else copy.copy(value)


def _settings_of(given: Given) -> LearnConfig:
    """Return a configuration in our form; it is not changed."""
    cfg, era = given.cfg, given.era
    exact = is_exact(cfg)
    plain = exact or needs_plain_ppo(given)
    if exact and (era.major < 4 or _is_distillation(cfg)):
        this = "a distillation" if era.major >= 4 else f"for version {era.major}"
        raise ValueError(
            "compat='exact' reproduces PPO of rsl_rl 5.5.1, whose configuration has the sections 'algorithm', 'actor' "
            f"and 'critic'; this one is {this}. Leave out compat, or translate the configuration"
        )
    extensions: Tuple[ExtensionConfig, ...] = ()
    if _is_distillation(cfg):
        policy, algorithm = _distillation_of(given)
    else:
        algorithm, policy, extensions = _algorithm_of(given), policy_of(given), _extensions_of(given)
    seed = cfg.get("seed")
    settings = LearnConfig(
        seed=seed if isinstance(seed, int) and 0 <= seed < 2**32 else LearnConfig.seed,
        policy=policy,
        algorithm=algorithm,
        extensions=extensions,
        acceleration=AccelerationConfig(fused=not plain),
        runner=_runner_of(given),
    )
    own = cfg["runner"] if era.major == 1 else cfg
    given.unused.extend(name for name in own if name not in {*_SECTIONS, *_RUNNER_KEYS, *_WITHOUT_EFFECT})
    return settings


def _runner_of(given: Given) -> RunnerConfig:
    """Return the runner's settings, of a section "runner" or flat."""
    merged = {**filled(given.cfg.get("runner")), **given.cfg}
    own = {name: merged[name] for name in _RUNNER_KEYS if merged.get(name) not in (None, {}, "")}
    for name in ("experiment_name", "run_name"):
        if name in own:
            own[name] = str(own[name]).replace("/", "_").replace("\\", "_")[:100]
    if "logger" in own:
        own["logger"] = _logger_of(own["logger"], given.unused)
    own["max_iterations"] = max(1, int(own.get("max_iterations", RunnerConfig.max_iterations)))
    return RunnerConfig(**own)


def _logger_of(logger: Any, unused: List[str]) -> str:
    name = str(logger.get("class_name", "tensorboard") if isinstance(logger, Mapping) else logger)
    for known in ("tensorboard", "wandb", "none"):
        if name.lower().startswith(known):
            return known
    unused.append(f"logger={name}, tensorboard is used")
    return "tensorboard"


def _algorithm_of(given: Given) -> AlgorithmConfig:
    """Return the config of PPO, or of a client's subclass, which also gets the settings that PPO does not have."""
    cfg, era, unused = given.cfg, given.era, given.unused
    section = cfg["algorithm"]
    runner = cfg["runner"] if era.major == 1 else {}
    cls = resolve_class(section.get("class_name") or runner.get("algorithm_class_name") or "PPO", given.near)
    if not (isinstance(cls, type) and issubclass(cls, ppo.PPO)):
        raise ValueError(
            f"algorithm.class_name names {cls!r}; a configuration of rsl_rl {era.major} can name PPO, a subclass of "
            "rsl_rl.algorithms.PPO, or Distillation; for others give one of our configs (docs/migrating.md)"
        )
    names = {field.name for field in fields(PPOConfig)}
    own = {**era.ppo_defaults, **{key: value for key, value in section.items() if key in names}}
    adaptive = own["schedule"] == "adaptive" and own.get("desired_kl", 0.01) is not None
    own.update(schedule="adaptive" if adaptive else "fixed", joint_grad_norm=era.joint_grad_norm)
    for key, default in _HARMLESS_VALUES.items():
        if section.get(key, default) not in (default, None):
            unused.append(f"algorithm.{key}={section[key]}")
    plain = needs_plain_ppo(given)
    if is_exact(cfg):
        plain = True
        _require_plain(cls, section, "compat='exact' reproduces")
    elif plain:
        _require_plain(PPO, section, "a distribution or forward() of your own goes with")
    if cls not in (PPO, ppo.PPO):
        return settings_for(PPOConfig, algorithm_class(cls, section, era, plain))(**own)
    known = {*names, *_PPO_ELSEWHERE, *_HARMLESS_VALUES}
    unused += [f"algorithm.{key}" for key in section if key not in known]
    return settings_for(PPOConfig, ExactPPO)(**own) if plain else PPOConfig(**own)  # for which the runner builds PPO


def _require_plain(cls: Any, section: Mapping[str, Any], wish: str) -> None:
    """Raise a ValueError, which begins with ``wish``, if a section "algorithm" asks for more than ExactPPO does."""
    extras = [name for name in ("rnd_cfg", "symmetry_cfg") if is_filled(section.get(name))]
    if cls not in (PPO, ppo.PPO):
        extras.append(f"class_name={cls.__name__}")
    if extras:
        raise ValueError(f"{wish} PPO without {', '.join(extras)}; leave out one of the two")


# Extensions

_RND_KEYS = (
    "state_normalization", "reward_normalization", "num_outputs", "predictor_hidden_dims", "target_hidden_dims",
    "activation", "learning_rate",
)  # fmt: skip


def _extensions_of(given: Given) -> Tuple[ExtensionConfig, ...]:
    """Return the extensions that a section "algorithm" asks for."""
    section = given.cfg["algorithm"]
    found: List[ExtensionConfig] = []
    if is_filled(section.get("rnd_cfg")):
        found.append(_rnd_of(section["rnd_cfg"], given))
    if is_filled(section.get("symmetry_cfg")):
        symmetry = section["symmetry_cfg"]
        if symmetry.get("data_augmentation_func") not in (None, {}, ""):
            function = resolve_class(symmetry["data_augmentation_func"], given.near)
            cls = settings_for(SymmetryConfig, ClientSymmetry, function=staticmethod(function))
            found.append(_symmetry_of(symmetry, cls))
        elif supports(given.env, Mirrored):
            found.append(_symmetry_of(symmetry, SymmetryConfig))
        else:
            given.unused.append("algorithm.symmetry_cfg, it needs data_augmentation_func or the environment mirrors()")
    return tuple(found)


def _rnd_of(section: Mapping[str, Any], given: Given) -> RNDConfig:
    """Return the config, with the weight for one control step, as earlier versions multiply it by the step's length."""
    env, obs, sets = given.env, given.obs, filled(given.cfg.get("obs_groups"))
    groups = tuple(sets.get("rnd_state") or (("rnd_state",) if "rnd_state" in obs.keys() else ("policy",)))  # noqa: SIM118
    size = sum(obs[group].shape[-1] for group in groups)
    settings: Dict[str, Any] = {"state_normalization": False, "reward_normalization": False, "num_outputs": 1}
    settings.update({key: section[key] for key in _RND_KEYS if section.get(key) not in (None, {})})
    for key in ("predictor_hidden_dims", "target_hidden_dims"):
        dims = settings.get(key, [-1])
        settings[key] = tuple(size if units == -1 else units for units in dims)
    duration = getattr(getattr(env, "unwrapped", env), "step_dt", 1.0)
    settings["weight"] = float(section.get("weight", 0.0)) * duration
    schedule = section.get("weight_schedule")
    if is_filled(schedule):
        settings["weight_schedule"] = schedule.get("mode", "constant")
        settings.update({key: schedule[key] for key in ("initial_step", "final_step") if key in schedule})
        if "final_value" in schedule:
            settings["final_weight"] = float(schedule["final_value"])
    known = {*_RND_KEYS, "weight", "weight_schedule", "num_states", "obs_groups"}
    given.unused.extend(f"algorithm.rnd_cfg.{key}" for key in section if key not in known)
    return RNDConfig(groups=groups, **settings)


def _symmetry_of(section: Mapping[str, Any], cls: Type[SymmetryConfig]) -> SymmetryConfig:
    mirror = bool(section.get("use_mirror_loss", False)) and float(section.get("mirror_loss_coeff", 0.0)) > 0
    return cls(
        use_data_augmentation=bool(section.get("use_data_augmentation", False)),
        use_mirror_loss=mirror,
        mirror_loss_coeff=float(section.get("mirror_loss_coeff", 0.0)),
    )


# Distillation: the teacher is loaded after the runner is constructed

_NO_LIMIT = 1e9
"""Max gradient norm where none is given."""

_DISTILLATION_KEYS = (
    "class_name", "num_learning_epochs", "gradient_length", "learning_rate", "max_grad_norm", "loss_type", "rnd_cfg",
    "symmetry_cfg", "grad_reduce_bucket_mb",
)  # fmt: skip


@dataclass(frozen=True)
class LaterTeacherConfig(DistillationConfig):
    """A distillation whose teacher has random weights until a checkpoint is loaded."""

    def build_for(self, cfg: Any, env: Any, device: Any) -> Any:
        teacher = as_client_policy(build_policy(self.teacher, env, env.get_observations()))
        return LaterTeacherDistillation.from_env(cfg, env, device, teacher=teacher)


def _is_distillation(cfg: Mapping[str, Any]) -> bool:
    """Return whether a configuration asks for distillation."""
    name = cfg["algorithm"].get("class_name", "")
    return name in (Distillation, distillation.Distillation) or (
        isinstance(name, str) and name.replace(":", ".").endswith("Distillation")
    )


def _distillation_of(given: Given) -> Tuple[ActorCriticConfig, LaterTeacherConfig]:
    """Return the configs of the student and of its algorithm."""
    section, policies = given.cfg["algorithm"], []
    for role in ("student", "teacher"):
        settings, distribution = _student_or_teacher(given, role)
        network = Network(groups_of(given, role), settings, settings.pop("recurrent"))
        critic = network._replace(recurrent=False)
        policies.append(policy_config([network, critic], std_settings(distribution), given))
    length = int(section.get("gradient_length") or 15)
    own = {key: section[key] for key in ("num_learning_epochs", "learning_rate", "loss_type") if key in section}
    algorithm = LaterTeacherConfig(
        **{"num_learning_epochs": 1, **own},
        num_mini_batches=max(1, int(given.cfg["num_steps_per_env"]) // length),
        max_grad_norm=section.get("max_grad_norm") or _NO_LIMIT,
        teacher=policies[1],
    )
    given.unused.extend(f"algorithm.{key}" for key in section if key not in _DISTILLATION_KEYS)
    return policies[0], algorithm


def _student_or_teacher(given: Given, role: str) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Return the settings of a network, and those of its distribution."""
    cfg = given.cfg
    if given.era.major >= 4:
        section = dict(cfg[role])
        name = str(section.get("class_name", "MLPModel"))
        return {**section, "recurrent": "RNN" in name}, distribution_of(section)
    policy = cfg["policy"]
    recurrent = "Recurrent" in str(policy.get("class_name")) and (role == "student" or policy.get("teacher_recurrent"))
    settings = {key: value for key, value in policy.items() if key.startswith(("activation", "rnn_"))}
    settings["hidden_dims"] = policy.get(f"{role}_hidden_dims")
    norm = policy.get(f"{role}_obs_normalization")
    settings["obs_normalization"] = cfg.get("empirical_normalization") if norm in (None, {}) else norm
    distribution = {"init_noise_std": 0.1, **{key: policy[key] for key in STD_KEYS if key in policy}}
    return {**settings, "recurrent": bool(recurrent)}, distribution
