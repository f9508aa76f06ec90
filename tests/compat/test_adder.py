"""Each path of nerveX's Adder, by the numbers that its document lets one work out by hand."""

from collections import deque

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rsl_rl.compat.adder import n_step_returns, n_step_rewards
from rsl_rl.storage import Adder, list_split, lists_to_dicts
from rsl_rl.storage import adder as adder_module
from rsl_rl.storage.mini_batches import gather_chunks, plan_chunks
from rsl_rl.storage.returns import gae

ROUNDING = 1e-5  # float32 differences of values around 10


def step(i, done=False):
    """The i-th step of an episode; every number tells where it belongs."""
    return {
        "obs": torch.tensor([float(i)]),
        "next_obs": torch.tensor([i + 1.0]),
        "reward": torch.tensor([i + 0.5]),
        "value": torch.tensor([10.0 + i]),
        "done": done,
        "info": {"id": i},
    }


def episode(length, done=False):
    return [step(i, done and i == length - 1) for i in range(length)]


def ids(steps):
    return [s["info"]["id"] for s in steps]


def test_get_traj_takes_steps_from_the_front():
    data = deque(episode(5))
    assert ids(Adder(False, 1).get_traj(data, 3)) == [0, 1, 2] and ids(data) == [3, 4]
    assert ids(Adder(False, 1).get_traj(data, float("inf"))) == [3, 4] and not data


@pytest.mark.parametrize(("return_num", "left"), [(1, [2, 3, 4]), (2, [1, 2, 3, 4]), (9, [1, 2, 3, 4])])
def test_get_traj_with_return_num_puts_copies_of_the_last_steps_back(return_num, left):
    data = deque(episode(5))
    traj = Adder(False, 1).get_traj(data, 3, return_num)
    assert ids(traj) == [0, 1, 2] and ids(data) == left
    again = next(s for s in data if s["info"]["id"] == 2)
    assert again is not traj[-1] and again["obs"].data_ptr() != traj[-1]["obs"].data_ptr()


def test_get_traj_of_all_steps_puts_nothing_back():
    data = deque(episode(3))
    Adder(False, 1).get_traj(data, 3, return_num=2)
    assert not data


def naive_gae(rewards, values, gamma, lam):
    """From the definition: the discounted sum of one-step errors; values has one entry more."""
    errors = [r + gamma * v_next - v for r, v, v_next in zip(rewards, values, values[1:])]
    return [sum((gamma * lam) ** k * e for k, e in enumerate(errors[i:])) for i in range(len(errors))]


def test_get_gae_equals_the_definition():
    data = Adder(False, 1).get_gae(episode(4), torch.tensor([7.0]), gamma=0.9, gae_lambda=0.8)
    expected = naive_gae([0.5, 1.5, 2.5, 3.5], [10, 11, 12, 13, 7], 0.9, 0.8)
    assert [s["adv"].item() for s in data] == pytest.approx(expected, abs=ROUNDING)
    assert data[0]["adv"].shape == (1,)


def test_get_gae_of_a_finished_episode_ends_with_value_zero():
    data = Adder(False, 1).get_gae_with_default_last_value(episode(3, done=True), True, 0.9, 0.8)
    assert len(data) == 3
    assert [s["adv"].item() for s in data] == pytest.approx(
        naive_gae([0.5, 1.5, 2.5], [10, 11, 12, 0], 0.9, 0.8), abs=ROUNDING
    )


def test_get_gae_of_an_unfinished_episode_uses_the_value_of_its_last_step():
    given = episode(3)
    data = Adder(False, 1).get_gae_with_default_last_value(given, False, 0.9, 0.8)
    assert ids(data) == [0, 1] and len(given) == 3
    assert [s["adv"].item() for s in data] == pytest.approx(naive_gae([0.5, 1.5], [10, 11, 12], 0.9, 0.8), abs=ROUNDING)


def test_get_nstep_return_data_with_one_step_returns_the_data():
    data = episode(3)
    assert Adder(False, 1).get_nstep_return_data(data, 1, 3) is data and data[0]["reward"].shape == (1,)


