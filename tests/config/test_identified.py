"""What `rsl-rl identify` has found gets into a task."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from configs.go2_flat import flat_task
from rsl_rl.cli.command_line import parse
from rsl_rl.cli.errors import UsageError
from rsl_rl.cli.train import Flags
from rsl_rl.config.identified import ROBOT, Identified, read_identified, with_identified, with_identified_files
from rsl_rl.config.toy import ToyConfig
from rsl_rl.robots import ROBOTS
from rsl_rl.robots.robot import read_joint_names
from rsl_rl.utils.config_io import write_yaml

NAMES = read_joint_names(ROBOTS.load("go2").model_path)


def found(**changes):
    every = {
        "armature": {name: (0.02, 0.018, 0.022) for name in NAMES},
        "motor_strength": {name: (0.8, 0.78, 0.82) for name in NAMES},
        "viscous_friction": {name: (0.4, 0.37, 0.43) for name in NAMES},
        "joint_friction": {NAMES[0]: (0.5, 0.4, 0.6)},
        "encoder_offset": {NAMES[1]: (0.02, 0.01, 0.03)},
        "action_delay": {ROBOT: (0.012, 0.0109, 0.0131)},
        "payload": {ROBOT: (2.0, 1.8, 2.2)},
        "trunk_com": {"x": (0.01, 0.0, 0.02)},
        "friction": {ROBOT: (0.7, 0.6, 0.8)},
    }
    model = {"armature": 0.01, "joint_friction": 0.0, "torque_limit": 23.7, "viscous_friction": 0.1}
    fields = {"model": {kind: dict.fromkeys(NAMES, value) for kind, value in model.items()}, **changes}
    return Identified(robot="go2", joint_names=NAMES, **{"parameters": every, **fields})


def test_robots_of_a_task_have_parameters_within_the_intervals():
    env = with_identified(replace(flat_task(), num_envs=16), found()).build(seed=1)
    own, state = env.sim.parameters(), env.state.parameters
    for name, low, high in (("armature", 0.018, 0.022), ("motor_strength", 0.78, 0.82), ("payload", 1.8, 2.2)):
        assert low - 1e-6 <= own[name].min() and own[name].max() <= high + 1e-6, name
        assert own[name].std() > 0.1 * (high - low)
    assert own["joint_friction"][:, 0].min() >= 0.4 and not own["joint_friction"][:, 1:].any()
    assert own["trunk_com"][:, 0].max() > 0.01 and not own["trunk_com"][:, 1:].any()
    assert set(state["action_delay"].unique().tolist()) <= {2.0, 3.0}  # 10 and 15 ms
    assert state["encoder_offset"][:, 1].min() >= 0.01 and not state["encoder_offset"][:, 0].any()
    # 0.27 to 0.33 N m s/rad more than the model's friction, on the joint's side of the strength
    more = 0.75 * 0.8 * (own["damping"] / 0.75 - 1.0)
    assert more.min() >= 0.27 - 1e-5 and more.max() <= 0.33 + 1e-5
    assert torch.equal(own["stiffness"], torch.full_like(own["stiffness"], 30.0))
    assert own["friction"].max() > 0.8  # the floor's stays as in the task


def test_what_is_not_determined_stays_as_in_the_task():
    task = with_identified(flat_task(), found(parameters={"payload": {ROBOT: (2.0, 1.8, 2.2)}}))
    before = flat_task()
    assert task.control == before.control
    params = dict(before.randomization.terms["model_parameters"].params)
    assert task.randomization.terms["model_parameters"].params == {**params, "payload": (1.8, 2.2)}


def test_network_of_a_second_file_leaves_only_load_and_offsets_of_the_first(tmp_path):
    write_yaml(found(), tmp_path / "identified.yaml")
    write_yaml(Identified(robot="go2", actuator={"path": "net.pt", "history": [0, 2]}), tmp_path / "actuator.yaml")
    task = with_identified_files(flat_task(), [tmp_path / "identified.yaml", tmp_path / "actuator.yaml"])
    assert task.control.actuator.path == str(tmp_path / "net.pt") and task.control.actuator.armature is None
    assert set(task.randomization.terms) - set(flat_task().randomization.terms) == {"encoder_offset", "trunk_com"}


def test_file_returns_what_was_written(tmp_path):
    write_yaml(found(), tmp_path / "identified.yaml")
    assert read_identified(tmp_path / "identified.yaml") == found()


@pytest.mark.parametrize(
    "content, message",
    [
        ("format: 2\n", "this program reads 1"),
        ("robot: go2\n", "has no parameters and no actuator"),
        ("parameters: {payload: {robot: [1.0, 2.0, 3.0]}}\n", "give a value between its lowest and highest"),
        ("parameters: {payload: {x: [1, 0, 2]}}\n", "parameters.payload has x; give robot"),
        ("parameters: {mass: {robot: [1, 0, 2]}}\n", "parameters.mass: there is no such parameter; give armature"),
        ("joint_names: [a, b]\nparameters: {armature: {c: [1, 0, 2]}}\n", "parameters.armature has c; give a, b"),
        ("joint_names: [a]\nmodel: {armature: {c: 1.0}}\n", "model.armature has c; give a"),
        ("parameters: {armature: {c: [1, 0, 2]}}\n", "joint_names is empty; give the joints of the robot"),
        ("parameters: {payload: {robot: [1, 2]}}\n", "parameters.payload"),
        ("joint_names: [a]\nparameters: {motor_strength: {a: [0, 0, 1]}}\n", "motor_strength.a: give values above 0"),
        ("parameters: {payload: {}}\n", "parameters.payload has no value"),
        ("parameters: 3\n", "parameters"),
        ("[1, 2\n", "YAML"),
    ],
)
def test_damaged_file_is_a_value_error(tmp_path, content, message):
    (tmp_path / "bad.yaml").write_text(content)
    with pytest.raises(ValueError, match=message):
        read_identified(tmp_path / "bad.yaml")


def test_other_robot_or_task_is_a_value_error():
    with pytest.raises(ValueError, match="the file is of the robot 'go2', the task has 'h1'"):
        with_identified(replace(flat_task(), robot="h1"), found())
    with pytest.raises(ValueError, match="ToyConfig has none"):
        with_identified(ToyConfig(), found())


def test_command_line_takes_the_file_before_other_flags(tmp_path):
    write_yaml(found(), tmp_path / "identified.yaml")
    argv = ["--task", "go2_flat", "--env.identified", str(tmp_path / "identified.yaml"), "--num_envs", "8"]
    args = parse(Flags, "", False, [*argv, "--env.randomization.terms.armature.mode", "reset"])
    assert args.cfg.env.num_envs == 8
    assert args.cfg.env.randomization.terms["armature"].mode == "reset"
    np.testing.assert_allclose(list(args.cfg.env.control.actuator.armature.values()), 0.02)
    assert "--env.identified" in args.words
    for words, message in (
        ([*argv, "--env.identifed", "x"], "unknown flag --env.identifed"),
        (["--task", "go2_flat", "--env.identified", "missing.yaml"], "no file missing.yaml"),
    ):
        with pytest.raises(UsageError) as error:
            parse(Flags, "", False, words)
        assert message in error.value.message
