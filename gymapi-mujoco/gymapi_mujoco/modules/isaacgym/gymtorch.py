"""Torch tensors of ``gymapi``'s buffers, and back."""

from typing import Optional

import torch
from gymapi_mujoco.tensors import Tensor

__all__ = ["unwrap_tensor", "wrap_tensor"]


def wrap_tensor(gym_tensor: Tensor, offsets=None, counts=None) -> Optional[torch.Tensor]:
    """Return the torch tensor of a buffer, which share their memory; None if it has no values, such as no DoFs."""
    if offsets is not None or counts is not None:
        raise NotImplementedError("gymtorch.wrap_tensor: offsets and counts; slice the tensor that it returns")
    if not isinstance(gym_tensor, Tensor):
        raise TypeError(f"gymtorch.wrap_tensor: got {type(gym_tensor).__name__}; pass what an acquire_ call returned")
    return gym_tensor.torch if gym_tensor.torch.numel() else None


def unwrap_tensor(torch_tensor: torch.Tensor) -> Tensor:
    """Return a handle of a contiguous torch tensor, on the CPU or a GPU."""
    if not isinstance(torch_tensor, torch.Tensor):
        raise TypeError(f"gymtorch.unwrap_tensor: got {type(torch_tensor).__name__}; pass a torch tensor")
    if torch_tensor.device.type not in ("cpu", "cuda"):
        raise ValueError(f"gymtorch.unwrap_tensor: the tensor is on {torch_tensor.device}; it must be on cpu or cuda")
    if not torch_tensor.is_contiguous():
        raise ValueError("gymtorch.unwrap_tensor: the tensor is not contiguous; call .contiguous() first")
    return Tensor(torch_tensor.detach())
