"""A collective over torch.distributed: gloo for tensors on CPUs and for values on the host, NCCL for those on GPUs."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
from datetime import timedelta
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple, TypeVar, Union

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.rendezvous import rendezvous

from rsl_rl.distributed.agreement import AgreementError, Start, agree_on_start
from rsl_rl.distributed.collective import SINGLE_PROCESS, Collective, RankError
from rsl_rl.distributed.monitor import Monitor
from rsl_rl.utils.host import current_launch
from rsl_rl.utils.text import one_line

T = TypeVar("T")

GRADIENTS, STATISTICS, HOST = "gradients", "statistics", "host"
"""Purposes of calls: means of gradients and losses, sums of moments, and values on the host."""

DEFAULT_TIMEOUT = 300.0
"""Longest time that a rank waits for the others [s]."""

_MARGIN = 60.0
"""Time by which torch.distributed waits longer than the monitor, which reports better [s]."""


class ProcessGroup(Collective):
    """The ranks of torch.distributed's default process group, which must exist; ``monitor`` watches them."""

    def __init__(self, monitor: Optional[Monitor] = None):
        self.rank, self.size = dist.get_rank(), dist.get_world_size()
        self._monitor = monitor
        self._closed = False
        self._seconds = {GRADIENTS: 0.0, STATISTICS: 0.0, HOST: 0.0}

    @contextlib.contextmanager
    def _call(self, purpose: str) -> Iterator[None]:
        """Measure the time of a call; an error of torch.distributed becomes a RankError."""
        began = time.perf_counter()
        try:
            with self._waiting():
                yield
        except RuntimeError as error:
            raise RankError(f"rank {self.rank} cannot reach the others: {one_line(str(error))}") from error
        finally:
            self._seconds[purpose] += time.perf_counter() - began

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        if self._monitor is None:
            yield
            return
        self._monitor.begin_call()
        try:
            yield
        finally:
            self._monitor.end_call()

    def sum(self, x: Tensor) -> Tensor:
        total = x.clone()
        with self._call(STATISTICS):
            dist.all_reduce(total)
        return total

    def norm(self, norm: Tensor) -> Tensor:
        return self.sum(norm.square()).sqrt()

    def weighted_mean(self, tensors: Sequence[Tensor], weight: Tensor) -> Tensor:
        parts = torch.cat([*(x.flatten() for x in tensors), torch.ones_like(weight).reshape(1)]) * weight
        with self._call(GRADIENTS):
            dist.all_reduce(parts)
        total = parts[-1].clone()
        means = (parts / total.clamp(min=1.0)).split([*(x.numel() for x in tensors), 1])
        for x, mean in zip(tensors, means):
            x.copy_(mean.view(x.shape))
        return total

    def to_host(self, x: Tensor) -> List[float]:
        with self._waiting():
            return x.tolist()

    def gather(self, value: T) -> List[T]:
        values: List[Any] = [None] * self.size
        with self._call(HOST):
            dist.all_gather_object(values, value)
        return values

    def gather_on_first(self, value: T) -> List[T]:
        values: Optional[List[Any]] = [None] * self.size if self.rank == 0 else None
        with self._call(HOST):
            dist.gather_object(value, values)
        return values or []

    def call_on_first(self, function: Callable[[], T]) -> T:
        answer: List[Tuple[Any, Optional[Exception]]] = [(None, None)]
        if self.rank == 0:
            try:
                answer = [(function(), None)]
            except Exception as error:
                answer = [(None, error)]
        with self._call(HOST):
            dist.broadcast_object_list(answer)
        result, error = answer[0]
        if error is not None:
            raise error
        return result

    def load_from_first(self, owner: Any) -> None:
        owner.load_state_dict(self.call_on_first(owner.state_dict))

    def seconds(self) -> Dict[str, float]:
        return dict(self._seconds)

    def claim_report(self) -> bool:
        return self._monitor is None or self._monitor.claim_report()

    def explain(self, error: RankError) -> str:
        if self._monitor is None:
            return str(error)
        with contextlib.suppress(RuntimeError):  # rank 0 served the store and has ended
            if self._monitor.failure_is_reported():
                return ""
        late = self._monitor.late_ranks()
        first = self.claim_report()
        return "" if not first else f"rank {self.rank} has lost {', '.join(late)}" if late else str(error)

    def close(self) -> None:
        self.first_of(None)
        if self._monitor is not None:
            self._monitor.stop()
        dist.destroy_process_group()
        self._closed = True

    def abort(self, code: int) -> None:
        if self._closed:
            return
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # without the end of the communication, which would wait for the other ranks


def join_process_group(
    device: Union[str, torch.device] = "cpu",
    timeout: float = DEFAULT_TIMEOUT,
    start: Optional[Start] = None,
    show: Callable[[str], None] = lambda message: None,
) -> Collective:
    """Return the collective of the ranks that torchrun has started, with tensors on ``device``; without torchrun it is
    that of a single process.

    Ranks that do not meet within ``timeout`` [s] are a ValueError. A rank that later waits longer than that for the
    others ends its process, with a line that names the late rank. A process group that exists is used as it is.

    If a rank says in ``start`` that it cannot begin, or the ranks have different settings, all raise an AgreementError,
    after rank 0 has called ``show`` with the message.
    """
    launch = current_launch()
    if dist.is_initialized():
        return ProcessGroup()
    if not launch.has_group:
        return SINGLE_PROCESS
    on_gpu = torch.device(device).type == "cuda"
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
        shared.set_timeout(timedelta(seconds=timeout))
        agree_on_start(group_store, rank, size, start or Start(), show)
        shared.set_timeout(limit)
        if on_gpu:
            torch.cuda.set_device(device)
        dist.init_process_group(backend, store=group_store, rank=rank, world_size=size, timeout=limit)
        store = dist.TCPStore(
            address, port, is_master=False, timeout=timedelta(seconds=timeout), wait_for_workers=False
        )
    except AgreementError:
        raise
    except (RuntimeError, ValueError) as error:
        raise ValueError(
            f"rank {launch.rank} of {launch.size} could not meet the others at {address}:{port}: "
            f"{one_line(str(error))[:200]}"
        ) from error
    monitor = Monitor(dist.PrefixStore(f"{attempt}/monitor", store), rank, size, timeout)
    collective = ProcessGroup(monitor)
    collective.gather(None)  # every rank has given a sign of life
    monitor.start()
    return collective
