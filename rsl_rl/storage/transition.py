"""One step of all environments."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Tuple

import torch
from torch import Tensor

from rsl_rl.utils.trajectories import HiddenState

OPTIONAL = ("time_outs", "sample_mask")
"""Columns that a transition may omit."""

_GROUP_NAMES = {"observations": "policy", "critic_observations": "critic"}
_COLUMN_NAMES = {"action_sigma": "action_std"}
_COLUMNS = (
    "actions", "rewards", "dones", "time_outs", "sample_mask", "values", "actions_log_prob", "action_mean",
    "action_std", "action_sigma",
)  # fmt: skip


class Transition:
    """Views of one step of the storage, or other tensors to be copied into it.

    ``groups`` are the observations by group [N, ...], ``columns`` all other data by name [N, size]; ``hidden_states``
    are those of actor and critic before the step. Groups and columns are also attributes with the names of rsl_rl, such
    as ``observations`` and ``actions``; values that are not set are None. ``on_demand`` are functions that compute
    columns [N, size] when such an attribute is first read.
    """

    groups: Dict[str, Tensor]
    columns: Dict[str, Tensor]
    hidden_states: Optional[Tuple[HiddenState, HiddenState]]
    on_demand: Dict[str, Callable[[], Tensor]]

    def __init__(
        self,
        groups: Optional[Mapping[str, Tensor]] = None,
        columns: Optional[Mapping[str, Tensor]] = None,
        hidden_states: Optional[Tuple[HiddenState, HiddenState]] = None,
        **named: Tensor,
    ):
        vars(self).update(groups=dict(groups or {}), columns=dict(columns or {}), hidden_states=hidden_states)
        vars(self).update(on_demand={})
        for name, value in named.items():
            if name not in _COLUMNS and name not in _GROUP_NAMES:
                raise TypeError(f"a transition has no '{name}'; known: {', '.join((*_GROUP_NAMES, *_COLUMNS))}")
            setattr(self, name, value)

    def copy(self) -> Transition:
        """Return a transition of the same tensors."""
        return Transition(self.groups, self.columns, self.hidden_states)

    def clear(self) -> None:
        """Drop every tensor."""
        self.groups, self.columns, self.hidden_states, self.on_demand = {}, {}, None, {}

    def __getattr__(self, name: str) -> Any:
        if name in _GROUP_NAMES:
            return self.groups.get(_GROUP_NAMES[name])
        if name in _COLUMNS:
            if name in self.on_demand:
                with torch.no_grad():
                    self.columns[name].copy_(self.on_demand.pop(name)())
            return self.columns.get(_COLUMN_NAMES.get(name, name))
        raise AttributeError(f"a transition has no '{name}'")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _GROUP_NAMES:
            self.groups[_GROUP_NAMES[name]] = value
        elif name in _COLUMNS:
            self.columns[_COLUMN_NAMES.get(name, name)] = value
        else:
            object.__setattr__(self, name, value)
