"""The class ``gymapi.Tensor``: a handle of a torch tensor, as ``gymtorch`` wraps and unwraps it."""

from __future__ import annotations

from typing import Any, Optional, Tuple

import torch


class Tensor:
    """A handle of a buffer; ``gymtorch.wrap_tensor`` gives the torch tensor of the same memory."""

    def __init__(self, tensor: Optional[torch.Tensor] = None) -> None:
        self.torch = torch.empty(0) if tensor is None else tensor

    @property
    def shape(self) -> Tuple[int, ...]:
        return tuple(self.torch.shape)

    @property
    def ndim(self) -> int:
        return self.torch.dim()

    @property
    def dtype(self) -> Any:
        return self.torch.dtype

    @property
    def device(self) -> int:
        """Return the number of the CUDA device, or -1 for the CPU."""
        return -1 if self.torch.device.type == "cpu" else self.torch.get_device()

    @property
    def data_address(self) -> int:
        return self.torch.data_ptr()

    data_ptr = data_address

    @property
    def own_data(self) -> bool:
        return False


def floats(value: Any, count: int, call: str, what: str, device: torch.device) -> torch.Tensor:
    """Return the torch tensor of a handle with ``count`` float32 numbers; others are a TypeError or ValueError."""
    tensor = _torch(value, call, what, device)
    if tensor.dtype != torch.float32:
        raise TypeError(f"{call}: {what} is {tensor.dtype}; use .float() before gymtorch.unwrap_tensor")
    if tensor.numel() != count:
        shape = list(tensor.shape)
        raise ValueError(f"{call}: {what} has the shape {shape}, {tensor.numel()} numbers; {count} are needed")
    return tensor


def indices(value: Any, count: int, total: int, call: str, device: torch.device) -> torch.Tensor:
    """Return the first ``count`` actor indices as int64; they must be int32 and below ``total``."""
    tensor = _torch(value, call, "the tensor of actor indices", device)
    if tensor.dtype != torch.int32:
        raise TypeError(f"{call}: actor indices are {tensor.dtype}; they must be torch.int32")
    if count < 0 or tensor.numel() < count:
        raise ValueError(f"{call}: {tensor.numel()} actor indices, and the count is {count}")
    chosen = tensor.reshape(-1)[:count].long()
    low, high = torch.stack(torch.aminmax(chosen)).tolist() if count else (0, 0)
    if low < 0 or high >= total:
        raise ValueError(f"{call}: actor indices from {low} to {high}; there are {total} actors")
    return chosen


def _torch(value: Any, call: str, what: str, device: torch.device) -> torch.Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(f"{call}: {what} is a {type(value).__name__}; pass gymtorch.unwrap_tensor(tensor)")
    if value.torch.device != device:
        raise ValueError(
            f"{call}: {what} is on {value.torch.device}, and this simulation's tensors are on {device}; use "
            f'.to("{device}") before gymtorch.unwrap_tensor'
        )
    return value.torch
