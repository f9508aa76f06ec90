"""The contract of a policy: what it refuses, its schema, and what files of the first version mean."""

import copy
import json

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from deploy.onnx_policy import Policy
from rsl_rl.contracts import contract_of, read_contract, write_contract
from rsl_rl.contracts.contract import REQUIRED, contract_json, nominal_observation, plain_mapping
from rsl_rl.contracts.schema import schema

TERMS = [
    {"name": "base_ang_vel", "size": 3, "scale": 0.25, "frame": "base"},
    {"name": "gravity", "size": 3, "scale": 1.0, "frame": "base"},
    {"name": "command", "size": 3, "scale": [2.0, 2.0, 0.25], "frame": "base"},
    {"name": "joint_pos", "size": 2, "scale": 1.0, "frame": "joint"},
    {"name": "joint_vel", "size": 2, "scale": 0.05, "frame": "joint"},
    {"name": "action", "size": 2, "scale": 1.0, "frame": "joint"},
]


CLOCK = {"name": "gait_clock", "size": 2, "scale": 1.0, "frame": "base"}


def styled(**changes):
    """Fields of a contract with two styles and the clocks of two feet, with changes of a rhythm or of its commands."""
    terms = [{"name": name, "size": size, "scale": 1.0, "frame": "base"} for name, size in STYLED]
    rhythm = {"period": 0.5, "touchdown": [0.0, 0.5], "duty": [0.5, 0.6], **changes}
    commands = {"style": {"styles": ["a", "b"]}, "foot_clock": {"rhythms": [rhythm, rhythm]}}
    return {
        "observations": [*terms, *TERMS],
        "inputs": {"obs": [1, 15 + 6]},
        "commands": changes.get("commands", commands),
    }


STYLED = (("style", 2), ("foot_clock", 4))


def plain(**changes):
    """A contract of a robot with two joints, as plain values."""
    return {
        "format": 2,
        "inputs": {"obs": [1, 15]},
        "outputs": {"actions": [1, 2]},
        "control_period": 0.02,
        "observations": TERMS,
        "joint_names": ["hip", "knee"],
        **plain_mapping(2),
        "default_joint_pos": [0.1, -0.2],
        "action_scale": 0.25,
        "action_clip": None,
        "stiffness": [30.0, 40.0],
        "damping": [1.0, 2.0],
        "torque_limits": [20.0, 45.0],
        **changes,
    }


def test_contract_written_and_read_is_the_same(tmp_path):
    contract = contract_of(plain(task="walk", command_ranges=[[-1, 1]] * 3, nominal_observation=[0.0] * 15))
    assert read_contract(write_contract(contract, tmp_path / "policy.json")) == contract
    assert contract_of(contract_json(contract)) == contract


def test_contract_of_the_first_format_reads_as_the_robot_moves_in_the_simulation():
    old = {name: value for name, value in plain(action_clip=20.0).items() if name not in plain_mapping(2)}
    old["inputs"] = {"obs": [1, 15], "h_in": [1, 1, 4]}
    del old["format"]
    contract = contract_of(old)
    assert contract.memory == "inputs" and contract.joint_signs == (1.0, 1.0) and contract.format == 2
    assert contract_of({**old, "format": 1}) == contract


