"""Contracts in the formats of other programs: what is read of a file, and a policy written in each and read back."""

import copy
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from configs.go2_flat import flat_task
from deploy.onnx_policy import Policy
from rsl_rl.config.mdp import ObservationGroupConfig, ObservationTerm
from rsl_rl.contracts import contract_of, legged_gym
from rsl_rl.contracts.contract import contract_json, plain_mapping, write_contract
from rsl_rl.contracts.differences import differences
from rsl_rl.contracts.formats import FORMATS, format_of, read_draft
from rsl_rl.evaluation.export_parity import sensor_readings
from rsl_rl.modules import ActorCritic

SCALES = {"base_ang_vel": 0.25, "gravity": 1.0, "command": 1.0, "joint_pos": 1.0, "joint_vel": 0.05, "action": 1.0}
GO2_MOTORS = [f"{leg}_{part}_joint" for leg in ("FR", "FL", "RR", "RL") for part in ("hip", "thigh", "calf")]


@pytest.fixture(scope="module")
def walk():
    """A contract of the Go2, and the readings and joint targets of 100 steps under a network's control."""
    terms = {name: ObservationTerm(scale=scale) for name, scale in SCALES.items()}
    cfg = replace(flat_task(), num_envs=1, observations={"policy": ObservationGroupConfig(terms)})
    env = cfg.build(seed=3)
    interface = env.describe_interface(["policy"])
    interface["observations"][2]["scale"] = [1.0, 1.0, 0.25]
    sizes = {"inputs": {"obs": [1, 45]}, "outputs": {"actions": [1, 12]}}
    contract = contract_of(
        {**plain_mapping(12), **interface, **sizes, "format": 2, "commands": {}, "action_clip": None}
    )
    policy, readings, targets = Policy(contract_json(contract), network), [], []
    for _ in range(100):
        sensors = {name: value[0].numpy().copy() for name, value in sensor_readings(env).items()}
        sensors.pop("gait_clock")
        readings.append(sensors)
        targets.append(policy(**sensors))
        offset = torch.from_numpy(targets[-1]) - env.state.default_joint_pos
        env.step((offset / env.action_scale).unsqueeze(0))
    return contract, readings, np.array(targets)


def network(obs):
    """Actions that depend on each number of the observation."""
    weights = np.sin(np.arange(12 * obs.shape[1], dtype=np.float32)).reshape(obs.shape[1], 12)
    return [np.tanh(obs @ weights)]


@pytest.fixture(scope="module")
def onnx_file(tmp_path_factory):
    pytest.importorskip("onnx")
    from rsl_rl.exporters.onnx import export_onnx

    return export_onnx(ActorCritic(45, 45, 12), tmp_path_factory.mktemp("network") / "policy.onnx", {})


SUFFIXES = {"policy.json": ".json", "mjlab": ".onnx", "legged_gym": ".py"}


@pytest.mark.parametrize("name", FORMATS)
def test_policy_written_in_a_format_and_read_back_gives_the_same_joint_targets(name, walk, onnx_file, tmp_path):
    contract, readings, targets = walk
    path = tmp_path / f"written{SUFFIXES.get(name, '.yaml')}"
    lost = format_of(name).write(contract, path, onnx_file)
    values = {field: contract_json(contract)[field] for field in lost}
    asked = read_draft(path, {"robot": "go2"} if name == "unitree_rl_lab" else None).missing
    names = {"joint_names": list(contract.joint_names)} if "joint_names" in asked else {}
    assert set(asked) <= {*lost, "joint_names", "default_joint_pos", "stiffness", "damping"}  # what is lost is named
    read = read_draft(path, {**values, **names}).contract()
    policy = Policy(contract_json(read), network, contract.joint_names)
    again = np.array([policy(**sensors) for sensors in readings])
    np.testing.assert_allclose(again, targets, rtol=0, atol=1e-6)
    assert np.abs(np.diff(targets, axis=0)).max() > 0.01  # it moves
    unequal = [line for line in differences(contract, read) if not line.startswith("joint_names: another order")]
    assert all(
        line.split(":")[0].split(" ")[0] in ("action_clip", "observation_clip", "observations") for line in unequal
    )


def test_onnx_file_carries_a_whole_contract(walk, onnx_file, tmp_path):
    contract, path = walk[0], tmp_path / "policy.onnx"
    assert format_of("policy.json").write(contract, path, onnx_file) == []
    assert contract_json(read_draft(path).contract()) == contract_json(contract)


