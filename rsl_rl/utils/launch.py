"""What torchrun says to the processes that it starts, and how they end with it."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
from pathlib import Path
from typing import NamedTuple

_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_PR_SET_PDEATHSIG = 1
"""Name and number of <linux/prctl.h>."""


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
    """Return what torchrun's environment variables say of this process."""
    if any(not os.environ.get(name) for name in _VARIABLES):
        return Launch()

    def number(name: str, default: int) -> int:
        return int(os.environ.get(name, default))

    return Launch(
        number("RANK", 0),
        number("WORLD_SIZE", 1),
        number("LOCAL_RANK", 0),
        number("LOCAL_WORLD_SIZE", 1),
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


def end_with_launcher() -> None:
    """Let the system send SIGTERM to this process when its parent ends; only Linux can."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
