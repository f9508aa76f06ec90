"""The robot's runner, on paper: what it builds of raw states, and what it makes of actions."""

import ast
import copy
import functools
import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from deploy.onnx_policy import MAX_HELD, OnnxPolicy, Policy, PolicyStoppedError, network_sha256, open_onnx
from rsl_rl.modules import ActorCritic

JOINTS = ["hip", "knee"]
HALF = 0.5**0.5


def describe(**changes):
    """A robot of two joints that senses everything."""
    sizes = {
        "base_lin_vel": 3,
        "base_ang_vel": 3,
        "gravity": 3,
        "command": 3,
        "joint_pos": 2,
        "joint_vel": 2,
        "action": 2,
    }
    scales = {"base_lin_vel": 2.0, "base_ang_vel": 0.25, "gravity": 1.0, "command": 2.0, "joint_vel": 0.05}
    frames = {name: "joint" if size == 2 else "base" for name, size in sizes.items()}
    return {
        "inputs": {"obs": [1, 18], "h_in": [1, 1, 4]},
        "observations": [
            {"name": name, "size": size, "scale": scales.get(name, 1.0), "frame": frames[name]}
            for name, size in sizes.items()
        ],
        "joint_names": JOINTS,
        "default_joint_pos": [0.1, -0.2],
        "action_scale": 0.25,
        "action_clip": 2.0,
        "stiffness": [30.0, 40.0],
        "damping": [1.0, 2.0],
        "torque_limits": [20.0, 45.0],
        "control_period": 0.02,
        **changes,
    }


def counting(obs, memory):
    """A network that answers 1 and 3 and counts its calls."""
    return np.array([[1.0, 3.0]], np.float32), memory + 1


STATE = {
    "command": (0.5, 0.1, -0.2),
    "base_quat": (HALF, 0.0, 0.0, HALF),  # facing left of the world's x axis
    "base_ang_vel": (0.4, 0.8, 1.2),
    "base_lin_vel_world": (1.0, 0.0, 0.5),
    "joint_pos": (0.3, 0.4),
    "joint_vel": (2.0, 4.0),
}


def test_the_observation_is_what_paper_says():
    obs = Policy(describe(), counting).observe(**STATE)
    expected = [0, -2, 1, 0.1, 0.2, 0.3, 0, 0, -1, 1, 0.2, -0.4, 0.2, 0.6, 0.1, 0.2, 0, 0]
    np.testing.assert_allclose(obs, expected, atol=1e-6)
    assert obs.dtype == np.float32


def test_a_velocity_in_the_base_frame_is_taken_as_it_is_and_gravity_tilts():
    rolled = {**STATE, "base_quat": (HALF, HALF, 0.0, 0.0), "base_lin_vel": (1.0, 2.0, 3.0)}
    obs = Policy(describe(), counting).observe(**rolled)
    np.testing.assert_allclose(obs[:3], [2, 4, 6], atol=1e-6)
    np.testing.assert_allclose(obs[6:9], [0, -1, 0], atol=1e-6)  # on its right side, down is to the right


def test_targets_are_clipped_scaled_and_remembered_until_a_reset():
    policy = Policy(describe(), counting)
    np.testing.assert_allclose(policy(**STATE), [0.1 + 0.25, -0.2 + 0.5], atol=1e-6)  # 3 is clipped to 2
    np.testing.assert_allclose(policy.observe(**STATE)[-2:], [1, 2])
    policy(**STATE)
    assert np.all(policy.memories[0] == 2)
    policy.reset()
    assert np.all(policy.observe(**STATE)[-2:] == 0) and np.all(policy.memories[0] == 0)


CLOCK = [*describe()["observations"], {"name": "gait_clock", "size": 2, "scale": 1.0, "frame": "base"}]


def test_the_gait_clock_runs_with_the_calls_of_an_episode_and_stops_for_a_command_to_stand():
    clock = {"gait_clock": {"period": 0.08, "dead_zone": 0.1}}
    policy = Policy(describe(observations=CLOCK, commands=clock, inputs={"obs": [1, 20], "h_in": [1, 1, 4]}), counting)
    for expected in ((0, 1), (1, 0), (0, -1), (-1, 0), (0, 1)):
        np.testing.assert_allclose(policy.observe(**STATE)[-2:], expected, atol=1e-6)
        policy(**STATE)
    assert not policy.observe(**{**STATE, "command": (0.06, 0.0, 0.06)})[-2:].any()
    np.testing.assert_array_equal(policy.observe(**STATE, gait_clock=(0.6, 0.8))[-2:], np.float32((0.6, 0.8)))
    policy.reset()
    np.testing.assert_array_equal(policy.observe(**STATE)[-2:], (0, 1))