DEPLOY = {
    "joint_ids_map": [3, 0, 4, 1],
    "step_dt": 0.02,
    "stiffness": [20.0, 30.0, 0.0, 40.0, 50.0],
    "damping": [0.5, 0.6, 0.0, 0.7, 0.8],
    "default_joint_pos": [0.1, -0.1, 0.8, 0.9],
    "commands": {
        "base_velocity": {"ranges": {"lin_vel_x": [-0.5, 1.0], "lin_vel_y": [-0.3, 0.3], "ang_vel_z": [-1, 1]}}
    },
    "actions": {
        "JointPositionAction": {
            "clip": None, "joint_names": [".*"], "scale": [0.25, 0.25, 0.5, 0.5],
            "offset": [0.1, -0.1, 0.8, 0.9], "joint_ids": None,
        }
    },
    "observations": {
        "base_ang_vel": {"params": {}, "clip": [-100, 100], "scale": [0.2, 0.2, 0.2], "history_length": 5},
        "projected_gravity": {"params": {}, "clip": None, "scale": [1.0, 1.0, 1.0], "history_length": 5},
        "velocity_commands": {"params": {"command_name": "base_velocity"}, "clip": None, "scale": [2.0, 2.0, 0.25]},
        "joint_pos_rel": {"params": {}, "clip": None, "scale": None, "history_length": 5},
        "last_action": {"params": {}, "clip": None, "scale": [1.0] * 4, "history_length": 0},
        "gait_phase": {"params": {"period": 0.8}, "clip": None, "scale": [1.0, 1.0], "history_length": 1},
    },
}  # fmt: skip
GYM = {
    "policy_path": "{LEGGED_GYM_ROOT_DIR}/motion.pt", "simulation_dt": 0.002, "control_decimation": 10,
    "kps": [100, 150], "kds": [2, 4], "default_angles": [-0.1, 0.3], "ang_vel_scale": 0.25, "dof_pos_scale": 1.0,
    "dof_vel_scale": 0.05, "action_scale": 0.25, "cmd_scale": [2.0, 2.0, 0.25], "num_actions": 2, "num_obs": 17,
    "max_cmd": [0.8, 0.5, 1.57],
}  # fmt: skip
LAB = {
    "actions": [
        {
            "name": "joint_position_action", "joint_names": ["hip", "knee"], "offset": [0.1, -0.2], "scale": 0.5,
            "clip": None, "mdp_type": "Action",
        }
    ],
    "articulations": {
        "robot": {
            "joint_names": ["hip", "knee"], "default_joint_pos": [0.1, -0.2], "default_joint_stiffness": [25.0, 30.0],
            "default_joint_damping": [0.5, 0.6], "default_joint_pos_limits": [[-1.0, 1.0], [-2.0, 0.0]],
        }
    },
    "observations": {
        "policy": [
            {"name": name, "overloads": {"clip": None, "history_length": 0, "scale": scale}}
            for name, scale in (
                ("base_lin_vel", None), ("projected_gravity", 2.0), ("generated_commands", [2.0, 2.0, 0.25]),
                ("joint_pos_rel", None), ("last_action", None),
            )
        ]
    },
    "scene": {"decimation": 4, "dt": 0.02, "physics_dt": 0.005},
}  # fmt: skip
ENV = """
scene:
  robot:
    spawn: !!python/object/apply:os.system ["exit 1"]
    actuators:
      legs:
        joint_names_expr: [".*"]
        effort_limit: 23.5
commands:
  base_velocity:
    ranges:
      lin_vel_x: !!python/tuple [-1.0, 1.0]
      lin_vel_y: !!python/tuple [-0.5, 0.5]
      ang_vel_z: !!python/tuple [-1.0, 1.0]
"""
BASE_CLASS = """
class BaseCfg:
    class env:
        num_observations = 18
    class sim:
        dt = 0.005
    class normalization:
        class obs_scales:
            lin_vel, ang_vel = 2.0, 0.25
            lin_vel = 2.0
            ang_vel = 0.25
            dof_pos = 1.0
            dof_vel = 0.05
        clip_observations = 100.
        clip_actions = 100.
    class commands:
        class ranges:
            lin_vel_x = [-1.0, 1.0]
            lin_vel_y = [-1.0, 1.0]
            ang_vel_yaw = [-1, 1]
    class control:
        control_type = "P"
        decimation = 4
        action_scale = 0.5
"""
OWN_CLASS = """
from robots.base import BaseCfg
import os

class HopperCfg(BaseCfg):
    class init_state(BaseCfg.control):
        default_joint_angles = {"right_hip": 0.1, "right_knee": -0.2}
        height = os.getenv("HEIGHT")
    class control(BaseCfg.control):
        stiffness = {"hip": 20.0, "knee": 40.0}
        damping = {"right": 0.5, "knee": 1.0}
        action_scale = 0.25
"""


