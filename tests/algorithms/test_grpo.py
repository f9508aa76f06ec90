"""GRPO: what it computes, against loops over single steps, and what it learns without a critic."""

from dataclasses import replace

import pytest
import torch

from configs import EXPERIMENTS
from rsl_rl.algorithms.build import build_storage
from rsl_rl.algorithms.grpo import GRPO
from rsl_rl.config.algorithm import GRPOConfig
from rsl_rl.config.learn import LearnConfig, RunnerConfig
from rsl_rl.config.task import RecallConfig, ReverseConfig, TargetSumConfig, ToyConfig
from rsl_rl.env.protocols import Resettable, SharesStarts, supports
from rsl_rl.modules.policy import ActorCritic
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.runners.loading import load_policy
from rsl_rl.storage.rollout import GroupSpec
from rsl_rl.tasks.toy import PointEnv

T, N, D, A, GROUP = 6, 8, 3, 2, 4


def make(**settings):
    settings = {"group_size": GROUP, "num_mini_batches": 1, "num_learning_epochs": 1, "max_grad_norm": 1e9, **settings}
    cfg, policy = GRPOConfig(**settings), ActorCritic(D, D, A, actor_hidden_dims=(6,), critic_hidden_dims=())
    return GRPO(policy, build_storage(policy, cfg, N, T, {"policy": GroupSpec((D,))}, {}), cfg)


def collect(alg, done_rate=0.3, invalid_rate=0.1):
    """Collect a random rollout; return its rewards, dones and valid steps [N, T]."""
    rewards, valid = torch.randn(N, T), torch.rand(N, T) >= invalid_rate
    dones = (torch.rand(N, T) < done_rate) | ~valid
    alg.begin_rollout()
    for t in range(T):
        alg.act({"policy": torch.randn(N, D)})
        alg.process_env_step(rewards[:, t], dones[:, t], {"valid": valid[:, t], "time_outs": torch.rand(N) < 0.5})
    alg.compute_returns({"policy": torch.full((N, D), 7.0)})
    return rewards, dones, valid


def expected_fields(alg, reward, done, valid, credit, restart):
    """Return, sample mask and advantage [N, T] by the definition, one step at a time."""
    returns, mask, advantage = (torch.zeros(N, T) for _ in range(3))
    for n in range(N):
        for t in range(T):
            end = next((s for s in range(t, T) if done[n, s]), T - 1)
            returns[n, t] = sum(alg.cfg.gamma ** (s - t) * reward[n, s] for s in range(t, end + 1))
            known = all(valid[n, s] for s in range(t, end + 1))
            mask[n, t] = known and not (restart and done[n, :t].any())
    if credit == "sequence":
        returns = returns[:, :1].expand(N, T).clone()
    for n in range(N):
        first = n // GROUP * GROUP
        for t in range(T):
            others = [returns[i, t].item() for i in range(first, first + GROUP) if mask[i, t]]
            if mask[n, t]:
                mean = sum(others) / len(others)
                std = (sum((x - mean) ** 2 for x in others) / len(others)) ** 0.5
                advantage[n, t] = (returns[n, t] - mean) / (std + 1e-6)
    return returns, mask, advantage


@pytest.mark.parametrize(("credit", "restart"), [("to_go", True), ("to_go", False), ("sequence", True)])
def test_returns_masks_and_advantages_equal_a_loop_over_the_steps(credit, restart):
    alg = make(gamma=0.9, credit=credit, restart_episodes=restart)
    for _ in range(2):  # the second rollout writes over the first
        given = collect(alg)
        expected = expected_fields(alg, *given, credit, restart)
        found = {name: alg.storage.columns[name].squeeze(-1).t() for name in ("returns", "sample_mask", "advantages")}
        for (name, column), field in zip(found.items(), expected):
            torch.testing.assert_close(column, field, rtol=1e-4, atol=1e-4, msg=name)
        assert torch.equal(found["sample_mask"], expected[1])
        first = expected[1][:, 0] > 0
        sequence_return = alg.update().metrics["sequence_return"].item()
        assert sequence_return == pytest.approx(expected[0][first, 0].mean().item(), abs=1e-5)


