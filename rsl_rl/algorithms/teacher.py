"""The teacher of a distillation: only the actor of a trained policy is needed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Dict, Mapping

from torch import Tensor

from rsl_rl.algorithms.build import build_policy
from rsl_rl.config.algorithm import DistillationConfig
from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.env.vec_env import VecEnv, require_group
from rsl_rl.modules.networks import CRITIC_PARTS
from rsl_rl.modules.policy import ActorCritic
from rsl_rl.utils.checkpoints import config_of, find_checkpoint, first_unusable, iteration_of, read_checkpoint
from rsl_rl.utils.config_io import from_dict, read_yaml
from rsl_rl.utils.files import expand_user
from rsl_rl.utils.text import one_line


def actor_state(state_dict: Mapping[str, Tensor]) -> Dict[str, Tensor]:
    """Return the part of a policy's state dict that its actor needs."""
    return {name: value for name, value in state_dict.items() if not name.startswith(CRITIC_PARTS)}


def load_actor(policy: ActorCritic, state_dict: Mapping[str, Tensor]) -> None:
    """Load the actor of a policy, and leave its critic; weights of another network are a ValueError."""
    given = actor_state(state_dict)
    try:
        policy.load_state_dict({**policy.state_dict(), **given})
    except RuntimeError as error:
        raise ValueError(one_line(str(error))) from error
    missing = sorted(set(actor_state(policy.state_dict())) - set(given))
    if missing:
        raise ValueError(f"there are no weights of {', '.join(missing)}")


def load_teacher(cfg: DistillationConfig, env: VecEnv) -> ActorCritic:
    """Return the teacher of a config for an environment; only its actor is loaded.

    What is not there, and what does not fit the environment, is a ValueError.
    """
    path = _checkpoint_of(cfg)
    network = _network_of(cfg, path)
    groups, obs = cfg.teacher_groups or network.actor_groups, env.get_observations()
    remedy = "; name the groups to read in algorithm.teacher_groups"
    for group in groups:
        require_group(obs, group, "the teacher reads the group", remedy)
    teacher = build_policy(replace(network, actor_groups=groups, critic_groups=groups), env, obs)
    state = read_checkpoint(path)
    weights = state.get("average", state)["model_state_dict"]
    unusable = first_unusable(weights, "model_state_dict")
    if unusable:
        raise ValueError(f"the teacher {path} holds {unusable}; take another one")
    try:
        load_actor(teacher, weights)
    except ValueError as error:
        raise ValueError(f"the teacher {path} does not fit the groups {', '.join(groups)} here: {error}") from error
    return teacher


def _checkpoint_of(cfg: DistillationConfig) -> Path:
    if not cfg.teacher_run:
        raise ValueError(
            "algorithm.teacher_run is missing; give the folder of the teacher's training run, or one of its checkpoint "
            "files, such as --algorithm.teacher_run logs/<experiment>/<run>"
        )
    path = expand_user(cfg.teacher_run, "algorithm.teacher_run")
    if path.is_dir():
        return find_checkpoint(path, cfg.teacher_checkpoint)
    if not path.is_file():
        raise ValueError(f"algorithm.teacher_run={cfg.teacher_run}: there is no such folder or checkpoint")
    if cfg.teacher_checkpoint != -1:
        raise ValueError(
            f"algorithm.teacher_checkpoint={cfg.teacher_checkpoint} picks a checkpoint of a folder, and teacher_run is "
            "a file; leave it out"
        )
    return path


def _network_of(cfg: DistillationConfig, checkpoint: Path) -> ActorCriticConfig:
    """Return the config of the teacher's networks: that of its run, or ``cfg.teacher`` where the run has left none."""
    path = config_of(checkpoint.parent, iteration_of(checkpoint))
    if not path.is_file():
        return cfg.teacher
    values = read_yaml(path).get("policy", {})
    kind = ActorCriticConfig if isinstance(values, dict) and "kind" in values else type(cfg.teacher)
    try:
        return from_dict(kind, values, "policy")
    except ValueError as error:
        raise ValueError(
            f"{path} of the teacher: {error} Its networks are read as {kind.__name__}; set algorithm.teacher to a "
            "config of their class"
        ) from error
