import copy
from dataclasses import replace

import pytest
import torch

from configs import EXPERIMENTS
from rsl_rl.algorithms.losses import adapt_learning_rate
from rsl_rl.algorithms.ppo import PPO
from rsl_rl.config.learn import AccelerationConfig
from rsl_rl.modules.distributions import Categorical
from rsl_rl.modules.policy import ActorCritic, ActorCriticRecurrent
from rsl_rl.storage.returns import gae
from rsl_rl.storage.rollout import GroupSpec
from rsl_rl.utils.trajectories import as_states
from tests.learners import ppo_of

T, N, D, C, A = 6, 8, 3, 4, 2
NETS = {"actor_hidden_dims": (16,), "critic_hidden_dims": (16,), "critic_groups": ("critic",)}


def make(recurrent=None, policy=None, fused=True, **settings) -> PPO:
    policy = {**NETS, **(policy or {})}
    if recurrent:
        net = ActorCriticRecurrent(D, C, A, rnn_type=recurrent, rnn_hidden_size=5, **policy)
    else:
        net = ActorCritic(D, C, A, **policy)
    settings = {"num_mini_batches": 2, "num_learning_epochs": 3, **settings}
    acceleration = AccelerationConfig(fused=fused)
    return ppo_of(net, N, T, {"policy": D, "critic": C}, acceleration=acceleration, **settings)


def observe():
    return {"policy": torch.randn(N, D), "critic": torch.randn(N, C)}


def collect(ppo: PPO, done_rate: float = 0.2, invalid_rate: float = 0.0) -> None:
    for _ in range(T):
        ppo.act(observe())
        extras, dones = {"time_outs": torch.rand(N) < 0.5}, torch.rand(N) < done_rate
        if invalid_rate > 0.0:
            extras["valid"] = torch.rand(N) >= invalid_rate
            dones |= ~extras["valid"]
        ppo.process_env_step(torch.randn(N), dones, extras)
    ppo.compute_returns(observe())


def test_act_with_a_buffer_refreshed_in_place_stores_the_observation_acted_on():
    ppo = make()
    obs, critic_obs = torch.zeros(N, D), torch.zeros(N, C)
    for t in range(T):
        obs.fill_(t)
        ppo.act({"policy": obs, "critic": critic_obs})
        obs.fill_(t + 0.5)  # the environment refreshes its buffer in place
        ppo.process_env_step(torch.zeros(N), torch.zeros(N), {})
    assert ppo.storage.groups["policy"][:, 0, 0].tolist() == list(range(T))


def test_time_out_with_final_obs_is_credited_with_its_value():
    ppo = make(gamma=0.9)
    ppo.act(observe())
    final = observe()
    time_outs = torch.arange(N) < 3
    dones = torch.arange(N) < 5
    ppo.process_env_step(torch.ones(N), dones, {"time_outs": time_outs, "final_obs": final})
    value = ppo.policy.evaluate(final).detach()[:, 0]
    torch.testing.assert_close(ppo.storage.columns["rewards"][0, :, 0], 1 + 0.9 * value * (torch.arange(N) < 3))


def test_time_out_without_final_obs_is_credited_once_with_the_value_acted_on():
    ppo = make(gamma=0.9)
    ppo.act(observe())
    ppo.process_env_step(torch.zeros(N), torch.ones(N), {"time_outs": torch.ones(N, 1)})
    for _ in range(2):  # estimating the returns again credits nothing twice
        ppo.compute_returns(observe())
        torch.testing.assert_close(ppo.storage.columns["rewards"][0], 0.9 * ppo.storage.columns["values"][0])
    assert (ppo.storage.columns["values"][0] != 0).all()


