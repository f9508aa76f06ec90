"""Whether a policy that is trained with what `rsl-rl identify` found does better on the robot.

    python -m benchmarks.identify_transfer --robots 0 1 2 --seeds 1 2 3
    python -m benchmarks.identify_transfer --robots 0 --seeds 1 --variants identified --more --max_iterations 100
    python -m benchmarks.identify_transfer --table

Each hidden robot (benchmarks/identify_robot.py) has weaker motors, friction, a delay and a payload. It is identified
from a log on a stand and one of walking with the zoo's policy. A policy is trained with the model's numbers, and three
go on from it with equal samples: with the same numbers ("nominal"), with wide ranges of all parameters ("wide"), and
within the intervals found ("identified"). Each is then evaluated under a joystick on the hidden robot. Results are
appended to --folder; what is there is left out, so the parts can be run one by one.
"""

from __future__ import annotations

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
import argparse
import json
from pathlib import Path

import mujoco
import numpy as np

from benchmarks.identify import POLICY, excitation
from benchmarks.identify_robot import HiddenRobot, draw_hidden, log_excitation, log_walk
from benchmarks.runs import ROOT, add_result, read_results, rsl_rl, trained
from deploy.onnx_policy import open_onnx
from rsl_rl.config.identified import ROBOT, Identified
from rsl_rl.hardware.identification import identify, read_recording
from rsl_rl.hardware.identification.report import identified_of
from rsl_rl.utils.config_io import write_yaml

VARIANTS = ("nominal", "wide", "identified")
WIDE = {
    "armature": (0.005, 0.03),
    "motor_strength": (0.6, 1.1),
    "viscous_friction": (0.0, 0.5),
    "joint_friction": (0.0, 0.8),
    "encoder_offset": (-0.06, 0.06),
    "action_delay": (0.0, 0.035),
    "payload": (-1.0, 5.0),
}
"""Ranges of the policy with wide randomisation, which contain the hidden robots."""


def hidden_robot(number, description):
    """Return the hidden parameters of a robot that is harder than the model in each respect."""
    rng = np.random.default_rng([number, 41])
    model = mujoco.MjModel.from_xml_path(str(ROOT / description["simulation"]["model"]))
    hidden = draw_hidden(rng, description, model)
    joints = len(description["joint_names"])
    hidden.update(
        motor_strength=np.full(joints, rng.uniform(0.65, 0.8)),
        joint_friction=rng.uniform(0.3, 0.7) * np.ones(joints),
        action_delay=np.array([0.001 * round(rng.uniform(15, 25))]),
        payload=np.array([rng.uniform(2.0, 4.0)]),
        torque_limit=np.array(description["torque_limits"]),
    )
    return hidden, rng


def file_of(values, description, path):
    """Write values, or ranges, as a file for --env.identified."""
    names = list(description["joint_names"])
    keys = {"action_delay": [ROBOT], "payload": [ROBOT], "trunk_com": list("xyz")}
    parameters = {}
    for kind, value in values.items():
        own = keys.get(kind, names)
        low, high = value if isinstance(value, tuple) else (value, value)
        low, high = np.broadcast_to(low, len(own)), np.broadcast_to(high, len(own))
        parameters[kind] = {key: (0.5 * (a + b), a, b) for key, a, b in zip(own, low, high)}
    model = {"viscous_friction": dict.fromkeys(names, 0.1), "armature": dict.fromkeys(names, 0.01)}
    write_yaml(Identified(robot="go2", joint_names=tuple(names), parameters=parameters, model=model), path)


def prepare(number, folder, variants):
    """Write the files of a robot: its truth, and what the variants train with."""
    description, network = open_onnx(POLICY)
    description = {**description, "robot": "go2"}
    hidden, rng = hidden_robot(number, description)
    kinds = [*WIDE, "trunk_com"]
    truth = {kind: hidden[kind] for kind in kinds}
    truth["action_delay"] = hidden["action_delay"] + hidden["sensing_delay"]
    file_of(truth, description, folder / f"truth_{number}.yaml")
    nominal = {"motor_strength": 1.0, "viscous_friction": 0.1, "action_delay": 0.0, "payload": 0.0}
    file_of(nominal, description, folder / "nominal.yaml")
    file_of(WIDE, description, folder / "wide.yaml")
    found = folder / f"identified_{number}.yaml"
    if "identified" in variants and not found.is_file():
        targets, period = excitation(description, folder)
        log_excitation(HiddenRobot(description, hidden, rng, True), targets, period, folder / "stand.csv")
        log_walk(HiddenRobot(description, hidden, rng, False), network, rng, folder / "walk.csv", 20.0)
        logs = [read_recording(folder / name, description) for name in ("stand.csv", "walk.csv")]
        result = identify(logs, description, ROOT / description["simulation"]["model"], progress=print)
        write_yaml(identified_of(result, description), found)


def measure(number, seed, variant, folder, hours, more):
    """Train a variant, evaluate it on the hidden robot, and return the numbers."""
    base = trained("base", seed, folder, "--env.identified", str(folder / "nominal.yaml"), *more)
    file = folder / {"nominal": "nominal.yaml", "wide": "wide.yaml"}.get(variant, f"identified_{number}.yaml")
    name = variant if variant != "identified" else f"identified_{number}"  # nominal and wide serve for all robots
    run = trained(name, seed, folder, "--env.identified", str(file), "--init_from", str(base), *more)
    truth = ["--env.identified", str(folder / f"truth_{number}.yaml")]
    place = ["--log_root", str(folder / "logs"), "--load_run", run.name]
    test = ["--joystick", "--robot_hours", str(hours), "--report", "none"]
    result = json.loads(rsl_rl("evaluate", "--task", "go2_flat", *place, *truth, *test))
    return {"robot": number, "seed": seed, "variant": variant, "joystick": result.get("joystick", result)}


def table(results):
    """Return hours between failures, of all seeds together, and errors, as lines of Markdown."""
    lines = [
        "| robot | variant | seeds | failures | hours between failures | error of the velocity [m/s] |",
        "|---|---|---|---|---|---|",
    ]
    for number, variant in sorted({(one["robot"], VARIANTS.index(one["variant"])) for one in results}):
        name = VARIANTS[variant]
        own = [one["joystick"]["without pushes"] for one in results if (one["robot"], one["variant"]) == (number, name)]
        failures = sum(sum(times.values()) for one in own for times in one["failures"].values())
        hours, error = sum(one["robot_hours"] for one in own), np.mean([one["lin_vel_error"] for one in own])
        between = f"{hours / failures:.3g}" if failures else f"more than {hours:.3g}"
        lines.append(f"| {number} | {name} | {len(own)} | {failures} | {between} | {error:.3f} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS)
    parser.add_argument("--robot_hours", type=float, default=4.0)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "identify")
    parser.add_argument("--table", action="store_true", help="print what was measured so far")
    parser.add_argument("--more", nargs=argparse.REMAINDER, default=[], help="further flags of the trainings")
    args = parser.parse_args()
    args.folder = args.folder.resolve()
    args.folder.mkdir(parents=True, exist_ok=True)
    path = args.folder / "transfer.jsonl"
    there = read_results(path)
    if args.table:
        print("\n".join(table(there)))
        return
    done = {(one["robot"], one["seed"], one["variant"]) for one in there}
    for number in args.robots:
        prepare(number, args.folder, args.variants)
        for seed in args.seeds:
            for variant in args.variants:
                if (number, seed, variant) not in done:
                    result = measure(number, seed, variant, args.folder, args.robot_hours, args.more)
                    add_result(path, result)
                    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