@pytest.mark.parametrize(
    "clock", [{}, {"gait_clock": {"period": 0.0, "dead_zone": 0.1}}, {"gait_clock": {"period": "a"}}]
)
def test_a_gait_clock_without_a_period_is_refused(clock):
    inputs = {"obs": [1, 20], "h_in": [1, 1, 4]}
    with pytest.raises(ValueError, match="give a period and a dead_zone"):
        Policy(describe(observations=CLOCK, commands=clock, inputs=inputs), counting)


def test_joints_go_by_name():
    state = {**STATE, "joint_pos": STATE["joint_pos"][::-1], "joint_vel": STATE["joint_vel"][::-1]}
    plain, other = Policy(describe(), counting), Policy(describe(), counting, ["knee", "hip"])
    np.testing.assert_array_equal(plain.observe(**STATE), other.observe(**state))
    np.testing.assert_array_equal(plain(**STATE), other(**state)[::-1])
    assert list(other.stiffness) == [40, 30] and list(other.damping) == [2, 1] and list(other.torque_limits) == [45, 20]
    np.testing.assert_allclose(other.default_joint_pos, [-0.2, 0.1])


def test_each_joint_may_have_an_action_scale_of_its_own():
    policy = Policy(describe(action_scale=[0.25, 0.5]), counting)
    np.testing.assert_allclose(policy(**STATE), [0.1 + 0.25, -0.2 + 1.0], atol=1e-6)


def test_what_is_not_sensed_may_be_left_out():
    terms = [term for term in describe()["observations"] if term["name"] in ("gravity", "command")]
    policy = Policy(describe(observations=terms, inputs={"obs": [1, 6]}), lambda obs: [np.ones((1, 2), np.float32)])
    assert policy(command=(0, 0, 0), base_quat=(1, 0, 0, 0)).shape == (2,)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"joint_pos": None}, "the policy senses joint_pos: give joint_pos, 2 finite numbers; got None"),
        ({"base_lin_vel_world": None}, "give base_lin_vel, or base_lin_vel_world with base_quat"),
        ({"base_quat": None}, "the policy senses base_lin_vel"),
        ({"base_quat": (0.0, 0.0, 0.0, 0.0)}, "unit quaternion w x y z"),
        ({"base_quat": (float("nan"), 0.0, 0.0, 0.0)}, "unit quaternion w x y z"),
        ({"base_ang_vel": (0.0, float("nan"), 0.0)}, "senses base_ang_vel"),
        ({"command": (0.0, 0.0)}, "senses command: give command, 3 finite numbers"),
        ({"joint_vel": (0.0, 0.0, 0.0)}, "senses joint_vel: give joint_vel, 2 finite numbers; got"),
        ({"base_quat": (1.0, 0.0, 0.0)}, "unit quaternion w x y z"),
        ({"base_quat": (1.0, 0.0, 0.0, 0.0, 0.0)}, "unit quaternion w x y z"),
        ({"command": (2e38, 0.0, 0.0)}, "command=.* is larger than any in training"),
        ({"base_lin_vel_world": (3e38, 3e38, 3e38)}, "senses base_lin_vel"),
        ({"base_ang_vel": (0.0, 0.0, 501.0)}, "base_ang_vel=.* larger than any in training: check the sensor"),
        ({"joint_vel": (0.0, -501.0)}, "joint_vel=.* larger than any in training"),
        ({"joint_pos": (0.0, 2e6)}, "joint_pos=.* larger than any in training"),
        ({"command": (float("inf"), 0.0, 0.0)}, "senses command: give command, 3 finite numbers"),
        ({"command": ("0.5", "0", "0")}, "senses command: give command, 3 finite numbers"),
        ({"command": (True, 0.0, 0.0)}, "senses command: give command, 3 finite numbers"),
        ({"joint_pos": np.array((True, False))}, "senses joint_pos: give joint_pos, 2 finite numbers"),
        ({"joint_pos": ["0.1", "0.2"]}, "senses joint_pos: give joint_pos, 2 finite numbers"),
        ({"joint_vel": [0.1, True]}, "senses joint_vel: give joint_vel, 2 finite numbers"),
        ({"base_ang_vel": [0.1, None, 0.2]}, "senses base_ang_vel: give base_ang_vel, 3 finite numbers"),
        ({"base_ang_vel": [[0.1], [0.1, 0.2], 0.0]}, "senses base_ang_vel: give base_ang_vel, 3 finite numbers"),
        ({"base_quat": "1000"}, "unit quaternion w x y z"),
        ({"base_quat": (True, False, False, False)}, "unit quaternion w x y z"),
        ({"base_lin_vel_world": ("1", "0", "0")}, "senses base_lin_vel: give base_lin_vel, or"),
    ],
)
def test_a_state_that_does_not_do_is_refused(changes, message):
    limits = {"observation": 1e6, "base_lin_vel": 50.0, "base_ang_vel": 500.0, "joint_vel": 500.0}
    policy = Policy(describe(input_limits=limits), counting)
    with pytest.raises(ValueError, match=message):
        policy(**{**STATE, **changes})
    assert np.all(policy.last_action == 0)


