"""An opt-in for clients that write a CUDA device into their code: torch takes CUDA names as the CPU."""

from __future__ import annotations

import os
from typing import Any, Tuple

import torch
from torch.overrides import TorchFunctionMode


def _replaced(value: Any) -> Any:
    """Return a device on the CPU in place of a CUDA device."""
    if isinstance(value, str) and (value == "cuda" or value.startswith("cuda:")):
        return "cpu"
    if isinstance(value, torch.device) and value.type == "cuda":
        return torch.device("cpu")
    return value


class _CudaAsCpu(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.cuda:
            return args[0]
        if func in (torch.abs, torch.Tensor.abs) and args and args[0].dtype == torch.bool:
            return args[0].clone()  # CUDA takes it, the CPU does not
        named = {key: _replaced(value) for key, value in (kwargs or {}).items()}
        if func is torch.device:
            return torch.device(*map(_replaced, args), **named)
        return func(*map(_replaced, args), **named)


_mode = _CudaAsCpu()
_entered = False


def are_cpu() -> bool:
    """Return whether CUDA names stand for the CPU in this process."""
    return _entered


def _host_memory(device: Any = None) -> Tuple[int, int]:
    """Return the free and the total memory of the host [bytes]."""
    page = os.sysconf("SC_PAGE_SIZE")
    return page * os.sysconf("SC_AVPHYS_PAGES"), page * os.sysconf("SC_PHYS_PAGES")


def treat_cuda_as_cpu() -> None:
    """Replace CUDA devices in the calls of torch, modules and ``torch.load``, in this process."""
    global _entered
    _entered = True
    _mode.__enter__()
    to, load, jit_load = torch.nn.Module.to, torch.load, torch.jit.load

    def module_to(self: Any, *args: Any, **kwargs: Any) -> Any:
        return to(self, *map(_replaced, args), **{key: _replaced(value) for key, value in kwargs.items()})

    def load_to_cpu(*args: Any, **kwargs: Any) -> Any:
        return load(*args, **{**kwargs, "map_location": "cpu"})

    def jit_load_to_cpu(*args: Any, **kwargs: Any) -> Any:
        return jit_load(*args, **{**kwargs, "map_location": "cpu"})

    torch.nn.Module.to = module_to  # type: ignore[method-assign]
    torch.nn.Module.cuda = lambda self, device=None: self  # type: ignore[method-assign,assignment]
    torch.load, torch.jit.load = load_to_cpu, jit_load_to_cpu
    torch.cuda.mem_get_info = _host_memory
