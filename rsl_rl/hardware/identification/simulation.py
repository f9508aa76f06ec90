"""Simulate pieces of a log in MuJoCo, in one batch of worlds for all changes of parameters and start states.

A piece begins in an unknown state, which is estimated with the parameters. On a stand the trunk is fixed, so that the
chains of joints below it move independently, and one world shows a change in each chain.

MuJoCo computes positions from the new velocities: velocities belong to the middle of a step, and positions to its end.
So a target is the mean over a step that begins half a step earlier. The damping is that of the new velocity, half a
step early too, which acts as an inertia of damping * step / 2; it is taken off the armature. With both, the error falls
with the square of the step.
"""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence, Tuple

import mujoco
import numpy as np
from mujoco import rollout

from rsl_rl.evaluation.doctor.replay import Replay, multiply, rotate, rotate_back
from rsl_rl.evaluation.doctor.search import quaternion
from rsl_rl.hardware.identification.parameters import KINDS, Layout
from rsl_rl.hardware.identification.recordings import Recording
from rsl_rl.utils.host import available_cpus
from rsl_rl.utils.mujoco_model import without_log

STEP = 0.0025
"""Physics step [s]."""

NOISE = {
    "joint_pos": 0.004,
    "joint_vel": 0.1,
    "base_ang_vel": 0.05,
    "rotation": 0.01,
    "base_lin_vel": 0.05,
    "height": 0.03,
}
"""The channels that are compared, and standard deviations to begin with [rad, rad/s, m/s, m]. "rotation" is the
rotation vector from the measured to the simulated orientation; "height" is that of the trunk at the start of a piece
over the one with the lowest foot on the floor. It is a rough hint: all feet may be in the air, and the offsets of the
encoders are in it."""

CHANNELS = tuple(NOISE)

_CHANGE = {"stand": 0.02, "floor": 0.2}
"""Change of a scaled parameter for a difference quotient. Feet that land make the motion rough on a smaller scale."""

_CHANGES = {"stand": (1e-3, 1e-2), "floor": (4e-3, 1e-1)}
"""Changes of a start state [rad, m], [rad/s, m/s]."""

_CHUNK = 100_000_000
"""Bytes of simulated states at once."""


@dataclass(frozen=True)
class Piece:
    """Rows ``start`` to ``end`` of a recording."""

    recording: Recording
    start: int
    end: int

    @property
    def rows(self) -> slice:
        return slice(self.start, self.end)


class Prediction(NamedTuple):
    """Simulated minus measured numbers of a piece, with derivatives; R numbers that were measured."""

    residual: np.ndarray  # [R]
    channel: np.ndarray  # [R] index in CHANNELS
    row: np.ndarray  # [R] of the piece
    by_parameters: np.ndarray  # [R, P] of scaled parameters
    by_state: np.ndarray  # [R, Z] of the start state


