"""The algorithm for clients that run their own training loop, with the arguments and results of their era."""

from __future__ import annotations

from typing import Any, Mapping, Tuple

from torch import Tensor

from rsl_rl.algorithms.algorithm import Algorithm
from rsl_rl.algorithms.metrics import UnpackedMetrics
from rsl_rl.compat.eras import Era
from rsl_rl.env.adapters.foreign import is_groups

FORMER_NAMES = {
    "value_function": "value_loss",
    "value": "value_loss",
    "surrogate": "surrogate_loss",
    "behavior": "behavior_loss",
}
_TWO = ("value_loss", "surrogate_loss")
_FIVE = (*_TWO, "entropy", "rnd_loss", "symmetry_loss")
"""What ``update`` returned as a tuple in 1.0 to 2.1, and in 2.2; later versions return a dict."""


def unpacked_by(era: Era, section: Mapping[str, Any]) -> Tuple[str, ...]:
    """Return the names of what ``update`` returned as a tuple in an era; none where it returned a dict.

    Versions 2.2 are told from those before by the settings of the section "algorithm". Version 2.3 returned a dict,
    whose values are there by name too.
    """
    if era.major > 2:
        return ()
    return _FIVE if era.major == 2 and ("rnd_cfg" in section or "symmetry_cfg" in section) else _TWO


class EraMetrics(UnpackedMetrics):
    """Metrics of an update that also have their former names, and unpack into what an era returned as a tuple."""

    def __missing__(self, name: str) -> Tensor:
        former = FORMER_NAMES.get(name)
        if former is None or former not in self:
            raise KeyError(name)
        return self[former]


def serve_own_loop(alg: Algorithm, era: Era, section: Mapping[str, Any]) -> None:
    """Let an algorithm be called as in an era: ``process_env_step(obs, rewards, dones, extras)`` since version 3, and
    ``update()`` that returns what it did. The calls of this package go on to work."""
    update, process_env_step = alg.update, alg.process_env_step
    unpacked = unpacked_by(era, section)

    def era_update() -> EraMetrics:
        return EraMetrics(dict(update().items()), unpacked)

    def era_process_env_step(*args: Any, **kwargs: Any) -> None:
        if len(args) == 4 and is_groups(args[0]):
            args = (*args[1:], args[0])
        process_env_step(*args, **kwargs)

    alg.update = era_update  # type: ignore[method-assign]
    alg.process_env_step = era_process_env_step  # type: ignore[method-assign]
