"""Compare the CPU time of a control step of gymapi-mujoco with that of an earlier revision.

The client is that of ``gym_interface.py``: the Go2 on a plane, torques in torch, four physics steps of 5 ms. It uses no
restitution, friction of DoFs, attractors or drives. Processes of both revisions run in turn with one thread, and CPU
seconds are counted, so another load on the machine changes the ratio little.

    python benchmarks/gym_revisions.py REVISION
    python benchmarks/gym_revisions.py REVISION --num_envs 512 --repeats 9
"""

# pyright: reportMissingModuleSource=false, reportMissingImports=false
from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROBOT_STEPS = 100_000
"""Control steps of all robots together in one measurement."""


def cpu_seconds(package: Path, num_envs: int) -> float:
    """Return CPU seconds of ``ROBOT_STEPS`` control steps with the gymapi-mujoco of a folder, in this process."""
    sys.path[:0] = [str(ROOT), str(package), str(package / "gymapi_mujoco" / "modules")]
    import isaacgym.gymapi
    import torch

    assert str(package) in str(isaacgym.__file__), isaacgym.__file__
    from benchmarks.gym_interface import POSE, RESET_EVERY, Interface

    torch.manual_seed(0)
    side, spent = Interface(num_envs), 0.0
    for step in range(-50, ROBOT_STEPS // num_envs):
        if step % RESET_EVERY == 0 or step == -50:
            side.reset()
        targets = POSE + 0.1 * torch.randn(num_envs, 12)
        start = time.process_time()
        side.step(targets)
        spent += (time.process_time() - start) * (step >= 0)
    return spent


def measure(package: Path, num_envs: int) -> float:
    """Run ``cpu_seconds`` in a process of its own."""
    one = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "GYMAPI_MUJOCO_THREADS")}
    command = [sys.executable, "-W", "ignore", __file__, "--package", str(package), "--num_envs", str(num_envs)]
    out = subprocess.run(command, env={**os.environ, **one}, stdout=subprocess.PIPE, text=True, check=True)
    return float(out.stdout.split()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("revision", nargs="?", default="HEAD", help="the earlier revision")
    parser.add_argument("--num_envs", type=int, nargs="+", default=[512, 4096], help="numbers of robots")
    parser.add_argument("--repeats", type=int, default=5, help="measurements of each revision, in turn")
    parser.add_argument("--package", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.package:
        print(cpu_seconds(Path(args.package), args.num_envs[0]))
        return
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder, "before.tar")
        command = ["git", "-C", str(ROOT), "archive", "-o", str(archive), args.revision, "gymapi-mujoco"]
        subprocess.run(command, check=True)
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        packages = Path(folder, "gymapi-mujoco"), ROOT / "gymapi-mujoco"
        print(
            "| robots | before [robot steps / CPU s] | now | now / before, median | least and most |\n"
            "|---|---|---|---|---|"
        )
        for num_envs in args.num_envs:
            runs = [[ROBOT_STEPS / measure(package, num_envs) for package in packages] for _ in range(args.repeats)]
            before, now = (statistics.median(column) for column in zip(*runs))
            ratios = sorted(new / old for old, new in runs)
            median = statistics.median(ratios)
            print(
                f"| {num_envs} | {before:.0f} | {now:.0f} | {median:.3f} | {ratios[0]:.3f} to {ratios[-1]:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
