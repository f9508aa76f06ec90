"""Evaluate policies of a task that is no legged robot, by the returns of whole episodes."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Sequence, Tuple

from rsl_rl.cli.command_line import Arguments, reject_changed_flags
from rsl_rl.cli.errors import usage_errors

ROBOT_FLAGS = (
    *("num_envs", "seconds", "num_seeds", "pushes", "disturbance", "standing", "curriculum", "command_period"),
    *("terrain", "level", "report"),
)
"""Flags that only legged robots have."""


def evaluate_episodes(found: Sequence[Tuple[Arguments, Path]], flags: Any, seed: int) -> int:
    """Print the returns of each checkpoint, all with the same seed; the last line is JSON."""
    from rsl_rl.evaluation.returns import SamplingPolicy, episode_returns

    results: List[Dict[str, Any]] = []
    with usage_errors():
        no_robot = f"{found[0][0].cfg.task} is no legged robot, whose evaluation counts whole --episodes"
        reject_changed_flags(flags, no_robot, *ROBOT_FLAGS)
        loaded = [(path, *_load(args, path, flags.episodes, seed)) for args, path in found]
    for path, env, policy in loaded:
        acting = SamplingPolicy(policy.policy) if flags.sample_actions else policy.policy
        episodes = episode_returns(env, acting)
        numbers = episodes.summary()
        results.append({**numbers, "env_steps": policy.env_steps, "checkpoint": str(path)})
        print(
            f"{path}: return {numbers['mean_return']:.1f} (standard deviation {numbers['std_return']:.1f}, "
            f"{numbers['min_return']:.1f} to {numbers['max_return']:.1f}), length {numbers['mean_length']:.1f}, "
            f"{numbers['episodes']} episodes"
        )
        if episodes.num_unfinished:
            print(f"note: {episodes.num_unfinished} episodes did not end and were cut off")
    print(json.dumps({**results[0], "checkpoints": results} if len(results) > 1 else results[0]))
    return 0


def _load(args: Arguments, path: Path, episodes: int, seed: int) -> Tuple[Any, Any]:
    """Return an environment with a new instance for each episode, and the policy of a checkpoint."""
    from rsl_rl.env import as_vec_env
    from rsl_rl.runners.loading import load_policy
    from rsl_rl.utils.checkpoints import checkpoint_id
    from rsl_rl.utils.seeding import require_device, seed_everything

    cfg, run = args.cfg, args.run
    assert run is not None  # parse() was told to find one
    require_device("sim_device", cfg.sim_device)
    seed_everything(seed)  # a task may draw from the generators of the process
    policy = load_policy(cfg, cfg.env.build(cfg.sim_device, seed=seed), run, checkpoint_id(path))  # steps this one
    return as_vec_env(replace(cfg.env, num_envs=episodes).build(cfg.sim_device, seed=seed)), policy
