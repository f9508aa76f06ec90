"""The wheel in an environment without the checkout: the command, and a task repository of three files."""

import json

import pytest
import torch

pytestmark = pytest.mark.slow

EXPERIMENT = """
from dataclasses import dataclass, field, replace

from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.mdp import ObservationTerm
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl_configs.go2_flat import Go2Flat, flat_task

from configs.network import SmallNetworkConfig


def task() -> LeggedRobotConfig:
    base = flat_task()
    rewards = base.rewards.with_weights({"configs.terms:low_feet": -0.5})
    policy = base.observations["policy"].with_terms({"configs.terms:foot_distance": ObservationTerm(scale=2.0)})
    return replace(base, rewards=rewards, observations={**base.observations, "policy": policy})


@dataclass(frozen=True)
class Dog(Go2Flat):
    env: LeggedRobotConfig = field(default_factory=task)
    policy: SmallNetworkConfig = SmallNetworkConfig(actor_hidden_dims=(16,), critic_hidden_dims=(16,))
    runner: RunnerConfig = RunnerConfig(num_steps_per_env=4, max_iterations=1, experiment_name="dog")
"""

TERMS = """
from torch import Tensor


def low_feet(state, cfg) -> Tensor:
    return (0.05 - state.foot_pos[:, :, 2]).clamp(min=0.0).sum(dim=1)


def foot_distance(state) -> Tensor:
    return (state.foot_pos[:, :1, :2] - state.foot_pos[:, 1:2, :2]).norm(dim=2)
"""

NETWORK = """
from dataclasses import dataclass
from typing import ClassVar

import torch

from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.modules import ActorCritic


class SmallActions(ActorCritic):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        with torch.no_grad():
            for parameter in self.actor.parameters():
                parameter.mul_(0.5)


@dataclass(frozen=True)
class SmallNetworkConfig(ActorCriticConfig):
    builds: ClassVar[str] = "configs.network:SmallActions"
"""


@pytest.fixture
def rsl_rl(run_installed):
    """Run the installed command in an empty folder and return its output."""

    def run(*arguments):
        done = run_installed("rsl-rl", *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    return run


def test_wheel_trains_go2_flat_in_an_empty_folder(rsl_rl, installed_wheel, tmp_path):
    assert (installed_wheel / "rsl_rl" / "py.typed").exists() and not (installed_wheel / "configs").exists()
    small = ("--num_envs", "8", "--runner.num_steps_per_env", "4", "--max_iterations", "1", "--sim_device", "cpu")
    output = rsl_rl("train", "--task", "go2_flat", *small)
    (run,) = (tmp_path / "logs" / "go2_flat").iterdir()
    assert f"run: {run}" in output and (run / "model_1.pt").exists() and not (run / "git").exists()
    assert "go2_flat" in rsl_rl("list").split()
    few = ("--num_envs", "4", "--num_steps", "2", "--repeats", "1", "--hidden_dims", "8")
    assert '"benchmark": "learner"' in rsl_rl("benchmark", "learner", *few)


def test_task_repository_of_three_files_trains_resumes_evaluates_plays_and_exports(rsl_rl, tmp_path):
    pytest.importorskip("onnxruntime")
    git = pytest.importorskip("git")
    (tmp_path / "configs").mkdir()  # as our own folder is called
    for name, text in (("dog", EXPERIMENT), ("terms", TERMS), ("network", NETWORK)):
        (tmp_path / "configs" / f"{name}.py").write_text(text)
    repo = git.Repo.init(tmp_path)
    repo.index.add(["configs/dog.py", "configs/terms.py", "configs/network.py"])
    author = git.Actor("a", "a@example.org")
    commit = repo.index.commit("first", author=author, committer=author).hexsha
    (tmp_path / "configs" / "terms.py").write_text(TERMS.replace("0.05", "0.06"))

    task = ("--task", "configs.dog:Dog", "--sim_device", "cpu")
    rsl_rl("train", *task, "--num_envs", "8")
    (run,) = (tmp_path / "logs" / "dog").iterdir()
    (state,) = (run / "git").iterdir()
    assert state.name == f"{tmp_path.name}.diff" and commit in state.read_text() and "0.06" in state.read_text()

    rsl_rl("train", *task, "--resume", "--max_iterations", "2")
    assert torch.load(run / "model_2.pt", weights_only=True)["iter"] == 2

    result = json.loads(rsl_rl("evaluate", *task, "--num_envs", "2", "--seconds", "0.2").strip().splitlines()[-1])
    assert result["checkpoint"].endswith("model_2.pt") and result["env_steps"] == 2 * 4 * 8

    output = rsl_rl("play", *task, "--num_envs", "1", "--seconds", "0.2", "--no_video")
    assert "not for robots: no robot senses configs.terms:foot_distance" in output
    assert output.count("acts like the policy") == 2 and "does NOT act" not in output
    exported = {path.name for path in (run / "exported").iterdir()}
    assert exported >= {"policy.pt", "policy.onnx", "policy.json", "parity.json", "onnx_policy.py", "play.png"}
