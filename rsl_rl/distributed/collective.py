"""The interface by which the processes of a training agree, and the training in one process."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence, TypeVar

from torch import Tensor

T = TypeVar("T")


class RankError(RuntimeError):
    """The other ranks cannot be reached: one of them has ended, or does not answer."""


class Collective:
    """The processes of one training, which are called ranks, and what they compute together.

    This class is a training in one process, whose own values are those of all; nothing is copied or computed.

    Every rank must call the same methods in the same order, with tensors of the same shapes; a method returns when all
    ranks have called it. All ranks get the same result, bit by bit. Methods for tensors stay on their device and do not
    synchronise with it; the others are for values on the host.
    """

    rank: int = 0
    """Number of this process, from 0."""
    size: int = 1
    """Number of processes."""

    # Tensors

    def sum(self, x: Tensor) -> Tensor:
        """Return the sum of a tensor over the ranks."""
        return x

    def norm(self, norm: Tensor) -> Tensor:
        """Return the Euclidean norm of a vector from the norm of each rank's part of it."""
        return norm

    def weighted_mean(self, tensors: Sequence[Tensor], weight: Tensor) -> Tensor:
        """Replace tensors by their means over the ranks, in place, and return the sum of the weights.

        ``weight`` is a scalar, the weight of this rank; where all are zero, so are the means. What is not finite on one
        rank is not finite on any rank afterwards.
        """
        return weight

    def to_host(self, x: Tensor) -> List[float]:
        """Return the values of a tensor [n] of this rank on the host; this synchronises with the device."""
        return x.tolist()

    # Values on the host

    def gather(self, value: T) -> List[T]:
        """Return the values of all ranks, in their order."""
        return [value]

    def gather_on_first(self, value: T) -> List[T]:
        """Return the values of all ranks on rank 0, and an empty list on the others."""
        return [value]

    def call_on_first(self, function: Callable[[], T]) -> T:
        """Call a function on rank 0 alone and return its result on every rank; an error is raised on every rank."""
        return function()

    def first_of(self, value: Optional[T]) -> Optional[T]:
        """Return the first value that is not None, by rank; None where there is none."""
        return next((one for one in self.gather(value) if one is not None), None)

    def load_from_first(self, owner: Any) -> None:
        """Load the ``state_dict()`` that an object has on rank 0 into that object of each rank."""

    # Time and end

    def seconds(self) -> Dict[str, float]:
        """Return the time that this process has spent in calls so far [s], by their purpose, waiting included.

        On a GPU the time of tensors is that of the host, which does not wait for the device.
        """
        return {}

    def close(self) -> None:
        """Wait for all ranks, and end the communication."""

    def claim_report(self) -> bool:
        """Return whether this rank is the first to report that the training fails; the others stay silent."""
        return True

    def explain(self, error: RankError) -> str:
        """Say in a sentence which ranks are lost; this takes some seconds. Where another rank reports it, the sentence
        is empty."""
        return str(error)

    def abort(self, code: int) -> None:
        """End the process at once where other ranks may wait for it; after :meth:`close`, and in a single process, do
        nothing."""


SINGLE_PROCESS = Collective()
"""The collective of a training in one process."""