@pytest.mark.parametrize("recurrent", [None, "gru", "lstm"])
@pytest.mark.parametrize("normalized", [False, True])
def test_first_probability_ratio_of_an_update_is_one(recurrent, normalized):
    ppo = make(recurrent, {"actor_obs_normalization": normalized, "critic_obs_normalization": normalized})
    for _ in range(2):  # the second rollout meets statistics and weights that have moved
        collect(ppo)
        for indices in ppo.storage.batches.shuffled(2, 1):
            batch = ppo.storage.batches.gather(indices)
            actor_state, critic_state = batch.hidden_states
            log_prob = ppo.policy.update_distribution(batch.groups, batch.masks, actor_state).log_prob(
                batch.columns["actions"]
            )
            torch.testing.assert_close(log_prob, batch.columns["actions_log_prob"], atol=2e-6, rtol=1e-5)
            values = ppo.policy.evaluate(batch.groups, batch.masks, critic_state)
            torch.testing.assert_close(values, batch.columns["values"], atol=1e-6, rtol=1e-5)
        ppo.update()


def test_update_adds_the_rollout_to_the_normalizers_once():
    ppo = make(policy={"actor_obs_normalization": True})
    collect(ppo)
    assert ppo.policy.actor_obs_normalizer.count == 0
    data = ppo.storage.groups["policy"].flatten(0, 1).clone()
    ppo.update()
    assert ppo.policy.actor_obs_normalizer.count == T * N
    torch.testing.assert_close(ppo.policy.actor_obs_normalizer.mean, data.mean(dim=0))


@pytest.mark.parametrize("recurrent", [None, "lstm"])
def test_update_leaves_the_rollout_unchanged_and_returns_its_metrics(recurrent):
    ppo = make(recurrent)
    collect(ppo)
    before = {name: column.clone() for name, column in ppo.storage.columns.items()}
    metrics, steps_taken, steps_skipped = ppo.update()
    assert all(torch.equal(before[name], column) for name, column in ppo.storage.columns.items())
    assert ppo.storage.step == 0 and steps_taken == 6 and steps_skipped == 0
    losses = {"surrogate_loss", "value_loss", "entropy", "kl", "learning_rate", "noise_std"}
    assert set(metrics) == losses | {"skipped_steps"}


def test_gradient_norms_by_default_are_clipped_for_actor_and_critic_separately():
    ppo = make(max_grad_norm=1e-3, num_mini_batches=1, num_learning_epochs=1)
    collect(ppo)
    ppo.update()
    named = dict(ppo.policy.named_parameters())
    critic = [p for name, p in named.items() if name.startswith("critic.")]
    actor = [p for name, p in named.items() if not name.startswith("critic.")]
    for parameters in (actor, critic):
        norm = torch.stack([p.grad.norm() for p in parameters]).norm()
        assert norm.item() == pytest.approx(1e-3, rel=1e-2)


@pytest.mark.parametrize("recurrent", ["gru", "lstm"])
def test_recurrent_states_change_by_acting_and_dones_only(recurrent):
    ppo = make(recurrent)
    collect(ppo)

    def memories():
        return [s.clone() for state in ppo.policy.get_hidden_states() for s in as_states(state)]

    before = memories()
    ppo.compute_returns(observe())
    ppo.update()
    twin = ppo.policy.snapshot()
    twin.act_inference(torch.randn(N, D))
    assert all(torch.equal(a, b) for a, b in zip(before, memories()))
    ppo.act(observe())
    acted = memories()
    assert not any(torch.equal(a, b) for a, b in zip(before, acted))
    dones = torch.arange(N) < 3
    ppo.process_env_step(torch.zeros(N), dones, {"time_outs": dones, "final_obs": observe()})
    for after, old in zip(memories(), acted):
        assert (after[:, :3] == 0).all() and torch.equal(after[:, 3:], old[:, 3:])


def test_fixed_schedule_keeps_the_learning_rate():
    ppo = make(schedule="fixed", learning_rate=3e-4)
    collect(ppo)
    assert ppo.update().metrics["learning_rate"].item() == pytest.approx(3e-4)


def test_fixed_schedule_without_desired_kl_learns_with_a_constant_learning_rate():
    ppo = make(schedule="fixed", desired_kl=None, learning_rate=3e-4)
    before = [p.clone() for p in ppo.policy.parameters()]
    for _ in range(2):
        collect(ppo)
        metrics = ppo.update().metrics
        assert metrics["learning_rate"].item() == pytest.approx(3e-4) and metrics["kl"] > 0
    assert not any(torch.equal(p, q) for p, q in zip(ppo.policy.parameters(), before))
    with pytest.raises(ValueError, match="desired_kl=None: the adaptive schedule needs a target"):
        make(schedule="adaptive", desired_kl=None)


