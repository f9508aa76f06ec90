"""Join the processes that torchrun has started."""

from __future__ import annotations

import importlib
import os
from datetime import timedelta
from typing import Union

import torch
import torch.distributed as dist
from torch.distributed.rendezvous import rendezvous

from rsl_rl.distributed.collective import SINGLE_PROCESS, Collective
from rsl_rl.distributed.monitor import Monitor
from rsl_rl.distributed.process_group import ProcessGroup
from rsl_rl.utils.launch import current_launch

DEFAULT_TIMEOUT = 300.0
"""Longest time that a rank waits for the others [s]."""

_MARGIN = 60.0
"""Time by which torch.distributed waits longer than the monitor, which reports better [s]."""


def join_process_group(device: Union[str, torch.device] = "cpu", timeout: float = DEFAULT_TIMEOUT) -> Collective:
    """Return the collective of the ranks that torchrun has started, with tensors on ``device``; without torchrun it is
    that of a single process.

    Ranks that do not meet within ``timeout`` [s] are a ValueError. A rank that later waits longer than that for the
    others ends its process, with a line that names the late rank. A process group that exists is used as it is.
    """
    launch = current_launch()
    if dist.is_initialized():
        return ProcessGroup()
    if not launch.has_group:
        return SINGLE_PROCESS
    on_gpu = torch.device(device).type == "cuda"
    if on_gpu:
        torch.cuda.set_device(device)
    # Functions of this module have the process group that exists at its import as a default argument. Later, the import
    # would keep the group, whose threads then abort a process that has done its work.
    importlib.import_module("torch.distributed.nn.functional")
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    backend, limit = "cpu:gloo,cuda:nccl" if on_gpu else "gloo", timedelta(seconds=timeout + _MARGIN)
    # On one machine torchrun keeps the store, with addresses of ended processes, when it restarts them.
    attempt = f"rsl_rl/{launch.restarts if launch.local_size == launch.size else 0}"
    try:
        shared, rank, size = next(rendezvous("env://", timeout=limit))
        group_store = dist.PrefixStore(attempt, shared)
        dist.init_process_group(backend, store=group_store, rank=rank, world_size=size, timeout=limit)
        store = dist.TCPStore(
            address, port, is_master=False, timeout=timedelta(seconds=timeout), wait_for_workers=False
        )
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"rank {launch.rank} of {launch.size} could not meet the others at {address}:{port}: "
            f"{' '.join(str(error).split())[:200]}"
        ) from error
    monitor = Monitor(dist.PrefixStore(f"{attempt}/monitor", store), rank, size, timeout)
    collective = ProcessGroup(monitor)
    collective.gather(None)  # every rank has given a sign of life
    monitor.start()
    return collective
