"""Do exported files act like the policy? Each is led through a recorded walk, one robot and one step at a time.

A file is held against the policy twice: its network, fed with the recorded observations, against the actions; and the
runner that a robot uses, fed with what the robot's sensors said, against the joint targets that the simulation got. The
second builds observations and targets from the file's description alone, so a wrong joint order, scale, frame or unit
shows, and not only a wrong network.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Protocol, Sequence

import numpy as np
import torch

from rsl_rl.evaluation.parity_rollout import Rollout

TOLERANCE = 1e-5
"""Largest difference of an action, and of a joint target [rad]."""

Network = Callable[..., Sequence[np.ndarray]]
"""obs [1, D] and memories to actions [1, A] and the memories' next values."""


class Controller(Protocol):
    """A runner for one robot: what it senses, by name, to joint targets [J] [rad]."""

    last_action: np.ndarray  # [A] that it took itself
    memories: Sequence[np.ndarray]  # of its network, each [L, 1, H]

    def __call__(self, **sensed: np.ndarray) -> np.ndarray: ...

    def reset(self) -> None: ...


class Exported(NamedTuple):
    """An exported file as others load it."""

    network: Network
    description: Mapping[str, Any]  # that comes with it: policy.json, or the metadata in the file
    controller: Optional[Callable[[], Controller]]  # new ones, joints in the rollout's order; None: no robot can run it


class Mismatch(NamedTuple):
    """The first difference beyond the tolerance."""

    what: str  # actions, memories, joint_targets, last_actions or kept_memories
    step: int
    robot: int
    joint: str  # or the unit of a memory
    difference: float


class Comparison(NamedTuple):
    """How far a file is from the policy."""

    actions: float  # largest difference over the rollout
    joint_targets: Optional[float]  # the same [rad]; None where there is no controller
    mismatch: Optional[Mismatch]


def open_torchscript(path: Path) -> Network:
    """Load a TorchScript file as a function of arrays."""
    module = torch.jit.load(str(path))

    def network(*inputs: np.ndarray) -> List[np.ndarray]:
        with torch.no_grad():
            out = module(*map(torch.from_numpy, inputs))
        return [x.numpy() for x in (out if isinstance(out, tuple) else (out,))]

    return network


def compare(rollout: Rollout, exported: Exported, tolerance: float = TOLERANCE) -> Comparison:
    """Lead an exported file through a rollout, each step from what the policy remembered before it: rounding errors of
    a memory add up, and a trained one magnifies them, which says nothing of the file."""
    found = _network_differences(rollout, exported)
    if exported.controller is not None:
        found.update(_controller_differences(rollout, exported.controller))
    mismatches = [_first_mismatch(what, x, rollout.joint_names, tolerance) for what, x in found.items()]
    first = min((m for m in mismatches if m is not None), key=lambda m: m.step, default=None)
    targets = found.get("joint_targets")
    return Comparison(float(found["actions"].max()), None if targets is None else float(targets.max()), first)


def _network_differences(rollout: Rollout, exported: Exported) -> Dict[str, np.ndarray]:
    """Return how far the network's answers to the recorded observations are from the actions [T, N, A], and what it
    remembers from what the policy did [T, N, units]."""
    obs, actions = rollout.obs.numpy(), np.empty(rollout.actions.shape, np.float32)
    memories = _side_by_side(rollout)
    remembered = np.empty_like(memories)
    for step, robot in np.ndindex(*rollout.done.shape):
        before = [memory.numpy() for memory in rollout.memories_before(step, robot)]
        actions[step, robot], *after = exported.network(obs[step, robot][None], *before)
        remembered[step, robot] = _row(after)
    return {"actions": np.abs(actions - rollout.actions.numpy()), "memories": np.abs(remembered - memories)}


def _side_by_side(rollout: Rollout) -> np.ndarray:
    """Return what the policy remembered after each step, [T, N, units]."""
    nothing = torch.empty(*rollout.done.shape, 0)
    return torch.cat([nothing, *(memory.transpose(1, 2).flatten(2) for memory in rollout.memories)], dim=2).numpy()