def in_yaml(path, content):
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content, sort_keys=False))
    return path


def test_deploy_yaml_of_unitree_rl_lab_is_read_with_gains_by_motor(tmp_path):
    path = in_yaml(tmp_path / "deploy.yaml", DEPLOY)
    draft = read_draft(path)
    assert draft.kind == "unitree_rl_lab" and draft.missing == ["joint_names", "torque_limits"]
    contract = read_draft(path, {"joint_names": list("abcd"), "torque_limits": [20.0] * 4}).contract()
    assert contract.stiffness == (40.0, 20.0, 50.0, 30.0) and contract.damping == (0.7, 0.5, 0.8, 0.6)
    ang_vel, _, command, *_ = contract.observations
    assert (ang_vel.scale, ang_vel.history, ang_vel.clip) == (0.2, 5, (-100.0, 100.0))
    assert (command.scale, command.history) == ((2.0, 2.0, 0.25), 1)
    assert contract.commands == {"gait_clock": {"period": 0.8, "dead_zone": None}}
    assert contract.command_ranges == ((-0.5, 1.0), (-0.3, 0.3), (-1.0, 1.0)) and contract.action_clip is None
    assert read_draft(path, {"robot": "go2"}).values["joint_names"] == [GO2_MOTORS[i] for i in (3, 0, 4, 1)]


def test_configuration_of_unitree_rl_gym_is_read_with_the_terms_of_its_size(tmp_path):
    path = in_yaml(tmp_path / "g1.yaml", GYM)
    for size, first, last in ((17, "base_ang_vel", "gait_clock"), (15, "base_ang_vel", "action")):
        in_yaml(path, {**GYM, "num_obs": size})
        contract = read_draft(path, {"joint_names": ["hip", "knee"], "torque_limits": [80.0, 90.0]}).contract()
        assert (contract.observations[0].name, contract.observations[-1].name) == (first, last)
    assert contract.control_period == 0.02 and contract.command_ranges[2] == (-1.57, 1.57)
    in_yaml(path, {**GYM, "num_obs": 16})
    with pytest.raises(ValueError, match=r"g1.yaml: num_obs=16 of 2 joints is none of 18, 17, 15"):
        read_draft(path)


def test_io_descriptors_of_isaac_lab_are_read_with_env_yaml_beside_them(tmp_path):
    path = in_yaml(tmp_path / "IO_descriptors.yaml", LAB)
    assert read_draft(path).missing == ["torque_limits"]
    (tmp_path / "params").mkdir()
    in_yaml(tmp_path / "params" / "env.yaml", ENV)
    contract = read_draft(path).contract()
    assert contract.torque_limits == (23.5, 23.5) and contract.command_ranges == ((-1.0, 1.0), (-0.5, 0.5), (-1.0, 1.0))
    assert contract.joint_limits == ((-1.0, 1.0), (-2.0, 0.0)) and contract.action_scale == 0.5
    assert [own.scale for own in contract.observations] == [1.0, 2.0, (2.0, 2.0, 0.25), 1.0, 1.0]


def test_config_class_of_legged_gym_is_read_and_never_run(tmp_path):
    (tmp_path / "robots").mkdir()
    (tmp_path / "robots" / "base.py").write_text(BASE_CLASS)
    path = tmp_path / "robots" / "hopper.py"
    path.write_text(OWN_CLASS + "\nraise SystemExit('the file was run')\n")
    assert read_draft(path).missing[0] == "joint_names"
    given = {"joint_names": ["right_knee", "right_hip"], "torque_limits": [1.0, 2.0]}
    contract = read_draft(path, given).contract()
    assert contract.default_joint_pos == (-0.2, 0.1) and contract.stiffness == (40.0, 20.0)
    assert contract.damping == (1.0, 0.5) and contract.action_scale == 0.25 and contract.control_period == 0.02
    assert (contract.action_clip, contract.observation_clip) == (100.0, 100.0)
    assert contract.observations[0].name == "base_lin_vel" and contract.observations[3].scale == (2.0, 2.0, 0.25)
    with pytest.raises(ValueError, match=r"joint_names=.*; init_state.default_joint_angles has right_hip, right_knee"):
        read_draft(path, {"joint_names": ["right_knee"]})


