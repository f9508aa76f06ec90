"""Actuators: torque curves, delays, networks, and parameters of the joints."""

import math
from dataclasses import replace

import pytest
import torch

from configs.go2_flat import Go2Flat
from rsl_rl.config.mdp import EventTerm, RandomizationConfig
from rsl_rl.config.sim import ActuatorConfig, ActuatorNetworkConfig, DCMotorConfig
from rsl_rl.evaluation.fault_replay import FaultDump, replay_fault

CFG = Go2Flat().env
STILL = RandomizationConfig.none()


def make(actuator=None, num_envs=4, seed=0, terms=None, backend="mujoco", **changes):
    """The task without randomisation but ``terms``."""
    cfg = replace(
        CFG,
        num_envs=num_envs,
        sim=replace(CFG.sim, backend=backend, num_threads=1),
        control=replace(CFG.control, actuator=actuator or ActuatorConfig()),
        randomization=STILL.with_terms(terms or {}),
        **changes,
    )
    return cfg.build("cpu", seed=seed)


def walk(env, steps=20, seed=3):
    """Step with random actions; return the joint positions after each step [steps, N, J]."""
    generator = torch.Generator().manual_seed(seed)
    positions = []
    for _ in range(steps):
        env.step(0.3 * torch.randn(env.num_envs, 12, generator=generator))
        positions.append(env.sim.joint_pos.clone())
    return torch.stack(positions)


def save_network(path, weights):
    """Save a network that multiplies its inputs by constant weights."""
    linear = torch.nn.Linear(len(weights), 1, bias=False)
    linear.weight.data = torch.tensor([weights])
    torch.jit.script(linear).save(str(path))
    return str(path)


def test_dc_motor_has_the_torque_speed_line_of_its_data():
    env = make(DCMotorConfig(stall_torque=30.0, no_load_speed=20.0, torque_limit=24.0))
    for speed, largest, smallest in ((0.0, 24.0, -24.0), (10.0, 15.0, -24.0), (20.0, 0.0, -24.0), (-10.0, 24.0, -15.0)):
        velocity = torch.full((4, 12), speed)
        assert torch.equal(env.actuator.saturate(torch.full((4, 12), 1e3), velocity), torch.full((4, 12), largest))
        assert torch.equal(env.actuator.saturate(torch.full((4, 12), -1e3), velocity), torch.full((4, 12), smallest))
    assert env.actuator.saturate(torch.full((4, 12), 3.0), torch.zeros(4, 12)).eq(3.0).all()


def test_strong_dc_motor_and_linear_network_equal_the_pd_loop_of_the_engine(tmp_path):
    path = save_network(tmp_path / "pd.pt", [30.0, 0.0, -0.75, 0.0])
    ideal = walk(make())
    strong = walk(make(DCMotorConfig(stall_torque=1e6, no_load_speed=1e6)))
    network = walk(make(ActuatorNetworkConfig(path=path, history=(0, 3))))
    torch.testing.assert_close(strong, ideal, rtol=0, atol=1e-4)
    torch.testing.assert_close(network, ideal, rtol=0, atol=1e-4)


def test_network_reads_errors_and_velocities_of_its_history(tmp_path):
    path = save_network(tmp_path / "late.pt", [0.0, 1.0, 0.0, 0.0])  # the error of two physics steps ago
    env = make(ActuatorNetworkConfig(path=path, history=(0, 2), torque_scale=2.0, error_scale=3.0))
    env.actuator.reset(torch.ones(4, dtype=torch.bool))
    errors = []
    for step in range(4):
        target = torch.full((4, 12), 0.1 * step)
        errors.append(target - env.sim.joint_pos)
        torque = env.actuator.torque(target)
        expected = 6.0 * errors[step - 2] if step >= 2 else torch.zeros(4, 12)
        torch.testing.assert_close(torque, expected)


@pytest.mark.parametrize("delay", (0, 1, 3, 4, 6))
def test_step_response_is_late_by_the_delay(delay):
    """The torque of each physics step, seen through the inputs of the engine."""
    env = make(terms={"action_delay": EventTerm("startup", params={"range": (delay, delay)})})
    seen = []
    for value in (0.0, 1.0, 1.0, 1.0):
        env.step(torch.full((4, 12), value))
        inputs = env.actuator.inputs * (4 if len(env.actuator.inputs) == 1 else 1)
        seen += [float(x[0, 0] - env.state.default_joint_pos[0]) for x in inputs]
    assert seen == pytest.approx([0.0] * (4 + delay) + [0.25] * (12 - delay))


def test_each_robot_has_its_own_delay_and_a_new_episode_forgets_old_targets():
    env = make(num_envs=64, terms={"action_delay": EventTerm("reset", params={"range": (0, 4)})})
    delays = env.state.parameters["action_delay"][:, 0]
    assert set(delays.tolist()) == {0.0, 1.0, 2.0, 3.0, 4.0}
    env.step(torch.ones(64, 12))
    moved = torch.stack([x[:, 0] - env.state.default_joint_pos[0] for x in env.actuator.inputs])  # [4, N]
    assert torch.equal((moved == 0).sum(dim=0).float(), delays)
    env.reset()
    env.step(torch.zeros(64, 12))
    assert all(torch.equal(x, env.state.default_joint_pos.expand(64, -1)) for x in env.actuator.inputs)


