"""A robot that is wired wrongly, with the mapping of its wiring, is the robot of the policy."""

import importlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

from deploy import onnx_policy

pytest.importorskip("onnxruntime")


@pytest.fixture(scope="module")
def wired(pytestconfig):
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "onnx_policy", onnx_policy)
        patch.syspath_prepend(str(pytestconfig.rootpath / "deploy"))
        yield importlib.import_module("wired_robot")
        for name in ("wired_robot", "sim_to_sim"):
            sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def policy_path(pytestconfig):
    return pytestconfig.rootpath / "zoo" / "go2_flat" / "policy.onnx"


def robot_yaml(path, wiring, names):
    """The file that a bring-up without any error writes."""
    joints = [
        {"name": joint, "driver_name": name, "sign": sign, "zero": zero}
        for joint, name, sign, zero in zip(wiring.joints, names, wiring.signs, wiring.zeros)
    ]
    told = {"format": 1, "joints": joints, "units": dict(wiring.units)}
    told |= {"imu_mounting": list(wiring.imu_mounting), "quaternion_order": wiring.quaternion_order}
    path.write_text(json.dumps(told))
    return path


@pytest.mark.parametrize("unit", ["rad", "deg"])
def test_policy_with_robot_yaml_observes_and_moves_as_without_a_wiring(wired, policy_path, tmp_path, unit):
    plain = wired.Walker(mujoco, policy_path)
    names = plain.policy.joint_names
    wiring = replace(wired.draw_wiring(names, plain.policy.torque_limits, 1), noise={}, friction=(), strength=())
    units = {"joint_pos": unit, "joint_vel": f"{unit}/s", "base_ang_vel": f"{unit}/s"}
    wiring = replace(wiring, reading_delay=0.0, target_delay=0.0, quaternion_order="xyzw", units=units)
    robot = wired.WiredWalker(mujoco, policy_path, wiring)
    mapped = onnx_policy.OnnxPolicy(policy_path, names, robot=robot_yaml(tmp_path / "robot.yaml", robot.wiring, names))
    assert mapped.joint_names == list(robot.wiring.joints)
    plain.reset(), robot.reset()
    command = (0.5, 0.0, 0.2)
    for _ in range(25):
        plain.simulate(plain.policy(command=command, **plain.readings()))
        robot.simulate(mapped(command=command, **robot.readings()))
    np.testing.assert_allclose(robot.data.qpos, plain.data.qpos, atol=2e-3)
    assert abs(plain.data.qpos[7:] - plain.policy.default_joint_pos).max() > 0.05  # it moved


def test_robot_yaml_of_another_robot_or_driver_is_told(wired, policy_path, tmp_path):
    names = wired.Walker(mujoco, policy_path).policy.joint_names
    wiring = wired.check_wiring(wired.Wiring(), names)
    path = robot_yaml(tmp_path / "robot.yaml", wiring, names)
    with pytest.raises(ValueError, match=r"is of a driver that names its joints .*: run rsl-rl bring-up with it"):
        onnx_policy.OnnxPolicy(policy_path, names[::-1], robot=path)
    told = json.loads(path.read_text())
    told["joints"][0]["name"] = "wheel"
    path.write_text(json.dumps(told))
    with pytest.raises(ValueError, match=r"is of a robot with the joints .*wheel"):
        onnx_policy.OnnxPolicy(policy_path, names, robot=path)
    path.write_text("{}")
    with pytest.raises(ValueError, match=r"is not a robot.yaml of format 1; run rsl-rl bring-up"):
        onnx_policy.OnnxPolicy(policy_path, names, robot=path)


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"speed": 1}, "has speed; a wiring has joints"),
        ({"signs": [1, 2]}, r"signs=\(1, 2\); give one number, or 12"),
        ({"signs": [0] * 12}, "give 1 or -1 for each joint"),
        ({"zeros": [None] * 12}, "zeros="),
        ({"joints": ["a"]}, "give each of"),
        ({"imu_mounting": [1, 1, 0, 0]}, "give a unit quaternion"),
        ({"noise": {"smell": 1}}, "noise="),
        ({"dead": [12]}, "give channels from 0 to 11"),
        ({"payload": "1 kg"}, "payload=1 kg"),
        ({"tilt": [0.1]}, "tilt="),
        ({"tilt": 1}, "wiring.json: "),
        ({"freezes_at": "soon"}, "freezes_at=soon; give a time from 0"),
        ({"seed": 1.5}, "seed=1.5; give a whole number from 0"),
        ({"reading_delay": 5}, "reading_delay=5; give a number from 0 to 1"),
        ([], "a wiring has joints"),
    ],
)
def test_wiring_that_makes_no_sense_is_one_line(wired, tmp_path, told, message):
    path = tmp_path / "wiring.json"
    path.write_text(json.dumps(told))
    names = [f"joint{i}" for i in range(12)]
    with pytest.raises(ValueError, match=message):
        wired.read_wiring(path, names)


def test_drawn_wiring_is_read_as_it_was_written(wired, tmp_path):
    names = [f"joint{i}" for i in range(12)]
    wiring = wired.draw_wiring(names, [20.0] * 12, 7)
    wired.write_wiring(wiring, tmp_path / "wiring.json")
    assert wired.read_wiring(tmp_path / "wiring.json", names) == wiring


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "a_pipe", "nothing.json"])
def test_wiring_that_is_no_file_is_refused_unread(wired, path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.mkfifo("a_pipe")
    with pytest.raises(FileNotFoundError, match=rf"no file {path}; --draw_wiring SEED writes one"):
        wired.read_wiring(Path(path), ["a"])


def test_backlash_and_resolution_are_in_readings_of_a_robot_on_a_stand(wired, policy_path):
    wiring = wired.Wiring(backlash=0.02, resolution={"joint_pos": 0.001})
    robot = wired.WiredWalker(mujoco, policy_path, wiring, stand=True)
    robot.set_gains(1.0, 1.0)
    for _ in range(100):
        robot.simulate(robot.policy.default_joint_pos)
    read, true = robot.readings()["joint_pos"], robot.data.qpos[7:]
    np.testing.assert_allclose(read / 0.001, np.round(read / 0.001), atol=1e-6)
    assert 0.008 < abs(read - true).max() < 0.0125  # half of the play, and the rounding