@pytest.mark.parametrize("outputs", [(np.nan, 0.0), (0.0, np.inf), (0.0,)])
def test_actions_that_are_not_finite_or_too_few_are_refused_and_change_nothing(outputs):
    policy = Policy(describe(), lambda obs, memory: (np.array([outputs], np.float32), memory + 1))
    with pytest.raises(ValueError, match="are not 2 finite numbers"):
        policy(**STATE)
    assert np.all(policy.last_action == 0) and np.all(policy.memories[0] == 0)
    policy = Policy(describe(), lambda obs, memory: (np.zeros((1, 2), np.float32), memory * np.nan))
    with pytest.raises(ValueError, match="finite numbers"):
        policy(**STATE)


def test_targets_beyond_their_limits_are_clamped_and_counted():
    policy = Policy(describe(target_limits=[[-3.0, 3.0], [-0.25, 0.2]]), counting, ["knee", "hip"])
    for calls in (1, 2):
        np.testing.assert_allclose(policy(**STATE), [0.2, 0.35], atol=1e-6)  # the network wants 0.3 of the knee
        assert (policy.counts["calls"], policy.counts["clamped_targets"]) == (calls, calls)
    np.testing.assert_allclose(policy.target_limits, [[-0.25, 0.2], [-3.0, 3.0]])
    np.testing.assert_array_equal(policy.last_action, [1, 2])  # what the network reads is its action, as in training


def test_target_limits_of_a_file_without_them_are_what_the_torque_limit_can_use():
    margin = 20.0 / 40.0  # [rad] of the knee
    for high, target in ((0.31 - margin, 0.3), (0.29 - margin, 0.29)):  # the network wants 0.3
        policy = Policy(describe(joint_limits=[[-3.0, 3.0], [-3.0, high]], torque_limits=[20.0] * 2), counting)
        np.testing.assert_allclose(policy(**STATE), [0.35, target], atol=1e-6)
        assert policy.counts["clamped_targets"] == (target < 0.3)


class BrokenReading:
    """A reading that cannot be read, such as a tensor on another device."""

    def __array__(self, *_):
        raise RuntimeError("the sensor is gone")


BAD_READINGS = [
    {"joint_pos": None},
    {"base_ang_vel": (0.0, float("nan"), 0.0)},
    {"joint_vel": (0.0, -501.0)},
    {"base_quat": (0.0, 0.0, 0.0, 0.0)},
    {"command": (float("nan"), 0.0, 0.0)},
    {"joint_vel": (1.0,)},
    {"joint_vel": BrokenReading()},
    {"joint_vel": functools.reduce(lambda inner, _: [inner], range(10_000), [])},
]


@pytest.mark.parametrize("bad", BAD_READINGS)
def test_policy_without_usable_readings_in_mid_stride_holds_its_targets_and_then_stops(bad):
    policy = Policy(describe(input_limits={"joint_vel": 500.0}), counting)
    walking = policy(**STATE)
    walking_on = walking.copy()
    for calls in range(1, MAX_HELD + 1):
        held = policy(**{**STATE, **bad})
        np.testing.assert_array_equal(held, walking_on)
        held += 1.0  # a driver may change what it gets
        assert (policy.held, policy.counts["held_calls"]) == (calls, calls) and next(iter(bad)) in policy.problem
    assert np.all(policy.memories[0] == 1)  # the network has not run
    for state in ({**STATE, **bad}, STATE):  # a stop lasts until the reset
        with pytest.raises(PolicyStoppedError, match=f"stopped after {MAX_HELD + 1} calls in a row without usable"):
            policy(**state)
    policy.reset()
    np.testing.assert_array_equal(policy(**STATE), walking_on)
    assert policy.counts["held_calls"] == MAX_HELD


@pytest.mark.parametrize("max_held", [-1, float("nan"), True, None, "5"])
def test_policy_with_a_limit_of_held_calls_that_is_none_is_refused(max_held):
    with pytest.raises(ValueError, match=r"max_held=.*; give a whole number of calls from 0"):
        Policy(describe(), counting, max_held=max_held)


def test_policy_goes_on_after_a_short_loss_of_readings():
    policy = Policy(describe(), counting, max_held=2)
    policy(**STATE)
    for _ in range(3):
        for _ in range(2):
            policy(**{**STATE, "joint_pos": None})
        policy(**STATE)
        assert policy.held == 0
    assert np.all(policy.memories[0] == 4) and policy.counts["held_calls"] == 6 and policy.counts["calls"] == 10


