"""Compare a policy in C with the same in onnxruntime: size, time of a control step, and walking in plain MuJoCo.

    python -m benchmarks.c_policy logs/go2_flat/<run>/exported --robots 64 --seconds 20

The folder is one of `rsl-rl export --format c`. Times are of one thread: of the C functions in a C program, and of
onnxruntime in Python, as onnx_policy.py uses it. Both are measured in turns; the times are the least ones, the ratios
median and range. Robots walk one after the other, with the same commands for both. The last line is JSON.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, List

import numpy as np

from benchmarks.pairing import Spread

PROGRAM = """
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "policy.h"

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(int argc, char **argv)
{
    static policy_state state;
    static policy_readings readings;
    static policy_memory memory;
    static float obs[POLICY_NUM_OBS], action[POLICY_NUM_JOINTS];
    const int count = atoi(argv[argc - 1]);
    double began, step;

    if (!policy_init(&state, 0))
        return 1;
    readings.command[0] = 0.5f;
    readings.base_quat[0] = readings.base_quat[3] = 0.70710678f;
    for (int i = 0; i < POLICY_NUM_JOINTS; i++)
        readings.joint_pos[i] = state.default_joint_pos[i];
    began = now();
    for (int i = 0; i < count; i++)
        if (policy_step(&state, &readings, action) != POLICY_RUNNING)
            return 1;
    step = now();
    for (int i = 0; i < count; i++)
        policy_network(obs, &memory, action);
    printf("%g %g %d\\n", (step - began) / count, (now() - step) / count, (int)sizeof state);
    return 0;
}
"""


def measure_size(folder: Path) -> Dict[str, int]:
    """Return bytes of the files, of the compiled policy (constants and code), and of its state."""
    with tempfile.TemporaryDirectory() as build:
        path = str(Path(build) / "policy.o")
        subprocess.run(["cc", "-std=c99", "-O2", "-c", str(folder / "policy.c"), "-o", path], check=True)
        sizes = subprocess.run(["size", path], capture_output=True, text=True, check=True).stdout.splitlines()[1]
    files = {name: (folder / name).stat().st_size for name in ("policy.onnx", "policy.c")}
    return {**files, "compiled": int(sizes.split()[0])}


def measure_times(folder: Path, policy: Any, network: Callable[..., Any], blocks: int) -> Dict[str, Any]:
    """Return the times of a whole step and of the network alone [us], and the ratios of the two programs."""
    readings = {
        "command": (0.5, 0.0, 0.0),
        "base_quat": (0.5**0.5, 0.0, 0.0, 0.5**0.5),
        "base_ang_vel": np.zeros(3, np.float32),
        "base_lin_vel": np.zeros(3, np.float32),
        "joint_pos": policy.default_joint_pos,
        "joint_vel": np.zeros(len(policy.joint_names), np.float32),
    }
    inputs = [np.zeros(shape, np.float32) for shape in policy.description["inputs"].values()]
    times: Dict[str, List[float]] = {name: [] for name in ("step C", "network C", "step onnx", "network onnx")}
    with tempfile.TemporaryDirectory() as build:
        source, program = Path(build) / "time.c", Path(build) / "time"
        source.write_text(PROGRAM)
        files = [str(source), str(folder / "policy.c")]
        compiler = ["cc", "-std=c99", "-O3", "-I", str(folder)]
        subprocess.run([*compiler, *files, "-o", str(program), "-lm"], check=True)
        for _ in range(blocks):
            done = subprocess.run([str(program), "200"], capture_output=True, text=True, check=True)
            step, alone, state_size = map(float, done.stdout.split())
            times["step C"].append(step)
            times["network C"].append(alone)
            times["step onnx"].append(time_of(lambda: policy(**readings)))
            times["network onnx"].append(time_of(lambda: network(*inputs)))
    result: Dict[str, Any] = {f"{name} [us]": round(1e6 * min(values), 2) for name, values in times.items()}
    for what in ("step", "network"):
        result[f"{what} ratio"] = Spread.of([x / c for x, c in zip(times[f"{what} onnx"], times[f"{what} C"])]).text()
    return {**result, "state [bytes]": int(state_size)}


def time_of(call: Callable[[], Any], count: int = 50) -> float:
    """Return the mean time of a call [s]."""
    began = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - began) / count


def measure_walk(walker: Any, walk: Any, policies: Dict[str, Any], robots: int, seconds: float) -> Dict[str, Any]:
    """Return falls per robot and errors [m/s], [rad/s] of robots with random commands, for each policy."""
    generator = np.random.default_rng(0)
    low, high = np.array(walker.policy.description["command_ranges"]).T
    per_robot = generator.uniform(low, high, (robots, math.ceil(seconds / 10.0), 3))
    steps, numbers = round(seconds / walker.policy.control_period), {}
    for name, policy in policies.items():
        walker.policy = policy
        results = [walk(walker, itertools.cycle(commands), steps) for commands in per_robot]
        means = zip(("fall_rate", "lin_vel_error", "yaw_rate_error"), np.mean(results, axis=0).tolist())
        numbers[name] = {**dict(means), "clamped_targets": policy.counts["clamped_targets"]}
    return numbers


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="with policy.onnx, policy.json, policy.c and policy.h")
    parser.add_argument("--blocks", type=int, default=60, help="measurements of time")
    parser.add_argument("--robots", type=int, default=0, help="that walk")
    parser.add_argument("--seconds", type=float, default=20.0, help="time that each walks [s]")
    args = parser.parse_args()
    missing = [
        name for name in ("policy.onnx", "policy.json", "policy.c", "policy.h") if not (args.folder / name).is_file()
    ]
    if missing:
        print(f"{args.folder} has no {missing[0]}; write it with: rsl-rl export --format c", file=sys.stderr)
        return 2
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "deploy"))
    import mujoco
    from onnx_policy import OnnxPolicy, open_onnx
    from sim_to_sim import Walker, walk

    from rsl_rl.evaluation.c_policy import CPolicy

    path, description = args.folder / "policy.onnx", json.loads((args.folder / "policy.json").read_text())
    result = {"size [bytes]": measure_size(args.folder)}
    result["time"] = measure_times(args.folder, OnnxPolicy(path), open_onnx(path)[1], args.blocks)
    if args.robots:
        walker = Walker(mujoco, path)
        in_c = CPolicy(args.folder / "policy.c", description, walker.policy.joint_names)
        result["walk"] = measure_walk(walker, walk, {"onnx": walker.policy, "C": in_c}, args.robots, args.seconds)
    for what, numbers in result.items():
        print(f"{what}: {numbers}")
    print(json.dumps(result))
    return 0


if __name__ == "__main__":
    sys.exit(main())
