"""Settings of the process for learning on a CPU."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import platform
from pathlib import Path
from typing import Iterator

import torch

MAX_THREADS = 16
"""Threads beyond which products of a few thousand rows are cut into parts too small to pay."""

MAX_SINGLE_THREAD_ROWS = 2048
"""Environments up to which one thread has done a small operation by the time that others would have woken."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # names and numbers of malloc.h


def prepare_host() -> None:
    """Use as many threads as pay, and keep freed memory for the next tensor, unless the environment has a say in it.

    These are settings of the whole process, so it is for programs to call, and not for the library.
    """
    if not {"OMP_NUM_THREADS", "MKL_NUM_THREADS"} & set(os.environ):
        torch.set_num_threads(min(torch.get_num_threads(), available_cpus(), MAX_THREADS))
    if platform.libc_ver()[0] == "glibc" and not any(name.startswith("MALLOC_") for name in os.environ):
        # By itself glibc hands large tensors back to the system, which then clears every page of the next one.
        libc = ctypes.CDLL(None)
        if libc.mallopt(_M_MMAP_THRESHOLD, 1 << 30) or libc.mallopt(_M_MMAP_THRESHOLD, 1 << 25):  # older ones: 32 MiB
            libc.mallopt(_M_TRIM_THRESHOLD, (1 << 31) - 1)


@contextlib.contextmanager
def single_thread_if_small(num_rows: int) -> Iterator[None]:
    """Within the block, keep torch to one thread where operations are on few rows; it holds for the whole process.

    It is one thread or all of them: OpenMP ends threads that a smaller team leaves out, and starts them anew.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1 if num_rows <= MAX_SINGLE_THREAD_ROWS else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def available_cpus(cgroup: Path = Path("/sys/fs/cgroup/cpu.max")) -> int:
    """Return how many CPUs this process may keep busy: those it may run on, less what a container's quota (of cgroups,
    version 2) forbids.

    Threads beyond a quota wait for each other, and slow a training down many times.
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = cgroup.read_text().split()
        return max(1, min(cpus, math.floor(int(quota) / int(period))))
    except (OSError, ValueError):  # no such file, or "max" for no quota
        return cpus
