"""Measure this library, alone or against another: `python scripts/benchmark.py learner --peer PATH`.

Prints a table and ends with one line of JSON. Let nothing else run meanwhile.
"""

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import tyro

from benchmarks.learner import Learner, measure
from scripts.command_line import one_line_complaints, usage_errors


def main() -> int:
    try:
        with usage_errors():
            with one_line_complaints():
                cfg = tyro.extras.subcommand_cli_from_dict(
                    {"learner": Learner}, description=__doc__, use_underscores=True
                )
            result = measure(cfg)
    except RuntimeError as error:
        print(f"benchmark.py: failed: {error}", file=sys.stderr)
        return 1
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
