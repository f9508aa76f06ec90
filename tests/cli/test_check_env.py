"""The command check-env, as a process in the folder of a client."""

import os
import sys

import pytest

from rsl_rl.cli.main import main

CLIENT = """
import torch

class Env:
    num_envs, num_obs, num_actions, num_privileged_obs, max_episode_length, device = 4, 3, 2, None, 9, "cpu"

    def __init__(self):
        self.episode_length_buf = torch.zeros(4, dtype=torch.long)

    def get_observations(self):
        return torch.zeros(4, 3)

    def get_privileged_observations(self):
        return None

    def reset(self):
        return torch.zeros(4, 3), None

    def step(self, actions):
        return torch.zeros(4, 3), None, torch.zeros(4), torch.zeros(4), {"time_outs": torch.zeros(4)}

class Broken(Env):
    def step(self, actions):
        return torch.full((4, 3), float("nan")), None, torch.zeros(4), torch.zeros(4), {}

class Other:
    def step(self, actions):
        return None

class Leaves(Other):
    def __init__(self):
        raise SystemExit(0)

class LeavesLater(Env):
    def step(self, actions):
        raise SystemExit(0)

number = 7

def text():
    return "an environment"

def does_something_else() -> None:
    open("called", "w").close()

def make_point():
    from rsl_rl.config.task import ToyConfig
    return ToyConfig().build()
"""


@pytest.fixture
def check(run_script, tmp_path, root):
    (tmp_path / "my_client.py").write_text(CLIENT)

    def run(name):
        words = ("-m", "rsl_rl", "check-env", name, "--num_steps", "5")
        return run_script(*words, cwd=tmp_path, PYTHONPATH=f"{tmp_path}{os.pathsep}{root}")

    return run


def test_check_env_five_tuple_environment_reports_changes_and_speed(check):
    done = check("my_client:Env")
    assert done.returncode == 0, done.stderr
    assert "legged_gym" in done.stdout and "4 instances, 2 actions" in done.stdout
    assert "change: done = done.bool()" in done.stdout
    assert "environment steps per second without a policy" in done.stdout
    assert "optional abilities: HasEpisodeLengths" in done.stdout


def test_check_env_of_our_own_environment_names_its_abilities(check):
    done = check("my_client:make_point")
    assert done.returncode == 0 and "PointEnv; 64 instances, 1 actions, observations: policy [1]" in done.stdout
    assert "optional abilities: Resettable, Checkpointable" in done.stdout and "nothing to correct" in done.stdout


def test_check_env_environment_that_cannot_be_trained_exits_with_1(check):
    done = check("my_client:Broken")
    assert done.returncode == 1 and "error: " in done.stdout and "Traceback" not in done.stderr


def test_check_env_of_an_environment_that_ends_the_process_exits_with_1(check):
    done = check("my_client:LeavesLater")
    assert done.returncode == 1 and done.stdout.startswith("error: the environment ends the process (sys.exit(0))")


NO_ENVIRONMENTS = {
    "my_client:Nothing": "has no 'Nothing'",
    "my_clint:Env": "'my_clint', which is not there",
    "my_client:number": "a int is not an environment",
    "my_client:Other": "Other is not an environment known here",
    "my_client:Leaves": "my_client:Leaves ends the process in place of returning an environment",
    "my_client:text": "my_client:text returns a str without step(), which is not an environment",
    "rsl_rl.tasks.toy:PointEnv": "cannot be called without arguments (missing a required argument: 'cfg'); name a",
    "builtins:input": "builtins:input is a function of Python itself; name a function that returns an environment",
    "rsl_rl.env:VecEnv": "rsl_rl.env:VecEnv is an interface; name a class derived from it",
    "sys:exit": "sys:exit is a function of Python itself",
    "os:getcwdb": "os:getcwdb is a function of Python itself",
    "platform:uname": "platform:uname is a function of Python itself",
    "my_client:does_something_else": "my_client:does_something_else is declared to return None; name a function that",
    "rsl_rl.cli.experiments:default_log_root": "default_log_root is declared to return Path; name a function",
    "builtins:int": "builtins:int is a class without step()",
    "toy": "toy is a task, whose environment each training checks: rsl-rl train --task toy",
    "foo": "Gymnasium knows no environment foo; give package.module:make_env, or one of its ids",
    "Pendulum-v": "Gymnasium knows no environment Pendulum-v; give package.module:make_env, or one of its ids. Did you",
    "Nope/Point-v0": "Gymnasium cannot make Nope/Point-v0: Namespace Nope not found",
    "": "Gymnasium knows no environment ''",
}


@pytest.mark.parametrize("name", NO_ENVIRONMENTS)
def test_check_env_of_what_is_no_environment_is_one_line(name, tmp_path, monkeypatch, capsys):
    (tmp_path / "my_client.py").write_text(CLIENT)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "argv", ["rsl-rl"])
    monkeypatch.delitem(sys.modules, "my_client", raising=False)
    assert main(["check-env", name]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("rsl-rl check-env: error: ") and NO_ENVIRONMENTS[name] in line


def test_check_env_of_what_is_no_environment_in_a_process_of_its_own_exits_with_2(check):
    done = check("sys:exit")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