def _controller_differences(rollout: Rollout, controller: Callable[[], Controller]) -> Dict[str, np.ndarray]:
    """Return how far the runner is from the policy for what the robots sensed: its joint targets [T, N, J], and what it
    keeps from step to step, its last actions [T, N, A] and memories [T, N, units].

    Each step begins with what the policy had kept: the runner's own differs from it by a rounding error, which a policy
    that reads it back can magnify a hundredfold in a few steps.
    """
    sensed = {name: value.numpy() for name, value in rollout.sensed.items()}
    last_actions, done = rollout.last_actions.numpy(), rollout.done.numpy()
    targets, kept = np.empty(rollout.joint_targets.shape, np.float32), np.empty_like(last_actions)
    memories = np.empty_like(_side_by_side(rollout))
    for robot in range(done.shape[1]):
        runner = controller()
        for step in range(len(done)):
            before = [memory.numpy() for memory in rollout.memories_before(step, robot)]
            kept[step, robot] = runner.last_action
            memories[step, robot] = np.abs(_row(runner.memories) - _row(before))
            runner.last_action, runner.memories = last_actions[step, robot], before
            targets[step, robot] = runner(**{name: value[step, robot] for name, value in sensed.items()})
            if done[step, robot]:
                runner.reset()
    return {
        "joint_targets": np.abs(targets - rollout.joint_targets.numpy()),
        "last_actions": np.abs(kept - last_actions),
        "kept_memories": memories,
    }


def _row(memories: Sequence[np.ndarray]) -> np.ndarray:
    """Put the memories of one robot side by side, [units]."""
    return np.concatenate([np.empty(0, np.float32), *map(np.ravel, memories)])


def _first_mismatch(
    what: str, difference: np.ndarray, joint_names: Sequence[str], tolerance: float
) -> Optional[Mismatch]:
    """Find the first step of a difference [T, N, J or units] that is too large, or not a number; in it, the largest
    one."""
    beyond = ~(difference <= tolerance)
    if not beyond.any():
        return None
    step = int(beyond.any(axis=(1, 2)).argmax())
    at_step = np.where(np.isnan(difference[step]), np.inf, difference[step])
    robot, joint = divmod(int(at_step.argmax()), at_step.shape[1])
    name = f"unit {joint}" if what.endswith("memories") else joint_names[joint]
    return Mismatch(what, step, robot, name, float(difference[step, robot, joint]))


def write_parity(path: Path, rollout: Rollout, results: Mapping[str, Comparison]) -> Path:
    """Write how far each format is from the policy, and over what it was compared."""
    steps, robots = rollout.done.shape
    formats = {}
    for name, result in results.items():
        mismatch = None if result.mismatch is None else _finite(result.mismatch._asdict())
        formats[name] = {**_finite(result._asdict()), "mismatch": mismatch}
    content = {
        "format": 1,
        "tolerance": TOLERANCE,
        "control_steps": steps,
        "robots": robots,
        "resets": rollout.num_resets,
        "formats": formats,
    }
    path.write_text(json.dumps(content, indent=2) + "\n")
    return path


def _finite(entries: Mapping[str, Any]) -> Dict[str, Any]:
    """Put None in the place of numbers that JSON cannot write."""
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in entries.items()}


def verdict(name: str, result: Comparison) -> str:
    """Say in a line how far a format is from the policy."""
    if result.mismatch is None:
        targets = "" if result.joint_targets is None else f", joint targets to {result.joint_targets:.1e} rad"
        return f"{name} acts like the policy: actions to {result.actions:.1e}{targets}"
    what, step, robot, joint, difference = result.mismatch
    return (
        f"{name} does NOT act like the policy: {what.replace('_', ' ')} differ first in step {step}, robot {robot}, "
        f"most at {joint}, by {difference:.3g} (allowed: {TOLERANCE:g})"
    )
