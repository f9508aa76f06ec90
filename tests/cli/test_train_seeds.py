"""`rsl-rl train --seeds`: several runs, one table."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from configs.go2_flat import Go2Flat
from rsl_rl.cli import train
from rsl_rl.cli.errors import UsageError
from rsl_rl.cli.trainings import final_metrics, find_named_run
from rsl_rl.loggers.logger import read_metrics

TINY = (
    "--task", "recall", "--num_envs", "16", "--runner.num_steps_per_env", "8", "--logger", "none",
    "--policy.rnn_hidden_size", "8",
)  # fmt: skip


def test_seeds_train_one_after_the_other_and_give_one_table(run_script, tmp_path):
    arguments = (*TINY, "--max_iterations", "2", "--log_root", str(tmp_path), "--seeds", "3", "4")
    done = run_script("scripts/train.py", *arguments)
    assert done.returncode == 0, done.stderr
    rewards = []
    for seed in (3, 4):
        run = find_named_run(tmp_path / "recall", f"seed_{seed}")
        rewards.append(read_metrics(run)[-1]["mean_reward"])
        assert f"seed: {seed}\n" in (run / "config.yaml").read_text()
    table = done.stdout[done.stdout.index("recall: 2 of 2 seeds") :]
    assert f"{rewards[0]:.4g}" in table and f"{rewards[1]:.4g}" in table and f"{sum(rewards) / 2:.4g}" in table
    assert "95 % from" in table


@pytest.mark.slow
def test_interrupted_seeds_continue_with_resume(root, run_script, tmp_path):
    common = [*TINY, "--max_iterations", "30", "--save_interval", "5", "--seeds", "1", "2"]
    whole = run_script("-m", "rsl_rl", "train", *common, "--log_root", str(tmp_path / "whole"))
    assert whole.returncode == 0, whole.stderr
    command = [sys.executable, "-m", "rsl_rl", "train", *common, "--log_root", str(tmp_path / "cut")]
    process = subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.startswith("iteration 7/"):
            process.send_signal(signal.SIGTERM)
            break
    rest = process.communicate(timeout=120)[0]
    assert process.returncode == 143 and "interrupted; continue with --resume" in rest and "seed 2:" not in rest
    process = subprocess.Popen([*command, "--resume"], cwd=root, stdout=subprocess.PIPE, text=True)
    runs = tmp_path / "cut" / "recall"
    while find_named_run(runs, "seed_2") is None:
        time.sleep(0.01)
    process.kill()  # the training of the second seed gets SIGTERM from the system
    process.communicate()
    done = run_script("-m", "rsl_rl", "train", *common, "--log_root", str(tmp_path / "cut"), "--resume")
    assert done.returncode == 0 and "seed 1: finished before" in done.stdout, done.stderr
    assert len(list(runs.iterdir())) == 2

    def numbers(text):
        return [line.split("│")[1:4] for line in text[text.index("2 of 2 seeds") :].splitlines() if "│" in line]

    assert numbers(done.stdout) == numbers(whole.stdout)


WRONG = {
    "--seeds": "--seeds is empty; give one or several numbers",
    "--seeds 1 1": "--seeds names 1 twice; name each seed once",
    "--seeds 1 -2": "--seeds -2: give whole numbers from 0",
    "--seeds 1 x": "argument --seeds: invalid int value: 'x'",
    "--seeds 1 2 --seed 3": "--seed and --seeds exclude each other",
    "--seeds 1 2 --resume --load_run x": "--load_run is for a single run; leave it out with --seeds and --resume",
    "--seeds 1 2 --num_env 3": "unknown flag --num_env; did you mean --num_envs?",
}


@pytest.mark.parametrize("flags", WRONG)
def test_wrong_seeds_are_one_line(flags):
    with pytest.raises(UsageError) as caught:
        train.main([*TINY, *flags.split()])
    assert caught.value.code == 2 and WRONG[flags] in caught.value.message


def test_run_has_ended_at_the_last_iteration_or_after_enough_evaluations(tmp_path):
    cfg = Go2Flat()
    cfg = replace(cfg, runner=replace(cfg.runner, max_iterations=6))
    scores = {2: 0.5, 3: 0.9, 4: None, 5: 0.7, 6: 0.6}
    lines = [
        json.dumps({"iteration": 1}),
        *(json.dumps({"iteration": i, "evaluation/score": s}) for i, s in scores.items()),
    ]

    def ends(last, until_gate):
        for path in tmp_path.glob("model_*.pt"):
            path.unlink()
        (tmp_path / f"model_{last}.pt").touch()
        (tmp_path / "metrics.jsonl").write_text("\n".join(lines) + '\n{"iteration": 7, "eva')
        progress = replace(cfg.progress, evaluate_interval=1, until_gate=until_gate, gate_score=0.9)
        found = final_metrics(tmp_path, replace(cfg, progress=progress))
        return found and found["iteration"]

    assert [ends(last, 0) for last in range(7)] == [None] * 6 + [6]
    assert [ends(last, 1) for last in range(7)] == [None, None, 2, 3, None, 5, 6]
    assert [ends(last, 2) for last in range(7)] == [None, None, None, 3, None, None, 6]


def test_seeds_of_a_run_name_are_told_apart(tmp_path):
    for name in ("seed_1", "seed_11", "b_seed_1", "seed_1_2", "copy of seed_1", "[a]*_seed_1"):
        run = tmp_path / f"2026-01-01_00-00-00_{name}"
        run.mkdir()
        (run / "model_0.pt").touch()
    (tmp_path / "2026-01-02_00-00-00_seed_1").mkdir()  # without a checkpoint
    assert find_named_run(tmp_path, "seed_1").name == "2026-01-01_00-00-00_seed_1_2"  # a second run of one second
    assert find_named_run(tmp_path, "b_seed_1").name == "2026-01-01_00-00-00_b_seed_1"
    assert find_named_run(tmp_path, "[a]*_seed_1").name == "2026-01-01_00-00-00_[a]*_seed_1"
    assert find_named_run(tmp_path, "seed_2") is None
