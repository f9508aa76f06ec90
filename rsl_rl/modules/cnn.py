"""Convolutional encoders of image and height-map groups."""

from __future__ import annotations

from typing import List, Sequence

import torch
from torch import Tensor, nn

from rsl_rl.config.policy import CNNConfig, MirrorTuple
from rsl_rl.modules.mlp import get_activation
from rsl_rl.modules.symmetry import mirror, register_mirror


class CNN(nn.Module):
    """Map images [..., C, H, W], or height maps [..., H, W], to features [..., num_features].

    Integer images are taken as 0 to 255 and scaled to 0 to 1; floating-point ones are used as they are.
    """

    def __init__(self, shape: Sequence[int], cfg: CNNConfig):
        super().__init__()
        self.shape = tuple(shape)  # [C, H, W] or [H, W]
        channels, height, width = (1, *self.shape) if len(self.shape) == 2 else self.shape
        layers: List[nn.Module] = []
        for outputs in cfg.channels:
            convolution = nn.Conv2d(channels, outputs, cfg.kernel_size, cfg.stride, cfg.kernel_size // 2)
            layers += [convolution, get_activation(cfg.activation)]
            channels = outputs
            height, width = (_size_after(size, cfg.kernel_size, cfg.stride) for size in (height, width))
        if height < 1 or width < 1:
            raise ValueError(f"an image {list(shape)} is too small for {len(cfg.channels)} convolutions of {cfg}")
        self.num_features = cfg.num_features
        self.layers = nn.Sequential(
            *layers,
            nn.Flatten(),
            nn.Linear(channels * height * width, cfg.num_features),
            get_activation(cfg.activation),
        )

    def forward(self, x: Tensor) -> Tensor:
        leading = x.shape[: x.dim() - len(self.shape)]
        images = x.reshape(-1, *self.shape)
        images = images if images.is_floating_point() else images.float() / 255.0
        images = images.unsqueeze(1) if len(self.shape) == 2 else images
        return self.layers(images).view(*leading, -1)


class SymmetricCNN(nn.Module):
    """Features [f(x), f(mirror(x))] of a CNN f: those of a mirrored image are the same with their halves swapped."""

    def __init__(self, shape: Sequence[int], cfg: CNNConfig, image_mirror: MirrorTuple):
        super().__init__()
        self.cnn = CNN(shape, cfg)
        self.shape = self.cnn.shape
        self.num_features = 2 * self.cnn.num_features
        self.image_index: Tensor  # [W]
        self.image_sign: Tensor
        register_mirror(self, "image", image_mirror)

    def forward(self, x: Tensor) -> Tensor:
        image = mirror(x, self.image_index, self.image_sign.to(x.dtype))
        return torch.cat((self.cnn(x), self.cnn(image)), dim=-1)


def _size_after(size: int, kernel_size: int, stride: int) -> int:
    return (size + 2 * (kernel_size // 2) - kernel_size) // stride + 1
