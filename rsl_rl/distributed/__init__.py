"""Communication between the processes of a training, which torchrun starts."""

from rsl_rl.distributed.agreement import AgreementError, Start, require_agreement, versions
from rsl_rl.distributed.collective import SINGLE_PROCESS, Collective, RankError
from rsl_rl.distributed.process_group import DEFAULT_TIMEOUT, ProcessGroup, join_process_group

__all__ = [
    "DEFAULT_TIMEOUT",
    "SINGLE_PROCESS",
    "AgreementError",
    "Collective",
    "ProcessGroup",
    "RankError",
    "Start",
    "join_process_group",
    "require_agreement",
    "versions",
]
