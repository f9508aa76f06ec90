"""A robot in a file, prepared for a policy that was trained elsewhere."""

import json
from xml.etree import ElementTree

import mujoco
import numpy as np
import pytest
import torch

from rsl_rl.adoption.policy_robot import CLEARANCE, hinges_of, read_robot, robot_for_policy, torque_limits_of
from rsl_rl.cli.main import main
from rsl_rl.contracts.contract import contract_of, plain_mapping, write_contract
from rsl_rl.robots import ROBOTS, Robot

ARMS = {"left_shoulder_joint": 0.15, "right_shoulder_joint": -0.15}


@pytest.fixture(scope="module")
def humanoid(tmp_path_factory):
    """Our G1 with two arms."""
    tree = ElementTree.parse(ROBOTS.load("g1").model_path)
    trunk = tree.getroot().find("worldbody/body")
    for joint, side in ARMS.items():
        arm = ElementTree.SubElement(trunk, "body", name=joint.replace("joint", "link"), pos=f"0 {side} 0.3")
        ElementTree.SubElement(
            arm, "joint", name=joint, axis="0 1 0", range="-2 2", armature="0.01", actuatorfrcrange="-25 25"
        )
        ElementTree.SubElement(arm, "inertial", pos="0.05 0 -0.1", mass="1.5", diaginertia="0.01 0.01 0.002")
        ElementTree.SubElement(arm, "geom", type="capsule", size="0.03", fromto="0 0 0 0.1 0 -0.2")
    path = tmp_path_factory.mktemp("robot") / "humanoid.xml"
    tree.write(path)
    return path


@pytest.fixture(scope="module")
def source(humanoid):
    return read_robot(humanoid)


def pose_of(names, angles):
    return [angles.get(name, 0.0) for name in names]


BENT = {"left_hip_pitch_joint": -0.3, "right_hip_pitch_joint": -0.3, "left_knee_joint": 0.6, "right_knee_joint": 0.6,
        "left_ankle_pitch_joint": -0.3, "right_ankle_pitch_joint": -0.3, "left_shoulder_joint": 0.4}  # fmt: skip


def test_prepared_robot_moves_as_that_of_the_file(source, tmp_path):
    names = hinges_of(source)
    assert len(names) == 14 and set(ARMS) < set(names)
    prepared = robot_for_policy(source, names, pose_of(names, BENT), tmp_path / "humanoid.xml")
    model, own = mujoco.MjModel.from_xml_path(str(Robot(**prepared.robot).model_path)), source.model
    order = [model.joint(i).name for i in range(1, model.njnt)]
    assert prepared.locked == () and prepared.num_legs == 2
    assert Robot(**prepared.robot).default_joint_pos == tuple(pose_of(order, BENT))
    data, other, random = mujoco.MjData(model), mujoco.MjData(own), np.random.default_rng(0)
    for _ in range(5):
        angles = dict(zip(order, random.uniform(-0.5, 0.5, len(order))))
        for d, m in ((data, model), (other, own)):
            d.qpos[:7] = [0, 0, 1, 1, 0, 0, 0]
            for name, angle in angles.items():
                d.qpos[m.joint(name).qposadr] = angle
            mujoco.mj_forward(m, d)
        for name in order:
            body, theirs = model.joint(name).bodyid[0], own.joint(name).bodyid[0]
            np.testing.assert_allclose(data.xpos[body], other.xpos[theirs], atol=1e-5)
        dofs = [own.joint(name).dofadr[0] for name in order]
        inertia = np.zeros((model.nv, model.nv)), np.zeros((own.nv, own.nv))
        mujoco.mj_fullM(model, data, inertia[0])
        mujoco.mj_fullM(own, other, inertia[1])
        dofs = [*range(6), *dofs]
        np.testing.assert_allclose(inertia[0], inertia[1][np.ix_(dofs, dofs)], atol=1e-4)


def test_prepared_robot_stands_on_its_feet_in_the_pose_of_the_policy(source, tmp_path):
    names = hinges_of(source)
    prepared = robot_for_policy(source, names, pose_of(names, BENT), tmp_path / "humanoid.xml")
    model = mujoco.MjModel.from_xml_path(str(Robot(**prepared.robot).model_path))
    data = mujoco.MjData(model)
    for above, touches in ((0.0, False), (-2 * CLEARANCE, True)):
        data.qpos[:7] = [0, 0, Robot(**prepared.robot).standing_height + above, 1, 0, 0, 0]
        data.qpos[7:] = Robot(**prepared.robot).default_joint_pos
        mujoco.mj_forward(model, data)
        assert bool(data.ncon) == touches
        assert all("foot" in model.geom(contact.geom2).name for contact in data.contact)
    assert "trunk" in prepared.contact_links and "left_shoulder_link" in prepared.contact_links
    assert not any("foot" in link or "ankle" in link for link in prepared.contact_links)


