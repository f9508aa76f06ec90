"""How well `rsl-rl identify` finds the hidden parameters of simulated robots.

    python -m benchmarks.identify stand --robots 0 100      hanging on a stand, following the excitation
    python -m benchmarks.identify walk --robots 0 20        walking with the policy of the zoo
    python -m benchmarks.identify both --robots 0 20        both logs together
    python -m benchmarks.identify table stand walk both     print what was measured so far
    python -m benchmarks.identify actuator                  a network of motors with friction and backlash

Each robot has parameters drawn at random (benchmarks/identify_robot.py) and sensors with the noise of
benchmarks/doctor_robot.py; its physics step is 0.25 ms. Results are appended to --folder robot by robot, and robots
that are there are left out, so that a run can be interrupted and continued. A parameter counts as not determined by the
log if nothing in the log depends on it: payload, centre of mass and floor friction on a stand, and a limit of the
torque that the hidden robot reached in no physics step.
"""

from __future__ import annotations

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
import argparse
import json
import time
from pathlib import Path

import mujoco
import numpy as np

from benchmarks.identify_robot import BacklashRobot, HiddenRobot, draw_hidden, log_excitation, log_walk
from benchmarks.runs import ROOT, add_result, read_results
from deploy.onnx_policy import open_onnx
from rsl_rl.hardware.actuator_network import train_actuator
from rsl_rl.hardware.identification import identify, read_recording
from rsl_rl.hardware.identification.excitation import Limits, design

POLICY = ROOT / "zoo" / "go2_flat" / "policy.onnx"
SECONDS = {"stand": 12.0, "walk": 20.0}
LIMITS = {
    "armature": ("relative", 0.10),
    "motor_strength": ("relative", 0.10),
    "viscous_friction": ("relative", 0.10),
    "joint_friction": ("relative", 0.10),
    "action_delay": ("absolute", 0.001),
    "encoder_offset": ("absolute", 0.01),
    "payload": ("of the robot's mass", 0.05),
    "trunk_com": ("absolute", 0.01),
    "friction": ("absolute", 0.15),
    "torque_limit": ("relative", 0.10),
}
"""Limits of the median error of each kind, and what they are of."""


def excitation(description, folder):
    """Return the targets of the excitation [T, J] and its period, designed once."""
    path = folder / "excitation.npz"
    if not path.is_file():
        model = ROOT / description["simulation"]["model"]
        found = design(description, model, SECONDS["stand"], candidates=8, progress=print)
        np.savez(path, targets=found.targets, period=found.period)
    content = np.load(path)
    return content["targets"], float(content["period"])


def measure(kind, number, description, network, folder):
    """Identify one hidden robot, and return what was found beside the truth."""
    rng = np.random.default_rng([number, 40])
    path = ROOT / description["simulation"]["model"]
    model = mujoco.MjModel.from_xml_path(str(path))
    hidden = draw_hidden(rng, description, model)
    recordings, robots, falls = [], [], 0
    if kind in ("stand", "both"):
        targets, period = excitation(description, folder)
        log = folder / f"{kind}_{number}_stand.csv"
        robots.append(HiddenRobot(description, hidden, rng, True))
        log_excitation(robots[-1], targets, period, log)
        recordings.append(read_recording(log, description))
    if kind in ("walk", "both"):
        log = folder / f"{kind}_{number}_walk.csv"
        robots.append(HiddenRobot(description, hidden, rng, False))
        falls = log_walk(robots[-1], network, rng, log, SECONDS["walk"])
        recordings.append(read_recording(log, description))
    wall, cpu = time.perf_counter(), time.process_time()
    found = identify(recordings, description, path)
    seconds = time.perf_counter() - wall, time.process_time() - cpu
    truth = {**hidden, "action_delay": hidden["action_delay"] + hidden["sensing_delay"]}
    reached, rows = np.any([robot.reached for robot in robots], axis=0), []
    for one in found.estimates:
        true = float(np.mean(truth[one.parameter.kind][list(one.parameter.places)]))
        has_effect = not (
            (kind == "stand" and one.parameter.kind in ("payload", "trunk_com", "friction"))
            or (one.parameter.kind == "torque_limit" and not reached[list(one.parameter.places)].any())
        )
        rows.append(
            [one.parameter.kind, one.parameter.name, true, one.value, one.low, one.high, one.is_determined, has_effect]
        )
    return {
        "robot": number, "falls": falls, "wall_s": seconds[0], "cpu_s": seconds[1],
        "mass": float(model.body_mass.sum()),
        "supports": found.supports, "error_before": found.error_before, "error_after": found.error_after, "rows": rows,
    }  # fmt: skip


