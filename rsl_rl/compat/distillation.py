"""Distillation as rsl_rl 2.3 to 5 configure it: the teacher is loaded after the runner is constructed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Tuple

from rsl_rl.algorithms import distillation
from rsl_rl.algorithms.build import build_policy
from rsl_rl.algorithms.teacher import actor_state
from rsl_rl.compat.algorithms import Distillation
from rsl_rl.compat.checkpoints import our_statistics, to_native
from rsl_rl.compat.eras import STD_KEYS, Era, filled, is_filled
from rsl_rl.compat.names_in_files import Names, names_for
from rsl_rl.compat.networks import Network, policy_config
from rsl_rl.compat.output_distribution import std_settings
from rsl_rl.compat.policies import as_client_policy
from rsl_rl.config.algorithm import DistillationConfig
from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.env.vec_env import Observations

_NO_LIMIT = 1e9
"""Max gradient norm where none is given."""

_KNOWN = (
    "class_name", "num_learning_epochs", "gradient_length", "learning_rate", "max_grad_norm", "loss_type", "rnd_cfg",
    "symmetry_cfg", "grad_reduce_bucket_mb",
)  # fmt: skip


@dataclass(frozen=True)
class LaterTeacherConfig(DistillationConfig):
    """A distillation whose teacher has random weights until a checkpoint is loaded."""

    def build_for(self, cfg: Any, env: Any, device: Any) -> Any:
        teacher = as_client_policy(build_policy(self.teacher, env, env.get_observations()))
        return LaterTeacherDistillation.from_env(cfg, env, device, teacher=teacher)


class LaterTeacherDistillation(Distillation):
    """A :class:`Distillation` that starts when its teacher has been loaded."""

    teacher_loaded = False

    def begin_rollout(self) -> None:
        if not self.teacher_loaded:
            raise ValueError("the teacher has not been loaded; call runner.load() with a checkpoint of its training")
        super().begin_rollout()


def is_distillation(cfg: Mapping[str, Any]) -> bool:
    """Return whether a configuration asks for distillation."""
    name = cfg["algorithm"].get("class_name", "")
    return name in (Distillation, distillation.Distillation) or (
        isinstance(name, str) and name.replace(":", ".").endswith("Distillation")
    )


def distillation_of(
    cfg: Mapping[str, Any], era: Era, obs: Observations, unused: List[str]
) -> Tuple[ActorCriticConfig, LaterTeacherConfig]:
    """Return the configs of the student and of its algorithm."""
    section, policies = cfg["algorithm"], []
    for role in ("student", "teacher"):
        settings, distribution = _settings_of(cfg, role, era)
        recurrent = settings.pop("recurrent")
        network = Network(_groups_of(cfg, role, obs), settings, recurrent)
        critic = network._replace(recurrent=False)
        policies.append(policy_config([network, critic], std_settings(distribution), obs, unused))
    length = int(section.get("gradient_length") or 15)
    given = {key: section[key] for key in ("num_learning_epochs", "learning_rate", "loss_type") if key in section}
    algorithm = LaterTeacherConfig(
        **{"num_learning_epochs": 1, **given},
        num_mini_batches=max(1, int(cfg["num_steps_per_env"]) // length),
        max_grad_norm=section.get("max_grad_norm") or _NO_LIMIT,
        teacher=policies[1],
    )
    unused += [f"algorithm.{key}" for key in section if key not in _KNOWN]
    return policies[0], algorithm


def _settings_of(cfg: Mapping[str, Any], role: str, era: Era) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Return the settings of a network, and those of its distribution."""
    if era.major >= 4:
        section = dict(cfg[role])
        name = str(section.get("class_name", "MLPModel"))
        distribution = {key: section[key] for key in STD_KEYS if key in section}
        if is_filled(section.get("distribution_cfg")):
            distribution = dict(section["distribution_cfg"])
        return {**section, "recurrent": "RNN" in name}, distribution
    policy = cfg["policy"]
    recurrent = "Recurrent" in str(policy.get("class_name")) and (role == "student" or policy.get("teacher_recurrent"))
    settings = {key: value for key, value in policy.items() if key.startswith(("activation", "rnn_"))}
    settings["hidden_dims"] = policy.get(f"{role}_hidden_dims")
    norm = policy.get(f"{role}_obs_normalization")
    settings["obs_normalization"] = cfg.get("empirical_normalization") if norm in (None, {}) else norm
    distribution = {"init_noise_std": 0.1, **{key: policy[key] for key in STD_KEYS if key in policy}}
    return {**settings, "recurrent": bool(recurrent)}, distribution


def _groups_of(cfg: Mapping[str, Any], role: str, obs: Observations) -> Tuple[str, ...]:
    sets = filled(cfg.get("obs_groups"))
    named = sets.get(role) or (sets.get("policy") if role == "student" else None)
    if named:
        return tuple(named)
    return (role,) if role in obs.keys() else ("policy",)  # noqa: SIM118


def fitted_distillation(state: Any, alg: LaterTeacherDistillation) -> Any:
    """Return a file of a trained teacher, or of a distillation, as a checkpoint for a distillation.

    Of a teacher's file only the teacher is taken: student, optimiser and iteration stay.
    """
    if not isinstance(state, dict) or ("teacher_state_dict" in state and "format" in state):
        return state
    present = alg.state_dict()
    student, teacher = _parts(state)
    if not teacher:
        return state
    alg.teacher_loaded = True
    weights = {**present["model_state_dict"], **student}
    noise = {name: value for name, value in alg.teacher.state_dict().items() if name in ("std", "log_std")}
    teacher = {**noise, **teacher}  # a teacher of version 4 or 5 may have none
    native = {**present, "model_state_dict": weights, "teacher_state_dict": actor_state(teacher)}
    if student:
        native.update({key: state[key] for key in ("iter", "infos") if key in state})
    return native


def _parts(state: Mapping[str, Any]) -> Tuple[Dict[str, Any], Dict[str, Any]]:
    """Return the weights of the student, if there are some, and of the teacher under the names of an actor."""
    if "student_state_dict" in state:
        names = names_for(5, "actor")
        parts = (state[f"{role}_state_dict"] for role in ("student", "teacher"))
        student, teacher = ({names.to_native(name): value for name, value in part.items()} for part in parts)
        return our_statistics(student), our_statistics(teacher)
    weights = state.get("model_state_dict", {})
    if not any(name.startswith("student.") for name in weights):
        native = to_native(state)
        return {}, native.get("model_state_dict", {}) if isinstance(native, dict) else {}
    result = []
    for role in ("student", "teacher"):
        prefixes = {f"{role}.": "actor.", f"memory_{role[0]}.": "memory_a.", f"{role}_obs_normalizer.": _NORMALIZER}
        names = Names(prefixes)
        own = {names.to_native(name): value for name, value in weights.items() if name.startswith(tuple(prefixes))}
        own.update({name: weights[name] for name in ("std", "log_std") if name in weights})
        result.append(our_statistics(own))
    return result[0], result[1]


_NORMALIZER = "actor_obs_normalizer."
