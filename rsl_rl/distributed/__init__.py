"""Communication between the processes of a training, which torchrun starts."""

from rsl_rl.distributed.collective import SINGLE_PROCESS, Collective, RankError
from rsl_rl.distributed.process_group import DEFAULT_TIMEOUT, ProcessGroup, join_process_group

__all__ = [
    "DEFAULT_TIMEOUT",
    "SINGLE_PROCESS",
    "Collective",
    "ProcessGroup",
    "RankError",
    "join_process_group",
]