@pytest.mark.parametrize("kind", [list, deque])
def test_get_nstep_return_data_beyond_the_end_is_zero(kind):
    data = Adder(False, 1).get_nstep_return_data(kind(episode(5, done=True)), 3, 5)
    assert [s["reward"].tolist() for s in data] == [
        [0.5, 1.5, 2.5], [1.5, 2.5, 3.5], [2.5, 3.5, 4.5], [3.5, 4.5, 0.0], [4.5, 0.0, 0.0],
    ]  # fmt: skip
    assert [s["next_obs"].item() for s in data] == [3, 4, 5, 5, 5]
    assert [s["done"] for s in data] == [False, False, True, True, True]
    assert data[0]["next_obs"].data_ptr() != data[3]["obs"].data_ptr()


def test_get_nstep_return_data_of_short_data_without_next_obs_is_padded():
    data = [{name: value for name, value in s.items() if name != "next_obs"} for s in episode(2)]
    data = Adder(False, 1).get_nstep_return_data(data, 4)
    assert [s["reward"].tolist() for s in data] == [[0.5, 1.5, 0, 0], [1.5, 0, 0, 0]]
    assert not any("next_obs" in s for s in data)


def test_get_nstep_return_data_ends_at_a_done():
    data = Adder(False, 1).get_nstep_return_data([step(0), step(1, done=True), step(2), step(3)], 3)
    assert [s["reward"].tolist() for s in data] == [[0.5, 1.5, 0], [1.5, 0, 0], [2.5, 3.5, 0], [3.5, 0, 0]]
    assert [s["next_obs"].item() for s in data] == [2, 2, 4, 4]
    assert [s["done"] for s in data] == [True, True, False, False]


def test_get_train_sample_with_chunks_of_one_returns_the_data():
    data = episode(3)
    assert Adder(False, 1).get_train_sample(data) is data


def test_get_train_sample_of_a_divisible_length_has_no_residue():
    for kind in ("last", "drop", "null_padding"):
        chunks = Adder(False, 2, kind).get_train_sample(episode(4))
        assert [chunk["info"]["id"] for chunk in chunks] == [[0, 1], [2, 3]]


def test_get_train_sample_returns_dicts_of_lists():
    (chunk,) = Adder(False, 3).get_train_sample(episode(3))
    assert isinstance(chunk["obs"], list) and [x.item() for x in chunk["obs"]] == [0, 1, 2]
    assert chunk["done"] == [False] * 3


def test_get_train_sample_with_drop_leaves_the_residue_out():
    chunks = Adder(False, 3, "drop").get_train_sample(episode(5))
    assert [chunk["info"]["id"] for chunk in chunks] == [[0, 1, 2]]
    assert Adder(False, 3, "drop").get_train_sample(episode(2)) == []


def test_get_train_sample_with_last_copies_steps_of_the_chunk_before():
    data = episode(5)
    chunks = Adder(False, 3, "last").get_train_sample(data)
    assert [chunk["info"]["id"] for chunk in chunks] == [[0, 1, 2], [2, 3, 4]]
    assert chunks[1]["obs"][0].data_ptr() != chunks[0]["obs"][2].data_ptr()
    assert chunks[1]["obs"][1].data_ptr() == data[3]["obs"].data_ptr()


@pytest.mark.parametrize(("kind", "length"), [("null_padding", 5), ("null_padding", 2), ("last", 2)])
def test_get_train_sample_with_padding_repeats_the_first_residual_step(kind, length):
    data = episode(length)
    chunk = Adder(False, 4, kind).get_train_sample(data)[-1]
    left = length % 4
    first = length - left
    assert chunk["info"]["id"] == [*range(first, length), *[first] * (4 - left)]
    assert chunk["done"] == [False] * left + [True] * (4 - left)
    assert [r.item() for r in chunk["reward"]] == [i + 0.5 for i in range(first, length)] + [0.0] * (4 - left)
    assert chunk["obs"][-1].data_ptr() != data[first]["obs"].data_ptr()
    assert data[first]["done"] is False  # the data themselves are left alone


def test_get_train_sample_with_an_own_null_transition_uses_it():
    null = {"obs": torch.tensor([-1.0]), "reward": torch.zeros(1), "done": True, "info": {"id": -1}}
    null = {**step(-1), **null}
    chunk = Adder(False, 4, "null_padding", null).get_train_sample(episode(6))[-1]
    assert chunk["info"]["id"] == [4, 5, -1, -1]
    assert chunk["obs"][3].item() == -1 and chunk["obs"][3].data_ptr() != null["obs"].data_ptr()


