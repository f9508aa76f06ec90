"""Optional abilities of an environment, asked for by ``supports(env, Resettable)`` and the like.

An environment need not inherit from these classes.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, Callable, Dict, Mapping, Protocol, Tuple, Type, TypeVar

from torch import Tensor
from typing_extensions import TypeIs

from rsl_rl.env.vec_env import Observations, VecEnv

Mirror = Tuple[Tensor, Tensor]
"""Mirror image of a tensor x as a pair (index, sign): x[..., index] * sign, over the last axis."""


P = TypeVar("P")


def supports(env: Any, ability: Type[P]) -> TypeIs[P]:
    """Return whether an environment has every member of one of the protocols below, and each method can be called the
    way the protocol declares it.

    A method of the same name for another purpose does not count, such as Gymnasium's ``reset(seed=..., options=...)``.
    The instance is inspected, not its class, so that adapters may delegate by ``__getattr__`` and methods may be set on
    the instance.
    """
    methods = {name: value for name, value in vars(ability).items() if name[0] != "_" and inspect.isfunction(value)}
    return all(_can_call(getattr(env, name, None), declared) for name, declared in methods.items()) and all(
        _is_settable_tensor(env, name) for name in getattr(ability, "__annotations__", {})
    )


def _can_call(method: Any, declared: Callable) -> bool:
    """Return whether a bound method can be called with the positional arguments of a protocol's method."""
    if not callable(method) or getattr(method, "__func__", None) in (declared, VecEnv.reset):
        return False  # the protocol's own declaration and VecEnv.reset are not implementations
    arguments = list(inspect.signature(declared).parameters)[1:]  # without self
    try:
        signature = inspect.signature(method)
        signature.bind(*arguments)
    except (TypeError, ValueError):
        return False
    return arguments != ["env_ids"] or _names_indices(next(iter(signature.parameters)))


def _names_indices(parameter: str) -> bool:
    """Return whether a parameter of ``reset`` is named like indices: env_ids, indices or idx. Gymnasium's is a seed."""
    return re.search(r"(^|_)(ids?|idx|indices)$", parameter) is not None


def _is_settable_tensor(instance: Any, name: str) -> bool:
    """Return whether an attribute is a tensor that is not behind a read-only property."""
    read_only = getattr(getattr(type(instance), name, None), "fset", True) is None
    return isinstance(getattr(instance, name, None), Tensor) and not read_only


class Resettable(Protocol):
    """An environment whose instances can be reset by index."""

    def reset(self, env_ids: Any) -> Observations:
        """Start new episodes in the environments with the given indices [k]; return the observations of all."""
        ...


class SharesStarts(Protocol):
    """An environment that can start several instances in the same state."""

    def share_starts(self, group_size: int) -> None:
        """Start those of each ``group_size`` consecutive environments that are reset together in the same state."""
        ...


class Checkpointable(Protocol):
    """An environment whose current episodes can be saved in a checkpoint."""

    def state_dict(self) -> Dict[str, Any]:
        """Return everything that a resumed run needs, in tensors, plain numbers, texts and containers of them."""
        ...

    def load_state_dict(self, state: Any) -> Any:
        """Restore what :meth:`state_dict` returned."""
        ...


class Mirrored(Protocol):
    """An environment with left-right symmetry."""

    def mirrors(self) -> Mapping[str, Mirror]:
        """Return the mirror image of each observation group and of "actions"."""
        ...


class ReportsFaults(Protocol):
    """An environment that describes its faults."""

    def postmortem(self, cause: str) -> Any:
        """Return a dict that describes the first instance that broke for a cause of ``extras["invalid"]``.

        Return None where there was none. "environment" is the instance's index, "term" is the offending term.
        """
        ...


class HasEpisodeLengths(Protocol):
    """An environment whose episode lengths can be read and set."""

    episode_length_buf: Tensor
    """Control steps of the current episode, [N] int64."""
