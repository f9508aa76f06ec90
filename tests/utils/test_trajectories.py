import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rsl_rl.utils import split_and_pad_trajectories, unpad_trajectories
from rsl_rl.utils.trajectories import cut_at_dones, initial_states, pad, unpad


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
def test_splitting_equals_the_naive_loop_and_unpadding_undoes_it(num_steps, num_envs, rate, seed):
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
    cut = cut_at_dones(dones)
    assert torch.equal(unpad(pad(tensor, cut), cut), tensor)


def test_only_trajectories_from_the_start_of_the_rollout_inherit_a_state():
    dones = torch.tensor([[0, 1], [1, 0], [0, 0]]).bool()  # env 0: two trajectories, env 1: two
    state = torch.tensor([[[5.0], [6.0]]])
    assert initial_states(state, cut_at_dones(dones)).flatten().tolist() == [5.0, 0.0, 6.0, 0.0]
