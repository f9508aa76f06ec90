"""The commands and programs of docs/ with the installed wheel, in an empty folder without the checkout."""

import json
import shutil

import pytest

from tests.docs_blocks import blocks, commands, pages
from tests.test_docs import NO_FILM, ONCE, OWN_CODE, SCRIPTS, SHORT, TINY, write_titled_blocks

pytestmark = pytest.mark.slow

EXAMPLES = """
from dataclasses import dataclass, field, replace

import command_term, event_term, motors, named_joints, observation_term, own_metric, randomised_task, reward_term
import termination_term
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl_configs.go2_flat import Go2Flat, flat_task


def named_joints_task():
    return replace(flat_task(), rewards=named_joints.rewards)


def experiment(name, task):
    return dataclass(frozen=True)(type(name, (Go2Flat,), {
        "__module__": __name__,
        "__annotations__": {"env": LeggedRobotConfig, "task": str},
        "env": field(default_factory=task),
        "task": f"{__name__}:{name}",
    }))


Reward = experiment("Reward", reward_term.my_task)
Observation = experiment("Observation", observation_term.my_task)
Termination = experiment("Termination", termination_term.my_task)
Command = experiment("Command", command_term.my_task)
Event = experiment("Event", event_term.my_task)
Metric = experiment("Metric", own_metric.my_task)
Motors = experiment("Motors", motors.task_with_motors)
Randomised = experiment("Randomised", randomised_task.randomised_task)
NamedJoints = experiment("NamedJoints", named_joints_task)
"""
"""The tasks that the pages build in functions, as experiments; own-task.md says how."""

ON_ROBOTS = (
    *("low_walk:LowWalk", "my_robot:MyRobotFlat", "examples:Reward", "examples:Observation", "examples:Termination"),
    *("examples:Command", "examples:Event", "examples:Metric", "examples:Motors", "examples:Randomised"),
    "examples:NamedJoints",
)
"""Tasks whose policy runs in plain MuJoCo, as on a robot."""

PARTS = 6
"""Processes of the commands of the pages."""

LONGEST = 3600
"""Time that a process may take on a machine with a load [s]."""

COMMANDS = "0 0 0 0\n0.05 1.5 0 0\n0.1 -1 0 1\n"
SIM_TO_SIM = ("--robots", "1", "--seconds", "0.1")
EXPORTED = "logs/*/*/exported/policy.onnx"

DRIVER = """
import glob, json, sys
from rsl_rl.cli.main import main

for words in json.loads(sys.argv[1]):
    words = [glob.glob(word)[0] if "*" in word and glob.glob(word) else word for word in words]
    print("\\n$ rsl-rl", *words, flush=True)
    try:
        code = main(words)
    except SystemExit as stop:
        code = stop.code
    sys.stdout.flush()
    if code:
        sys.exit(f"exit code {code} of rsl-rl {' '.join(words)}")
"""
"""Run several commands in one process: most of the time of a small command is the import of torch."""


@pytest.fixture
def here(root, tmp_path):
    """An empty folder with the files that the pages tell a reader to save."""
    write_titled_blocks(root, tmp_path)
    (tmp_path / "examples.py").write_text(EXAMPLES)
    (tmp_path / "commands.txt").write_text(COMMANDS)
    return tmp_path


@pytest.fixture
def rsl_rl(run_installed, here):
    """Run commands of the installed package one after the other and return the output of each."""

    def run(*command_lines):
        (here / "driver.py").write_text(DRIVER)
        words = json.dumps([list(words) for words in command_lines])
        done = run_installed("python", "driver.py", words, timeout=LONGEST)
        assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-5000:]}"
        assert "Traceback" not in done.stderr
        return done.stdout.split("\n$ rsl-rl ")[1:]

    return run


