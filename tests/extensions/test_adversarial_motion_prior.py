import copy
import math
from dataclasses import replace

import pytest
import torch
from drift_env import STYLES, DriftEnv

from rsl_rl.algorithms.ppo import PPO
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.extensions import AMPConfig
from rsl_rl.config.learn import LearnConfig, RunnerConfig
from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.distributed.collective import Collective
from rsl_rl.extensions import AdversarialMotionPrior
from rsl_rl.extensions.adversarial_motion_prior import style_reward
from rsl_rl.modules.policy import ActorCritic
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.storage.rollout import Transition
from tests.learners import ppo_of

T, N, D, A = 5, 8, 3, 2
CFG = AMPConfig(replay_size=64, hidden_dims=(16,), replay_share=0.5, weight=0.3)
NETS = {"actor_hidden_dims": (16,), "critic_hidden_dims": (16,)}
LEARN = LearnConfig(
    policy=ActorCriticConfig(**NETS, init_noise_std=0.5),
    algorithm=PPOConfig(entropy_coef=0.0),
    runner=RunnerConfig(num_steps_per_env=16, max_iterations=40, save_interval=1000),
    extensions=(
        AMPConfig({style: ("a clip",) for style in STYLES}, source="drift_env:drifts", weight=0.5, learning_rate=1e-3),
    ),
)


def demonstrations(seed=0, styles=("trot",)):
    generator = torch.Generator().manual_seed(seed)
    return {style: [torch.randn(10, D, generator=generator) for _ in range(2)] for style in styles}


def make(cfg=CFG, **settings):
    policy = ActorCritic(D, D, A, **NETS)
    amp = AdversarialMotionPrior(cfg, demonstrations())
    settings = {"num_mini_batches": 2, "num_learning_epochs": 2, **settings}
    return ppo_of(policy, N, T, {"policy": D, "style": D}, [amp], **settings), amp


def collect(ppo, obs, done=None):
    """Collect a rollout over observations [T + 1, N, D] with rewards of zero; return the stored rewards."""
    ppo.begin_rollout()
    for t in range(T):
        ppo.act({"policy": obs[t], "style": obs[t]})
        ended = torch.zeros(N, dtype=torch.bool) if done is None else done[t]
        ppo.process_env_step(torch.zeros(N), ended, {}, {"policy": obs[t + 1], "style": obs[t + 1]})
    rewards = ppo.storage.columns["rewards"].clone()
    ppo.compute_returns({"policy": obs[-1], "style": obs[-1]})
    return rewards


def test_reward_is_that_of_least_squares():
    scores = torch.tensor([1.0, 0.0, -1.0, 3.0, -5.0, 2.0])
    torch.testing.assert_close(style_reward(scores), torch.tensor([1.0, 0.75, 0.0, 0.0, 0.0, 0.75]))


def test_reward_of_a_step_is_that_of_the_transition_and_none_where_an_episode_ends():
    ppo, amp = make()
    obs, done = torch.randn(T + 1, N, D), torch.zeros(T, N, dtype=torch.bool)
    done[2, 3] = True
    with torch.no_grad():
        expected = 0.3 * style_reward(amp.discriminator(torch.cat((obs[:-1], obs[1:]), dim=-1) / 1.01))
    expected[2, 3] = 0.0  # before any statistics the normaliser divides by 1 + eps
    torch.testing.assert_close(collect(ppo, obs, done), expected)
    assert ppo.update().metrics["style_reward"].item() == pytest.approx(expected.mean().item(), rel=1e-5)


def test_a_step_in_which_the_style_changes_gives_no_reward_and_does_not_count():
    ppo, amp = make(replace(CFG, style_size=1, replay_share=0.0))
    obs = torch.randn(T + 1, N, D)
    obs[..., -1] = 1.0
    obs[3:, 2, -1] = 0.0  # robot 2 gets another style in the third step
    rewards = collect(ppo, obs)
    assert rewards[2, 2] == 0.0 and (rewards != 0).sum() > 30
    assert amp.num_stored > 0 and ppo.storage.columns["amp_weight"].sum() == T * N - 1


def test_ranks_draw_different_transitions_after_they_have_joined():
    _, first = make()
    _, second = make()
    second.collective = SecondRank()
    second.load_state_dict(copy.deepcopy(first.state_dict()))
    draws = [amp._drawn(amp.demonstrated, amp._shares, 64) for amp in (first, second)]
    assert not torch.equal(*draws)


class SecondRank(Collective):
    rank = 1


