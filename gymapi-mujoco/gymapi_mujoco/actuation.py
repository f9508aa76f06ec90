"""What acts on DoFs: efforts, drives and the limits of velocities; and the forces that clients read."""

from __future__ import annotations

from typing import Optional, Union

import numpy as np
import torch
from torch import Tensor

from gymapi_mujoco.model import Layout
from gymapi_mujoco.worlds import Worlds


class Efforts:
    """Joint forces that a client sets for one time step."""

    def __init__(self, worlds: Worlds, layout: Layout, limits: Tensor):
        """Limits are the DoFs' ``effort`` [D]; zero stands for none."""
        self.applied = worlds.state("qfrc_applied")
        self._layout, self._dtype = layout, worlds.dtype
        self._limits = torch.where(limits > 0, limits, torch.inf)
        self._limited = layout.zeros(layout.num_envs, layout.num_dofs)
        self._given = False

    def set(self, efforts: Tensor, actors: Optional[Tensor]) -> None:
        """Set the efforts [N * D] of all actors, or of those with the given flat indices."""
        efforts = efforts.view(self._limited.shape)
        torch.clamp(efforts, -self._limits, self._limits, out=self._limited)
        if actors is not None and not self._given:
            self.applied.zero_()
        for own in self._layout.actors:
            if actors is None:
                self.applied[:, own.vel] = self._limited[:, own.dofs]
            else:
                envs = self._layout.envs_of(own, actors)
                self.applied[envs, own.vel] = self._limited[envs, own.dofs].to(self._dtype)
        self._given = True

    def begin_step(self) -> None:
        if not self._given:
            self.applied.zero_()
        self._given = False


_UNLIMITED = 1e30
"""Force of a drive without a limit [N or N m]."""


class Drives:
    """Position and velocity drives: force = stiffness (target - q) + damping (target velocity - qd).

    As in PhysX they are implicit: the force is that of position and velocity at the end of the step. With q + dt qd and
    qd + dt qdd for them, it is that of the start, with the stiffness at q + dt qd, less (dt damping + dt^2 stiffness)
    qdd. So the drive adds this factor to the armature for the step, and contacts and other constraints see it too. A
    drive whose force would be above its limit has the constant force of the limit and no part in the armature.
    """

    def __init__(self, worlds: Worlds, layout: Layout):
        self._layout, model = layout, worlds.model
        shape = (layout.num_envs, layout.num_dofs)
        self.position_target, self.velocity_target = layout.zeros(*shape), layout.zeros(*shape)
        self._ctrl = worlds.state("ctrl") if model.nu else None
        if self._ctrl is None:
            return
        self._stiffness, self._damping, self._own, self._full, self.added = (
            torch.zeros_like(self._ctrl) for _ in range(5)
        )
        self._limits = torch.full_like(self._ctrl, torch.inf)
        self._limited = False
        self._dt = model.opt.timestep
        self._armature, self._ranges = worlds.field("dof_armature"), worlds.field("actuator_forcerange")
        self._qpos, self._qvel, self._mass = worlds.state("qpos"), worlds.state("qvel"), worlds.result("M")
        places = [range(own.pos.start, own.pos.stop) for own in layout.actors]
        speeds = [range(own.vel.start, own.vel.stop) for own in layout.actors]
        self._places, self._columns = (
            torch.tensor([i for one in many for i in one], dtype=torch.int64).to(worlds.device)
            for many in (places, speeds)
        )
        diagonal = np.cumsum(model.M_rownnz) - 1
        self._diagonal = torch.from_numpy(diagonal.astype(np.int64)).to(worlds.device)[self._columns]
        self._inertia = torch.zeros_like(self._ctrl)

    def set(
        self,
        envs: Tensor,
        dofs: slice,
        stiffness: np.ndarray,
        damping: np.ndarray,
        limits: np.ndarray,
        armature: np.ndarray,
    ) -> None:
        """Set gains, limits of the force and armatures of DoFs [W, dofs]; the model has the gains of q and qd."""
        self._limited |= bool(np.isfinite(limits).any())
        full = self._dt * damping + self._dt**2 * stiffness
        new = (stiffness, damping, limits, armature, full)
        for own, values in zip((self._stiffness, self._damping, self._limits, self._own, self._full), new):
            own[envs, dofs] = torch.from_numpy(np.asarray(values, dtype=float)).to(own)

    def set_positions(self, targets: Tensor, actors: Optional[Tensor]) -> None:
        """Set the position targets [N * D] of all actors, or of some; they hold until they are changed."""
        self._write(self.position_target, targets, actors)

    def set_velocities(self, targets: Tensor, actors: Optional[Tensor]) -> None:
        self._write(self.velocity_target, targets, actors)

    def _write(self, kept: Tensor, targets: Tensor, actors: Optional[Tensor]) -> None:
        targets = targets.view(kept.shape)
        for own in self._layout.actors:
            envs = self._layout.envs_of(own, actors)
            kept[envs, own.dofs] = targets[envs, own.dofs]

    def begin_step(self) -> None:
        """Pass to MuJoCo the part of the force that follows from the targets, the armature, and the limits."""
        if self._ctrl is None:
            return
        self._ctrl.copy_(self._stiffness * self.position_target + self._damping * self.velocity_target)
        self.added = self._full
        if self._limited:
            speed = self._qvel[:, self._columns]
            ahead = self._qpos[:, self._places] + self._dt * speed
            force = self._ctrl - self._stiffness * ahead - self._damping * speed
            part = torch.where(self._inertia > 0, self._inertia / (self._inertia + self._full), 1.0)
            above = (part * force).abs() > self._limits
            self.added = self._full.masked_fill(above, 0.0)
            limits = torch.where(above, self._limits, _UNLIMITED)
            self._ranges[..., 0], self._ranges[..., 1] = -limits, limits
        self._armature[:, self._columns] = self._own + self.added

    def end_step(self) -> None:
        """Take the drives' part out of the armature, for what a client reads."""
        if self._ctrl is not None:
            self._inertia = self._mass[:, self._diagonal] - self.added
            self._armature[:, self._columns] = self._own