def test_joints_that_the_policy_does_not_move_are_held(source, tmp_path):
    names = [name for name in hinges_of(source) if name not in ARMS]
    prepared = robot_for_policy(source, names, pose_of(names, BENT), tmp_path / "humanoid.xml")
    assert sorted(prepared.locked) == sorted(ARMS)
    model = mujoco.MjModel.from_xml_path(str(Robot(**prepared.robot).model_path))
    assert model.njnt == 13 and model.body_mass.sum() == pytest.approx(source.model.body_mass.sum(), rel=1e-5)
    assert prepared.mass == pytest.approx(model.body_mass.sum(), rel=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda names: [*names[:-1], "rigth_shoulder_joint"],
            "has no hinge rigth_shoulder_joint.*Did you mean 'right_",
        ),
        (lambda names: names[1:], "does not move .*, joints of legs"),
    ],
)
def test_joints_that_do_not_fit_the_file_are_named(change, message, source, tmp_path):
    names = change(sorted(hinges_of(source), key=lambda name: name in ARMS))
    with pytest.raises(ValueError, match=message):
        robot_for_policy(source, names, [0.0] * len(names), tmp_path / "humanoid.xml")


@pytest.fixture(scope="module")
def policy_file(source, tmp_path_factory):
    names, folder = [*reversed(hinges_of(source))], tmp_path_factory.mktemp("policy")
    description = {
        **plain_mapping(14), "format": 2, "control_period": 0.02, "joint_names": names, "action_scale": 0.25,
        "inputs": {"obs": [1, 3]}, "outputs": {"actions": [1, 14]}, "action_clip": None,
        "observations": [{"name": "gravity", "size": 3, "frame": "base"}],
        "default_joint_pos": pose_of(names, BENT), "stiffness": [100.0] * 14, "damping": [3.0] * 14,
        "torque_limits": [100.0] * 14,
    }  # fmt: skip
    standing = torch.nn.Linear(3, 14)  # which wants the default pose, whatever it senses
    for parameter in standing.parameters():
        torch.nn.init.zeros_(parameter)
    torch.jit.script(standing).save(str(folder / "walk.pt"))
    write_contract(contract_of(description), folder / "walk.json")
    return folder / "walk.pt"


def test_evaluate_runs_a_policy_on_the_robot_of_a_file(policy_file, humanoid, capsys):
    words = ["evaluate", "--policy", str(policy_file), "--robot", str(humanoid), "--num_envs", "2"]
    assert main([*words, "--seconds", "0.4", "--report", "none"]) == 0
    out = capsys.readouterr().out
    assert "2 legs" in out and "14 joints; a fall is contact of trunk" in out
    assert json.loads(out.splitlines()[-1])["fall_rate"] == 0.0
    assert main([*words[:3], "--robot", "none.xml"]) == 2
    assert "none.xml is not a file; give a URDF or an MJCF file" in capsys.readouterr().err


def test_torque_limits_that_a_contract_lacks_are_those_of_the_file_or_of_set(policy_file, humanoid, tmp_path, capsys):
    legs = {name: 80.0 for name in hinges_of(read_robot(humanoid)) if name not in ARMS}
    assert set(torque_limits_of(read_robot(humanoid))) == {*legs, *ARMS}
    contract = tmp_path / "walk.yaml"
    joints = len(legs) + 2
    contract.write_text(json.dumps({
        "simulation_dt": 0.005, "control_decimation": 4, "kps": [100.0] * joints, "kds": [3.0] * joints,
        "default_angles": [0.0] * joints, "action_scale": 0.25, "cmd_scale": [1.0] * 3, "num_actions": joints,
        "num_obs": 3 * joints + 9, "ang_vel_scale": 1.0, "dof_pos_scale": 1.0, "dof_vel_scale": 1.0,
    }))  # fmt: skip
    words = ["evaluate", "--policy", str(policy_file), "--contract", str(contract), "--robot", str(humanoid)]
    assert main(words) == 2
    captured = capsys.readouterr()
    assert "walk.yaml does not say joint_names and torque_limits; taken from the robot humanoid" in captured.out
    assert "the network does not take obs of 51 numbers" in captured.err
    by_name = 'torque_limits={".*_shoulder_joint": 25, "left_hip_.*|right_.*": 80, "left_(knee|ankle).*": 60}'
    assert main([*words, "--set", by_name]) == 2
    assert "matches" in capsys.readouterr().err
