"""Exports of tasks without a robot."""

import json

import pytest

from rsl_rl.cli import export
from rsl_rl.cli.main import main
from tests.exports import lively_policy


@pytest.fixture
def loaded(tmp_path, monkeypatch):
    """Return config and policy of a task, with weights that react to the observations."""
    monkeypatch.setattr(export, "PARITY_STEPS", 30)

    return lambda task: lively_policy(task, tmp_path)


@pytest.mark.parametrize("task", ["toy", "recall", "camera", "choice"])
def test_export_of_a_task_without_a_robot_agrees_with_the_policy(loaded, tmp_path, capsys, task):
    pytest.importorskip("onnxruntime")
    cfg, policy = loaded(task)
    assert export.export(policy, cfg, tmp_path)
    description, parity = (json.loads((tmp_path / name).read_text()) for name in ("policy.json", "parity.json"))
    assert set(parity["formats"]) == {"TorchScript", "ONNX"} and parity["control_steps"] == 30
    assert [entry["group"] for entry in description["observations"]] == list(
        policy.runner.alg.policy.actor_model.groups
    )
    assert description["task"] == task and ("camera" in description["inputs"]) == (task == "camera")
    assert not (tmp_path / "onnx_policy.py").exists()  # it needs a robot


def test_export_that_differs_is_found_without_a_robot(loaded, tmp_path, capsys, monkeypatch):
    def shifted(path):
        network = original(path)
        return lambda *inputs: [x + 0.1 for x in network(*inputs)]

    original = export.open_torchscript
    monkeypatch.setattr(export, "open_torchscript", shifted)
    cfg, policy = loaded("camera")
    assert not export.export(policy, cfg, tmp_path)
    assert "TorchScript does NOT act like the policy: actions differ first in step 0" in capsys.readouterr().out


def test_export_command_writes_the_policy_and_no_video(tmp_path, capsys):
    logs = ("--log_root", str(tmp_path / "logs"))
    tiny = ("--num_envs", "8", "--runner.num_steps_per_env", "4", "--logger", "none", "--max_iterations", "1")
    assert main(["train", "--task", "toy", *logs, *tiny]) == 0
    assert main(["export", "--task", "toy", *logs, "--folder", str(tmp_path / "robot")]) == 0
    assert {path.name for path in (tmp_path / "robot").iterdir()} >= {"policy.pt", "policy.json", "parity.json"}
    assert "exporting" in capsys.readouterr().out and not list(tmp_path.glob("logs/*/*/exported"))
    (tmp_path / "taken").touch()
    for command, flag, value in (
        ("export", "--folder", str(tmp_path / "taken")),
        ("export", "--folder", "~nosuchuser/x"),
        ("play", "--commands", "~nosuchuser/x"),
    ):
        capsys.readouterr()
        assert main([command, "--task", "toy", *logs, flag, value]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert value in line


@pytest.mark.parametrize("task", ["toy", "camera"])
def test_export_in_c_of_a_task_without_a_robot_says_so_in_a_line(loaded, tmp_path, capsys, task):
    cfg, policy = loaded(task)
    assert not export.export(policy, cfg, tmp_path, "c")
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("no C file: ")]
    assert lines == ["no C file: a policy in C is for robots, and this task has none; use ONNX or TorchScript"]
    assert not list(tmp_path.glob("*.[ch]"))


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        (("--viewer",), "write no file; leave out --page, --licence"),
        (("--keyboard",), "write no file; leave out --page, --licence"),
        (("--fault_dump", "x"), "shows a recorded fault; leave out --page, --licence"),
    ],
)
def test_page_of_a_mode_that_writes_none_is_refused_in_a_line(tmp_path, capsys, mode, message):
    run = ("--task", "toy", "--log_root", str(tmp_path))
    assert main(["train", *run, "--num_envs", "4", "--max_iterations", "1", "--logger", "none"]) == 0
    assert main(["play", *run, *mode, "--page", "walk.html", "--licence", "MIT"]) == 2
    err = capsys.readouterr().err
    assert message in err and "error" in err.splitlines()[-1]
