"""Train, play and evaluate on rough ground, by commands."""

import json
import shutil
import uuid

import pytest

SMALL = (
    "--num_envs", "8", "--runner.num_steps_per_env", "4", "--max_iterations", "1",
    "--policy.actor_hidden_dims", "16", "--policy.critic_hidden_dims", "16",
)  # fmt: skip


@pytest.fixture(scope="module")
def experiment(pytestconfig):
    name = f"terrain-{uuid.uuid4().hex[:8]}"
    yield name
    shutil.rmtree(pytestconfig.rootpath / "logs" / name, ignore_errors=True)


def test_train_play_and_evaluate(run_script, experiment, root):
    trained = run_script("scripts/train.py", "--task", "go2_rough", *SMALL, "--experiment_name", experiment)
    assert trained.returncode == 0, trained.stderr
    (run,) = (root / "logs" / experiment).iterdir()
    assert (run / "terrain.png").stat().st_size > 10_000
    (line,) = (run / "metrics.jsonl").read_text().splitlines()
    levels = {name: value for name, value in json.loads(line).items() if "terrain_level" in name}
    assert len(levels) >= 6 and 0 <= levels["episode/terrain_level"] <= 1

    where = ("--task", "go2_rough", "--experiment_name", experiment, "--terrain", "stairs_up", "--level")
    played = run_script("scripts/play.py", *where, "5", "--num_envs", "1", "--seconds", "0.1", "--no_video")
    assert played.returncode == 0, played.stderr
    result = run_script("scripts/evaluate.py", *where, "2", "--num_envs", "4", "--seconds", "0.1")
    assert result.returncode == 0 and "on stairs_up, level 2" in " ".join(result.stdout.split()), result.stderr
    wrong = run_script("scripts/play.py", *where, "99")
    assert wrong.returncode == 2 and "--level 99: give a level from 0 to 9" in wrong.stderr
