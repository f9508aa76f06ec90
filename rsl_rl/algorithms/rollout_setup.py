"""Allocate the storage of a rollout for a policy and a config."""

from __future__ import annotations

from typing import Dict, Iterable, Mapping, Optional

import torch

from rsl_rl.config.algorithm import OnPolicyConfig
from rsl_rl.env.vec_env import Observations, require_group
from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.storage.chunking import ChunkPlan, plan_chunks
from rsl_rl.storage.columns import Column, GroupSpec
from rsl_rl.storage.rollout_storage import RolloutStorage


def group_specs(obs: Observations, names: Iterable[str]) -> Dict[str, GroupSpec]:
    """Return the specs of the groups with these names; a missing one is a ValueError."""
    specs: Dict[str, GroupSpec] = {}
    for name in dict.fromkeys(names):
        require_group(obs, name, "an extension or a teacher reads the group")
        specs[name] = GroupSpec.of(obs[name])
    return specs


def allocate_storage(
    policy: ActorCritic,
    cfg: OnPolicyConfig,
    num_envs: int,
    num_steps: int,
    groups: Mapping[str, GroupSpec],
    extra_columns: Mapping[str, Column],
    device: torch.device,
    extra_step: bool = False,
) -> RolloutStorage:
    """Return the storage for T steps of N environments; one too small for the mini-batches is a ValueError."""
    family, sequences = policy.family, policy.memories != (None, None)
    columns = {name: Column(shape[0]) for name, shape in family.parameter_shapes.items()}
    columns.update({name: columns[name]._replace(shared=True) for name in family.shared_parameters})
    storage = RolloutStorage(
        num_envs,
        num_steps,
        groups,
        None,
        [family.action_size],
        device,
        _plan(cfg, num_steps, sequences),
        {**columns, **extra_columns},
        sequences,
        extra_step,
    )
    batches = storage.batches
    if batches.num_units < cfg.num_mini_batches or num_envs * num_steps < 2:
        raise ValueError(
            f"a rollout of {num_envs} environments x {num_steps} steps has {batches.num_units} {batches.unit} for "
            f"num_mini_batches={cfg.num_mini_batches}; take more environments or steps, or fewer mini-batches"
        )
    return storage


def _plan(cfg: OnPolicyConfig, num_steps: int, sequences: bool) -> Optional[ChunkPlan]:
    if cfg.unroll_len == 0:
        return None
    if not sequences:
        raise ValueError(f"unroll_len={cfg.unroll_len} is for policies with memory; set it to 0 for this one")
    if cfg.unroll_len > num_steps:
        raise ValueError(
            f"unroll_len={cfg.unroll_len} exceeds the {num_steps} steps of a rollout; take at most {num_steps}, "
            "or 0 for all of them"
        )
    return plan_chunks(num_steps, cfg.unroll_len, cfg.last_fn_type, cfg.burn_in)
