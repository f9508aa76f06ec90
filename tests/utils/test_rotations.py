import math

import torch

from rsl_rl.utils.rotations import from_yaw, rotate_inverse


def matrix(quat):
    """The matrix of the rotation from body to world, written out element by element."""
    w, x, y, z = quat.tolist()
    return torch.tensor(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def test_the_inverse_rotation_is_the_transposed_matrix():
    quats = torch.nn.functional.normalize(torch.randn(20, 4), dim=1)
    vectors = torch.randn(20, 3)
    matrices = torch.stack([matrix(quat) for quat in quats])
    torch.testing.assert_close(rotate_inverse(quats, vectors), (matrices.mT @ vectors.unsqueeze(2)).squeeze(2))


def test_a_robot_that_turned_left_sees_the_worlds_forward_to_its_right():
    quat = from_yaw(torch.tensor([math.pi / 2]))
    seen = rotate_inverse(quat, torch.tensor([[1.0, 0.0, 0.0]]))
    torch.testing.assert_close(seen, torch.tensor([[0.0, -1.0, 0.0]]), atol=1e-6, rtol=0)
