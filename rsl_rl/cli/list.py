"""Print the names of the tasks: `rsl-rl list`."""

from typing import Sequence

from rsl_rl.cli.errors import FlagParser, program
from rsl_rl.cli.experiments import Experiments


def main(argv: Sequence[str]) -> int:
    description = "Print the names of the tasks, those of other installed packages too."
    FlagParser(prog=program(), description=description).parse_args(argv)
    print("\n".join(Experiments().names()))
    return 0
