"""All environments in one batch of MuJoCo worlds, with the tensors that a client sees.

Tensors are float32 and keep their memory; the batch's states are float64. What a client writes acts at once, and what
it reads is copied by the refresh calls.
"""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import contextlib
import os
import warnings
from typing import Any, Callable, Dict, Iterator, List, Optional

import mujoco
import numpy as np
import torch
from mujoco import batch as mujoco_batch
from torch import Tensor

from gymapi_mujoco.parameters import Parameters
from gymapi_mujoco.rotations import rotate, rotate_inverse
from gymapi_mujoco.scene import Actor, Sim, usable_threads
from gymapi_mujoco.world import build_model, has_drives, warn_unused

_START_TIME = 1.0
"""Time at the start of a step. MuJoCo resets a world that diverges, and sets its time to zero."""


class Part:
    """Where an actor is in a world: slices of coordinates, velocities, bodies and DoFs."""

    def __init__(self, actor: Actor, model: mujoco.MjModel):
        asset = actor.asset
        self.index, self.floating = actor.index, asset.floating
        self.dofs = slice(actor.dof_start, actor.dof_start + len(asset.joints))
        self.bodies = slice(actor.body_start, actor.body_start + len(asset.bodies))
        self.root = 1 + actor.body_start
        names = [f"{actor.index}/{joint.name}" for joint in asset.joints]
        first = [model.joint(name).qposadr[0] for name in names]
        speed = [model.joint(name).dofadr[0] for name in names]
        assert np.array_equal(np.diff(first), np.ones(max(0, len(names) - 1))), "MuJoCo has another order of joints"
        free = model.joint(f"{actor.index}/free") if self.floating else None
        self.free_pos = slice(free.qposadr[0], free.qposadr[0] + 7) if free is not None else slice(0, 0)
        self.free_vel = slice(free.dofadr[0], free.dofadr[0] + 6) if free is not None else slice(0, 0)
        self.pos = slice(first[0], first[0] + len(names)) if names else slice(0, 0)
        self.vel = slice(speed[0], speed[0] + len(names)) if names else slice(0, 0)


