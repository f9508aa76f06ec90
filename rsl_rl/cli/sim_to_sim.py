"""Run an exported policy in plain MuJoCo: `rsl-rl sim-to-sim logs/go2_flat/<run>/exported/policy.onnx`.

The program is one file that imports neither torch nor this package, so it gets a process of its own.
"""

import subprocess
import sys
from pathlib import Path
from typing import Sequence

from rsl_rl.cli.experiments import import_shipped


def main(argv: Sequence[str]) -> int:
    return run_deployed("sim_to_sim.py", argv)


def run_deployed(name: str, argv: Sequence[str]) -> int:
    """Run a program of deploy/ and return its exit code."""
    folder = Path(str(import_shipped("rsl_rl_deploy").__file__)).parent
    try:
        return subprocess.call([sys.executable, str(folder / name), *argv])
    except KeyboardInterrupt:  # the program got it too
        return 130
