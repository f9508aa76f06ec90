"""Every command and every line of code in the README is run here, or this file fails for not knowing it."""

import re
import shutil
import uuid

import pytest

from benchmarks.pairing import PEER_PACKAGES

TINY = (
    "--num_envs", "8", "--runner.num_steps_per_env", "4",
    "--policy.actor_hidden_dims", "16", "--policy.critic_hidden_dims", "16",
)  # fmt: skip

SCRIPTS = {  # command -> what makes it small; they run in this order, in an experiment of their own
    "scripts/train.py --task go2_flat": (*TINY, "--max_iterations", "1"),
    "scripts/train.py --task go2_flat --num_envs 256 --algorithm.desired_kl 0.02 --env.rewards.weights.torques -2e-4": (
        "--num_envs",
        "8",
        "--max_iterations",
        "1",
    ),
    "scripts/train.py --task go2_flat --resume --max_iterations 200": ("--max_iterations", "2"),
    "scripts/evaluate.py --task go2_flat --num_seeds 3": ("--num_envs", "2", "--seconds", "0.1"),
    "scripts/evaluate.py --task go2_flat --checkpoints 100 160 --num_seeds 5": (
        *("--checkpoints", "1", "2", "--num_seeds", "2", "--num_envs", "2", "--seconds", "0.1"),
    ),
    "scripts/train.py --task go2_flat --num_envs 4096 --sim mujoco_warp --sim_device cuda": (
        *("--sim_device", "cpu", *TINY, "--max_iterations", "1"),
    ),
    "scripts/train.py --task go2_flat --sim mujoco --sim_device cpu --rl_device cpu": (*TINY, "--max_iterations", "1"),
    "scripts/train.py --task go2_flat --video_interval 40 --evaluate_interval 20": (
        *(*TINY, "--max_iterations", "1", "--progress.video_seconds", "0.1", "--progress.video_robots", "1"),
        *("--progress.evaluate_robots", "2", "--progress.evaluate_seconds", "0.1"),
    ),
    "scripts/evaluate.py --task go2_flat --checkpoint best": ("--num_envs", "2", "--seconds", "0.1"),
    "scripts/play.py --task go2_flat --command 0.8 0 0": ("--num_envs", "1", "--seconds", "0.1"),
    "scripts/train.py --task go2_flat --max_time 3500 --runner.keep_last 3 --runner.keep_every 100": (
        *(*TINY, "--max_iterations", "1"),
    ),
    "scripts/train.py --task go2_flat --resume": ("--max_iterations", "2"),
    "scripts/play.py --task go2_flat --command 0.8,0,0": ("--num_envs", "1", "--seconds", "0.1", "--no_video"),
    "scripts/train.py --task recall": ("--max_iterations", "1"),
    "scripts/train.py --task go2_flat_blind --policy.rnn_type lstm --algorithm.unroll_len 12 --algorithm.burn_in 4": (
        "--num_envs",
        "8",
        "--max_iterations",
        "1",
    ),
    "scripts/train.py --help": (),
}
SMALL_LEARNER = ("--num_envs", "8", "--hidden_dims", "8", "--rnn_hidden_size", "8", "--repeats", "1")
BENCHMARKS = {  # command, with names of what the test gives it -> what makes it small
    "scripts/benchmark.py learner --policy lstm --hidden_dims 256 128 --num_envs 1024 --peer peer": SMALL_LEARNER,
    "scripts/benchmark.py learner --num_envs 256 1024 4096 --plot learner.png": SMALL_LEARNER,
    "scripts/benchmark.py sim --task go2_flat --num_envs 256 1024 4096 --bare": (
        *("--num_envs", "4", "--seconds", "0.05", "--repeats", "1"),
    ),
    "scripts/benchmark.py train --task go2_flat --seeds 1 2 3": (
        *("--seeds", "1", "--every", "1", "--num_robots", "4", "--seconds", "0.1"),
        *("--overrides", "num_envs=8", "max_iterations=1"),
    ),
    "scripts/benchmark.py faults --rates 1e-3 1e-2 --peer peer": (
        *("--kinds", "reward nan", "--rates", "0.05", "--seeds", "1", "--num_envs", "64", "--iterations", "20"),
        *("--num_robots", "4", "--pairs", "1", "--warm_up", "1"),
    ),
    "scripts/benchmark.py gpu --peer peer --folder gpu_benchmark": (
        *("--device", "cpu", "--num_envs", "4", "--repeats", "1", "--parts", "iterations", "simulator"),
    ),
}

