"""Fit a policy's config to the environment that it will act in."""

from __future__ import annotations

from dataclasses import replace
from typing import List, Mapping, Sequence, Tuple

from torch import Tensor

from rsl_rl.config.policy import ActorCriticConfig, MirrorTuple, SymmetricActorCriticConfig
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.utils.registry import suggest


def resolve_groups(cfg: ActorCriticConfig, obs: Observations) -> ActorCriticConfig:
    """Settle which observation groups actor and critic read; a missing one, or one not [N, size], is a ValueError."""
    critic_groups = cfg.critic_groups or (("critic",) if "critic" in obs.keys() else cfg.actor_groups)  # noqa: SIM118
    for role, groups in (("actor", cfg.actor_groups), ("critic", critic_groups)):
        for group in groups:
            if group not in obs.keys():  # noqa: SIM118
                known = sorted(obs.keys())
                raise ValueError(
                    f"{role}_groups names '{group}', and the environment gives {', '.join(known)}."
                    f"{suggest(group, known)}"
                )
            if obs[group].dim() != 2:
                raise ValueError(
                    f"the group '{group}' has the shape {list(obs[group].shape)}; a network reads [num_envs, size], so "
                    "flatten it in the environment"
                )
    return replace(cfg, critic_groups=critic_groups)


def resolve_mirrors(cfg: ActorCriticConfig, env: VecEnv) -> ActorCriticConfig:
    """Ask the environment how a symmetric policy's inputs and outputs look in a mirror; others stay as they are."""
    if not isinstance(cfg, SymmetricActorCriticConfig):
        return cfg
    ask_mirrors = getattr(env, "mirrors", None)
    if ask_mirrors is None:
        raise ValueError(
            f"{type(env).__name__} has no mirrors(), which a symmetric policy needs; add the method or take "
            "ActorCriticConfig"
        )
    mirrors = ask_mirrors()
    resolved = replace(
        cfg,
        actor_mirror=_joined(mirrors, cfg.actor_groups, env),
        critic_mirror=_joined(mirrors, cfg.critic_groups, env),
        action_mirror=_joined(mirrors, ("actions",), env),
    )
    for name in ("actor_mirror", "critic_mirror", "action_mirror"):
        if getattr(cfg, name) not in (((), ()), getattr(resolved, name)):
            raise ValueError(f"policy.{name} is set by hand; leave it empty, the environment's mirrors() fill it")
    return resolved


def _joined(mirrors: Mapping[str, Tuple[Tensor, Tensor]], groups: Sequence[str], env: VecEnv) -> MirrorTuple:
    """Put the mirror images of some groups side by side."""
    index: List[int] = []
    sign: List[float] = []
    for group in groups:
        try:
            group_index, group_sign = (part.tolist() for part in mirrors[group])
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ValueError(
                f"{type(env).__name__}.mirrors() has no pair of tensors (index, sign) for '{group}'; give one for each "
                "group that the policy reads, and for 'actions'"
            ) from None
        index += [len(sign) + i for i in group_index]
        sign += group_sign
    return tuple(index), tuple(sign)
