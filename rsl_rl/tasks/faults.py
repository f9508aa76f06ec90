"""How a robot can break: what nobody should learn from, and what a person wants to know of it."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Tuple

import torch
from torch import Tensor

from rsl_rl.config.task import TerminationConfig
from rsl_rl.tasks.robot_state import RobotState

CAUSES = ("engine", "state", "reward_term", "observation_term")
"""The engine gave a robot up; its state is not finite or absurdly fast; its reward is not finite or absurdly large; so
is something that it sees."""

_LARGEST = 1e6
"""What no reward and no term of an observation comes near to while physics is sound."""


def find_faults(
    state: RobotState, cfg: TerminationConfig, reward: Tensor, groups: Mapping[str, Tensor]
) -> Dict[str, Tensor]:
    """Return for each of CAUSES where robots broke in the last step [N] bool, each robot under its first cause;
    ``groups`` are the observations of the state reached."""
    found = {"engine": state.sim.diverged.clone(), "state": broken_state(state, cfg)}
    found["reward_term"] = ~(reward.abs() <= _LARGEST)  # NaN compares as too large
    largest = torch.stack([group.abs().amax(dim=1) for group in groups.values()]).amax(dim=0)
    found["observation_term"] = ~(largest <= _LARGEST)
    before = torch.zeros_like(found["engine"])
    for cause, mask in found.items():
        found[cause] = mask & ~before
        before = before | mask
    return found


def broken_state(state: RobotState, cfg: TerminationConfig) -> Tensor:
    """Return where a state is not finite, or faster than a robot ever is, [N] bool."""
    sim = state.sim
    linear = sim.root_lin_vel.abs().amax(dim=1)
    turning = torch.cat((sim.root_ang_vel, sim.joint_vel), dim=1).abs().amax(dim=1)
    position = torch.cat((sim.root_pos, sim.root_quat, sim.joint_pos), dim=1).sum(dim=1)
    return ~((linear <= cfg.max_speed) & (turning <= cfg.max_turning_speed) & torch.isfinite(position))


def velocities(state: RobotState) -> Tensor:
    """Return what ``velocity_names`` names, [N, 6 + J]."""
    return torch.cat((state.sim.root_lin_vel, state.sim.root_ang_vel, state.sim.joint_vel), dim=1)


def velocity_names(state: RobotState) -> Tuple[str, ...]:
    """Return a name for each velocity of a robot."""
    trunk = tuple(f"trunk {kind} {axis}" for kind in ("velocity", "turning") for axis in "xyz")
    return (*trunk, *(f"joint {name}" for name in state.sim.joint_names))


def culprit(cause: str, values: Mapping[str, Mapping[str, Any]]) -> str:
    """Name the term that broke a robot for a cause; ``values`` are numbers by section and name."""
    section = {"state": "velocities", "reward_term": "rewards", "observation_term": "observations"}.get(cause)
    if section is None:
        return ""
    sizes = {name: _size(value) for name, value in values[section].items()}
    return max(sizes, key=lambda name: sizes[name])


def _size(value: Any) -> float:
    return float(torch.as_tensor(value).float().abs().nan_to_num(torch.inf, torch.inf).max())