def test_encoder_offset_moves_the_joints_and_is_sensed():
    env = make(terms={"encoder_offset": EventTerm("startup", params={"range": (0.05, 0.05)})})
    for _ in range(50):
        obs = env.step(torch.zeros(4, 12)).obs["critic"]
    torch.testing.assert_close(env.actuator.inputs[0], env.joint_targets - 0.05)
    assert env.state.joint_offset.mean() < -0.03  # the joints follow
    columns = env._groups["critic"].split(obs[0])["joint_pos"]  # which columns are of which term
    torch.testing.assert_close(torch.tensor(columns), env.state.joint_offset[0] + 0.05)


def test_armature_friction_and_limit_by_pattern_reach_the_engine():
    actuator = ActuatorConfig(
        torque_limit={".*_calf_joint": 30.0, ".*_(hip|thigh)_joint": 20.0}, armature=0.02, friction={".*": 0.3}
    )
    env = make(actuator)
    # what MuJoCo computes with; the interface of engines only has what was set
    assert env.sim._field("actuator_forcerange")[2, :3, 1].tolist() == [20.0, 20.0, 30.0]
    assert env.describe_interface(["policy"])["torque_limits"] == [20.0, 20.0, 30.0] * 4
    assert env.sim._field("dof_armature")[1, 6:].tolist() == pytest.approx([0.02] * 12)
    assert env.sim._field("dof_frictionloss")[1, 6:].tolist() == pytest.approx([0.3] * 12)
    slow, fast = walk(env, 5), walk(make(), 5)
    assert (slow - slow[:1]).abs().mean() < (fast - fast[:1]).abs().mean()


@pytest.mark.parametrize("kind", ("pd", "dc_motor", "network"))
def test_equal_seeds_give_equal_bits_and_resume_is_exact(kind, tmp_path):
    actuators = {
        "pd": ActuatorConfig(),
        "dc_motor": DCMotorConfig(),
        "network": ActuatorNetworkConfig(path=save_network(tmp_path / "n.pt", [30.0, 2.0, -0.5, -0.1]), history=(0, 2)),
    }
    terms = {"action_delay": EventTerm("reset", params={"range": (0, 6)})}
    first, second, resumed = (make(actuators[kind], 8, seed, terms) for seed in (1, 1, 2))
    assert torch.equal(walk(first, 10), walk(second, 10))
    resumed.load_state_dict(first.state_dict())
    assert torch.equal(walk(first, 10, 4), walk(resumed, 10, 4))


def test_fault_dump_with_torques_is_simulated_as_in_training():
    env = make(DCMotorConfig(), terms={"action_delay": EventTerm("startup", params={"range": (0, 3)})})
    walk(env, 10)
    recorder = env._recorder  # a fault without a broken robot
    recorder.after_step(torch.ones(len(recorder._first.kinds), 4, dtype=torch.bool), {})
    event = recorder.read("engine")
    assert event["targets"].shape == (8, 4, 12)
    dump = FaultDump("engine", "", 0, 0, 0, event["states"], event["targets"], env.sim.parameters_of(0), {})
    assert replay_fault(dump, env.cfg).differences.max() < 1e-6


def test_interface_names_the_actuator():
    assert make().describe_interface(["policy"])["actuator"] == {"type": "pd"}
    described = make(DCMotorConfig(stall_torque={".*": 40.0})).describe_interface(["policy"])["actuator"]
    assert described == {"type": "dc_motor", "stall_torque": [40.0] * 12, "no_load_speed": [30.0] * 12}


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda path: DCMotorConfig(no_load_speed=0.0), "env.control.actuator.no_load_speed=0.0 must be positive"),
        (lambda path: ActuatorConfig(friction={".*": -1.0}), "friction={'.*': -1.0} must not be negative"),
        (lambda path: ActuatorNetworkConfig(), "path='': give the file of a TorchScript network"),
        (lambda path: make(ActuatorNetworkConfig(path="no.pt")), "path=no.pt: there is no such file"),
        (lambda path: make(ActuatorNetworkConfig(path=__file__)), "is not a TorchScript network"),
        (lambda path: make(ActuatorNetworkConfig(path=path, history=(0,))), r"fails on inputs \[48, 2\]"),
        (lambda path: make(ActuatorConfig(armature={"knee": 1.0})), "armature: 'knee' matches none of FL_hip_joint"),
    ],
)
def test_actuator_that_cannot_be_is_refused(build, words, tmp_path):
    with pytest.raises(ValueError, match=words):
        build(save_network(tmp_path / "four.pt", [1.0, 1.0, 1.0, 1.0]))


def test_delay_beyond_a_control_step_is_whole_steps_late():
    env = make(terms={"action_delay": EventTerm("startup", params={"range": (9, 9)})})
    # memory: no step more than the longest delay needs
    assert len(env.actuator._past_targets) == 1 + math.ceil(9 / 4)
