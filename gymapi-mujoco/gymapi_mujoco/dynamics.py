"""Forces on bodies, DoF forces, force sensors, Jacobians and mass matrices."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

from typing import Callable, Optional, Tuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from gymapi_mujoco.engine import Engine
from gymapi_mujoco.enums import CoordinateSpace
from gymapi_mujoco.rotations import rotate, rotate_inverse
from gymapi_mujoco.worlds import MassMatrixLayout


def apply_forces(engine: Engine, force: Optional[Tensor], torque: Optional[Tensor], space: CoordinateSpace) -> None:
    """Apply forces and torques [N, B, 3] at the centres of mass; of the environment's and the world's axes, which are
    the same, or of the bodies'."""
    zero = engine.zeros(engine.num_envs, engine.num_bodies, 3)
    force, torque = (zero if x is None else x for x in (force, torque))
    if space == CoordinateSpace.LOCAL_SPACE:
        quat = engine.kinematics("xquat")[0][:, 1:].float()
        force, torque = rotate(quat, force), rotate(quat, torque)
    engine.add_wrenches(force, torque)


def apply_forces_at(engine: Engine, force: Optional[Tensor], pos: Optional[Tensor], space: CoordinateSpace) -> None:
    """Apply forces [N, B, 3] at positions [N, B, 3] in the world, the environment or the body's frame."""
    assert force is not None and pos is not None
    quat, origin, com = (x[:, 1:].float() for x in engine.kinematics("xquat", "xpos", "xipos"))
    if space == CoordinateSpace.LOCAL_SPACE:
        force, pos = rotate(quat, force), origin + rotate(quat, pos)
    elif space == CoordinateSpace.ENV_SPACE:
        pos = pos + _kept(engine, Origins).value[:, None]
    engine.add_wrenches(force, torch.linalg.cross(pos - com, force))


class Origins:
    """Origins of the environments in the world [N, 3]."""

    def __init__(self, engine: Engine):
        origins = np.stack([env.origin for env in engine.sim.envs])
        self.value = torch.from_numpy(origins).float().to(engine.device)


class DofForces:
    """Efforts and drive forces of the last step."""

    def __init__(self, engine: Engine):
        self._engine = engine
        self.buffer = engine.zeros(engine.num_envs * engine.num_dofs)
        self._drive = engine.worlds.result("qfrc_actuator") if engine.model.nu else None

    def refresh(self) -> None:
        out = self.buffer.view(self._engine.num_envs, -1)
        for part in self._engine.parts:
            out[:, part.dofs] = self._engine.qfrc_applied[:, part.vel].float()
            if self._drive is not None:
                out[:, part.dofs] += self._drive[:, part.vel].float()


