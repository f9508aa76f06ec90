"""The task on gymapi-mujoco: LeggedRobot runs on it unchanged, and learns."""

from dataclasses import replace

import pytest
import torch

from configs.go2_flat import Go2Flat
from configs.go2_rough import rough_task
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.task import EventTerm, ObservationGroupConfig, RandomizationConfig, TerrainConfig
from rsl_rl.env import check_vec_env
from rsl_rl.runners import OnPolicyRunner
from tests.sim.isaac_gym.isaac_gym_package import instead_of_isaac_gym

BACKEND = "rsl_rl.sim.isaacgym.engine:IsaacGymSim"
CFG = Go2Flat()


@pytest.fixture(autouse=True)
def package(monkeypatch, tmp_path):
    """The package in Isaac Gym's place."""
    monkeypatch.chdir(tmp_path)  # MuJoCo would log here
    yield from instead_of_isaac_gym(monkeypatch)


def config(backend: str = BACKEND, num_envs: int = 8):
    return replace(CFG.env, num_envs=num_envs, sim=replace(CFG.env.sim, backend=backend, num_threads=1))


def test_a_robot_that_stands_sees_what_it_sees_on_mujoco():
    """Same seed and no noise: at rest the observations are the same; contacts have settings of their own."""
    same = CFG.env.randomization.with_params("model_parameters", friction=(0.75, 0.75), payload=(0.0, 0.0))
    randomization = same.with_terms({"push": EventTerm("interval", 1e6)})
    envs = [replace(config(backend), randomization=randomization).build(seed=5) for backend in (BACKEND, "mujoco")]
    for _ in range(40):
        ours, reference = (env.step(torch.zeros(8, 12)) for env in envs)
        assert not any(broken.any() for broken in ours.extras["invalid"].values())
    assert not ours.done.any() and not reference.done.any()
    error = (ours.obs["critic"] - reference.obs["critic"]).abs()
    assert error.median() < 0.03, error.median()
    assert torch.isfinite(ours.reward).all()


def test_the_contract_holds():
    assert check_vec_env(config().build()) == []


def test_it_learns_is_saved_and_goes_on(tmp_path):
    runner = RunnerConfig(num_steps_per_env=8, save_interval=1, logger="none")
    cfg = replace(CFG, env=config(), runner=runner)
    first = OnPolicyRunner(cfg.env.build(), cfg, log_dir=str(tmp_path / "run"))
    first.learn(2)
    saved = sorted((tmp_path / "run").glob("model_*.pt"))[-1]
    state, mass = first.env.sim.physics_state(), first.env.sim.total_mass
    first.env.sim.close()
    second = OnPolicyRunner(cfg.env.build(seed=9), cfg)
    second.load(str(saved))
    torch.testing.assert_close(second.env.sim.physics_state(), state)
    assert torch.equal(second.env.sim.total_mass, mass)
    second.learn(1)
    assert torch.isfinite(second.env.get_observations()["policy"]).all()


def test_a_process_holds_one_simulation_and_says_so():
    first = config().build()
    with pytest.raises(ValueError, match=r"Isaac Gym allows one simulation per process.*use --sim mujoco for them"):
        config().build()
    first.sim.close()
    config().build()


def test_a_broken_robot_is_explained():
    env = config().build()
    env.sim.set_root_velocity(torch.arange(8) == 3, torch.full((8, 3), 1e20), torch.zeros(8, 3))
    with pytest.warns(UserWarning, match="environment 3 diverged"):
        result = env.step(torch.zeros(8, 12))
    assert result.extras["invalid"]["engine"].tolist() == (torch.arange(8) == 3).tolist()
    case = env.postmortem("engine")
    assert case["environment"] == 3 and case["physics"]["states"].shape[1] == 37
    assert torch.isfinite(env.step(torch.zeros(8, 12)).obs["policy"]).all()


def test_robots_stand_on_rough_ground_as_on_mujoco():
    """With equal start states, and no noise."""
    task = rough_task()
    terrain = TerrainConfig(
        types={"stairs_up": 1.0, "slope_down": 1.0}, tile_size=4.0, num_columns=2, num_levels=2, border=2.0
    )
    cfg = replace(config(), control=task.control, terrain=terrain, randomization=RandomizationConfig.none())
    scan = {"height_scan": task.observations["critic"].terms["height_scan"]}
    cfg = replace(cfg, observations={**cfg.observations, "scan": ObservationGroupConfig(scan)})
    heights = []
    for backend in (BACKEND, "mujoco"):
        env = replace(cfg, sim=replace(cfg.sim, backend=backend)).build(seed=5)
        for _ in range(40):
            result = env.step(torch.zeros(8, 12))
            assert not result.done.any()
        assert (env.state.base_height - 0.275).abs().max() < 0.03
        assert (env.state.foot_height - env.robot.foot_radius).abs().max() < 0.02
        heights.append(result.obs["scan"])
    assert (heights[0] - heights[1]).abs().median() < 0.1  # 2 cm before scaling
