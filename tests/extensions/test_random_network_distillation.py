import copy
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rsl_rl.algorithms.ppo import PPO
from rsl_rl.config.extensions import RNDConfig
from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.config.task import CameraConfig, ToyConfig
from rsl_rl.extensions import RandomNetworkDistillation
from rsl_rl.extensions.random_network_distillation import RewardNormalizer, scheduled_weight
from rsl_rl.modules.policy import ActorCritic, ActorCriticRecurrent
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.storage.mini_batches import MiniBatch
from rsl_rl.storage.rollout import Transition
from rsl_rl.tasks.toy import CameraEnv, PointEnv
from tests.learners import ppo_of

T, N, D, A = 6, 8, 3, 2
PLAIN = RNDConfig(state_normalization=False, reward_normalization=False)


def make(cfg=PLAIN, memory=False, **settings):
    nets = {"actor_hidden_dims": (8,), "critic_hidden_dims": (8,)}
    policy = ActorCriticRecurrent(D, D, A, rnn_hidden_size=4, **nets) if memory else ActorCritic(D, D, A, **nets)
    rnd = RandomNetworkDistillation(cfg, D)
    settings = {"num_mini_batches": 2, "num_learning_epochs": 2, **settings}
    return ppo_of(policy, N, T, {"policy": D}, [rnd], **settings), rnd


def collect(ppo, obs=None, valid=None):
    """Collect a rollout over observations [T + 1, N, D] with rewards of zero; return the stored rewards."""
    obs = torch.randn(T + 1, N, D) if obs is None else obs
    for t in range(T):
        ppo.act({"policy": obs[t]})
        extras = {} if valid is None else {"valid": valid[t]}
        done = torch.zeros(N, dtype=torch.bool) if valid is None else ~valid[t]
        ppo.process_env_step(torch.zeros(N), done, extras, {"policy": obs[t + 1]})
    rewards = ppo.storage.columns["rewards"].clone()
    ppo.compute_returns({"policy": obs[-1]})
    return rewards


def reward_of(rnd, obs, mask=None):
    mask = torch.ones(len(obs), 1) if mask is None else mask
    return rnd.reward(Transition({}, {"sample_mask": mask}), {"policy": obs}, torch.zeros(len(obs)))


def test_reward_is_the_weighted_distance_of_the_outputs_for_the_next_observation():
    ppo, rnd = make(replace(PLAIN, weight=0.3))
    obs = torch.randn(T + 1, N, D)
    rewards = collect(ppo, obs)
    with torch.no_grad():
        expected = 0.3 * (rnd.target(obs[1:]) - rnd.predictor(obs[1:])).norm(dim=-1, keepdim=True)
    torch.testing.assert_close(rewards, expected)
    metrics = ppo.update().metrics
    assert metrics["intrinsic_reward"].item() == pytest.approx(expected.mean().item(), rel=1e-5)
    assert metrics["rnd_weight"].item() == pytest.approx(0.3) and metrics["rnd_loss"] > 0


def test_reward_of_masked_steps_is_zero_and_leaves_statistics_alone():
    cfg = RNDConfig(groups=("policy",))
    rnd, other = RandomNetworkDistillation(cfg, D), RandomNetworkDistillation(cfg, D)
    other.load_state_dict(rnd.state_dict())
    obs, mask = torch.randn(N, D), (torch.arange(N) > 2).float().unsqueeze(1)
    junk = torch.where(mask > 0, obs, torch.nan)
    rewards = reward_of(rnd, junk, mask)
    assert (rewards[:3] == 0).all()
    torch.testing.assert_close(rewards[3:], reward_of(other, obs[3:]))


@pytest.mark.parametrize("memory", [False, True])
def test_learn_takes_nothing_from_masked_steps(memory):
    predictors = []
    for junk in (0.0, 100.0):
        torch.manual_seed(1)
        ppo, rnd = make(RNDConfig(), memory)
        obs, valid = torch.randn(T + 1, N, D), torch.rand(T, N) < 0.7
        obs[:-1][~valid] += junk
        collect(ppo, obs, valid)
        ppo.update()
        predictors.append(copy.deepcopy((rnd.predictor.state_dict(), rnd.state_normalizer.state_dict())))
    for ours, theirs in zip(*predictors):
        for name, value in ours.items():
            torch.testing.assert_close(theirs[name], value)


