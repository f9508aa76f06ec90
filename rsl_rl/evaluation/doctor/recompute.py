"""Compute observations, actions and targets again from a log's readings."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple

import numpy as np

from rsl_rl.evaluation.doctor.log import Log

TOLERANCE = 1e-3
"""Largest difference of a number of the observation, an action or a joint target [rad]."""

MISSED = 1.9
"""Time between two rows, in control periods, from which rows are missing."""

Network = Callable[..., Sequence[np.ndarray]]


class Runner(Protocol):
    """The policy's own runner, rsl_rl_deploy.onnx_policy.Policy."""

    last_action: np.ndarray
    last_obs: Optional[np.ndarray]

    @property
    def observe(self) -> Callable[..., np.ndarray]: ...

    def reset(self) -> None: ...

    def __call__(self, **readings: Any) -> np.ndarray: ...


class Expected(NamedTuple):
    """What a log should contain; NaN in rows that the runner refuses or that lack what is needed."""

    observation: np.ndarray  # [T, D] from the readings and the logged actions
    action: np.ndarray  # [T, A] from the logged observations
    target: np.ndarray  # [T, J] from the logged actions, in the robot's order
    refused: int
    reason: str
    notes: Tuple[str, ...] = ()  # on what cannot be computed


def recompute(log: Log, runner: Runner, network: Network, description: Mapping[str, Any]) -> Expected:
    """Compute each row again; each starts from the logged last action, so a difference stays where it arises.

    What follows from the rows before is NaN after rows that are missing: commands with limits, the gait's clock,
    histories, and the actions of a network with memory.
    """
    rows, starts, synced = len(log.time), log.starts, np.zeros(len(log.time), bool)
    observation = np.full((rows, description["inputs"]["obs"][-1]), np.nan)
    refused, reason, given = 0, "", robot_readings(log, description)
    lacking = _lacking(given, description)
    missed = np.concatenate([[False], np.diff(log.time) > MISSED * float(description["control_period"])]) & ~starts
    logged = np.zeros(rows, bool)
    if log.observation is not None:
        logged |= np.isfinite(log.observation).all(axis=1)
    is_synced = not _begins_within(log, description)
    for t in range(rows):
        is_synced = (is_synced and not missed[t]) or bool(starts[t] and t)
        if starts[t]:
            runner.reset()
        elif log.action is not None and np.isfinite(log.action[t - 1]).all():
            runner.last_action = log.action[t - 1].astype(np.float32)
        readings = {name: values[t] for name, values in given.items() if np.isfinite(values[t]).all()}
        before = runner.last_obs
        with suppress(ValueError):  # a runner without usable readings returns its last targets
            runner(**readings)
        try:
            is_new = runner.last_obs is not None and runner.last_obs is not before
            observation[t] = runner.last_obs if is_new else runner.observe(**readings)
        except ValueError as error:
            if len(readings) == len(given):  # a reading that is missing is a note on the log
                refused, reason = refused + 1, reason or str(error)
            is_synced &= not logged[t]  # the runner of the log went on, this one did not
        synced[t] = is_synced
    followers, last_action = _followers(description)
    observation[np.ix_(~synced, followers)] = np.nan
    missed[0] = not synced[0]
    observation[np.ix_(missed, last_action)] = np.nan
    notes = [f"the log has no {', '.join(lacking)}: observations are not judged"] if lacking else []
    if not synced.all() and not lacking:
        notes.append(f"{(~synced).sum()} rows follow missing ones: what they take from these is not judged")
    target = np.full(log.target.shape, np.nan)
    if log.action is not None:
        target = targets_of(log, log.action, description)
    shapes = [shape for name, shape in description["inputs"].items() if name != "obs"]
    action = replay_network(log, network, shapes, description.get("action_clip") or math.inf, starts)
    if shapes:
        action[~synced[: len(action)]] = np.nan
    return Expected(observation, action, target, 0 if lacking else refused, reason, tuple(notes))


