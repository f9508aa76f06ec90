"""Communication between the processes of a training, which torchrun starts."""

from rsl_rl.distributed.collective import SINGLE_PROCESS, Collective, RankError, SingleProcess
from rsl_rl.distributed.join import DEFAULT_TIMEOUT, join_process_group
from rsl_rl.distributed.process_group import ProcessGroup

__all__ = [
    "DEFAULT_TIMEOUT",
    "SINGLE_PROCESS",
    "Collective",
    "ProcessGroup",
    "RankError",
    "SingleProcess",
    "join_process_group",
]
