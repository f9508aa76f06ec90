"""Observations of several control steps: the oldest first, the first value repeated at the start of an episode."""

from collections import deque
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from configs.go2_flat import Go2Flat
from rsl_rl.config.mdp import ObservationGroupConfig, ObservationTerm
from rsl_rl.config.policy import SymmetricActorCriticConfig
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.tasks.mdp.observations import History

CFG = Go2Flat().env
TERMS = {
    "gravity": ObservationTerm(noise=0.05, history=3),
    "command": ObservationTerm(scale=2.0),
    "action": ObservationTerm(history=2),
}


def make(num_envs=6, seed=0, policy=None, history=1, **changes):
    """Return go2_flat with other terms and another history of the group policy."""
    terms = CFG.observations["policy"].terms if policy is None else policy
    observations = {**CFG.observations, "policy": ObservationGroupConfig(terms, history)}
    changes = {"observations": observations, **changes}
    changes = {"episode_length": 0.14, "commands": replace(CFG.commands, resampling_time=0.06), **changes}
    return replace(CFG, num_envs=num_envs, **changes).build(seed=seed)


def stacked(values, size, steps):
    """Return one robot's observation from a list of its values of past steps, by the definition."""
    first = values[0]
    return torch.cat(([first] * steps + list(values))[-steps:])


def test_history_is_that_of_a_naive_loop_over_robots_and_steps():
    """Of an environment with the same terms without a history, which has the same random numbers."""
    plain = {name: replace(term, history=0) for name, term in TERMS.items()}
    single, env = make(policy=plain), make(policy=TERMS)
    sizes, steps = {"gravity": 3, "command": 3, "action": 12}, {"gravity": 3, "command": 1, "action": 2}
    past = [{name: deque(maxlen=3) for name in sizes} for _ in range(6)]

    def expected(obs):
        rows = []
        for robot, now in enumerate(obs):
            parts = dict(zip(sizes, now.split(list(sizes.values()))))
            rows.append(torch.cat([stacked([*past[robot][n], parts[n]], sizes[n], steps[n]) for n in sizes]))
        return torch.stack(rows)

    def remember(obs, robots):
        for robot in robots:
            for name, part in zip(sizes, obs[robot].split(list(sizes.values()))):
                past[robot][name].append(part)

    assert torch.equal(env.get_observations()["policy"], expected(single.get_observations()["policy"]))
    remember(single.get_observations()["policy"], range(6))
    ended = 0
    for t in range(20):
        if t == 11:
            single.reset([2])
            env.reset([2])
            for robot in range(6):
                for name in sizes:  # the newest value is that of the reset; of the robot itself all
                    past[robot][name].clear() if robot == 2 else past[robot][name].pop()
            assert torch.equal(env.get_observations()["policy"], expected(single.get_observations()["policy"]))
            remember(single.get_observations()["policy"], range(6))
        actions = torch.randn(6, 12)
        want, got = single.step(actions), env.step(actions)
        assert torch.equal(got.extras["final_obs"]["policy"], expected(want.extras["final_obs"]["policy"]))
        for robot in got.done.nonzero().flatten().tolist():
            for name in sizes:
                past[robot][name].clear()
            ended += 1
        assert torch.equal(got.obs["policy"], expected(want.obs["policy"]))
        remember(want.obs["policy"], range(6))
    assert ended >= 12


def test_history_of_a_group_holds_for_terms_without_an_own_one():
    env = make(policy=TERMS, history=4)
    assert env._groups["policy"].sizes == [3 * 3, 3 * 4, 12 * 2]
    assert env.get_observations()["policy"].shape == (6, 45)
    assert env.get_observations()["critic"].shape == make().get_observations()["critic"].shape


def test_history_is_described_in_steps():
    described = make(policy=TERMS).describe_interface(["policy"])["observations"]
    assert [(term["name"], term["size"], term["history"]) for term in described] == [
        ("gravity", 3, 3), ("command", 3, 1), ("action", 12, 2),
    ]  # fmt: skip


def test_resumed_history_is_bit_equal():
    critic = replace(CFG.observations["critic"], history=3)
    groups = {"policy": ObservationGroupConfig(TERMS), "critic": critic}
    env = make(observations=groups)
    for _ in range(5):
        env.step(torch.randn(6, 12))
    other = make(seed=9, observations=groups)
    other.load_state_dict(env.state_dict())
    for _ in range(10):
        actions = torch.randn(6, 12)
        one, two = env.step(actions), other.step(actions)
        for name in ("policy", "critic"):
            assert torch.equal(one.obs[name], two.obs[name])
            assert torch.equal(one.extras["final_obs"][name], two.extras["final_obs"][name])


@given(
    sizes=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=4),
    starts=st.lists(st.lists(st.booleans(), min_size=3, max_size=3), min_size=1, max_size=8),
)
def test_any_history_is_that_of_a_list(sizes, starts):
    history = History([size for size, _ in sizes], [steps for _, steps in sizes], "cpu")
    past = [[] for _ in range(3)]
    previous = None
    for started in starts:
        x = torch.randn(3, sum(size for size, _ in sizes))
        previous = history(x, previous, torch.tensor(started), same_step=False)
        for robot in range(3):
            past[robot] = [*([] if started[robot] else past[robot]), x[robot].split([size for size, _ in sizes])]
            values = [stacked([step[i] for step in past[robot]], *term) for i, term in enumerate(sizes)]
            assert torch.equal(previous[robot], torch.cat(values))


def test_mirror_of_a_history_mirrors_each_step():
    env = make(policy=TERMS)
    index, sign = env.mirrors()["policy"]
    plain = make(policy={name: replace(term, history=0) for name, term in TERMS.items()})
    step_index, step_sign = plain.mirrors()["policy"]
    steps = [torch.randn(18) for _ in range(3)]

    def observation(values):
        parts = [step.split([3, 3, 12]) for step in values]
        return torch.cat([torch.cat([p[0] for p in parts]), parts[2][1], torch.cat([p[2] for p in parts[1:]])])

    mirrored = [step[step_index] * step_sign for step in steps]
    assert torch.equal(observation(steps)[index] * sign, observation(mirrored))


def test_symmetric_policy_with_a_history_acts_mirrored_and_trains(small_cfg):
    env = make(policy=TERMS)
    policy = SymmetricActorCriticConfig(actor_hidden_dims=(16,), critic_hidden_dims=(16,))
    runner = OnPolicyRunner(env, replace(small_cfg, policy=policy))
    runner.learn(1)
    act, obs = runner.get_inference_policy(), env.get_observations()
    mirrors = env.mirrors()
    images = {name: group[:, mirrors[name][0]] * mirrors[name][1] for name, group in obs.items()}
    index, sign = mirrors["actions"]
    torch.testing.assert_close(act(images), act(obs)[:, index] * sign, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("observations", "message"),
    [
        ({"policy": {"history": 2}}, "env.observations.policy.terms is missing and has no default; give it a value"),
        ({"policy": {"terms": {}, "history": 0}}, r"env.observations.policy.history=0: give a whole number from 1"),
        (
            {"policy": {"terms": {"gravity": {"history": -1}}}},
            "env.observations.policy.terms.gravity.history=-1: give a whole number from 0",
        ),
    ],
)
def test_history_that_cannot_be_is_refused(observations, message):
    with pytest.raises(ValueError, match=message):
        replace(CFG, observations=observations)
