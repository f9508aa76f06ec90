"""Sweeps as a user runs them: real processes, failed and killed ones too."""

import csv
import os
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("optuna")

from rsl_rl.cli.errors import UsageError
from rsl_rl.cli.sweep import command, study

TINY = (
    "--task", "recall", "--num_envs", "16", "--runner.num_steps_per_env", "8", "--logger", "none",
    "--policy.rnn_hidden_size", "8",
)  # fmt: skip


def rows_of(folder):
    return list(csv.DictReader((folder / "sweep.csv").read_text().splitlines()))


@pytest.mark.slow
def test_failed_training_is_a_failed_trial_and_the_sweep_goes_to_its_end(run_script, tmp_path):
    arguments = (*TINY, "--max_iterations", "2", "--space", "num_envs=3,16", "--log_root", str(tmp_path))
    done = run_script("-m", "rsl_rl", "sweep", *arguments)
    assert done.returncode == 0, done.stderr
    best, failed = rows_of(tmp_path / "recall_sweep")
    assert (best["env.num_envs"], best["state"]) == ("16", "complete") and float(best["mean_reward"]) < 0
    assert (failed["env.num_envs"], failed["state"], failed["mean_reward"]) == ("3", "failed", "")
    assert "seed 1: rsl-rl train: error: " in failed["note"] and "num_mini_batches" in failed["note"]
    assert "recall_sweep: highest mean_reward first" in done.stdout and failed["note"][:60] in done.stdout
    (run,) = (tmp_path / "recall_sweep").glob("*_trial_0001_seed_1")  # an ordinary run
    assert {"config.yaml", "metrics.jsonl", "model_0.pt", "model_2.pt"} <= {path.name for path in run.iterdir()}


WRONG = {  # flags: words of the line
    "--space algorithm.gama=0.9,0.99": "there is no field 'algorithm.gama'; 'algorithm' has ",
    "--space algorithm.gamma=0.9..0.99": "--trials is missing; a range has no last value",
    "--trials -1": "--trials -1: give a positive number",
    "--trials 0": "--trials 0: give a positive number, or leave it out to try all choices",
    "--sampler grid": "--sampler grid; allowed: tpe, random",
    "--seeds 1 1": "--seeds names 1 twice",
    "--max_time 60": "runner.max_time=60 would end trainings of a sweep before their last iteration",
    "--resume": "a sweep continues with the same command; leave out --resume",
}


@pytest.mark.parametrize("flags", WRONG)
def test_wrong_flags_are_one_line_and_leave_no_folder(flags, tmp_path):
    with pytest.raises(UsageError) as caught:
        command.main([*TINY, "--log_root", str(tmp_path), *flags.split()])
    assert caught.value.code == 2 and WRONG[flags] in caught.value.message
    assert list(tmp_path.iterdir()) == []