class ForceSensors:
    """Wrench on a body at a sensor's place, in the sensor's axes or the world's.

    Constraint forces are the contact forces on the body; forward dynamics forces are its weight and the applied forces.
    What PhysX adds to them, the forces of the body's joints, is not part of it.
    """

    def __init__(self, engine: Engine):
        self._engine = engine
        self._sensors = [
            (1 + part_start + sensor.body, sensor) for part_start, sensors in _sensors(engine) for sensor in sensors
        ]
        self.buffer = engine.zeros(engine.num_envs * len(self._sensors), 6)
        self._latest = engine.zeros(engine.num_envs, len(self._sensors), 6)
        self._results = {name: engine.worlds.result(name) for name in _SENSOR_RESULTS}
        if self._sensors:
            self._read_places()
            engine.capture_hooks.append(self._capture)

    def _read_places(self) -> None:
        engine = self._engine
        bodies = np.array([body for body, _ in self._sensors])
        self._bodies = torch.from_numpy(bodies).to(engine.device)
        self._roots = torch.from_numpy(engine.model.body_rootid[bodies].astype(np.int64)).to(engine.device)
        self._local = torch.tensor(np.stack([sensor.pos for _, sensor in self._sensors])).float().to(engine.device)
        self._turns = torch.tensor(np.stack([sensor.quat for _, sensor in self._sensors])).float().to(engine.device)

    def _capture(self) -> None:
        """Compute the wrenches while the worlds' results are those of the last substep."""
        engine, ids = self._engine, self._bodies
        wrench = engine.contact_wrench[:, ids].float()
        torque, force = wrench[..., :3], wrench[..., 3:]
        pos, quat, com, tree = (self._results[name].float() for name in _SENSOR_RESULTS)
        at = pos[:, ids] + rotate(quat[:, ids], self._local.expand(len(pos), -1, 3))
        torque = torque + torch.linalg.cross(tree[:, self._roots] - at, force)
        applied = None if engine.last_wrench is None else engine.last_wrench[:, ids - 1].float()
        if applied is not None:  # contained in MuJoCo's, and no contact force
            force, torque = force - applied, torque - torch.linalg.cross(com[:, ids] - at, applied)
        weight = engine.worlds.values("body_mass")[:, ids].float()[..., None] * engine.parameters.gravity
        weight = weight.expand(force.shape) if applied is None else weight + applied
        weight_torque = torch.linalg.cross(com[:, ids] - at, weight)
        for k, (body, sensor) in enumerate(self._sensors):
            total = sensor.contact * force[:, k] + sensor.dynamics * weight[:, k]
            moment = sensor.contact * torque[:, k] + sensor.dynamics * weight_torque[:, k]
            if not sensor.world_frame:
                turn = self._turns[k].expand(len(total), 4)
                total = rotate_inverse(turn, rotate_inverse(quat[:, body], total))
                moment = rotate_inverse(turn, rotate_inverse(quat[:, body], moment))
            self._latest[:, k, :3], self._latest[:, k, 3:] = total, moment

    def refresh(self) -> None:
        self._engine.capture()
        self.buffer.view(self._latest.shape).copy_(self._latest)


_SENSOR_RESULTS = ("xpos", "xquat", "xipos", "subtree_com")


def _sensors(engine: Engine) -> list:
    return [(actor.body_start, actor.asset.sensors) for actor in engine.sim.envs[0].actors]


class _OfActor:
    """A tensor of one actor per environment, by the actor's name."""

    def __init__(self, engine: Engine, name: str):
        self._engine = engine
        actors = engine.sim.envs[0].actors
        names = [actor.name for actor in actors]
        if name not in names:
            raise ValueError(f"there is no actor '{name}'; the actors are {', '.join(names)}")
        self._actor = actors[names.index(name)]
        self._part = engine.parts[names.index(name)]
        self.bodies = np.arange(self._part.root, self._part.root + len(self._actor.asset.bodies))
        self.columns = torch.tensor([*range(*self._part.free_vel.indices(engine.model.nv)), *self._dof_columns()])
        self.columns = self.columns.to(engine.device)

    def _dof_columns(self) -> range:
        return range(self._part.vel.start, self._part.vel.stop)

    def _root_columns(self) -> Tuple[Tensor, Tensor]:
        """Return position of the root's centre of mass and its quaternion, [N, 3] and [N, 4]."""
        com, quat = self._engine.kinematics("xipos", "xquat")
        return com[:, self._part.root], quat[:, self._part.root]


