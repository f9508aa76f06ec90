"""Find robots with values that are not finite, too fast ones and diverged physics, and name the cause.

Their transitions are masked. Limits of finite rewards and observations are those of ``safety``, for every environment.
"""

from __future__ import annotations

import math
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from rsl_rl.config.mdp import TerminationConfig
from rsl_rl.sim.base import Sim
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.tensors import FirstOccurrence, all_within_on_cpu, none_on_cpu

CAUSES = ("engine", "contacts", "state", "reward_term", "observation_term")
"""Causes of faults: the physics diverged; the engine's contact buffer overflowed; the state is not finite or too fast;
the reward is not finite; an observation is not finite."""


class Faults(NamedTuple):
    """Robots that broke in a step."""

    by_cause: Dict[str, Tensor]  # [N] bool for each of CAUSES; a robot is listed under its first cause only
    broken: Optional[Tensor]  # [N] bool, for any cause; None if it is known without synchronisation that there are none


def find_faults(state: RobotState, cfg: TerminationConfig, reward: Tensor, groups: Mapping[str, Tensor]) -> Faults:
    """Find the robots that broke in the last step; ``groups`` are the observations after it."""
    if _all_sound_on_cpu(state, cfg, reward, groups):
        return Faults(dict.fromkeys(CAUSES, torch.zeros_like(state.sim.diverged)), None)
    largest = torch.stack([group.abs().amax(dim=1) for group in groups.values()]).amax(dim=0)
    engine = ~state.sim.diverged, ~state.sim.overflowed
    valid = torch.stack((*engine, _is_valid_state(state, cfg), torch.isfinite(reward), torch.isfinite(largest)))
    broken = ~valid
    return Faults(dict(zip(CAUSES, broken & (broken.cumsum(dim=0) == 1))), broken.any(dim=0))


def _all_sound_on_cpu(state: RobotState, cfg: TerminationConfig, reward: Tensor, groups: Mapping[str, Tensor]) -> bool:
    """Return whether the tensors are on a CPU and no robot is broken; False on a GPU, to avoid a synchronisation.

    A False on a CPU is not exact: positions are compared with the limits of velocities.
    """
    sim, limit = state.sim, min(cfg.max_speed, cfg.max_turning_speed)
    states = ((x, limit) for x in sim.state_buffers())
    finite = ((x, math.inf) for x in (*groups.values(), reward))
    engine = none_on_cpu(sim.diverged) and none_on_cpu(sim.overflowed)
    return engine and all(all_within_on_cpu(x, most) for x, most in (*states, *finite))


def broken_state(state: RobotState, cfg: TerminationConfig) -> Tensor:
    """Return which states are not finite or too fast, [N] bool."""
    return ~_is_valid_state(state, cfg)


def _is_valid_state(state: RobotState, cfg: TerminationConfig) -> Tensor:
    sim, velocity = state.sim, velocities(state).abs()
    position = sim.root_pos.sum(dim=1) + sim.root_quat.sum(dim=1) + sim.joint_pos.sum(dim=1)
    slow = (velocity[:, :3].amax(dim=1) <= cfg.max_speed) & (velocity[:, 3:].amax(dim=1) <= cfg.max_turning_speed)
    return slow & torch.isfinite(position)


def velocities(state: RobotState) -> Tensor:
    """Return the velocities of trunk and joints, [N, 6 + J], see :func:`velocity_names`."""
    return torch.cat((state.sim.root_lin_vel, state.sim.root_ang_vel, state.sim.joint_vel), dim=1)


def velocity_names(state: RobotState) -> Tuple[str, ...]:
    """Return a name for each velocity of a robot."""
    trunk = tuple(f"trunk {kind} {axis}" for kind in ("velocity", "turning") for axis in "xyz")
    return (*trunk, *(f"joint {name}" for name in state.sim.joint_names))


def offending_term(cause: str, values: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the name of the largest value behind a cause; ``values`` are numbers by section and name."""
    if cause == "contacts":
        return "more than env.sim.max_contacts; use 0 for the largest possible number"
    section = {"state": "velocities", "reward_term": "rewards", "observation_term": "observations"}.get(cause)
    if section is None:
        return ""
    sizes = {name: _size(value) for name, value in values[section].items()}
    return max(sizes, key=lambda name: sizes[name])


def _size(value: Any) -> float:
    return float(torch.as_tensor(value).float().abs().nan_to_num(torch.inf, torch.inf).max())


NUM_STEPS = 8
"""Number of control steps that are recorded."""


class FaultRecorder:
    """Record states of N robots and inputs of the engine in the last control steps, and save those of the first robot
    that breaks for each cause."""

    def __init__(self, sim: Sim, causes: Sequence[str], inputs_per_step: int = 1):
        self._sim = sim
        self._step = 0
        self._first = FirstOccurrence(causes, sim.device)
        states = sim.physics_state()
        self._states = states.new_zeros(NUM_STEPS, *states.shape)
        shape = (NUM_STEPS, inputs_per_step, len(states), len(sim.joint_names))
        self._inputs = torch.zeros(shape, device=sim.device)

    def before_step(self) -> None:
        """Record the state before a control step."""
        self._sim.physics_state(out=self._states[self._step % NUM_STEPS])
        self._step += 1

    def record_inputs(self, inputs: Sequence[Tensor]) -> None:
        """Record what the engine got in the control step: joint targets or torques [N, J], of all physics steps or of
        each."""
        slot = self._inputs[(self._step - 1) % NUM_STEPS]
        for own, given in zip(slot, inputs):
            own.copy_(given)

    def after_step(self, broken: Tensor, rows: Mapping[str, Tensor]) -> None:
        """Save the record of the first robot that breaks for each cause, broken [causes, N], with its ``rows`` of
        tensors [N, ...]."""
        past = {"states": self._states.transpose(0, 1), "targets": self._inputs.permute(2, 0, 1, 3)}
        self._first.record(broken, self._step, {**past, **rows})

    def read(self, cause: str) -> Optional[Dict[str, Tensor]]:
        """Return the index of the robot ("environment"), the "states" [steps, S] before its last steps, the oldest
        first, the "targets" [steps, J], or [steps, physics steps, J], and the rows; None if no robot broke for that
        cause."""
        event = self._first.read(cause)
        if event is None:
            return None
        step = int(event.pop("step"))
        order = [slot % NUM_STEPS for slot in range(max(0, step - NUM_STEPS), step)]
        targets = event["targets"][order]
        return {**event, "states": event["states"][order], "targets": targets.squeeze(1)}