def test_gait_clock_runs_on_while_targets_are_held():
    clock = {"gait_clock": {"period": 0.08, "dead_zone": 0.1}}
    policy = Policy(describe(observations=CLOCK, commands=clock, inputs={"obs": [1, 20], "h_in": [1, 1, 4]}), counting)
    policy(**STATE)
    policy(**{**STATE, "joint_pos": None})
    np.testing.assert_allclose(policy.observe(**STATE)[-2:], (0, -1), atol=1e-6)


def test_outputs_of_the_network_that_are_not_finite_hold_the_targets():
    outputs = iter([0.0, np.nan, 1.0])
    network = lambda obs, memory: (np.full((1, 2), next(outputs), np.float32), memory + 1)  # noqa: E731
    policy = Policy(describe(), network)
    first = policy(**STATE)
    np.testing.assert_array_equal(policy(**STATE), first)
    assert "are not 2 finite numbers" in policy.problem
    np.testing.assert_allclose(policy(**STATE), first + 0.25)


@pytest.mark.parametrize("limits", [{}, {"velocity": {"max_lin_acc": 0.0, "max_yaw_acc": 0.0}}])
def test_commands_beyond_the_training_are_clipped_and_counted(limits):
    ranges = [[0.3, 1.0], [-0.5, 0.5], [0.0, 0.0]]
    policy = Policy(describe(command_ranges=ranges, commands=limits), counting)
    for command, read, clipped in (
        ((1e6, -9.0, 0.1), (1.0, -0.5, 0.0), 1),
        ((0.4, 0.1, 0.0), (0.4, 0.1, 0.0), 1),
        ((0.0, 0.0, 0.0), (0.0, 0.0, 0.0), 1),  # a command to stop is one, whatever the ranges
        ((-1.0, 0.0, 0.0), (0.0, 0.0, 0.0), 2),
    ):
        state = {**STATE, "command": command}
        np.testing.assert_allclose(policy.observe(**state)[9:12], 2.0 * np.float32(read), rtol=1e-6)
        policy(**state)
        assert policy.counts["clipped_commands"] == clipped


def test_an_acceleration_limit_does_not_let_a_command_pass_the_range():
    limits = {"velocity": {"max_lin_acc": 2.0, "max_yaw_acc": 4.0}}
    policy = Policy(describe(command_ranges=[[-1.0, 1.0]] * 3, commands=limits), counting)
    read = []
    for _ in range(100):
        read.append(policy.observe(**{**STATE, "command": (1e6, 0.0, 0.0)})[9] / 2.0)
        policy(**{**STATE, "command": (1e6, 0.0, 0.0)})
    assert np.allclose(np.diff(read[:24]), 0.04, atol=1e-6) and max(read) == read[-1] == 1.0


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 99}, "the description has format 99; this file reads 1"),
        ({"action_scale": float("nan")}, "action_scale=nan; give a positive finite number"),
        ({"action_scale": "0.25"}, "action_scale=0.25; give a positive finite number"),
        ({"action_scale": 0}, "action_scale=0; give a positive finite number"),
        ({"action_scale": True}, "action_scale=True; give a positive finite number"),
        ({"control_period": 20.0}, "control_period=20.0; give seconds, at most 1"),
        (
            {"default_joint_pos": [5.7, -11.5], "joint_limits": [[-1.0, 1.0]] * 2},
            "default_joint_pos=.* is not in joint_limits; give radians",
        ),
        ({"control_period": -0.02}, "control_period=-0.02; give a positive finite number"),
        ({"joint_names": ["knee", "knee"]}, "each joint must have a name of its own"),
        ({"stiffness": [30.0]}, r"stiffness=\[30.0\]; give non-negative finite numbers of shape \[2\]"),
        ({"damping": [1.0, True]}, r"damping=\[1.0, True\]; give non-negative finite numbers"),
        ({"torque_limits": [1e300, 1.0]}, r"torque_limits=\[1e\+300, 1.0\]"),
        ({"torque_limits": [10**400, 1.0]}, "torque_limits=.1000.*; give non-negative"),
        ({"joint_names": "ab"}, "joint_names=ab; each joint"),
        ({"joint_names": [1, 2]}, r"joint_names=\[1, 2\]; each joint"),
        ({"joint_names": None}, "joint_names=None; each joint"),
        ({"default_joint_pos": [0.0, float("inf")]}, "default_joint_pos"),
        ({"joint_limits": [[0.0, 1.0]]}, r"joint_limits.* of shape \[2, 2\]"),
        ({"joint_limits": [[0.0, 1.0], [1.0, 0.0]]}, r"joint_limits.*lowest first"),
        ({"target_limits": [[0.0, 1.0], [1.0, 0.0]]}, r"target_limits.*lowest first"),
        ({"target_limits": 1.0}, "target_limits=1.0"),
        ({"command_ranges": [[0.0, 1.0]] * 2}, r"command_ranges.* of shape \[3, 2\]"),
        ({"command_ranges": [[0.0, float("nan")]] * 3}, "command_ranges"),
        ({"input_limits": {"joint_vel": float("nan")}}, "input_limits: joint_vel=nan; give a positive finite number"),
        ({"input_limits": {"observation": "1e6"}}, "input_limits: observation=1e6; give a positive finite number"),
        ({"input_limits": [1.0]}, r"input_limits=\[1.0\]; give names with values"),
        ({"inputs": {"obs": [1, 18], "h_in": [1, 10**6, 10**6]}}, r"inputs: h_in=.*; give the sizes of at most"),
        ({"inputs": {"obs": [1, 18], "h_in": [1, -1, 4]}}, "inputs: h_in="),
        ({"inputs": {"obs": [1, 18], "h_in": "4"}}, "inputs: h_in=4"),
        ({"inputs": {"h_in": [1, 1, 4]}}, "inputs=.*give obs the shape"),
        ({"inputs": 18}, "inputs=18; give names with values"),
        ({"commands": None}, "commands=None; give names with values"),
        ({"commands": {"velocity": 2.0}}, "velocity=2.0; give names with values"),
        ({"commands": {"velocity": {"max_lin_acc": True, "max_yaw_acc": 1.0}}}, "the limits of the command are"),
        ({"commands": {"velocity": {"max_lin_acc": 1.0}}}, "the limits of the command are"),
        ({"observations": None}, "observations=None; give terms with name"),
        ({"observations": [{"size": 2}]}, "observations=.*; give terms with name"),
        ({"observations": [{"name": "action"}]}, "observations: .*; give action the size 2, the frame joint"),
        ({"observations": [{"name": "action", "size": 2, "frame": "joint", "scale": float("nan")}]}, "finite scale"),
        ({"observations": [{"name": "action", "size": 2, "frame": "joint", "scale": "1"}]}, "finite scale"),
        (
            {"observations": [{"name": "action", "size": 2, "frame": "joint", "scale": 1.0, "history": 10**12}]},
            "history of 1 to 1000 steps",
        ),
    ],
)
def test_a_description_that_would_move_joints_wrongly_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Policy(describe(**changes), counting)