def test_linear_schedule_falls_to_zero_with_the_progress_of_the_training():
    ppo = make(schedule="linear", desired_kl=None, learning_rate=4e-4)
    for progress in (0.0, 0.5, 0.75):
        ppo.progress = progress
        collect(ppo)
        assert ppo.update().metrics["learning_rate"].item() == pytest.approx(4e-4 * (1 - progress))


@pytest.mark.parametrize("recompute", [True, False])
def test_recomputed_advantages_are_those_of_the_critic_before_each_epoch(recompute):
    ppo = make(recompute_advantages=recompute, num_learning_epochs=2, num_mini_batches=1, schedule="fixed")
    collect(ppo)
    last_obs, columns, seen, backward = observe(), ppo.storage.columns, [], ppo.learner.backward
    ppo.compute_returns(last_obs)

    def record(*args):
        with torch.no_grad():
            values, last = ppo.policy.evaluate(ppo.storage.groups), ppo.policy.evaluate(last_obs)
        expected = gae(columns["rewards"], values, last, columns["dones"], ppo.cfg.gamma, ppo.cfg.lam)
        seen.append(torch.allclose(columns["returns"], expected + values, atol=1e-5))
        return backward(*args)

    ppo.learner.backward = record
    ppo.update()
    assert seen == [True, recompute]


def test_recomputing_advantages_of_a_critic_with_memory_is_refused():
    with pytest.raises(ValueError, match="recompute_advantages=True is for critics without memory"):
        make("gru", recompute_advantages=True)


def test_adaptive_schedule_follows_the_kl_of_each_mini_batch():
    ppo = make(num_mini_batches=1, num_learning_epochs=4, desired_kl=1e-4)
    collect(ppo)
    rates = [torch.tensor(1e-3)]
    backward = ppo.learner.backward

    def record(*args):
        terms = backward(*args)
        rates.append(adapt_learning_rate(rates[-1], terms[3], ppo.cfg.desired_kl))
        return terms

    ppo.learner.backward = record
    assert ppo.update().metrics["learning_rate"].item() == pytest.approx(rates[-1].item(), rel=1e-5)
    assert rates[-1] < 1e-3


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("max_grad_norm", [1e-3, 0.05, 1e3])
def test_joint_grad_norm_clips_one_norm_over_all_parameters(max_grad_norm, fused):
    """The gradients are those without clipping, all scaled by the same factor."""
    settings = {"num_mini_batches": 1, "num_learning_epochs": 1, "schedule": "fixed", "fused": fused}
    clipped = make(joint_grad_norm=True, max_grad_norm=max_grad_norm, **settings)
    free = make(max_grad_norm=1e9, **settings)
    free.policy.load_state_dict(clipped.policy.state_dict())
    for ppo in (clipped, free):
        torch.manual_seed(2)
        collect(ppo)
        ppo.update()
    gradients = [p.grad for p in free.policy.parameters()]
    norm = torch.stack([g.norm() for g in gradients]).norm()
    factor = min(1.0, max_grad_norm / norm.item())
    assert (factor < 1.0) == (max_grad_norm < 1.0)
    for p, g in zip(clipped.policy.parameters(), gradients):
        torch.testing.assert_close(p.grad, factor * g, atol=1e-7, rtol=1e-4)


