"""The interface of environments."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Dict, Mapping, NamedTuple, Sequence, Union

import torch
from torch import Tensor

from rsl_rl.utils.registry import suggest

Observations = Mapping[str, Tensor]
"""Named groups of observations, each [N, ...]; "policy" is always there."""


def is_groups(obs: Any) -> bool:
    """Return whether observations are named groups: a mapping or a TensorDict."""
    return isinstance(obs, Mapping) or (hasattr(obs, "keys") and hasattr(obs, "values"))


def require_group(obs: Observations, group: str, reader: str, remedy: str = "") -> None:
    """Raise a ValueError if an observation group is not there; ``reader`` begins the message, ``remedy`` ends it."""
    known = sorted(obs.keys())
    if group not in known:
        given = ", ".join(known)
        raise ValueError(f"{reader} '{group}', and the environment gives {given}{remedy}.{suggest(group, known)}")


class StepResult(NamedTuple):
    """Result of one control step of N environments."""

    obs: Observations  # the next observations; of a finished environment, the first one of its new episode
    reward: Tensor  # [N] float
    done: Tensor  # [N] bool: terminated or timed out, and already reset
    extras: Dict[str, Any]  # a fresh dict every step, see VecEnv.step


class VecEnv(ABC):
    """N instances of a task, stepped together on one device.

    A subclass sets the attributes below (or defines them as properties) and implements ``step`` and
    ``get_observations``. More methods are optional, see rsl_rl.env.protocols:

    - ``reset(env_ids)``, with which the runner resets broken instances that do not reset themselves;
    - ``state_dict()`` and ``load_state_dict(state)``, with everything that a resumed run needs of the environment, in
      tensors, plain numbers and texts, and lists, tuples and dicts of them;
    - ``postmortem(cause)``, which returns data on the first instance that broke for a cause of ``extras["invalid"]``,
      with its index under "environment" and the offending term under "term";
    - ``mirrors()`` for symmetric policies, which returns the left-right mirror image of each observation group and of
      "actions" as a pair (index, sign): x[..., index] * sign.
    """

    num_envs: int
    """N."""
    num_actions: int
    """A."""
    max_episode_length: Union[int, Tensor]
    """Control steps until a time-out; one number, or [N]."""
    episode_length_buf: Tensor
    """Control steps of the current episode, [N] int64. The runner may overwrite it once at the start of training."""
    device: Union[str, torch.device]
    """Device of all tensors."""
    cfg: Any
    """Config of the environment, a dict or dataclass; it is saved with the run."""

    @abstractmethod
    def get_observations(self) -> Observations:
        """Return the current observation groups without a step."""

    @abstractmethod
    def step(self, actions: Tensor) -> StepResult:
        """Apply actions [N, A] for one control step, and reset the environments that finished.

        The extras may contain ``"time_outs"`` [N] bool, for episodes that ended by the time limit and not by a failure;
        ``"final_obs"``, groups with the last observation of the finished episodes (other rows are ignored);
        ``"invalid"``, a dict of [N] bool by cause, with the same causes in every step, for instances that broke and
        were reset, whose transitions are masked; ``"no_transition"`` [N] bool, where the step only started an episode
        and ignored the action, which is masked too; and ``"log"`` or ``"episode"``, a dict of numbers for the loggers.
        """

    def reset(self, env_ids: Union[Sequence[int], Tensor, None] = None) -> Observations:
        """Start new episodes in the given environments (None: in all) and return the observations of all."""
        raise NotImplementedError(
            f"{type(self).__name__} cannot be reset from outside; its step() resets what has finished"
        )
