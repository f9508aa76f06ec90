"""Train a network of the motors from a log with torques: `rsl-rl train-actuator stand.csv --contract policy.json`.

The log has columns joint_torque.NAME [N m] beside those of `rsl-rl identify`. Writes the network as TorchScript, and a
file for `rsl-rl train --env.identified actuator.yaml`. The last quarter of each log is held out; the error there is
printed beside those of the contract's PD loop and of a parametric model. The last line is JSON.
"""

import argparse
import json
from pathlib import Path
from typing import Sequence

from rsl_rl.cli.doctor import read_description
from rsl_rl.cli.errors import FlagParser, fail, print_line, program, usage_errors
from rsl_rl.cli.evaluate import report_file


def main(argv: Sequence[str]) -> int:
    parser = FlagParser(prog=program(), description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("logs", type=Path, nargs="+", metavar="LOG", help="CSV files with measured torques")
    parser.add_argument("--contract", type=Path, required=True, help="policy.json of the robot, or policy.onnx")
    parser.add_argument("--robot", type=Path, help="robot.yaml of rsl-rl bring-up, as excite.py has it")
    parser.add_argument("--out", default="actuator.yaml", help="file for trainings; the network is beside it, with .pt")
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--seed", type=int, default=0)
    flags = parser.parse_args(argv)
    with usage_errors():
        if not 1 <= flags.epochs <= 100_000 or flags.seed < 0:
            raise ValueError(f"--epochs {flags.epochs} --seed {flags.seed}: give 1 to 100000 epochs and a seed from 0")
        try:
            return train(flags)
        except ModuleNotFoundError as error:
            fail(f"{error.name} is not installed; install the extra: pip install 'rsl-rl-lib[identify]'")


def train(flags: argparse.Namespace) -> int:
    """Train a network, and write it."""
    from rsl_rl.config.identified import Identified
    from rsl_rl.evaluation.evaluate import finite
    from rsl_rl.hardware.actuator_network import train_actuator
    from rsl_rl.hardware.identification import read_recording
    from rsl_rl.utils.config_io import write_yaml
    from rsl_rl.utils.files import atomic_write

    out = report_file(flags.out, "--out")
    network = out.with_suffix(".pt")
    description = read_description(flags.contract, flags.robot)
    recordings = [read_recording(path, description) for path in flags.logs]
    for recording in recordings:
        for note in recording.notes:
            print_line(f"note: {note}")
    found = train_actuator(recordings, description, flags.epochs, flags.seed, print_line)
    width = max(map(len, found.by_joint))
    print_line(f"{'held-out error [N m]':{max(width, 20)}}  " + "  ".join(f"{name:>16}" for name in found.held_out))
    for joint, errors in {**found.by_joint, "all joints": found.held_out}.items():
        print_line(f"{joint:{max(width, 20)}}  " + "  ".join(f"{error:16.3f}" for error in errors.values()))
    atomic_write(network, found.script)
    robot = str(description.get("robot", ""))
    settings = {"path": network.name, **found.settings}
    logs = tuple(path.name for path in flags.logs)
    write_yaml(
        Identified(robot=robot, joint_names=tuple(description["joint_names"]), logs=logs, actuator=settings), out
    )
    print_line(f"network: {network}; train with --env.identified {out}")
    print(json.dumps(finite({"held_out": found.held_out, "seconds": found.seconds, "file": str(out)})))
    return 0
