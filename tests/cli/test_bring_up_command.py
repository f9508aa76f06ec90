"""`rsl-rl bring-up`: wrong usage, drivers that fail, and the commands of docs/bring-up.md over UDP."""

import json
import shlex
import shutil
import subprocess
import sys

import pytest

from rsl_rl.cli.main import main
from tests.deploy.test_ten_steps import free_port, stop
from tests.docs_blocks import commands

DRIVER = """
class Robot:
    def __init__(self, address=""):
        self.address = address
    def joint_names(self):
        return {names}
    def readings(self):
        {readings}
    def hold(self, *values):
        pass
    def stop(self):
        print("off")
    def close(self):
        print("closed")
"""


def run(capsys, *flags):
    code = main(["bring-up", *flags])
    return code, capsys.readouterr()


@pytest.fixture
def contract(root):
    return str(root / "zoo" / "go2_flat" / "policy.json")


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--driver", "nothing_there"), "--driver nothing_there: No module named"),
        (("--driver", "json"), "has no function connect(address)"),
        (
            ("--driver", "json:dumps", "--address", "a"),
            "it has no joint_names(); docs/deploy.md lists the five methods",
        ),
        (("--driver", "json", "--share", "0.9"), "--torque_share 0.9: give 0.01 to 0.3"),
        (("--driver", "json", "--out", "no/folder/robot.yaml"), "is not a file in an existing folder"),
    ],
)
def test_wrong_usage_is_one_line(capsys, contract, flags, message):
    code, told = run(capsys, *flags, "--contract", contract)
    assert code == 2 and message in told.err and len(told.err.splitlines()) == 1


@pytest.mark.parametrize(
    ("readings", "reason"),
    [
        ("raise OSError('no bus')", "the driver's readings() failed: OSError: no bus"),
        ("return 5", "the driver's readings() gives 5; give a mapping, or None"),
        ("return None", "stale reading: none has come in 2 s"),
    ],
)
def test_driver_that_fails_is_a_line_and_writes_nothing(
    capsys, contract, tmp_path, monkeypatch, readings, reason, request
):
    module = f"failing_{abs(hash(readings))}"
    (tmp_path / f"{module}.py").write_text(DRIVER.format(names=[f"m{i}" for i in range(12)], readings=readings))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    code, told = run(capsys, "--driver", f"{module}:Robot", "--contract", contract)
    assert code == 1 and f"stopped: {reason}" in told.out and "off\nclosed" in told.out
    assert json.loads(told.out.splitlines()[-1])["determined"] is False
    assert not (tmp_path / "robot.yaml").exists() and not (tmp_path / "bring_up.html").exists()


@pytest.mark.slow
def test_commands_of_the_page_lead_from_bring_up_to_walking(root, tmp_path):
    """Two processes with UDP between them, as they stand on the page; needs a machine that is not busy."""
    pytest.importorskip("onnxruntime")
    exported, port, robot, told = tmp_path / "exported", free_port(), None, []
    exported.mkdir()
    for name in ("onnx_policy.py", "robot_loop.py", "udp_driver.py"):
        shutil.copy(root / "deploy" / name, exported)
    shutil.copy(root / "zoo" / "go2_flat" / "policy.onnx", exported)
    try:
        for command in commands(root / "docs" / "bring-up.md"):
            words = shlex.split(command.replace("9870", port))
            python = [sys.executable, "-m", "rsl_rl"] if words[0] == "rsl-rl" else [sys.executable]
            if words[1] == "sim-robot":
                robot = robot and stop(robot)
                robot = subprocess.Popen([*python, *words[1:]], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
                assert robot.stdout.readline().endswith(f":{port}\n")
                continue
            done = subprocess.run(
                [*python, *words[1:]], cwd=tmp_path, capture_output=True, text=True, timeout=400, check=False
            )
            assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
            told.append(done.stdout)
    finally:
        robot = robot and stop(robot)
    assert "wiring: robot.yaml" in told[0] and "stopped: the time is over" in told[1]
    wiring = json.loads((tmp_path / "wiring.json").read_text())
    joints = json.loads((tmp_path / "robot.yaml").read_text())["joints"]
    assert [one["name"] for one in joints] == wiring["joints"]
    assert [one["sign"] for one in joints] == wiring["signs"]
    assert [one["zero"] for one in joints] == pytest.approx(wiring["zeros"], abs=0.06)
