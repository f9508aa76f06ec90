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
        """Return -1, which stands for the CPU."""
        return -1

    @property
    def data_address(self) -> int:
        return self.torch.data_ptr()

    data_ptr = data_address

    @property
    def own_data(self) -> bool:
        return False


def floats(value: Any, count: int, call: str, what: str) -> torch.Tensor:
    """Return the torch tensor of a handle with ``count`` float32 numbers; others are a TypeError or ValueError."""
    tensor = _torch(value, call, what)
    if tensor.dtype != torch.float32:
        raise TypeError(f"{call}: {what} is {tensor.dtype}; use .float() before gymtorch.unwrap_tensor")
    if tensor.numel() != count:
        shape = list(tensor.shape)
        raise ValueError(f"{call}: {what} has the shape {shape}, {tensor.numel()} numbers; {count} are needed")
    return tensor


def indices(value: Any, count: int, total: int, call: str) -> torch.Tensor:
    """Return the first ``count`` actor indices as int64; they must be int32 and below ``total``."""
    tensor = _torch(value, call, "the tensor of actor indices")
    if tensor.dtype != torch.int32:
        raise TypeError(f"{call}: actor indices are {tensor.dtype}; they must be torch.int32")
    if count < 0 or tensor.numel() < count:
        raise ValueError(f"{call}: {tensor.numel()} actor indices, and the count is {count}")
    chosen = tensor.reshape(-1)[:count].long()
    if count and (int(chosen.min()) < 0 or int(chosen.max()) >= total):
        raise ValueError(
            f"{call}: actor indices from {int(chosen.min())} to {int(chosen.max())}; there are {total} actors"
        )
    return chosen


def _torch(value: Any, call: str, what: str) -> torch.Tensor:
    if not isinstance(value, Tensor):
        raise TypeError(f"{call}: {what} is a {type(value).__name__}; pass gymtorch.unwrap_tensor(tensor)")
    return value.torch
