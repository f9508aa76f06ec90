"""The robot's runner, on paper: what it builds of raw states, and what it makes of actions."""

import ast
import subprocess
import sys

import numpy as np
import pytest

from deploy.onnx_policy import OnnxPolicy, Policy, open_onnx

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


def test_joints_go_by_name():
    state = {**STATE, "joint_pos": STATE["joint_pos"][::-1], "joint_vel": STATE["joint_vel"][::-1]}
    plain, other = Policy(describe(), counting), Policy(describe(), counting, ["knee", "hip"])
    np.testing.assert_array_equal(plain.observe(**STATE), other.observe(**state))
    np.testing.assert_array_equal(plain(**STATE), other(**state)[::-1])
    assert list(other.stiffness) == [40, 30] and list(other.damping) == [2, 1] and list(other.torque_limits) == [45, 20]
    np.testing.assert_allclose(other.default_joint_pos, [-0.2, 0.1])


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
        ({"joint_vel": (0.0, 0.0, 0.0)}, "3 joint values; give one for each of"),
    ],
)
def test_a_state_that_does_not_do_is_refused(changes, message):
    policy = Policy(describe(), counting)
    with pytest.raises(ValueError, match=message):
        policy(**{**STATE, **changes})
    assert np.all(policy.last_action == 0)


def test_a_policy_that_does_not_do_is_refused():
    terms = describe()["observations"]
    privileged = [
        *terms,
        *({"name": name, "size": 1, "scale": 1.0, "frame": "world"} for name in ("friction", "payload")),
    ]
    with pytest.raises(ValueError, match="no robot senses friction, payload; train a policy on some of base_lin_vel"):
        Policy(describe(observations=privileged), counting)
    with pytest.raises(ValueError, match="frames of \\['base_lin_vel'\\]"):
        Policy(describe(observations=[{**terms[0], "frame": "world"}, *terms[1:]]), counting)
    with pytest.raises(ValueError, match="the sizes' sum 18 is not 20"):
        Policy(describe(inputs={"obs": [1, 20]}), counting)
    with pytest.raises(ValueError, match=r"got the joints \['hip', 'ankle'\]; the policy moves \['hip', 'knee'\]"):
        Policy(describe(), counting, ["hip", "ankle"])
    old = {name: value for name, value in describe().items() if name not in ("inputs", "control_period")}
    with pytest.raises(ValueError, match="lacks inputs, control_period; export the policy again"):
        Policy(old, counting)


def test_without_a_file_or_onnxruntime_the_error_says_what_to_do(tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match=r"no file .*none.onnx; scripts/play.py writes"):
        OnnxPolicy(tmp_path / "none.onnx")
    (tmp_path / "policy.onnx").touch()
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ImportError, match="onnxruntime is not installed; run: pip install onnxruntime"):
        open_onnx(tmp_path / "policy.onnx")


def test_the_file_is_short_and_needs_numpy_and_onnxruntime_alone(root):
    path = root / "deploy" / "onnx_policy.py"
    assert len(path.read_text().splitlines()) <= 150
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            imported.add(node.module)
    assert imported - set(sys.stdlib_module_names) == {"numpy", "onnxruntime"}
    code = "import sys, onnx_policy; sys.exit('onnxruntime' in sys.modules or 'torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=path.parent, check=False).returncode == 0
