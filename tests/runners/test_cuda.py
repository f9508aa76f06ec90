"""Networks on a GPU, environment on the CPU or the GPU."""

import pytest
import torch

from rsl_rl.config.task import ToyConfig
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.tasks.toy import PointEnv

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")]


@pytest.mark.parametrize("env_device", ["cpu", "cuda"])
def test_a_policy_on_the_gpu_learns_and_acts(small_cfg, env_device):
    env = PointEnv(ToyConfig(num_envs=16, episode_steps=10), device=env_device)
    runner = OnPolicyRunner(env, small_cfg, device="cuda")
    runner.learn(3)
    actions = runner.get_inference_policy()(env.get_observations())
    assert actions.device.type == env_device and actions.shape == (16, 1)


def test_an_update_waits_for_nothing(small_cfg):
    env = PointEnv(ToyConfig(num_envs=16, episode_steps=10), device="cuda")
    runner = OnPolicyRunner(env, small_cfg, device="cuda")
    runner.learn(1)  # the optimiser's state is made in the first step
    runner._collect(env.get_observations())
    torch.cuda.set_sync_debug_mode("error")
    try:
        metrics = runner.alg.update()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(torch.isfinite(value) for value in metrics.values())
