"""What the ranks of a training compare before it begins."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Any, Callable, Dict, Iterator, Mapping, NamedTuple, Sequence, Tuple

import torch
import torch.distributed as dist

import rsl_rl
from rsl_rl.distributed.collective import Collective
from rsl_rl.utils.config_io import short_repr

_PATIENCE = timedelta(seconds=5)
"""Longest time for which a rank that knows why no training begins waits until that is shown."""


class AgreementError(ValueError):
    """The ranks cannot begin a training; every rank raises it."""


class Start(NamedTuple):
    """What a rank says before a training."""

    settings: Mapping[str, Any] = {}
    """Plain values, nested; they must be the same on all ranks."""
    error: str = ""
    """Why this rank cannot begin; empty if it can."""


def versions() -> Dict[str, str]:
    """Return the versions that must be the same on all ranks, for the settings of a :class:`Start`."""
    return {"rsl_rl.__version__": rsl_rl.__version__, "torch.__version__": str(torch.__version__)}


def require_agreement(collective: Collective, settings: Mapping[str, Any]) -> None:
    """Raise an AgreementError on all ranks of a collective unless they have the same settings, which are plain values;
    they call it together."""
    starts = [Start(json.loads(text)) for text in collective.gather(_as_text(settings))]
    problem = find_disagreement(starts)
    if problem:
        raise AgreementError(problem)


def _as_text(value: Any) -> str:
    """Return plain values as JSON; the addresses of functions and other objects that they name are left out."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", json.dumps(value))


def find_disagreement(starts: Sequence[Start]) -> str:
    """Return in a sentence why ranks cannot begin a training together, empty if they can."""
    errors = [start.error for start in starts]
    if all(errors) and len(set(errors)) == 1:
        return errors[0]
    for rank, error in enumerate(errors):
        if error:
            return f"rank {rank}: {error}"
    for rank, start in enumerate(starts):
        for name, first, own in _differences(starts[0].settings, start.settings):
            return (
                f"rank {rank} has {name}={own} and rank 0 has {name}={first}; start all ranks with the same flags, "
                "files and versions"
            )
    return ""


def _differences(first: Any, other: Any, name: str = "") -> Iterator[Tuple[str, str, str]]:
    """Yield path and both values, as texts, of each setting that differs."""
    if isinstance(first, Mapping) and isinstance(other, Mapping):
        for key in dict.fromkeys((*first, *other)):
            path = f"{name}.{key}" if name else str(key)
            yield from _differences(first.get(key, _MISSING), other.get(key, _MISSING), path)
    elif first != other:
        yield name, short_repr(first), short_repr(other)


class _Missing:
    def __repr__(self) -> str:
        return "nothing"


_MISSING = _Missing()


def agree_on_start(store: dist.Store, rank: int, size: int, start: Start, show: Callable[[str], None]) -> None:
    """Exchange what the ranks say before a training through a store; raise an AgreementError on all if they cannot
    begin.

    Rank 0 calls ``show`` with the message before any rank goes on.
    """
    store.set(f"start/{rank}", _as_text(start))
    starts = [Start(*json.loads(store.get(f"start/{other}"))) for other in range(size)]
    problem = find_disagreement(starts)
    if not problem:
        return
    try:
        if rank == 0:  # whose process may serve the store
            show(problem)
            store.set("start/shown", "")
            store.wait([f"start/left/{other}" for other in range(1, size)], _PATIENCE)
        else:
            store.wait(["start/shown"], _PATIENCE)
            store.set(f"start/left/{rank}", "")
    except RuntimeError:  # another rank is late or has ended
        pass
    raise AgreementError(problem)
