from dataclasses import replace

import pytest
import torch

from configs.go2_flat import Go2Flat
from rsl_rl.config.task import RandomizationConfig
from rsl_rl.tasks.evaluation import evaluate, for_evaluation, gate_misses

CFG = Go2Flat().env


class Still:
    """Holds the standing pose."""

    def __init__(self, action=0.0):
        self.action, self.resets = action, 0

    def __call__(self, obs):
        return torch.full((len(obs["policy"]), 12), self.action)

    def reset(self, dones=None):
        self.resets += 1


def test_the_gate_measures_a_robot_that_stands():
    """Told to walk at a fixed velocity, a robot that stands still misses by exactly that velocity."""
    commands = replace(CFG.commands, lin_vel_x=(0.6, 0.6), lin_vel_y=(-0.8, -0.8), yaw_rate=(0.5, 0.5))
    cfg = for_evaluation(replace(CFG, commands=commands), num_envs=16, seconds=2.0)
    cfg = replace(cfg, randomization=RandomizationConfig.none())
    policy = Still()
    result = evaluate(cfg.build(), policy, seconds=2.0)
    assert result["fall_rate"] == 0 and policy.resets == 101
    assert result["lin_vel_error"] == pytest.approx(1.0, abs=0.03)  # |(0.6, -0.8)|, less what settling down moves
    assert result["yaw_rate_error"] == pytest.approx(0.5, abs=0.03)
    assert result["action_rate"] == 0 and result["duty_factor"] > 0.9 and 1 < result["mean_torque"] < 6


def test_falls_are_counted():
    cfg = for_evaluation(CFG, num_envs=8, seconds=2.0)
    result = evaluate(cfg.build(), Still(action=6.0), seconds=2.0)  # folds its legs
    assert result["fall_rate"] >= 1.0


def test_the_gate_is_without_noise_and_pushes():
    cfg = for_evaluation(CFG, 4, 20.0)
    assert all(term.noise == 0 for term in cfg.policy_observations.values())
    assert cfg.randomization.push_interval == 0 and cfg.commands.standing_fraction == 0
    assert cfg.randomization.friction == CFG.randomization.friction
    assert for_evaluation(CFG, 4, 20.0, pushes=True).randomization.push_interval == CFG.randomization.push_interval


def test_every_repetition_has_to_pass():
    limits = {"a": 1.0}
    assert gate_misses([{"a": 0.5}, {"a": 1.0}], limits) == []
    assert gate_misses([{"a": 0.5}, {"a": 1.5}], limits) == ["a 1.5000 > 1.0"]
    assert gate_misses([{"a": float("nan")}], limits) == ["a nan > 1.0"]
