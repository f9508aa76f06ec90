"""Observation terms, functions of the robots' state, each [N, k], in SI units, and the groups that are made of them.

A term is a function and an entry of ``TERMS``, which says how it is mirrored. To add one, see docs/own-task.md. Another
package names its own term by "package.module:function"; it may be a ``Term`` too. In a group, terms are scaled, get
errors of sensors, are stacked over control steps and concatenated.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.config.mdp import ObservationGroupConfig, ObservationTerm
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.env.protocols import Mirror
from rsl_rl.robots import Names, Robot
from rsl_rl.sim.base import Sim
from rsl_rl.tasks.mdp import motion_terms, style
from rsl_rl.tasks.mdp.randomization import nominal_values
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.terrain.ground import MIRROR
from rsl_rl.utils.binding import bind_term, find_function
from rsl_rl.utils.tensors import ColumnSelector, Stored, Uniform


def base_lin_vel(state: RobotState) -> Tensor:
    """Velocity of the trunk in the base frame [m/s]."""
    return state.base_lin_vel


def base_ang_vel(state: RobotState) -> Tensor:
    """Angular velocity of the trunk in the base frame [rad/s]."""
    return state.base_ang_vel


def gravity(state: RobotState) -> Tensor:
    """Unit vector of gravity in the base frame."""
    return state.gravity


def command(state: RobotState) -> Tensor:
    """Commanded vx, vy [m/s] and yaw rate [rad/s] in the base frame."""
    return state.command


def gait_clock(state: RobotState) -> Tensor:
    """Sine and cosine of the phase of the command term gait_clock; 0 while no motion is commanded."""
    return state.command_of("gait_clock") * state.commands_motion().unsqueeze(1)


def joint_pos(state: RobotState) -> Tensor:
    """Joint angles that the encoders report less those of the default pose [rad]."""
    return state.sensed_joint_offset


def joint_vel(state: RobotState) -> Tensor:
    """Joint velocities [rad/s]."""
    return state.joint_vel


def action(state: RobotState) -> Tensor:
    """The last action."""
    return state.action


def foot_contact(state: RobotState) -> Tensor:
    """1 for each foot on the floor, else 0."""
    return state.foot_contact.to(state.action.dtype)


def foot_height(state: RobotState) -> Tensor:
    """Height of each foot's centre above the floor [m]."""
    return state.foot_height


def air_time(state: RobotState) -> Tensor:
    """Time that each foot has been in the air [s]."""
    return state.air_time


def base_height(state: RobotState) -> Tensor:
    """Height of the trunk above the floor [m]."""
    return state.base_height.unsqueeze(1)


def friction(state: RobotState) -> Tensor:
    """Sliding friction of the floor."""
    return state.friction.unsqueeze(1)


def payload(state: RobotState) -> Tensor:
    """Mass added to the trunk [kg]."""
    return state.payload.unsqueeze(1)


def foot_positions(state: RobotState) -> Tensor:
    """Position of each foot's centre in the base frame, by the joint angles, foot after foot [m]."""
    return state.in_base(state.links(state.sim.foot_names).pos)


def height_scan(state: RobotState, *, trunk_height: float = 0.3, with_error: bool = False) -> Tensor:
    """Height of the trunk above the ground at 17 x 11 points around it, less ``trunk_height`` [m], from -1 to 1.

    The points lie in a rectangle of 1.6 m along the heading and 1.0 m across it, see :class:`ScanGrid`. With
    ``with_error``, the scan has the errors of the event scan_error.
    """
    return (state.trunk_above_scan(with_error) - trunk_height).clamp_(-1.0, 1.0)


def parameter(state: RobotState, *, name: str) -> Tensor:
    """A parameter that an event of rsl_rl.tasks.mdp.randomization draws, by its name; the nominal value without it."""
    if name not in state.parameters:
        state.parameters[name] = nominal_values(name, state.sim).expand(state.sim.num_envs, -1).clone()
    return state.parameters[name]


class Term(NamedTuple):
    """A term, how it is mirrored, and its frame."""

    function: Callable[..., Tensor]
    mirror_type: str  # a key of mirrors_by_type; empty: unknown
    frame: str
    names: Names = ()  # joints or feet that the term has, as in RobotState.joints and feet; empty: all


