"""Whether a policy that is trained with a network of the motors does better on the robot than one trained without.

    python -m benchmarks.actuator_transfer --seeds 1 2 3
    python -m benchmarks.actuator_transfer --table

The robot has motors with an inertia and friction of their own, and gears with backlash (WORN in
benchmarks/identify_robot.py). `rsl-rl train-actuator` trains the network from a log of 24 s on a stand and one of 60 s
of walking, for the legs of a robot on a stand carry nothing. Policies are trained with the PD loops of the task and
with the network, with equal samples; each walks on the robot with commands as JoystickCommands draws them. Failures are
those of `rsl-rl evaluate --joystick`. Results are appended to --folder, and what is there is left out.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

import numpy as np
import torch

from benchmarks.identify import POLICY
from benchmarks.identify_robot import WORN, BacklashRobot, log_excitation, log_loaded_walk
from benchmarks.runs import ROOT, add_result, read_results, rsl_rl, trained
from deploy.onnx_policy import Policy, PolicyStoppedError, open_onnx
from rsl_rl.evaluation.endurance import FAILURES, FailureJudge
from rsl_rl.hardware.identification.excitation import Limits, design
from rsl_rl.utils.mujoco_model import without_log

VARIANTS = ("PD", "network")


def prepare(folder):
    """Write the network of the robot's motors, trained from a log on a stand and one of walking."""
    out = folder / "actuator.yaml"
    if not out.is_file():
        description, network = open_onnx(POLICY)
        model, stand, walking = ROOT / description["simulation"]["model"], folder / "stand.csv", folder / "walk.csv"
        found = design(description, model, 24.0, limits=Limits(amplitude=0.5), candidates=2, seed=1)
        rng = np.random.default_rng(40)
        log_excitation(BacklashRobot(description, rng, True, WORN), found.targets, found.period, stand)
        log_loaded_walk(BacklashRobot(description, rng, False, WORN), network, rng, walking, 60.0, found.period)
        contract = str(POLICY.with_suffix(".json"))
        rsl_rl("train-actuator", str(stand), str(walking), "--contract", contract, "--out", str(out))
    return out


def exported(variant, seed, folder, more):
    """Return the exported policy of a variant, which is trained if it is not there."""
    motors = ["--env.identified", str(prepare(folder))] if variant == "network" else []
    run = trained(variant, seed, folder, *motors, *more)
    policy = run / "exported" / "policy.onnx"
    if not policy.is_file():
        rsl_rl("export", "--task", "go2_flat", "--log_root", str(folder / "logs"), "--load_run", run.name)
    return policy


def draw_command(rng, last, low, high):
    """Return the next command [3] as JoystickCommands draws it: its kinds are equally likely."""
    command, kind = rng.uniform(low, high), rng.integers(5)
    if kind == 1:
        return np.zeros(3)
    if kind == 2:
        command[:2] = 0.0
    elif kind == 3 and last.any():
        command = np.clip(-last, low, high)
    elif kind == 4:
        axis = rng.integers(3)
        largest = np.where(command < 0, -low, high) / 5
        command = np.eye(3)[axis] * np.copysign(rng.uniform(0.05, largest[axis]), command[axis])
    return command


@without_log()
def walk(path, rng, hours):
    """Let a policy walk on the robot; return its failures by kind, and the mean error of the velocity [m/s]."""
    description, network = open_onnx(path)
    robot = BacklashRobot(description, rng, False, WORN)
    runner = Policy(description, network, robot.joint_names)
    period, (low, high) = runner.control_period, np.array(description["command_ranges"]).T
    judge, failures, error = FailureJudge(1, period), Counter(), 0.0
    steps, command, until, now = round(3600 * hours / period), np.zeros(3), 0.0, [100.0]
    runner.clock = lambda: now[0]
    for i in range(steps):
        now[0] = 100.0 + i * period
        if i * period >= until:
            command, until = draw_command(rng, command, low, high), i * period + rng.uniform(1.0, 5.0)
        seen = {name: value for name, value in robot.readings().items() if name != "joint_torque"}
        try:
            robot.step(runner(command=command, **seen), period)
            fallen = robot.fallen
        except PolicyStoppedError:
            fallen = True
        true = robot._sense()
        velocity = np.array([*true["base_lin_vel"][:2], true["base_ang_vel"][2]])
        error += float(np.hypot(*(command - velocity)[:2])) / steps
        rows = (torch.tensor(np.array([each]), dtype=torch.float32) for each in (command, velocity))
        kinds = judge(*rows, torch.tensor([fallen]))[:, 0].tolist()
        failures.update(name for name, failed in zip(FAILURES, kinds) if failed)
        if any(kinds):
            robot.reset()
            runner.reset()
    return dict(failures), error


def table(results):
    """Return the results of all seeds together, as lines of Markdown."""
    lines = ["| trained with | seeds | robot-hours | failures | error of the velocity [m/s] |", "|---|---|---|---|---|"]
    for variant in VARIANTS:
        own = [one for one in results if one["variant"] == variant]
        counts = sum((Counter(one["failures"]) for one in own), Counter())
        failures = ", ".join(f"{count} {name}" for name, count in counts.items()) or "0"
        hours, error = sum(one["robot_hours"] for one in own), np.mean([one["error"] for one in own])
        lines.append(f"| {variant} | {len(own)} | {hours:.3g} | {failures} | {error:.3f} |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS)
    parser.add_argument("--robot_hours", type=float, default=0.5)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "actuator")
    parser.add_argument("--table", action="store_true", help="print what was measured so far")
    parser.add_argument("--more", nargs=argparse.REMAINDER, default=[], help="further flags of the trainings")
    args = parser.parse_args()
    args.folder = args.folder.resolve()
    args.folder.mkdir(parents=True, exist_ok=True)
    path = args.folder / "results.jsonl"
    there = read_results(path)
    if args.table:
        print("\n".join(table(there)))
        return
    done = {(one["seed"], one["variant"]) for one in there}
    for seed in args.seeds:
        for variant in args.variants:
            if (seed, variant) in done:
                continue
            policy = exported(variant, seed, args.folder, args.more)
            failures, error = walk(policy, np.random.default_rng([seed, 42]), args.robot_hours)
            result = {"seed": seed, "variant": variant, "robot_hours": args.robot_hours}
            result.update(failures=failures, error=error)
            add_result(path, result)
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
