"""Numbers of an iteration: those of this rank, and of all ranks together."""

from __future__ import annotations

import time
from typing import Dict, List, NamedTuple, Sequence

from rsl_rl.distributed import Collective

Sums = Dict[str, List[float]]
"""[sum, count] of each term of the episodes and of the environment's log."""


class RankNumbers(NamedTuple):
    """What one rank has counted and measured in an iteration."""

    faults: Dict[str, float]
    sums: Sums
    times: Dict[str, float]


class IterationClock:
    """Measure the phases of iterations, and how much of them is communication.

    ``phases`` are times of this rank [s], waiting for other ranks included.
    """

    def __init__(self, collective: Collective):
        self._collective = collective
        self._told = collective.seconds()  # at the end of the last call of _times()
        self.start()

    def start(self) -> None:
        """Begin an iteration."""
        self.phases: Dict[str, float] = {}
        self._own: Dict[str, float] = {}
        self._now, self._spent = time.perf_counter(), sum(self._collective.seconds().values())

    def finish_phase(self, name: str) -> None:
        """End the phase that has begun with the iteration, or with the end of the last phase."""
        now, spent = time.perf_counter(), sum(self._collective.seconds().values())
        self.phases[name] = now - self._now
        self._own[name] = self.phases[name] - (spent - self._spent)
        self._now, self._spent = now, spent

    @property
    def total(self) -> float:
        """Time of all phases [s]."""
        return sum(self.phases.values())

    def share(self, faults: Dict[str, float], sums: Sums) -> RankNumbers:
        """Return on rank 0 the numbers of all ranks together, and on the others their own."""
        own = RankNumbers(faults, sums, self._times())
        return merge(self._collective.gather_on_first(own) or [own])

    def _times(self) -> Dict[str, float]:
        """Return the times of the phases without communication, and of the communication by purpose since the last
        call [s]; empty in a single process."""
        seconds = self._collective.seconds()
        spent = {f"communication/{name}_s": value - self._told[name] for name, value in seconds.items()}
        self._told = seconds
        return {**self._own, **spent} if spent else {}


def merge(ranks: Sequence[RankNumbers]) -> RankNumbers:
    """Return the sums of what the ranks have counted, with the times of each rank as ``ranks/<name>_<rank>`` and the
    communication of the first one by purpose."""
    faults: Dict[str, float] = {}
    sums: Sums = {}
    times: Dict[str, float] = {}
    for number, rank in enumerate(ranks):
        for name, count in rank.faults.items():
            faults[name] = faults.get(name, 0.0) + count
        for name, pair in rank.sums.items():
            before = sums.get(name, [0.0, 0.0])
            sums[name] = [before[0] + pair[0], before[1] + pair[1]]
        communication = {name: value for name, value in rank.times.items() if name.startswith("communication/")}
        own = {name: value for name, value in rank.times.items() if name not in communication}
        if rank.times:
            own["communication_s"] = sum(communication.values())
        times.update({f"ranks/{name}_{number}": value for name, value in own.items()})
        times.update(communication if number == 0 else {})
    return RankNumbers(faults, sums, times)
