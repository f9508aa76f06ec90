"""Networks on a GPU, environment on the CPU or the GPU."""

from dataclasses import replace

import pytest
import torch

from rsl_rl.acceleration.cuda_graph import GraphedFunction
from rsl_rl.config.learn import AccelerationConfig
from rsl_rl.config.policy import ActorCriticConfig, ActorCriticRecurrentConfig
from rsl_rl.config.task import ToyConfig
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.runners.loading import load_policy
from rsl_rl.storage import Adder
from rsl_rl.tasks.toy import PointEnv

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")]


NETS = {"actor_hidden_dims": (16,), "critic_hidden_dims": (16,)}
CONFIGS = {  # policy and algorithm of each kind
    "mlp": (ActorCriticConfig(**NETS), {}),
    "gru": (ActorCriticRecurrentConfig(rnn_type="gru", rnn_hidden_size=8, **NETS), {}),
    "lstm": (ActorCriticRecurrentConfig(rnn_type="lstm", rnn_hidden_size=8, rnn_num_layers=2, **NETS), {}),
    "lstm in chunks": (
        ActorCriticRecurrentConfig(rnn_type="lstm", rnn_hidden_size=8, **NETS), {"unroll_len": 3, "burn_in": 2},
    ),
}  # fmt: skip


@pytest.fixture(params=CONFIGS)
def cfg(small_cfg, request):
    policy, settings = CONFIGS[request.param]
    return replace(small_cfg, policy=policy, algorithm=replace(small_cfg.algorithm, **settings))


@pytest.mark.parametrize("env_device", ["cpu", "cuda"])
def test_a_policy_on_the_gpu_learns_and_acts(cfg, env_device):
    env = PointEnv(ToyConfig(num_envs=16, episode_steps=10), device=env_device)
    runner = OnPolicyRunner(env, cfg, device="cuda")
    runner.learn(3)
    actions = runner.get_inference_policy()(env.get_observations())
    assert actions.device.type == env_device and actions.shape == (16, 1)


def test_an_update_waits_for_nothing(cfg):
    env = PointEnv(ToyConfig(num_envs=16, episode_steps=10), device="cuda")
    runner = OnPolicyRunner(env, cfg, device="cuda")
    runner.learn(2)  # graphs are recorded in the first iteration
    runner.collector.collect(env.get_observations())
    torch.cuda.set_sync_debug_mode("error")
    try:
        metrics = runner.alg.update().metrics
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all(torch.isfinite(value) for value in metrics.values())


def test_graphs_change_nothing(cfg):
    weights = []
    for cuda_graphs in (False, True):
        torch.manual_seed(1)
        env = PointEnv(ToyConfig(num_envs=16, episode_steps=10), device="cuda")
        acceleration = AccelerationConfig(cuda_graphs=cuda_graphs)
        runner = OnPolicyRunner(env, replace(cfg, acceleration=acceleration), device="cuda")
        assert isinstance(runner.alg.learner._step, GraphedFunction) == cuda_graphs
        runner.learn(4)
        weights.append([p.detach().clone() for p in runner.alg.policy.parameters()])
    for plain, graphed in zip(*weights):
        torch.testing.assert_close(graphed, plain, atol=1e-5, rtol=1e-4)  # other kernels may be picked


@pytest.mark.parametrize("switch", ["bfloat16", "compile"])
def test_a_policy_learns_with_each_acceleration(cfg, switch):
    env = PointEnv(ToyConfig(num_envs=16, episode_steps=10), device="cuda")
    runner = OnPolicyRunner(env, replace(cfg, acceleration=AccelerationConfig(**{switch: True})), device="cuda")
    runner.learn(3)
    assert all(torch.isfinite(p).all() for p in runner.alg.policy.parameters())


def test_a_loaded_policy_is_on_the_device_of_its_environment(cfg, tmp_path):
    trained = OnPolicyRunner(PointEnv(ToyConfig(num_envs=4), device="cpu"), cfg, tmp_path)
    trained.learn(1)
    env = PointEnv(ToyConfig(num_envs=4), device="cuda")
    policy = load_policy(cfg, env, tmp_path).policy
    assert policy.device.type == "cuda" and policy(env.get_observations()).device.type == "cuda"


def test_two_deterministic_trainings_are_equal(run_script, tmp_path):
    flags = "--deterministic --sim_device cuda --rl_device cuda --max_iterations 3 --num_envs 64"
    weights = []
    for name in ("a", "b"):
        done = run_script(
            "-m", "rsl_rl", "train", "--task", "recall", *flags.split(), "--log_root", str(tmp_path / name)
        )
        assert done.returncode == 0, done.stderr
        (model,) = tmp_path.glob(f"{name}/*/*/model_3.pt")
        weights.append(torch.load(model, map_location="cpu")["model_state_dict"])
    assert all(torch.equal(weight, weights[1][name]) for name, weight in weights[0].items())


def test_the_adder_computes_on_the_gpu_and_answers_on_the_cpu():
    def data():
        return [{"reward": torch.tensor([t + 0.5]), "value": torch.tensor([float(t)])} for t in range(4)]

    ours, expected = (Adder(use, 2).get_gae(data(), torch.ones(1), 0.9, 0.8) for use in (True, False))
    for a, b in zip(ours, expected):
        torch.testing.assert_close(a["adv"], b["adv"])
