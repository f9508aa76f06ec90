"""The task on the double of Isaac Gym: LeggedRobot runs on it unchanged, and learns."""

from dataclasses import replace

import pytest
import torch

from configs.go2_flat import Go2Flat
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.env import check_vec_env
from rsl_rl.runners import OnPolicyRunner
from tests.sim.isaac_gym_double import instead_of_isaac_gym

BACKEND = "rsl_rl.sim.isaac_gym:IsaacGymSim"
CFG = Go2Flat()


@pytest.fixture(autouse=True)
def engines(monkeypatch, tmp_path):
    """The double in Isaac Gym's place; the engines that are made."""
    monkeypatch.chdir(tmp_path)  # MuJoCo, the double's physics, logs here what breaks
    yield from instead_of_isaac_gym()


def config(backend: str = BACKEND, num_envs: int = 8):
    return replace(CFG.env, num_envs=num_envs, sim=replace(CFG.env.sim, backend=backend, num_threads=1))


def test_the_task_is_the_one_that_it_is_on_mujoco():
    """Same seed, same actions: observations, rewards and ends are the same, through falls, resets and pushes. The
    friction is one that both engines have exactly and the trunk bears no load, of whose inertia the head bears a little
    on MuJoCo; tolerances allow for what torques of float32 lead to in contact."""
    same = {"friction": (0.75, 0.75), "payload": (0.0, 0.0)}
    randomization = replace(CFG.env.randomization, push_interval=0.5, **same)
    envs = [replace(config(backend), randomization=randomization).build(seed=5) for backend in (BACKEND, "mujoco")]
    falls = 0
    for _ in range(60):
        actions = 4 * torch.randn(8, 12)
        ours, reference = (env.step(actions) for env in envs)
        assert torch.equal(ours.done, reference.done)
        torch.testing.assert_close(ours.reward, reference.reward, atol=1e-3, rtol=1e-3)
        for name in ("policy", "critic"):
            torch.testing.assert_close(ours.obs[name], reference.obs[name], atol=2e-3, rtol=1e-3)
        assert not any(broken.any() for broken in ours.extras["invalid"].values())
        falls += int(ours.done.sum())
    assert falls > 5


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
    result = env.step(torch.zeros(8, 12))
    assert result.extras["invalid"]["engine"].tolist() == (torch.arange(8) == 3).tolist()
    case = env.postmortem("engine")
    assert case["environment"] == 3 and case["physics"]["states"].shape[1] == 37
    assert torch.isfinite(env.step(torch.zeros(8, 12)).obs["policy"]).all()