def _lacking(given: Mapping[str, np.ndarray], description: Mapping[str, Any]) -> List[str]:
    """Return the readings that the policy senses and a log does not have."""
    sources = {"gravity": "base_quat", "gait_clock": "command"}
    if "base_lin_vel" not in given and "base_lin_vel_world" in given:
        sources["base_lin_vel"] = "base_lin_vel_world"
    sensed = {str(sources.get(term["name"], term["name"])) for term in description["observations"]}
    return sorted(sensed - {"action"} - set(given))


def _begins_within(log: Log, description: Mapping[str, Any]) -> bool:
    """Return whether the first row is not the first of its episode, by the last action or the gait's clock."""
    start = 0
    for term in description["observations"]:
        name, end = term["name"], start + term["size"] * term.get("history", 1)
        if log.observation is not None and name in ("action", "gait_clock"):
            first = log.observation[0, start:end]
            first = first[: 1 if name == "gait_clock" else None]  # the sine
            if np.isfinite(first).all() and np.abs(first).max() > TOLERANCE:
                return True
        start = end
    return False


def _followers(description: Mapping[str, Any]) -> Tuple[np.ndarray, np.ndarray]:
    """Return which numbers of the observation follow from the rows before, and which are the last action, [D] bool."""
    limited = bool(description.get("commands", {}).get("velocity"))
    followers, last_action = [], []
    for term in description["observations"]:
        size, history, name = term["size"] * term.get("history", 1), term.get("history", 1), term["name"]
        followers += [history > 1 or name == "gait_clock" or (name in ("command", "foot_clock") and limited)] * size
        last_action += [name == "action"] * size
    return np.array(followers), np.array(last_action)


def targets_of(log: Log, action: np.ndarray, description: Mapping[str, Any], factor: float = 1.0) -> np.ndarray:
    """Return the joint targets of actions [T, A] with another action scale, in the log's order [T, J]."""
    scale, default = np.array(description["action_scale"]), np.array(description["default_joint_pos"])
    clip = description.get("action_clip") or math.inf
    target = default + factor * scale * np.clip(action, -clip, clip)
    if description.get("target_limits") is not None:
        target = np.clip(target, *np.array(description["target_limits"]).T)
    order = [list(description["joint_names"]).index(name) for name in log.joint_names]
    return np.asarray(to_robot(description, target)[:, order])


def robot_readings(log: Log, description: Mapping[str, Any]) -> Dict[str, np.ndarray]:
    """Return the readings of a log in the units and in the order of the quaternion that the robot has, [T, k]."""
    readings = dict(log.readings)
    for name, unit in description.get("units", {}).items():
        if unit.startswith("deg") and name in readings:
            readings[name] = np.degrees(readings[name])
    if description.get("quaternion_order") == "xyzw" and "base_quat" in readings:
        readings["base_quat"] = readings["base_quat"][:, [1, 2, 3, 0]]
    return readings


def to_robot(description: Mapping[str, Any], angles: np.ndarray) -> np.ndarray:
    """Return the robot's angles [rad] of the policy's."""
    return angles * np.array(description.get("joint_signs", 1.0)) + np.array(description.get("joint_zeros", 0.0))


def replay_network(
    log: Log, network: Network, shapes: Sequence[Sequence[int]], clip: float, resets: np.ndarray
) -> np.ndarray:
    """Return the network's actions for the logged observations, with the memory cleared where ``resets`` says."""
    if log.observation is None or log.action is None:
        return np.full((len(log.time), 1), np.nan)
    actions = np.full(log.action.shape, np.nan)
    memories: List[np.ndarray] = [np.zeros(shape, np.float32) for shape in shapes]
    for t, obs in enumerate(log.observation.astype(np.float32)):
        if resets[t]:
            memories = [np.zeros(shape, np.float32) for shape in shapes]
        if np.isfinite(obs).all():
            out, *memories = network(obs[None], *memories)
            actions[t] = np.clip(out[0], -clip, clip)
    return actions