def test_config_classes_in_files_that_import_each_other_are_read_once(tmp_path, monkeypatch):
    """Each of 8 files has 30 imports of the next: 30 to the power of 8 paths through them."""
    read = Counter()

    def parse(text, *args):
        read[text] += 1
        assert sum(read.values()) < 100
        return original(text, *args)

    original = legged_gym.ast.parse
    monkeypatch.setattr(legged_gym.ast, "parse", parse)
    for number in range(8):
        imports = "".join(f"from robot_{number + 1} import Base as A{i}\n" for i in range(30))
        (tmp_path / f"robot_{number}.py").write_text(f"{imports}class Base(A0):\n    number = {number}\n")
    (tmp_path / "robot_8.py").write_text("from robot_0 import Base as Own\nclass Base:\n    pass\n")
    with pytest.raises(ValueError, match="no config class with control and init_state"):
        read_draft(tmp_path / "robot_0.py")
    assert len(read) == 9 and set(read.values()) == {1}


def test_metadata_of_mjlab_are_read(onnx_file, tmp_path):
    import onnx

    model = onnx.load(str(onnx_file))
    del model.metadata_props[:]
    entries = {
        "joint_names": "hip,knee", "joint_stiffness": "20.000,30.000", "joint_damping": "0.5,0.6",
        "default_joint_pos": "0.100,-0.200", "action_scale": "0.5",
        "observation_names": "base_ang_vel,projected_gravity,command,joint_pos,joint_vel,actions",
        "observation_terms_scale": "0.25,1.0,2.000;2.000;0.250,1.0,0.05,1.0",
        "observation_terms_history_length": "0,3,0,0,0,0", "run_path": "user/run",
        "observation_terms_clip": "-inf;inf,-inf;inf,-1.000;1.000,-inf;inf,-inf;inf,-inf;inf",
    }  # fmt: skip
    for name, value in entries.items():
        model.metadata_props.add(key=name, value=value)
    path = tmp_path / "mjlab.onnx"
    onnx.save(model, str(path))
    draft = read_draft(path)
    assert draft.kind == "mjlab" and draft.missing == ["control_period", "torque_limits"]
    contract = read_draft(path, {"control_period": 0.02, "torque_limits": [20.0, 20.0]}).contract()
    assert contract.default_joint_pos == (0.1, -0.2) and contract.provenance.checkpoint == "user/run"
    assert [own.history for own in contract.observations] == [1, 3, 1, 1, 1, 1]
    assert contract.observations[2].scale == (2.0, 2.0, 0.25) and contract.observations[2].clip == (-1.0, 1.0)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({**DEPLOY, "observations": {"height_scan": {}}}, "the term 'height_scan' cannot be read on a robot"),
        ({**DEPLOY, "default_joint_pos": [0.0] * 4}, "default_joint_pos is not actions.JointPositionAction.offset"),
        ({**DEPLOY, "joint_ids_map": [0, 0, 1, 2]}, "joint_ids_map=.*name each motor once"),
        ({**DEPLOY, "stiffness": [1.0]}, "stiffness=.*; give a number for each motor"),
        ({**GYM, "kps": [1.0]}, "kps=.*; give 2 numbers"),
        ({**LAB, "scene": {}}, "dt=None; give a number"),
        ({"settings": 1}, "it is of none of the formats"),
        ({"models": {}, "pipeline": {}, "system information": {}}, "it is a LEAPP file.*IO_descriptors.yaml"),
    ],
)
def test_file_that_does_not_fit_is_one_line_with_the_field(content, message, tmp_path):
    path = in_yaml(tmp_path / "file.yaml", content)
    with pytest.raises(ValueError, match=message) as caught:
        read_draft(path)
    assert "\n" not in str(caught.value) and str(path) in str(caught.value)


VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=4), st.lists(st.floats(), max_size=5),
    st.dictionaries(st.text(max_size=3), st.integers(), max_size=2), st.just([["a"]]), st.just([None]),
)  # fmt: skip


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), which=st.sampled_from(("deploy", "gym", "lab")), value=VALUES)
def test_damaged_file_of_any_format_is_refused_in_one_line_or_read(data, which, value, tmp_path):
    content = copy.deepcopy({"deploy": DEPLOY, "gym": GYM, "lab": LAB}[which])
    place = content
    while True:  # a random place in the file
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = data.draw(st.sampled_from(keys))
        inner = place[key]
        if not isinstance(inner, (dict, list)) or not inner or data.draw(st.booleans()):
            break
        place = inner
    place[key] = value
    path = in_yaml(tmp_path / "file.yaml", content)
    try:
        read_draft(
            path, {"joint_names": ["a", "b", "c", "d"][: 4 if which == "deploy" else 2], "torque_limits": [1.0] * 4}
        ).contract()
    except ValueError as error:
        assert str(error) and "\n" not in str(error)


def test_differences_name_joint_order_gains_and_scales():
    first = contract_of(
        {
            **plain_mapping(2), "format": 2, "inputs": {"obs": [1, 4]}, "outputs": {"actions": [1, 2]},
            "control_period": 0.02, "joint_names": ["hip", "knee"], "default_joint_pos": [0.1, -0.2],
            "action_scale": 0.25, "action_clip": None, "stiffness": [30.0, 40.0], "damping": [1.0, 1.0],
            "torque_limits": [20.0, 45.0],
            "observations": [{"name": "joint_pos", "size": 2}, {"name": "joint_vel", "size": 2, "scale": 0.05}],
        }
    )  # fmt: skip
    swapped = replace(
        first,
        joint_names=("knee", "hip"),
        default_joint_pos=(-0.2, 0.1),
        stiffness=(40.0, 30.0),
        torque_limits=(45.0, 20.0),
    )
    assert [line.partition(":")[0] for line in differences(first, swapped)] == ["joint_names"]
    terms = (first.observations[0], replace(first.observations[1], scale=0.1))
    other = replace(first, stiffness=(30.0, 20.0), observations=terms, quaternion_order="xyzw", damping=(2.0, 2.0))
    assert differences(first, other) == [
        "stiffness of knee: 40.0 and 20.0",
        "damping of all joints: 1.0 and 2.0",
        "observations: scale of joint_vel: 0.05 and 0.1",
        "quaternion_order: 'wxyz' and 'xyzw'",
    ]
    assert differences(first, first) == []


HUGE_TERM = 'observations=[{"name":"gravity","size":1000000000}]'


def test_contract_of_the_command_line_shows_converts_and_compares(tmp_path, capsys):
    from rsl_rl.cli.main import main

    source, target = in_yaml(tmp_path / "deploy.yaml", DEPLOY), tmp_path / "policy.json"
    assert main(["contract", "show", str(source)]) == 1
    out = capsys.readouterr().out
    assert "missing: joint_names; give --set joint_names=VALUE" in out and "step_dt" in out
    assert main(["contract", "convert", str(source), str(target)]) == 2
    assert "does not say joint_names, torque_limits" in capsys.readouterr().err and not target.exists()
    given = ["--set", 'joint_names=["a","b","c","d"]', "--set", "torque_limits=[1,1,1,1]", "--set", "task=walk"]
    assert main(["contract", "convert", str(source), str(target), *given]) == 0
    assert json.loads(target.read_text())["task"] == "walk"
    assert main(["contract", "show", str(target)]) == 0
    assert main(["contract", "diff", str(target), str(source), *given]) == 0
    assert capsys.readouterr().out.endswith("no difference\n")
    assert main(["contract", "convert", str(source), str(target), *given]) == 2
    assert "exists; name a new file" in capsys.readouterr().err
    assert main(["contract", "schema"]) == 0
    assert "joint_signs" in json.loads(capsys.readouterr().out)["required"]
    for words, message in (
        (["show", str(tmp_path / "none.yaml")], "no file"),
        (["show", str(source), "--set", "stifness=1"], "no field 'stifness'"),
        (["show", str(source), "--set", "stiffness"], "give FIELD=VALUE"),
        (["show", str(source), "--set", "joint_names=5"], "joint_names=5; give a list"),
        (["show", str(source), "--set", "observations=[1]"], "observations[0]=1; give a mapping"),
        (["show", str(target), "--set", 'observations=[{"name":"x"}]'], "observations[0].size is missing"),
        (["show", str(source), *given, "--set", HUGE_TERM], "observations has 1,000,000,000 numbers; give at most"),
        (["convert", str(source), str(tmp_path / "x"), "--to", "mjlap", *given], "Did you mean 'mjlab'"),
    ):
        assert main(["contract", *words]) == 2
        assert message in capsys.readouterr().err


