"""PPO as the papers and torch's own parts spell it, and ours, from the same start: ten iterations must agree."""

import copy
from unittest.mock import Mock

import pytest
import torch
from torch import nn
from torch.distributions import Normal, kl_divergence

from rsl_rl.config.learn import AccelerationConfig
from rsl_rl.modules.policy import ActorCritic
from tests.learners import ppo_of

T, N, D, C, A = 8, 12, 5, 7, 3
EPOCHS, BATCHES, CLIP, GAMMA, LAM = 3, 4, 0.2, 0.99, 0.95


class Textbook:
    """One step after another, one layer after another, with autograd and torch.distributions."""

    def __init__(self, policy):
        self.actor, self.critic = policy.actor.plain(), policy.critic.plain()
        self.std = nn.Parameter(policy.std.detach().clone())
        self.floor = policy.cfg.min_noise_std
        self.actor_parameters = [self.std, *self.actor.parameters()]
        self.optimizer = torch.optim.Adam([*self.actor_parameters, *self.critic.parameters()], lr=1e-3)

    def policy(self, obs):
        std = self.floor + nn.functional.softplus(self.std - self.floor, beta=2 / self.floor)
        mean = self.actor(obs)
        return Normal(mean, std.expand_as(mean))

    def learn(self, rollout, orders):
        obs, critic_obs, last_critic_obs, actions, rewards, dones, time_outs = rollout
        with torch.no_grad():
            old = self.policy(obs)
            old_log_prob = old.log_prob(actions).sum(-1)
            values = torch.stack([self.critic(x).squeeze(-1) for x in critic_obs])
            next_value, advantage = self.critic(last_critic_obs).squeeze(-1), torch.zeros(N)
            advantages = torch.zeros(T, N)
            for t in reversed(range(T)):
                reward = rewards[t] + GAMMA * values[t] * (time_outs[t] & dones[t])
                delta = reward + GAMMA * next_value * ~dones[t] - values[t]
                advantage = delta + GAMMA * LAM * advantage * ~dones[t]
                advantages[t], next_value = advantage, values[t]
            returns = advantages + values
            advantages = (advantages - advantages.mean()) / (advantages.std() + 1e-8)
        data = [x.flatten(0, 1) for x in (obs, critic_obs, actions, values, advantages, returns, old_log_prob)]
        old_mean, old_std = old.mean.flatten(0, 1), old.stddev.flatten(0, 1)
        sums = torch.zeros(4)
        for order in orders:
            for index in order.tensor_split(BATCHES):
                o, c, a, v, adv, ret, lp = (x[index] for x in data)
                policy, value = self.policy(o), self.critic(c).squeeze(-1)
                kl = kl_divergence(Normal(old_mean[index], old_std[index]), policy).sum(-1).mean().item()
                for group in self.optimizer.param_groups:
                    if kl > 2 * 0.01:
                        group["lr"] = max(1e-5, group["lr"] / 1.5)
                    elif 0 < kl < 0.01 / 2:
                        group["lr"] = min(1e-2, group["lr"] * 1.5)
                ratio = (policy.log_prob(a).sum(-1) - lp).exp()
                surrogate = -torch.min(ratio * adv, ratio.clamp(1 - CLIP, 1 + CLIP) * adv).mean()
                held = v + (value - v).clamp(-CLIP, CLIP)
                value_loss = torch.max((value - ret) ** 2, (held - ret) ** 2).mean()
                entropy = policy.entropy().sum(-1).mean()
                self.optimizer.zero_grad()
                (surrogate + value_loss - 0.01 * entropy).backward()
                nn.utils.clip_grad_norm_(self.actor_parameters, 1.0)
                nn.utils.clip_grad_norm_(self.critic.parameters(), 1.0)
                self.optimizer.step()
                sums += torch.tensor([surrogate.item(), value_loss.item(), entropy.item(), kl])
        return sums / (EPOCHS * BATCHES), self.optimizer.param_groups[0]["lr"]


@pytest.mark.parametrize("activation", ["elu", "tanh", "silu"])
@pytest.mark.parametrize(
    "rows_at_once", [None, 5, 100]
)  # plain; micro-batches of mini-batches of 24 steps; fused, whole
def test_ten_iterations_from_equal_weights_equal_the_textbook(activation, rows_at_once, monkeypatch):
    nets = {"actor_hidden_dims": (16, 8), "critic_hidden_dims": (16, 8), "critic_groups": ("critic",)}
    policy = ActorCritic(D, C, A, activation=activation, **nets)
    acceleration, settings = AccelerationConfig(fused=rows_at_once is not None), {"num_learning_epochs": EPOCHS}
    groups = {"policy": D, "critic": C}
    ppo = ppo_of(policy, N, T, groups, acceleration=acceleration, num_mini_batches=BATCHES, **settings)
    if rows_at_once is not None:
        ppo.acceleration.rows_at_once = rows_at_once
    sizes, backward = [], ppo.learner.backward
    ppo.learner.backward = lambda *args: sizes.append(len(args[3])) or backward(*args)
    textbook = Textbook(copy.deepcopy(policy))
    for _ in range(10):
        obs, critic_obs, last = torch.randn(T, N, D), torch.randn(T, N, C), torch.randn(N, C)
        rewards, dones, time_outs = torch.randn(T, N), torch.rand(T, N) < 0.2, torch.rand(T, N) < 0.5
        actions = []
        for t in range(T):
            actions.append(ppo.act({"policy": obs[t], "critic": critic_obs[t]}))
            ppo.process_env_step(rewards[t], dones[t], {"time_outs": time_outs[t]})
        ppo.compute_returns({"policy": last, "critic": last})
        orders = [torch.randperm(T * N) for _ in range(EPOCHS)]
        with monkeypatch.context() as patch:
            patch.setattr(torch, "randperm", Mock(side_effect=orders))
            ours = ppo.update().metrics
        theirs, learning_rate = textbook.learn(
            (obs, critic_obs, last, torch.stack(actions), rewards, dones, time_outs), orders
        )
        losses = torch.stack([ours[name] for name in ("surrogate_loss", "value_loss", "entropy", "kl")])
        torch.testing.assert_close(losses, theirs, atol=2e-5, rtol=1e-4)  # float32, after up to 120 steps
        assert ours["learning_rate"].item() == pytest.approx(learning_rate, rel=1e-5)
    assert sizes == ([5, 5, 5, 5, 4] if rows_at_once == 5 else [24]) * EPOCHS * BATCHES * 10
