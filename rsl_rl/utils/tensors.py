"""Tensors of many environments: random numbers, rotations, columns, first occurrences, and skipped work on a CPU.

The functions whose names end with ``on_cpu`` return False or None on a GPU, to avoid a host synchronisation.
Quaternions are in the order w x y z and turn body coordinates into the world.
"""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor


def describe_unusable(x: Any, num_envs: Optional[int] = None) -> str:
    """Return what is wrong with something that is no dense tensor of real numbers, after its name, and what to give;
    empty for such a tensor. With ``num_envs`` it is to have the shape [num_envs] or [num_envs, 1]."""
    if not isinstance(x, Tensor):
        return f"is a {type(x).__name__}; give a torch tensor"
    if x.is_complex() or x.is_quantized:
        return f"is {str(x.dtype).replace('torch.', '')}; give real numbers"
    if x.layout != torch.strided or x.is_nested:
        return f"is a nested tensor or one of the layout {x.layout}; give a dense one"
    if x.is_meta:
        return "lies on the device meta, which holds no values; give a tensor with values"
    if num_envs is not None and x.shape not in ((num_envs,), (num_envs, 1)):
        return f"has the shape {list(x.shape)} in this step; give [{num_envs}]"
    return ""


def as_numbers(value: Any, device: Union[str, torch.device, None] = None) -> Optional[Tensor]:
    """Return a number or several, as a tensor of 32 bits in one row [n]; None for anything else."""
    if isinstance(value, complex) or (isinstance(value, Tensor) and describe_unusable(value)):
        return None
    try:
        return torch.as_tensor(value, dtype=torch.float32, device=device).reshape(-1)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        return None


def none_on_cpu(mask: Tensor) -> bool:
    """Return whether a mask is on a CPU and false everywhere."""
    # bool(mask.any()) counts as a host synchronisation, torch.equal does not
    return mask.device.type == "cpu" and torch.equal(mask, torch.zeros_like(mask))


def all_within_on_cpu(x: Tensor, limit: float) -> bool:
    """Return whether x is on a CPU, finite, and nowhere larger than a limit."""
    if x.device.type != "cpu":
        return False
    extremes, most = torch.stack(x.aminmax()), min(limit, torch.finfo(x.dtype).max)
    return torch.equal(extremes, extremes.clamp(-most, most))  # NaN equals nothing


def rows_on_cpu(mask: Tensor) -> Optional[Tensor]:
    """Return the indices of the rows that a mask [N] on a CPU marks; None on another device."""
    return mask.nonzero().squeeze(1) if mask.device.type == "cpu" else None