class VelocityLimits:
    """The limits of the velocities of DoFs, by joint impulses.

    PhysX's solver applies an impulse to a joint that is faster than ``velocity`` of its DoF. Here it is applied after
    the time step: equal and opposite on both links of the joint, so that it leaves the robot's momentum as it is.
    Contacts and the limits of joints do not take part.
    """

    def __init__(self, worlds: Worlds, layout: Layout):
        self._worlds = worlds
        columns = [column for own in layout.actors for column in range(own.vel.start, own.vel.stop)]
        self._columns = torch.tensor(columns, dtype=torch.int64).to(worlds.device)  # of qvel, by DoF
        self._qvel, self._mass = worlds.state("qvel"), worlds.result("M")
        self._limits = torch.full_like(self._qvel, torch.inf)  # [N, nv], as qvel
        self._any = False
        one_hot = torch.eye(worlds.model.nv, dtype=worlds.dtype)[:, columns]
        self._one_hot = one_hot.to(worlds.device)  # [nv, D]
        self.skip_others = worlds.device.type == "cpu"  # a GPU would have to be waited for

    def set(self, envs: Tensor, dofs: slice, limits: np.ndarray) -> None:
        """Set limits of DoFs [W, dofs], infinite ones for none."""
        self._any |= bool(np.isfinite(limits).any())
        self._limits[envs[:, None], self._columns[dofs]] = torch.from_numpy(limits).to(self._limits)

    def apply(self) -> None:
        """Change the velocities that are above their limits, at the inertia of the last step.

        A DoF that only these impulses bring above its limit is slowed down after the next step.
        """
        if not self._any:
            return
        rows: Union[slice, Tensor] = slice(None)
        if self.skip_others:
            above = np.abs(self._qvel.numpy()) > self._limits.numpy()  # NumPy has a third of torch's time per call
            if not above.any():
                return
            rows = torch.from_numpy(np.flatnonzero(above.any(axis=1)))
        velocity, limits = self._qvel[rows][:, self._columns], self._limits[rows][:, self._columns]
        excess = velocity - torch.clamp(velocity, -limits, limits)  # [W, D]
        mass = self._worlds.mass_matrix(self._mass[rows])
        one_hot = self._one_hot.expand(len(mass), -1, -1)
        response = torch.linalg.solve_ex(mass, one_hot)[0]  # [W, nv, D]: of velocities to impulses on DoFs
        active = excess != 0
        both_active = active[:, :, None] & active[:, None]
        identity = torch.diag_embed((~active).to(excess.dtype))
        system = torch.where(both_active, response[:, self._columns], identity)  # [W, D, D]
        impulse = torch.linalg.solve_ex(system, excess)[0]
        self._qvel[rows] -= (response @ impulse[:, :, None])[:, :, 0]


class DofForces:
    """Efforts and drive forces of the last step, for a client."""

    def __init__(self, worlds: Worlds, layout: Layout, efforts: Efforts, drives: Drives):
        self._layout, self._efforts, self._drives = layout, efforts, drives
        self.buffer = layout.zeros(layout.num_envs * layout.num_dofs)
        self._drive = worlds.result("qfrc_actuator") if worlds.model.nu else None
        self._acceleration = worlds.result("qacc") if worlds.model.nu else None

    def refresh(self) -> None:
        out = self.buffer.view(self._layout.num_envs, -1)
        for own in self._layout.actors:
            out[:, own.dofs] = self._efforts.applied[:, own.vel].float()
            if self._drive is not None and self._acceleration is not None:
                implicit = self._drives.added[:, own.dofs] * self._acceleration[:, own.vel]
                out[:, own.dofs] += (self._drive[:, own.vel] - implicit).float()
