"""The ten steps of docs/deploy.md, one after the other, as they stand there, for a policy that has hardly learned."""

import importlib
import shlex
import shutil
import socket
import subprocess
import sys
import time
import uuid

import numpy as np
import pytest

from tests.docs_blocks import blocks, commands
from tests.test_docs import ONCE

SMALL = {
    "rsl-rl train": ONCE,
    "rsl-rl sim-to-sim": ("--robots", "2", "--seconds", "1"),
    "python robot_loop.py": ("--stand_seconds", "0.3", "--seconds", "0.5"),
}


def section(page, heading):
    """A file with the section of a page alone."""
    return page.read_text().split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


@pytest.mark.slow
def test_ten_steps_run_as_they_stand_on_the_page(root, tmp_path):
    pytest.importorskip("onnxruntime")
    part = tmp_path / "steps.md"
    part.write_text(section(root / "docs" / "deploy.md", "From training to a robot in ten steps"))
    assert [line[:2] for line in part.read_text().splitlines() if line[:1].isdigit()][:9] == [
        f"{i}." for i in range(1, 10)
    ]
    experiment, port, robot, folder, reasons, judged = f"docs-{uuid.uuid4().hex[:8]}", free_port(), None, root, [], None
    try:
        for command in commands(part):
            if command.startswith("rsl-rl evaluate"):  # tests/test_docs.py runs it
                continue
            words = command.replace("9870", port).replace("logs/go2_flat/<run>", "<run>")
            if "<run>" in words:
                (run,) = (root / "logs" / experiment).iterdir()
                words = words.replace("<run>", str(run))
            words = shlex.split(words)
            if words[0] == "cd":
                folder = words[1]
                continue
            words += SMALL.get(" ".join(words[:2]), ())
            if words[1] in ("train", "export"):
                words += ["--experiment_name", experiment]
            python = [sys.executable, "-m", "rsl_rl"] if words[0] == "rsl-rl" else [sys.executable]
            if words[1] == "sim-robot":
                robot = robot and stop(robot)
                robot = subprocess.Popen([*python, *words[1:]], cwd=root, stdout=subprocess.PIPE, text=True)
                assert robot.stdout.readline().endswith(f":{port}\n")
                continue
            done = subprocess.run(
                [*python, *words[1:]], cwd=folder, capture_output=True, text=True, timeout=300, check=False
            )
            if words[0] == "python":
                reasons.append(done.stdout)
                assert done.returncode in (0, 1) and done.stdout.startswith("stopped: ") and done.stderr == ""
            elif words[1] == "doctor":  # of a run that may have ended at once, on a busy machine
                assert done.returncode in (0, 1, 2) and "Traceback" not in done.stderr, f"{done.stdout}{done.stderr}"
                judged = done.returncode
            else:
                assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        assert len(reasons) == 2 and judged is not None  # of the steps 5 and 8
        check_c(root, tmp_path, run, experiment)
    finally:
        robot = robot and stop(robot)
        shutil.rmtree(root / "logs" / experiment, ignore_errors=True)


def check_c(root, folder, run, experiment):
    """The command of the section on C compiles what the export writes."""
    if shutil.which("cc") is None:
        pytest.skip("no C compiler is installed")
    export = [sys.executable, "-m", "rsl_rl", "export", "--task", "go2_flat", "--format", "c"]
    subprocess.run([*export, "--experiment_name", experiment], cwd=root, check=True, capture_output=True)
    page = folder / "c.md"
    page.write_text(section(root / "docs" / "deploy.md", "C"))
    (compile_it,) = commands(page)
    subprocess.run(shlex.split(compile_it), cwd=run / "exported", check=True)
    assert (run / "exported" / "policy.o").stat().st_size > 10_000


def stop(process):
    process.terminate()
    process.communicate(timeout=20)


class Stands:
    """A policy that gives its default pose."""

    control_period, joint_names = 0.02, [str(i) for i in range(12)]
    default_joint_pos, stiffness, damping = np.zeros(12), np.full(12, 30.0), np.full(12, 0.75)
    target_limits = np.tile([-3.0, 3.0], (12, 1))

    def reset(self):
        pass

    def __call__(self, **readings):
        assert len(readings["joint_pos"]) == 12 and len(readings["base_quat"]) == 4
        return self.default_joint_pos


def test_driver_of_the_page_runs_in_the_loop(root, tmp_path, monkeypatch):
    (code,) = (block.code for block in blocks(root / "docs" / "deploy.md", "python") if block.title == "my_driver.py")
    (tmp_path / "my_driver.py").write_text(code)
    for folder in (root / "deploy", tmp_path):
        monkeypatch.syspath_prepend(str(folder))
    driver, sent = importlib.import_module("my_driver").connect("anywhere"), []
    assert len(driver.joint_names()) == 12
    driver.robot.send = lambda *values: sent.append(values)
    began, robot_loop = time.monotonic(), importlib.import_module("robot_loop")
    loop = robot_loop.ControlLoop(driver, Stands(), 60.0, 0.0, clock=lambda: began, sleep=lambda seconds: None)
    assert loop.run((0.0, 0.0, 0.0), 0.1, stand_seconds=0.1) == robot_loop.TIME_OVER
    assert len(sent) == 10 and all(len(part) == 12 for part in sent[0])
