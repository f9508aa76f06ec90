"""Limits of the acceleration of the velocity command."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from configs import EXPERIMENTS
from configs.go2_flat import Go2Flat
from deploy.onnx_policy import Policy
from rsl_rl.config.mdp import CommandLimitConfig, CommandTerm, ScheduleConfig
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.evaluation.conditions import for_evaluation
from rsl_rl.evaluation.evaluate import Recorder, evaluate

CFG = Go2Flat().env
LIN, YAW = CFG.commands.limit.max_lin_acc, CFG.commands.limit.max_yaw_acc
STILL = torch.zeros(4, 12)


def make(num_envs=4, seed=0, limit=CFG.commands.limit, **commands):
    commands = replace(CFG.commands, limit=replace(limit, enabled=True), **commands)
    return replace(CFG, num_envs=num_envs, commands=commands).build(seed=seed)


def test_the_command_goes_from_zero_to_the_requested_one_and_from_there_to_the_next():
    env = make(resampling_time=1.0)
    largest = np.float32([LIN, LIN, YAW]) * np.float32(CFG.sim.control_dt)
    expected = np.zeros((4, 3), np.float32)
    requests = []
    for _ in range(90):
        requested = env.state.requested_command.numpy().copy()
        for robot in range(4):
            for i in range(3):
                change = requested[robot, i] - expected[robot, i]
                expected[robot, i] += max(-largest[i], min(largest[i], change))
        np.testing.assert_array_equal(env.state.command.numpy(), expected)
        requests.append(requested)
        assert not env.step(STILL).done.any()
    assert (requests[0] == requests[48]).all() and (requests[0] != requests[60]).all()  # a new one after 1 s
    np.testing.assert_allclose(env.state.command, requests[-1], atol=1e-6)  # 2 m/s^2 reach any within 1 s
    env.reset([0])
    assert (env.state.command[0].abs() <= torch.from_numpy(largest)).all()  # a new episode starts at zero


def test_one_limit_leaves_the_other_velocities_free():
    env = make(limit=CommandLimitConfig(max_yaw_acc=1.0))
    assert torch.equal(env.state.command[:, :2], env.state.requested_command[:, :2])
    assert (env.state.command[:, 2] != env.state.requested_command[:, 2]).all()


def test_trainings_have_no_limits_and_evaluations_have_them():
    task = replace(CFG, num_envs=4)
    trained, free = task.build(seed=3), replace(task, commands=replace(task.commands, limit=CommandLimitConfig()))
    other = free.build(seed=3)
    for _ in range(5):
        assert trained.state.requested_command is trained.state.command
        a, b = trained.step(STILL), other.step(STILL)
        assert all(torch.equal(a.obs[name], b.obs[name]) for name in a.obs) and torch.equal(a.reward, b.reward)
    assert for_evaluation(CFG, 4, 1.0).commands.limit == CommandLimitConfig(LIN, YAW, enabled=True)
    assert for_evaluation(free, 4, 1.0).build().state.unlimited_command is None


def test_tracking_errors_and_recordings_are_of_the_requested_command():
    command = {"lin_vel_x": (1.0, 1.0), "lin_vel_y": (0.0, 0.0), "yaw_rate": (0.5, 0.5)}
    limit = CommandLimitConfig(max_lin_acc=1e-3, max_yaw_acc=1e-3)  # so that robots are told to stand
    task = replace(CFG, commands=replace(CFG.commands, limit=limit, **command))
    env = for_evaluation(task, 16, 0.5).build()

    def stand(obs):
        return torch.zeros(16, 12)

    stand.reset = lambda dones=None: None
    metrics = evaluate(env, stand, 0.5)
    assert metrics["lin_vel_error"] > 0.7 and metrics["yaw_rate_error"] > 0.3
    recorder = Recorder(env, 1)
    env.observers.append(recorder)
    env.step(torch.zeros(16, 12))
    assert recorder.result()["command"][0, 0].tolist() == [1.0, 0.0, 0.5]


def test_a_restored_command_goes_on_bit_by_bit():
    env, other = make(), make(seed=5)
    for _ in range(3):
        env.step(STILL)
    other.load_state_dict(env.state_dict())
    for _ in range(20):
        assert torch.equal(env.state.command, other.state.command)
        assert torch.equal(env.step(STILL).obs["policy"], other.step(STILL).obs["policy"])
    state = env.state_dict()
    del state["commands"]["velocity"]["limited"]  # saved without limits
    other.load_state_dict(state)
    assert torch.equal(other.state.command, env.state.requested_command)


def policy(**changes):
    interface = {**make().describe_interface(["policy"]), "inputs": {"obs": [1, 50]}, **changes}
    return Policy(interface, lambda obs, *memories: [np.zeros((1, 12), np.float32)])


def sensed(env, robot):
    sim, state = env.sim, env.state
    return {
        "command": state.requested_command[robot].tolist(),
        "base_quat": sim.root_quat[robot].numpy(),
        "base_lin_vel_world": sim.root_lin_vel[robot].numpy(),
        "base_ang_vel": sim.root_ang_vel[robot].numpy(),
        "joint_pos": sim.joint_pos[robot].numpy(),
        "joint_vel": sim.joint_vel[robot].numpy(),
    }


def test_the_exported_policy_limits_the_command_as_the_simulation_does():
    env, own = make(resampling_time=0.2), policy()
    terms = own.description["observations"]
    start = sum(term["size"] for term in terms[: [term["name"] for term in terms].index("command")])
    for _ in range(40):
        obs = own.observe(**sensed(env, 0))
        assert np.array_equal(obs, own.observe(**sensed(env, 0)))  # observing changes nothing
        np.testing.assert_array_equal(obs[start : start + 3], 2.0 * env.state.command[0].numpy())
        own(**sensed(env, 0))
        env.step(STILL)
    own.reset()
    assert np.abs(own.observe(**sensed(env, 0))[start : start + 2]).max() <= 2.0 * LIN * CFG.sim.control_dt


def test_the_description_tells_of_limits_only_where_there_are_some():
    assert policy().description["commands"]["velocity"] == {"max_lin_acc": LIN, "max_yaw_acc": YAW}
    free = replace(CFG, commands=replace(CFG.commands, limit=CommandLimitConfig())).build()
    assert list(free.describe_interface(["policy"])["commands"]) == ["gait_clock"]
    with pytest.raises(ValueError, match=r"the limits of the command are .*give max_lin_acc and max_yaw_acc"):
        policy(commands={"velocity": {"max_lin_acc": -1.0, "max_yaw_acc": 1.0}})
    with pytest.raises(ValueError, match="the policy senses command: give command, 3 finite numbers"):
        own = policy()
        own.observe(**{**sensed(make(), 0), "command": (0.0, float("nan"), 0.0)})
    with pytest.raises(ValueError, match=r"env.commands.limit.max_lin_acc=-1.0"):
        CommandLimitConfig(max_lin_acc=-1.0)


def test_the_description_tells_of_the_ranges_at_the_end_of_a_schedule():
    def ranges(**commands):
        env = replace(CFG, commands=replace(CFG.commands, **commands)).build()
        return env.describe_interface(["policy"])["command_ranges"]

    schedule = ScheduleConfig(steps=10, start=0.2, end=1.5)
    assert ranges() == [[-1.0, 1.0], [-0.5, 0.5], [-1.0, 1.0]]
    assert ranges(schedule=schedule) == [[-1.5, 1.5], [-0.75, 0.75], [-1.5, 1.5]]
    half = ScheduleConfig(steps=10, end=0.5)
    assert ranges(schedule=half, heading_fraction=0.5) == [[-0.5, 0.5], [-0.25, 0.25], [-1.0, 1.0]]
    joystick = {**CFG.commands.terms, "velocity": CommandTerm("joystick")}
    assert ranges(schedule=schedule, terms=joystick) == [[-1.5, 1.5], [-0.75, 0.75], [-1.5, 1.5]]


def test_joystick_commands_with_a_schedule_stay_in_its_ranges_and_reverse_to_the_exact_opposite():
    terms = {**CFG.commands.terms, "velocity": CommandTerm("joystick", params={"period": (0.02, 0.06)})}
    env = make(num_envs=64, limit=CommandLimitConfig(), schedule=ScheduleConfig(end=2.0), terms=terms)
    source, last, reversals = env.commands.sources["velocity"], env.state.command.clone(), 0
    for _ in range(20):
        env.step(torch.zeros(64, 12))
        command = env.state.command
        assert (command.abs() <= torch.tensor([2.0, 1.0, 2.0])).all()
        kinds = [source.KINDS[kind] for kind in source.kind.tolist()]
        for new, old, kind in zip(command, last, kinds):
            if kind == "reversal" and old.any() and not torch.equal(new, old):
                assert torch.equal(new, -old)
                reversals += 1
        last = command.clone()
    assert reversals > 20


def test_every_shipped_task_of_a_legged_robot_has_the_limits():
    tasks = {name: EXPERIMENTS.load(name)().env for name in EXPERIMENTS.names()}
    walking = {name: cfg for name, cfg in tasks.items() if isinstance(cfg, LeggedRobotConfig)}
    limits = {name: cfg.commands.limit for name, cfg in walking.items() if "motion" not in cfg.commands.terms}
    assert {"go2_rough", "go2_rough_student", "anymal_c_rough", "go2_flat_distilled", "g1_flat"} <= limits.keys()
    assert limits == dict.fromkeys(limits, CommandLimitConfig(max_lin_acc=2.0, max_yaw_acc=4.0))
