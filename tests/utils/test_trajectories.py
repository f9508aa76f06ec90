import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rsl_rl.utils import split_and_pad_trajectories, unpad_trajectories
from rsl_rl.utils.trajectories import ResetMasks, as_states


def naive_split(tensor, dones):
    """Environment by environment, step by step, in Python lists."""
    trajectories = []
    for env in range(tensor.shape[1]):
        current = []
        for t in range(tensor.shape[0]):
            current.append(tensor[t, env])
            if dones[t, env]:
                trajectories.append(current)
                current = []
        if current:
            trajectories.append(current)
    return trajectories


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 8), st.integers(1, 5), st.sampled_from([0.0, 0.2, 0.6, 1.0]), st.integers(0, 2**31))
def test_split_and_pad_equals_the_naive_loop_and_unpad_inverts_it(num_steps, num_envs, rate, seed):
    generator = torch.Generator().manual_seed(seed)
    tensor = torch.randn(num_steps, num_envs, 2, generator=generator)
    dones = torch.rand(num_steps, num_envs, generator=generator) < rate
    padded, mask = split_and_pad_trajectories(tensor, dones.unsqueeze(-1))
    expected = naive_split(tensor, dones)
    assert padded.shape == (num_steps, len(expected), 2)
    for i, trajectory in enumerate(expected):
        assert torch.equal(padded[: len(trajectory), i], torch.stack(trajectory))
        assert (padded[len(trajectory) :, i] == 0).all()
        assert mask[:, i].tolist() == [t < len(trajectory) for t in range(num_steps)]
    assert torch.equal(unpad_trajectories(padded, mask), tensor)


def test_split_and_pad_of_groups_keeps_shapes_and_types():
    groups = {"policy": torch.randn(4, 3, 2), "camera": torch.randint(0, 255, (4, 3, 5, 5), dtype=torch.uint8)}
    dones = torch.rand(4, 3) < 0.4
    padded, mask = split_and_pad_trajectories(groups, dones)
    for name, group in groups.items():
        alone, same_mask = split_and_pad_trajectories(group, dones)
        assert torch.equal(padded[name], alone) and torch.equal(mask, same_mask)
        assert padded[name].dtype == group.dtype
    restored = unpad_trajectories(padded, mask)
    assert all(torch.equal(restored[name], group) for name, group in groups.items())


def test_reset_masks_of_dones_are_zero_after_each_done():
    dones = torch.tensor([[0, 1], [1, 0], [0, 1]])
    masks = ResetMasks.of_dones(dones)
    assert masks.keep_state.tolist() == masks.keep_gradient.tolist() == [[1, 1], [1, 0], [0, 1]]
    assert all((part == 1).all() for part in ResetMasks.none((3, 2)))


def test_as_states_of_any_kind_returns_a_tuple():
    h, c = torch.zeros(1, 2, 3), torch.ones(1, 2, 3)
    assert as_states(None) == as_states(()) == ()
    assert as_states(h)[0] is h and len(as_states(h)) == 1
    assert as_states((h, c))[1] is c
