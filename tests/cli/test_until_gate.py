"""A training that ends as soon as its policy is good enough."""

import json

import pytest

from rsl_rl.runners.listeners import GateStreak

EASY = ("--env.gate.fall_rate", "1e9", "--env.gate.lin_vel_error", "1e9", "--env.gate.yaw_rate_error", "1e9")
TINY = (
    "--task", "go2_flat", "--num_envs", "8", "--runner.num_steps_per_env", "4", "--max_iterations", "9",
    "--evaluate_interval", "2", "--progress.evaluate_robots", "4", "--progress.evaluate_seconds", "0.2",
)  # fmt: skip


def train(rsl_rl_here, folder, *flags):
    """Return the exit code of a training, and the names of its checkpoints."""
    code = rsl_rl_here("train", *TINY, "--log_root", str(folder), *flags)
    runs = list((folder / "go2_flat").glob("*"))
    names = sorted(path.name for path in runs[0].glob("model_[0-9]*.pt")) if runs else []
    return code, names


def test_training_whose_policy_passes_the_gate_ends_early_and_says_so(rsl_rl_here, tmp_path, capsys):
    code, names = train(rsl_rl_here, tmp_path, *EASY, "--until_gate", "2")
    printed = capsys.readouterr().out
    assert code == 0 and "passed the gate in 2 evaluations in a row: training ends after iteration 4" in printed
    assert "model_4.pt" in names and "done: " in printed
    assert "interrupted" not in printed


def test_training_whose_policy_misses_the_gate_uses_all_its_iterations(rsl_rl_here, tmp_path, capsys):
    limits = (*EASY[:2], "--env.gate.lin_vel_error", "1e-9")
    code, names = train(rsl_rl_here, tmp_path, *limits, "--until_gate", "2")
    assert code == 0 and "passed the gate" not in capsys.readouterr().out
    assert "model_9.pt" in names


def test_until_gate_without_evaluations_is_an_error_that_says_what_to_give(rsl_rl_here, tmp_path, capsys):
    code, names = train(rsl_rl_here, tmp_path, "--until_gate", "2", "--evaluate_interval", "0")
    assert code == 2 and not names
    assert "progress.until_gate=2 needs evaluations; give evaluate_interval" in capsys.readouterr().err


def streak(tmp_path, stops, length=2, iteration=0):
    return GateStreak(length, 0.8, lambda: stops.append(True), tmp_path, iteration)


def test_streak_ends_with_an_evaluation_above_the_limit(tmp_path):
    stops = []
    counter = streak(tmp_path, stops)
    for score in (0.8, 0.81, 0.1, float("nan"), 0.5):
        counter.note_evaluation(1, {"score": score})
    assert not stops
    counter.note_evaluation(6, {"score": 0.8})
    assert stops


@pytest.mark.parametrize(("iteration", "stops_at_once"), [(20, True), (19, False)])
def test_streak_of_a_resumed_run_counts_evaluations_up_to_its_iteration(tmp_path, iteration, stops_at_once):
    records = [
        {"iteration": 10, "evaluation/score": 2.0},
        {"iteration": 11},
        {"iteration": 20, "evaluation/score": 0.5},
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    stops = []
    streak(tmp_path, stops, iteration=iteration).note_evaluation(30, {"score": 0.5})
    assert bool(stops) == stops_at_once