def test_values_of_joints_are_given_by_number_or_by_names(tmp_path):
    source = in_yaml(tmp_path / "deploy.yaml", DEPLOY)
    by_name = {"torque_limits": {"[ab]": 20.0, "c|d": 30.0}, "joint_limits": {".*": [-1.0, 1.0]}}
    assert read_draft(source, by_name).missing == ["joint_names", "torque_limits"]
    contract = read_draft(source, {"joint_names": list("abcd"), **by_name, "damping": 2}).contract()
    assert contract.torque_limits == (20.0, 20.0, 30.0, 30.0) and contract.damping == (2.0,) * 4
    assert contract.joint_limits == ((-1.0, 1.0),) * 4
    for limits, message in (({"a": 1.0}, "matches none of"), ({".*": "much"}, r"torque_limits\[0\]='much'")):
        with pytest.raises(ValueError, match=message):
            read_draft(source, {"joint_names": list("abcd"), "torque_limits": limits}).contract()


def test_convert_with_a_network_names_it_in_the_contract(walk, onnx_file, tmp_path, capsys):
    from deploy.onnx_policy import network_sha256
    from rsl_rl.cli.main import main

    source, checksum = tmp_path / "source.json", network_sha256(onnx_file.read_bytes())
    network = ["--network", str(onnx_file)]
    write_contract(walk[0], source)
    for target in (tmp_path / "policy.json", tmp_path / "policy.onnx"):
        assert main(["contract", "convert", str(source), str(target), *network]) == 0
        assert read_draft(target).contract().network_sha256 == checksum
    assert network_sha256((tmp_path / "policy.onnx").read_bytes()) == checksum
    write_contract(replace(walk[0], network_sha256="0" * 64), source)
    for words, message in ((network, "describes another network"), (["--network", "none.onnx"], "no file none.onnx")):
        assert main(["contract", "convert", str(source), str(tmp_path / "other.json"), *words]) == 2
        assert message in capsys.readouterr().err


def test_deploy_yaml_of_unknown_command_ranges_is_not_written(walk, tmp_path):
    with pytest.raises(ValueError, match="needs command_ranges"):
        format_of("unitree_rl_lab").write(replace(walk[0], command_ranges=None), tmp_path / "deploy.yaml")
    assert not (tmp_path / "deploy.yaml").exists()


def test_deploy_yaml_cannot_carry_the_order_of_histories_and_says_no_more(walk, tmp_path):
    contract = replace(walk[0], history_order="step")
    lost = format_of("unitree_rl_lab").write(contract, tmp_path / "deploy.yaml")
    assert "history_order" in lost and not {"command_ranges", "target_limits"} & set(lost)


@pytest.mark.parametrize("name", ["policy.json", "mjlab", "isaac_lab"])
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(joint=st.text(min_size=1) | st.sampled_from(["a,b", " a", ".*", "a|b", "a\nb", "!!str", "- a", "null", "("]))
def test_joint_of_any_name_is_written_as_it_is_or_refused(name, walk, onnx_file, tmp_path_factory, joint):
    names = (joint, *walk[0].joint_names[1:])
    path = tmp_path_factory.mktemp("written") / f"written{SUFFIXES.get(name, '.yaml')}"
    try:
        format_of(name).write(replace(walk[0], joint_names=names), path, onnx_file)
    except ValueError:
        assert not path.exists()
    else:
        draft = read_draft(path)
        assert tuple(draft.values["joint_names"]) == names
        if name != "mjlab":
            assert draft.values["torque_limits"] == contract_json(walk[0])["torque_limits"]


def test_io_descriptors_replace_no_env_yaml(walk, tmp_path):
    (tmp_path / "env.yaml").write_text("of a training")
    with pytest.raises(ValueError, match=r"env\.yaml exists"):
        format_of("isaac_lab").write(walk[0], tmp_path / "IO_descriptors.yaml")
    assert [path.name for path in tmp_path.iterdir()] == ["env.yaml"]
    assert (tmp_path / "env.yaml").read_text() == "of a training"
