"""Kill a training again and again, resume it each time, and compare it with one that was left alone.

    python -m tests.kill_and_resume --task go2_flat --num_envs 256 --iterations 40 --kills 10
    python -m tests.kill_and_resume --task go2_flat --num_envs 256 --iterations 40 --kills 10 --ranks 2

With ranks the training runs under torchrun, and each kill strikes one of them in turn.
Every other kill strikes while a checkpoint is being written. Prints a line for each and leaves with 0 where weights,
metrics and curves are the same, bit by bit.
"""

import argparse
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
import uuid
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parent.parent
CLOCKS = ("collect_s", "learn_s", "steps_per_s")
CLOCK_FOLDERS = ("ranks/", "communication/")


def start_python(*command):
    """Start Python in the checkout."""
    command = [sys.executable, *command]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=ROOT)


class Training:
    """A run of scripts/train.py that may be killed."""

    def __init__(self, arguments, experiment, name, num_ranks=1, start=None):
        self.launcher = ["-m", "torch.distributed.run", f"--nproc_per_node={num_ranks}"] if num_ranks > 1 else []
        self.command = [str(ROOT / "scripts" / "train.py"), *arguments, "--experiment_name", experiment]
        self.start_python = start or start_python
        self.num_ranks, self.num_kills = num_ranks, 0
        self.experiment, self.name = ROOT / "logs" / experiment, name

    @property
    def folder(self):
        """The run's folder, None before there is one with a checkpoint."""
        return next((path.parent for path in sorted(self.experiment.glob(f"*_{self.name}/model_*.pt"))), None)

    def start(self):
        """Start it, or go on with it."""
        going_on = ["--resume", "--load_run", self.folder.name] if self.folder else ["--run_name", self.name]
        launcher = [*self.launcher, "--master_port", str(free_port())] if self.launcher else []
        return self.start_python(*launcher, *self.command, *going_on)

    def choose_victim(self, process):
        """The process to kill and its name: the training, or one of its ranks, twice in turn."""
        if not self.launcher:
            return process.pid, ""
        rank = self.num_kills // 2 % self.num_ranks
        self.num_kills += 1
        ranks = {environment.get("RANK"): pid for pid, environment in children_of(process.pid)}
        return ranks[str(rank)], f"rank {rank} "

    def finish(self):
        """Run it to its end."""
        process = self.start()
        _, errors = process.communicate(timeout=1200)
        assert process.returncode == 0, errors

    def kill(self, draw, within, while_saving):
        """Start it and kill it some time after its first iteration; say where, or None where it ended first."""
        before, moment = self.newest(), draw.uniform(0.0, within)
        process = self.start()
        while process.poll() is None and self.newest() <= before:
            time.sleep(0.01)
        folder, strike_at = self.folder, time.monotonic() + moment
        victim, name = self.choose_victim(process)
        while process.poll() is None:
            parts = [name for name in os.listdir(folder) if name.endswith(".part")]
            if parts if while_saving else time.monotonic() >= strike_at:
                os.kill(victim, signal.SIGKILL)
                process.communicate(timeout=120)
                left = [name for name in os.listdir(folder) if name.endswith(".part")]
                return f"{name}killed after iteration {self.newest()}" + (f", writing {left[0]}" if left else "")
            time.sleep(0.0 if while_saving else 0.005)
        assert process.returncode == 0, process.communicate()[1]
        return None

    def newest(self):
        """Iteration of the last line of metrics.jsonl, -1 without one."""
        folder = self.folder
        path = folder / "metrics.jsonl" if folder else None
        lines = path.read_text().splitlines() if path and path.exists() else []
        try:
            return json.loads(lines[-1])["iteration"] if lines else -1
        except ValueError:
            return -1


def metrics_of(folder):
    """Everything that metrics.jsonl says but what the clock said."""
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [
        {name: value for name, value in record.items() if name not in CLOCKS and not name.startswith(CLOCK_FOLDERS)}
        for record in records
    ]


def free_port():
    """A port of this machine that nothing uses."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def children_of(pid):
    """The processes that a process has started, and their environment variables."""
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        try:
            text = Path(f"/proc/{child}/environ").read_text()
        except OSError:  # it has ended
            continue
        yield int(child), dict(entry.split("=", 1) for entry in text.split("\0") if "=" in entry)


def curve_of(folder):
    """Iterations and values of a curve as TensorBoard shows it."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars("Loss/value_function")]


def compare(whole, cut, iterations):
    """Fail where two runs differ."""
    a, b = (torch.load(run / f"model_{iterations}.pt", weights_only=True) for run in (whole, cut))
    for part in (
        "model_state_dict",
        "optimizer_state_dict",
        "learning_rate",
        "rng",
        "env",
        "memory",
        "episodes",
        "ranks",
    ):
        assert same(a.get(part), b.get(part)), f"{part} differs"
    assert metrics_of(whole) == metrics_of(cut), "metrics differ"
    assert [record["iteration"] for record in metrics_of(cut)] == list(range(1, iterations + 1))
    assert curve_of(whole) == curve_of(cut), "curves differ"


def same(a, b):
    """Whether nested values are equal, bit by bit."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    return torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b


def kill_and_resume(arguments, iterations, kills, seed, within=1.0, num_ranks=1, start=None):
    """Do what the module says; yield a line on each kill, and one at the end. ``start`` starts Python."""
    experiment, draw = f"kill-{uuid.uuid4().hex[:8]}", random.Random(seed)
    arguments = [*arguments, "--max_iterations", str(iterations)]
    whole, cut = (Training(arguments, experiment, name, num_ranks, start) for name in ("whole", "cut"))
    try:
        whole.finish()
        for i in range(kills):
            line = cut.kill(draw, within, while_saving=i % 2 == 1)
            if line is None:
                raise AssertionError(f"the training ended before kill {i + 1} of {kills}; give it more iterations")
            yield line
        cut.finish()
        compare(whole.folder, cut.folder, iterations)
        yield f"{kills} kills: weights, optimiser, physics, metrics and curves after {iterations} iterations are equal"
    finally:
        shutil.rmtree(ROOT / "logs" / experiment, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="go2_flat")
    parser.add_argument("--num_envs", default="256")
    parser.add_argument("--iterations", type=int, default=40)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--save_interval", default="2")
    parser.add_argument("--within", type=float, default=1.0, help="longest time from an iteration to a kill [s]")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ranks", type=int, default=1)
    flags = parser.parse_args()
    arguments = ["--task", flags.task, "--num_envs", flags.num_envs, "--save_interval", flags.save_interval]
    for line in kill_and_resume(arguments, flags.iterations, flags.kills, flags.seed, flags.within, flags.ranks):
        print(line, flush=True)


if __name__ == "__main__":
    os.chdir(ROOT)
    main()
