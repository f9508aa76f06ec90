"""Terminations: functions of the robots' state that end an episode, as a failure unless the term has ``time_out``.

A function returns [N] bool, or a dict of them by cause. To add a termination, name a function in
``env.terminations.terms``.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Callable, Dict, Mapping, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.config.mdp import TerminationConfig
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.binding import bind_named, settings_of

Termination = Callable[[RobotState], Union[Tensor, Dict[str, Tensor]]]


def forbidden_contact(state: RobotState, *, contact_links: Tuple[str, ...], contact_force: float) -> Dict[str, Tensor]:
    """A contact force of more than ``contact_force`` [N]: "<link>_contact" for each of the ``contact_links``."""
    touching = state.contact_strength(contact_links) > contact_force  # [N, links]
    return {f"{link}_contact": touching[:, i] for i, link in enumerate(contact_links)}


def tilt(state: RobotState, *, max_tilt: float) -> Tensor:
    """An angle between the trunk's and the world's vertical of more than ``max_tilt`` [rad]."""
    return state.gravity[:, 2] > -math.cos(max_tilt)


TERMS: Dict[str, Callable] = {"forbidden_contact": forbidden_contact, "tilt": tilt}
"""Every termination of this file by its name."""


class Terminations:
    """The terminations of a task. Several may occur at once."""

    def __init__(self, cfg: TerminationConfig, state: RobotState):
        self._terms: Dict[str, Termination] = {}
        self._time_outs: Dict[str, Termination] = {}
        for name, term in cfg.all_terms.items():
            kind, where = self._time_outs if term.time_out else self._terms, f"env.terminations.terms.{name}"
            kind[name] = bind_named(name, term, TERMS, "termination term", where, settings_of(cfg))
        for cause, mask in {**self.causes(state), **_results(self._time_outs, state)}.items():
            if mask.dtype != torch.bool or mask.shape != state.command[:, 0].shape:
                got = f"{mask.dtype} of shape {list(mask.shape)}"
                raise ValueError(f"the termination '{cause}' returns {got}; return [N] bool, N={len(state.command)}")

    def causes(self, state: RobotState) -> Dict[str, Tensor]:
        """Return which robots fail by each cause, [N] bool."""
        return _results(self._terms, state)

    def time_outs(self, state: RobotState) -> Dict[str, Tensor]:
        """Return which robots end their episode by each term with ``time_out``, [N] bool."""
        return _results(self._time_outs, state)

    def describe(self) -> Dict[str, Any]:
        """Return the parameters of the shipped terminations of the task, for the simulation of an exported policy."""
        shipped = {"forbidden_contact": ("contact_links", "contact_force"), "tilt": ("max_tilt",)}
        bound = {getattr(term, "func", None): getattr(term, "keywords", {}) for term in self._terms.values()}
        return {
            setting: bound[TERMS[name]][setting]
            for name, settings in shipped.items()
            for setting in settings
            if TERMS[name] in bound
        }


def _results(terms: Mapping[str, Termination], state: RobotState) -> Dict[str, Tensor]:
    """Return which robots each term concerns, by cause."""
    causes: Dict[str, Tensor] = {}
    for name, term in terms.items():
        result = term(state)
        causes.update(result if isinstance(result, dict) else {name.rpartition(":")[2]: result})
    return causes


def any_of(causes: Dict[str, Tensor], num_envs: int, device: torch.device) -> Tensor:
    """Return which robots fail by any cause, [N] bool; none without causes."""
    nobody = torch.zeros(num_envs, dtype=torch.bool, device=device)
    return functools.reduce(torch.logical_or, causes.values(), nobody)