@pytest.mark.parametrize("task", [*ON_ROBOTS, "steep_walk:SteepWalk"])
def test_task_of_a_page_is_trained_evaluated_played_and_run_in_plain_mujoco(rsl_rl, task):
    small = {"train": ONCE, "evaluate": SHORT, "play": NO_FILM}
    lines = [(name, "--task", task, *flags) for name, flags in small.items()]
    outputs = rsl_rl(*lines, *([("sim-to-sim", EXPORTED, *SIM_TO_SIM)] if task in ON_ROBOTS else []))
    assert json.loads(outputs[1].splitlines()[-1])["env_steps"] > 0
    assert outputs[2].count("acts like the policy") == 2
    if task in ON_ROBOTS:
        assert json.loads(outputs[3].splitlines()[-1])["robots"] == 1


@pytest.fixture
def run_of_go2(rsl_rl, here):
    """The folder of a small run of go2_flat."""
    rsl_rl(("train", "--task", "go2_flat", *TINY, "--max_iterations", "2", "--save_interval", "1"))
    (run,) = (here / "logs" / "go2_flat").iterdir()
    return run


@pytest.mark.parametrize("part", range(PARTS))
def test_commands_of_the_pages_run_as_written(rsl_rl, here, run_of_go2, part):
    lines = []
    for i, (command, small) in list(enumerate(SCRIPTS.items()))[part::PARTS]:
        shutil.copytree(run_of_go2, here / "logs" / f"command_{i}" / run_of_go2.name)
        experiment = () if command == "rsl-rl list" else ("--experiment_name", f"command_{i}")
        lines.append((*command.split()[1:], *small, *experiment))
    assert len(rsl_rl(*lines)) == len(lines) >= len(SCRIPTS) // PARTS


def test_exported_policy_runs_in_plain_mujoco_as_written(rsl_rl, run_of_go2, root):
    lines = [("play", "--task", "go2_flat", "--commands", "commands.txt", *NO_FILM), ("export", "--task", "go2_flat")]
    written = {line for page in pages(root) for line in commands(page) if line.startswith("rsl-rl sim-to-sim")}
    lines += [(*line.replace("<run>", run_of_go2.name).split()[1:], *SIM_TO_SIM) for line in sorted(written)]
    assert len(rsl_rl(*lines)) == len(lines) > 2


def test_commands_on_own_code_run_as_written(rsl_rl):
    rsl_rl(*((*command.split()[1:], *small) for command, small in OWN_CODE.items()))


def test_adopted_robot_is_trained_evaluated_played_and_run_in_plain_mujoco(run_installed, here, root):
    shutil.copy(root / "rsl_rl" / "robots" / "go2" / "go2.urdf", here / "my_dog.urdf")
    small = {"adopt": ["--no-pictures"], "train": ONCE, "evaluate": SHORT, "play": NO_FILM}
    written = [line.split() for line in commands(root / "docs" / "own-robot.md") if "my_dog" in line]
    assert [name for _, name, *_ in written] == list(small)
    for program, name, *words in written:
        done = run_installed(program, name, *words, *small[name], timeout=LONGEST)
        assert done.returncode == 0, done.stdout + done.stderr
    (policy,) = here.glob(EXPORTED)
    done = run_installed("rsl-rl", "sim-to-sim", str(policy), "--model", "my_dog/my_dog.xml", *SIM_TO_SIM)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("module", ["rail", "small_start", "own_loop"])
def test_program_that_trains_by_itself_ends(run_installed, here, module):
    done = run_installed("python", "-c", f"import {module}; {module}.train()", timeout=LONGEST)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", ["README.md", "docs/embed.md", "docs/terrain.md"])
def test_programs_without_a_file_name_run_one_after_the_other(run_installed, here, root, page):
    programs = [block.code for block in blocks(root / page, "python") if not block.title]
    (here / "programs.py").write_text("\n".join(programs))
    done = run_installed("python", "programs.py", timeout=LONGEST)
    assert programs and done.returncode == 0, done.stderr