@pytest.fixture(scope="module")
def onnx_file(tmp_path_factory):
    """The ONNX file of a small policy with its description and a foreign metadata entry."""
    pytest.importorskip("onnxruntime")
    onnx_export = pytest.importorskip("rsl_rl.exporters.onnx")
    policy = ActorCritic(4, 4, 2, actor_hidden_dims=(8,), critic_hidden_dims=(8,))
    path = tmp_path_factory.mktemp("exported") / "policy.onnx"
    return onnx_export.export_onnx(policy, path, {"joint_limits": [[0.0, 1.0]] * 2, "action_scale": 0.25})


def test_every_single_flipped_bit_of_a_file_is_refused(onnx_file, tmp_path):
    content = onnx_file.read_bytes()
    description, network = open_onnx(onnx_file)
    assert description["action_scale"] == 0.25 and "sha256" not in description
    assert network(np.zeros((1, 4), np.float32))[0].shape == (1, 2)
    places = [*np.random.default_rng(0).integers(0, len(content), 40), *range(len(content) - 78, len(content))]
    for bit, place in enumerate(places):
        damaged = bytearray(content)
        damaged[place] ^= 1 << (bit % 8)
        (tmp_path / "policy.onnx").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"policy\.onnx is"):
            open_onnx(tmp_path / "policy.onnx")
    (tmp_path / "policy.onnx").write_bytes(content[:-78])
    with pytest.raises(ValueError, match="its checksum is wrong; copy it again"):
        open_onnx(tmp_path / "policy.onnx")


def test_metadata_of_other_programs_is_ignored_and_files_without_a_checksum_still_load(onnx_file, tmp_path):
    onnx = pytest.importorskip("onnx")
    model = onnx.load(str(onnx_file))
    kept = {x.key: x.value for x in model.metadata_props if x.key not in ("sha256", "joint_limits")}
    del model.metadata_props[:]
    for key, value in {**kept, "author": "not JSON"}.items():
        model.metadata_props.add(key=key, value=value)
    onnx.save(model, str(tmp_path / "policy.onnx"))
    description, _ = open_onnx(tmp_path / "policy.onnx")
    assert description["action_scale"] == 0.25 and "author" not in description


