"""Run benchmarks: `python scripts/benchmark.py learner`. The same as `rsl-rl benchmark`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rsl_rl.cli.main import run_script

if __name__ == "__main__":
    sys.exit(run_script("benchmark"))
