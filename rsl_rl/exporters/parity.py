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
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple

import numpy as np
import torch

from rsl_rl.exporters.rollout import Rollout

TOLERANCE = 1e-5
"""Largest difference of an action, and of a joint target [rad]."""

Network = Callable[..., Sequence[np.ndarray]]
"""obs [1, D] and memories to actions [1, A] and the memories' next values."""


class Controller(Protocol):
    """A runner for one robot: what it senses, by name, to joint targets [J] [rad]."""

    last_action: np.ndarray  # [A] that it took itself

    def __call__(self, **sensed: np.ndarray) -> np.ndarray: ...

    def reset(self) -> None: ...


class Exported(NamedTuple):
    """An exported file as others load it."""

    network: Network
    description: Mapping[str, Any]  # that comes with it: policy.json, or the metadata in the file
    controller: Optional[Callable[[], Controller]]  # new ones, joints in the rollout's order; None: no robot can run it


class Mismatch(NamedTuple):
    """The first difference beyond the tolerance."""

    what: str  # actions, joint_targets or last_actions
    step: int
    robot: int
    joint: str
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
    """Lead an exported file through a rollout; its memory starts anew where an episode does."""
    actions = np.abs(_actions(rollout, exported) - rollout.actions.numpy())
    mismatches = [_first_mismatch("actions", actions, rollout.joint_names, tolerance)]
    if exported.controller is None:
        return Comparison(float(actions.max()), None, mismatches[0])
    result, remembered = _joint_targets(rollout, exported.controller)
    targets = np.abs(result - rollout.joint_targets.numpy())
    mismatches.append(_first_mismatch("joint_targets", targets, rollout.joint_names, tolerance))
    last_actions = np.abs(remembered - rollout.last_actions.numpy())
    mismatches.append(_first_mismatch("last_actions", last_actions, rollout.joint_names, tolerance))
    first = min((m for m in mismatches if m is not None), key=lambda m: m.step, default=None)
    return Comparison(float(actions.max()), float(targets.max()), first)


def _actions(rollout: Rollout, exported: Exported) -> np.ndarray:
    """Return the network's answers [T, N, A] to the recorded observations."""
    shapes = [shape for name, shape in exported.description["inputs"].items() if name != "obs"]
    obs, done, result = rollout.obs.numpy(), rollout.done.numpy(), np.empty(rollout.actions.shape, np.float32)
    for robot in range(obs.shape[1]):
        memories: Sequence[np.ndarray] = [np.zeros(shape, np.float32) for shape in shapes]
        for step in range(len(obs)):
            result[step, robot], *memories = exported.network(obs[step, robot][None], *memories)
            if done[step, robot]:
                memories = [np.zeros(shape, np.float32) for shape in shapes]
    return result


def _joint_targets(rollout: Rollout, controller: Callable[[], Controller]) -> Tuple[np.ndarray, np.ndarray]:
    """Return the runner's joint targets [T, N, J] for what the robots sensed, and its last actions [T, N, A] before.

    Each step begins with the last action that was really taken: the runner's own differs from it by a rounding error,
    which a policy that reads it back can magnify a hundredfold in a few steps.
    """
    sensed = {name: value.numpy() for name, value in rollout.sensed.items()}
    last_actions, done = rollout.last_actions.numpy(), rollout.done.numpy()
    result, remembered = np.empty(rollout.joint_targets.shape, np.float32), np.empty_like(last_actions)
    for robot in range(done.shape[1]):
        runner = controller()
        for step in range(len(done)):
            remembered[step, robot] = runner.last_action
            runner.last_action = last_actions[step, robot]
            result[step, robot] = runner(**{name: value[step, robot] for name, value in sensed.items()})
            if done[step, robot]:
                runner.reset()
    return result, remembered


def _first_mismatch(
    what: str, difference: np.ndarray, joint_names: Sequence[str], tolerance: float
) -> Optional[Mismatch]:
    """Find the first step of a difference [T, N, J] that is too large, or not a number; in it, the largest one."""
    beyond = ~(difference <= tolerance)
    if not beyond.any():
        return None
    step = int(beyond.any(axis=(1, 2)).argmax())
    at_step = np.where(np.isnan(difference[step]), np.inf, difference[step])
    robot, joint = divmod(int(at_step.argmax()), at_step.shape[1])
    return Mismatch(what, step, robot, joint_names[joint], float(difference[step, robot, joint]))


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