TERMS: Dict[str, Term] = {
    "base_lin_vel": Term(base_lin_vel, "vector", "base"),
    "base_ang_vel": Term(base_ang_vel, "axial_vector", "base"),
    "gravity": Term(gravity, "vector", "base"),
    "command": Term(command, "command", "base"),
    "gait_clock": Term(gait_clock, "half_turn", "base"),
    "joint_pos": Term(joint_pos, "joints", "joint"),
    "joint_vel": Term(joint_vel, "joints", "joint"),
    "action": Term(action, "joints", "joint"),
    "foot_contact": Term(foot_contact, "feet", "world"),
    "foot_height": Term(foot_height, "feet", "world"),
    "air_time": Term(air_time, "feet", "world"),
    "base_height": Term(base_height, "scalar", "world"),
    "friction": Term(friction, "scalar", "world"),
    "payload": Term(payload, "scalar", "base"),
    "height_scan": Term(height_scan, "height_scan", "base"),
    "foot_positions": Term(foot_positions, "foot_vectors", "base"),
    "reference_joint_pos": Term(motion_terms.reference_joint_pos, "joints", "joint"),
    "reference_joint_vel": Term(motion_terms.reference_joint_vel, "joints", "joint"),
    "reference_offset": Term(motion_terms.reference_offset, "vector", "base"),
    "reference_turn": Term(motion_terms.reference_turn, "turn", "base"),
    "reference_phase": Term(motion_terms.reference_phase, "scalar", "base"),
    "reference_clip": Term(motion_terms.reference_clip, "scalar", "base"),
    "reference_feet": Term(motion_terms.reference_feet, "foot_vectors", "base"),
    "style": Term(style.style, "scalar", "base"),
    "foot_clock": Term(style.foot_clock, "feet", "base"),
    **{
        name: Term(functools.partial(parameter, name=name), mirror_type, frame)
        for name, mirror_type, frame in (
            ("restitution", "scalar", "world"),
            ("link_mass", "", "base"),
            ("trunk_com", "vector", "base"),
            ("gravity_change", "vector", "world"),
            ("motor_strength", "joint_factors", "joint"),
            ("stiffness", "joint_factors", "joint"),
            ("damping", "joint_factors", "joint"),
            ("armature", "joint_factors", "joint"),
            ("joint_friction", "joint_factors", "joint"),
            ("encoder_offset", "joints", "joint"),
            ("action_delay", "scalar", "base"),
            ("trunk_force", "vector", "world"),
        )
    },
}


def bind_observation(name: str, term: ObservationTerm, where: str) -> Term:
    """Find the function of a term of the config and bind its parameters."""
    found = find_function(term.func or name, TERMS, "observation term")
    found = found if isinstance(found, Term) else Term(found, mirror_type="", frame="")
    return found._replace(function=bind_term(found.function, term.params, where, {}))


def mirrors_by_type(robot: Robot) -> Dict[str, Tuple[Tuple[int, ...], Tuple[float, ...]]]:
    """Return index and sign of the mirror image for each mirror type; a term may have several, one after another."""
    return {
        "scalar": ((0,), (1.0,)),
        "vector": ((0, 1, 2), (1.0, -1.0, 1.0)),
        "axial_vector": ((0, 1, 2), (-1.0, 1.0, -1.0)),
        "command": ((0, 1, 2), (1.0, -1.0, -1.0)),
        "half_turn": ((0, 1), (-1.0, -1.0)),  # left and right feet are half a turn apart
        "joints": (robot.mirrored_joints, robot.mirror_signs),
        "joint_factors": (robot.mirrored_joints, (1.0,) * len(robot.mirrored_joints)),
        "feet": (robot.mirrored_feet, (1.0,) * len(robot.mirrored_feet)),
        "foot_vectors": (
            tuple(3 * foot + axis for foot in robot.mirrored_feet for axis in range(3)),
            (1.0, -1.0, 1.0) * len(robot.mirrored_feet),
        ),
        "turn": (tuple(range(6)), (1.0, -1.0, -1.0, 1.0, 1.0, -1.0)),  # x and y axes, row after row
        "height_scan": (MIRROR, (1.0,) * len(MIRROR)),
    }


