"""Write a checkpoint for another version of rsl_rl: `rsl-rl convert-checkpoint IN OUT --to 5.4`.

IN is a checkpoint of this package or of rsl_rl 1.0 to 5.5. OUT is a file of the version of --to, or of this package
with --to native. Weights, running statistics, optimiser and iteration are converted.
"""

import argparse
from pathlib import Path
from typing import Sequence

from rsl_rl.cli.errors import FlagParser, program, usage_errors


def main(argv: Sequence[str]) -> int:
    parser = FlagParser(prog=program(), description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("source", metavar="IN", type=Path, help="checkpoint to read, such as model_1500.pt")
    parser.add_argument("target", metavar="OUT", type=Path, help="file to write; it must not exist")
    parser.add_argument("--to", required=True, metavar="VERSION", help="1.0 to 5.5, such as 2.3 or 5.4, or native")
    flags = parser.parse_args(argv)
    with usage_errors():
        from rsl_rl.compat import convert_checkpoint

        if flags.target.exists():
            raise ValueError(f"{flags.target} exists; name a new file")
        convert_checkpoint(flags.source, flags.target, flags.to)
    print(f"{flags.target}: {flags.source} for {'this package' if flags.to == 'native' else f'rsl_rl {flags.to}'}")
    return 0
