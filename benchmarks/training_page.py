"""Measure what the page of a training costs the training: `python -m benchmarks.training_page`.

Trainings with and without `--page` alternate (A B B A). A program reads the page, its news and each new policy, as a
browser does that is open all the time; it draws nothing. Run nothing else at the same time.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import urllib.request
from pathlib import Path
from typing import Dict, List, NamedTuple


class Run(NamedTuple):
    """A training."""

    seconds: float  # of collecting and learning
    policies: int  # that the program got


def train(arguments: List[str], iterations: int, with_page: bool) -> Run:
    """Train, with or without a page that is read."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--log_root", folder, "--logger", "none", "--max_iterations", str(iterations), *arguments]
        flags += ["--page", "0"] if with_page else []
        command = [sys.executable, "-m", "rsl_rl", "train", *flags]
        got: List[int] = []
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None  # it is a pipe
            for line in process.stdout:
                if line.startswith("page: "):
                    threading.Thread(target=read_page, args=(line.split()[1], got), daemon=True).start()
        if process.returncode:
            raise SystemExit(f"the training ended with code {process.returncode}")
        (path,) = Path(folder).rglob("metrics.jsonl")
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    return Run(sum(row["collect_s"] + row["learn_s"] for row in rows), len(set(got)))


def read_page(address: str, got: List[int]) -> None:
    """Read the page and its news until the training ends, and each new policy; add their iterations to ``got``."""
    urllib.request.urlopen(address).read()
    newest = -1
    asked = threading.Lock()

    def read_policy() -> None:
        with asked:
            if newest > max(got, default=-1):
                policy: Dict = json.load(urllib.request.urlopen(address.replace("/?", "/policy?")))
                got.append(policy["checkpoint"])

    for line in urllib.request.urlopen(address.replace("/?", "/events?")):
        if line.startswith(b"data: "):
            newest = json.loads(line[6:])["checkpoint"]
            threading.Thread(target=read_policy, daemon=True).start()


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
            print(
                f"{'with' if with_page else 'without'} page: {run.seconds:.2f} s, {run.policies} policies", flush=True
            )
    ratios = [b.seconds / a.seconds for a, b in zip(runs[False], runs[True])]
    result = {
        "without_s": [run.seconds for run in runs[False]],
        "with_s": [run.seconds for run in runs[True]],
        "policies": [run.policies for run in runs[True]],
        "ratios": ratios,
        "ratio": statistics.median(ratios),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