class History:
    """Stack the last control steps of each term of a group: [N, sum of sizes * steps].

    Term follows term; within a term the oldest step is the first. All that is remembered is the observation before.
    """

    def __init__(self, sizes: Sequence[int], steps: Sequence[int], device: Union[str, torch.device]):
        self._is_needed = max(steps, default=1) > 1
        total, new, old = sum(size * count for size, count in zip(sizes, steps)), 0, 0
        following: List[int] = []  # of the columns of the observation before and of the new values
        replacing: List[int] = []
        repeating: List[int] = []  # of the columns of the new values
        for size, count in zip(sizes, steps):
            newest = [total + new + i for i in range(size)]
            following += [*range(old + size, old + size * count), *newest]
            replacing += [*range(old, old + size * (count - 1)), *newest]
            repeating += [new + i for i in range(size)] * count
            new, old = new + size, old + size * count
        indices = (following, replacing, repeating)
        self._following, self._replacing, self._repeating = (torch.tensor(x, device=device) for x in indices)

    def __call__(self, x: Tensor, previous: Optional[Tensor], started: Optional[Tensor], same_step: bool) -> Tensor:
        """Return the observation [N, D] that ends with the values x [N, sum of sizes].

        ``previous`` [N, D] is the observation of the last step, or with ``same_step`` of this step, whose newest values
        are replaced. Without it, and for the robots marked in ``started`` [N], all steps are x.
        """
        if not self._is_needed:
            return x
        if previous is None:
            return x.index_select(1, self._repeating)
        index = self._replacing if same_step else self._following
        stacked = torch.cat((previous, x), dim=1).index_select(1, index)
        if started is None:
            return stacked
        return torch.where(started.unsqueeze(1), x.index_select(1, self._repeating), stacked)


class SensorErrors(Stored):
    """Bias and delay of the terms of a group, for N robots and the D numbers of one step.

    ``apply`` may be called several times in a control step; ``end_step`` ends it.
    """

    def __init__(
        self, terms: Sequence[ObservationTerm], sizes: Sequence[int], num_envs: int, generator: torch.Generator
    ):
        widths = [term.bias * term.scale for term, size in zip(terms, sizes) for _ in range(size)]
        largest = max((term.delay[1] for term in terms), default=0)
        self.is_needed = any(widths) or largest > 0
        if not self.is_needed:
            return
        self.stored = ("_bias", "_delay", "_past")
        device = generator.device
        delays = [(term.delay[0], term.delay[1] + 1) for term in terms]
        self._draw = Uniform(num_envs, [*((-width, width) for width in widths), *delays], generator)
        self._highest = torch.tensor([high - 1.0 for _, high in delays], device=device)
        self._term_of = torch.tensor([i for i, size in enumerate(sizes) for _ in range(size)], device=device)  # [D]
        self._bias = torch.zeros(num_envs, len(widths), device=device)
        self._delay = torch.zeros(num_envs, len(delays), dtype=torch.long, device=device)
        self._past = torch.zeros(largest + 1 if largest else 0, num_envs, len(widths), device=device)  # newest first
        self._present = self._bias

    def apply(self, x: Tensor, started: Optional[Tensor], same_step: bool) -> Tensor:
        """Return the values [N, D] that the sensors report for x; ``started`` marks robots at the start of an episode
        [N]. With ``same_step`` the present step has ended before."""
        if started is not None:
            self._start(started)
        x = x + self._bias
        if not len(self._past):
            return x
        if started is not None:
            self._past = torch.where(started.view(1, -1, 1), x, self._past)
        self._present = x
        times = torch.cat((x.unsqueeze(0), self._past[1:] if same_step else self._past[:-1]))
        return times.gather(0, self._delay[:, self._term_of].unsqueeze(0)).squeeze(0)

    def _start(self, started: Tensor) -> None:
        """Draw the errors of the robots marked in started [N]."""
        bias, delay = self._draw().split([self._bias.shape[1], self._delay.shape[1]], dim=1)
        rows = started.unsqueeze(1)
        self._bias = torch.where(rows, bias, self._bias)
        self._delay = torch.where(rows, torch.minimum(delay.floor(), self._highest).long(), self._delay)

    def end_step(self) -> None:
        """Store the values of the step for later ones."""
        if self.is_needed and len(self._past):
            self._past = torch.cat((self._present.unsqueeze(0), self._past[:-1]))