def test_learn_without_unmasked_samples_changes_nothing():
    _, rnd = make()
    before = copy.deepcopy(rnd.state_dict())
    for mask, obs in ((torch.zeros(4, 1), torch.randn(4, D)), (torch.ones(4, 1), torch.full((4, D), torch.nan))):
        rnd.learn(MiniBatch({"policy": obs}, {"sample_mask": mask}))
    for ours, theirs in zip(flat(before), flat(rnd.state_dict())):
        assert torch.equal(ours, theirs)


def flat(state):
    """All tensors in a nested state."""
    if isinstance(state, torch.Tensor):
        return [state]
    if isinstance(state, (dict, list, tuple)):
        return [x for item in (state.values() if isinstance(state, dict) else state) for x in flat(item)]
    return []


def test_learn_makes_seen_observations_less_novel_than_unseen_ones():
    _, rnd = make()
    target = copy.deepcopy(rnd.target.state_dict())
    seen, unseen = torch.randn(64, D) + 2.0, torch.randn(64, D) - 2.0
    before = reward_of(rnd, seen).mean(), reward_of(rnd, unseen).mean()
    batch = MiniBatch({"policy": seen}, {"sample_mask": torch.ones(64, 1)})
    losses = [rnd.learn(batch)["rnd_loss"].item() for _ in range(300)]
    assert losses[-1] < 0.01 * losses[0]
    assert reward_of(rnd, seen).mean() < 0.1 * before[0] and reward_of(rnd, unseen).mean() > 0.3 * before[1]
    assert all(torch.equal(value, target[name]) for name, value in rnd.target.state_dict().items())


def test_learn_is_a_step_of_torchs_adam_on_the_mean_squared_error():
    _, rnd = make(replace(PLAIN, learning_rate=0.01))
    predictor = copy.deepcopy(rnd.predictor)
    for parameter in predictor.parameters():
        parameter.grad = None
    adam = torch.optim.Adam(predictor.parameters(), lr=0.01)
    for _ in range(3):
        obs = 10 * torch.randn(16, D)
        loss = torch.nn.functional.mse_loss(predictor(obs), rnd.target(obs))
        adam.zero_grad()
        loss.backward()
        adam.step()
        metrics = rnd.learn(MiniBatch({"policy": obs}, {"sample_mask": torch.ones(16, 1)}))
        torch.testing.assert_close(metrics["rnd_loss"], loss.detach())
    for a, b in zip(rnd.predictor.parameters(), predictor.parameters()):
        torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize(
    ("settings", "weights"),
    [
        ({}, {1: 2.0, 100: 2.0}),
        ({"weight_schedule": "step", "final_step": 5, "final_weight": 0.5}, {1: 2.0, 4: 2.0, 5: 0.5, 99: 0.5}),
        (
            {"weight_schedule": "linear", "initial_step": 10, "final_step": 20, "final_weight": 0.0},
            {1: 2.0, 10: 2.0, 15: 1.0, 19: 0.2, 20: 0.0, 21: 0.0},
        ),
        (
            {"weight_schedule": "linear", "initial_step": 0, "final_step": 4, "final_weight": 4.0},
            {1: 2.5, 2: 3.0, 4: 4.0, 5: 4.0},
        ),
    ],
)
def test_scheduled_weight_follows_the_schedule(settings, weights):
    cfg = RNDConfig(weight=2.0, **settings)
    assert {step: pytest.approx(scheduled_weight(cfg, step)) for step in weights} == weights


def test_weight_is_that_of_the_control_steps_taken():
    cfg = replace(PLAIN, weight_schedule="linear", final_step=2 * T, final_weight=0.0)
    ppo, _ = make(cfg)
    obs = torch.randn(T + 1, N, D)
    obs[:] = obs[0]
    rewards = collect(ppo, obs).mean(dim=1).squeeze(-1)
    expected = rewards[0] * (2 * T - torch.arange(1, T + 1)) / (2 * T - 1)
    torch.testing.assert_close(rewards, expected)
    assert ppo.update().metrics["rnd_weight"].item() == pytest.approx(0.5)


@settings(max_examples=25)
@given(st.lists(st.lists(st.floats(0, 10, width=32), min_size=3, max_size=3), min_size=1, max_size=6))
def test_reward_normalizer_divides_by_the_deviation_of_all_discounted_sums(rewards):
    normalizer, sums, seen = RewardNormalizer(0.9), torch.zeros(3), []
    for row in torch.tensor(rewards):
        sums = 0.9 * sums + row
        seen.append(sums)
        deviation = torch.cat(seen).double().std(unbiased=False).float()
        ours = normalizer(row.unsqueeze(1), torch.ones(3, 1)).squeeze(1)
        if deviation > 1e-3:
            torch.testing.assert_close(ours, row / deviation, atol=1e-3, rtol=1e-3)
        assert ours.isfinite().all()