def test_a_policy_that_does_not_do_is_refused():
    terms = describe()["observations"]
    privileged = [
        *terms,
        *({"name": name, "size": 1, "scale": 1.0, "frame": "world"} for name in ("friction", "payload")),
    ]
    with pytest.raises(ValueError, match="no robot senses friction, payload; train a policy on some of base_lin_vel"):
        Policy(describe(observations=privileged), counting)
    with pytest.raises(ValueError, match="give base_lin_vel the size 3, the frame base"):
        Policy(describe(observations=[{**terms[0], "frame": "world"}, *terms[1:]]), counting)
    with pytest.raises(ValueError, match="the sizes' sum 18 is not 20"):
        Policy(describe(inputs={"obs": [1, 20]}), counting)
    with pytest.raises(ValueError, match=r"got the joints \['hip', 'ankle'\]; the policy moves \['hip', 'knee'\]"):
        Policy(describe(), counting, ["hip", "ankle"])
    old = {name: value for name, value in describe().items() if name not in ("inputs", "control_period")}
    with pytest.raises(ValueError, match="lacks inputs, control_period; export the policy again"):
        Policy(old, counting)


def test_file_that_is_too_large_for_a_policy_is_refused_unread(tmp_path):
    with (tmp_path / "policy.onnx").open("wb") as file:
        file.truncate(40_000_000_000)  # takes no room on the disk
    with pytest.raises(ValueError, match="has more than 1000 MB, which no policy has"):
        open_onnx(tmp_path / "policy.onnx")


def test_without_a_file_or_onnxruntime_the_error_says_what_to_do(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"no file .*none.onnx; scripts/play.py writes"):
        OnnxPolicy(tmp_path / "none.onnx")
    (tmp_path / "policy.onnx").touch()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match="onnxruntime is not installed; run: pip install onnxruntime"):
        open_onnx(tmp_path / "policy.onnx")


def test_the_file_is_short_and_needs_numpy_and_onnxruntime_alone(root):
    path = root / "deploy" / "onnx_policy.py"
    assert len(path.read_text().splitlines()) <= 800
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module)
    assert imported - set(sys.stdlib_module_names) == {"numpy", "onnxruntime"}
    code = "import sys, onnx_policy; sys.exit('onnxruntime' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=path.parent, check=False).returncode == 0


def test_log_without_the_file_that_writes_it_says_what_to_copy(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "deploy.policy_records", None)
    Policy(describe(), counting)  # walking does not need it
    with pytest.raises(ImportError, match=r"no policy_records\.py beside onnx_policy\.py; copy it too"):
        Policy(describe(), counting, log=tmp_path / "walk.csv")


def test_commands_of_a_source_that_describes_other_facts_have_no_limits():
    policy = Policy(describe(commands={"velocity": {"units": "m/s"}}), counting)
    policy(**STATE)
    np.testing.assert_allclose(policy.observe(**STATE)[9:12], [1.0, 0.2, -0.4], atol=1e-6)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=6,
)
COMPLETE = describe(
    observations=CLOCK,
    inputs={"obs": [1, 20], "h_in": [1, 1, 4]},
    commands={"velocity": {"max_lin_acc": 2.0, "max_yaw_acc": 4.0}, "gait_clock": {"period": 0.5, "dead_zone": 0.1}},
    command_ranges=[[-1.0, 1.0]] * 3,
    joint_limits=[[-1.0, 1.0]] * 2,
    target_limits=[[-2.0, 2.0]] * 2,
    input_limits={"joint_vel": 500.0, "observation": 1e6},
    format=1,
)


def places(value, path=()):
    """The paths of all values of a description."""
    yield path
    for key in value if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield from places(value[key], (*path, key))


PLACES = [path for path in places(COMPLETE) if path]


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(PLACES), JSON)
def test_a_description_with_any_value_in_any_place_is_refused_by_a_value_error_or_gives_finite_targets(path, value):
    description = copy.deepcopy(COMPLETE)
    place = description
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    try:
        policy = Policy(description, counting)
    except ValueError as error:
        named = (*path, "clock", "command", "senses", *(["default_joint_pos"] if path[0] == "joint_names" else []))
        assert "\n" not in str(error) and any(str(key) in str(error) for key in named)
        return
    try:
        assert np.isfinite(policy(**STATE)).all()
    except ValueError as error:
        assert path[0] in ("input_limits", "observations", "default_joint_pos"), error


def test_inputs_that_are_not_those_of_the_network_are_refused(tmp_path):
    pytest.importorskip("onnxruntime")
    onnx_export = pytest.importorskip("rsl_rl.exporters.onnx")
    policy = ActorCritic(4, 4, 2, actor_hidden_dims=(8,), critic_hidden_dims=(8,))
    path = onnx_export.export_onnx(policy, tmp_path / "policy.onnx", {"inputs": {"obs": [1, 5]}})
    with pytest.raises(ValueError, match=r"inputs={'obs': \[1, 5\]}; the network's are {'obs': \[1, 4\]}"):
        open_onnx(path)


