"""Build the policy and the storage that a config describes for an environment."""

from __future__ import annotations

from dataclasses import replace
from typing import Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor

from rsl_rl.config.algorithm import OnPolicyConfig
from rsl_rl.config.policy import ActorCriticConfig, MirrorTuple, SymmetricActorCriticConfig
from rsl_rl.env.protocols import Mirrored, supports
from rsl_rl.env.vec_env import Observations, VecEnv, require_group
from rsl_rl.modules.policy import ActorCritic
from rsl_rl.modules.symmetry import joined
from rsl_rl.storage.mini_batches import ChunkPlan, plan_chunks
from rsl_rl.storage.rollout import Column, GroupSpec, RolloutStorage


def build_policy(cfg: ActorCriticConfig, env: VecEnv, obs: Observations) -> ActorCritic:
    """Return the policy for an environment; a config that does not fit is a ValueError."""
    cfg = resolve_mirrors(resolve_groups(cfg, obs), env, obs)
    sizes = [
        sum(obs[group].shape[-1] for group in groups if obs[group].dim() == 2)
        for groups in (cfg.actor_groups, cfg.critic_groups)
    ]
    groups = dict.fromkeys((*cfg.actor_groups, *cfg.critic_groups))
    images = {group: tuple(obs[group].shape[1:]) for group in groups if obs[group].dim() > 2}
    return cfg.build(*sizes, env.num_actions, image_shapes=images)


def zero_actions(cfg: ActorCriticConfig, env: VecEnv) -> Tensor:
    """Return actions [N, A] of zeros, or for a categorical policy the first choice [N, 1]."""
    if cfg.distribution == "categorical":
        return torch.zeros(env.num_envs, 1, dtype=torch.int64, device=env.device)
    return torch.zeros(env.num_envs, env.num_actions, device=env.device)


def resolve_groups(cfg: ActorCriticConfig, obs: Observations) -> ActorCriticConfig:
    """Resolve the observation groups of actor and critic; a missing group, or one that no network can read, is a
    ValueError."""
    critic_groups = cfg.critic_groups or (("critic",) if "critic" in obs.keys() else cfg.actor_groups)  # noqa: SIM118
    for role, groups in (("actor", cfg.actor_groups), ("critic", critic_groups)):
        for group in groups:
            require_group(obs, group, f"{role}_groups names")
            if not 2 <= obs[group].dim() <= 4:
                raise ValueError(
                    f"the group '{group}' has the shape {list(obs[group].shape)}; a network reads vectors [num_envs, "
                    "size], height maps [num_envs, height, width] and images [num_envs, channels, height, width]"
                )
    return replace(cfg, critic_groups=critic_groups)


def resolve_mirrors(cfg: ActorCriticConfig, env: VecEnv, obs: Observations) -> ActorCriticConfig:
    """Fill in the mirror images of a symmetric policy's inputs and outputs from the environment; other configs are
    returned as they are."""
    if not isinstance(cfg, SymmetricActorCriticConfig):
        return cfg
    if not supports(env, Mirrored):
        raise ValueError(
            f"{type(env).__name__} has no mirrors(), which a symmetric policy needs; add the method or take "
            "ActorCriticConfig"
        )
    mirrors = env.mirrors()

    def vectors(groups: Sequence[str]) -> List[str]:
        return [group for group in groups if obs[group].dim() == 2]

    read = dict.fromkeys((*cfg.actor_groups, *cfg.critic_groups))
    resolved = replace(
        cfg,
        actor_mirror=_joined(mirrors, vectors(cfg.actor_groups), env),
        critic_mirror=_joined(mirrors, vectors(cfg.critic_groups), env),
        action_mirror=_joined(mirrors, ("actions",), env),
        image_mirrors={group: _joined(mirrors, (group,), env) for group in read if obs[group].dim() > 2},
    )
    for name in ("actor_mirror", "critic_mirror", "action_mirror"):
        if getattr(cfg, name) not in (((), ()), getattr(resolved, name)):
            raise ValueError(f"policy.{name} is set by hand; leave it empty, the environment's mirrors() fill it")
    return resolved


def _joined(mirrors: Mapping[str, Tuple[Tensor, Tensor]], groups: Sequence[str], env: VecEnv) -> MirrorTuple:
    """Put the mirror images of some groups side by side."""
    pairs: List[MirrorTuple] = []
    for group in groups:
        try:
            index, sign = (tuple(part.tolist()) for part in mirrors[group])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ValueError(
                f"{type(env).__name__}.mirrors() has no pair of tensors (index, sign) for '{group}'; give one for each "
                "group that the policy reads, and for 'actions'"
            ) from None
        pairs.append((index, sign))
    return joined(*pairs)


def group_specs(obs: Observations, names: Iterable[str]) -> Dict[str, GroupSpec]:
    """Return the specs of the groups with these names; a missing one is a ValueError."""
    specs: Dict[str, GroupSpec] = {}
    for name in dict.fromkeys(names):
        require_group(obs, name, "an extension or a teacher reads the group")
        specs[name] = GroupSpec.of(obs[name])
    return specs


def build_storage(
    policy: ActorCritic,
    cfg: OnPolicyConfig,
    num_envs: int,
    num_steps: int,
    groups: Mapping[str, GroupSpec],
    extra_columns: Mapping[str, Column],
    storage_class: Callable[..., RolloutStorage] = RolloutStorage,
) -> RolloutStorage:
    """Return the storage for T steps of N environments; one too small for the mini-batches is a ValueError.

    It has the parameters of the policy's distribution, and ``extra_columns``, beside the standard columns.
    """
    family, sequences = policy.family, policy.memories != (None, None)
    columns = {name: Column(shape[0]) for name, shape in family.parameter_shapes.items()}
    columns.update({name: columns[name]._replace(shared=True) for name in family.shared_parameters})
    device, plan = next(policy.parameters()).device, _plan(cfg, num_steps, sequences)
    every = {**columns, **extra_columns}
    storage = storage_class(num_envs, num_steps, groups, family.action_size, every, device, plan, sequences)
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