@pytest.mark.parametrize("kind", ["last", "drop", "null_padding"])
def test_get_train_sample_equals_chunks_of_a_rollout(kind):
    num_steps, num_envs, unroll_len = 11, 3, 4
    rollout = torch.randn(num_steps, num_envs)
    plan = plan_chunks(num_steps, unroll_len, kind)
    chunks = gather_chunks(rollout, plan, torch.arange(num_envs)).view(unroll_len, -1, num_envs)
    for env in range(num_envs):
        data = [{"x": x, "reward": x, "done": False} for x in rollout[:, env]]
        for k, chunk in enumerate(Adder(False, unroll_len, kind).get_train_sample(data)):
            assert torch.equal(torch.stack(chunk["x"]), chunks[:, k, env])


def test_adder_advantages_and_windows_equal_those_of_a_rollout():
    rewards, values = torch.randn(6, 2, 1), torch.randn(7, 2, 1)
    together = gae(rewards, values[:-1], values[-1], torch.zeros(6, 2, 1), 0.9, 0.8)
    dones = torch.rand(6, 2) < 0.3
    windows = n_step_rewards(rewards.squeeze(-1), dones, 3).rewards
    for env in range(2):
        data = [
            {"reward": rewards[t, env], "value": values[t, env], "done": bool(dones[t, env]), "obs": rewards[t, env]}
            for t in range(6)
        ]
        Adder(False, 1).get_gae(data, values[-1, env], 0.9, 0.8)
        torch.testing.assert_close(torch.stack([s["adv"] for s in data]), together[:, env])
        Adder(False, 1).get_nstep_return_data(data, 3)
        assert torch.equal(torch.stack([s["reward"] for s in data]), windows[:, env])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((False, 0), "unroll_len=0"),
        ((False, 2, "first"), "last_fn_type='first'; allowed: last, drop, null_padding"),
        pytest.param(
            (True, 2),
            "use_cuda=True, and there is no CUDA",
            marks=pytest.mark.skipif(torch.cuda.is_available(), reason="CUDA is here"),
        ),
    ],
)
def test_adder_with_invalid_arguments_raises(arguments, words):
    with pytest.raises(ValueError, match=words):
        Adder(*arguments)


def test_adder_adds_tensors_that_share_no_memory():
    data = Adder(False, 1).get_gae(episode(50), torch.zeros(1), 0.9, 0.8)
    Adder(False, 1).get_nstep_return_data(data, 3)
    assert data[7]["adv"].untyped_storage().nbytes() == 4 and data[7]["reward"].untyped_storage().nbytes() == 12


def test_adder_with_inconsistent_transitions_raises():
    with pytest.raises(ValueError, match=r"a reward has the shape \[1\] and a value \[2\]"):
        Adder(False, 1).get_gae([{**step(0), "value": torch.zeros(2)}], torch.zeros(2), 0.9, 0.8)
    scalar = Adder(False, 1).get_gae([{**step(0), "value": torch.tensor(10.0)}], torch.tensor(7.0), 0.9, 0.8)
    assert torch.equal(scalar[0]["adv"], Adder(False, 1).get_gae([step(0)], torch.tensor([7.0]), 0.9, 0.8)[0]["adv"])
    with pytest.raises(
        ValueError, match=r"have the keys done, info.*, and one has done, reward; give all of them, and null_transition"
    ):
        Adder(False, 2, "null_padding", {"reward": torch.zeros(1), "done": True}).get_train_sample([step(0)])


def test_adder_with_empty_data_or_no_steps_raises():
    with pytest.raises(ValueError, match="no transitions"):
        Adder(False, 2).get_gae_with_default_last_value([], False, 0.9, 0.8)
    with pytest.raises(ValueError, match="nstep=0"):
        Adder(False, 2).get_nstep_return_data(episode(2), 0)