def test_loss_is_the_sum_of_squares_and_the_penalty_of_the_gradient():
    """Of a linear discriminator a x + b: the gradient at every transition is a."""
    ppo, amp = make(replace(CFG, hidden_dims=(), replay_share=0.0, gradient_penalty=4.0))
    collect(ppo, torch.randn(T + 1, N, D))
    columns = ppo.storage.columns
    weight, bias = copy.deepcopy(list(amp.discriminator.parameters()))
    scale = (amp.normalizer.var.sqrt() + amp.normalizer.eps).repeat(2)
    mean = amp.normalizer.mean.repeat(2)

    def scores(name):
        return ((columns[name].flatten(0, 1) - mean) / scale) @ weight.detach().T + bias.detach()

    own, theirs = scores("amp_policy"), scores("amp_demonstrated")
    batches = ppo.storage.batches
    batch = batches.gather(next(iter(batches.shuffled(1, 1))))
    metrics = amp.learn(batch)
    loss = ((theirs - 1).square().mean() + (own + 1).square().mean()) / 2
    assert metrics["amp_loss"].item() == pytest.approx(loss.item(), rel=1e-5)
    assert metrics["amp_gradient_penalty"].item() == pytest.approx(weight.square().sum().item(), rel=1e-5)
    assert metrics["amp_policy_score"].item() == pytest.approx(own.mean().item(), rel=1e-4, abs=1e-6)
    step = next(iter(amp.discriminator.parameters())) - weight
    x_own, x_theirs = ((columns[name].flatten(0, 1) - mean) / scale for name in ("amp_policy", "amp_demonstrated"))
    gradient = ((theirs - 1) * x_theirs).mean(0) + ((own + 1) * x_own).mean(0) + 4.0 * weight[0].detach()
    assert torch.equal(step[0].sign(), -gradient.sign())  # the first step of Adam is the sign of the gradient


def test_discriminator_learns_to_tell_transitions_apart_and_from_the_next_state():
    """The states of both kinds are alike; only their order in time differs."""
    states = torch.linspace(-1, 1, 30).unsqueeze(1).repeat(1, D)
    amp = AdversarialMotionPrior(replace(CFG, learning_rate=1e-2, gradient_penalty=0.1), {"rising": [states]})
    policy = ActorCritic(D, D, A, **NETS)
    ppo = ppo_of(policy, N, T, {"policy": D, "style": D}, [amp], num_mini_batches=2, num_learning_epochs=4)
    falling = torch.linspace(0.5, -0.5, T + 1).view(-1, 1, 1) * torch.ones(1, N, D)
    for _ in range(20):
        collect(ppo, falling + 0.4 * torch.randn(1, N, 1))
        metrics = ppo.update().metrics
    assert metrics["amp_demonstrated_score"] > 0.5 and metrics["amp_policy_score"] < -0.5


def test_replay_holds_earlier_transitions_and_replaces_a_share_of_the_new_ones():
    ppo, amp = make(replace(CFG, replay_share=0.5, replay_size=10_000))
    for value in (1.0, 2.0):
        collect(ppo, torch.full((T + 1, N, D), value))
        ppo.update()
    columns = ppo.storage.columns
    values = columns["amp_policy"][..., 0]
    share = (values == 1.0).float().mean().item()
    assert set(values.unique().tolist()) == {1.0, 2.0} and 0.05 < share < 0.5  # half of the replaced half
    assert torch.equal(columns["amp_weight"], torch.ones(T, N, 1))
    assert amp.num_stored == 2 * T * N


def test_replay_takes_no_transition_over_the_end_of_an_episode():
    ppo, amp = make(replace(CFG, replay_size=10_000))
    obs, done = torch.zeros(T + 1, N, D), torch.zeros(T, N, dtype=torch.bool)
    obs[3:], done[2] = 7.0, True
    collect(ppo, obs, done)
    stored = amp.replayed[: amp.num_stored]
    assert torch.equal(stored[:, :D], stored[:, D:])  # none leads from 0 to 7


def test_styles_and_their_clips_are_drawn_equally_often_whatever_their_length():
    long = {"long": [torch.full((2001, D), 1.0)], "short": [torch.full((3, D), 2.0), torch.full((100, D), 3.0)]}
    amp = AdversarialMotionPrior(CFG, long)
    drawn = amp._drawn(amp.demonstrated, amp._shares, 4000)  # private: what mini-batches are made of
    for value, share in ((1.0, 0.5), (2.0, 0.25), (3.0, 0.25)):
        assert (drawn[:, 0] == value).float().mean().item() == pytest.approx(share, abs=4 * math.sqrt(0.25 / 4000))


