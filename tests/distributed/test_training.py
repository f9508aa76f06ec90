"""Trainings of two real processes under torchrun: resumed, killed, stopped, hung and broken."""

import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid

import pytest
import torch

from rsl_rl.utils.checkpoints import checkpoints_of, is_whole, read_checkpoint
from tests.kill_and_resume import ROOT, children_of, free_port, kill_and_resume, metrics_of, same

TOY = ("--task", "toy", "--num_envs", "16", "--runner.num_steps_per_env", "8", "--save_interval", "2")
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2")


@pytest.fixture
def logs(tmp_path):
    """Folder of the runs."""
    yield tmp_path / "logs"


class Ranks:
    """A training under torchrun."""

    def __init__(self, logs, *arguments, launcher=(), module="rsl_rl", env=None):
        command = [*TORCHRUN, "--master_port", str(free_port()), *launcher, "-m", module, "train"]
        command += [*arguments, "--log_root", str(logs)]
        self.logs, self.output = logs, logs.parent / f"output-{uuid.uuid4().hex[:8]}.txt"
        logs.parent.mkdir(parents=True, exist_ok=True)
        with self.output.open("w") as file:
            self.process = subprocess.Popen(
                command, stdout=file, stderr=subprocess.STDOUT, cwd=ROOT, env={**os.environ, **(env or {})}
            )

    @property
    def text(self):
        return self.output.read_text()

    @property
    def run(self):
        """The run's folder."""
        (run,) = {path.parent for path in self.logs.glob("*/*/model_*.pt")}
        return run

    def wait(self, timeout=150):
        """Wait for the end; return the exit code."""
        try:
            return self.process.wait(timeout)
        finally:
            self.end()

    def wait_for(self, words, timeout=150):
        """Wait until the output has some words."""
        limit = time.monotonic() + timeout
        while words not in self.text and time.monotonic() < limit and self.process.poll() is None:
            time.sleep(0.02)
        assert words in self.text, self.text

    def pid(self, rank):
        """Return the process of a rank."""
        return next(pid for pid, environment in children_of(self.process.pid) if environment.get("RANK") == str(rank))

    def end(self):
        """Leave no process behind."""
        for pid, _ in children_of(self.process.pid) if self.process.poll() is None else ():
            os.kill(pid, signal.SIGKILL)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()

    def failure_lines(self):
        """Return the lines that name what has failed."""
        return [line for line in self.text.splitlines() if re.match(r"(rsl-rl|rank \d)", line)]


def finished(logs, *arguments, **options):
    ranks = Ranks(logs, *arguments, **options)
    assert ranks.wait() == 0, ranks.text
    return ranks


def compare(a, b, iteration):
    """Fail where two runs of two ranks differ."""
    states = [torch.load(run / f"model_{iteration}.pt", weights_only=True) for run in (a, b)]
    for state in states:
        state["counters"].pop("time_s")
        assert len(state["ranks"]) == 1
    assert same(*states)
    assert metrics_of(a) == metrics_of(b)


@pytest.mark.slow
def test_resume_with_the_same_ranks_is_bit_equal_and_with_others_starts_new_episodes(logs, tmp_path):
    whole = finished(tmp_path / "whole" / "logs", *TOY, "--max_iterations", "4")
    first = finished(logs, *TOY, "--max_iterations", "2")
    assert "16 environments on cpu, shared by 2 ranks" in first.text
    finished(logs, *TOY, "--max_iterations", "4", "--resume")
    compare(whole.run, first.run, 4)
    state = read_checkpoint(first.run / "model_4.pt")
    assert len(state["env"]["x"]) == len(state["ranks"][0]["env"]["x"]) == 8
    assert not torch.equal(state["env"]["x"], state["ranks"][0]["env"]["x"])  # each rank has random numbers of its own
    record = json.loads((first.run / "metrics.jsonl").read_text().splitlines()[-1])
    assert record["env_steps"] == 4 * 16 * 8
    assert {f"ranks/{phase}_s_{rank}" for phase in ("collect", "learn", "communication") for rank in (0, 1)} <= set(
        record
    )
    assert {f"communication/{purpose}_s" for purpose in ("gradients", "statistics", "host")} <= set(record)
    command = [
        sys.executable,
        "-m",
        "rsl_rl",
        "train",
        *TOY,
        "--max_iterations",
        "5",
        "--resume",
        "--log_root",
        str(logs),
    ]
    alone = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=150, check=False)
    assert alone.returncode == 0, alone.stderr
    assert "new episodes of PointEnv are started: model_4.pt is of 2 ranks, and this training has 1" in alone.stdout


