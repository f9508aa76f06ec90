"""Check an environment against the VecEnv contract: `rsl-rl check-env my_package.module:make_env`.

The name is a function without arguments, or a class, that returns the environment. Exit code 1 means that training
cannot use it.
"""

import argparse
import time
from typing import TYPE_CHECKING, Any, List, Sequence

from rsl_rl.cli.errors import FlagParser, program, usage_errors

if TYPE_CHECKING:
    from rsl_rl.env import VecEnv


def main(argv: Sequence[str]) -> int:
    parser = FlagParser(prog=program(), description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("env", help="package.module:make_env")
    parser.add_argument("--num-steps", "--num_steps", type=int, default=100, help="steps to time (default: 100)")
    flags = parser.parse_args(argv)
    with usage_errors():
        from rsl_rl.env import ContractError, check_vec_env
        from rsl_rl.utils.registry import import_object

        if flags.num_steps < 1:
            raise ValueError(f"--num-steps {flags.num_steps}: give a positive number")
        make_env = import_object(flags.env)
        if not callable(make_env):
            raise ValueError(
                f"{flags.env} is a {type(make_env).__name__}; name a function that returns the environment"
            )
    env: Any = make_env()
    try:
        corrections = check_vec_env(env)
    except ContractError as error:
        print(f"{type(env).__name__} cannot be trained in:\n{error}")
        return 1
    for line in describe(env):
        print(line)
    for correction in corrections:
        print(f"corrected by the runner: {correction}")
    print(f"{measure_speed(env, flags.num_steps):,.0f} steps per second ({env.num_envs} environments)")
    return 0


def describe(env: "VecEnv") -> List[str]:
    """Return lines on sizes, observation groups and optional abilities of an environment."""
    from rsl_rl.env import protocols

    known = (
        protocols.Resettable,
        protocols.Checkpointable,
        protocols.Mirrored,
        protocols.ReportsFaults,
        protocols.HasEpisodeLengths,
    )
    abilities = [ability.__name__ for ability in known if isinstance(env, ability)]
    groups = env.get_observations()
    return [
        f"{type(env).__name__}: {env.num_envs} environments with {env.num_actions} actions on {env.device}",
        *(f"observation group '{name}': {list(groups[name].shape)} {groups[name].dtype}" for name in groups.keys()),  # noqa: SIM118
        f"optional abilities: {', '.join(abilities) or 'none'}",
    ]


def measure_speed(env: Any, num_steps: int) -> float:
    """Return how many steps of single environments a second has, with actions of zero."""
    import torch

    actions = torch.zeros(env.num_envs, env.num_actions, device=env.device)
    began = time.perf_counter()
    for _ in range(num_steps):
        env.step(actions.clone())
    if actions.is_cuda:
        torch.cuda.synchronize(actions.device)
    return num_steps * env.num_envs / (time.perf_counter() - began)