class Worlds:
    """A robot's model, fixed to a stand or on the floor.

    The start state of a piece is joint positions and velocities, as the encoders read them. On the floor the trunk's
    height, its rotation vector from the measured orientation, its linear velocity and its angular velocity, both in the
    base frame, follow.
    """

    def __init__(
        self, model_path: Path, description: Mapping[str, Any], layout: Layout, on_stand: bool, step: float = STEP
    ):
        names = list(description["joint_names"])
        self.layout, self.on_stand, self.step = layout, on_stand, step
        self._change = _CHANGE["stand" if on_stand else "floor"]
        self._replay = Replay(model_path, description, names, step)  # knows the floor, and checks the joints
        self.model = on_stand_model(model_path) if on_stand else mujoco.MjModel.from_xml_path(str(model_path))
        self.model.opt.timestep = step
        self.model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_SENSOR
        joints = [self.model.joint(name).id for name in names]
        actuators = {int(joint): i for i, joint in enumerate(self.model.actuator_trnid[:, 0])}
        self._motors = np.array([actuators[joint] for joint in joints])
        self._pos, self._vel = self.model.jnt_qposadr[joints], self.model.jnt_dofadr[joints]
        self.gains = np.array(description["stiffness"]), np.array(description["damping"])  # [J]
        self.model.actuator_forcelimited[self._motors] = 1
        self._spare = 0.3 * self._inertia()  # that can be taken off
        self._trunk = -1 if on_stand else int(self.model.jnt_bodyid[0])
        self._datas = [mujoco.MjData(self.model) for _ in range(available_cpus())]
        self._rollout = rollout.Rollout(nthread=len(self._datas))
        self.num_joints, self.num_states = len(names), 2 * len(names) + (0 if on_stand else 10)
        chain = np.zeros(len(names), int)
        for i, members in enumerate(self._replay.legs()):
            chain[members] = i
        self._chain = chain  # of each joint
        self._state_worlds = self._share([np.array([j % len(names)]) for j in range(self.num_states)])
        moved = [self._moved_by(i) for i in range(len(layout.parameters))]
        self._parameter_worlds = self._share([np.flatnonzero(own) for own in moved])
        if on_stand:
            floor = {i for i, one in enumerate(layout.parameters) if KINDS[one.kind].floor_only}
            worlds = [[i for i in world if i not in floor] for world in self._parameter_worlds]
            self._parameter_worlds = [world for world in worlds if world]

    def _inertia(self) -> np.ndarray:
        """Return the inertia of the links about each joint in the model's pose [J], without armature."""
        model, data = self.model, mujoco.MjData(self.model)
        mujoco.mj_forward(model, data)
        dense = np.zeros((model.nv, model.nv))
        mujoco.mj_fullM(model, data, dense)
        return np.asarray(np.maximum(0.0, np.diag(dense)[self._vel] - model.dof_armature[self._vel]))

    @staticmethod
    def nominal_of(replay: Replay) -> Dict[str, np.ndarray]:
        """Return the numbers of a model by kind, joints in the policy's order."""
        model, dofs = replay.model, replay.dofs
        floor = model.pair_friction[:, 0] if model.npair else model.geom_friction[:, 0]
        return {
            "armature": model.dof_armature[dofs].copy(),
            "motor_strength": np.ones(len(dofs)),
            "viscous_friction": model.dof_damping[dofs].copy(),
            "joint_friction": model.dof_frictionloss[dofs].copy(),
            "torque_limit": replay.torque_limits.copy(),
            "encoder_offset": np.zeros(len(dofs)),
            "action_delay": np.zeros(1),
            "payload": np.zeros(1),
            "trunk_com": np.zeros(3),
            "friction": np.array([float(floor.max())]),
        }

    def _share(self, joints: Sequence[np.ndarray]) -> List[List[int]]:
        """Return which changes, each of the motion of these joints, can be seen in one world."""
        if not self.on_stand:
            return [[i] for i in range(len(joints))]
        worlds: List[Tuple[set, List[int]]] = []
        for i, own in enumerate(joints):
            chains = {int(self._chain[j]) for j in own}
            for taken, members in worlds:
                if not taken & chains:
                    taken |= chains
                    members.append(i)
                    break
            else:
                worlds.append((chains, [i]))
        return [members for _, members in worlds]

    def _moves(self, joints: Sequence[int]) -> np.ndarray:
        """Return which joints [J] a change of these joints moves."""
        if not self.on_stand:
            return np.ones(self.num_joints, bool)
        return np.isin(self._chain, self._chain[list(joints)])

    def _moved_by(self, parameter: int) -> np.ndarray:
        """Return which joints [J] a parameter moves."""
        one = self.layout.parameters[parameter]
        return self._moves(one.places if KINDS[one.kind].size == "joints" else range(self.num_joints))

    def with_gravity(self, direction: np.ndarray) -> None:
        """Set the direction of gravity in the base frame of a robot on a stand."""
        self.model.opt.gravity[:] = 9.81 * direction

    def start_states(self, pieces: Sequence[Piece]) -> List[np.ndarray]:
        """Return a guess of the start state of each piece."""
        states = []
        for piece in pieces:
            motion = piece.recording.motion
            joints = np.concatenate((motion.joint_pos[piece.start], motion.joint_vel[piece.start]))
            if self.on_stand:
                states.append(joints)
                continue
            row = self._replay.states(motion, np.array([piece.start]))[0]
            velocity = row[1 + self._replay.model.nq :]
            linear = rotate_back(motion.base_quat[piece.start], velocity[:3])
            states.append(np.concatenate((joints, [row[3]], np.zeros(3), linear, velocity[3:6])))
        return states

    def predict(
        self, pieces: Sequence[Piece], x: np.ndarray, states: Sequence[np.ndarray], by: str = "all"
    ) -> Iterator[Prediction]:
        """Yield the prediction of each piece with scaled parameters [P] and start states, with derivatives by "all", by
        "states" or by "none" of them; the others are empty."""
        changed = [x]
        for world in self._parameter_worlds if by == "all" else ():
            other = x.copy()
            other[world] += self._change
            changed.append(other)
        values = [self.layout.values(one) for one in changed]
        models = [self._model(one) for one in values]
        for piece, state in zip(pieces, states):
            starts = [state]
            for world in self._state_worlds if by != "none" else ():
                other = state.copy()
                other[world] += self._state_changes()[world]
                starts.append(other)
            jobs = [(model, value, state) for model, value in zip(models, values)]
            jobs += [(models[0], values[0], start) for start in starts[1:]]
            yield self._prediction(piece, self._simulate(piece, jobs), len(changed), by)

    def _state_changes(self) -> np.ndarray:
        position, velocity = _CHANGES["stand" if self.on_stand else "floor"]
        joints = [position] * self.num_joints + [velocity] * self.num_joints
        return np.array(joints + ([] if self.on_stand else [position] * 4 + [velocity] * 6))

    def _prediction(self, piece: Piece, outputs: Mapping[str, np.ndarray], num_models: int, by: str) -> Prediction:
        """Return the prediction of outputs [worlds, rows, k] of each channel."""
        measured, layout = self._measured(piece), self.layout
        parts, channels, rows, by_parameters, by_state = [], [], [], [], []
        for name, value in measured.items():
            simulated = outputs[name]
            there = np.isfinite(value)
            parts.append((simulated[0] - value)[there])
            channels.append(np.full(int(there.sum()), CHANNELS.index(name)))
            rows.append(np.broadcast_to(np.arange(len(value))[:, None], value.shape)[there])
            if by == "none":
                continue
            of_joints = name.startswith("joint")
            jacobian = np.zeros((*value.shape, len(layout.parameters) if by == "all" else 0))
            for world, other in zip(self._parameter_worlds, simulated[1:num_models]):
                change = (other - simulated[0]) / self._change
                for i in world:
                    own = self._moved_by(i) if of_joints else slice(None)
                    jacobian[:, own, i] = change[:, own]
            by_parameters.append(jacobian[there])
            jacobian = np.zeros((*value.shape, self.num_states))
            for world, other in zip(self._state_worlds, simulated[num_models:]):
                for i in world:
                    own = self._moves((i % self.num_joints,)) if of_joints else slice(None)
                    jacobian[:, own, i] = (other - simulated[0])[:, own] / self._state_changes()[i]
            by_state.append(jacobian[there])
        empty = np.zeros((0, 0))
        return Prediction(
            np.concatenate(parts),
            np.concatenate(channels),
            np.concatenate(rows),
            np.concatenate(by_parameters) if by_parameters else empty,
            np.concatenate(by_state) if by_state else empty,
        )

    def _measured(self, piece: Piece) -> Dict[str, np.ndarray]:
        """Return the numbers of each channel [rows, k]; NaN where nothing was measured."""
        motion, rows = piece.recording.motion, piece.rows
        channels = {"joint_pos": motion.joint_pos[rows], "joint_vel": motion.joint_vel[rows]}
        if self.on_stand:
            return channels
        channels["base_ang_vel"] = motion.base_ang_vel[rows]
        channels["rotation"] = np.zeros((piece.end - piece.start, 3))
        if motion.base_lin_vel is not None:
            channels["base_lin_vel"] = motion.base_lin_vel[rows]
        height = self._replay.states(motion, np.array([piece.start]))[0, 3]
        channels["height"] = np.array([[height]])
        return channels

    def _model(self, values: Mapping[str, np.ndarray]) -> mujoco.MjModel:
        """Return the model with parameters."""
        model, vel, motors = copy.copy(self.model), self._vel, self._motors
        strength = values["motor_strength"]
        model.dof_damping[vel] = values["viscous_friction"]
        model.dof_frictionloss[vel] = values["joint_friction"]
        stiffness, damping = (gain * strength for gain in self.gains)
        early = np.minimum(0.5 * self.step * (damping + values["viscous_friction"]), values["armature"] + self._spare)
        model.dof_armature[vel] = values["armature"] - early
        model.actuator_gainprm[motors, 0] = stiffness
        model.actuator_biasprm[motors, 1] = -stiffness
        model.actuator_biasprm[motors, 2] = -damping
        limit = values["torque_limit"] * strength
        model.actuator_forcerange[motors] = np.stack((-limit, limit), axis=1)
        if not self.on_stand:
            trunk = self._trunk
            scale = 1.0 + values["payload"][0] / model.body_mass[trunk]
            model.body_mass[trunk] *= scale
            model.body_inertia[trunk] *= scale
            model.body_ipos[trunk] += values["trunk_com"]
            model.geom_friction[:, 0] = values["friction"][0]
            model.pair_friction[:, :2] = values["friction"][0]
        mujoco.mj_setConst(model, self._datas[0])
        return model

    def _simulate(
        self, piece: Piece, jobs: Sequence[Tuple[mujoco.MjModel, Mapping[str, np.ndarray], np.ndarray]]
    ) -> Dict[str, np.ndarray]:
        """Return the channels [worlds, rows, k] of a piece in worlds with a model, its parameters and a start state."""
        model, recording = self.model, piece.recording
        times = recording.time[piece.rows] - recording.time[piece.start]
        steps = int(np.ceil(times[-1] / self.step)) + 1
        size = 1 + model.nq + model.nv
        delays: Dict[float, np.ndarray] = {}
        parts: List[Dict[str, np.ndarray]] = []
        count = max(1, _CHUNK // (steps * size * 8))
        for first in range(0, len(jobs), count):
            own = jobs[first : first + count]
            states, control = np.zeros((len(own), size)), np.zeros((len(own), steps, model.nu))
            for i, (_, values, state) in enumerate(own):
                delay = float(values["action_delay"][0])
                if delay not in delays:
                    delays[delay] = _targets(recording, piece.start, steps, self.step, delay + 0.5 * self.step)
                control[i][:, self._motors] = delays[delay] - values["encoder_offset"]
                states[i] = self._state_of(piece, values, state)
            with without_log():
                out, _ = self._rollout.rollout([job[0] for job in own], self._datas, states, control)
            whole = np.concatenate((states[:, None], np.asarray(out)), axis=1)
            offsets = np.stack([job[1]["encoder_offset"] for job in own])
            parts.append(self._channels(piece, whole, times / self.step, offsets))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def _state_of(self, piece: Piece, values: Mapping[str, np.ndarray], state: np.ndarray) -> np.ndarray:
        """Return MuJoCo's state, with the time first."""
        out, count = np.zeros(1 + self.model.nq + self.model.nv), self.num_joints
        positions, velocities = out[1 : 1 + self.model.nq], out[1 + self.model.nq :]
        positions[self._pos] = state[:count] - values["encoder_offset"]
        velocities[self._vel] = state[count : 2 * count]
        if not self.on_stand:
            height, turn, linear, angular = np.split(state[2 * count :], (1, 4, 7))
            quat = multiply(piece.recording.motion.base_quat[piece.start], quaternion(turn))
            positions[2], positions[3:7] = height[0], quat
            velocities[:3], velocities[3:6] = rotate(quat, linear), angular
        return out

    def _channels(self, piece: Piece, states: np.ndarray, at: np.ndarray, offsets: np.ndarray) -> Dict[str, np.ndarray]:
        """Return what the sensors read in states [worlds, steps, S] at rows, whose times are ``at`` in steps."""
        first, nq = states[:, 0], self.model.nq
        pos = _between(states[:, :, 1 : 1 + nq], at)
        vel = _between(states[:, :, 1 + nq :], at + 0.5)
        vel[:, 0] = first[:, 1 + nq :]
        channels = {"joint_pos": pos[:, :, self._pos] + offsets[:, None], "joint_vel": vel[:, :, self._vel]}
        if self.on_stand:
            return channels
        quat = pos[:, :, 3:7] / np.linalg.norm(pos[:, :, 3:7], axis=2, keepdims=True)
        measured = piece.recording.motion.base_quat[piece.rows]
        turn = multiply(measured * np.array([1.0, -1.0, -1.0, -1.0]), quat)
        channels["base_ang_vel"] = vel[:, :, 3:6]
        channels["rotation"] = 2.0 * np.where(turn[..., :1] < 0, -1.0, 1.0) * turn[..., 1:]
        channels["base_lin_vel"] = rotate_back(quat, vel[:, :, :3])
        channels["height"] = pos[:, :1, 2:3]
        return channels


@without_log()
def on_stand_model(path: Path) -> mujoco.MjModel:
    """Return a robot's model with a fixed trunk that touches nothing."""
    spec = mujoco.MjSpec.from_file(str(path))
    for part in (*spec.sensors, *spec.pairs, *spec.keys):
        spec.delete(part)
    free = [joint for joint in spec.joints if joint.type == mujoco.mjtJoint.mjJNT_FREE]
    for joint in free:
        spec.delete(joint)
    for geom in spec.geoms:
        geom.contype = geom.conaffinity = 0
    return spec.compile()


def _targets(recording: Recording, start: int, steps: int, step: float, delay: float) -> np.ndarray:
    """Return the mean target of each physics step from a row on [steps, J]; each target is held until the next."""
    time = recording.time - recording.time[start]
    targets = recording.motion.targets
    known = np.maximum.accumulate(np.where(np.isfinite(targets).all(axis=1), np.arange(len(targets)), 0))
    targets = np.nan_to_num(targets[known])
    knots = np.concatenate(([time[0] - 10.0], time, [time[-1] + 10.0]))
    held = np.concatenate((targets[:1], targets))  # between the knots
    integral = np.concatenate((np.zeros((1, targets.shape[1])), np.cumsum(held * np.diff(knots)[:, None], axis=0)))
    edges = step * np.arange(steps + 1) - delay
    at = np.stack([np.interp(edges, knots, column) for column in integral.T], axis=1)
    return np.asarray(np.diff(at, axis=0) / step)


def _between(values: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Return values [worlds, steps, k] at fractional steps [rows], [worlds, rows, k]."""
    low = np.clip(at.astype(int), 0, values.shape[1] - 2)
    share = np.clip(at - low, 0.0, 1.0)[None, :, None]
    return np.asarray((1.0 - share) * values[:, low] + share * values[:, low + 1])
