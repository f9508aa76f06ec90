"""Run an exported policy in plain MuJoCo: `rsl-rl sim-to-sim logs/go2_flat/<run>/exported/policy.onnx`.

The program is one file that imports neither torch nor this package, so it gets a process of its own.
"""

import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Sequence

from rsl_rl.cli.errors import Ended
from rsl_rl.cli.experiments import import_shipped
from rsl_rl.cli.signals import INTERRUPTED, TERMINATED


def main(argv: Sequence[str]) -> int:
    return run_deployed("sim_to_sim.py", argv)


def run_deployed(name: str, argv: Sequence[str]) -> int:
    """Run a program of deploy/ and return its exit code; Ctrl-C and SIGTERM end the program too."""
    folder = Path(str(import_shipped("rsl_rl_deploy").__file__)).parent
    former = signal.signal(signal.SIGTERM, _leave)
    try:
        with subprocess.Popen([sys.executable, str(folder / name), *argv]) as program:
            try:
                return program.wait()
            finally:
                _end(program)
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        signal.signal(signal.SIGTERM, former)


def _leave(number: int, frame: Any) -> None:
    raise Ended(TERMINATED)


def _end(program: "subprocess.Popen[bytes]") -> None:
    """End a program that still runs; Ctrl-C in a terminal has reached it already."""
    try:
        program.wait(timeout=0.5)
    except subprocess.TimeoutExpired:
        program.terminate()
