"""The command adopt: what it writes, and what it refuses."""

import importlib
import sys
from dataclasses import replace

import pytest
import torch

from rsl_rl.cli.main import main
from rsl_rl.config.mdp import CommandLimitConfig, RandomizationConfig
from rsl_rl.runners import OnPolicyRunner
from tests.docs_blocks import commands
from tests.models_of_others import BIPED_DEFAULTS, biped_mjcf, quadruped_urdf, wheeled_urdf


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current folder, in which robots can be imported."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    known = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - known:
        if name.split(".")[0] in ("dog", "walker", "my_dog"):
            del sys.modules[name]


def adopt(file, *flags):
    code = main(["adopt", str(file), "--no-pictures", *flags])
    importlib.invalidate_caches()
    return code


def test_adopted_quadruped_trains_and_mirrors(here, capsys, small_cfg):
    (here / "Dog.urdf").write_text(quadruped_urdf(flipped=True))
    assert adopt("Dog.urdf") == 0
    printed = capsys.readouterr().out
    assert "train it: rsl-rl train --task dog.flat:DogFlat" in printed and "standing: yes" in printed
    assert "audit: predicted dead zone: forward" in printed
    assert sorted(path.name for path in (here / "dog").iterdir()) == [
        "__init__.py",
        "dog.xml",
        "flat.py",
        "report.html",
    ]
    assert "LF_KFE" in (here / "dog" / "report.html").read_text()
    assert max(map(len, (here / "dog" / "flat.py").read_text().splitlines())) <= 120

    task = importlib.import_module("dog.flat").DogFlat().env
    assert task.commands.limit == CommandLimitConfig(max_lin_acc=2.0, max_yaw_acc=4.0)
    env = replace(task, num_envs=8, randomization=RandomizationConfig.none()).build()
    for _ in range(50):  # one second with the targets of the standing pose
        step = env.step(torch.zeros(8, 12))
        assert not step.done.any()
    assert (env.state.gravity[:, 2] < -0.99).all()
    assert (env.state.foot_contact).all()
    index, sign = env.mirrors()["actions"]
    assert index.tolist() == [3, 4, 5, 0, 1, 2, 9, 10, 11, 6, 7, 8] and sign.tolist() == [1.0, -1.0, -1.0] * 4
    OnPolicyRunner(env, small_cfg).learn(1)


def test_adopted_biped_is_a_task(here, capsys):
    (here / "defaults.xml").write_text(BIPED_DEFAULTS)
    (here / "walker.xml").write_text(biped_mjcf())
    assert adopt("walker.xml") == 0
    assert "2 joints locked" in capsys.readouterr().out
    flat = importlib.import_module("walker.flat")
    env = replace(flat.flat_task(), num_envs=4).build()
    step = env.step(torch.zeros(4, 12))
    assert step.reward.isfinite().all() and env.state.foot_up.shape == (4, 2, 3)
    assert set(flat.ROBOT.joint_groups) == {"abduction", "hip_yaw", "hip", "knee", "ankle"}


def test_refused_file_leaves_one_line_and_nothing_else(here, capsys):
    (here / "roller.urdf").write_text(wheeled_urdf())
    with pytest.raises(SystemExit) as stop:
        adopt("roller.urdf")
    assert stop.value.code == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "stands on wheels (left_tire, right_tire)" in error
    assert [path.name for path in here.iterdir()] == ["roller.urdf"]


def test_flag_train_trains_the_task_that_was_written(here, monkeypatch):
    (here / "dog.urdf").write_text(quadruped_urdf())
    (here / "robots").mkdir()
    given = []
    monkeypatch.setattr("rsl_rl.cli.train.main", lambda argv: given.append(argv) or 0)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert adopt("dog.urdf", "--folder", "robots", "--train") == 0
    assert given == [["--task", "dog.flat:DogFlat"]]
    assert importlib.import_module("dog.flat").DogFlat().task == "dog.flat:DogFlat"


@pytest.mark.parametrize(
    ("flags", "reason"),
    [
        (("--name", "my-dog"), "not a name of a Python package"),
        (("--name", "torch"), "installed package"),
        (("--name", "taken"), "exists already"),
        (("--folder", "missing"), "not a folder"),
    ],
)
def test_name_that_cannot_be_used_is_refused(here, capsys, flags, reason):
    (here / "dog.urdf").write_text(quadruped_urdf())
    (here / "taken").mkdir()
    with pytest.raises(SystemExit) as stop:
        adopt("dog.urdf", *flags)
    assert stop.value.code == 2 and reason in capsys.readouterr().err


def test_failure_while_writing_leaves_nothing(here, monkeypatch):
    (here / "dog.urdf").write_text(quadruped_urdf())
    monkeypatch.setattr("rsl_rl.evaluation.adoption_report.write_report", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        adopt("dog.urdf")
    assert [path.name for path in here.iterdir()] == ["dog.urdf"]


@pytest.mark.slow
def test_commands_of_the_page_run_as_written(here, root):
    """docs/own-robot.md, from the model file to the film, with the pictures of the report."""
    small = {
        "train": ["--num_envs", "8", "--max_iterations", "1", "--log_root", "logs"],
        "evaluate": ["--num_envs", "2", "--seconds", "0.1", "--log_root", "logs"],
        "play": ["--num_envs", "1", "--seconds", "0.1", "--no_video", "--log_root", "logs"],
    }
    written = [line.split() for line in commands(root / "docs" / "own-robot.md") if line.startswith("rsl-rl ")]
    assert [words[1] for words in written] == ["adopt", "train", "evaluate", "play"]
    (here / "rsl_rl").symlink_to(root / "rsl_rl")
    for _, name, *words in written:
        assert main([name, *words, *small.get(name, [])]) == 0
        importlib.invalidate_caches()
    pictures = {path.stem for path in (here / "my_dog").glob("*.png")}
    assert pictures == {"standing", "settling", "joints", "ranges", "symmetry"}
