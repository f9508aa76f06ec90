"""Networks of motors: errors on held-out rows, and the network in a task."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from configs.go2_flat import flat_task
from rsl_rl.config.identified import Identified, with_identified
from rsl_rl.evaluation.doctor.replay import Motion
from rsl_rl.hardware.actuator_network import train_actuator
from rsl_rl.hardware.identification import Recording
from rsl_rl.robots import ROBOTS
from rsl_rl.robots.robot import read_joint_names

NAMES = read_joint_names(ROBOTS.load("go2").model_path)
CONTRACT = {
    "joint_names": list(NAMES), "stiffness": [30.0] * 12, "damping": [0.75] * 12, "torque_limits": [20.0] * 12,
}  # fmt: skip


def recording(torque_of, rows=600, period=0.01):
    """A log whose torque is a function of errors one row late and velocities."""
    rng = np.random.default_rng(0)
    time = period * np.arange(rows)
    phase, frequency = rng.uniform(0, 6, (3, 12)), rng.uniform(0.5, 4.0, (3, 12))
    angle = 2 * np.pi * frequency * time[:, None, None] + phase
    pos, vel = 0.1 * np.sin(angle).sum(axis=1), 0.1 * (2 * np.pi * frequency * np.cos(angle)).sum(axis=1)
    targets = pos + 0.1 * np.sin(3 * angle).sum(axis=1)
    held = np.concatenate((targets[:2], targets[:-2]))  # a target acts one row after the row of its sending
    torque = torque_of(held - np.concatenate((pos[:1], pos[:-1])), vel)
    quat = np.tile([1.0, 0, 0, 0], (rows, 1))
    motion = Motion(quat, np.zeros((rows, 3)), None, pos, vel, targets)
    return Recording("log.csv", time, motion, ((0, rows),), period, True, torque)


def motor(error, velocity):
    return 0.7 * np.clip(30 * error, -20, 20) - 0.75 * velocity - 1.5 * np.tanh(velocity / 0.05)


@pytest.fixture(scope="module")
def trained():
    return train_actuator([recording(motor)], CONTRACT, epochs=60)


def test_network_predicts_held_out_torques_three_times_as_well_as_the_pd_loop(trained):
    assert 3 * trained.held_out["network"] < trained.held_out["PD"]
    assert trained.settings["history"] == [0, 2, 4, 8, 16]
    assert set(trained.by_joint) == set(NAMES)


def test_parametric_model_is_exact_for_a_motor_of_its_kind():
    found = train_actuator(
        [recording(lambda e, v: 24 * e - 0.9 * v, rows=400)], {**CONTRACT, "torque_limits": [99.0] * 12}, 1
    )
    assert found.held_out["parametric model"] < 0.3 < found.held_out["PD"]


def test_network_gives_the_torques_of_a_task(trained, tmp_path):
    (tmp_path / "actuator.pt").write_bytes(trained.script)
    settings = {"path": str(tmp_path / "actuator.pt"), **trained.settings}
    task = with_identified(replace(flat_task(), num_envs=2), Identified(robot="go2", actuator=settings))
    env = task.build()
    env.step(torch.zeros(2, 12))
    pos, velocity, scales = env.sim.joint_pos, env.sim.joint_vel, trained.settings
    env.actuator.reset(torch.ones(2, dtype=torch.bool))
    targets = [env.joint_targets + 0.05 * i for i in range(3)]
    torque = [env.actuator.torque(one) for one in targets][-1]
    inputs = torch.zeros(2, 5, 24)  # errors and velocities, times, joints
    for place, one in ((0, targets[2]), (1, targets[0])):  # now, and two physics steps ago
        inputs[0, place] = scales["error_scale"] * (one - pos).flatten()
        inputs[1, place] = scales["velocity_scale"] * velocity.flatten()
    network = torch.jit.load(str(tmp_path / "actuator.pt"))
    expected = scales["torque_scale"] * network(inputs.flatten(0, 1).t()).view(2, 12)
    torch.testing.assert_close(torque, expected)
    assert expected.std() > 0.5


def test_logs_of_different_rates_are_trained_on_together():
    logs = [recording(motor), recording(motor, rows=400, period=0.02)]
    found = train_actuator(logs, CONTRACT, epochs=2)
    assert found.settings["history"] == [0, 4, 8, 16, 32]  # of the slower log, 20 ms
    assert np.isfinite(list(found.held_out.values())).all()
    held_out = [train_actuator([log], CONTRACT, epochs=1).held_out["parametric model"] for log in logs]
    assert min(held_out) < found.held_out["parametric model"] < max(held_out)


def test_log_without_torques_is_a_value_error():
    with pytest.raises(ValueError, match="has no measured torques; log them as columns"):
        train_actuator([replace(recording(motor), torque=None)], CONTRACT)
