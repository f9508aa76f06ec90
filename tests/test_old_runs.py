"""Runs of an earlier version can be resumed, evaluated and played; see runs_of_format_1/make.sh."""

import json
import shutil
from pathlib import Path

import pytest

from rsl_rl.utils.checkpoints import read_checkpoint

FOLDER = Path(__file__).parent / "runs_of_format_1"


@pytest.fixture
def old_run(tmp_path):
    """A function that copies the old run of a task and returns its folder."""
    return lambda task: Path(shutil.copytree(FOLDER / task / "old", tmp_path / task / "old"))


@pytest.mark.parametrize(
    "task", ["go2_flat", *(pytest.param(name, marks=pytest.mark.slow) for name in ("toy", "recall"))]
)
def test_old_run_is_resumed_with_its_episodes(task, old_run, run_script):
    run = old_run(task)
    arguments = ("--task", task, "--resume", "--load_run", str(run), "--max_iterations", "4")
    done = run_script("scripts/train.py", *arguments)
    assert done.returncode == 0 and "new episodes of" not in done.stdout, done.stderr
    before, after = (read_checkpoint(run / f"model_{iteration}.pt") for iteration in (2, 4))
    assert after["iter"] == 4 and after["counters"]["env_steps"] == 2 * before["counters"]["env_steps"]
    steps = [state["optimizer_state_dict"]["state"][0]["step"] for state in (before, after)]
    assert steps == [2, 4]  # the optimizer continues
    assert before["env"].keys() == after["env"].keys() and before["memory"] is not None


def test_old_run_is_evaluated(old_run, run_script):
    run = old_run("go2_flat")
    arguments = ("--task", "go2_flat", "--load_run", str(run), "--num_envs", "2", "--seconds", "0.4")
    done = run_script("scripts/evaluate.py", *arguments)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["checkpoint"] == str(run / "model_2.pt") and result["env_steps"] == 32
    assert set(result["falls"]) == {"engine", "state", "trunk_contact", "head_contact", "tilt", "other"}


def test_old_run_is_played_and_exported(old_run, run_script):
    run = old_run("go2_flat")
    arguments = ("--task", "go2_flat", "--load_run", str(run), "--num_envs", "1", "--seconds", "0.4", "--no_video")
    done = run_script("scripts/play.py", *arguments)
    assert done.returncode == 0, done.stderr
    assert {"policy.pt", "policy.json", "parity.json", "play.png"} <= {path.name for path in run.glob("exported/*")}


@pytest.mark.parametrize("flag", [pytest.param("--fault_dump", marks=pytest.mark.slow), "--postmortem"])
def test_old_fault_dump_is_replayed_and_the_old_flag_prints_a_note(flag, old_run, run_script):
    run = old_run("go2_flat")
    arguments = ("--task", "go2_flat", "--load_run", str(run), flag, "state_2", "--no_video")
    done = run_script("scripts/play.py", *arguments)
    assert done.returncode == 0, done.stderr
    assert "the physics breaks as in training" in done.stdout and "trunk velocity x" in done.stdout
    assert ("note: --postmortem is deprecated; use --fault_dump" in done.stdout) == (flag == "--postmortem")
