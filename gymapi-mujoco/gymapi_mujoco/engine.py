"""All environments in one batch of MuJoCo worlds: what moves them. What a client writes acts at once."""

from __future__ import annotations

from typing import Optional

import torch
from torch import Tensor

from gymapi_mujoco.parts import Part
from gymapi_mujoco.rotations import rotate, rotate_inverse
from gymapi_mujoco.states import States


class Engine(States):
    """The running simulation of N environments with A actors, B bodies and D DoFs each."""

    def simulate(self) -> None:
        """Advance all environments by one time step."""
        if not self._effort_given:
            self.qfrc_applied.zero_()
        if not self._wrench_given and self.last_wrench is not None:
            self.xfrc_applied.zero_()
        self.last_wrench = self.xfrc_applied[:, 1:, :3].clone() if self._wrench_given else None
        if self.ctrl is not None:
            self._drive()
        self.parameters.update()
        broken = self.worlds.step(self.sim.params.substeps)
        if self.parameters.has_velocity_limits:
            self._velocity_limits.apply(self.parameters.velocity_limits)
        self._captured = self._current = self._effort_given = self._wrench_given = False
        if broken is not None:
            self._restart(broken)

    def _restart(self, broken: Tensor) -> None:
        """Put environments [N] that diverged into their start state."""
        rows = broken[:, None]
        self.qpos.copy_(torch.where(rows, self._start_pos, self.qpos))
        self.qvel.masked_fill_(rows, 0.0)
        self.qacc_warmstart.masked_fill_(rows, 0.0)
        self.broken |= broken
        self._report.add(broken)

    def _drive(self) -> None:
        """Pass the targets to the drives: force = stiffness (target - q) + damping (target velocity - qd)."""
        assert self.ctrl is not None
        stiffness, damping = self.parameters.gains
        self.ctrl.copy_(stiffness * self.position_target + damping * self.velocity_target)

    # Writing.

    def set_root(self, state: Tensor, actors: Optional[Tensor]) -> None:
        """Write root states; ``actors`` are flat indices over all environments, or None for all."""
        state = state.view(self.num_envs, self.num_actors, 13)
        for part in self.parts:
            worlds = self._worlds(actors, part)
            rows = state[worlds, part.index]
            pos, quat, linear, spin = rows[:, :3], rows[:, 3:7].roll(1, dims=1), rows[:, 7:10], rows[:, 10:]
            if not part.floating:
                self.parameters.place_base(part.root, pos.double(), quat.double(), worlds)
                self._place_root(part, pos, quat, worlds)
                self._written(worlds)
                continue
            com = self.parameters.com(part.root)
            com = com[worlds] if com.dim() == 2 else com
            self.qpos[worlds, part.free_pos] = torch.cat((pos, quat), dim=1).to(self.dtype)
            linear = linear - torch.linalg.cross(spin, rotate(quat, com))
            self.qvel[worlds, part.free_vel] = torch.cat((linear, rotate_inverse(quat, spin)), dim=1).to(self.dtype)
            self._written(worlds)

    def set_dofs(self, state: Tensor, actors: Optional[Tensor]) -> None:
        """Write DoF states of actors; see :meth:`set_root`."""
        state = state.view(self.num_envs, self.num_dofs, 2)
        for part in self.parts:
            worlds = self._worlds(actors, part)
            rows = state[worlds, part.dofs].to(self.dtype)
            self.qpos[worlds, part.pos], self.qvel[worlds, part.vel] = rows[..., 0], rows[..., 1]
            self._written(worlds)

    def _written(self, worlds: Tensor) -> None:
        self.qacc_warmstart[worlds] = 0.0
        self.broken[worlds] = False
        self._current = False

    def _worlds(self, actors: Optional[Tensor], part: Part) -> Tensor:
        if actors is None:
            return self._everyone
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
                self.qfrc_applied[worlds, part.vel] = self._effort[worlds, part.dofs].to(self.dtype)
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
