"""Play a motion on a robot whose trunk hangs fixed on a stand, and write the log for `rsl-rl identify`.

    python excite.py excitation.csv --contract policy.json --driver udp_driver --address 127.0.0.1:9870 \\
        --log stand.csv

Needs robot_loop.py, onnx_policy.py and policy_records.py beside it, numpy and onnxruntime, and a driver as
robot_loop.py does. The motion is that of `rsl-rl identify --excite`; with --robot, design it with the same robot.yaml.
The robot goes to the first row in --stand_seconds, follows the rows, and ends as robot_loop.py ends a run: damping,
then motors off, and the reason in one line. The same causes end it early: a reading that is too old, a missed deadline,
a target beyond its limits, an error of the driver, Ctrl-C.

Watch the first run with a hand on the emergency stop: nothing knows whether legs can touch each other or the stand.
"""

import argparse
import contextlib
import csv
import json
import math
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Mapping, Sequence, TextIO, Tuple

import numpy as np
from onnx_policy import with_robot
from policy_records import READINGS, reading_columns, target_columns
from robot_loop import Driver, connect_driver, drive, run_program, tell_end

LOGGED = {
    **{name: READINGS[name] for name in ("base_quat", "base_ang_vel", "joint_pos", "joint_vel")},
    "joint_torque": ((), " [N m]"),
}
"""Readings that are logged, if the driver has them: the names of their numbers, and the unit."""
MAX_ROWS = 100_000


class Motion:
    """The rows of an excitation, in the place of a policy in :class:`robot_loop.ControlLoop`."""

    def __init__(self, path: Path, contract: Mapping[str, Any], joint_names: Sequence[str], log: Path):
        self.joint_names: List[str] = list(joint_names)
        names, rows = read_motion(path)
        own = list(contract["joint_names"])
        for what, others in (("the motion", names), ("the robot", self.joint_names)):
            if sorted(others) != sorted(own):
                raise ValueError(f"{what} has the joints {others}, the contract {own}: give those of one robot")
        order = [own.index(name) for name in self.joint_names]
        units = contract.get("units", {}).get("joint_pos", "rad")
        factor = 180.0 / math.pi if units == "deg" else 1.0
        self.control_period = float(np.diff(rows[:, 0]).mean())
        self._rows = factor * rows[:, 1:][:, [names.index(name) for name in self.joint_names]]
        self.stiffness, self.damping = (
            np.array(contract[name], np.float32)[order] for name in ("stiffness", "damping")
        )
        self.default_joint_pos = self._rows[0].astype(np.float32)
        self.target_limits = factor * np.array(_limits(contract))[order]
        self.counts: Dict[str, int] = {"rows": 0}
        self._contract, self._log, self._file = contract, log, None
        self.seconds, self.clock = len(rows) * self.control_period, time.monotonic

    def reset(self) -> None:
        """Start with the first row, and a new log; the file is written with the first row of readings."""
        self.counts["rows"] = 0
        if self._file is not None:
            self._file.close()
        self._file = None

    def __call__(self, command: Any = None, **readings: Any) -> np.ndarray:
        """Return the next row, and log it with the readings."""
        targets = self._rows[min(self.counts["rows"], len(self._rows) - 1)]
        self.counts["rows"] += 1
        if self._file is None:
            self._logged = [name for name in LOGGED if readings.get(name) is not None]
            self._file = self._begin()
        parts = [np.asarray(readings[name], float) for name in self._logged]
        row = [f"{self.clock():.6f}", "1", *(f"{x:.9g}" for part in (*parts, targets) for x in part)]
        csv.writer(self._file, lineterminator="\n").writerow(row)
        return targets.astype(np.float32)

    def _begin(self) -> TextIO:
        file, names = self._log.open("w", newline="", encoding="utf-8"), self.joint_names
        header = reading_columns(names, self._contract, {name: LOGGED[name] for name in self._logged})
        header = ["time [s]", "episode", *header, *target_columns(names, self._contract)]
        csv.writer(file, lineterminator="\n").writerow(header)
        return file


