"""Compare exported policies with the policy in the simulation, over a recorded rollout.

There are two comparisons. The exported network gets the recorded observations; its outputs are compared with the
recorded actions. The controller that runs on a robot gets the recorded sensor readings; its outputs are compared with
the joint targets of the simulation. The controller uses only the description in the exported file, so a wrong joint
order, scale, frame or unit is found too.
"""

from __future__ import annotations

import io
import json
import math
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from rsl_rl.env.contract import standardize_step
from rsl_rl.env.protocols import Resettable, supports
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.evaluation.evaluate import finite
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.utils.files import atomic_write

TOLERANCE = 1e-5
"""Largest difference of an action, and of a joint target [rad]."""

TRACE_SECONDS = 10.0
"""Length of the trace [s]; a robot whose trace would be larger than TRACE_BYTES gets a shorter one."""

TRACE_BYTES = 300_000

Network = Callable[..., Sequence[np.ndarray]]
"""Function from obs [1, D] and recurrent states to actions [1, A] and the next recurrent states."""


class Rollout(NamedTuple):
    """T control steps of N robots with J joints, on the CPU; other environments have no sensors and J = 0."""

    joint_names: Tuple[str, ...]  # of other environments: a name for each action
    obs: Tensor  # [T, N, D] input of the policy
    images: Tuple[Tensor, ...]  # [T, N, ...] each, further inputs of the policy
    actions: Tensor  # [T, N, A] output of the policy
    last_actions: Tensor  # [T, N, A] the action of the step before, clipped; zeros at the start of an episode
    sensors: Dict[str, Tensor]  # [T, N, k] each, at the time of obs; SI units
    joint_targets: Tensor  # [T, N, J] input of the simulation [rad]
    target_limits: Tensor  # [J, 2] of an exported policy [rad]
    done: Tensor  # [T, N] bool: the episode ended with this step
    memories: Tuple[Tensor, ...]  # recurrent states after the step, each [T, L, N, H]; empty without memory

    def memories_before(self, step: int, robot: int) -> Tuple[Tensor, ...]:
        """Return the recurrent states before a step, each [L, 1, H]; zeros at the start of an episode."""
        if step == 0 or self.done[step - 1, robot]:
            return tuple(torch.zeros_like(memory[0, :, robot, None]) for memory in self.memories)
        return tuple(memory[step - 1, :, robot, None] for memory in self.memories)

    @property
    def clamped_targets(self) -> Tensor:
        """The joint targets within their limits, as an exported policy gives them, [T, N, J]."""
        return self.joint_targets.clamp(*self.target_limits.unbind(dim=1))

    @property
    def num_resets(self) -> int:
        return int(self.done.sum())


def sensor_readings(env: LeggedRobot) -> Dict[str, Tensor]:
    """Return the current sensor readings of N legged robots, [N, k] each, in SI units.

    The linear velocity is in the world frame, the angular one in the base frame; joints are in the simulation's order,
    and their positions are those that the encoders report.
    """
    sim = env.sim
    given = [source.readings(env.state.commands[name]) for name, source in env.commands.sources.items()]
    return {
        **{name: value for one in given for name, value in one.items()},
        "command": env.state.requested_command,
        "base_quat": sim.root_quat,
        "base_lin_vel_world": sim.root_lin_vel,
        "base_ang_vel": sim.root_ang_vel,
        "joint_pos": env.state.sensed_joint_pos,
        "joint_vel": sim.joint_vel,
    }


