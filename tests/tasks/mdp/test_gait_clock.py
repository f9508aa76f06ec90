"""The gait clock: a command that turns by itself."""

import math
from dataclasses import replace

import pytest
import torch

from configs.g1_flat import G1Flat
from rsl_rl.config.mdp import CommandTerm

CFG = G1Flat().env
PERIOD = CFG.commands.terms["gait_clock"].params["period"]


def make(num_envs=4, seed=0, **commands):
    return replace(CFG, num_envs=num_envs, commands=replace(CFG.commands, **commands)).build(seed=seed)


def phase(env):
    sine, cosine = env.state.commands["gait_clock"].unbind(dim=1)
    torch.testing.assert_close(sine.square() + cosine.square(), torch.ones_like(sine))
    return torch.atan2(sine, cosine) / (2 * math.pi) % 1.0


def test_the_phase_turns_once_in_a_period_and_starts_anew_with_each_episode():
    env = make(64)
    first = phase(env)
    assert first.std() > 0.2  # each robot at its own phase
    for _ in range(3):
        before = phase(env)
        done = env.step(torch.zeros(64, 12)).done
        assert not done.any()
        turned = (phase(env) - before) % 1.0
        torch.testing.assert_close(turned, torch.full_like(turned, CFG.sim.control_dt / PERIOD), atol=1e-5, rtol=0)
    before = phase(env)
    env.reset([0, 1])
    torch.testing.assert_close(phase(env)[2:], before[2:])
    assert (phase(env)[:2] - before[:2]).abs().min() > 1e-4


def test_the_observation_is_zero_for_a_command_to_stand():
    env = make(standing_fraction=1.0)
    terms = env.describe_interface(["policy"])["observations"]
    start = sum(term["size"] for term in terms[: [term["name"] for term in terms].index("gait_clock")])
    assert not env.get_observations()["policy"][:, start : start + 2].any()
    env.commands.sources["velocity"]._standing_fraction = 0.0
    env.state.command[:] = 0.5
    obs = env.step(torch.zeros(4, 12)).obs["policy"]
    torch.testing.assert_close(obs[:, start : start + 2], env.state.commands["gait_clock"])
    index, sign = env.mirrors()["policy"]
    assert index[start : start + 2].tolist() == [start, start + 1] and sign[start : start + 2].tolist() == [-1, -1]


def test_a_restored_clock_goes_on_bit_by_bit():
    env, other = make(), make(seed=5)
    env.step(torch.zeros(4, 12))
    other.load_state_dict(env.state_dict())
    for _ in range(3):
        env.step(torch.zeros(4, 12)), other.step(torch.zeros(4, 12))
    assert torch.equal(env.state.commands["gait_clock"], other.state.commands["gait_clock"])


def test_the_export_tells_of_the_clock():
    described = make().describe_interface(["policy"])["commands"]
    assert described["gait_clock"] == {"period": PERIOD, "dead_zone": 0.04}


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        ({"gait_clock": CommandTerm(params={"period": 0.03})}, "period=0.03 s; give at least 0.04 s"),
        ({"gait_clock": CommandTerm()}, "env.commands.terms.gait_clock.*period"),
        ({}, "a term needs the command 'gait_clock'; add it to env.commands.terms"),
    ],
)
def test_a_clock_that_cannot_be_is_refused(terms, message):
    with pytest.raises(ValueError, match=message):
        make(terms=terms)
