"""The doctor on logs of a robot that steps in place: healthy ones, and ones with a fault between runner and robot."""

import copy
from dataclasses import replace

import numpy as np
import pytest

from configs.go2_flat import flat_task
from deploy.onnx_policy import Policy, open_onnx

pytest.importorskip("mujoco")

import mujoco

from benchmarks.doctor import names
from benchmarks.doctor_faults import MAKERS
from benchmarks.doctor_robot import ROOT, Setup, run
from rsl_rl.evaluation.doctor import Log, diagnose, fixed_description, lines, read_log, report_html
from rsl_rl.evaluation.doctor.motion import usable_steps
from rsl_rl.evaluation.doctor.replay import HORIZON, Actuation, Motion, Replay
from rsl_rl.evaluation.doctor.signals import judge_time


@pytest.fixture(scope="module")
def description():
    interface = replace(flat_task(), num_envs=1).build(seed=1).describe_interface(["policy"])
    shapes = {"inputs": {"obs": [1, 50]}, "outputs": {"actions": [1, 12]}}
    mapping = {"joint_signs": [1.0] * 12, "joint_zeros": [0.0] * 12, "quaternion_order": "wxyz"}
    mapping["imu_mounting"] = [1.0, 0.0, 0.0, 0.0]
    mapping["units"] = {"joint_pos": "rad", "joint_vel": "rad/s", "base_ang_vel": "rad/s"}
    return {"format": 2, "task": "go2_flat", **shapes, **interface, **mapping}


def stepping(obs):
    """A network that lifts two feet after the other two, sways, and stands up straight by what it senses."""
    sine, cosine = obs[0, -2:]
    legs = np.array([1.0, -1.0, -1.0, 1.0])  # FL, FR, RL, RR: diagonal ones together
    lift = np.clip(legs * sine, 0, None)
    actions = np.zeros((4, 3))
    actions[:, 0] = 0.3 * cosine + 0.2 * legs * sine - 0.5 * obs[0, 7]
    actions[:, 1] = 1.2 * lift + 0.2 * cosine
    actions[:, 2] = -2.4 * lift
    return [actions.reshape(1, 12).astype(np.float32)]


def walk(description, tmp_path, kind="", seed=3, seconds=4.0, runner_description=None):
    """Return the log of a robot with a fault, and the fault."""
    rng = np.random.default_rng(seed)
    setup = Setup(description=copy.deepcopy(runner_description or description), network=stepping)
    planted = MAKERS[kind](description, rng) if kind else None
    if planted is not None:
        planted.plant(setup)
    run(description, setup, rng, tmp_path / "log.csv", seconds)
    return read_log(tmp_path / "log.csv", setup.description), planted


def judge(log, description, model_joints=()):
    runner = Policy(description, stepping, log.joint_names)
    return diagnose(log, runner, stepping, description, ROOT / description["simulation"]["model"], model_joints)


def moving(description):
    """A command that lets the gait clock run, whatever is drawn."""
    return {**description, "command_ranges": [[0.3, 0.3], [0.0, 0.0], [0.0, 0.0]]}


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_doctor_of_a_healthy_robot_has_no_complaint(description, tmp_path, seed):
    log, _ = walk(moving(description), tmp_path, seed=seed)
    result = judge(log, moving(description))
    assert not result.findings and "nothing wrong is found" in lines(result)[-1]


FAST = ["joint order", "IMU turned", "scale", "gains", "stale sensor", "rate"]
SLOW = [kind for kind in MAKERS if kind not in (*FAST, "memory", "history order", "torque limit", "wrong robot")]


@pytest.mark.parametrize("kind", [*FAST, *(pytest.param(kind, marks=pytest.mark.slow) for kind in SLOW)])
def test_doctor_of_a_planted_fault_names_it(description, tmp_path, kind):
    log, planted = walk(moving(description), tmp_path, kind)
    result = judge(log, moving(description))
    assert any(names(finding, planted) for finding in result.findings), lines(result)
    assert result.boundary == result.findings[0].boundary
    assert report_html("log.csv", result).count("<img") == sum(bool(one.traces) for one in result.findings) > 0


@pytest.mark.parametrize(
    "kind",
    [
        "joint order",
        *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("joint sign", "joint zero", "IMU turned")),
    ],
)
def test_fixed_description_of_a_planted_fault_lets_the_robot_walk_without_a_complaint(description, tmp_path, kind):
    description = moving(description)
    seed = next(seed for seed in range(20) if two_way(kind, description, seed))
    log, _ = walk(description, tmp_path, kind, seed)
    fixed = fixed_description(description, judge(log, description).findings)
    assert fixed is not None
    log, _ = walk(description, tmp_path, kind, seed, runner_description=fixed)
    assert not judge(log, fixed, description["joint_names"]).findings


def two_way(kind, description, seed):
    """Whether the seed plants a fault of the driver, which a mapping undoes."""
    words = MAKERS[kind](description, np.random.default_rng(seed)).words
    return not any(
        place in word for word in words for place in ("the targets", "the readings have", "in the readings")
    ) or any("readings and targets" in word for word in words)