@torch.no_grad()
def record_rollout(env: VecEnv, policy: Any, actor_groups: Sequence[str], num_steps: int) -> Rollout:
    """Run the policy in an environment, starting with new episodes; a robot's has no observation noise.

    Joint targets are those that the environment gave to its simulation.
    """
    robot = env if isinstance(env, LeggedRobot) else None
    rows: Dict[str, List[Tensor]] = {name: [] for name in ("obs", "actions", "last_actions", "joint_targets", "done")}
    sensors: Dict[str, List[Tensor]] = {}
    images: List[List[Tensor]] = []
    memories: List[Tuple[Tensor, ...]] = []
    obs = env.reset() if supports(env, Resettable) else env.get_observations()
    policy.reset()
    for _ in range(num_steps):
        for name, value in ({} if robot is None else sensor_readings(robot)).items():
            sensors.setdefault(name, []).append(value.cpu().clone())
        vectors, others = _split_groups(obs, actor_groups)
        images.append(others)
        actions = policy(obs)
        empty = actions.new_empty(len(actions), 0)
        last_actions = torch.zeros_like(actions) if robot is None else robot.state.action
        rows["obs"].append(vectors)
        rows["last_actions"].append(last_actions.cpu().clone())
        rows["actions"].append(actions.cpu().clone())
        memories.append(tuple(memory.cpu().clone() for memory in policy.memories()))
        obs, _, done, _ = standardize_step(env.step(actions), env.num_envs)
        rows["joint_targets"].append((empty if robot is None else robot.joint_targets).cpu().clone())
        policy.reset(done)
        rows["done"].append(done.cpu().clone())
    stacked = {name: torch.stack(values) for name, values in rows.items()}
    names = [f"action {i}" for i in range(stacked["actions"].shape[2])] if robot is None else robot.sim.joint_names
    return Rollout(
        tuple(names),
        images=tuple(map(torch.stack, zip(*images))),
        sensors={name: torch.stack(x) for name, x in sensors.items()},
        target_limits=torch.empty(0, 2) if robot is None else robot.target_limits.cpu(),
        memories=tuple(map(torch.stack, zip(*memories))),
        **stacked,
    )


def _split_groups(obs: Observations, groups: Sequence[str]) -> Tuple[Tensor, List[Tensor]]:
    """Return the vector groups, concatenated [N, D], and the image groups, all as float32 on the CPU."""
    tensors = [obs[group].cpu().float() for group in groups]
    vectors = [x for x in tensors if x.dim() == 2]
    joined = torch.cat(vectors, dim=-1) if vectors else tensors[0].new_empty(len(tensors[0]), 0)
    return joined, [x.clone() for x in tensors if x.dim() > 2]


class Controller(Protocol):
    """A function from the sensor readings of one robot, by name, to joint targets [J] [rad]."""

    last_action: Any  # [A] its own last action
    memories: Any  # recurrent states of its network, a sequence of [L, 1, H]

    @property
    def held(self) -> int: ...  # calls in a row whose readings it refused

    @property
    def problem(self) -> str: ...  # why

    def __call__(self, **sensors: np.ndarray) -> np.ndarray: ...

    def reset(self) -> None: ...


class ExportedPolicy(NamedTuple):
    """An exported file, loaded."""

    network: Network
    controller: Optional[Callable[[], Controller]] = None  # with the rollout's joint order; None: not for robots


class Mismatch(NamedTuple):
    """The first difference beyond the tolerance."""

    what: str  # actions, memories, joint_targets, last_actions or kept_memories
    step: int
    robot: int
    joint: str  # or the unit of a recurrent state
    difference: float


class ParityResult(NamedTuple):
    """Largest differences between an exported file and the policy."""

    actions: float  # largest difference over the rollout
    joint_targets: Optional[float]  # the same [rad], within the limits of targets; None without a controller
    mismatch: Optional[Mismatch]
    clamped_targets: int = 0  # joint targets of the simulation that the controller clamps to their limits
    refused: str = ""  # why the controller refused a step, of the first one


def open_torchscript(path: Path) -> Network:
    """Load a TorchScript file as a function of arrays."""
    module = torch.jit.load(str(path))

    def network(*inputs: np.ndarray) -> List[np.ndarray]:
        with torch.no_grad():
            out = module(*map(torch.from_numpy, inputs))
        return [x.numpy() for x in (out if isinstance(out, tuple) else (out,))]

    return network


def open_onnx_network(path: Path) -> Network:
    """Load an ONNX file as a function of arrays; without onnxruntime it is an ImportError."""
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError("onnxruntime is not installed; run: pip install onnxruntime") from error
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [x.name for x in session.get_inputs()]
    return lambda *inputs: [np.asarray(x) for x in session.run(None, dict(zip(names, inputs)))]


