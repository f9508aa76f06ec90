"""How a robot can break: what nobody should learn from, and what a person wants to know of it."""

from __future__ import annotations

from typing import Any, Dict, Mapping, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from rsl_rl.config.mdp import TerminationConfig
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.cpu_checks import all_within_on_cpu, none_on_cpu

CAUSES = ("engine", "contacts", "state", "reward_term", "observation_term")
"""The engine gave a robot up; it had no room for all of its contacts; its state is not finite or absurdly fast; its
reward is not finite or absurdly large; so is something that it sees."""


class Faults(NamedTuple):
    """Where robots broke in a step."""

    by_cause: Dict[str, Tensor]  # [N] bool for each of CAUSES, each robot under its first
    broken: Optional[Tensor]  # [N] bool, for any cause; None where surely no robot did


def find_faults(state: RobotState, cfg: TerminationConfig, reward: Tensor, groups: Mapping[str, Tensor]) -> Faults:
    """Find the robots that broke in the last step; ``groups`` are the observations of the state reached."""
    if _surely_sound(state, cfg, reward, groups):
        return Faults(dict.fromkeys(CAUSES, torch.zeros_like(state.sim.diverged)), None)
    seen = torch.stack([group.abs().amax(dim=1) for group in groups.values()]).amax(dim=0)
    sim, rewarded = state.sim, reward.abs() <= cfg.max_reward
    sound = torch.stack(
        (~sim.diverged, ~sim.overflowed, _sound_state(state, cfg), rewarded, seen <= cfg.max_observation)
    )
    broken = ~sound  # NaN compares as not sound
    return Faults(dict(zip(CAUSES, broken & (broken.cumsum(dim=0) == 1))), broken.any(dim=0))


def _surely_sound(state: RobotState, cfg: TerminationConfig, reward: Tensor, groups: Mapping[str, Tensor]) -> bool:
    """Tell whether nothing is known to be broken; on a GPU, which would have to be waited for, nobody knows."""
    sim, least = state.sim, min(cfg.max_speed, cfg.max_turning_speed)
    motion = ((x, least) for x in sim.numbers_of_motion())  # a larger one, of a position say, costs a closer look
    seen = ((x, cfg.max_observation) for x in groups.values())
    engine = none_on_cpu(sim.diverged) and none_on_cpu(sim.overflowed)
    return engine and all(all_within_on_cpu(x, limit) for x, limit in (*motion, *seen, (reward, cfg.max_reward)))


def broken_state(state: RobotState, cfg: TerminationConfig) -> Tensor:
    """Return where a state is not finite, or faster than a robot ever is, [N] bool."""
    return ~_sound_state(state, cfg)


def _sound_state(state: RobotState, cfg: TerminationConfig) -> Tensor:
    sim, velocity = state.sim, velocities(state).abs()
    position = sim.root_pos.sum(dim=1) + sim.root_quat.sum(dim=1) + sim.joint_pos.sum(dim=1)
    slow = (velocity[:, :3].amax(dim=1) <= cfg.max_speed) & (velocity[:, 3:].amax(dim=1) <= cfg.max_turning_speed)
    return slow & torch.isfinite(position)


def velocities(state: RobotState) -> Tensor:
    """Return what ``velocity_names`` names, [N, 6 + J]."""
    return torch.cat((state.sim.root_lin_vel, state.sim.root_ang_vel, state.sim.joint_vel), dim=1)


def velocity_names(state: RobotState) -> Tuple[str, ...]:
    """Return a name for each velocity of a robot."""
    trunk = tuple(f"trunk {kind} {axis}" for kind in ("velocity", "turning") for axis in "xyz")
    return (*trunk, *(f"joint {name}" for name in state.sim.joint_names))


def culprit(cause: str, values: Mapping[str, Mapping[str, Any]]) -> str:
    """Name the term that broke a robot for a cause; ``values`` are numbers by section and name."""
    if cause == "contacts":
        return "more of them than env.sim.max_contacts; 0 makes room for all"
    section = {"state": "velocities", "reward_term": "rewards", "observation_term": "observations"}.get(cause)
    if section is None:
        return ""
    sizes = {name: _size(value) for name, value in values[section].items()}
    return max(sizes, key=lambda name: sizes[name])


def _size(value: Any) -> float:
    return float(torch.as_tensor(value).float().abs().nan_to_num(torch.inf, torch.inf).max())