@pytest.mark.parametrize("name", REQUIRED)
def test_contract_without_a_needed_field_names_it(name, tmp_path):
    description = plain()
    del description[name]
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(description))
    with pytest.raises(ValueError, match=f"{name} is missing"):
        read_contract(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": 3}, "format=3; this program reads 1 and 2"),
        ({"format": True}, "format=True; this program reads"),
        ({"stifness": [1.0, 1.0]}, "unknown setting 'stifness'.*Did you mean 'stiffness'"),
        ({"stiffness": [1.0]}, "stiffness has 1 values; give one for each of 2 joints"),
        ({"stiffness": [1.0, -1.0]}, "stiffness=.* must not be negative"),
        ({"joint_signs": [1.0, 0.5]}, "joint_signs=.*; give 1 or -1"),
        ({"joint_names": ["hip", "hip"]}, "joint_names=.*; each joint must have a name of its own"),
        ({"imu_mounting": [1.0, 1.0, 0.0, 0.0]}, "imu_mounting=.*; give a unit quaternion w x y z"),
        ({"quaternion_order": "xyz"}, "quaternion_order=.*allowed: wxyz, xyzw"),
        ({"units": {"joint_pos": "turns"}}, "units.joint_pos=.*allowed: rad, deg"),
        ({"inputs": {"obs": [1, 16]}}, r"inputs: obs is \(1, 16\), but the observations have 15 numbers"),
        ({"outputs": {"actions": [1, 3]}}, r"outputs: actions is \(1, 3\); give \(1, 2\)"),
        ({"observations": []}, "observations has no terms"),
        ({"observations": [{**TERMS[2], "scale": [2.0, 2.0]}]}, r"scale=\(2.0, 2.0\): give one number, or 3"),
        ({"nominal_observation": [0.0]}, "nominal_observation has 1 numbers; give 15"),
        ({"command_ranges": [[1.0, -1.0]] * 3}, "command_ranges=.*lower number of each pair first"),
        ({"action_scale": 0.0}, "action_scale=0.0 must be positive"),
        ({"control_period": 20.0}, "control_period=20.0; give seconds, at most 1"),
        (
            {"default_joint_pos": [5.7, -11.5], "joint_limits": [[-1.0, 1.0]] * 2},
            "default_joint_pos: 5.7 of .* is not in joint_limits; give radians",
        ),
        ({"memory": "inputs"}, "memory='inputs', but the network has the inputs obs"),
        ({"control_period": float("nan")}, "control_period=nan: give a finite number"),
        ({"commands": {"velocity": [1.0]}}, r"commands.velocity=\[1.0\]; give names with values"),
        ({"commands": {"velocity": {"max_lin_acc": -1.0}}}, "commands.velocity=.*; give max_lin_acc and max_yaw_acc"),
        ({"commands": {"gait_clock": 5}}, "commands.gait_clock=5; give names with values"),
        ({"commands": {"gait_clock": {"period": 0.0}}}, "commands.gait_clock=.*; give a positive period"),
        ({"observations": [CLOCK, *TERMS], "inputs": {"obs": [1, 17]}}, "commands.gait_clock=None; give a positive"),
        ({"commands": {"style": {"styles": "pace"}}}, "commands.style.styles='pace'; give a name for each number"),
        (styled(commands={}), "commands.style.styles=.*; give a name for each number of the term style"),
        (styled(period=0.0), "commands.foot_clock.rhythms=.*; give for each style a positive period"),
        (styled(duty=[0.5, 1.0]), "commands.foot_clock.rhythms=.*; give for each style"),
        (styled(touchdown=[0.0]), "commands.foot_clock.rhythms=.*; give for each style"),
        (styled(duty=None), "commands.foot_clock.rhythms=.*; give for each style"),
        (styled(commands={"style": {"styles": ["a", "b"]}}), "commands.foot_clock.rhythms=.*; give for each style"),
    ],
)
def test_contract_that_contradicts_itself_names_the_field(changes, message):
    with pytest.raises(ValueError, match=message):
        contract_of(plain(**changes))


def test_contract_with_a_field_twice_is_refused(tmp_path):
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(plain())[:-1] + ', "action_scale": 0.5}')
    with pytest.raises(ValueError, match=r"policy\.json: it is not JSON: duplicate field 'action_scale'"):
        read_contract(path)


DAMAGE = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5),
    st.lists(st.floats(), max_size=3), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2),
)  # fmt: skip


@settings(deadline=None, max_examples=100)
@example(name="observations", value="\n", term=4)
@given(name=st.sampled_from(sorted(contract_json(contract_of(plain())))), value=DAMAGE, term=st.integers(0, 5))
def test_damaged_contract_is_refused_in_one_line_or_runs(name, value, term):
    description = contract_json(contract_of(plain()))
    damaged = copy.deepcopy(description)
    if name == "observations" and term:
        key = sorted(damaged["observations"][term])[term]
        damaged["observations"][term][key] = value
    else:
        damaged[name] = value
    try:
        contract = contract_of(damaged)
        Policy(contract_json(contract), lambda obs: [obs[:, :2]])
    except ValueError as error:
        assert str(error) and "\n" not in str(error)


def test_schema_takes_what_is_written_and_refuses_what_reading_refuses():
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(schema())
    assert validator.is_valid(contract_json(contract_of(plain())))
    for changes in ({"format": 3}, {"units": {"joint_pos": "turns"}}, {"joint_signs": [1, 0.5]}, {"task": 3}):
        assert not validator.is_valid(plain(**changes))
        with pytest.raises(ValueError, match=next(iter(changes))):
            contract_of(plain(**changes))
    for name in REQUIRED:
        assert not validator.is_valid({key: value for key, value in plain().items() if key != name})


def test_each_field_is_described():
    assert all(entry["description"] for entry in schema()["properties"].values())


def test_nominal_observation_is_that_of_a_robot_standing_in_its_default_pose():
    for order in ("term", "step"):
        terms = [{**term, "history": 3} for term in TERMS]
        description = plain(observations=terms, inputs={"obs": [1, 45]}, history_order=order)
        policy = Policy(description, lambda obs: [obs[:, :2]])
        still = {"command": (0, 0, 0), "base_quat": (1, 0, 0, 0), "base_ang_vel": (0, 0, 0), "joint_vel": (0, 0)}
        observed = policy.observe(joint_pos=(0.1, -0.2), **still)
        assert nominal_observation(terms, order) == pytest.approx(observed.tolist())
    assert nominal_observation([{"name": "friction", "size": 1}]) is None


def test_each_field_is_in_the_docs(root):
    page = (root / "docs" / "contract.md").read_text()
    for name in (*schema()["properties"], *schema()["properties"]["observations"]["items"]["properties"]):
        assert f"`{name}`" in page, f"docs/contract.md does not explain {name}"
