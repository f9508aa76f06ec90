"""The tensors that a client sees, and how the refresh calls fill them from the worlds.

They are float32, on the worlds' device, and keep their memory.
"""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, List, Optional

import numpy as np
import torch
from torch import Tensor

from gymapi_mujoco.parameters import Parameters
from gymapi_mujoco.parts import Part
from gymapi_mujoco.report import Report
from gymapi_mujoco.rotations import rotate
from gymapi_mujoco.scene import Sim
from gymapi_mujoco.velocity_limits import VelocityLimits
from gymapi_mujoco.world import build_model, has_drives, warn_unused

_DIVERGED = "environment {} diverged and was put into its start state; further ones are not reported"


class States:
    """N environments with A actors, B bodies and D DoFs each."""

    def __init__(self, sim: Sim):
        sim.check_layout()
        warn_unused(sim)
        self.sim, self.num_envs = sim, len(sim.envs)
        first = sim.envs[0]
        self.num_actors, self.num_bodies, self.num_dofs = len(first.actors), first.num_bodies, first.num_dofs
        self.model = build_model(sim)
        self.parts = [Part(actor, self.model) for actor in first.actors]
        self.worlds = sim.backend.make(self.model, self.num_envs)
        self.device, self.dtype = self.worlds.device, self.worlds.dtype
        self.parameters = Parameters(sim, self.model, self.worlds)
        self._velocity_limits = VelocityLimits(self.worlds, self.parts)
        self._bind()
        self._allocate()
        self._report = Report(_DIVERGED, self.device)
        self.report_nan = os.environ.get("GYMAPI_MUJOCO_DIVERGED", "start") == "nan"
        self._start()

    @property
    def diverged(self) -> int:
        """How many times an environment diverged, and was put into its start state."""
        return self._report.count

    def _bind(self) -> None:
        self.qpos, self.qvel = self.worlds.state("qpos"), self.worlds.state("qvel")
        self.qfrc_applied, self.xfrc_applied = self.worlds.state("qfrc_applied"), self.worlds.state("xfrc_applied")
        self.qacc_warmstart = self.worlds.state("qacc_warmstart")
        self.ctrl = self.worlds.state("ctrl") if has_drives(self.sim) else None
        self.contact_wrench = self.worlds.result("cfrc_ext")  # [N, 1 + B, 6] torque, force
        self._kinematics: Dict[str, Tensor] = {}
        self._trees = torch.from_numpy(self.model.body_rootid[1:].astype(np.int64)).to(self.device)
        self._everyone = torch.arange(self.num_envs, device=self.device)

    def _allocate(self) -> None:
        n, a, b, d = self.num_envs, self.num_actors, self.num_bodies, self.num_dofs
        self.root_state, self.dof_state = self.zeros(n * a, 13), self.zeros(n * d, 2)
        self.body_state, self.contact_force = self.zeros(n * b, 13), self.zeros(n * b, 3)
        self._root, self._dof = self.root_state.view(n, a, 13), self.dof_state.view(n, d, 2)
        self._limits = self.zeros(d)
        self._effort = self.zeros(n, d)
        self.position_target, self.velocity_target = self.zeros(n, d), self.zeros(n, d)
        self._effort_given = self._wrench_given = False
        self._captured = self._current = False
        self.last_wrench: Optional[Tensor] = None
        """Forces [N, B, 3] that were applied in the last step."""
        self.capture_hooks: List[Callable[[], None]] = []
        self.extras: Dict[Any, Any] = {}
        """What other parts keep with the engine: tensors that were acquired, renderers."""
        self.broken = torch.zeros(n, dtype=torch.bool, device=self.device)

    def zeros(self, *shape: int) -> Tensor:
        """Return a tensor for a client."""
        return torch.zeros(shape, device=self.device)

    def _start(self) -> None:
        """Put all environments where ``create_actor`` put the actors, with DoFs at zero or the nearest limit."""
        for part in self.parts:
            actors = [env.actors[part.index] for env in self.sim.envs]
            pos = torch.from_numpy(np.stack([actor.pos for actor in actors])).to(self.device)
            quat = torch.from_numpy(np.stack([actor.quat for actor in actors])).to(self.device)
            if part.floating:
                self.qpos[:, part.free_pos] = torch.cat((pos, quat), dim=1).to(self.dtype)
            else:
                self.parameters.place_base(part.root, pos, quat, self._everyone)
            self._place_root(part, pos, quat, self._everyone)
            limits = actors[0].dof_properties
            pos = torch.from_numpy(np.clip(0.0, limits["lower"], limits["upper"]).astype(float))
            self.qpos[:, part.pos] = pos.to(self.device, self.dtype)
            effort = torch.from_numpy(limits["effort"].copy()).to(self.device)
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
        if self.report_nan:
            tensor.masked_fill_(self.broken[:, None, None], torch.nan)

    def capture(self) -> None:
        """Copy the contact forces of the last substep, before other calls overwrite the engine's outputs."""
        if self._captured:
            return
        force = self.contact_wrench[:, 1:, 3:]
        self._force = force - self.last_wrench if self.last_wrench is not None else force.float()
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
        """Return results of the present state, by MjData's names."""
        for name in names:
            if name not in self._kinematics:
                self._kinematics[name] = self.worlds.result(name)
                self._current = False
        if not self._current:
            self.capture()
            self.parameters.update()
            self.worlds.forward()
            self._current = True
        return [self._kinematics[name] for name in names]

    def refresh_bodies(self) -> None:
        """Copy pose and velocity of all bodies: of the frame's origin, and of the centre of mass, in world axes."""
        pos, quat, vel, com, tree = self.kinematics("xpos", "xquat", "cvel", "xipos", "subtree_com")
        out = self.body_state.view(self.num_envs, self.num_bodies, 13)
        out[..., :3], out[..., 3:6], out[..., 6] = pos[:, 1:], quat[:, 1:, 1:], quat[:, 1:, 0]
        spin = vel[:, 1:, :3]
        arm = com[:, 1:] - tree[:, self._trees]
        out[..., 7:10] = vel[:, 1:, 3:] + torch.linalg.cross(spin, arm)
        out[..., 10:] = spin
        self._show_broken(out)
