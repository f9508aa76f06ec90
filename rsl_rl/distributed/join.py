"""Join the processes that torchrun has started."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Union

import torch
import torch.distributed as dist

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
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    try:
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if on_gpu else "gloo", timeout=timedelta(seconds=timeout + _MARGIN)
        )
        store = dist.TCPStore(
            address, port, is_master=False, timeout=timedelta(seconds=timeout), wait_for_workers=False
        )
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"rank {launch.rank} of {launch.size} could not meet the others at {address}:{port}: "
            f"{' '.join(str(error).split())[:200]}"
        ) from error
    prefixed = dist.PrefixStore(f"rsl_rl/{launch.restarts}", store)
    monitor = Monitor(prefixed, launch.rank, launch.size, timeout)
    collective = ProcessGroup(monitor)
    collective.gather(None)  # every rank has given a sign of life
    monitor.start()
    return collective