class Engine:
    """The running simulation of N environments with A actors, B bodies and D DoFs each."""

    def __init__(self, sim: Sim):
        sim.check_layout()
        warn_unused(sim)
        self.sim, self.num_envs = sim, len(sim.envs)
        first = sim.envs[0]
        self.num_actors, self.num_bodies, self.num_dofs = len(first.actors), first.num_bodies, first.num_dofs
        self.model = build_model(sim)
        self.parts = [Part(actor, self.model) for actor in first.actors]
        self.threads = usable_threads(sim.params.physx.num_threads)
        self.batch = mujoco_batch.Batch(self.model, self.num_envs, self.threads)
        self.parameters = Parameters(sim, self.model, self.batch)
        self._bind()
        self._allocate()
        self.diverged = 0
        """How many times an environment diverged, and was put into its start state."""
        self.report_nan = os.environ.get("GYMAPI_MUJOCO_DIVERGED", "start") == "nan"
        self._start()

    def _bind(self) -> None:
        self.time = torch.from_numpy(self.batch.bind("time"))
        for name in ("qpos", "qvel", "qfrc_applied", "xfrc_applied", "qacc_warmstart"):
            setattr(self, name, torch.from_numpy(self.batch.bind(name)))
        self.ctrl = torch.from_numpy(self.batch.bind("ctrl")) if has_drives(self.sim) else None
        self.contact_wrench = _readable(self.batch.bind("cfrc_ext"))  # [N, 1 + B, 6] torque, force
        self._kinematics: Dict[str, Tensor] = {}

    def _allocate(self) -> None:
        n, a, b, d = self.num_envs, self.num_actors, self.num_bodies, self.num_dofs
        self.root_state, self.dof_state = torch.zeros(n * a, 13), torch.zeros(n * d, 2)
        self.body_state, self.contact_force = torch.zeros(n * b, 13), torch.zeros(n * b, 3)
        self._root, self._dof = self.root_state.view(n, a, 13), self.dof_state.view(n, d, 2)
        self._limits = torch.zeros(d)
        self._effort = torch.zeros(n, d)
        self.position_target, self.velocity_target = torch.zeros(n, d), torch.zeros(n, d)
        self._effort_given = self._wrench_given = False
        self._captured = self._current = False
        self._last_wrench: Optional[Tensor] = None
        self.capture_hooks: List[Callable[[], None]] = []
        self.extras: Dict[Any, Any] = {}
        """What other parts keep with the engine: tensors that were acquired, renderers."""
        self.broken = torch.zeros(n, dtype=torch.bool)

    def _start(self) -> None:
        """Put all environments where ``create_actor`` put the actors, with DoFs at zero or the nearest limit."""
        for part in self.parts:
            actors = [env.actors[part.index] for env in self.sim.envs]
            pos = torch.from_numpy(np.stack([actor.pos for actor in actors]))
            quat = torch.from_numpy(np.stack([actor.quat for actor in actors]))
            if part.floating:
                self.qpos[:, part.free_pos] = torch.cat((pos, quat), dim=1)
            else:
                self.parameters.place_base(part.root, pos.numpy(), quat.numpy())
            self._place_root(part, pos, quat, torch.arange(self.num_envs))
            limits = actors[0].dof_properties
            self.qpos[:, part.pos] = torch.from_numpy(np.clip(0.0, limits["lower"], limits["upper"]).astype(float))
            effort = torch.from_numpy(limits["effort"].copy())
            self._limits[part.dofs] = torch.where(effort > 0, effort, torch.inf)
        self.qvel.zero_()
        self._start_pos = self.qpos.clone()
        self.position_target.copy_(self._gathered(self.qpos, "pos"))
        self.refresh_root()
        self.refresh_dofs()

    def _place_root(self, part: Part, pos: Tensor, quat: Tensor, worlds: Tensor) -> None:
        """Set the root state of a fixed base, which no refresh changes."""
        self._root[worlds, part.index, :7] = torch.cat((pos, quat.roll(-1, dims=1)), dim=1).float()

    def _gathered(self, source: Tensor, name: str) -> Tensor:
        return torch.cat([source[:, getattr(part, name)] for part in self.parts], dim=1)

    # Running.

    def simulate(self) -> None:
        """Advance all environments by one time step."""
        if not self._effort_given:
            self.qfrc_applied.zero_()
        if not self._wrench_given and self._last_wrench is not None:
            self.xfrc_applied.zero_()
        self._last_wrench = self.xfrc_applied[:, 1:, :3].clone() if self._wrench_given else None
        if self.ctrl is not None:
            self._drive()
        self.parameters.update()
        self.time.fill_(_START_TIME)
        with _quiet():
            self.batch.step(nstep=self.sim.params.substeps)
        self._captured = self._current = self._effort_given = self._wrench_given = False
        if float(self.time.min()) < _START_TIME + 1e-9:
            self._restart(self.time < _START_TIME + (self.sim.params.substeps - 0.5) * self.model.opt.timestep)

    def _restart(self, broken: Tensor) -> None:
        """Put environments [N] that diverged into their start state."""
        if not self.diverged:
            first = int(broken.nonzero()[0])
            warnings.warn(
                f"environment {first} diverged and was put into its start state; further ones are not reported",
                stacklevel=4,
            )
        self.diverged += int(broken.sum())
        self.qpos[broken], self.qvel[broken], self.qacc_warmstart[broken] = self._start_pos[broken], 0.0, 0.0
        self.broken |= broken

    def _drive(self) -> None:
        """Pass the targets to the drives: force = stiffness (target - q) + damping (target velocity - qd)."""
        assert self.ctrl is not None
        stiffness, damping = self.parameters.gains
        self.ctrl.copy_(stiffness * self.position_target + damping * self.velocity_target)

    # Reading.

    def refresh_root(self) -> None:
        """Copy the root states: quaternion x y z w, velocity of the centre of mass, both in world axes."""
        for part in self.parts:
            if not part.floating:
                continue
            out = self._root[:, part.index]
            pose, vel = self.qpos[:, part.free_pos].float(), self.qvel[:, part.free_vel].float()
            quat = pose[:, 3:]
            out[:, :3], out[:, 3:6], out[:, 6] = pose[:, :3], quat[:, 1:], quat[:, 0]
            spin = rotate(quat, vel[:, 3:])
            out[:, 10:] = spin
            out[:, 7:10] = vel[:, :3] + torch.linalg.cross(spin, rotate(quat, self.parameters.com(part.root)))
        self._show_broken(self._root)

    def refresh_dofs(self) -> None:
        for part in self.parts:
            self._dof[:, part.dofs, 0].copy_(self.qpos[:, part.pos])
            self._dof[:, part.dofs, 1].copy_(self.qvel[:, part.vel])
        self._show_broken(self._dof)

    def _show_broken(self, tensor: Tensor) -> None:
        """Give NaN for environments that diverged, as PhysX does, until they are set; only where it is asked for."""
        if self.report_nan and bool(self.broken.any()):
            tensor[self.broken] = torch.nan

    def capture(self) -> None:
        """Copy the contact forces of the last substep, before other calls overwrite the engine's outputs."""
        if self._captured:
            return
        force = torch.from_numpy(self.contact_wrench)[:, 1:, 3:]
        self._force = force - self._last_wrench if self._last_wrench is not None else force.float()
        for hook in self.capture_hooks:
            hook()
        self._captured = True

    def refresh_contacts(self) -> None:
        """Copy the net contact force on each body, in world axes; applied forces are not part of it."""
        self.capture()
        out = self.contact_force.view(self._force.shape)
        out.copy_(self._force)
        self._show_broken(out)

    def kinematics(self, *names: str) -> List[Tensor]:
        """Return outputs of the present state, by MjData's names."""
        for name in names:
            if name not in self._kinematics:
                self._kinematics[name] = torch.from_numpy(_readable(self.batch.bind(name)))
                self._current = False
        if not self._current:
            self.capture()
            self.parameters.update()
            self.batch.forward(stage=mujoco.mjtStage.mjSTAGE_VEL)
            self._current = True
        return [self._kinematics[name] for name in names]

    def refresh_bodies(self) -> None:
        """Copy pose and velocity of all bodies: of the frame's origin, and of the centre of mass, in world axes."""
        pos, quat, vel, com, tree = self.kinematics("xpos", "xquat", "cvel", "xipos", "subtree_com")
        out = self.body_state.view(self.num_envs, self.num_bodies, 13)
        out[..., :3], out[..., 3:6], out[..., 6] = pos[:, 1:], quat[:, 1:, 1:], quat[:, 1:, 0]
        spin = vel[:, 1:, :3]
        arm = com[:, 1:] - tree[:, torch.from_numpy(self.model.body_rootid[1:].astype(np.int64))]
        out[..., 7:10] = vel[:, 1:, 3:] + torch.linalg.cross(spin, arm)
        out[..., 10:] = spin
        self._show_broken(out)

    # Writing.

    def set_root(self, state: Tensor, actors: Optional[Tensor]) -> None:
        """Write root states; ``actors`` are flat indices over all environments, or None for all."""
        state = state.view(self.num_envs, self.num_actors, 13)
        for part in self.parts:
            worlds = self._worlds(actors, part)
            rows = state[worlds, part.index]
            pos, quat, linear, spin = rows[:, :3], rows[:, 3:7].roll(1, dims=1), rows[:, 7:10], rows[:, 10:]
            if not part.floating:
                self.parameters.place_base(part.root, pos.double().numpy(), quat.double().numpy(), worlds.numpy())
                self._place_root(part, pos, quat, worlds)
                self._written(worlds)
                continue
            com = self.parameters.com(part.root)
            com = com[worlds] if com.dim() == 2 else com
            self.qpos[worlds, part.free_pos] = torch.cat((pos, quat), dim=1).double()
            linear = linear - torch.linalg.cross(spin, rotate(quat, com))
            self.qvel[worlds, part.free_vel] = torch.cat((linear, rotate_inverse(quat, spin)), dim=1).double()
            self._written(worlds)

    def set_dofs(self, state: Tensor, actors: Optional[Tensor]) -> None:
        """Write DoF states of actors; see :meth:`set_root`."""
        state = state.view(self.num_envs, self.num_dofs, 2)
        for part in self.parts:
            worlds = self._worlds(actors, part)
            rows = state[worlds, part.dofs].double()
            self.qpos[worlds, part.pos], self.qvel[worlds, part.vel] = rows[..., 0], rows[..., 1]
            self._written(worlds)

    def _written(self, worlds: Tensor) -> None:
        self.qacc_warmstart[worlds] = 0.0
        self.broken[worlds] = False
        self._current = False

    def _worlds(self, actors: Optional[Tensor], part: Part) -> Tensor:
        if actors is None:
            return torch.arange(self.num_envs)
        if self.num_actors == 1:
            return actors
        return actors[actors % self.num_actors == part.index] // self.num_actors

    def set_efforts(self, efforts: Tensor, actors: Optional[Tensor] = None) -> None:
        """Apply joint forces [N * D] for one time step, limited to the DoFs' ``effort`` where it is above zero."""
        torch.clamp(efforts.view(self.num_envs, self.num_dofs), -self._limits, self._limits, out=self._effort)
        if actors is not None and not self._effort_given:
            self.qfrc_applied.zero_()
        for part in self.parts:
            if actors is None:
                self.qfrc_applied[:, part.vel] = self._effort[:, part.dofs]
            else:
                worlds = self._worlds(actors, part)
                self.qfrc_applied[worlds, part.vel] = self._effort[worlds, part.dofs].double()
        self._effort_given = True

    def set_targets(self, own: Tensor, targets: Tensor, actors: Optional[Tensor]) -> None:
        """Write the targets of drives [N * D], which hold until they are changed."""
        targets = targets.view(self.num_envs, self.num_dofs)
        for part in self.parts:
            worlds = self._worlds(actors, part)
            own[worlds, part.dofs] = targets[worlds, part.dofs]

    def add_wrenches(self, force: Tensor, torque: Tensor) -> None:
        """Add forces and torques [N, B, 3] in world axes at the bodies' centres of mass, for one time step."""
        if not self._wrench_given:
            self.xfrc_applied.zero_()
        self.xfrc_applied[:, 1:, :3] += force
        self.xfrc_applied[:, 1:, 3:] += torque
        self._wrench_given = True


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Stop MuJoCo from writing a log file for each environment that diverges."""
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def _readable(array: np.ndarray) -> np.ndarray:
    """Return a read-only array as writeable, because torch has no read-only tensors; it is never written to."""
    view = array.view()
    view.flags.writeable = True
    return view