@pytest.mark.slow
@pytest.mark.parametrize("target", ["rank 0", "rank 1", "launcher"])
def test_a_signal_to_one_rank_or_to_the_launcher_saves_and_ends_all(logs, target):
    ranks = Ranks(logs, *TOY, "--max_iterations", "100000")
    ranks.wait_for("iteration 3/")
    os.kill(ranks.process.pid if target == "launcher" else ranks.pid(int(target[-1])), signal.SIGTERM)
    assert ranks.wait() != 0
    last = int(ranks.text.split("after iteration ")[1].split()[0])
    assert f"interrupted by SIGTERM after iteration {last} and saved" in ranks.text
    assert len(read_checkpoint(ranks.run / f"model_{last}.pt")["ranks"]) == 1


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1])
def test_a_killed_rank_ends_the_others_and_torchrun_restarts_them(logs, victim, tmp_path):
    ranks = Ranks(logs, *TOY, "--max_iterations", "100000")
    ranks.wait_for("iteration 3/")
    os.kill(ranks.pid(victim), signal.SIGKILL)
    assert ranks.wait(90) != 0
    (line,) = ranks.failure_lines()
    assert f"rank {1 - victim} has lost rank {victim}, which gives no sign of life" in line, ranks.text
    assert all(map(is_whole, checkpoints_of(ranks.run)))

    whole = finished(tmp_path / "whole" / "logs", *TOY, "--max_iterations", "30")
    restarted = Ranks(tmp_path / "again" / "logs", *TOY, "--max_iterations", "30", launcher=["--max_restarts=3"])
    restarted.wait_for("iteration 5/")
    os.kill(restarted.pid(victim), signal.SIGKILL)
    assert restarted.wait() == 0, restarted.text
    compare(whole.run, restarted.run, 30)


DRIVER = """
import os, sys, time
import torch
import rsl_rl.tasks.toy as toy
import rsl_rl.algorithms.ppo as ppo
rank, calls = int(os.environ["RANK"]), 0
if rank == 1:
    {start}
original = toy.PointEnv.step
def step(self, actions):
    global calls
    calls += 1
    result = original(self, actions)
    if rank == 1 and calls == {call}:
        {fault}
    return result
toy.PointEnv.step = step
from rsl_rl.cli.main import main
sys.exit(main())
"""
FAULTS = {
    "exception": "raise ArithmeticError('wheel came off')",
    "hang": "time.sleep(10000)",
    "nan": "result = result._replace(reward=result.reward * torch.nan)",
}


STARTS = {  # what rank 1 does before it trains: the line in which all ranks end
    "sys.argv += ['--algorithm.gama', '3']": "error: rank 1: Unrecognized options: --algorithm.gama",
    "sys.argv += ['--algorithm.gamma', '0.5']": (
        "error: rank 1 has algorithm.gamma=0.5 and rank 0 has algorithm.gamma=0.99; start all ranks with the same"
    ),
    "sys.argv += ['--resume']": "error: rank 1: ",  # there is no run
    "sys.argv += ['--init_from', 'x.pt']": "error: rank 1 has --init_from='x.pt' and rank 0 has --init_from=''",
    "import rsl_rl; rsl_rl.__version__ = '5.0'": "error: rank 1 has rsl_rl.__version__='5.0' and rank 0 has rsl_rl.__",
    "torch.__version__ = '1.0'": "error: rank 1 has torch.__version__='1.0' and rank 0 has torch.__version__=",
    "import rsl_rl.cli.train as train; train.prepare = None": "error: rank 1: TypeError: 'NoneType' object is not",
    "toy.PointEnv.__init__ = lambda *a, **k: int('x')": "error: rank 1: invalid literal for int() with base 10: 'x'",
    "toy.PointEnv.__init__ = lambda *a, **k: 1 / 0": "rank 1 failed: ZeroDivisionError: division by zero",
    "import wide": (
        "error: rank 1 has observations.policy=[2] and rank 0 has observations.policy=[1]; start all ranks with"
    ),
}
WIDE = """
import torch
import rsl_rl.tasks.toy as toy
class Wide(toy.PointEnv):
    def get_observations(self):
        return self.wide(super().get_observations())
    def step(self, actions):
        r = super().step(actions)
        return r._replace(obs=self.wide(r.obs), extras={**r.extras, "final_obs": self.wide(r.obs)})
    def wide(self, obs):
        return {"policy": obs["policy"][:, :1].expand(-1, 2)}
toy.PointEnv = Wide
"""