@pytest.mark.parametrize("recurrent", [None, "gru"])
@pytest.mark.parametrize("settings", [{}, {"unroll_len": 4, "last_fn_type": "last", "burn_in": 1}], ids=["", "chunks"])
@pytest.mark.parametrize("fused", [True, False])
def test_normalize_advantage_per_mini_batch_equals_a_naive_computation(recurrent, settings, fused):
    if settings and not recurrent:
        pytest.skip("chunks are for policies with memory")
    ppo = make(recurrent, fused=fused, normalize_advantage_per_mini_batch=True, **settings)
    collect(ppo, invalid_rate=0.2)
    batches, columns = ppo.storage.batches, ppo.storage.columns
    raw = (columns["returns"] - columns["values"]).clone()
    torch.testing.assert_close(columns["advantages"], raw * columns["sample_mask"])  # not normalised over the rollout
    gathered, seen = [], []
    gather, backward = batches.gather, ppo.learner.backward
    batches.gather = lambda indices: gathered.append(gather(indices)) or gathered[-1]
    ppo.learner.backward = lambda *args: seen.append(args[2]) or backward(*args)
    ppo.update()
    assert len(gathered) == len(seen) == 6
    for before, batch in zip(gathered, seen):
        advantages = [
            a
            for a, weight in zip(before.columns["advantages"].flatten().tolist(), before.sample_mask.flatten().tolist())
            if weight
        ]
        mean = sum(advantages) / len(advantages)
        std = (sum((a - mean) ** 2 for a in advantages) / (len(advantages) - 1)) ** 0.5
        got = batch.columns["advantages"][batch.sample_mask > 0].tolist()
        assert got == pytest.approx([(a - mean) / (std + 1e-8) for a in advantages], abs=1e-5, rel=1e-4)
        assert len(advantages) < before.sample_mask.numel()  # some are masked


# The average of weights


@pytest.mark.parametrize("recurrent", [None, "lstm"])
@pytest.mark.parametrize("decay", [0.3, 0.95])
def test_ema_decay_averages_weights_as_a_naive_loop(recurrent, decay):
    norm = {"actor_obs_normalization": True}
    ppo = make(recurrent, norm, ema_decay=decay)
    expected = {name: p.detach().clone() for name, p in ppo.policy.named_parameters()}
    for t in range(1, 6):
        collect(ppo)
        ppo.update()
        d = min(decay, (1 + t) / (10 + t))
        for name, p in ppo.policy.named_parameters():
            expected[name] = d * expected[name] + (1 - d) * p.detach()
        average = ppo.inference_policy
        assert average is not ppo.policy and not average.training
        for name, p in average.named_parameters():
            torch.testing.assert_close(p, expected[name], atol=1e-6, rtol=1e-5)
            assert not torch.equal(p, ppo.policy.get_parameter(name)) and not p.requires_grad
        assert torch.equal(average.actor_obs_normalizer.mean, ppo.policy.actor_obs_normalizer.mean)
    obs = torch.randn(N, D)
    ppo.policy.reset()
    assert not torch.equal(ppo.inference_policy.act_inference(obs), ppo.policy.act_inference(obs))


def test_ema_decay_of_zero_makes_the_trained_policy_the_inference_policy():
    ppo = make()
    assert ppo.inference_policy is ppo.policy and "average" not in ppo.state_dict()


def test_ema_average_loaded_from_a_state_dict_continues_equally():
    ppo, other = (make(ema_decay=0.9) for _ in range(2))
    for _ in range(3):
        collect(ppo)
        ppo.update()
    other.load_state_dict(copy.deepcopy(ppo.state_dict()))
    for _ in range(2):
        for name, p in ppo.inference_policy.state_dict().items():
            assert torch.equal(other.inference_policy.state_dict()[name], p), name
        for each in (ppo, other):
            torch.manual_seed(5)
            collect(each)
            each.update()


def test_ema_average_of_a_state_dict_without_one_starts_at_its_weights():
    plain, ppo = make(), make(ema_decay=0.9)
    collect(plain)
    plain.update()
    ppo.load_state_dict(plain.state_dict())
    for p, q in zip(ppo.inference_policy.parameters(), plain.policy.parameters()):
        assert torch.equal(p, q)


def test_ema_average_while_collecting_does_not_change():
    ppo = make(ema_decay=0.9)
    before = copy.deepcopy(ppo.inference_policy.state_dict())
    collect(ppo)
    assert all(torch.equal(before[name], p) for name, p in ppo.inference_policy.state_dict().items())


# Transfer of states between implementations


