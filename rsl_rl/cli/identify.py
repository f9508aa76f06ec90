"""Find friction, inertia, gains, delay and load of a robot: `rsl-rl identify stand.csv --contract policy.json`.

Reads logs of the robot, hanging on a stand with its trunk fixed while it follows an excitation, or walking with a
policy; several together tell more. Estimates the parameters by simulation, says with intervals which of them the logs
determine, and writes identified.yaml for `rsl-rl train --env.identified identified.yaml`.

    rsl-rl identify --excite excitation.csv --contract policy.json

designs the motion for the stand, which excite.py plays on the robot's computer. The last line is JSON. The exit code is
2 for logs that cannot serve; nothing is written then.
"""

import argparse
import json
from pathlib import Path
from typing import Any, Dict, Sequence

from rsl_rl.cli.doctor import read_robot
from rsl_rl.cli.errors import FlagParser, fail, print_line, program, usage_errors
from rsl_rl.cli.evaluate import report_file

LARGEST_SHARE, LARGEST_SECONDS = 1.5, 120.0


def main(argv: Sequence[str]) -> int:
    parser = FlagParser(prog=program(), description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "logs", type=Path, nargs="*", metavar="LOG", help="CSV files of excite.py or of the policy's runner"
    )
    parser.add_argument("--contract", type=Path, required=True, help="policy.json of the robot, or policy.onnx")
    parser.add_argument("--robot", type=Path, help="robot.yaml of rsl-rl bring-up, as excite.py has it")
    parser.add_argument("--model", type=Path, help="MJCF file of the robot on a floor; the contract's own without it")
    parser.add_argument("--out", default="identified.yaml", help="file for trainings; identified.yaml without it")
    parser.add_argument("--report", help="write a page (HTML) with plots of the motion")
    parser.add_argument(
        "--per",
        choices=("joint", "group"),
        default="joint",
        help="a number for each joint, or for the same joint of all legs",
    )
    parser.add_argument(
        "--support",
        choices=("auto", "stand", "floor"),
        default="auto",
        help="what carries the robot; auto tells by the motion",
    )
    parser.add_argument("--excite", help="write the best motion for a robot on a stand as CSV, instead of reading logs")
    parser.add_argument("--seconds", type=float, default=20.0, help="of the motion: its length [s]")
    parser.add_argument("--amplitude", type=float, default=0.4, help="of the motion: largest angle from the pose [rad]")
    parser.add_argument(
        "--torque_share", "--share", type=float, default=0.5, help="of the motion: largest share of the torque limits"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the motion")
    flags = parser.parse_args(argv)
    with usage_errors():
        if bool(flags.logs) == (flags.excite is not None):
            raise ValueError("give logs to read, or --excite FILE to design a motion")
        try:
            description, model = read_robot(flags.contract, flags.model, flags.robot)
            return excite(flags, description, model) if flags.excite is not None else find(flags, description, model)
        except ModuleNotFoundError as error:
            fail(f"{error.name} is not installed; install the extra: pip install 'rsl-rl-lib[identify]'")


def find(flags: Any, description: Dict[str, Any], model: Path) -> int:
    """Identify a robot, and write what was found."""
    from rsl_rl.evaluation.evaluate import finite
    from rsl_rl.hardware.identification import identify, read_recording
    from rsl_rl.hardware.identification.report import identified_of, lines, report_html
    from rsl_rl.utils.config_io import write_yaml
    from rsl_rl.utils.files import atomic_write

    report = None if flags.report is None else report_file(flags.report)
    out = report_file(flags.out, "--out")
    recordings = [read_recording(path, description) for path in flags.logs]
    found = identify(recordings, description, model, flags.per, flags.support, print_line)
    for line in lines(found):
        print_line(line)
    content = identified_of(found, description)
    if not content.parameters:
        fail("the logs determine no parameter; nothing is written: log an excitation (rsl-rl identify --excite)")
    title = f"{description.get('robot') or 'robot'}: what the logs determine"
    write_yaml(content, out)
    print_line(f"identified: {out}; train with --env.identified {out}")
    if report is not None:
        atomic_write(report, report_html(title, found).encode())
        print_line(f"report: {report}")
    numbers = {one.parameter.label: [one.value, one.low, one.high] for one in found.estimates if one.is_determined}
    undetermined = [one.parameter.label for one in found.estimates if not one.is_determined]
    told = {"determined": numbers, "undetermined": undetermined, "error_before": found.error_before}
    print(json.dumps(finite({**told, "error_after": found.error_after, "file": str(out)})))
    return 0


def excite(flags: Any, description: Dict[str, Any], model: Path) -> int:
    """Design a motion, and write it."""
    from rsl_rl.hardware.identification.excitation import Limits, design, excitation_csv
    from rsl_rl.utils.files import atomic_write

    out = report_file(flags.excite, "--excite")
    if not 4.0 < flags.seconds <= LARGEST_SECONDS:
        raise ValueError(f"--seconds {flags.seconds:g}: give more than 4 s, at most {LARGEST_SECONDS:g} s")
    if not 0.02 <= flags.amplitude <= 2.0:
        raise ValueError(f"--amplitude {flags.amplitude:g}: give 0.02 to 2 rad")
    if not 0.02 <= flags.torque_share <= LARGEST_SHARE:
        raise ValueError(f"--torque_share {flags.torque_share:g}: give 0.02 to {LARGEST_SHARE:g}")
    if flags.seed < 0:
        raise ValueError(f"--seed {flags.seed}: give a seed from 0")
    limits = Limits(flags.amplitude, flags.torque_share)
    found = design(description, model, flags.seconds, limits=limits, seed=flags.seed, progress=print_line)
    atomic_write(out, excitation_csv(found, description))
    print_line(
        f"the model needs {100 * found.torque_share:.0f} % of the torque limits, and turns joints with up to "
        f"{found.speed:.1f} rad/s"
    )
    print_line(f"it is not expected to determine: {', '.join(found.undetermined) or 'nothing'}")
    print_line(f"motion: {out}; hang the robot on a stand, with its trunk fixed, and play it:")
    wiring = "" if flags.robot is None else f" --robot {flags.robot}"
    print_line(
        f"    python excite.py {out.name} --contract {flags.contract}{wiring} --driver DRIVER --address ADDRESS "
        "--log stand.csv"
    )
    told = {"file": str(out), "torque_share": found.torque_share, "speed": found.speed}
    print(json.dumps({**told, "undetermined": list(found.undetermined)}))
    return 0
