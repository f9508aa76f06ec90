"""Evaluate trained policies: `python scripts/evaluate.py --task go2_flat`. The same as `rsl-rl evaluate`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from rsl_rl.cli.main import run_script

if __name__ == "__main__":
    sys.exit(run_script("evaluate"))