@pytest.mark.parametrize("fused", [True, False])
def test_state_dict_of_the_other_optimizer_is_loaded_and_continues_equally(fused):
    ppo, other = make(fused=fused, schedule="fixed"), make(fused=not fused, schedule="fixed", learning_rate=1.0)
    collect(ppo)
    ppo.update()
    other.load_state_dict(copy.deepcopy(ppo.state_dict()))
    assert other.learning_rate == ppo.learning_rate == pytest.approx(1e-3)
    for each in (ppo, other):
        torch.manual_seed(5)
        collect(each)
        each.update()
    for p, q in zip(ppo.policy.parameters(), other.policy.parameters()):
        torch.testing.assert_close(q, p, atol=2e-5, rtol=0.0)  # float32 rounding, enlarged by Adam


def test_critic_that_reads_the_policy_group_learns_as_from_a_copy():
    weights = []
    for groups in ({"policy": D, "critic": D}, {"policy": D}):
        torch.manual_seed(5)
        policy = ActorCritic(D, D, A, **{**NETS, "critic_groups": tuple(groups)[-1:]})
        ppo = ppo_of(policy, N, T, groups, num_mini_batches=2)
        for _ in range(T):
            obs = torch.randn(N, D)
            ppo.act({"policy": obs, "critic": obs})
            ppo.process_env_step(torch.randn(N), torch.rand(N) < 0.2, {})
        obs = torch.randn(N, D)
        ppo.compute_returns({"policy": obs, "critic": obs})
        ppo.update()
        weights.append(list(ppo.policy.parameters()))
    assert list(ppo.storage.groups) == ["policy"]
    assert all(torch.equal(a, b) for a, b in zip(*weights))


def test_groups_that_the_storage_has_are_stored_once_and_others_are_not():
    settings = {"actor_groups": ("policy", "goal"), "critic_groups": ("policy",)}
    policy = ActorCritic(D + 5, D, A, **{**NETS, **settings})
    ppo = ppo_of(policy, N, T, {"policy": D, "goal": GroupSpec((5,))}, num_mini_batches=1)
    obs = {"policy": torch.randn(N, D), "goal": torch.randn(N, 5), "unread": torch.randn(N, 7)}
    ppo.act(obs)
    assert list(ppo.storage.groups) == ["policy", "goal"]
    assert all(torch.equal(group[0], obs[name]) for name, group in ppo.storage.groups.items())


@pytest.mark.parametrize("frozen", ["std", "actor", "critic"])
def test_frozen_parameters_do_not_change_and_others_do(frozen):
    ppo = make()
    for name, parameter in ppo.policy.named_parameters():
        parameter.requires_grad_(not name.startswith(frozen))
    before = {name: p.clone() for name, p in ppo.policy.named_parameters()}
    collect(ppo)
    ppo.update()
    for name, parameter in ppo.policy.named_parameters():
        assert torch.equal(parameter, before[name]) == name.startswith(frozen), name


def test_train_and_eval_mode_set_the_mode_of_the_policy():
    ppo = make()
    ppo.eval_mode()
    assert not ppo.policy.training
    ppo.train_mode()
    assert ppo.policy.training


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"gamma": 1.5}, r"gamma=1.5 must lie in \[0, 1\]"),
        ({"num_mini_batches": 0}, "num_mini_batches=0"),
        ({"schedule": "cosine"}, "schedule='cosine'; allowed: fixed, adaptive"),
        ({"clip_param": 0.0}, "clip_param=0.0 must be positive"),
        ({"entropy_coef": -1.0}, "entropy_coef=-1.0 must not be negative"),
        ({"unroll_len": -1}, "unroll_len=-1"),
        ({"unroll_len": 4}, "unroll_len=4 is for policies with memory; set it to 0"),
        ({"recurrent": "gru", "unroll_len": 7}, "unroll_len=7 exceeds the 6 steps of a rollout"),
        ({"last_fn_type": "first"}, "last_fn_type='first'; allowed: last, drop, null_padding"),
        ({"burn_in": 2}, "burn_in=2 has no effect without chunks; set unroll_len too"),
    ],
)
def test_ppo_with_invalid_settings_raises(settings, words):
    with pytest.raises(ValueError, match=words):
        make(**settings)


