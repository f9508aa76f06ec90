"""A legged robot on rough ground: heights, starts, the edge, the height scan and what a resumed run needs."""

from dataclasses import replace
from functools import partial

import mujoco
import numpy as np
import pytest
import torch

from configs.anymal_c_rough import anymal_rough_task
from configs.go2_flat import go2_task
from configs.go2_rough import rough_task
from configs.go2_rough_distilled import student_task, teacher_task
from rsl_rl.config.mdp import EventTerm, RandomizationConfig
from rsl_rl.config.terrain import TerrainConfig
from rsl_rl.evaluation.conditions import on_terrain
from rsl_rl.evaluation.gait_metrics import GaitMetrics
from rsl_rl.evaluation.playback import scan_points
from rsl_rl.sim.base import RobotPoseVel
from rsl_rl.tasks.mdp.observations import height_scan
from rsl_rl.terrain.terrain import build_terrain

N = 12
SMALL = TerrainConfig(
    types={"stairs_up": 1.0, "slope_down": 1.0, "obstacles": 1.0},
    tile_size=4.0,
    platform_size=1.6,
    num_columns=3,
    num_levels=4,
    border=2.0,
)


ENGINES = ("mujoco", "mujoco_warp")


def build(backend, terrain=SMALL, seed=0, **changes):
    """Build the task on an engine; MuJoCo Warp on its CPU device."""
    task = rough_task()
    sim = replace(task.sim, num_threads=1, backend=backend)
    return replace(task, num_envs=N, terrain=terrain, sim=sim, **changes).build("cpu", seed=seed)


@pytest.fixture(params=ENGINES)
def make(request):
    return partial(build, request.param)


def still(env, steps=40):
    for _ in range(steps):
        result = env.step(torch.zeros(N, 12))
    return result


def place(env, x, y, z, upright=True):
    """Move every robot, at rest, upright or on its back."""
    pos, quat = torch.tensor([[x, y, z]]).repeat(N, 1), torch.zeros(N, 4)
    quat[:, 0 if upright else 1] = 1.0
    joints, zeros = env.state.default_joint_pos.repeat(N, 1), torch.zeros(N, 3)
    env.sim.reset(torch.ones(N, dtype=torch.bool), RobotPoseVel(pos, quat, zeros, zeros, joints, torch.zeros(N, 12)))
    env.state.refresh()


def test_heights_are_above_the_ground_underneath(make):
    env = make(randomization=RandomizationConfig.none(), terrain=replace(SMALL, level=3))
    still(env)
    assert env.sim.root_pos[:, 2].std() > 0.1  # pits and hills
    assert (env.state.base_height - 0.275).abs().max() < 0.03
    assert (env.state.foot_height - env.robot.foot_radius).abs().max() < 0.01
    metrics = GaitMetrics(env.cfg, env.robot)
    env.observers.append(metrics)
    env.step(torch.zeros(N, 12))
    assert abs(metrics.result()["swing_height"]) < 0.01


def test_robots_start_and_restart_on_their_own_tiles(make):
    env = make()
    tiles = torch.as_tensor(env.terrain.origins)[env.levels.level, env.levels.column]
    distance = (env.sim.root_pos - tiles)[:, :2].abs()
    assert distance.max() <= 0.4 and distance.max() > 0.2
    assert len({tuple(xy) for xy in tiles[:, :2].tolist()}) >= 3
    place(env, 0.0, 0.0, 1.0, upright=False)
    assert env.step(torch.zeros(N, 12)).done.all()
    tiles = torch.as_tensor(env.terrain.origins)[env.levels.level, env.levels.column]
    assert (env.sim.root_pos - tiles)[:, :2].abs().max() <= 0.4


def test_no_foot_starts_in_the_ground_or_is_trapped_there(make):
    start = {"start_state": EventTerm("reset", params={"initial_joint_scale": (0.5, 1.5), "initial_velocity": 0.0})}
    env = make(randomization=RandomizationConfig.none().with_terms(start))

    def lowest():
        return env.state.ground.height_above(env.sim.foot_pos).amin(dim=1) - env.robot.foot_radius

    above = env.sim.root_pos[:, 2] - env.levels.origins[:, 2] - env.robot.standing_height
    assert lowest().min() > -1e-5 and (above > 0.02).sum() >= 3
    torch.testing.assert_close(lowest()[above > 1e-5], torch.zeros(int((above > 1e-5).sum())), rtol=0, atol=1e-5)
    place(env, 0.0, 0.0, 1.0, upright=False)
    assert env.step(torch.zeros(N, 12)).done.all() and lowest().min() > -1e-5  # after a fall too
    for _ in range(50):
        env.step(torch.zeros(N, 12))
        assert lowest().min() > -0.02


