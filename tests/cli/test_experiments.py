"""Experiments of other packages: by path, by entry point, and with an inherited name."""

import json
import os

import pytest
import torch

from rsl_rl.cli.errors import UsageError, usage_errors

TASK = """
from dataclasses import dataclass

from rsl_rl_configs.toy import Toy


@dataclass(frozen=True)
class Mine(Toy):
    seed: int = 7
"""

CONFIGS = "NUMBERS = 'of another project'\n"

TINY = ("--num_envs", "8", "--runner.num_steps_per_env", "4", "--logger", "none")


@pytest.fixture
def project(tmp_path):
    """A folder with an experiment, an entry point of it, and a package called configs."""
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "__init__.py").write_text(CONFIGS)
    (tmp_path / "mine.py").write_text(f"from configs import NUMBERS\n{TASK}")
    register(tmp_path, "one", "mine = mine:Mine")
    return tmp_path


def register(folder, distribution, entry):
    info = folder / f"{distribution}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[rsl_rl.tasks]\n{entry}\n")


@pytest.fixture
def rsl_rl(run_script, project, root):
    """Run `python -m rsl_rl`, or a script of the checkout, in the project."""

    def run(*arguments):
        program = [str(root / arguments[0])] if arguments[0].endswith(".py") else ["-m", "rsl_rl", arguments[0]]
        path = f"{project}{os.pathsep}{root}"
        return run_script(*program, *arguments[1:], cwd=project, PYTHONPATH=path)

    return run


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mine", "mine:Mine"])
def test_task_with_an_inherited_name_is_resumed_and_played(rsl_rl, project, name):
    where = ("--task", name, "--log_root", str(project / "runs"))
    done = rsl_rl("train", *where, *TINY, "--max_iterations", "1")
    assert done.returncode == 0 and done.stdout.splitlines()[0].startswith(f"{name}: 8 environments"), done.stderr
    done = rsl_rl("train", *where, "--resume", "--max_iterations", "2")
    assert done.returncode == 0, done.stderr
    other = "mine" if name == "mine:Mine" else "mine:Mine"
    done = rsl_rl("play", "--task", other, "--log_root", str(project / "runs"))
    assert done.returncode == 0, done.stderr
    (run,) = (project / "runs" / "toy").iterdir()
    assert torch.load(run / "model_2.pt", weights_only=True)["iter"] == 2
    assert json.loads((run / "exported" / "policy.json").read_text())["task"] == other
    assert not (project / "logs").exists()
    done = rsl_rl("train", "--task", "toy", "--log_root", str(project / "runs"), "--resume")
    assert done.returncode == 2 and f"is a run of the task '{name}' and not of 'toy'" in done.stderr


def test_scripts_of_the_checkout_leave_the_package_configs_to_the_project(rsl_rl, project):
    where = ("--task", "mine", "--log_root", str(project / "runs"))
    done = rsl_rl("scripts/train.py", *where, *TINY, "--max_iterations", "1")
    assert done.returncode == 0, done.stderr


def test_list_names_entry_points(rsl_rl):
    done = rsl_rl("list")
    assert done.returncode == 0 and {"mine", "go2_flat", "toy"} <= set(done.stdout.split()), done.stderr


def test_list_names_a_task_that_cannot_be_imported_with_the_reason(rsl_rl, project):
    register(project, "two", "broken = nowhere:Task")
    (project / "failing.py").write_text("raise RuntimeError('no licence')\n")
    register(project, "three", "failing = failing:Task")
    done = rsl_rl("list")
    lines = [line for line in done.stdout.splitlines() if line.startswith(("broken ", "failing ", "go2_flat "))]
    assert done.returncode == 0 and len(lines) == 3, done.stderr
    assert "cannot be imported: ValueError: 'nowhere:Task' names the module 'nowhere'" in lines[0]
    assert "cannot be imported: RuntimeError: no licence" in lines[1]


def test_task_registered_by_two_packages_is_refused_with_both_paths(rsl_rl, project):
    register(project, "two", "mine = other:Mine")
    done = rsl_rl("train", "--task", "mine")
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1
    assert "--task mine is registered by several packages; use one of mine:Mine, other:Mine" in done.stderr


def test_git_state_of_the_experiments_repository_is_in_the_run(rsl_rl, project):
    import git

    repo = git.Repo.init(project)
    repo.index.add(["mine.py"])
    author = git.Actor("a", "a@example.org")
    commit = repo.index.commit("first", author=author, committer=author).hexsha
    done = rsl_rl("train", "--task", "mine", "--log_root", str(project / "runs"), *TINY, "--max_iterations", "1")
    assert done.returncode == 0, done.stderr
    (state,) = (project / "runs").glob(f"toy/*/git/{project.name}.diff")
    assert commit in state.read_text()


def test_configs_outside_of_the_checkout_is_an_error_with_the_other_name():
    with pytest.raises(UsageError) as caught, usage_errors():
        raise ModuleNotFoundError("No module named 'configs'", name="configs")
    assert "write 'rsl_rl_configs' in place of 'configs'" in caught.value.message
