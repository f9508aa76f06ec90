"""Check an environment against the VecEnv contract: `rsl-rl check-env my_package.module:make_env`.

The name is a function without arguments, a class or an environment, or the id of a Gymnasium environment. Environments
of earlier versions of rsl_rl are recognised. The report says what training corrects, the line that makes the correction
unnecessary, and the speed. Exit code 1 means that no training is possible.
"""

import argparse
from typing import Any, List, Sequence

from rsl_rl.cli.errors import FlagParser, program, usage_errors
from rsl_rl.cli.experiments import Experiments


def main(argv: Sequence[str]) -> int:
    parser = FlagParser(prog=program(), description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("env", help="package.module:make_env, or the id of a Gymnasium environment")
    parser.add_argument("--num-steps", "--num_steps", type=int, default=100, help="steps to time (default: 100)")
    flags = parser.parse_args(argv)
    with usage_errors():
        from rsl_rl.env import as_vec_env, check_env
        from rsl_rl.env.check import load_env

        if flags.num_steps < 1:
            raise ValueError(f"--num-steps {flags.num_steps}: give a positive number")
        if flags.env in Experiments().names():
            raise ValueError(
                f"{flags.env} is a task, whose environment each training checks: rsl-rl train --task {flags.env}. Give "
                "package.module:make_env, or the id of a Gymnasium environment"
            )
        env = load_env(flags.env)
        try:
            env = as_vec_env(env)
        except TypeError as error:  # of an interface that is not known
            raise ValueError(str(error)) from error
    try:
        report = check_env(env, flags.num_steps)
    except SystemExit as stop:
        print(f"error: the environment ends the process (sys.exit({stop.code!r})); let it raise an error instead")
        return 1
    for line in (*report.lines(), f"optional abilities: {', '.join(abilities(env)) or 'none'}"):
        print(line)
    return 1 if report.error else 0


def abilities(env: Any) -> List[str]:
    """Return the names of the optional abilities of an environment."""
    from rsl_rl.env import protocols

    known = (
        protocols.Resettable,
        protocols.Checkpointable,
        protocols.Mirrored,
        protocols.ReportsFaults,
        protocols.HasEpisodeLengths,
    )
    return [ability.__name__ for ability in known if protocols.supports(env, ability)]