def test_edge_of_the_ground_is_a_time_out_and_no_fall(make):
    env = make()
    metrics = GaitMetrics(env.cfg, env.robot)
    env.observers.append(metrics)
    low, _ = env.terrain.ground.origin
    place(env, low + 0.5, 0.0, 0.3)
    result = env.step(torch.zeros(N, 12))
    assert result.done.all() and result.extras["time_outs"].all()
    assert float(torch.nansum(result.extras["log"]["fall_rate"])) == 0 and metrics.result()["fall_rate"] == 0
    assert not env.step(torch.zeros(N, 12)).done.any()


def test_height_scan_equals_ray_casting_from_the_trunk(make):
    env = make(terrain=replace(SMALL, level=3))
    still(env, 10)
    scan, data = height_scan(env.state, trunk_height=0.0), mujoco.MjData(env.sim.model)
    data.qpos[2] = 50.0
    mujoco.mj_forward(env.sim.model, data)
    pose = torch.cat((env.sim.root_pos, env.sim.root_quat, env.sim.joint_pos), dim=1)
    points, geom = scan_points(env.state, pose), np.zeros(1, dtype=np.int32)
    for robot in range(N):
        z = float(env.sim.root_pos[robot, 2])
        for k in range(0, 187, 7):
            start = points[robot, k].double().numpy() + np.array([0.0, 0.0, 10.0])
            hit = start[2] - mujoco.mj_ray(env.sim.model, data, start, np.array([0.0, 0, -1]), None, 1, -1, geom)
            assert float(scan[robot, k]) == pytest.approx(np.clip(z - hit, -1, 1), abs=0.001)
    assert scan.std() > 0.05


def test_scan_errors_are_drawn_and_drift(make):
    events = {"scan_error": EventTerm("reset", params={"shift": 0.0, "offset": 0.1, "drift": 0.05})}
    flat = replace(SMALL, types={"flat": 1.0})
    env = make(terrain=flat, randomization=RandomizationConfig.none().with_terms(events))
    error = env.state.scan_error.clone()
    assert error[:, 2].abs().max() > 0.05 and (error[:, :2] == 0).all()
    policy = env.cfg.observations["policy"].terms["height_scan"]
    sensed = height_scan(env.state, **policy.params) - height_scan(env.state)
    torch.testing.assert_close(sensed, -error[:, 2:].expand(-1, 187), atol=1e-5, rtol=0)
    still(env, 10)
    drift = (env.state.scan_error - error) / (10 * env.cfg.sim.control_dt)
    assert 0.02 < drift.abs().max() < 0.051


def test_a_resumed_run_has_equal_bits_and_levels(make):
    actions = torch.Generator().manual_seed(3)
    one, other = make(episode_length=0.2), make(episode_length=0.2, seed=5)
    for _ in range(15):
        one.step(0.3 * torch.randn(N, 12, generator=actions))
    other.load_state_dict(one.state_dict())
    for _ in range(15):
        action = 0.3 * torch.randn(N, 12, generator=actions)
        first, second = one.step(action), other.step(action)
        for name, group in first.obs.items():
            assert torch.equal(group, second.obs[name])
    assert torch.equal(one.levels.level, other.levels.level) and torch.equal(one.sim.root_pos, other.sim.root_pos)
    assert torch.equal(one.state.scan_error, other.state.scan_error)


def test_engines_start_a_task_alike():
    cpu, warp = (build(engine, terrain=replace(SMALL, level=3)) for engine in ENGINES)
    for name in RobotPoseVel._fields:
        torch.testing.assert_close(getattr(warp.sim, name), getattr(cpu.sim, name), rtol=0, atol=1e-6)
    for name, group in cpu.get_observations().items():
        torch.testing.assert_close(warp.get_observations()[name], group, rtol=0, atol=1e-4)


def test_one_type_at_one_level():
    cfg = on_terrain(rough_task(), "stairs_up", 5).terrain
    assert list(cfg.types) == ["stairs_up"] and cfg.level == 5 and not cfg.has_curriculum
    assert len(on_terrain(rough_task(), "", 2).terrain.types) == 8
    assert on_terrain(rough_task(), "", -1) == rough_task()
    for name, level, words in (
        ("stair_up", 1, "unknown type; known: .*Did you mean 'stairs_up'"),
        ("gap", 10, "--level 10: give a level from 0 to 9"),
    ):
        with pytest.raises(ValueError, match=words):
            on_terrain(rough_task(), name, level)
    with pytest.raises(ValueError, match="the ground of this task is a plane"):
        on_terrain(replace(rough_task(), terrain=TerrainConfig()), "", 3)


@pytest.mark.parametrize("task", [rough_task, teacher_task, student_task, anymal_rough_task])
def test_columns_are_as_many_as_shares_and_falls_cost_a_reward(task):
    cfg = task()
    shares = {name: kind.share for name, kind in cfg.terrain.all_types.items()}
    columns = build_terrain(cfg.terrain).column_types.tolist()
    assert {name: columns.count(i) for i, name in enumerate(shares)} == shares
    assert not cfg.rewards.only_positive and cfg.rewards.terms["alive"].weight == 1.0
    pose = go2_task(hip_angle=0.1).control.default_joint_pos
    assert (cfg.control.default_joint_pos == pose) == (task is not anymal_rough_task)
