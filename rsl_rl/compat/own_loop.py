"""The algorithm for clients that run their own training loop, with the arguments and results of their era."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Mapping, Tuple

from torch import Tensor

from rsl_rl.algorithms.algorithm import Algorithm
from rsl_rl.compat.eras import Era
from rsl_rl.env.adapters.foreign import is_groups

_FORMER_NAMES = {"value_function": "value_loss", "surrogate": "surrogate_loss", "behavior": "behavior_loss"}
_UNPACKED = {1: ("value_loss", "surrogate_loss")}
"""What ``update`` returned as a tuple, by major version; later ones return a dict."""


class EraMetrics(Dict[str, Tensor]):
    """Metrics of an update that also have their former names, and unpack into what an era returned as a tuple."""

    def __init__(self, metrics: Mapping[str, Tensor], unpacked: Tuple[str, ...]):
        super().__init__(metrics)
        self._unpacked = unpacked

    def __missing__(self, name: str) -> Tensor:
        former = _FORMER_NAMES.get(name)
        if former is None or former not in self:
            raise KeyError(name)
        return self[former]

    def __iter__(self) -> Iterator[Any]:
        if self._unpacked:
            return iter([float(self[name]) for name in self._unpacked])
        return super().__iter__()


def serve_own_loop(alg: Algorithm, era: Era) -> None:
    """Let an algorithm be called as in an era: ``process_env_step(obs, rewards, dones, extras)`` since version 3, and
    ``update()`` that returns what it did. The calls of this package go on to work."""
    update, process_env_step = alg.update, alg.process_env_step
    unpacked = _UNPACKED.get(era.major, ())

    def era_update() -> EraMetrics:
        return EraMetrics(dict(update().items()), unpacked)

    def era_process_env_step(*args: Any, **kwargs: Any) -> None:
        if len(args) == 4 and is_groups(args[0]):
            args = (*args[1:], args[0])
        process_env_step(*args, **kwargs)

    alg.update = era_update  # type: ignore[method-assign]
    alg.process_env_step = era_process_env_step  # type: ignore[method-assign]
