"""Algorithms of this version for a policy alone, without an environment."""

from typing import Any, Mapping, Optional, Sequence, Union

from rsl_rl.algorithms.build import build_storage
from rsl_rl.algorithms.extension import Extension, Extensions
from rsl_rl.algorithms.ppo import PPO
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.learn import AccelerationConfig
from rsl_rl.modules.policy import ActorCritic
from rsl_rl.storage.rollout import GroupSpec


def ppo_of(
    policy: ActorCritic,
    num_envs: int,
    num_steps: int,
    groups: Mapping[str, Union[int, GroupSpec]],
    extensions: Sequence[Extension] = (),
    acceleration: Optional[AccelerationConfig] = None,
    **settings: Any,
) -> PPO:
    """Return PPO for observation groups of these sizes; ``settings`` are the fields of :class:`PPOConfig`."""
    cfg = PPOConfig(**settings)
    specs = {name: GroupSpec((size,)) if isinstance(size, int) else size for name, size in groups.items()}
    storage = build_storage(policy, cfg, num_envs, num_steps, specs, Extensions(extensions).columns)
    return PPO(policy, storage, cfg, extensions, acceleration)
