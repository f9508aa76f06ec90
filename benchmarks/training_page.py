"""Measure what the page of a training costs the training: `python -m benchmarks.training_page`.

Trainings with and without `--page` alternate (A B B A). A program reads the page, its news and each new policy, as a
browser does that is open all the time; it draws nothing. Processor time is counted for each process by itself, which
holds on a machine with a load too; compare the seconds only of an idle one. Linux only.
"""

import argparse
import contextlib
import json
import os
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

    seconds: float  # of collecting and learning
    training_cpu: float  # processor time of the training, without the page [s]
    page_cpu: float  # processor time of the process that serves the page [s]
    policies: List[int]  # iterations of the policies that the program got


def train(arguments: List[str], with_page: bool) -> Run:
    """Train, with or without a page that is read."""
    with tempfile.TemporaryDirectory() as folder:
        flags = ["--log_root", folder, "--logger", "none", *arguments, *(["--page", "0"] if with_page else [])]
        process = subprocess.Popen([sys.executable, "-m", "rsl_rl", "train", *flags], stdout=subprocess.PIPE, text=True)
        policies: List[int] = []
        meter = PageMeter(process.pid)
        assert process.stdout is not None  # it is a pipe
        for line in process.stdout:
            if line.startswith("page: "):
                meter.start()
                threading.Thread(target=read_page, args=(line.split()[1], policies), daemon=True).start()
        _, code, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(code)
        if process.returncode:
            raise SystemExit(f"the training ended with code {process.returncode}")
        (path,) = Path(folder).rglob("metrics.jsonl")
        rows = [json.loads(line) for line in path.read_text().splitlines()]
    seconds = sum(row["collect_s"] + row["learn_s"] for row in rows)
    return Run(seconds, used.ru_utime + used.ru_stime - meter.seconds, meter.seconds, policies)


class PageMeter(threading.Thread):
    """Read the processor time of the page of a training every 50 ms, until its process ends."""

    def __init__(self, training: int):
        super().__init__(daemon=True)
        self._training, self.seconds = training, 0.0

    def run(self) -> None:
        with contextlib.suppress(OSError):  # the process has ended
            while True:
                for child in Path(f"/proc/{self._training}/task/{self._training}/children").read_text().split():
                    if b"rsl_rl.cli.training_page_server" in Path(f"/proc/{child}/cmdline").read_bytes():
                        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
                        self.seconds = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
                time.sleep(0.05)


def read_page(address: str, policies: List[int]) -> None:
    """Read the page and its news until the training ends, and each new policy; add its iteration to ``policies``."""
    urllib.request.urlopen(address).read()
    asked, next_time = threading.Lock(), [0.0]

    def read_policy(newest: int) -> None:
        with asked, contextlib.suppress(OSError):  # the training may end
            if newest > max(policies, default=-1) and time.monotonic() > next_time[0]:
                policy: Dict = json.load(urllib.request.urlopen(address.replace("/?", "/policy?")))
                next_time[0] = time.monotonic() + policy["pause"]
                policies.append(policy["checkpoint"])

    for line in urllib.request.urlopen(address.replace("/?", "/events?")):
        if line.startswith(b"data: "):
            threading.Thread(target=read_policy, args=(json.loads(line[6:])["checkpoint"],), daemon=True).start()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=2, help="trainings of each kind")
    own, arguments = parser.parse_known_args()
    arguments = [*(arguments or ["--task", "go2_flat"]), "--max_iterations", str(own.iterations)]
    runs: Dict[bool, List[Run]] = {False: [], True: []}
    for i in range(own.repeats):
        for with_page in (False, True) if i % 2 == 0 else (True, False):
            run = train(arguments, with_page)
            runs[with_page].append(run)
            print(f"{'with' if with_page else 'without'} page: {run}", flush=True)

    def middle(name: str, with_page: bool) -> float:
        return statistics.median(getattr(run, name) for run in runs[with_page])

    result = {
        "training_cpu_ratio": middle("training_cpu", True) / middle("training_cpu", False),
        "page_cpu_share": middle("page_cpu", True) / middle("training_cpu", False),
        "seconds_ratio": middle("seconds", True) / middle("seconds", False),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