class ObservationGroup:
    """Named terms, scaled, with noise and a history, concatenated: [N, D]. An :class:`ObservationTable` computes them.

    ``where`` is the path of the terms in the config.
    """

    def __init__(
        self,
        cfg: ObservationGroupConfig,
        where: str,
        state: RobotState,
        generator: torch.Generator,
    ):
        terms = cfg.terms
        if not terms:
            raise ValueError(f"an observation group has no terms; name some of {', '.join(sorted(TERMS))}")
        self.terms = dict(terms)
        self.found = {name: bind_observation(name, term, f"{where}.{name}") for name, term in terms.items()}
        self.step_sizes = [_size(name, term.function(state), state) for name, term in self.found.items()]
        self._device, self._sim = state.action.device, state.sim
        self._steps = [term.history or cfg.history for term in terms.values()]
        self.sizes = [size * steps for size, steps in zip(self.step_sizes, self._steps)]
        self.history = History(self.step_sizes, self._steps, self._device)
        widths = [term.noise * term.scale for term, size in zip(terms.values(), self.step_sizes) for _ in range(size)]
        bounds = [(-width, width) for width in widths]
        self._draw = Uniform(len(state.action), bounds, generator) if any(widths) else None
        self._noise: Optional[Tensor] = None  # [N, step sizes]
        self.errors = SensorErrors(list(terms.values()), self.step_sizes, len(state.action), generator)

    def draw_noise(self) -> None:
        """Draw the noise of all observations until the next call; there is no noise before the first call."""
        if self._draw is not None:
            self._noise = self._draw()

    def sensed(self, x: Tensor, started: Optional[Tensor], same_step: bool) -> Tensor:
        """Return the values of one step, [N, step sizes], with the last noise that was drawn, bias and delay,
        contiguous."""
        x = x.contiguous() if self._noise is None else x + self._noise
        return self.errors.apply(x, started, same_step) if self.errors.is_needed else x

    def split(self, x: Tensor) -> Dict[str, List[float]]:
        """Split the observation of one robot [D] into its terms."""
        return {name: part.tolist() for name, part in zip(self.terms, x.split(self.sizes))}

    def describe(self, control_dt: float) -> List[Dict[str, Any]]:
        """Return name of the function, size in one step, scale, frame, history and delay [s] of each term.

        Terms of the frame "joint" have one number per joint. A term is ``history`` control steps, the oldest first. At
        the start of an episode all of them are the first one.
        """
        terms = zip(self.terms.items(), self.step_sizes, self._steps)
        return [
            {
                "name": term.func or name,
                "size": size,
                "scale": term.scale,
                "frame": self.found[name].frame,
                "history": steps,
                "delay": [late * control_dt for late in term.delay],
            }
            for (name, term), size, steps in terms
        ]

    def mirror(self, robot: Robot) -> Mirror:
        """Return the mirror image of the group."""
        index, sign, start = [], [], 0
        for name, size, steps in zip(self.terms, self.step_sizes, self._steps):
            term_index, term_sign = _mirror_of_term(name, self.found[name], size, robot, self._sim)
            for _ in range(steps):
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


def _mirror_of_term(
    name: str, term: Term, size: int, robot: Robot, sim: Sim
) -> Tuple[Tuple[int, ...], Tuple[float, ...]]:
    """Return index and sign of a term's mirror image in one step."""
    known = mirrors_by_type(robot)
    if term.names and term.mirror_type in ("feet", "joints", "joint_factors"):
        known[term.mirror_type] = _mirror_of_part(name, term, robot, sim, *known[term.mirror_type])
    index, sign = known.get(term.mirror_type, ((), ()))
    count, rest = divmod(size, max(1, len(index)))
    if not index or rest:
        types = ", ".join(f"'{key}' ({len(index)})" for key, (index, _) in known.items())
        raise ValueError(
            f"the observation term '{name}' of {size} numbers has no mirror image (mirror_type='{term.mirror_type}'); "
            "use a policy without symmetry, or instead of the function name an "
            f"rsl_rl.tasks.mdp.observations.Term(function, mirror_type, frame) with one of {types}"
        )
    return tuple(len(index) * i + j for i in range(count) for j in index), sign * count


