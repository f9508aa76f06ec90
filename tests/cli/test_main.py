"""The command: its subcommands, help and errors."""

import time

import pytest


def test_rsl_rl_without_a_command_shows_the_commands(run_script):
    for arguments, code in ((("--help",), 0), ((), 2)):
        done = run_script("-m", "rsl_rl", *arguments)
        assert done.returncode == code and "usage: rsl-rl COMMAND" in done.stdout and "check-env" in done.stdout


def test_unknown_command_is_one_line(run_script):
    done = run_script("-m", "rsl_rl", "tarin")
    assert done.returncode == 2 and "unknown command 'tarin'; known: train, play, evaluate" in done.stderr


@pytest.mark.parametrize("command", ["train", "play", "evaluate", "list", "check-env"])
def test_help_of_a_command_imports_no_torch(run_script, command):
    began = time.perf_counter()
    done = run_script("-X", "importtime", "-m", "rsl_rl", command, "--help")
    print(f"{command} --help took {time.perf_counter() - began:.2f} s")
    assert done.returncode == 0 and f"usage: rsl-rl {command}" in done.stdout
    assert " torch\n" not in done.stderr and " typing\n" in done.stderr


def test_check_env_shows_groups_abilities_and_speed(run_script, tmp_path):
    (tmp_path / "own_env.py").write_text(ENV)
    done = run_script("-m", "rsl_rl", "check-env", "own_env:make_env", "--num_steps", "5", PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    for words in ("PointEnv: 64 environments with 1 actions", "'policy': [64, 1]", "Resettable", "steps per second"):
        assert words in done.stdout


def test_check_env_of_an_environment_that_breaks_the_contract_fails(run_script, tmp_path):
    (tmp_path / "own_env.py").write_text(ENV)
    done = run_script("-m", "rsl_rl", "check-env", "own_env:make_broken", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1 and "cannot be trained in" in done.stdout and "num_actions" in done.stdout
    done = run_script("-m", "rsl_rl", "check-env", "own_env:nothing", PYTHONPATH=str(tmp_path))
    assert done.returncode == 2 and "has no 'nothing'" in done.stderr and len(done.stderr.splitlines()) == 1


ENV = """
from rsl_rl.config.task import ToyConfig
from rsl_rl.tasks.toy import PointEnv


def make_env():
    return PointEnv(ToyConfig())


def make_broken():
    env = make_env()
    env.num_actions = 0
    return env
"""