@pytest.fixture
def driver(tmp_path):
    """A module that trains with a fault in rank 1, in a step or at the start."""

    def write(fault="exception", call=8 * 3 + 5, start="pass"):
        (tmp_path / "faulty.py").write_text(DRIVER.format(fault=FAULTS[fault], call=call, start=start))
        (tmp_path / "wide.py").write_text(WIDE)
        return {"module": "faulty", "env": {"PYTHONPATH": f"{tmp_path}:{ROOT}"}}

    return write


def ended_by(ranks, line):
    """Assert that all ranks have ended in one line, before torchrun has waited 30 s to kill any."""
    assert ranks.wait(90) != 0
    (said,) = ranks.failure_lines()
    assert said.partition(": ")[2].startswith(line), ranks.text
    assert "SIGKILL" not in ranks.text


@pytest.mark.slow
@pytest.mark.parametrize("start", STARTS)
def test_a_rank_that_starts_otherwise_is_one_line_and_ends_all_ranks(logs, driver, start):
    ended_by(Ranks(logs, *TOY, "--max_iterations", "2", **driver(start=start)), STARTS[start])
    assert not list(logs.glob("*/*/model_*.pt"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("flags", "line"),
    [
        ("--num_envs 1", "error: env.num_envs=1 are fewer environments than the 2 processes"),
        ("--algorithm.gama 1", "error: Unrecognized options: --algorithm.gama"),
        ("--logger tensorbord", "error: rank 0: unknown logger 'tensorbord'"),
        ("--rank_timeout 1e30", "error: --rank_timeout 1e+30: give a time from above 0 to 1e+07 s"),
        ("--seeds 1 2", "error: --seeds starts several trainings of one process each; start it without torchrun"),
    ],
)
def test_a_wrong_flag_of_all_ranks_is_one_line(logs, flags, line):
    ended_by(Ranks(logs, *TOY, *flags.split()), line)


@pytest.mark.slow
def test_an_environment_that_raises_ends_all_ranks_with_one_line(logs, driver):
    ranks = Ranks(logs, *TOY, "--max_iterations", "100000", **driver("exception"))
    ended_by(ranks, "rank 1 failed: ArithmeticError: wheel came off")
    assert checkpoints_of(ranks.run) and all(map(is_whole, checkpoints_of(ranks.run)))


@pytest.mark.slow
def test_a_rank_that_hangs_ends_all_after_the_time_limit(logs, driver):
    three = ["--nproc_per_node=3"]
    ranks = Ranks(logs, *TOY, "--max_iterations", "100000", "--rank_timeout", "8", launcher=three, **driver("hang"))
    assert ranks.wait(120) != 0
    (line,) = ranks.failure_lines()
    assert line.partition(" ")[2][1:] == (
        " has waited 8 s for rank 1, which is alive and does not answer; the training ends"
    ), ranks.text
    assert all(map(is_whole, checkpoints_of(ranks.run)))


@pytest.mark.slow
def test_nan_on_one_rank_is_masked_on_all(logs, driver):
    ranks = Ranks(logs, *TOY, "--max_iterations", "6", **driver("nan"))
    assert ranks.wait() == 0, ranks.text
    records = [json.loads(line) for line in (ranks.run / "metrics.jsonl").read_text().splitlines()]
    assert sum(record["faults/reward"] for record in records) == 8  # the environments of rank 1
    assert all(record["skipped_steps"] == 0 for record in records)
    assert "rank 1: fault: reward (nan)" in ranks.text and list((ranks.run / "postmortem").glob("reward_*_rank1.json"))
    assert read_checkpoint(ranks.run / "model_6.pt")["iter"] == 6


@pytest.mark.slow
def test_ranks_killed_ten_times_go_on_bit_by_bit():
    arguments = ["--task", "recall", "--num_envs", "16", "--save_interval", "2", "--runner.num_steps_per_env", "8"]
    arguments += ["--algorithm.num_learning_epochs", "1", "--algorithm.num_mini_batches", "2"]
    said = list(kill_and_resume(arguments, iterations=200, kills=10, seed=1, within=0.3, num_ranks=2))
    print("\n".join(said))
    assert [line.split()[:3] for line in said[:10]] == [["rank", str(i // 2 % 2), "killed"] for i in range(10)]
    assert any("writing" in line for line in said)
