"""Measure what the page of a training costs the training: `python -m benchmarks.training_page`.

Trainings with and without `--page` alternate (A B B A). A program reads the page, its news and each new policy, as a
browser does that is open all the time; it draws nothing. Run nothing else at the same time.
"""

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Dict, List, NamedTuple


class Run(NamedTuple):
    """A training."""

    seconds: List[float]  # of collecting and learning, of each iteration
    policies: List[int]  # iterations of the policies that the program got
    first: int  # iteration in which it got the first one


def train(arguments: List[str], iterations: int, with_page: bool) -> Run:
    """Train, with or without a page that is read."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--log_root", folder, "--logger", "none", "--max_iterations", str(iterations), *arguments]
        flags += ["--page", "0"] if with_page else []
        command = [sys.executable, "-m", "rsl_rl", "train", *flags]
        got: List[List[int]] = []  # iteration of each policy, and the one in which it came
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None  # it is a pipe
            for line in process.stdout:
                if line.startswith("page: "):
                    threading.Thread(target=read_page, args=(line.split()[1], got), daemon=True).start()
        if process.returncode:
            raise SystemExit(f"the training ended with code {process.returncode}")
        (path,) = Path(folder).rglob("metrics.jsonl")
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    seconds = [row["collect_s"] + row["learn_s"] for row in rows]
    return Run(seconds, [policy for policy, _ in got], got[0][1] if got else 0)


def read_page(address: str, got: List[List[int]]) -> None:
    """Read the page and its news until the training ends, and each new policy.

    Add its iteration to ``got``, and the one in which it came.
    """
    urllib.request.urlopen(address).read()
    asked, next_time, iteration = threading.Lock(), [0.0], [0]

    def read_policy(newest: int) -> None:
        with asked, contextlib.suppress(OSError):  # the training may end
            if newest > max((policy for policy, _ in got), default=-1) and time.monotonic() > next_time[0]:
                policy: Dict = json.load(urllib.request.urlopen(address.replace("/?", "/policy?")))
                next_time[0] = time.monotonic() + policy["pause"]
                got.append([policy["checkpoint"], iteration[0]])

    for line in urllib.request.urlopen(address.replace("/?", "/events?")):
        if line.startswith(b"data: "):
            news = json.loads(line[6:])
            iteration[0] = int(news["newest"].get("iteration", 0))
            threading.Thread(target=read_policy, args=(news["checkpoint"],), daemon=True).start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=2, help="trainings of each kind")
    own, arguments = parser.parse_known_args()
    arguments = arguments or ["--task", "go2_flat"]
    runs: Dict[bool, List[Run]] = {False: [], True: []}
    for i in range(own.repeats):
        for with_page in (False, True) if i % 2 == 0 else (True, False):
            run = train(arguments, own.iterations, with_page)
            runs[with_page].append(run)
            print(f"{'with' if with_page else 'without'} page: {sum(run.seconds):.2f} s", *run.policies, flush=True)
    pairs = list(zip(runs[False], runs[True]))
    result = {
        "without_s": [sum(run.seconds) for run in runs[False]],
        "with_s": [sum(run.seconds) for run in runs[True]],
        "policies": [run.policies for run in runs[True]],
        "first_policy_came_in": [run.first for run in runs[True]],
        "ratio": statistics.median(sum(b.seconds) / sum(a.seconds) for a, b in pairs),
        "ratio_after_first_policy": statistics.median(
            sum(b.seconds[b.first :]) / sum(a.seconds[b.first :]) for a, b in pairs
        ),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