PLAIN = {
    "joint_signs": [1.0, 1.0],
    "joint_zeros": [0.0, 0.0],
    "quaternion_order": "wxyz",
    "imu_mounting": [1.0, 0.0, 0.0, 0.0],
    "units": {"joint_pos": "rad", "joint_vel": "rad/s", "base_ang_vel": "rad/s"},
}


def describe_2(**changes):
    """The same robot in format 2."""
    return describe(format=2, **{**PLAIN, **changes})


def answering(obs, memory):
    """A network whose actions depend on all of the observation."""
    weights = np.sin(np.arange(2 * obs.shape[1], dtype=np.float32)).reshape(-1, 2)
    return np.tanh(obs @ weights), memory + 1


@pytest.mark.parametrize("name", PLAIN)
def test_description_of_format_2_without_the_mapping_is_refused(name):
    description = describe_2()
    del description[name]
    with pytest.raises(ValueError, match=f"lacks {name}"):
        Policy(description, counting)


@settings(deadline=None, max_examples=60)
@given(
    signs=st.tuples(*[st.sampled_from((1.0, -1.0))] * 2),
    zeros=st.tuples(*[st.floats(-1.0, 1.0)] * 2),
    degrees=st.booleans(),
    xyzw=st.booleans(),
    mounting=st.tuples(*[st.floats(-1.0, 1.0)] * 4).filter(lambda q: np.linalg.norm(q) > 0.1),
    seed=st.integers(0, 1000),
)
def test_robot_with_other_signs_zeros_units_and_mounting_gets_the_same_motion(
    signs, zeros, degrees, xyzw, mounting, seed
):
    """A robot that reads the same motion in other words gets the same targets, in its words."""
    rng = np.random.default_rng(seed)
    mounting = np.array(mounting) / np.linalg.norm(mounting)
    unit = 180 / np.pi if degrees else 1.0
    words = {"joint_pos": "deg", "joint_vel": "deg/s", "base_ang_vel": "deg/s"} if degrees else PLAIN["units"]
    mapping = {
        "joint_signs": list(signs), "joint_zeros": list(zeros), "imu_mounting": mounting.tolist(),
        "units": words, "quaternion_order": "xyzw" if xyzw else "wxyz",
    }  # fmt: skip
    mapped, plain = Policy(describe_2(**mapping), answering), Policy(describe_2(), answering)
    base_from_imu = rotation(mounting)  # columns: axes of the base, in the frame of the IMU
    for _ in range(3):
        quat = rng.normal(size=4)
        quat /= np.linalg.norm(quat)
        state = {"command": rng.normal(size=3), "base_lin_vel": rng.normal(size=3), "base_quat": quat}
        angles, rates, turning = rng.normal(size=2), rng.normal(size=2), rng.normal(size=3)
        targets = plain(**state, joint_pos=angles, joint_vel=rates, base_ang_vel=turning)
        imu = quaternion(rotation(quat) @ base_from_imu.T)  # IMU to world
        state["base_quat"] = np.roll(imu, -1) if xyzw else imu
        own = mapped(
            **state,
            joint_pos=unit * (np.array(signs) * angles + zeros),
            joint_vel=unit * np.array(signs) * rates,
            base_ang_vel=unit * (base_from_imu @ turning),
        )
        np.testing.assert_allclose(np.array(signs) * (own / unit - zeros), targets, atol=1e-5)
    np.testing.assert_allclose(np.array(signs) * (mapped.default_joint_pos / unit - zeros), [0.1, -0.2], atol=1e-6)


def rotation(quat):
    """The matrix of a quaternion w x y z."""
    w, x, y, z = quat
    skew = np.array(((0, -z, y), (z, 0, -x), (-y, x, 0)))
    return np.eye(3) + 2 * w * skew + 2 * skew @ skew


def quaternion(matrix):
    """A quaternion w x y z of a rotation matrix: the eigenvector of a symmetric matrix, for any angle."""
    m = matrix
    k = np.array(
        (
            (m.trace(), m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]),
            (0, 2 * m[0, 0] - m.trace(), m[0, 1] + m[1, 0], m[0, 2] + m[2, 0]),
            (0, 0, 2 * m[1, 1] - m.trace(), m[1, 2] + m[2, 1]),
            (0, 0, 0, 2 * m[2, 2] - m.trace()),
        )
    )
    return np.linalg.eigh(k, UPLO="U")[1][:, -1]


