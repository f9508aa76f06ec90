"""Seeds and devices of a process."""

from __future__ import annotations

import random

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed the generators of Python, numpy and torch on every device."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def require_device(name: str, device: str) -> None:
    """Raise a ValueError where torch does not know the device or the machine does not have it."""
    try:
        parsed = torch.device(device)
    except RuntimeError:
        raise ValueError(f"{name}='{device}' is no device; allowed: cpu, cuda, cuda:<index>") from None
    if parsed.type == "cuda" and (parsed.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"{name}={device}: torch sees {torch.cuda.device_count()} CUDA devices here; take cpu or install CUDA"
        )
    if parsed.type not in ("cpu", "cuda"):
        raise ValueError(f"{name}={device} is not supported; allowed: cpu, cuda, cuda:<index>")
