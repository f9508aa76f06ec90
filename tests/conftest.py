"""Fixtures shared by all tests."""

import gc
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each program that tests start compiles the package anew
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
from rsl_rl.cli.main import main
from rsl_rl.cli.signals import SIGNALS
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.learn import LearnConfig, RunnerConfig
from rsl_rl.config.policy import ActorCriticConfig
from tests.programs import ROOT, Programs
from tests.quick import quick_commands as quick_commands_of_this_process

settings.register_profile("shared machine", deadline=None)  # a neighbour's load is no failure
settings.load_profile("shared machine")


def pytest_collection_finish(session) -> None:
    """Leave what is imported out of each search for garbage."""
    gc.freeze()


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


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """What runs programs of the checkout."""
    programs = Programs(tmp_path_factory.mktemp("programs"))
    yield programs
    programs.close()


@pytest.fixture
def run_script(programs):
    """Run a script of the checkout as a user would; its logs go to the checkout's own logs/ unless it only reads."""
    return programs.run


@pytest.fixture
def quick_commands():
    """Make short what commands measure at a fixed length; see :func:`tests.quick.quick_commands`."""
    with quick_commands_of_this_process():
        yield


@pytest.fixture
def rsl_rl_here(monkeypatch, quick_commands):
    """Run `rsl-rl` with some words in this process, and return its exit code."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "argv", ["rsl-rl"])
    before = {number: signal.getsignal(number) for number in SIGNALS}  # a training replaces the handlers

    def run(*words: str) -> int:
        try:
            return main(words)
        except SystemExit as stop:  # of --help
            return stop.code

    yield run
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(scope="session")
def installed_wheel(tmp_path_factory) -> Path:
    """The folder into which the wheel of the checkout is installed, without its dependencies."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"  # a build writes into its source
    for name in ("rsl_rl", "benchmarks", "configs", "deploy", "zoo"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("setup.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = (sys.executable, "-m", "pip")
    build = (*pip, "wheel", "--no-deps", "--no-index", "--no-build-isolation", "-w", str(folder), str(source))
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    (wheel,) = folder.glob("rsl_rl_lib-*.whl")
    install = (*pip, "install", "--no-deps", "--no-index", "--target", str(folder / "installed"), str(wheel))
    subprocess.run(install, check=True, capture_output=True, timeout=300)
    return folder / "installed"


@pytest.fixture
def run_installed(installed_wheel: Path, tmp_path: Path):
    """Run the installed command `rsl-rl`, or Python, in an empty folder, with an interpreter that knows the
    dependencies and no checkout."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None and spec.origin is not None
    dependencies = Path(spec.origin).parent.parent
    without = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    env = {**without, "PYTHONPATH": f"{installed_wheel}{os.pathsep}{dependencies}", "COLUMNS": "200"}
    python = getattr(sys, "_base_executable", sys.executable)  # reads no .pth file of the virtual environment
    programs = {"rsl-rl": [python, str(installed_wheel / "bin" / "rsl-rl")], "python": [python]}

    def run(program: str, *arguments: str, timeout: float = 900) -> subprocess.CompletedProcess:
        command = [*programs[program], *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=timeout, check=False
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


@pytest.fixture(scope="session")
def ask_peer(peer, tmp_path_factory):
    """Run a script of tests/algorithms in a process whose rsl_rl is rsl-rl-lib 5.5.1; return what it saves."""
    folder, scripts = tmp_path_factory.mktemp("peer"), ROOT / "tests" / "algorithms"
    environment = {**os.environ, "PYTHONPATH": str(peer), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(scripts / "peer_server.py")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with (folder / "errors").open("w") as errors:
        process = subprocess.Popen(command, **pipes, stderr=errors, env=environment, cwd=folder)

        def ask(script: str, given: dict) -> dict:
            torch.save(given, folder / "given.pt")
            request = [str(scripts / script), str(folder / "given.pt"), str(folder / "found.pt")]
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            assert process.stdout.readline() == "done\n", (folder / "errors").read_text()
            return torch.load(folder / "found.pt", weights_only=False)

        yield ask
        process.communicate()


@pytest.fixture
def set_torchs_threads():
    """Set how many threads torch has, for a test."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)