@pytest.mark.parametrize("settings", [{}, {"entropy_coef": 0.1}])
def test_gradient_of_a_rollout_equals_that_of_a_loop_over_its_unmasked_steps(settings):
    alg = make(**settings)
    collect(alg)
    storage, columns, policy = alg.storage, alg.storage.columns, alg.policy
    with torch.no_grad():  # the update meets other weights than those that acted
        for parameter in policy.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    mask, advantages = columns["sample_mask"].clone(), columns["advantages"].clone()
    loss, count = torch.zeros(()), mask.sum()
    assert 0 < count < N * T
    for t in range(T):
        for n in range(N):
            if mask[t, n]:
                acting = policy.update_distribution(storage.groups["policy"][t, n])
                ratio = (acting.log_prob(columns["actions"][t, n]) - columns["actions_log_prob"][t, n]).exp()
                gain = torch.minimum(ratio * advantages[t, n], ratio.clamp(0.8, 1.2) * advantages[t, n])
                loss = loss - (gain + alg.cfg.entropy_coef * acting.entropy()).squeeze() / count
    named = [(name, p) for name, p in policy.named_parameters() if not name.startswith("critic")]
    expected = torch.autograd.grad(loss, [parameter for _, parameter in named])
    found = {}

    def remember(usable):
        found.update({name: parameter.grad.clone() for name, parameter in policy.named_parameters()})
        return usable

    alg.learner.optimizer.step_where_finite = remember
    alg.update()
    for (name, _), gradient in zip(named, expected):
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-6, msg=name)
    assert all((gradient == 0).all() for name, gradient in found.items() if name.startswith("critic"))


def test_update_with_every_step_masked_changes_nothing():
    alg = make()
    collect(alg, invalid_rate=1.1)
    before = {name: value.clone() for name, value in alg.policy.state_dict().items()}
    metrics = alg.update().metrics
    assert metrics["skipped_steps"] == 1 and metrics["sequence_return"] == 0
    assert all(torch.equal(before[name], value) for name, value in alg.policy.state_dict().items())


# In the runner


def runner_of(cfg, num_envs, log_dir=None, **settings):
    env = replace(cfg.env, num_envs=num_envs).build(seed=3)
    cfg = replace(cfg, algorithm=replace(cfg.algorithm, **settings), runner=replace(cfg.runner, logger="none"))
    return OnPolicyRunner(env, cfg, log_dir)


def test_each_rollout_begins_with_episodes_that_a_group_starts_in_the_same_state():
    runner = runner_of(EXPERIMENTS.load("toy_grpo")(), 16)
    storage, starts = runner.alg.storage, []
    for _ in range(2):
        runner.learn(1, init_at_random_ep_len=True)
        obs = storage.groups["policy"]
        starts.append(obs[0, :, 0].clone().view(2, 8))
        assert torch.equal(starts[-1], starts[-1][:, :1].expand(2, 8)) and starts[-1][0, 0] != starts[-1][1, 0]
        assert storage.columns["dones"][:48].any(dim=0).all()
        assert obs[5, :, 0].unique().numel() == 16  # and goes other ways
    assert not torch.equal(*starts)


