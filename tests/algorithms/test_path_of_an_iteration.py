"""The functions that a plain iteration passes: few, in few files, and those that docs/learner.md lists."""

import re
import sys
from pathlib import Path

import pytest

import rsl_rl
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.learn import AccelerationConfig, LearnConfig, RunnerConfig
from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.config.task import ToyConfig
from rsl_rl.runners.runner import Runner
from rsl_rl.tasks.toy import PointEnv

FOLDERS = (
    "algorithms", "storage", "modules", "extensions", "acceleration", "distributed", "env", "compat", "utils",
)  # fmt: skip


@pytest.fixture(scope="module")
def path():
    """Return (file, function) of each function that one iteration calls, in the order of the first calls."""
    folder = str(Path(rsl_rl.__file__).parent) + "/"
    networks = ActorCriticConfig(actor_hidden_dims=(32,), critic_hidden_dims=(32,))
    cfg = LearnConfig(
        policy=networks,
        algorithm=PPOConfig(num_learning_epochs=1, num_mini_batches=1),
        runner=RunnerConfig(num_steps_per_env=8, logger="none"),
        acceleration=AccelerationConfig(fused=False),
    )
    runner = Runner(PointEnv(ToyConfig(num_envs=16)), cfg)
    runner.learn(1)
    obs, seen = runner.env.get_observations(), {}

    def note(frame, event, argument):
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(folder):
            name = name[len(folder) :]
            if name.split("/")[0] in FOLDERS or name == "runners/collector.py":
                seen[name, frame.f_code.co_qualname] = None

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        runner.collector.collect(obs)  # between the two there is nothing but the clock
        runner.alg.update()
    finally:
        sys.setprofile(before)
    return list(seen)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code objects have no qualified name")
def test_iteration_passes_at_most_60_functions_in_12_files(path):
    assert 40 < len(path) <= 60 and len({name for name, _ in path}) <= 12


@pytest.mark.skipif(sys.version_info < (3, 11), reason="code objects have no qualified name")
def test_iteration_passes_the_functions_that_the_page_lists(path, root):
    rows = re.findall(r"^\| `([\w/]+\.py)` \| `([^`]+)` \|", (root / "docs" / "learner.md").read_text(), re.M)
    assert rows == path