def _mirror_of_part(
    name: str, term: Term, robot: Robot, sim: Sim, index: Sequence[int], sign: Sequence[float]
) -> Tuple[Tuple[int, ...], Tuple[float, ...]]:
    """Return index and sign of the mirror image of the joints or feet that a term has, given those of all."""
    every = sim.foot_names if term.mirror_type == "feet" else sim.joint_names
    own = (robot.foot_indices if term.mirror_type == "feet" else robot.joint_indices)(term.names, every)
    alone = [f"{every[i]} without {every[index[i]]}" for i in own if index[i] not in own]
    if alone:
        raise ValueError(f"the observation term '{name}' has {alone[0]}, its mirror image; name both, or neither")
    return tuple(own.index(index[i]) for i in own), tuple(sign[i] for i in own)


def observation_groups(
    cfg: LeggedRobotConfig, state: RobotState, generator: torch.Generator
) -> Dict[str, ObservationGroup]:
    """Return the groups of a task by name."""
    if "policy" not in cfg.observations:
        raise ValueError(f"env.observations has no group policy; name some of {', '.join(sorted(TERMS))} in it")
    return {
        name: ObservationGroup(group, f"env.observations.{name}.terms", state, generator)
        for name, group in cfg.observations.items()
    }


class ObservationTable:
    """Compute each term of several groups once, scaled. A group selects its columns, adds its noise and its history."""

    def __init__(self, groups: Mapping[str, ObservationGroup], state: RobotState):
        self._groups = dict(groups)
        self._terms: List[Any] = []  # function of each block of columns
        slices: Dict[Tuple[str, str, float], slice] = {}  # of the same function, parameters and scale
        columns: Dict[str, List[int]] = {}  # of each group
        scales: List[float] = []  # of each column
        # The largest group first, so that its columns are contiguous.
        for group_name in sorted(groups, key=lambda name: sum(groups[name].step_sizes), reverse=True):
            group, columns[group_name] = groups[group_name], []
            for (name, term), size in zip(group.terms.items(), group.step_sizes):
                key = (term.func or name, repr(sorted(term.params.items())), term.scale)
                if key not in slices:
                    slices[key] = slice(len(scales), len(scales) + size)
                    scales += [term.scale] * size
                    self._terms.append(group.found[name].function)
                columns[group_name] += range(slices[key].start, slices[key].stop)
        self._scale = torch.tensor(scales, device=state.action.device)
        self._pick = {name: ColumnSelector(columns[name], self._scale.device) for name in groups}

    def draw_noise(self) -> None:
        """Draw the noise for the final observation of a control step and for the next observation."""
        for group in self._groups.values():
            group.draw_noise()

    def end_step(self) -> None:
        """End a control step, for the delays of sensors."""
        for group in self._groups.values():
            group.errors.end_step()

    def state_dict(self) -> Dict[str, Any]:
        """Return the errors of the sensors of each group that has some."""
        states = {name: group.errors.state_dict() for name, group in self._groups.items()}
        return {name: state for name, state in states.items() if state}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned; a group that it does not have keeps its errors."""
        for name, errors in state.items():
            if name in self._groups:
                self._groups[name].errors.load_state_dict(errors)

    def __call__(
        self,
        state: RobotState,
        previous: Mapping[str, Tensor],
        started: Optional[Tensor] = None,
        same_step: bool = False,
    ) -> Dict[str, Tensor]:
        """Return the observations of each group, [N, D].

        Groups without noise may share memory, so do not write to them. ``previous`` are the observations of the last
        step, for the history; with ``same_step``, of this step. ``started`` marks robots at the start of an episode
        [N]; None: there are none.
        """
        terms = [term(state).contiguous() for term in self._terms]  # faster to concatenate on a CPU
        table = torch.cat(terms, dim=1).mul_(self._scale)
        return {
            name: group.history(
                group.sensed(self._pick[name](table), started, same_step), previous.get(name), started, same_step
            )
            for name, group in self._groups.items()
        }