def compare(rollout: Rollout, exported: ExportedPolicy) -> ParityResult:
    """Compare an exported file with the policy over a rollout.

    Each step starts from the recorded recurrent state, so that rounding errors do not accumulate.
    """
    found, refused, clamped = _network_differences(rollout, exported), "", 0
    if exported.controller is not None:
        differences, refused = _controller_differences(rollout, exported.controller)
        found.update(differences)
        clamped = int((rollout.clamped_targets != rollout.joint_targets).sum())
    mismatches = [_first_mismatch(what, x, rollout.joint_names) for what, x in found.items()]
    first = min((m for m in mismatches if m is not None), key=lambda m: m.step, default=None)
    targets = found.get("joint_targets")
    largest = None if targets is None else float(targets.max())
    return ParityResult(float(found["actions"].max()), largest, first, clamped, refused)


def _network_differences(rollout: Rollout, exported: ExportedPolicy) -> Dict[str, np.ndarray]:
    """Return the differences between outputs of the network and the recorded actions [T, N, A], and between the
    recurrent states [T, N, units]."""
    inputs = [x.numpy() for x in (rollout.obs, *rollout.images)]
    actions = np.empty(rollout.actions.shape, np.float32)
    memories = _concatenated(rollout)
    states = np.empty_like(memories)
    for step, robot in np.ndindex(*rollout.done.shape):
        before = [memory.numpy() for memory in rollout.memories_before(step, robot)]
        actions[step, robot], *after = exported.network(*(x[step, robot][None] for x in inputs), *before)
        states[step, robot] = _row(after)
    return {"actions": np.abs(actions - rollout.actions.numpy()), "memories": np.abs(states - memories)}


def _concatenated(rollout: Rollout) -> np.ndarray:
    """Return the recorded recurrent states after each step, concatenated: [T, N, units]."""
    empty = torch.empty(*rollout.done.shape, 0)
    return torch.cat([empty, *(memory.transpose(1, 2).flatten(2) for memory in rollout.memories)], dim=2).numpy()


def _controller_differences(
    rollout: Rollout, controller: Callable[[], Controller]
) -> Tuple[Dict[str, np.ndarray], str]:
    """Return the differences between the controller and the policy for the recorded sensor readings: joint targets
    [T, N, J], NaN where it refuses the readings, last actions [T, N, A] and recurrent states [T, N, units]; and why it
    refused the first of them.

    Each step starts from the recorded last action and recurrent state, so that rounding errors do not accumulate.
    """
    refusals: Dict[int, str] = {}  # by step
    sensors = {name: value.numpy() for name, value in rollout.sensors.items()}
    last_actions, done = rollout.last_actions.numpy(), rollout.done.numpy()
    targets, own_actions = np.empty(rollout.joint_targets.shape, np.float32), np.empty_like(last_actions)
    memories = np.empty_like(_concatenated(rollout))
    for robot in range(done.shape[1]):
        policy = controller()
        for step in range(len(done)):
            before = [memory.numpy() for memory in rollout.memories_before(step, robot)]
            own_actions[step, robot] = policy.last_action
            memories[step, robot] = np.abs(_row(policy.memories) - _row(before))
            policy.last_action, policy.memories = last_actions[step, robot], before
            problem = ""
            try:
                targets[step, robot] = policy(**{name: value[step, robot] for name, value in sensors.items()})
                problem = policy.problem if policy.held else ""
            except ValueError as error:
                problem = str(error)
            if problem:
                refusals.setdefault(step, problem)
                targets[step, robot] = np.nan
            if done[step, robot]:
                policy.reset()
    differences = {
        "joint_targets": np.abs(targets - rollout.clamped_targets.numpy()),
        "last_actions": np.abs(own_actions - last_actions),
        "kept_memories": memories,
    }
    return differences, refusals[min(refusals)] if refusals else ""


