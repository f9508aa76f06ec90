"""Checkpoints go to and from earlier versions of rsl_rl, each of which runs in a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from rsl_rl.compat import convert_checkpoint
from rsl_rl.runners import OnPolicyRunner
from tests.compat.era_configs import CONFIGS
from tests.era_clients import V1PrivilegedEnv, V2Env, V5Env

CASES = [
    ("3.0.1", "lstm"),
    pytest.param("5.5.1", "gru", marks=pytest.mark.slow),
    *(
        pytest.param(version, "none", marks=pytest.mark.slow)
        for version in ("2.2.4", "2.3.3", "3.0.1", "3.3.0", "4.0.1", "5.5.1")
    ),
    pytest.param("2.3.3", "gru", marks=pytest.mark.slow),
    pytest.param("4.0.1", "lstm", marks=pytest.mark.slow),
]
ENVS = {1: V1PrivilegedEnv, 2: V2Env, 3: V5Env, 4: V5Env, 5: V5Env}
SCRIPT = Path(__file__).with_name("run_upstream.py")


@pytest.fixture(scope="session")
def upstream(pytestconfig, peer):
    """Return a function from a version to the path with which its rsl_rl is imported."""

    def path_of(version):
        if version == "5.5.1":
            return str(peer)
        folder = pytestconfig.cache.mkdir(f"rsl-rl-lib-{version}")
        with FileLock(f"{folder}.lock"):
            if not (folder / "complete").exists():
                command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target"]
                command += [str(folder), f"rsl-rl-lib=={version}"]
                if subprocess.run(command, capture_output=True, check=False).returncode != 0:
                    pytest.skip(f"rsl-rl-lib {version} cannot be installed here")
                (folder / "complete").touch()
        return os.pathsep.join((str(folder), str(peer)))

    return path_of


@pytest.fixture
def run(upstream, tmp_path):
    """Return a function that runs the script with a version, and returns what it saved."""

    def run_script(version, memory, *checkpoint):
        out = tmp_path / "out.pt"
        command = [sys.executable, str(SCRIPT), version[0], memory, str(out), *map(str, checkpoint)]
        env = {**os.environ, "PYTHONPATH": upstream(version), "PYTHONWARNINGS": "ignore"}
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
        return torch.load(out, weights_only=True)

    return run_script


def runner_like(version, memory):
    """Return a runner of ours for the same client."""
    major = int(version[0])
    rnn = {} if memory == "none" else {"rnn_type": memory, "rnn_hidden_dim": 12}
    return OnPolicyRunner(ENVS[major](), CONFIGS[major](**rnn))


def act(runner, saved):
    policy = runner.get_inference_policy()
    name = runner.alg.policy.actor_model.groups[0]
    return torch.stack([policy({name: obs}).clone() for obs in saved["obs"]])


@pytest.mark.parametrize(("version", "memory"), CASES)
def test_a_checkpoint_of_an_earlier_version_acts_equally_and_returns_there(version, memory, run, tmp_path):
    theirs = run(version, memory)
    runner = runner_like(version, memory)
    runner.load(tmp_path / "model.pt")
    torch.testing.assert_close(act(runner, theirs), theirs["actions"], atol=1e-6, rtol=1e-6)
    assert runner.current_learning_iteration == theirs["iter"] == (3 if version[0] == "1" else 2)
    assert runner.alg.learning_rate == pytest.approx(theirs["lr"])

    runner.save(tmp_path / "ours.pt")
    convert_checkpoint(tmp_path / "ours.pt", tmp_path / "back.pt", to=version)
    back = run(version, memory, tmp_path / "back.pt")
    torch.testing.assert_close(back["actions"], theirs["actions"], atol=1e-6, rtol=1e-6)
    assert back["lr"] == pytest.approx(theirs["lr"]) and back["iter"] == theirs["iter"]
    before, after = (torch.load(tmp_path / name, weights_only=False) for name in ("model.pt", "back.pt"))
    moments = [state["optimizer_state_dict"]["state"] for state in (before, after)]
    assert moments[0].keys() == moments[1].keys()
    for i, moment in moments[0].items():
        torch.testing.assert_close(moments[1][i]["exp_avg"], moment["exp_avg"])
        assert float(moments[1][i]["step"]) == float(moment["step"])

    runner.learn(1)  # the optimiser's state fits its parameters