def test_target_limits_of_a_joint_that_turns_the_other_way_are_in_its_angles():
    limits = {"target_limits": [[-0.25, 0.5], [-3.0, 3.0]], "joint_signs": [-1.0, 1.0], "joint_zeros": [1.0, 0.0]}
    policy = Policy(describe_2(**limits), counting)
    np.testing.assert_allclose(policy.target_limits, [[0.5, 1.25], [-3.0, 3.0]])
    np.testing.assert_allclose(policy(**STATE), [1.0 - 0.35, 0.3], atol=1e-6)


def test_history_step_after_step_has_the_numbers_of_term_after_term_in_another_order():
    terms = [{**term, "history": 3} for term in describe()["observations"]]
    changes = {"observations": terms, "inputs": {"obs": [1, 54], "h_in": [1, 1, 4]}}
    by_term, by_step = (
        Policy(describe_2(**changes, history_order=order), lambda obs, m: (obs[:, :2] * 0 + 1, m))
        for order in ("term", "step")
    )
    starts = np.cumsum([0, *(3 * term["size"] for term in terms)])
    for i in range(5):
        state = {**STATE, "base_ang_vel": (0.1 * i, 0.2, 0.3), "joint_pos": (0.05 * i, 0.1)}
        whole, steps = by_term.observe(**state), by_step.observe(**state).reshape(3, 18)
        parts = [whole[a:b].reshape(3, -1) for a, b in zip(starts, starts[1:])]
        np.testing.assert_array_equal(steps, np.concatenate(parts, axis=1))
        by_term(**state), by_step(**state)


def test_terms_are_clipped_before_they_are_scaled_and_the_observation_afterwards():
    terms = [
        {**term, "clip": [-0.5, 0.5]} if term["name"] == "joint_vel" else term for term in describe()["observations"]
    ]
    observed = Policy(describe_2(observations=terms), counting).observe(**{**STATE, "joint_vel": (1.0, -0.2)})
    np.testing.assert_allclose(observed[14:16], 0.05 * np.float32((0.5, -0.2)))
    clipped = Policy(describe_2(observation_clip=0.3), counting).observe(**STATE)
    np.testing.assert_allclose(clipped, np.clip(Policy(describe(), counting).observe(**STATE), -0.3, 0.3))


def test_gait_clock_without_a_dead_zone_runs_while_the_robot_stands():
    for dead_zone, phase in ((None, (0.0, 1.0)), (0.1, (0.0, 0.0))):
        clock = {"gait_clock": {"period": 0.8, "dead_zone": dead_zone}}
        changes = {"observations": CLOCK, "commands": clock, "inputs": {"obs": [1, 20], "h_in": [1, 1, 4]}}
        observed = Policy(describe(**changes), counting).observe(**{**STATE, "command": (0.0, 0.0, 0.0)})
        np.testing.assert_allclose(observed[-2:], phase, atol=1e-6)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"joint_signs": [1.0, 0.0]}, r"joint_signs=\[1.0, 0.0\]; give 1 or -1"),
        ({"joint_zeros": [0.0]}, r"joint_zeros=\[0.0\]; give finite numbers"),
        ({"imu_mounting": [0.0] * 4}, "imu_mounting=.*; give a unit quaternion"),
        ({"quaternion_order": ["w"]}, "quaternion_order=.*; give wxyz or xyzw"),
        ({"units": {**PLAIN["units"], "joint_vel": "rpm"}}, "units: joint_vel=rpm; give one of rad/s, deg/s"),
        ({"units": {}}, "units: joint_pos=None"),
        ({"history_order": "newest"}, "history_order=newest; give term or step"),
        ({"observation_clip": -1.0}, "observation_clip=-1.0; give a positive finite number"),
    ],
)
def test_mapping_that_does_not_do_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Policy(describe_2(**changes), counting)


def test_description_of_a_file_of_its_own_replaces_that_of_the_network(tmp_path):
    pytest.importorskip("onnxruntime")
    from rsl_rl.exporters.onnx import export_onnx

    description = describe_2(inputs={"obs": [1, 18]})
    path = export_onnx(ActorCritic(18, 18, 2), tmp_path / "policy.onnx", description)
    own = tmp_path / "fixed.json"
    checksum = network_sha256(path.read_bytes())
    own.write_text(json.dumps({**description, "joint_signs": [-1.0, 1.0], "network_sha256": checksum}))
    plain, fixed = OnnxPolicy(path), OnnxPolicy(path, description=own)
    np.testing.assert_allclose(fixed.default_joint_pos, plain.default_joint_pos * (-1, 1))
    own.write_text(json.dumps({**description, "network_sha256": "0" * 64}))
    with pytest.raises(ValueError, match=r"fixed\.json describes another network"):
        OnnxPolicy(path, description=own)
    for damage in ("{", "[]", "[" * 100_000, '"a"', '{"a": 1, "a": 1}'):
        own.write_text(damage)
        with pytest.raises(ValueError, match=r"fixed\.json is not"):
            OnnxPolicy(path, description=own)
