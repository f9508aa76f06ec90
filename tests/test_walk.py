"""The promise of the first page: two cores, no GPU, a few minutes, and a Go2 that follows its commands."""

import json
import shlex
import shutil
import subprocess
import uuid
from pathlib import Path

import pytest
import torch


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_go2_learns_to_walk(run_script, root, seed):
    experiment = f"walk-{uuid.uuid4().hex[:8]}"
    arguments = ("--task", "go2_flat", "--experiment_name", experiment)
    try:
        done = run_script("scripts/train.py", *arguments, "--seed", str(seed), timeout=1200)
        assert done.returncode == 0, done.stderr
        done = run_script("scripts/evaluate.py", *arguments, "--num_seeds", "3", timeout=600)
        result = json.loads(done.stdout.strip().splitlines()[-1])
        print(json.dumps(result))
        assert result["env_steps"] <= 4_000_000
        assert result["gate_passed"], done.stdout
        if seed == 1:
            compare_engines(run_script, arguments)
    finally:
        shutil.rmtree(root / "logs" / experiment, ignore_errors=True)


def compare_engines(run_script, arguments):
    """One policy is judged alike by both engines, each with 64 robots three times."""
    judged = {}
    for engine in ("mujoco", "mujoco_warp"):
        flags = ("--num_seeds", "3", "--num_envs", "64", "--report", "none", "--sim", engine)
        done = run_script("scripts/evaluate.py", *arguments, *flags, timeout=1200)
        judged[engine] = json.loads(done.stdout.strip().splitlines()[-1])
        print(engine, json.dumps(judged[engine]))
    cpu, warp = judged.values()
    for name in ("lin_vel_error", "yaw_rate_error", "action_rate", "mean_torque", "step_frequency"):
        assert warp[name] == pytest.approx(cpu[name], rel=0.1), name
    assert abs(warp["fall_rate"] - cpu["fall_rate"]) <= 0.01  # two falls of 192 robots


@pytest.mark.slow
@pytest.mark.parametrize("seed", [31, 32, 33, 34, 35])
def test_make_walk_ends_with_a_policy_that_walks(run_script, root, seed):
    commands = subprocess.run(("make", "-n", "walk"), cwd=root, capture_output=True, text=True, check=True).stdout
    train, evaluate = (
        shlex.split(line)[1:]
        for line in commands.splitlines()
        if "scripts/train.py" in line or "scripts/evaluate.py" in line
    )
    experiment = f"walk-{uuid.uuid4().hex[:8]}"
    try:
        done = run_script(*train, "--experiment_name", experiment, "--seed", str(seed), timeout=1200)
        assert done.returncode == 0, done.stderr
        assert "the policy passed the gate in an evaluation" in done.stdout
        done = run_script(*evaluate, "--experiment_name", experiment, "--num_seeds", "6", timeout=600)
        result = json.loads(done.stdout.strip().splitlines()[-1])
        print(json.dumps(result))
        assert result["gate_passed"], result
    finally:
        shutil.rmtree(root / "logs" / experiment, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_an_anymal_learns_to_walk(run_script, root, seed):
    result = train_and_evaluate(run_script, root, "anymal_c_flat", seed)
    assert result["env_steps"] <= 4_000_000
    assert result["gate_passed"], result


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("task", ["g1_flat", "h1_flat"])
def test_a_humanoid_learns_to_walk(run_script, root, task, seed):
    """It walks at 0.5 m/s with steps: each foot leaves the floor, high enough, and stands still on it."""
    forward = [f"--env.commands.{name}" for name in ("lin_vel_x", "lin_vel_y", "yaw_rate")]
    command = (forward[0], "0.5", "0.5", forward[1], "0", "0", forward[2], "0", "0")
    result = train_and_evaluate(run_script, root, task, seed, *command)
    assert result["fall_rate"] <= 0.1 and result["lin_vel_error"] <= 0.15, result
    assert result["swing_height"] >= 0.04 and result["duty_factor"] <= 0.75, result
    assert result["foot_slip"] <= 0.15 and 0.5 <= result["step_frequency"] <= 3.0, result


def train_and_evaluate(run_script, root, task, seed, *flags):
    """Train a task and return the result of three evaluations of 20 s."""
    experiment = f"walk-{uuid.uuid4().hex[:8]}"
    arguments = ("--task", task, "--experiment_name", experiment)
    try:
        done = run_script("scripts/train.py", *arguments, "--seed", str(seed), timeout=6000)
        assert done.returncode == 0, done.stderr
        done = run_script("scripts/evaluate.py", *arguments, "--num_seeds", "3", *flags, timeout=600)
        result = json.loads(done.stdout.strip().splitlines()[-1])
        print(json.dumps(result))
        return result
    finally:
        shutil.rmtree(root / "logs" / experiment, ignore_errors=True)


@pytest.mark.slow
def test_a_go2_without_a_sense_of_velocity_walks(run_script, root):
    experiment = f"blind-{uuid.uuid4().hex[:8]}"
    results = {}
    try:
        for task in ("go2_flat_blind", "go2_flat_blind_mlp"):
            arguments = ("--task", task, "--experiment_name", experiment)
            done = run_script("scripts/train.py", *arguments, timeout=6000)
            assert done.returncode == 0, done.stderr
            done = run_script("scripts/evaluate.py", *arguments, "--num_seeds", "3", timeout=600)
            results[task] = json.loads(done.stdout.strip().splitlines()[-1])
            run = Path(results[task]["checkpoint"]).parent
            records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
            minutes = sum(record["collect_s"] + record["learn_s"] for record in records) / 60
            print(f"{task}: {minutes:.1f} minutes of collecting and learning", json.dumps(results[task]))
        with_memory, without = results.values()
        assert with_memory["gate_passed"]
        assert all(without[name] > with_memory[name] for name in ("lin_vel_error", "yaw_rate_error"))
    finally:
        shutil.rmtree(root / "logs" / experiment, ignore_errors=True)


@pytest.mark.parametrize("deterministic", [pytest.param(False, marks=pytest.mark.slow), True])
def test_two_trainings_with_one_seed_give_equal_weights(run_script, root, deterministic):
    """Iterations of the real task, in two processes, which order their sets differently."""
    experiment, iterations = f"same-{uuid.uuid4().hex[:8]}", "5" if deterministic else "20"
    arguments = ["--task", "go2_flat", "--experiment_name", experiment, "--num_envs", "64"]
    arguments += ["--max_iterations", iterations, *(["--deterministic"] if deterministic else [])]
    try:
        for name, environment in {"a": {}, "b": {"PYTHONHASHSEED": "1"}}.items():
            done = run_script("scripts/train.py", *arguments, "--run_name", name, **environment)
            assert done.returncode == 0 and ("note: deterministic: " in done.stdout) == deterministic, done.stderr
        paths = sorted((root / "logs" / experiment).glob(f"*/model_{iterations}.pt"))
        a, b = (torch.load(path, weights_only=True) for path in paths)
        for key, value in a["model_state_dict"].items():
            assert torch.equal(value, b["model_state_dict"][key]), key
        assert f"deterministic: {str(deterministic).lower()}" in (paths[0].parent / "config.yaml").read_text()
    finally:
        shutil.rmtree(root / "logs" / experiment, ignore_errors=True)
