"""Settings of the surrogate that change linearly during a training."""

from dataclasses import replace

import pytest

from rsl_rl.config.algorithm import GRPOConfig, PPOConfig
from rsl_rl.config.learn import LearnConfig, RunnerConfig
from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.config.task import ToyConfig
from rsl_rl.runners.runner import Runner
from rsl_rl.tasks.toy import PointEnv

ANNEALED = {"entropy_coef": 0.01, "final_entropy_coef": 0.002, "desired_kl": 0.02, "final_desired_kl": 0.01}


@pytest.mark.parametrize(
    "share, progress, entropy_coef, desired_kl",
    [(1.0, 0.0, 0.01, 0.02), (1.0, 0.5, 0.006, 0.015), (1.0, 1.0, 0.002, 0.01), (0.5, 0.25, 0.006, 0.015)],
)
def test_annealed_settings_are_on_a_straight_line(share, progress, entropy_coef, desired_kl):
    cfg = PPOConfig(**ANNEALED, annealing_share=share).at(progress)
    assert (cfg.entropy_coef, cfg.desired_kl) == pytest.approx((entropy_coef, desired_kl))


def test_annealed_settings_stay_at_their_final_values_after_their_share():
    cfg = PPOConfig(**ANNEALED, annealing_share=0.5)
    assert (cfg.at(0.5).entropy_coef, cfg.at(0.9).desired_kl) == pytest.approx((0.002, 0.01))


def test_settings_without_final_values_are_the_same_object():
    cfg = PPOConfig()
    assert cfg.at(0.3) is cfg


@pytest.mark.parametrize("algorithm", [PPOConfig(**ANNEALED), GRPOConfig(**ANNEALED, group_size=4)])
def test_training_takes_each_update_with_the_settings_of_its_progress(algorithm, monkeypatch):
    cfg = LearnConfig(
        policy=ActorCriticConfig(actor_hidden_dims=(8,), critic_hidden_dims=(8,)),
        algorithm=replace(algorithm, num_learning_epochs=1, num_mini_batches=1),
        runner=RunnerConfig(num_steps_per_env=4, logger="none"),
    )
    runner, seen = Runner(PointEnv(ToyConfig(num_envs=8)), cfg), []
    run = runner.alg.learner.run

    def noting(storage, used, batches):
        seen.append((used.entropy_coef, used.desired_kl))
        return run(storage, used, batches)

    monkeypatch.setattr(runner.alg.learner, "run", noting)
    runner.learn(4)
    expected = [(0.01 - 0.008 * i / 4, 0.02 - 0.01 * i / 4) for i in range(4)]
    assert seen == [pytest.approx(pair) for pair in expected]


@pytest.mark.parametrize(
    "wrong, words",
    [
        ({"final_entropy_coef": -0.1}, "final_entropy_coef=-0.1 must not be negative"),
        ({"final_desired_kl": 0.0}, "final_desired_kl=0.0 must be positive"),
        ({"final_desired_kl": 0.01, "schedule": "fixed"}, "has no effect; set schedule to 'adaptive', or leave it out"),
        ({"annealing_share": 0.0}, r"annealing_share=0.0 must lie in \(0, 1\]"),
    ],
)
def test_annealed_settings_that_cannot_be_are_refused(wrong, words):
    with pytest.raises(ValueError, match=words):
        PPOConfig(**wrong)