def _row(memories: Sequence[np.ndarray]) -> np.ndarray:
    """Concatenate the recurrent states of one robot, [units]."""
    return np.concatenate([np.empty(0, np.float32), *map(np.ravel, memories)])


def _first_mismatch(what: str, difference: np.ndarray, joint_names: Sequence[str]) -> Optional[Mismatch]:
    """Return the largest difference in the first step with one that is too large or NaN; ``difference`` is [T, N, J or
    units]."""
    beyond = ~(difference <= TOLERANCE)
    if not beyond.any():
        return None
    step = int(beyond.any(axis=(1, 2)).argmax())
    at_step = np.where(np.isnan(difference[step]), np.inf, difference[step])
    robot, joint = divmod(int(at_step.argmax()), at_step.shape[1])
    name = f"unit {joint}" if what.endswith("memories") else joint_names[joint]
    return Mismatch(what, step, robot, name, float(difference[step, robot, joint]))


def write_parity(path: Path, rollout: Rollout, results: Mapping[str, ParityResult]) -> Path:
    """Write the differences of each format, and the size of the rollout, as JSON."""
    steps, robots = rollout.done.shape
    content = {
        "format": 1,
        "tolerance": TOLERANCE,
        "control_steps": steps,
        "robots": robots,
        "resets": rollout.num_resets,
        "formats": {
            name: {**result._asdict(), "mismatch": result.mismatch and result.mismatch._asdict()}
            for name, result in results.items()
        },
    }
    atomic_write(path, (json.dumps(finite(content), indent=2) + "\n").encode())
    return path


def write_trace(path: Path, rollout: Rollout, control_period: float, action_clip: float) -> Path:
    """Write what the first robot of a rollout read, observed and did, for a replay on the robot's computer.

    Arrays of T steps by name: readings as the robot's program gets them, observation, action, target, and
    episode_start, whether a step is the first of its episode.
    """
    steps = min(len(rollout.done), round(TRACE_SECONDS / control_period))
    done = rollout.done[:, 0].numpy()
    arrays = {
        **{name: values[:, 0].numpy() for name, values in rollout.sensors.items()},
        "observation": rollout.obs[:, 0].numpy(),
        "action": rollout.actions[:, 0].clamp(-action_clip, action_clip).numpy(),
        "target": rollout.clamped_targets[:, 0].numpy(),
        "episode_start": np.concatenate([[True], done[:-1]]),
    }
    content = _compressed(arrays, rollout.joint_names, steps)
    while len(content) > TRACE_BYTES:
        steps = steps * 3 // 4
        content = _compressed(arrays, rollout.joint_names, steps)
    atomic_write(path, content)
    return path


def _compressed(arrays: Mapping[str, np.ndarray], joint_names: Sequence[str], steps: int) -> bytes:
    """Return a compressed file of the first steps of arrays [T, ...]."""
    buffer = io.BytesIO()
    named: Dict[str, Any] = {name: x[:steps] for name, x in arrays.items()}
    np.savez_compressed(buffer, joint_names=np.array(joint_names), **named)
    return buffer.getvalue()


def describe_parity(name: str, result: ParityResult) -> str:
    """Return a line on the differences of a format."""
    if result.mismatch is None:
        targets = "" if result.joint_targets is None else f", joint targets to {result.joint_targets:.1e} rad"
        count = result.clamped_targets
        clamped = f"; the runner clamps {count} joint targets to target_limits" if count else ""
        return f"{name} acts like the policy: actions to {result.actions:.1e}{targets}{clamped}"
    what, step, robot, joint, difference = result.mismatch
    failed, place = f"{name} does NOT act like the policy", f"step {step}, robot {robot}"
    if what == "joint_targets" and math.isnan(difference):
        return f"{failed}: its runner refuses {place}: {result.refused}"
    if math.isnan(difference):
        return f"{failed}: {what.replace('_', ' ')} are not finite first in {place}, at {joint}"
    return (
        f"{failed}: {what.replace('_', ' ')} differ first in {place}, "
        f"most at {joint}, by {difference:.3g} (allowed: {TOLERANCE:g})"
    )
