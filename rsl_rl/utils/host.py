"""Process settings for training on a CPU: threads and memory allocation."""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
from typing import Iterator

import torch

from rsl_rl.utils.cpus import available_cpus

MAX_THREADS = 16
"""Largest number of threads that makes products of a few thousand rows faster."""

MAX_SINGLE_THREAD_ROWS = 2048
"""Largest number of environments for which one thread is faster than several, for small operations."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # names and numbers of malloc.h


def prepare_host() -> None:
    """Limit the number of threads, and make malloc reuse freed memory, unless environment variables set these.

    The settings affect the whole process, so programs call this function and the library does not.
    """
    if not {"OMP_NUM_THREADS", "MKL_NUM_THREADS"} & set(os.environ):
        torch.set_num_threads(min(torch.get_num_threads(), available_cpus(), MAX_THREADS))
    if platform.libc_ver()[0] == "glibc" and not any(name.startswith("MALLOC_") for name in os.environ):
        # By default glibc returns large tensors to the system, which then clears every page of the next one.
        libc = ctypes.CDLL(None)
        if libc.mallopt(_M_MMAP_THRESHOLD, 1 << 30) or libc.mallopt(_M_MMAP_THRESHOLD, 1 << 25):  # older ones: 32 MiB
            libc.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


@contextlib.contextmanager
def single_thread_if_small(num_rows: int) -> Iterator[None]:
    """Within the block, use one torch thread if operations have few rows; the setting affects the whole process.

    Other numbers are not used: OpenMP stops and restarts threads when the number changes to more than one.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1 if num_rows <= MAX_SINGLE_THREAD_ROWS else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
