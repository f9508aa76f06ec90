"""mjlab's own train and play run with this package in place of rsl-rl-lib.

Needs a Python that has mjlab 1.6.0, with the rsl-rl-lib that it installs, in the variable MJLAB_PYTHON:

    python -m venv mjlab && mjlab/bin/pip install torch==2.13.0 mjlab==1.6.0
    MJLAB_PYTHON=mjlab/bin/python pytest -m slow tests/compat/test_mjlab.py
"""

import os
import re
import subprocess
import sys

import pytest

PYTHON = os.environ.get("MJLAB_PYTHON", "")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not PYTHON, reason="MJLAB_PYTHON names no Python with mjlab")]

TASKS = {"Mjlab-Cartpole-Balance": "cartpole", "Mjlab-Velocity-Flat-Unitree-Go1": "go1_velocity"}
TRACKING = "Mjlab-Tracking-Flat-Unitree-G1"
G1 = "from mjlab.asset_zoo.robots.unitree_g1 import g1_constants; print(g1_constants.G1_XML)"

PLAY = """
import sys
import torch
from tensordict import TensorDict
from mjlab.scripts import play

class FewSteps:
    def __init__(self, env, policy, **options):
        self.env, self.policy = env, policy

    def run(self):
        obs = self.env.get_observations()
        with torch.no_grad():
            for _ in range(10):
                obs = self.env.step(self.policy(obs))[0]
            torch.manual_seed(1)
            groups = {name: torch.randn_like(group) for name, group in obs.items()}
            actions = self.policy(TensorDict(groups, batch_size=obs.batch_size))
        print("ACTIONS", " ".join(f"{x:.5f}" for x in actions[0].tolist()))

play.ViserPlayViewer = FewSteps
play.main()
"""


@pytest.fixture(scope="module")
def ours(root_of_package, tmp_path_factory):
    """A folder with this package as pip installs it."""
    folder = tmp_path_factory.mktemp("ours")
    command = [PYTHON, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(root_of_package)]
    subprocess.run(command, check=True)
    return folder


@pytest.fixture(scope="module")
def root_of_package(pytestconfig):
    return pytestconfig.rootpath


@pytest.fixture
def run(ours, tmp_path):
    """Return a function that runs code with mjlab's Python, and our package or, as it is there, rsl-rl-lib."""

    def call(code, *arguments, upstream=False):
        env = {**os.environ, "PYTHONPATH": "" if upstream else str(ours), "WANDB_MODE": "offline"}
        command = [PYTHON, "-c", code, *arguments, "--log-root", str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return call


def train(run, task, iterations, *arguments, upstream=False):
    size = ("--env.scene.num-envs", "16", "--agent.max-iterations", str(iterations))
    plain = ("--agent.logger", "tensorboard", "--gpu-ids", "None")
    code = "from mjlab.scripts import train; train.main()"
    return run(code, task, *size, *plain, *arguments, upstream=upstream)


def warnings_of(output):
    """Return the warnings of an output, without paths, numbers and times."""
    lines = [line for line in output.splitlines() if "warning" in line.lower()]
    return {re.sub(r"\S*/|\d+", "", line) for line in lines}


def newest(tmp_path, task, pattern):
    return max(tmp_path.glob(f"{TASKS[task]}/*/{pattern}"), key=lambda path: path.stat().st_mtime)


@pytest.mark.parametrize("task", TASKS)
def test_mjlab_trains_plays_resumes_and_its_checkpoints_load_in_both_directions(run, tmp_path, task):
    theirs = warnings_of(train(run, task, 3, upstream=True))
    checkpoint = str(newest(tmp_path, task, "model_2.pt"))
    played = run(PLAY, task, "--checkpoint-file", checkpoint, "--viewer", "viser", "--num-envs", "2")
    expected = run(PLAY, task, "--checkpoint-file", checkpoint, "--viewer", "viser", "--num-envs", "2", upstream=True)
    assert actions_of(played) == pytest.approx(actions_of(expected), abs=2e-5)

    assert warnings_of(train(run, task, 3)) <= theirs
    checkpoint = str(newest(tmp_path, task, "model_2.pt"))
    if task.startswith("Mjlab-Velocity"):
        exported = newest(tmp_path, task, "*.onnx")
        assert exported.parent == newest(tmp_path, task, "model_2.pt").parent
        assert b"joint_names" in exported.read_bytes()  # the metadata that mjlab attaches
    played = run(PLAY, task, "--checkpoint-file", checkpoint, "--viewer", "viser", "--num-envs", "2")
    expected = run(PLAY, task, "--checkpoint-file", checkpoint, "--viewer", "viser", "--num-envs", "2", upstream=True)
    assert actions_of(played) == pytest.approx(actions_of(expected), abs=2e-5)

    train(run, task, 2, "--agent.resume", "True")
    assert newest(tmp_path, task, "model_*.pt").name in ("model_3.pt", "model_4.pt")


def actions_of(output):
    return [float(x) for x in re.search(r"^ACTIONS (.*)$", output, flags=re.M).group(1).split()]


def test_mjlab_tracks_a_clip_of_ours_in_its_format(run, tmp_path):
    model = subprocess.run([PYTHON, "-c", G1], capture_output=True, text=True, check=True).stdout.split()[-1]
    for arguments in (
        ("generate", "--robot", "g1", "--gait", "walk", "--output", "walk.npz"),
        ("export", "walk.npz", "--seconds", "4", "--model", model),
    ):
        command = [sys.executable, "-m", "rsl_rl", "motion", *arguments]
        subprocess.run(command, check=True, cwd=tmp_path, capture_output=True)
    train(run, TRACKING, 2, "--env.commands.motion.motion-file", str(tmp_path / "walk_mjlab.npz"))
    assert list(tmp_path.glob("g1_tracking/*/model_1.pt"))