def test_environment_that_cannot_be_reset_needs_episodes_that_go_on(small_cfg):
    class Endless(PointEnv):
        reset = None

    env = Endless(ToyConfig(num_envs=16))
    assert not supports(env, Resettable) and supports(env, SharesStarts)
    with pytest.raises(ValueError, match=r"Endless has no reset\(env_ids\).* set algorithm.restart_episodes to false"):
        OnPolicyRunner(env, replace(small_cfg, algorithm=GRPOConfig()))
    runner = OnPolicyRunner(env, replace(small_cfg, algorithm=GRPOConfig(restart_episodes=False)))
    runner.learn(2)
    assert runner.alg.storage.columns["sample_mask"].all()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"group_size": 1}, "algorithm.group_size=1"),
        ({"credit": "step"}, "algorithm.credit='step'; allowed: to_go, sequence"),
        ({"credit": "sequence", "restart_episodes": False}, "needs whole sequences; set restart_episodes to true"),
    ],
)
def test_config_that_cannot_work_raises(settings, words):
    with pytest.raises(ValueError, match=words):
        GRPOConfig(**settings)


def test_number_of_environments_that_is_no_multiple_of_the_group_raises():
    with pytest.raises(ValueError, match=r"num_envs=12 is not divisible by algorithm\.group_size=8; give a multiple"):
        runner_of(EXPERIMENTS.load("toy_grpo")(), 12)


def test_grpo_resumes_as_if_never_stopped_and_plays(tmp_path):
    cfg = EXPERIMENTS.load("target_sum")()
    torch.manual_seed(5)
    whole = runner_of(cfg, 16)
    whole.learn(4)
    torch.manual_seed(5)
    runner_of(cfg, 16, tmp_path).learn(2)
    torch.manual_seed(99)
    resumed = runner_of(cfg, 16)
    resumed.load(tmp_path / "model_2.pt")
    resumed.learn(2)
    states = [runner.alg.policy.state_dict() for runner in (whole, resumed)]
    assert all(torch.equal(a, b) for a, b in zip(*(state.values() for state in states)))
    resumed.load(tmp_path / "model_2.pt")
    env = cfg.env.build()
    played = load_policy(cfg, env, tmp_path, 2)
    obs = env.get_observations()
    assert torch.equal(played.policy(obs), resumed.get_inference_policy()(obs))


# Learning


@torch.no_grad()
def mean_reward(runner, env, num_steps):
    policy, total = runner.get_inference_policy(), 0.0
    obs = env.get_observations()
    for _ in range(num_steps):
        obs, reward, done, _ = env.step(policy(obs))
        policy.reset(done)
        total += reward.mean().item() / num_steps
    return total


def trained(name, iterations):
    torch.manual_seed(1)
    cfg = EXPERIMENTS.load(name)()
    runner = OnPolicyRunner(cfg.env.build(seed=1), replace(cfg, runner=replace(cfg.runner, logger="none")))
    runner.learn(iterations)
    return runner


def test_grpo_moves_the_point_to_the_origin():
    runner = trained("toy_grpo", 12)
    assert (
        mean_reward(runner, ToyConfig(num_envs=500).build(seed=9), 48) > 0.85
    )  # at best 0.93, and 0 for doing nothing


@pytest.mark.slow
def test_grpo_writes_tokens_backwards_for_a_reward_at_the_end():
    runner = trained("reverse", 90)
    assert 4 * mean_reward(runner, ReverseConfig(num_envs=500).build(seed=9), 4) > 0.9  # 0.2 for random tokens


def test_grpo_finds_digits_that_add_up_to_a_number():
    runner = trained("target_sum", 30)
    assert 4 * mean_reward(runner, TargetSumConfig(num_envs=500).build(seed=9), 4) > 0.7  # 0.11 for random digits


@pytest.mark.slow
def test_grpo_trains_a_memory():
    torch.manual_seed(1)
    cfg = LearnConfig(
        policy=replace(EXPERIMENTS.load("recall")().policy, memory_of=("actor",)),
        algorithm=GRPOConfig(gamma=0.0, desired_kl=0.03),  # each action has its own reward
        runner=RunnerConfig(num_steps_per_env=12, logger="none"),
    )
    runner = OnPolicyRunner(RecallConfig(num_envs=256).build(seed=1), cfg)
    runner.learn(30)
    assert mean_reward(runner, RecallConfig(num_envs=500).build(seed=9), 12) > 0.6  # 0.08 without a memory