# Learning


def train(cfg, num_iterations, seed=0):
    """Train on a toy; return the algorithm, and the mean reward of each iteration's steps."""
    torch.manual_seed(seed)
    env = cfg.env.build(seed=seed + 1)
    ppo, obs, rewards = PPO.from_env(cfg, env, "cpu"), env.get_observations(), []
    for _ in range(num_iterations):
        total = 0.0
        for _ in range(cfg.runner.num_steps_per_env):
            obs, reward, done, extras = env.step(ppo.act(obs))
            ppo.process_env_step(reward, done, extras, obs)
            total += reward.mean().item()
        ppo.compute_returns(obs)
        assert ppo.update().metrics["skipped_steps"] == 0
        rewards.append(total / cfg.runner.num_steps_per_env)
    return ppo, rewards


def share_of_best_return(cfg, act):
    """Act without exploration on new points for an episode; return the reward as a share of the best possible."""
    env = replace(cfg.env, num_envs=200).build(seed=9)
    obs, total, best = env.get_observations(), 0.0, 0.0
    distance = env.x.view(200, -1)[:, 0].abs()
    for _ in range(env.max_episode_length - 1):  # the last step would show the next episode
        with torch.no_grad():
            obs, reward, _, _ = env.step(act(obs))
        total += reward.mean().item()
        distance = (distance - 0.2).clamp(min=0.0)
        best += (1.0 - distance).mean().item()
    return total / best


@pytest.mark.parametrize("fused", [True, False])
def test_categorical_policy_solves_choice(fused):
    cfg = replace(EXPERIMENTS.load("choice")(), acceleration=AccelerationConfig(fused=fused))
    ppo, rewards = train(cfg, 20)
    assert rewards[0] < 0.4 and rewards[-1] > 0.9  # guessing earns 0.25
    assert isinstance(ppo.policy.distribution, Categorical)
    env = cfg.env.build(seed=5)
    actions = ppo.inference_policy.act_inference(env.get_observations())
    assert actions.shape == (env.num_envs, 1) and actions.dtype == torch.int64
    assert env.step(actions).reward.mean() > 0.95


def test_policy_with_a_cnn_solves_camera():
    cfg = EXPERIMENTS.load("camera")()
    ppo, _ = train(cfg, 15)
    act = ppo.inference_policy.act_inference
    assert share_of_best_return(cfg, act) > 0.9
    assert share_of_best_return(cfg, lambda obs: act({**obs, "camera": torch.zeros_like(obs["camera"])})) < 0.5


@pytest.mark.parametrize(
    "policy",
    [
        {"distribution": "beta"},
        {"state_dependent_std": True},
        {"state_dependent_std": True, "noise_std_type": "log"},
        {"value_normalization": True},
    ],
    ids=["beta", "state-dependent gaussian", "state-dependent gaussian, log", "normalised values"],
)
def test_policies_of_other_kinds_solve_toy(policy):
    cfg = EXPERIMENTS.load("toy")()
    cfg = replace(cfg, policy=replace(cfg.policy, **policy))
    ppo, rewards = train(cfg, 20)
    assert share_of_best_return(cfg, ppo.inference_policy.act_inference) > 0.9
    assert max(rewards) > rewards[0] + 0.5  # with exploration


@pytest.mark.parametrize(
    "algorithm",
    [
        {"normalize_advantage_per_mini_batch": True},
        {"ema_decay": 0.9},
        {"schedule": "fixed", "desired_kl": None},
        {"joint_grad_norm": True},
    ],
    ids=lambda settings: next(iter(settings)),
)
def test_ppo_with_optional_settings_solves_toy(algorithm):
    cfg = EXPERIMENTS.load("toy")()
    cfg = replace(cfg, algorithm=replace(cfg.algorithm, **algorithm))
    ppo, _ = train(cfg, 20)
    assert share_of_best_return(cfg, ppo.inference_policy.act_inference) > 0.9