def test_missing_optuna_is_one_line_with_its_remedy(run_script, tmp_path):
    (tmp_path / "sitecustomize.py").write_text("import sys\nsys.modules['optuna'] = None\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = run_script("-X", "utf8", "-m", "rsl_rl", "sweep", *TINY, PYTHONPATH=path)  # a new process reads the file
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert 'a sweep needs Optuna; install it with: pip install "rsl-rl-lib[sweep]"' in done.stderr


def test_flags_of_the_sweep_are_kept_from_the_trainings():
    line = (
        "--task recall --space a=1,2 b=3 --num_envs 8 --space c=log:1..2 --trials 20 --seeds 1 2 --prune --sampler tpe"
    )
    of_trainings, own = command.split_flags(line.split())
    assert of_trainings == ["--task", "recall", "--num_envs", "8"]
    expected = "--prune --space a=1,2 b=3 c=log:1..2 --seeds 1 2 --trials 20 --sampler tpe"
    assert command.argv_of(own) == expected.split()


def test_processes_of_torchrun_start_no_sweep(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UsageError) as caught:
        command.main(TINY)
    assert "WORLD_SIZE=2 says that torchrun started this one" in caught.value.message


def test_sweep_with_other_flags_is_another_sweep(tmp_path, monkeypatch):
    monkeypatch.setattr(study.SweepTrainer, "run", lambda self, assignment: os.kill(os.getpid(), signal.SIGTERM))
    arguments = [*TINY, "--log_root", str(tmp_path), "--space", "algorithm.gamma=0.9,0.99"]
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        assert command.main(arguments) == 143
        for more, name in ((["--seeds", "1", "2"], "seeds"), (["--algorithm.lam", "0.9"], "flags")):
            with pytest.raises(UsageError) as caught:
                command.main([*arguments, *more])
            assert f"recall_sweep holds a sweep with other {name}: " in caught.value.message
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_legged_task_is_evaluated_and_its_score_minimised():
    from configs.go2_flat import Go2Flat

    cfg = Go2Flat()
    assert command.target_of(cfg) == ("evaluation/score", True)
    last = str(cfg.runner.max_iterations)
    assert command.evaluation_flags(cfg, prune=False) == ["--evaluate_interval", last]
    assert int(command.evaluation_flags(cfg, prune=True)[1]) == cfg.runner.max_iterations // 10


def start(root, *arguments):
    program = [sys.executable, "-m", "rsl_rl", "sweep", *arguments]
    return subprocess.Popen(program, cwd=root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def iterations_of(folder):
    """The number of iterations of all runs of a sweep so far."""
    return sum(len(path.read_text().splitlines()) for path in folder.glob("*/metrics.jsonl"))


@pytest.mark.slow
def test_ten_seeds_killed_and_continued_give_the_table_of_an_uninterrupted_sweep(root, tmp_path):
    seeds = [str(seed) for seed in range(1, 11)]
    common = (*TINY, "--max_iterations", "12", "--save_interval", "4", "--seeds", *seeds)
    whole = start(root, *common, "--log_root", str(tmp_path / "whole"))
    output, _ = whole.communicate(timeout=600)
    assert whole.returncode == 0, output
    cut, kills = tmp_path / "cut" / "recall_sweep", 0
    for strike_at in (6, 50, 90):  # in the middle of the first, the fifth and the eighth training
        process = start(root, *common, "--log_root", str(tmp_path / "cut"))
        while process.poll() is None and iterations_of(cut) < strike_at:
            time.sleep(0.01)
        assert process.poll() is None
        process.kill()
        process.communicate()
        kills += 1
    process = start(root, *common, "--log_root", str(tmp_path / "cut"))
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0 and "resuming trial_0000_seed_" in output and kills == 3
    for ending in ("csv", "md"):
        name = f"recall_sweep/sweep.{ending}"
        assert (tmp_path / "cut" / name).read_text() == (tmp_path / "whole" / name).read_text()
    (row,) = rows_of(cut)
    assert len({row[f"seed {seed}"] for seed in seeds}) == 10 and row["state"] == "complete"
    assert iterations_of(cut) == iterations_of(tmp_path / "whole" / "recall_sweep") == 120


@pytest.mark.slow
def test_killed_training_is_resumed_and_two_processes_share_a_sweep(root, tmp_path):
    arguments = (*TINY, "--max_iterations", "40", "--save_interval", "5", "--seeds", "1", "2", "3", "4")
    arguments = (*arguments, "--log_root", str(tmp_path))
    folder = tmp_path / "recall_sweep"
    processes = [start(root, *arguments) for _ in range(2)]
    while iterations_of(folder) < 10 and all(process.poll() is None for process in processes):
        time.sleep(0.01)
    training = subprocess.run(["pgrep", "-P", str(processes[0].pid)], capture_output=True, text=True, check=True).stdout
    os.kill(int(training.split()[0]), signal.SIGKILL)
    outputs = [process.communicate(timeout=600)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert all("training trial_0000_seed_" in output for output in outputs) and "resuming trial" in outputs[0]
    (row,) = rows_of(folder)
    assert row["state"] == "complete" and len(list(folder.glob("*_trial_0000_seed_*"))) == 4


@pytest.mark.slow
def test_trial_worse_than_the_others_is_pruned(root, tmp_path):
    arguments = (*TINY, "--max_iterations", "60", "--log_root", str(tmp_path), "--prune")
    rates = "1e-3,2e-3,3e-3,4e-3,1e-7"  # the last does not learn
    process = start(
        root, *arguments, "--space", f"algorithm.learning_rate={rates}", "--algorithm.schedule", "fixed",
    )  # fmt: skip
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    last = rows_of(tmp_path / "recall_sweep")[-1]
    assert (last["algorithm.learning_rate"], last["state"]) == ("1e-7", "pruned")
    assert "worse than the median at iteration" in last["note"]


@pytest.mark.slow
def test_score_of_a_legged_task_is_the_target(root, tmp_path):
    small = (
        "--num_envs", "8", "--runner.num_steps_per_env", "4", "--max_iterations", "1", "--logger", "none",
        "--progress.evaluate_robots", "2", "--progress.evaluate_seconds", "0.1", "--log_root", str(tmp_path),
    )  # fmt: skip
    process = start(root, "--task", "go2_flat", *small, "--space", "algorithm.gamma=0.9,0.99", "--seeds", "1", "2")
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0 and "lowest evaluation/score first" in output, output
    scores = [float(row["evaluation/score"]) for row in rows_of(tmp_path / "go2_flat_sweep")]
    assert len(scores) == 2 and scores == sorted(scores)
