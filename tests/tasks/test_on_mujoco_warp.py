"""The task and the learner on MuJoCo Warp: on Warp's CPU device, and on a GPU where there is one."""

import sys
from dataclasses import replace

import mujoco_warp
import pytest
import torch
import warp

from configs.go2_flat import Go2Flat
from configs.go2_rough import Go2Rough
from rsl_rl.config.learn import LearnConfig
from rsl_rl.config.mdp import EventTerm, ScheduleConfig
from rsl_rl.config.sim import DCMotorConfig
from rsl_rl.env.step_validator import StepValidator
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.sim.mujoco_cpu import MujocoSim
from rsl_rl.sim.mujoco_warp import MujocoWarpSim
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.utils import tensors

WAITING = ("aten::item", "aten::_local_scalar_dense", "aten::nonzero", "aten::is_nonzero", "aten::equal")


@pytest.fixture
def as_on_a_gpu(monkeypatch):
    """Have nobody look at numbers, as nobody does on a GPU."""
    answers = {
        "all_within_on_cpu": lambda x, limit: False,
        "none_on_cpu": lambda mask: False,
        "rows_on_cpu": lambda mask: None,
    }
    for name, answer in answers.items():
        users = [module for module in list(sys.modules.values()) if vars(module).get(name) is getattr(tensors, name)]
        assert users
        for module in users:
            monkeypatch.setattr(module, name, answer)
    monkeypatch.setattr(StepValidator, "is_sound_on_cpu", lambda self, numbers, masks: False)


def randomised():
    """go2_rough with motors, delays, sensor errors, schedules and random parameters."""
    cfg, reset = Go2Rough().env, {"motor_strength": (0.8, 1.2), "action_delay": (0, 6), "encoder_offset": (-0.02, 0.02)}
    terms = {name: EventTerm("reset", params={"range": pair}) for name, pair in reset.items()}
    terms["motor_strength"].params["schedule"] = {"steps": 100, "tracking": 0.1}
    push = {"push_force": EventTerm("interval", 0.1, params={"force": 20.0})}
    policy = cfg.observations["policy"]
    joints = replace(policy.terms["joint_vel"], bias=0.1, delay=(0, 2))
    return replace(
        cfg,
        commands=replace(cfg.commands, heading_fraction=0.5, schedule=ScheduleConfig(steps=100)),
        control=replace(cfg.control, actuator=DCMotorConfig()),
        observations={**cfg.observations, "policy": policy.with_terms({"joint_vel": joints})},
        randomization=cfg.randomization.with_terms({**terms, **push}),
    )


TASKS = {"go2_flat": lambda: Go2Flat().env, "randomised": randomised}


def make(num_envs: int = 16, device: str = "cpu", task: str = "go2_flat", **settings) -> LeggedRobot:
    cfg = TASKS[task]()
    return replace(cfg, num_envs=num_envs, sim=replace(cfg.sim, backend="mujoco_warp", **settings)).build(
        device, seed=3
    )


def runner_of(env: LeggedRobot, cfg: LearnConfig, log_dir=None) -> OnPolicyRunner:
    return OnPolicyRunner(env, replace(cfg, runner=replace(cfg.runner, num_steps_per_env=6)), log_dir, str(env.device))


