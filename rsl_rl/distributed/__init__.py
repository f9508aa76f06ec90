"""What the processes of a training agree on."""

from rsl_rl.distributed.collective import SINGLE_PROCESS, Collective, SingleProcess
from rsl_rl.distributed.process_group import ProcessGroup, RankError

__all__ = ["SINGLE_PROCESS", "Collective", "ProcessGroup", "RankError", "SingleProcess"]
