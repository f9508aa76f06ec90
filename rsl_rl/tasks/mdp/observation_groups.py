"""Observation groups: terms that are scaled, get noise and are concatenated."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Tuple

import torch
from torch import Tensor

from rsl_rl.config.mdp import ObservationTerm
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.env.protocols import Mirror
from rsl_rl.robots import Robot
from rsl_rl.tasks.mdp.observations import TERMS, Term, find_observation_term, mirrors_by_type
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.column_selector import ColumnSelector
from rsl_rl.utils.uniform import Uniform


class ObservationGroup:
    """Named terms, scaled, with noise, concatenated: [N, D]. An :class:`ObservationTable` computes them."""

    def __init__(self, terms: Mapping[str, ObservationTerm], state: RobotState, generator: torch.Generator):
        if not terms:
            raise ValueError(f"an observation group has no terms; name some of {', '.join(sorted(TERMS))}")
        self.terms = dict(terms)
        self.found = {name: find_observation_term(name) for name in terms}
        self.sizes = [_size(name, term.function(state), state) for name, term in self.found.items()]
        self._device = state.action.device
        widths = [term.noise * term.scale for term, size in zip(terms.values(), self.sizes) for _ in range(size)]
        bounds = [(-width, width) for width in widths]
        self._draw = Uniform(len(state.action), bounds, generator) if any(widths) else None
        self._noise: Optional[Tensor] = None  # [N, D]

    def draw_noise(self) -> None:
        """Draw the noise of all observations until the next call; there is no noise before the first call."""
        if self._draw is not None:
            self._noise = self._draw()

    def with_noise(self, x: Tensor) -> Tensor:
        """Return observations [N, D] with the last noise that was drawn, contiguous."""
        return x.contiguous() if self._noise is None else x + self._noise

    def split(self, x: Tensor) -> Dict[str, List[float]]:
        """Split the observation of one robot [D] into its terms."""
        return {name: part.tolist() for name, part in zip(self.terms, x.split(self.sizes))}

    def describe(self) -> List[Dict[str, Any]]:
        """Return name, size, scale and frame of each term; terms of the frame "joint" have one number per joint."""
        return [
            {"name": name, "size": size, "scale": term.scale, "frame": self.found[name].frame}
            for (name, term), size in zip(self.terms.items(), self.sizes)
        ]

    def mirror(self, robot: Robot) -> Mirror:
        """Return the mirror image of the group."""
        index, sign, start = [], [], 0
        for name, size in zip(self.terms, self.sizes):
            term_index, term_sign = _mirror_of_term(name, self.found[name], size, robot)
            index += [start + i for i in term_index]
            sign += term_sign
            start += size
        return torch.tensor(index, device=self._device), torch.tensor(sign, device=self._device)


def _size(name: str, value: Tensor, state: RobotState) -> int:
    """Return the size k of a term with a value [N, k]; another shape is a ValueError."""
    num_envs = len(state.action)
    if value.dim() != 2 or len(value) != num_envs:
        raise ValueError(f"the observation term '{name}' returns {list(value.shape)}; return [N, k], here N={num_envs}")
    return value.shape[1]


def _mirror_of_term(name: str, term: Term, size: int, robot: Robot) -> Tuple[Tuple[int, ...], Tuple[float, ...]]:
    """Return index and sign of a term's mirror image."""
    known = mirrors_by_type(robot)
    if term.mirror_type not in known or len(known[term.mirror_type][0]) != size:
        types = ", ".join(f"'{key}' ({len(index)})" for key, (index, _) in known.items())
        raise ValueError(
            f"the observation term '{name}' of {size} numbers has no mirror image (mirror_type='{term.mirror_type}'); "
            "use a policy without symmetry, or instead of the function name an "
            f"rsl_rl.tasks.mdp.observations.Term(function, mirror_type, frame) with one of {types}"
        )
    return known[term.mirror_type]


def observation_groups(
    cfg: LeggedRobotConfig, state: RobotState, generator: torch.Generator
) -> Dict[str, ObservationGroup]:
    """Return the groups of a task by name: "policy", "critic" if it has terms, and further groups."""
    terms = {"policy": cfg.policy_observations}
    if cfg.critic_observations:
        terms["critic"] = cfg.critic_observations
    terms.update(cfg.more_observations)
    return {name: ObservationGroup(own, state, generator) for name, own in terms.items()}


class ObservationTable:
    """Compute each term of several groups once, scaled. A group selects its columns and adds its noise."""

    def __init__(self, groups: Mapping[str, ObservationGroup], state: RobotState):
        self._groups = dict(groups)
        self._terms = {name: term for group in groups.values() for name, term in group.found.items()}
        self._slices: Dict[Tuple[str, float], slice] = {}  # by name and scale
        width = 0
        # The largest group first, so that its columns are contiguous.
        widest_first = sorted(groups.values(), key=lambda group: sum(group.sizes), reverse=True)
        for group in widest_first:
            for (name, term), size in zip(group.terms.items(), group.sizes):
                if (name, term.scale) not in self._slices:
                    self._slices[name, term.scale] = slice(width, width + size)
                    width += size
        self._table = torch.empty(0)  # [N, all columns], after the first call
        columns = {key: range(part.start, part.stop) for key, part in self._slices.items()}
        scales = [scale for (_, scale), own in columns.items() for _ in own]
        self._scale = torch.tensor(scales, device=state.action.device)
        self._pick = {
            group_name: ColumnSelector(
                [i for name, term in group.terms.items() for i in columns[name, term.scale]], self._scale.device
            )
            for group_name, group in groups.items()
        }

    def draw_noise(self) -> None:
        """Draw the noise for the final observation of a control step and for the next observation."""
        for group in self._groups.values():
            group.draw_noise()

    def __call__(self, state: RobotState) -> Dict[str, Tensor]:
        """Return the observations of each group, [N, D].

        Groups without noise may share memory, so do not write to them.
        """
        terms = [
            self._terms[name].function(state).contiguous() for name, _ in self._slices
        ]  # faster to concatenate on a CPU
        self._table = torch.cat(terms, dim=1).mul_(self._scale)
        return self._observations()

    def update(self, state: RobotState) -> Dict[str, Tensor]:
        """Return what a call would return, if only pushes and new commands have occurred since the last call."""
        self._table = self._table.clone()  # groups of the last call may be views of it
        for (name, scale), columns in self._slices.items():
            if self._terms[name].changes_after_step:
                torch.mul(self._terms[name].function(state), scale, out=self._table[:, columns])
        return self._observations()

    def _observations(self) -> Dict[str, Tensor]:
        return {name: group.with_noise(self._pick[name](self._table)) for name, group in self._groups.items()}
