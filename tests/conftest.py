"""Fixtures shared by all tests."""

import os
import subprocess
import sys
from pathlib import Path

if "PYTEST_XDIST_WORKER" in os.environ:
    # Programs that tests start are not measured for coverage, which would take a third of the time of all tests.
    os.environ.pop("COVERAGE_PROCESS_CONFIG", None)
    if hasattr(os, "sched_setaffinity"):  # each worker gets cores of its own before torch counts them
        first, count = int(os.environ["PYTEST_XDIST_WORKER"][2:]), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[first::count] or os.sched_getaffinity(0))

import pytest
import torch
from filelock import FileLock
from hypothesis import settings

from benchmarks.pairing import PEER_PACKAGES
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.learn import LearnConfig, RunnerConfig
from rsl_rl.config.policy import ActorCriticConfig

settings.register_profile("shared machine", deadline=None)  # a neighbour's load is no failure
settings.load_profile("shared machine")

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def small_cfg() -> LearnConfig:
    """A learner that does something useful in a second."""
    return LearnConfig(
        policy=ActorCriticConfig(actor_hidden_dims=(16,), critic_hidden_dims=(16,)),
        algorithm=PPOConfig(num_learning_epochs=2, num_mini_batches=2),
        runner=RunnerConfig(num_steps_per_env=8, save_interval=2, logger="none"),
    )


@pytest.fixture
def run_script(tmp_path: Path):
    """Run a script of the checkout as a user would; its logs go to the checkout's own logs/ unless it only reads."""

    def run(*command: str, timeout: float = 300, **environment: str) -> subprocess.CompletedProcess:
        env = {**os.environ, "COLUMNS": "200", **environment}
        return subprocess.run(
            [sys.executable, *command], capture_output=True, text=True, timeout=timeout, cwd=ROOT, env=env, check=False
        )

    return run


@pytest.fixture(scope="session")
def peer(pytestconfig) -> Path:
    """A folder with rsl-rl-lib 5.5.1, installed once and kept in pytest's cache."""
    folder = pytestconfig.cache.mkdir("rsl-rl-lib-5.5.1")
    with FileLock(f"{folder}.lock"):  # other workers want it too
        if not (folder / "complete").exists():
            command = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "--quiet",
                "--no-deps",
                "--upgrade",
                "--target",
                str(folder),
                *PEER_PACKAGES.split(),
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                pytest.skip(f"rsl-rl-lib 5.5.1 cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
            (folder / "complete").touch()
    return folder


@pytest.fixture
def set_torchs_threads():
    """Set how many threads torch has, for a test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