class Stored:
    """Base class of what a checkpoint stores: the attributes whose names are in ``stored``, under these names without
    the leading "_".

    Each is a tensor, another object with tensors under its own names, or None for nothing.
    """

    stored: Tuple[str, ...] = ()

    def state_dict(self) -> Dict[str, Tensor]:
        """Return what the next steps depend on."""
        state: Dict[str, Tensor] = {}
        for name in self.stored:
            value = getattr(self, name)
            if isinstance(value, Tensor):
                state[name.lstrip("_")] = value.clone()
            elif value is not None:
                state.update(value.state_dict())
        return state

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore what :meth:`state_dict` returned; what it does not have stays."""
        for name in self.stored:
            value = getattr(self, name)
            if value is not None and not isinstance(value, Tensor):
                value.load_state_dict(state)
            elif value is not None and name.lstrip("_") in state:
                value.copy_(state[name.lstrip("_")])


class ColumnSelector:
    """Select columns [N, len(indices), ...] of tensors [N, C, ...]: a view if they are contiguous, otherwise a copy."""

    def __init__(self, indices: Sequence[int], device: Union[str, torch.device]):
        first, count = (indices[0] if indices else 0), len(indices)
        contiguous = list(indices) == list(range(first, first + count))
        self._columns = slice(first, first + count) if contiguous else torch.tensor(indices, device=device)

    def __call__(self, x: Tensor) -> Tensor:
        return x[:, self._columns] if isinstance(self._columns, slice) else x.index_select(1, self._columns)


class FirstOccurrence:
    """Store data of the first environment with each kind of event.

    ``record`` does not synchronise with the device and may be called every step; ``read`` synchronises.
    """

    def __init__(self, kinds: Sequence[str], device: torch.device):
        self.kinds = tuple(kinds)
        self._seen = torch.zeros(len(self.kinds), dtype=torch.bool, device=device)
        self._stored: Dict[str, Tensor] = {}  # each [kinds, ...]

    def record(self, masks: Tensor, step: int, rows: Mapping[str, Tensor]) -> None:
        """Add one step: ``masks`` [kinds, N] bool mark the environments with each kind of event, ``rows`` [N, ...] are
        the data to store. The names of rows are the same in every call."""
        if none_on_cpu(masks):
            return
        first = masks.to(torch.uint8).argmax(dim=1)  # the first environment with the event, if there is one
        new = masks.any(dim=1) & ~self._seen
        self._store("environment", new, first)
        self._store("step", new, torch.full_like(first, step))
        for name, row in rows.items():
            self._store(name, new, row.index_select(0, first))
        self._seen |= new

    def _store(self, name: str, new: Tensor, values: Tensor) -> None:
        if name in self._stored:
            values = torch.where(new.view(-1, *(1,) * (values.dim() - 1)), values, self._stored[name])
        self._stored[name] = values

    def read(self, kind: str) -> Optional[Dict[str, Tensor]]:
        """Return the rows of the first event of a kind, with its "environment" and "step", on the CPU; None if there
        was none."""
        i = self.kinds.index(kind) if kind in self.kinds else -1
        if i < 0 or not self._seen[i]:
            return None
        return {name: values[i].cpu().clone() for name, values in self._stored.items()}


_NUM_LEVELS = 2**16


class Uniform:
    """Draw numbers [N, D] with bounds for each column.

    Each number is one of 65,536 equally spaced values, so that one random 64-bit integer gives four numbers.
    """

    def __init__(self, num_envs: int, bounds: Sequence[Tuple[float, float]], generator: torch.Generator):
        low, high = torch.tensor(bounds, dtype=torch.float64).unbind(dim=1)
        self._middle = ((low + high) / 2).float().to(generator.device)
        self._spacing = ((high - low) / _NUM_LEVELS).float().to(generator.device)
        count = num_envs * len(bounds)
        self._bits = torch.zeros((count + 3) // 4, dtype=torch.int64, device=generator.device)
        self._levels = self._bits.view(torch.int16)[:count].view(num_envs, len(bounds))  # from -32,768 to 32,767
        self._generator = generator

    def __call__(self) -> Tensor:
        """Return new numbers, [N, D] float32; the lower bound is included, the upper one is not, except by rounding."""
        self._bits.random_(-(2**63), None, generator=self._generator)
        return self._levels.float().mul_(self._spacing).add_(self._middle)


def rotate_inverse(quat: Tensor, vector: Tensor) -> Tensor:
    """Turn vectors [N, 3] from the world frame into the body frame by quat [N, 4]."""
    w, axis = quat[:, :1], quat[:, 1:]
    cross = torch.linalg.cross(axis, vector)
    twice_cross = cross + cross
    return vector - w * twice_cross + torch.linalg.cross(axis, twice_cross)


def from_yaw(yaw: Tensor) -> Tensor:
    """Return the rotations about the vertical by yaw [...] rad, as quaternions [..., 4]."""
    half, zero = yaw / 2, torch.zeros_like(yaw)
    return torch.stack((torch.cos(half), zero, zero, torch.sin(half)), dim=-1)


def heading(quat: Tensor) -> Tensor:
    """Return the horizontal direction of the body's x axis, a unit vector [N, 2]; quat [N, 4]."""
    w, x, y, z = quat.unbind(dim=-1)
    forward = torch.stack((1 - 2 * (y * y + z * z), 2 * (x * y + w * z)), dim=-1)
    return torch.nn.functional.normalize(forward, dim=-1)


def turn(direction: Tensor, vector: Tensor) -> Tensor:
    """Turn horizontal vectors [..., 2] by the angle between x and a direction, unit vectors of the same shape."""
    (c, s), (x, y) = direction.unbind(dim=-1), vector.unbind(dim=-1)
    return torch.stack((c * x - s * y, s * x + c * y), dim=-1)


def yaw_of(quat: Tensor) -> Tensor:
    """Return the angle about the vertical [N] of the body's x axis, in (-pi, pi], of quaternions [N, 4]."""
    w, x, y, z = quat.unbind(dim=-1)
    return torch.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))
