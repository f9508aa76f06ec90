import math

import torch

from rsl_rl.utils.rotations import from_yaw, rotate, rotate_inverse, yaw_of


def matrix(quat):
    """The rotation matrix, written out element by element."""
    w, x, y, z = quat.tolist()
    return torch.tensor(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def test_rotation_equals_the_matrix_and_its_inverse_the_transpose():
    quats = torch.nn.functional.normalize(torch.randn(20, 4), dim=1)
    vectors = torch.randn(20, 3)
    matrices = torch.stack([matrix(quat) for quat in quats])
    torch.testing.assert_close(rotate(quats, vectors), (matrices @ vectors.unsqueeze(2)).squeeze(2))
    torch.testing.assert_close(rotate_inverse(quats, vectors), (matrices.mT @ vectors.unsqueeze(2)).squeeze(2))


def test_a_quarter_turn_takes_forward_to_left():
    quat = from_yaw(torch.tensor([math.pi / 2]))
    torch.testing.assert_close(
        rotate(quat, torch.tensor([[1.0, 0, 0]])), torch.tensor([[0.0, 1, 0]]), atol=1e-6, rtol=0
    )


def test_yaw_is_read_back():
    yaw = torch.linspace(-3, 3, 13)
    torch.testing.assert_close(yaw_of(from_yaw(yaw)), yaw)
