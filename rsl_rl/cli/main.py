"""The command `rsl-rl`: choose a subcommand."""

import atexit
import gc
import importlib
import os
import sys
from typing import List, Optional, Sequence

from rsl_rl import __version__
from rsl_rl.cli.errors import (
    Ended,
    FlagParser,
    UsageError,
    discard_output,
    explain_exit,
    is_first_on_machine,
    print_error,
    program,
)
from rsl_rl.cli.experiments import Experiments, find_checkout
from rsl_rl.cli.signals import INTERRUPTED
from rsl_rl.utils.registry import suggest

COMMANDS = {
    "train": "train a policy",
    "play": "show and export a trained policy",
    "audit": "say what the rewards of a task pay, before any training",
    "evaluate": "measure how good trained policies are",
    "export": "write a trained policy as ONNX, TorchScript and C, for a robot",
    "contract": "show, convert and compare what policies need to know of their robot",
    "doctor": "say what is wrong between a policy and its robot, from a log",
    "bring-up": "find how a robot on a stand is wired: joints, signs, zeros, IMU, delays",
    "identify": "find friction, inertia, gains, delay, offsets and load of a robot from its logs",
    "train-actuator": "train a network of the motors from a log with measured torques",
    "sim-to-sim": "run an exported policy in plain MuJoCo, without PyTorch",
    "sim-robot": "simulate a robot behind UDP, to try the loop on the robot",
    "sweep": "search hyper-parameters, with several seeds",
    "benchmark": "measure speed, alone or against another library",
    "motion": "make, read, show and convert motions that a robot is to follow",
    "zoo": "show, evaluate and reproduce trained policies, without training",
    "list": "print the tasks, with a line on each",
    "adopt": "prepare a robot model (URDF or MJCF) for training",
    "check-env": "check an environment of your own",
    "convert-checkpoint": "write a checkpoint for another version of rsl_rl",
}
"""Subcommands; each but list and export is a module of rsl_rl.cli with a function main."""

USAGE = """usage: rsl-rl COMMAND [FLAGS]

{}

`rsl-rl COMMAND --help` explains the flags of a command. `rsl-rl --version` prints the version.""".format(
    "\n".join(f"  {name:18} {what}" for name, what in COMMANDS.items())
)


def main(argv: Optional[Sequence[str]] = None) -> int:
    """Run a subcommand and return its exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    if not words or words[0] in ("-h", "--help"):
        print(USAGE)
        return 0 if words else 2
    if words[0] in ("-V", "--version"):
        print(f"rsl-rl-lib {__version__}")
        return 0
    name = words[0].replace("_", "-")
    if name not in COMMANDS:
        sys.argv[0] = "rsl-rl"  # for messages
        print_error(f"unknown command '{words[0]}'; known: {', '.join(COMMANDS)}.{suggest(name, COMMANDS)}")
        return 2
    sys.argv[0] = f"rsl-rl {name}"  # for messages
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # for --task module:Class, as `python -m` does
    return _run(name, words[1:])


def run_script(name: str) -> int:
    """Run a subcommand for a file of scripts/, which has put the checkout first on the path.

    It becomes the last one, so that packages of other projects, such as ``configs``, are not hidden by its folders.
    """
    root = str(find_checkout())
    sys.path[:] = [*(folder for folder in sys.path if folder != root), root]
    return _run(name, sys.argv[1:])


def _run(name: str, argv: List[str]) -> int:
    atexit.unregister(gc.freeze)  # of an earlier command in this process
    atexit.register(gc.freeze)  # or the last collection of the process looks at every object of torch
    try:
        if name == "list":
            code = print_tasks(argv)
        elif name == "export":
            code = importlib.import_module("rsl_rl.cli.play").export_main(argv)
        else:
            code = importlib.import_module(f"rsl_rl.cli.{name.replace('-', '_')}").main(argv)
        sys.stdout.flush()
        return code
    except BrokenPipeError:  # the reader of the output, such as head, has what it wants
        discard_output()
        return 0
    except KeyboardInterrupt:  # a training saves and ends by itself
        print(f"{program()}: interrupted", file=sys.stderr)
        return INTERRUPTED
    except UsageError as error:
        if is_first_on_machine():
            print_error(error.message)
        return 2
    except Ended:
        raise
    except SystemExit as stop:
        print(f"{program()}: {explain_exit(stop)}", file=sys.stderr)
        return 1


def print_tasks(argv: Sequence[str]) -> int:
    """Print the tasks: `rsl-rl list`."""
    description = "Print the tasks with a line on each, those of other installed packages too."
    FlagParser(prog=program(), description=description).parse_args(argv)
    print("\n".join(Experiments().lines()))
    return 0