@pytest.mark.usefixtures("as_on_a_gpu")
@pytest.mark.parametrize("task", ["go2_flat", pytest.param("randomised", marks=pytest.mark.slow)])
def test_a_rollout_asks_the_device_for_no_number_and_sends_it_none(small_cfg, monkeypatch, task):
    """On a GPU each would be a wait: rewards, resets, commands, pushes, faults and episode statistics included."""
    runner = runner_of(make(task=task), small_cfg)
    runner.learn(1)
    obs = runner.env.get_observations()

    def on_the_device_only(data, *args, **kwargs):
        assert isinstance(data, torch.Tensor), f"{data} of the host goes to the device"
        return data.to(*args, **kwargs)

    for name in ("tensor", "as_tensor", "from_numpy"):
        monkeypatch.setattr(torch, name, on_the_device_only)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        runner.collector.collect(obs)
    counts = {event.key: event.count for event in profile.key_averages()}
    assert counts["aten::where"] >= 6  # the profiler saw the steps
    assert [key for key in WAITING if key in counts] == []


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_a_rollout_on_a_gpu_waits_for_nothing(small_cfg, monkeypatch):
    runner = runner_of(make(64, "cuda"), small_cfg)
    runner.learn(1)
    obs = runner.env.get_observations()

    def refuse(*args, **kwargs):
        raise AssertionError("Warp waits")

    for name in ("synchronize", "synchronize_device", "synchronize_stream", "synchronize_event"):
        monkeypatch.setattr(warp, name, refuse)
    torch.cuda.set_sync_debug_mode("error")
    try:
        runner.collector.collect(obs)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert torch.isfinite(runner.alg.storage.columns["rewards"]).all()


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_physics_keeps_its_place_among_the_work_of_another_stream():
    """On a stream of the user's own, where nothing waits by itself, robots move as on the default one."""
    reached = []
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream()):
        with torch.cuda.stream(stream):
            env = make(64, "cuda")
            actions = torch.randn(20, 64, 12, generator=torch.Generator().manual_seed(0)).cuda()
            for action in actions:
                env.step(action)
            stream.synchronize()
            reached.append(env.sim.joint_pos.clone())
    torch.testing.assert_close(reached[0], reached[1], atol=0.1, rtol=0)  # sums of contacts have no fixed order
    assert (reached[0] - reached[1]).abs().mean() < 1e-3


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_on_a_gpu_two_runs_in_the_air_are_equal():
    """On the ground they are not: MuJoCo Warp adds the forces of constraints in no fixed order."""
    reached = []
    for _ in range(2):
        env = make(64, "cuda")
        env.sim.root_pos[:, 2] += 20.0
        for action in 0.5 * torch.randn(20, 64, 12, generator=torch.Generator().manual_seed(0)).cuda():
            env.step(action)
        reached.append(torch.cat((env.sim.root_pos, env.sim.joint_pos, env.sim.joint_vel), dim=1))
    assert torch.equal(*reached)


@pytest.mark.parametrize("wanted", [True, False])
def test_whoever_wants_determinism_gets_all_of_it(wanted):
    torch.use_deterministic_algorithms(wanted)
    try:
        sim = make(2).sim
    finally:
        torch.use_deterministic_algorithms(False)
    kinds = mujoco_warp.DeterminismType
    assert sim._model.opt.deterministic == (kinds.ALL if wanted else kinds.NONE)
    assert torch.isfinite(sim.root_pos).all()


def test_auto_takes_the_engine_of_the_device():
    cfg = replace(Go2Flat().env, num_envs=2)
    assert cfg.sim.backend == "auto"
    assert isinstance(cfg.build("cpu").sim, MujocoSim) and isinstance(make(2).sim, MujocoWarpSim)


@pytest.mark.usefixtures("as_on_a_gpu")
def test_a_broken_world_is_left_out_and_starts_anew(small_cfg, tmp_path):
    env = make(4)
    env.sim._qvel[2] = torch.nan
    extras = env.step(torch.zeros(4, 12)).extras
    assert extras["invalid"]["engine"].tolist() == [False, False, True, False]
    for _ in range(3):
        result = env.step(torch.zeros(4, 12))
        assert torch.isfinite(result.obs["critic"]).all() and not result.done.any()
        assert not torch.stack(tuple(result.extras["invalid"].values())).any()


def test_robots_without_room_for_their_contacts_are_counted_and_told_of(small_cfg, tmp_path, capsys):
    runner = runner_of(make(4, max_contacts=1), small_cfg, tmp_path)
    runner.learn(1)
    told = capsys.readouterr().out
    assert (
        "fault: contacts (more than env.sim.max_contacts; use 0 for the largest possible number) in environment" in told
    )
    assert (tmp_path / "postmortem" / "contacts_1.json").is_file()


def test_training_goes_on_bit_by_bit_after_a_restart(small_cfg, tmp_path):
    torch.manual_seed(1)
    whole = runner_of(make(), small_cfg, tmp_path / "whole")
    whole.learn(4)
    torch.manual_seed(1)
    first = runner_of(make(), small_cfg, tmp_path / "parts")
    first.learn(2)
    second = runner_of(make(), small_cfg, tmp_path / "parts")
    second.load(tmp_path / "parts" / "model_2.pt")
    second.learn(2)
    expected, got = whole.alg.policy.state_dict(), second.alg.policy.state_dict()
    assert all(torch.equal(got[name], expected[name]) for name in expected)