def trained(cfg, iterations, seed=3):
    torch.manual_seed(seed)
    runner = OnPolicyRunner(DriftEnv(), cfg)
    runner.learn(iterations)
    return runner


def test_weight_of_zero_changes_no_bit_of_the_training():
    silent = replace(LEARN.extensions[0], weight=0.0)
    plain = trained(replace(LEARN, extensions=()), 3).alg.state_dict()
    with_amp = trained(replace(LEARN, extensions=(silent,)), 3).alg.state_dict()
    for name, value in plain["model_state_dict"].items():
        assert torch.equal(value, with_amp["model_state_dict"][name])


def test_policy_learns_the_style_that_it_is_asked_for():
    runner = trained(LEARN, 40)
    env, policy = DriftEnv(), runner.get_inference_policy()
    with torch.no_grad():
        for _ in range(5):
            env.step(policy(env.get_observations()))
    east = env.asked[:, 0] > 0
    assert (env.moved[east, 0] > 0.5).all() and (env.moved[~east, 0] < -0.5).all()
    assert env.moved[:, 1].abs().mean() < 0.4


def test_checkpoint_restores_everything_that_the_next_update_depends_on():
    torch.manual_seed(0)
    ppo, amp = make()
    collect(ppo, torch.randn(T + 1, N, D))
    ppo.update()
    other = AdversarialMotionPrior(CFG, demonstrations())
    other.load_state_dict(copy.deepcopy(amp.state_dict()))
    rollout = torch.randn(T + 1, N, D)
    results = []
    for one in (amp, other):
        torch.manual_seed(1)
        twin = ppo_of(ActorCritic(D, D, A, **NETS), N, T, {"policy": D, "style": D}, [one], num_mini_batches=2)
        results.append((collect(twin, rollout), twin.update().metrics, one.state_dict()))
    (rewards, metrics, state), (rewards_2, metrics_2, state_2) = results
    assert torch.equal(rewards, rewards_2)
    assert all(torch.equal(metrics[name], metrics_2[name]) for name in metrics)
    assert torch.equal(state["replayed"], state_2["replayed"]) and state["num_stored"] == state_2["num_stored"]


def test_checkpoint_loads_into_a_buffer_of_another_size():
    ppo, amp = make(replace(CFG, replay_size=64))
    for _ in range(20):
        collect(ppo, torch.randn(T + 1, N, D))
        ppo.update()
    small = AdversarialMotionPrior(replace(CFG, replay_size=16), demonstrations())
    small.load_state_dict(amp.state_dict())
    assert torch.equal(small.replayed, amp.replayed[:16]) and small.num_stored >= 16
    large = AdversarialMotionPrior(replace(CFG, replay_size=100), demonstrations())
    large.load_state_dict(amp.state_dict())
    assert torch.equal(large.replayed[:64], amp.replayed) and large.num_stored == 64


def test_unusable_settings_say_what_to_give():
    env = DriftEnv()
    policy = ActorCritic(4, 4, 2, **NETS)

    def build(**changes):
        return replace(LEARN.extensions[0], **changes).build(env, policy, "cpu")

    with pytest.raises(ValueError, match=r"AMPConfig.group names 'styel', and the environment gives policy, style"):
        build(group="styel")
    with pytest.raises(ValueError, match=r"states \[1, 4\]; the group 'style' needs \[frames, 4\] with at least 2"):
        build(source="drift_env:one_frame")
    with pytest.raises(ValueError, match="names no clips"):
        build(motions={})
    with pytest.raises(ValueError, match=r"AMPConfig.replay_share=2.0 must lie in \[0, 1\]|replay_share"):
        AMPConfig(replay_share=2.0)
    assert isinstance(PPO.from_env(LEARN, env, "cpu").extensions.all[0], AdversarialMotionPrior)


def test_reward_marks_masked_steps():
    amp = AdversarialMotionPrior(CFG, demonstrations())
    columns = {name: torch.zeros(2, column.size) for name, column in amp.columns.items()}
    columns["sample_mask"] = torch.tensor([[1.0], [0.0]])
    obs = {"style": torch.zeros(2, D)}
    reward = amp.reward(Transition(obs, columns), obs, torch.zeros(2, 1, dtype=torch.bool))
    assert reward[0] != 0 and reward[1] == 0 and columns["amp_weight"].flatten().tolist() == [1.0, 0.0]