def test_doctor_of_a_robot_that_stands_still_says_which_joints_tell_nothing(description, tmp_path):
    log, _ = walk({**description, "command_ranges": [[0.0, 0.0]] * 3}, tmp_path, seconds=12.0)
    result = judge(log, description)
    assert not result.findings
    assert any("not enough motion in" in note and "FR_calf_joint" in note for note in result.notes)


def test_doctor_without_a_model_judges_what_is_computed_again(description, tmp_path):
    log, _ = walk(moving(description), tmp_path, "scale")
    runner = Policy(description, stepping, log.joint_names)
    result = diagnose(log, runner, stepping, description, None)
    assert [one.kind for one in result.findings] == ["scale"] and result.boundary == "observation"
    assert any("--model" in note for note in result.notes)


@pytest.mark.parametrize(
    "kinds",
    [
        pytest.param(kinds, marks=pytest.mark.slow)
        for kinds in (
            ("torque limit", "joint zero"),
            ("stale sensor", "joint sign"),
            ("IMU turned", "late action"),
            ("IMU turned", "gains"),
            ("quaternion order", "gains"),
            ("jitter", "IMU askew"),
        )
    ],
)
def test_doctor_of_two_planted_faults_names_both(description, tmp_path, kinds):
    rng, description = np.random.default_rng(5), moving(description)
    setup = Setup(description=copy.deepcopy(description), network=stepping)
    both = [MAKERS[kind](description, rng) for kind in kinds]
    for one in both:
        one.plant(setup)
    run(description, setup, rng, tmp_path / "log.csv", 6.0)
    result = judge(read_log(tmp_path / "log.csv", setup.description), description)
    assert all(any(names(finding, one) for finding in result.findings) for one in both), lines(result)


@pytest.mark.slow
def test_doctor_names_one_fault_where_three_together_explain_as_much(root, tmp_path):
    pytest.importorskip("onnxruntime")
    description, network = open_onnx(root / "zoo" / "anymal_c_flat" / "policy.onnx")
    rng = np.random.default_rng(204100088)
    setup = Setup(description=copy.deepcopy(dict(description)), network=network)
    MAKERS["joint order"](description, rng).plant(setup)
    run(description, setup, rng, tmp_path / "log.csv")
    log = read_log(tmp_path / "log.csv", description)
    model = ROOT / description["simulation"]["model"]
    result = diagnose(log, Policy(description, network, log.joint_names), network, description, model)
    assert [one.kind for one in result.findings] == ["joint order"]


def test_coarse_prediction_of_a_robot_with_much_damping_is_near_the_fine_one():
    """The feet of a G1 are light: with an explicit step of 10 ms its ankles would swing more and more."""
    legs = {"stiffness": [100.0, 100.0, 100.0, 150.0, 40.0, 40.0], "damping": [2.0, 2.0, 2.0, 4.0, 2.0, 2.0]}
    gains = {name: 2 * values for name, values in legs.items()}
    path = ROOT / "rsl_rl" / "robots" / "g1" / "g1.xml"
    model = mujoco.MjModel.from_xml_path(str(path))  # pyright: ignore[reportAttributeAccessIssue]
    names = [model.joint(i).name for i in model.actuator_trnid[:, 0]]
    replay = Replay(path, {**gains, "torque_limits": [88.0] * 12}, names, 0.02)
    still, upright = np.zeros((8, 12)), np.tile([1.0, 0.0, 0.0, 0.0], (8, 1))
    motion = Motion(upright, np.zeros((8, 3)), np.zeros((8, 3)), still, still + 0.5, still + 0.1)
    for factor in (1.0, 4.0):
        fine, coarse = (
            replay.predict(motion, np.array([3]), Actuation(damping=factor), is_coarse)[0, -1]
            for is_coarse in (False, True)
        )
        assert np.abs(coarse - fine)[-12:].max() < 0.6  # joint velocities [rad/s]


@pytest.mark.parametrize(("rows", "last"), [(100, 83), (40, 39)])
def test_end_of_an_episode_in_which_a_robot_may_fall_is_left_out(rows, last):
    time, joints = 0.02 * np.arange(rows), np.zeros((rows, 1))
    log = Log(time, np.zeros(rows, int), ("knee",), {}, None, None, joints)
    motion = Motion(np.ones((rows, 4)), np.ones((rows, 3)), None, joints, joints, joints)
    assert usable_steps(log, motion).max() == last - HORIZON


def test_damping_of_a_robot_that_stands_still_is_not_told(description, tmp_path):
    standing = {**description, "command_ranges": [[0.0, 0.0]] * 3, "damping": [3 * x for x in description["damping"]]}
    log, _ = walk(standing, tmp_path)
    result = judge(log, {**standing, "damping": description["damping"]})
    assert not result.findings and "not enough motion to tell the damping of the joints" in result.notes


@pytest.mark.parametrize(("spread", "kinds"), [(0.02, ["rate"]), (0.6, ["jitter"])])
def test_rate_of_a_loop_is_named_where_its_jitter_leaves_no_doubt(spread, kinds):
    step = 0.0215 * np.tile([1 - spread, 1.0, 1.0, 1 + spread], 10)
    time, joints = np.cumsum(step), np.zeros((40, 1))
    log = Log(time, np.zeros(40, int), ("knee",), {}, None, None, joints)
    assert [one.kind for one in judge_time(log, 0.02)] == kinds