def test_state_normalizer_changes_after_the_update_alone():
    ppo, rnd = make(RNDConfig())
    obs = 3.0 + 2.0 * torch.randn(T + 1, N, D)
    collect(ppo, obs)
    assert rnd.state_normalizer.count == 0
    ppo.update()
    rows = obs[:-1].flatten(0, 1)
    torch.testing.assert_close(rnd.state_normalizer.mean, rows.mean(dim=0))
    torch.testing.assert_close(rnd.state_normalizer.var, rows.var(dim=0, unbiased=False))


@pytest.mark.parametrize("memory", [False, True])
def test_state_dict_goes_on_bit_by_bit(memory):
    cfg = RNDConfig(weight_schedule="linear", final_step=100)
    ppo, _ = make(cfg, memory)
    for _ in range(2):
        collect(ppo)
        ppo.update()
    other, _ = make(cfg, memory)
    other.load_state_dict(copy.deepcopy(ppo.state_dict()))
    other.set_hidden_states(ppo.get_hidden_states())
    found = []
    for alg in (ppo, other):
        torch.manual_seed(5)
        rewards = collect(alg)
        metrics = alg.update().metrics
        found.append([rewards, *metrics.values(), *flat(alg.state_dict())])
    assert len(found[0]) > 60 and all(torch.equal(a, b) for a, b in zip(*found))


def test_state_dict_of_other_networks_is_refused():
    rnd = RandomNetworkDistillation(PLAIN, D)
    with pytest.raises(RuntimeError, match="size mismatch"):
        rnd.load_state_dict(RandomNetworkDistillation(replace(PLAIN, num_outputs=3), D).state_dict())


def test_reward_with_another_number_of_environments_starts_sums_anew():
    rnd = RandomNetworkDistillation(RNDConfig(), D)
    reward_of(rnd, torch.randn(4, D))
    assert reward_of(rnd, torch.randn(7, D)).shape == (7, 1)


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        (
            ("polcy",),
            r"RNDConfig.groups names 'polcy', and the environment gives camera, policy\. Did you mean 'policy'",
        ),
        (("policy", "camera"), r"'camera' has the shape \[2, 1, 8, 16\]; give vectors"),
    ],
)
def test_from_env_with_groups_that_do_not_fit_is_refused(small_cfg, groups, message):
    cfg = replace(small_cfg, extensions=(RNDConfig(groups=groups),))
    with pytest.raises(ValueError, match=message):
        PPO.from_env(cfg, CameraEnv(CameraConfig(num_envs=2)), "cpu")


def test_from_env_stores_groups_that_the_policy_does_not_read(small_cfg):
    env = CameraEnv(CameraConfig(num_envs=4))
    policy = ActorCriticConfig(actor_hidden_dims=(8,), critic_hidden_dims=(8,), actor_groups=("camera",))
    cfg = replace(small_cfg, policy=policy, extensions=(RNDConfig(groups=("policy",)),))
    runner = OnPolicyRunner(env, cfg)
    runner.learn(1)
    assert set(runner.alg.storage.groups) == {"camera", "policy"}


class Breaking(PointEnv):
    """One environment shows an observation that is not a number after step 3."""

    steps = 0

    def step(self, actions):
        result = super().step(actions)
        self.steps += 1
        if self.steps == 3:
            rows = torch.arange(self.num_envs).unsqueeze(1)
            result.obs["policy"] = result.obs["policy"].masked_fill(rows == 1, torch.nan)
        return result


def test_runner_with_a_broken_environment_keeps_rewards_and_predictor_finite(small_cfg):
    runner = OnPolicyRunner(Breaking(ToyConfig(num_envs=8)), replace(small_cfg, extensions=(RNDConfig(),)))
    runner.env.steps = 0
    records = []
    runner.write = records.append
    runner.learn(2)
    assert records[0]["faults/observation"] == 1 and records[0]["excluded_steps"] == 2
    assert all(torch.isfinite(x).all() for x in flat(runner.alg.extensions.state_dict()))
    assert all(0 < record["intrinsic_reward"] < 100 and record["rnd_loss"] > 0 for record in records)