def test_lists_to_dicts_converts_nested_dicts_only_with_recursive():
    data = [{"a": 1, "b": {"c": 2}}, {"a": 3, "b": {"c": 4}}]
    assert lists_to_dicts(data) == {"a": [1, 3], "b": [{"c": 2}, {"c": 4}]}
    assert lists_to_dicts(data, recursive=True) == {"a": [1, 3], "b": {"c": [2, 4]}}
    with pytest.raises(ValueError, match="no dicts in the list"):
        lists_to_dicts([])


@pytest.mark.parametrize(
    ("length", "parts", "residual"),
    [(4, [[0, 1], [2, 3]], None), (5, [[0, 1], [2, 3]], [4]), (1, [], [0]), (0, [], None)],
)
def test_list_split_returns_full_parts_and_the_rest(length, parts, residual):
    assert list_split(list(range(length)), step=2) == (parts, residual)
    assert list_split(deque(range(length)), 2) == (parts, residual)


def test_list_split_without_a_length_raises():
    with pytest.raises(ValueError, match="step=0"):
        list_split([1], 0)


def test_gae_of_gae_data_equals_the_definition():
    data = adder_module.gae_data(torch.tensor([10.0, 11.0, 12.0]), torch.tensor([0.5, 1.5]))
    expected = naive_gae([0.5, 1.5], [10, 11, 12], 0.9, 0.8)
    assert adder_module.gae(data, 0.9, 0.8).tolist() == pytest.approx(expected, abs=ROUNDING)


# N-step returns of a rollout


def naive_n_step_returns(rewards, values, last_values, dones, gamma, n):
    """The definition, one environment and one step at a time."""
    num_steps, num_envs = rewards.shape
    returns = torch.zeros(num_steps, num_envs)
    for env in range(num_envs):
        for first in range(num_steps):
            total, factor, t = 0.0, 1.0, first
            while t < min(first + n, num_steps):
                total, factor = total + factor * rewards[t, env], factor * gamma
                t += 1
                if dones[t - 1, env]:
                    break
            if not dones[t - 1, env]:
                total = total + factor * (last_values[env] if t == num_steps else values[t, env])
            returns[first, env] = total
    return returns


def test_n_step_returns_of_known_rewards_are_those_on_paper():
    rewards = torch.tensor([1.0, 2.0, 4.0, 8.0]).unsqueeze(1)
    values = torch.tensor([100.0, 200.0, 400.0, 800.0]).unsqueeze(1)
    dones = torch.tensor([False, False, True, False]).unsqueeze(1)
    returns = n_step_returns(rewards, values, torch.tensor([1600.0]), dones, gamma=0.5, n=2)
    assert returns[:, 0].tolist() == [1 + 1 + 100, 2 + 2, 4, 8 + 800]


@given(st.integers(1, 9), st.integers(1, 4), st.floats(0, 1), st.integers(1, 12), st.integers(0, 2**31))
def test_n_step_returns_of_random_rollouts_equal_the_naive_loop(num_steps, num_envs, gamma, n, seed):
    generator = torch.Generator().manual_seed(seed)
    rewards, values = (torch.randn(num_steps, num_envs, generator=generator) for _ in range(2))
    dones = torch.rand(num_steps, num_envs, generator=generator) < 0.3
    last = torch.randn(num_envs, generator=generator)
    expected = naive_n_step_returns(rewards, values, last, dones, gamma, n)
    torch.testing.assert_close(n_step_returns(rewards, values, last, dones, gamma, n), expected)
    column = [x.unsqueeze(-1) for x in (rewards, values, last, dones)]
    torch.testing.assert_close(n_step_returns(*column, gamma, n), expected.unsqueeze(-1))


def test_n_step_returns_of_one_step_and_of_all_steps_are_advantages_with_lambda_zero_and_one():
    rewards, values, last = torch.randn(6, 3), torch.randn(6, 3), torch.randn(3)
    dones = torch.rand(6, 3) < 0.3
    for n, lam in ((1, 0.0), (6, 1.0)):
        expected = gae(rewards, values, last, dones, 0.9, lam) + values
        torch.testing.assert_close(n_step_returns(rewards, values, last, dones, 0.9, n), expected)
    with pytest.raises(ValueError, match="n=0: give a whole number of at least 1"):
        n_step_returns(rewards, values, last, dones, 0.9, 0)