ELSEWHERE = {  # command -> the test or the job that runs it
    f".venv/bin/pip install --no-deps --target peer {PEER_PACKAGES}": "the fixture 'peer'",
    "git clone https://github.com/your-account/rsl_rl.git && cd rsl_rl": "an address to fill in",
    ".venv/bin/python scripts/play.py --task go2_flat --viewer": "tests/evaluation/test_teleop.py",
    ".venv/bin/python scripts/play.py --task go2_flat --keyboard": "tests/evaluation/test_teleop.py",
    ".venv/bin/python scripts/play.py --task go2_flat --fault_dump engine_12": "tests/evaluation/test_fault_replay.py",
    "python -m venv robot && robot/bin/pip install -c constraints.txt numpy onnxruntime mujoco": "tests/deploy, slow",
    "robot/bin/python deploy/sim_to_sim.py logs/go2_flat/<run>/exported/policy.onnx --robots 256 "
    "--friction 0.4 1.25 --payload -1 2 --gains 0.9 1.1": "tests/deploy/test_sim_to_sim.py",
    "make walk": "tests/test_walk.py, slow",
    "make test": ".ci/run",
    "make check": ".ci/run",
    "make test-slow": "by hand",
    '.venv/bin/pip install -c constraints.txt ".[sim,video]"': "test_the_installation_resolves",
}


def blocks(root, language):
    return re.findall(rf"^```{language}\n(.*?)^```", (root / "README.md").read_text(), flags=re.M | re.S)


def test_every_command_is_known(root):
    commands = [line for block in blocks(root, "bash") for line in block.splitlines() if line.strip()]
    assert set(commands) == {f".venv/bin/python {command}" for command in (*SCRIPTS, *BENCHMARKS)} | set(ELSEWHERE)


def test_the_scripts_run_as_written(run_script, root):
    experiment = f"readme-{uuid.uuid4().hex[:8]}"
    try:
        for command, small in SCRIPTS.items():
            done = run_script(*command.split(), *small, "--experiment_name", experiment)
            assert done.returncode == 0, f"{command}\n{done.stderr}"
    finally:
        shutil.rmtree(root / "logs" / experiment, ignore_errors=True)


@pytest.mark.parametrize("command", BENCHMARKS)
def test_the_benchmarks_run_as_written(run_script, peer, tmp_path, command):
    here = {"peer": str(peer), **{name: str(tmp_path / name) for name in ("learner.png", "gpu_benchmark")}}
    done = run_script(*(here.get(word, word) for word in command.split()), *BENCHMARKS[command])
    assert done.returncode == 0, done.stderr


def test_the_code_runs_as_written(root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = blocks(root, "python")
    scope = {}
    exec(compile(code, "README.md", "exec"), scope)
    assert scope["actions"].shape == (64, 1)
    assert (tmp_path / "logs/toy/first/exported/policy.pt").exists()


def test_the_files_it_points_to_exist(root):
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", (root / "README.md").read_text()):
        assert (root / target).exists(), target


def test_the_installation_resolves(root):
    """The README's own command, without the last step: installing over the checkout under test."""
    import subprocess
    import sys

    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "-c", "constraints.txt", ".[sim,video]"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 0, done.stderr


def test_the_package_holds_its_data(root, tmp_path):
    """A wheel of the checkout holds every module and the robot's model, and no tests."""
    import subprocess
    import sys
    import zipfile

    source = tmp_path / "source"
    shutil.copytree(
        root, source, ignore=shutil.ignore_patterns(".venv", ".git", "logs", "peer", ".*_cache", "*.egg-info", "build")
    )
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(tmp_path),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "setuptools" in done.stderr and "No module named" in done.stderr:
        pytest.skip("setuptools is not installed")
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("rsl_rl_lib-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(root)) for path in (root / "rsl_rl").rglob("*.py")}
    assert modules | {"rsl_rl/robots/go2/go2.xml"} <= names
    assert not any(name.startswith(("tests/", "configs/", "scripts/")) for name in names)
