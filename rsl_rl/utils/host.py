"""What a process takes of its machine: CPU cores, threads and memory.

This file imports torch only where it is used: a process takes its share of the cores before torch starts its threads,
and Isaac Gym is imported before torch.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import platform
from pathlib import Path
from typing import Iterator

MAX_THREADS = 16
"""Largest number of threads that makes products of a few thousand rows faster."""

MAX_SINGLE_THREAD_ROWS = 2048
"""Largest number of environments for which one thread is faster than several, for small operations."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # names and numbers of malloc.h


def available_cpus(cgroup: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return the number of CPUs for this process: its CPU affinity, limited by a container's quota (cgroups version 2).

    More threads than the quota make a training many times slower.
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = cgroup.read_text().split()
        return max(1, min(cpus, math.floor(int(quota) / int(period))))
    except (OSError, ValueError):  # no such file, or "max" for no quota
        return cpus


def take_share_of_cpus(index: int, count: int) -> int:
    """Restrict this process to its share of the CPUs, the ``index``-th of ``count`` processes; return its size.

    Shares are disjoint where there are enough CPUs; otherwise each is one CPU. A container's quota is divided too. Call
    it before libraries start their threads.
    """
    total = available_cpus()
    if count == 1 or not hasattr(os, "sched_setaffinity"):
        return max(1, total // count)
    cpus, size = sorted(os.sched_getaffinity(0)), max(1, total // count)
    first = index * size if size * count <= len(cpus) else index % len(cpus)
    os.sched_setaffinity(0, cpus[first : first + size])
    return size


def prepare_host() -> None:
    """Limit the number of threads, and make malloc reuse freed memory, unless environment variables set these.

    The settings affect the whole process, so programs call this function and the library does not.
    """
    import torch

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
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1 if num_rows <= MAX_SINGLE_THREAD_ROWS else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)
