"""A client in the way of legged robots' repositories trains by its own script, and on each kind of ground."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent


def launch(*args, **environment):
    """Run the launcher from a folder in which nothing of this repository can be imported."""
    paths = os.pathsep.join([str(PACKAGE), str(PACKAGE.parent)])
    env = {**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1", **environment}
    command = [sys.executable, "-W", "ignore", "-m", "gymapi_mujoco", *args]
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd="/", timeout=300, check=False)


def test_client_script_trains_by_the_launcher_with_an_unchanged_command_line(engine):
    script = str(HERE / "client" / "train.py")
    done = launch(
        "--engine", engine, script, "--task", "walk", "--headless", "--num_envs", "8", "--sim_device", "cuda:0"
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "trained on cpu" in done.stdout and "8 robots" in done.stdout
    lines = [line for line in done.stderr.splitlines() if line.startswith("isaacgym:")]
    assert len(lines) == 2, lines
    assert lines[0].startswith("isaacgym: cpu instead of sim_device=cuda:0")
    assert {"cpu": "on the CPU, ", "warp": "on Warp's CPU device"}[engine] in lines[1]
    assert "not NVIDIA's engine" in lines[1]


@pytest.fixture
def client(gymapi, monkeypatch):
    monkeypatch.syspath_prepend(str(HERE / "client"))
    import legged_task

    yield legged_task
    sys.modules.pop("legged_task")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("task", ["walk_field", "walk_mesh"])
def test_client_trains_on_uneven_ground(client, monkeypatch, task):
    monkeypatch.setattr(sys, "argv", ["train.py", "--task", task, "--headless", "--num_envs", "6"])
    env = client.train(client.get_args())
    assert torch.isfinite(env.obs_buf).all() and torch.isfinite(env.rew_buf).all()
    assert env.contact_forces[:, env.feet, 2].max() > 5.0
    _, _, reward, reset, extras = env.step(torch.zeros(6, 12))
    assert reward.shape == (6,) and reset.shape == (6,) and set(extras) == {"time_outs"}
