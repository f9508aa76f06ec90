"""A process on its machine: CPU cores, threads and memory, and its place among those that torchrun has started.

This file imports torch only where it is used: a process takes its share of the cores before torch starts its threads,
and Isaac Gym is imported before torch.
"""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import platform
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple, Optional

MAX_THREADS = 16
"""Largest number of threads that makes products of a few thousand rows faster."""

MAX_SINGLE_THREAD_ROWS = 2048
"""Largest number of environments for which one thread is faster than several, for small operations."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # names and numbers of malloc.h
_PR_SET_PDEATHSIG = 1  # name and number of linux/prctl.h

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""Environment variables of every process that torchrun starts."""


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


class Launch(NamedTuple):
    """A process among those of one training; the default is a process of its own."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0  # among the processes on this machine
    local_size: int = 1
    restarts: int = 0  # how often torchrun has restarted the processes
    max_restarts: int = 0
    has_group: bool = False  # several processes, or one, that torchrun has started

    @property
    def may_restart(self) -> bool:
        """Whether torchrun restarts the processes if one of them fails."""
        return self.restarts < self.max_restarts

    def share_of(self, total: int) -> int:
        """Return this process's share of a number of things; the first processes have one more where it does not
        divide."""
        return total // self.size + (self.rank < total % self.size)

    def seed(self, seed: int) -> int:
        """Return this process's seed from that of the training; rank 0 has the seed itself."""
        return (seed + self.rank * 1_000_003) % 2**32

    def device(self, device: str) -> str:
        """Return this process's device: ``cuda`` is the GPU with the number of the process on its machine."""
        if self.local_size > 1 and device.startswith("cuda:") and device != "cuda:0":
            raise ValueError(f"device {device} is one GPU for {self.local_size} processes; give cuda, one GPU for each")
        return f"cuda:{self.local_rank}" if self.has_group and device in ("cuda", "cuda:0") else device


def current_launch() -> Launch:
    """Return what torchrun's environment variables say of this process; a value that cannot be is a ValueError."""
    if any(not os.environ.get(name) for name in _VARIABLES):
        return Launch()

    def number(name: str, default: int, low: int = 0, high: float = math.inf) -> int:
        text = os.environ.get(name) or str(default)
        if not (text.isascii() and text.isdigit() and low <= int(text) <= high):
            limits = f"from {low} to {high}" if high < math.inf else f"of at least {low}"
            raise ValueError(
                f"the environment variable {name}={text[:80]!r}, which torchrun sets: give a whole number {limits}, or "
                f"unset {', '.join(_VARIABLES)} for a training in one process"
            )
        return int(text)

    size, local_size = number("WORLD_SIZE", 1, low=1), number("LOCAL_WORLD_SIZE", 1, low=1)
    number("MASTER_PORT", 0, high=65535)

    return Launch(
        number("RANK", 0, high=size - 1),
        size,
        number("LOCAL_RANK", 0, high=local_size - 1),
        local_size,
        number("TORCHELASTIC_RESTART_COUNT", 0),
        number("TORCHELASTIC_MAX_RESTARTS", 0),
        has_group=True,
    )


def launcher_name() -> str:
    """Return a name of the torchrun that has started this process, the same after a restart of its processes."""
    name = os.environ.get("TORCHELASTIC_RUN_ID", "none")
    if name != "none":
        return name
    parent = os.getppid()
    try:
        started = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        started = ""
    return f"{socket.gethostname()}:{parent}:{started}"


def kill_group(process: subprocess.Popen) -> None:
    """Kill a process that has a session of its own and, on systems that have process groups, its children."""
    with contextlib.suppress(ProcessLookupError):  # it has already ended
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()


def limit_memory(size: int) -> None:
    """Let allocations fail that would give this process, or one that it starts, more than ``size`` bytes of memory of
    its own; on Linux."""
    if sys.platform == "linux":
        import resource  # not on all systems

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        resource.setrlimit(resource.RLIMIT_DATA, (size if hard == resource.RLIM_INFINITY else min(size, hard), hard))


def parent_death_signal() -> Optional[Callable[[], Any]]:
    """Return a function after whose call a process gets SIGTERM when its parent ends, also where that is killed; None
    on systems that cannot do this."""
    if sys.platform != "linux":
        return None
    libc = ctypes.CDLL(None)  # here, since the function may be called between fork and exec
    return lambda: libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)


def end_with_parent() -> None:
    """Let this process get SIGTERM when its parent ends, on systems that can do this."""
    set_signal = parent_death_signal()
    if set_signal is not None:
        set_signal()