def read_motion(path: Path) -> Tuple[List[str], np.ndarray]:
    """Return the names of the joints, and times [s] and targets [rad] as rows [T, 1 + J]."""
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; rsl-rl identify --excite {path.name} writes one")
    with path.open(newline="", encoding="utf-8") as file:
        lines = [row for row in csv.reader(file) if row][: MAX_ROWS + 2]
    header = lines[0] if lines else []
    names = [text[len("target.") : -len(" [rad]")] for text in header[1:]]
    if not names or header != ["time [s]", *(f"target.{name} [rad]" for name in names)] or len(lines) > MAX_ROWS + 1:
        raise ValueError(f"{path} is not a motion of rsl-rl identify --excite: it begins with {str(header)[:80]}")
    try:
        rows = np.array(lines[1:], float)
    except ValueError as error:
        raise ValueError(f"{path} has cells that are not numbers, or rows of different lengths") from error
    even = len(rows) > 10 and rows.shape[1] == len(header) and np.isfinite(rows).all()
    if not even or not np.allclose(np.diff(rows[:, 0]), rows[1, 0] - rows[0, 0], atol=1e-5) or rows[1, 0] <= rows[0, 0]:
        raise ValueError(f"{path} has rows that are not finite or not even in time; write it again")
    return names, rows


def _limits(contract: Mapping[str, Any]) -> np.ndarray:
    """Return lowest and highest target of each joint in the robot's angles [J, 2] [rad]."""
    count = len(contract["joint_names"])
    limits = contract.get("joint_limits")
    if limits is None:
        return np.tile([-np.inf, np.inf], (count, 1))
    signs, zeros = (np.array(contract.get(name, value)) for name, value in (("joint_signs", 1.0), ("joint_zeros", 0.0)))
    return np.sort(signs[..., None] * np.array(limits) + np.reshape(zeros, (-1, 1)), axis=1)


def read_contract(path: Path) -> Dict[str, Any]:
    """Read policy.json; what is no contract is a ValueError."""
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; rsl-rl export writes policy.json beside policy.onnx")
    try:
        contract = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    needed = ("joint_names", "stiffness", "damping")
    if not isinstance(contract, dict) or any(name not in contract for name in needed):
        raise ValueError(f"{path} is not a contract: it needs {', '.join(needed)}")
    return contract


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("motion", type=Path, help="excitation.csv")
    parser.add_argument("--contract", type=Path, required=True, help="policy.json of the robot")
    parser.add_argument("--robot", type=Path, help="robot.yaml of rsl-rl bring-up")
    parser.add_argument("--driver", required=True, help="module with connect(address), or package.module:Class")
    parser.add_argument("--address", default="", help="for the driver, such as 192.168.123.10:8007")
    parser.add_argument("--log", type=Path, required=True, help="CSV file to write")
    parser.add_argument("--stand_seconds", type=float, default=3.0, help="time to reach the first row [s]")
    return parser.parse_args()


def connect(args: argparse.Namespace) -> Tuple[Driver, Motion]:
    """Return driver and motion; what is wrong with the arguments is an Exception, as of the driver's own module."""
    if not 0 <= args.stand_seconds < math.inf:
        raise ValueError(f"--stand_seconds {args.stand_seconds:g}: give a time from 0 s")
    if not args.log.parent.is_dir():
        raise FileNotFoundError(f"--log {args.log}: there is no folder {args.log.parent}")
    contract = read_contract(args.contract)
    read_motion(args.motion)  # before the robot is connected
    driver = connect_driver(args.driver, args.address)
    try:
        names = driver.joint_names()
        if args.robot is not None:
            contract, names = with_robot(contract, args.robot, names)
        return driver, Motion(args.motion, contract, names, args.log)
    except BaseException:
        with contextlib.suppress(BaseException):  # the first error is told
            driver.close()
        raise


def main() -> int:
    args = parse()

    def play(driver: Driver, motion: Motion) -> int:
        reason = drive(driver, motion, (0.0, 0.0, 0.0), motion.seconds, args.stand_seconds)
        motion.reset()
        return tell_end(reason, f"log: {args.log}")

    return run_program("excite.py", lambda: connect(args), play)


if __name__ == "__main__":
    sys.exit(main())
