"""Quaternions against rotation matrices."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rsl_rl.motion.rotations import (
    conjugate,
    continuous,
    from_matrix,
    from_vector,
    multiply,
    rotate,
    slerp,
    to_vector,
    turn_between,
)
from rsl_rl.sim.kinematics import rotation_matrix
from rsl_rl.utils.tensors import from_yaw


def quats(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.nn.functional.normalize(torch.randn(count, 4, generator=generator, dtype=torch.float64), dim=1)


def test_product_inverse_and_turn_of_vectors_are_those_of_matrices():
    a, b, vector = quats(50), quats(50, 1), torch.randn(50, 3, dtype=torch.float64)
    ma, mb = rotation_matrix(a), rotation_matrix(b)
    torch.testing.assert_close(rotation_matrix(multiply(a, b)), ma @ mb)
    torch.testing.assert_close(rotation_matrix(conjugate(a)), ma.mT)
    torch.testing.assert_close(rotate(a, vector), (ma @ vector.unsqueeze(2))[..., 0])


def test_quaternions_survive_matrices_and_vectors():
    own = torch.cat((quats(50), torch.eye(4, dtype=torch.float64)))  # half turns about the axes too
    own = torch.where(own[:, :1] < 0, -own, own)
    torch.testing.assert_close(from_matrix(rotation_matrix(own)), own)
    vector = to_vector(own)
    assert vector.norm(dim=1).max() <= math.pi + 1e-9
    torch.testing.assert_close(rotation_matrix(from_vector(vector)), rotation_matrix(own))


@settings(max_examples=50)
@given(angle=st.floats(-3.0, 3.0), share=st.floats(0.0, 1.0), flip=st.booleans())
def test_slerp_turns_by_the_share_of_the_angle(angle, share, flip):
    start = quats(1)
    axis = torch.nn.functional.normalize(torch.tensor([[0.3, -0.5, 0.8]], dtype=torch.float64), dim=1)
    end = multiply(start, from_vector(angle * axis)) * (-1 if flip else 1)
    middle = slerp(start, end, torch.tensor([share], dtype=torch.float64))
    torch.testing.assert_close(to_vector(multiply(conjugate(start), middle)), share * angle * axis, atol=1e-6, rtol=0)


def test_continuous_quaternions_keep_their_rotations_and_change_little():
    angle = torch.linspace(0, 12, 200, dtype=torch.float64)
    own = from_yaw(angle) * torch.tensor([1.0, -1.0]).repeat(100).unsqueeze(1)
    smooth = continuous(own)
    torch.testing.assert_close(rotation_matrix(smooth), rotation_matrix(own))
    assert (smooth[1:] - smooth[:-1]).abs().max() < 0.1


def test_turn_between_is_the_change_of_heading_of_tilted_bodies():
    tilt = from_vector(torch.tensor([[0.2, 0.4, 0.0]], dtype=torch.float64))
    for angle in (-2.5, 0.0, 1.0, 3.0):
        turned = multiply(from_yaw(torch.tensor([angle], dtype=torch.float64)), tilt)
        torch.testing.assert_close(turn_between(tilt, turned), torch.tensor([angle], dtype=torch.float64))
