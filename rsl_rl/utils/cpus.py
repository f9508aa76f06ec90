"""CPU cores of a process."""

from __future__ import annotations

import math
import os
from pathlib import Path


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