class Jacobian(_OfActor):
    def __init__(self, engine: Engine, name: str):
        super().__init__(engine, name)
        if not self._part.floating:
            self.bodies = self.bodies[1:]
        self.buffer = engine.zeros(engine.num_envs, len(self.bodies), 6, len(self.columns))
        model = engine.model
        moves = np.zeros((len(self.bodies), model.nv), dtype=bool)
        for row, body in enumerate(self.bodies):
            while body:
                start = model.body_dofadr[body]
                moves[row, start : start + model.body_dofnum[body]] = True
                body = model.body_parentid[body]
        self._moves = torch.from_numpy(moves[:, list(self._dof_columns())]).to(engine.device)
        self._ids = torch.from_numpy(self.bodies).to(engine.device)
        self._roots = torch.from_numpy(model.body_rootid[self.bodies].astype(np.int64)).to(engine.device)
        self.refresh()

    def refresh(self) -> None:
        engine, ids = self._engine, self._ids
        cdof, com, tree = engine.kinematics("cdof", "xipos", "subtree_com")
        axes = cdof[:, None, self._part.vel]  # [N, 1, D, 6] rotation, translation at the tree's centre
        arm = com[:, ids] - tree[:, self._roots]
        linear = axes[..., 3:] + torch.linalg.cross(axes[..., :3], arm[:, :, None])
        moves = self._moves[None, :, :, None]
        first = 6 if self._part.floating else 0
        self.buffer[..., :3, first:] = (linear * moves).transpose(2, 3).float()
        self.buffer[..., 3:, first:] = (axes[..., :3] * moves).expand(linear.shape).transpose(2, 3).float()
        if self._part.floating:
            root, _ = self._root_columns()
            offset = com[:, ids] - root[:, None]
            eye = torch.eye(3, dtype=engine.dtype, device=engine.device)
            turned = torch.linalg.cross(eye.expand(*offset.shape[:2], 3, 3), offset[:, :, None])  # row i: e_i x offset
            self.buffer[..., :3, :3], self.buffer[..., 3:, 3:6] = eye.float(), eye.float()
            self.buffer[..., :3, 3:6] = turned.transpose(2, 3).float()
            self.buffer[..., 3:, :3] = 0.0


class MassMatrix(_OfActor):
    """The joint-space inertia; of a floating base it belongs to the root's velocity as the root state has it."""

    def __init__(self, engine: Engine, name: str):
        super().__init__(engine, name)
        size = len(self.columns)
        self.buffer = engine.zeros(engine.num_envs, size, size)
        self._layout = MassMatrixLayout(engine.worlds)
        self.refresh()

    def refresh(self) -> None:
        engine = self._engine
        full = self._layout.full(engine.kinematics("M")[0])
        own = full[:, self.columns][:, :, self.columns]
        if self._part.floating:
            root, quat = self._root_columns()
            origin = engine.kinematics("xpos")[0][:, self._part.root]
            eye = torch.eye(3, dtype=engine.dtype, device=engine.device).expand(len(quat), 3, 3)
            change = torch.eye(len(self.columns), dtype=engine.dtype, device=engine.device).repeat(len(quat), 1, 1)
            # MuJoCo's velocities of the free joint by ours: v_origin = v_com - w x (com - origin), w_body = R^T w.
            change[:, :3, 3:6] = torch.linalg.cross((root - origin)[:, None].expand(eye.shape), eye).transpose(1, 2)
            inverse = quat[:, None].expand(len(quat), 3, 4)
            change[:, 3:6, 3:6] = rotate_inverse(inverse, eye).transpose(1, 2)
            own = change.transpose(1, 2) @ own @ change
        self.buffer.copy_(own)


_T = TypeVar("_T")


def _kept(engine: Engine, kind: Callable[..., _T], *key: str) -> _T:
    """Return the engine's object of a kind, made at the first call."""
    if (kind, *key) not in engine.extras:
        engine.extras[(kind, *key)] = kind(engine, *key)
    return engine.extras[(kind, *key)]


def dof_forces(engine: Engine) -> DofForces:
    return _kept(engine, DofForces)


def force_sensors(engine: Engine) -> ForceSensors:
    return _kept(engine, ForceSensors)


def jacobian(engine: Engine, name: str) -> Jacobian:
    return _kept(engine, Jacobian, name)


def mass_matrix(engine: Engine, name: str) -> MassMatrix:
    return _kept(engine, MassMatrix, name)


def refresh_all(engine: Engine, kind: type) -> None:
    """Refresh all tensors of a kind that were acquired."""
    for made in engine.extras.values():
        if isinstance(made, kind):
            made.refresh()
