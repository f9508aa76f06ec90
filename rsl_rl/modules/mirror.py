"""Left-right mirror images of vectors, and linear maps that commute with them."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from rsl_rl.config.policy import MirrorTuple


def mirror(x: Tensor, index: Tensor, sign: Tensor) -> Tensor:
    """Return the mirror image x[..., index] * sign of x [..., size]; that of the mirror image is x."""
    return x.index_select(-1, index) * sign


def average_with_image(
    weight: Tensor, input_index: Tensor, input_sign: Tensor, output_index: Tensor, output_sign: Tensor
) -> Tensor:
    """Return the average of a linear map [outputs, inputs] and its mirror image, which maps mirrored inputs to mirrored
    outputs."""
    image = mirror(mirror(weight.t(), output_index, output_sign).t(), input_index, input_sign)
    return 0.5 * (weight + image)


def register_mirror(module: nn.Module, name: str, mirror_tuple: MirrorTuple) -> None:
    """Give a module the buffers ``<name>_index`` and ``<name>_sign``."""
    index, sign = mirror_tuple
    module.register_buffer(f"{name}_index", torch.tensor(index, dtype=torch.long))
    module.register_buffer(f"{name}_sign", torch.tensor(sign, dtype=torch.float32))


def swapped_halves(units: int) -> MirrorTuple:
    """Return the mirror of hidden units whose first half is the image of the second.

    This is the regular representation of the reflection group (Ordonez-Apraez et al. 2023,
    https://arxiv.org/abs/2302.10433; for quadrupeds Su et al. 2024, https://arxiv.org/abs/2403.17320).
    """
    half = units // 2
    return tuple(range(half, units)) + tuple(range(half)), (1.0,) * units


def joined(*mirrors: MirrorTuple) -> MirrorTuple:
    """Return the mirror of vectors that are concatenated."""
    index: list = []
    sign: list = []
    for part_index, part_sign in mirrors:
        index += [len(sign) + i for i in part_index]
        sign += part_sign
    return tuple(index), tuple(sign)
