"""Algorithms with the constructors of rsl_rl 1 to 5: settings as attributes, and GRPO's buffer."""

import copy
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch

from configs.grpo import ToyGRPO
from rsl_rl.algorithms import GRPO, PPO, Distillation
from rsl_rl.algorithms import grpo as grpo_module
from rsl_rl.algorithms.build import build_storage
from rsl_rl.config.algorithm import GRPOConfig
from rsl_rl.modules import ActorCritic
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.storage import GroupSpec

T, N, D, A = 6, 8, 3, 2


def policy():
    return ActorCritic(D, D, A, actor_hidden_dims=(6,), critic_hidden_dims=())


def test_settings_written_later_are_checked():
    ppo = PPO(policy(), schedule="fixed", desired_kl=None)
    with pytest.raises(ValueError, match="desired_kl=None"):
        ppo.schedule = "adaptive"


def test_test_mode_is_the_mode_of_evaluation():
    ppo = PPO(policy())
    ppo.test_mode()
    assert not ppo.actor_critic.training
    ppo.train_mode()
    assert ppo.actor_critic.training


def test_distillation_without_a_teacher_is_refused():
    with pytest.raises(ValueError, match=r"needs a teacher; .* set algorithm.teacher_run"):
        Distillation(policy())


def collect(alg):
    """Collect a random rollout; return its dones [N, T]."""
    alg.begin_rollout()
    dones = torch.rand(N, T) < 0.3
    for t in range(T):
        alg.act({"policy": torch.randn(N, D)})
        alg.process_env_step(torch.randn(N), dones[:, t], {"time_outs": torch.rand(N) < 0.5})
    alg.compute_returns({"policy": torch.full((N, D), 7.0)})
    return dones


def grpo():
    alg = GRPO(policy(), group_size=4, num_mini_batches=1, num_learning_epochs=1)
    alg.init_storage(N, T, [D], None, [A])
    return alg


def test_grpo_buffer_says_how_episodes_ended_and_what_was_seen_last():
    alg = grpo()
    rollout = alg.buffer.rollout
    for _ in range(2):
        dones = collect(alg)
        ended = rollout["terminated"] | rollout["truncated"]
        assert torch.equal(ended[:, :T], dones) and rollout["truncated"].any() and rollout["terminated"].any()
        assert not (rollout["terminated"] & rollout["truncated"]).any()
        assert (rollout["obs"][:, T] == 7).all()
        alg.update()
    alg.begin_rollout()
    for _ in range(T):  # without time-outs, those of the last rollout are gone
        alg.act({"policy": torch.randn(N, D)})
        alg.process_env_step(torch.zeros(N), torch.ones(N), {})
    assert not rollout["truncated"].any() and rollout["terminated"][:, :T].all()


def test_grpo_buffer_has_what_the_plain_algorithm_computes_as_fields():
    alg = grpo()
    cfg, twin = alg.cfg, copy.deepcopy(alg.policy)
    plain = grpo_module.GRPO(twin, build_storage(twin, cfg, N, T, {"policy": GroupSpec((D,))}, {}), cfg)
    for seed in (1, 2):  # the second rollout writes over the first
        for each in (alg, plain):
            torch.manual_seed(seed)
            collect(each)
        for field, column in {"seq_return": "returns", "seq_mask": "sample_mask", "advantage": "advantages"}.items():
            expected = plain.storage.columns[column].squeeze(-1)
            assert torch.equal(alg.buffer.rollout[field][:, :T].t(), expected) and expected.std() > 0, field
        for each in (alg, plain):
            torch.manual_seed(seed)
            each.update()


class Counting(GRPO):
    """A client's subclass, which reads the buffer."""

    num_steps = 0

    def update(self):
        self.num_steps += int(self.buffer.rollout["seq_mask"].sum())
        return super().update()


@dataclass(frozen=True)
class CountingConfig(GRPOConfig):
    builds: ClassVar[str] = f"{__name__}:Counting"


def test_a_subclass_of_grpo_that_a_config_names_learns_the_same():
    cfg, runners = ToyGRPO(), []
    for algorithm in (cfg.algorithm, CountingConfig(**vars(cfg.algorithm))):
        torch.manual_seed(3)
        env = replace(cfg.env, num_envs=16).build(seed=3)
        runners.append(OnPolicyRunner(env, replace(cfg, algorithm=algorithm)))
        runners[-1].learn(2)
    plain, counting = (runner.alg.policy.state_dict() for runner in runners)
    assert all(torch.equal(plain[name], counting[name]) for name in plain)
    assert 0 < runners[1].alg.num_steps <= 2 * 16 * cfg.runner.num_steps_per_env
