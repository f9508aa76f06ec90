"""Run an exported policy in plain MuJoCo: `rsl-rl sim-to-sim logs/go2_flat/<run>/exported/policy.onnx`.

The program is one file that imports neither torch nor this package, so it gets a process of its own.
"""

import subprocess
import sys
from pathlib import Path
from typing import Sequence

from rsl_rl.cli.experiments import import_shipped


def main(argv: Sequence[str]) -> int:
    folder = Path(str(import_shipped("rsl_rl_deploy").__file__)).parent
    try:
        return subprocess.call([sys.executable, str(folder / "sim_to_sim.py"), *argv])
    except KeyboardInterrupt:  # the program got it too
        return 130