def run(kind, robots, folder):
    """Measure robots that are not there yet."""
    description, network = open_onnx(POLICY)
    there = {one["robot"] for one in read_results(folder / f"{kind}.jsonl")}
    for number in range(*robots):
        if number in there:
            continue
        result = measure(kind, number, description, network, folder)
        add_result(folder / f"{kind}.jsonl", result)
        print(f"{kind} {number}: {result['cpu_s']:.1f} s of CPU, {result['wall_s']:.1f} s", flush=True)


def table(kind, folder):
    """Print coverage and errors by kind of parameter."""
    results = read_results(folder / f"{kind}.jsonl")
    rows = [(one["mass"], *row) for one in results for row in one["rows"]]
    print(f"\n{kind}: {len(results)} robots; {np.median([one['cpu_s'] for one in results]):.1f} s of CPU each (median)")
    print("| parameter | determined | in the 90 % interval | median error | limit |\n|---|---|---|---|---|")
    for name, (what, limit) in LIMITS.items():
        own = [row for row in rows if row[1] == name]
        good = [row for row in own if row[7]]
        scale = {"relative": lambda row: abs(row[3]), "absolute": lambda row: 1.0}.get(what, lambda row: row[0])
        errors = [abs(row[4] - row[3]) / scale(row) for row in good]
        inside = [row[5] <= row[3] <= row[6] for row in good]
        cells = [f"{np.mean(inside):.1%}", f"{np.median(errors):.4g} ({what})"] if good else ["", ""]
        print(f"| {name} | {len(good)} of {len(own)} | {cells[0]} | {cells[1]} | {limit:g} |")
    good = [row for row in rows if row[7]]
    print(f"all determined parameters: {np.mean([row[5] <= row[3] <= row[6] for row in good]):.1%} in their intervals")
    none = [row for row in rows if not row[8]]
    if none:
        print(f"not determined by the log: {len(none)}, named as such {np.mean([not row[7] for row in none]):.1%}")


def actuator(folder):
    """Train a network of motors with friction and backlash, and print its error on held-out rows."""
    description, _ = open_onnx(POLICY)
    rng = np.random.default_rng(40)
    model = ROOT / description["simulation"]["model"]
    log = folder / "backlash.csv"
    found = design(description, model, 24.0, limits=Limits(amplitude=0.5), candidates=2, seed=1)
    log_excitation(BacklashRobot(description, rng, True), found.targets, found.period, log)
    result = train_actuator([read_recording(log, description)], description, progress=print)
    print(json.dumps({"held_out": result.held_out, "ratio": result.held_out["PD"] / result.held_out["network"]}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=("stand", "walk", "both", "table", "actuator"))
    parser.add_argument("--robots", type=int, nargs=2, default=(0, 100), metavar=("FIRST", "END"))
    parser.add_argument("--folder", type=Path, default=Path("build/identify"))
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for part in args.parts:
        if part == "actuator":
            actuator(args.folder)
        elif part != "table" and "table" in args.parts:
            table(part, args.folder)
        elif part != "table":
            run(part, args.robots, args.folder)


if __name__ == "__main__":
    main()
