"""The states that a client reads and writes: of roots, DoFs and bodies.

Their tensors are float32, on the worlds' device, and keep their memory. What a client writes acts at once.
"""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import os
from typing import Optional

import numpy as np
import torch
from torch import Tensor

from gymapi_mujoco.kinematics import Kinematics
from gymapi_mujoco.model import ActorSlices, Layout
from gymapi_mujoco.properties import ModelProperties
from gymapi_mujoco.rotations import rotate, rotate_inverse
from gymapi_mujoco.scene import Actor, Scene
from gymapi_mujoco.worlds import Report

_DIVERGED = "environment {} diverged and was put into its start state; further ones are not reported"


class Coordinates:
    """MuJoCo's coordinates and velocities of all environments, and which of them diverged."""

    def __init__(self, layout: Layout, kinematics: Kinematics):
        worlds = kinematics.worlds
        self.qpos, self.qvel = worlds.state("qpos"), worlds.state("qvel")
        self.dtype = worlds.dtype
        self._warmstart, self._kinematics = worlds.state("qacc_warmstart"), kinematics
        self._broken = torch.zeros(layout.num_envs, dtype=torch.bool, device=layout.device)
        self._report = Report(_DIVERGED, layout.device)
        wanted = os.environ.get("GYMAPI_MUJOCO_DIVERGED", "start")
        if wanted not in ("start", "nan"):
            raise ValueError(f"GYMAPI_MUJOCO_DIVERGED={wanted}; give start or nan")
        self._report_nan = wanted == "nan"
        self._start = self.qpos.clone()

    def keep_start(self) -> None:
        """Let environments that diverge start again from here."""
        self._start = self.qpos.clone()

    def written(self, envs: Tensor) -> None:
        """Take note that a client has written a state of environments."""
        self._warmstart[envs] = 0.0
        self._broken[envs] = False
        self._kinematics.state_written()

    def restart(self, broken: Tensor) -> None:
        """Put environments [N] that diverged into their start state."""
        rows = broken[:, None]
        self.qpos.copy_(torch.where(rows, self._start, self.qpos))
        self.qvel.masked_fill_(rows, 0.0)
        self._warmstart.masked_fill_(rows, 0.0)
        self._broken |= broken
        self._report.add(broken)

    @property
    def restarts(self) -> int:
        """How many times an environment diverged, and was put into its start state."""
        return self._report.count

    def show_broken(self, rows: Tensor) -> None:
        """With GYMAPI_MUJOCO_DIVERGED=nan, write NaN for diverged environments until the client sets their state."""
        if self._report_nan:
            rows.masked_fill_(self._broken[:, None, None], torch.nan)


class RootStates:
    """[N * A, 13]: position, quaternion x y z w, velocity of the centre of mass; in world axes."""

    def __init__(self, layout: Layout, coordinates: Coordinates, properties: ModelProperties):
        self._layout, self._coordinates, self._properties = layout, coordinates, properties
        self.buffer = layout.zeros(layout.num_envs * layout.num_actors, 13)
        self._rows = self.buffer.view(layout.num_envs, layout.num_actors, 13)

    def start(self, scene: Scene) -> None:
        """Put all actors where ``create_actor`` put them."""
        for own in self._layout.actors:
            actors, device = scene.twins(own.index), self._layout.device
            pos = torch.from_numpy(np.stack([actor.pos for actor in actors])).to(device)
            quat = torch.from_numpy(np.stack([actor.quat for actor in actors])).to(device)
            if own.floating:
                pose = torch.cat((pos, quat), dim=1)
                self._coordinates.qpos[:, own.free_pos] = pose.to(self._coordinates.dtype)
            else:
                self._properties.place_base(own.root, pos, quat, self._layout.every_env)
            self._show_base(own, pos, quat, self._layout.every_env)

    def _show_base(self, own: ActorSlices, pos: Tensor, quat: Tensor, envs: Tensor) -> None:
        """Set the state of a fixed base, which no refresh changes."""
        self._rows[envs, own.index, :7] = torch.cat((pos, quat.roll(-1, dims=1)), dim=1).float()

    def refresh(self) -> None:
        qpos, qvel = self._coordinates.qpos, self._coordinates.qvel
        for own in self._layout.actors:
            if not own.floating:
                continue
            out = self._rows[:, own.index]
            pose, vel = qpos[:, own.free_pos].float(), qvel[:, own.free_vel].float()
            quat = pose[:, 3:]
            out[:, :3], out[:, 3:6], out[:, 6] = pose[:, :3], quat[:, 1:], quat[:, 0]
            spin = rotate(quat, vel[:, 3:])
            out[:, 10:] = spin
            out[:, 7:10] = vel[:, :3] + torch.linalg.cross(spin, rotate(quat, self._properties.com(own.root)))
        self._coordinates.show_broken(self._rows)

    def write(self, state: Tensor, actors: Optional[Tensor]) -> None:
        """Write states of all actors, or of those with the given flat indices over all environments."""
        state, coordinates = state.view(self._rows.shape), self._coordinates
        for own in self._layout.actors:
            envs = self._layout.envs_of(own, actors)
            rows = state[envs, own.index]
            pos, quat, linear, spin = rows[:, :3], rows[:, 3:7].roll(1, dims=1), rows[:, 7:10], rows[:, 10:]
            if own.floating:
                com = self._properties.com(own.root)
                com = com[envs] if com.dim() == 2 else com
                coordinates.qpos[envs, own.free_pos] = torch.cat((pos, quat), dim=1).to(coordinates.dtype)
                linear = linear - torch.linalg.cross(spin, rotate(quat, com))
                velocity = torch.cat((linear, rotate_inverse(quat, spin)), dim=1)
                coordinates.qvel[envs, own.free_vel] = velocity.to(coordinates.dtype)
            else:
                self._properties.place_base(own.root, pos.double(), quat.double(), envs)
                self._show_base(own, pos, quat, envs)
            coordinates.written(envs)


class DofStates:
    """[N * D, 2]: position and velocity."""

    def __init__(self, layout: Layout, coordinates: Coordinates):
        self._layout, self._coordinates = layout, coordinates
        self.buffer = layout.zeros(layout.num_envs * layout.num_dofs, 2)
        self._rows = self.buffer.view(layout.num_envs, layout.num_dofs, 2)

    def start(self, scene: Scene) -> None:
        """Put all DoFs at zero or the nearest limit of the first environment's."""
        for own in self._layout.actors:
            props = scene.actors[0][own.index].dof_properties
            pos = torch.from_numpy(np.clip(0.0, props["lower"], props["upper"]).astype(float))
            self._coordinates.qpos[:, own.pos] = pos.to(self._layout.device, self._coordinates.dtype)
        self._coordinates.qvel.zero_()

    def of(self, env: int, actor: Actor) -> Tensor:
        """Return the rows of one actor [DoFs, 2], to read and to write."""
        return self._rows[env, actor.dof_start : actor.dof_start + len(actor.asset.joints)]

    def positions(self) -> Tensor:
        """Return the present positions [N, D]."""
        return torch.cat([self._coordinates.qpos[:, own.pos] for own in self._layout.actors], dim=1)

    def refresh(self) -> None:
        for own in self._layout.actors:
            self._rows[:, own.dofs, 0].copy_(self._coordinates.qpos[:, own.pos])
            self._rows[:, own.dofs, 1].copy_(self._coordinates.qvel[:, own.vel])
        self._coordinates.show_broken(self._rows)

    def write(self, state: Tensor, actors: Optional[Tensor]) -> None:
        """Write states of the DoFs of all actors, or of those with the given flat indices over all environments."""
        state, coordinates = state.view(self._rows.shape), self._coordinates
        for own in self._layout.actors:
            envs = self._layout.envs_of(own, actors)
            rows = state[envs, own.dofs].to(coordinates.dtype)
            coordinates.qpos[envs, own.pos], coordinates.qvel[envs, own.vel] = rows[..., 0], rows[..., 1]
            coordinates.written(envs)


class BodyStates:
    """[N * B, 13]: pose of the frame and velocity of the centre of mass; in world axes."""

    def __init__(self, layout: Layout, coordinates: Coordinates, kinematics: Kinematics):
        self._coordinates, self._kinematics = coordinates, kinematics
        self.buffer = layout.zeros(layout.num_envs * layout.num_bodies, 13)
        self._rows = self.buffer.view(layout.num_envs, layout.num_bodies, 13)
        trees = kinematics.worlds.model.body_rootid[1:].astype(np.int64)
        self._trees = torch.from_numpy(trees).to(layout.device)

    def refresh(self) -> None:
        pos, quat, vel, com, tree = self._kinematics.get("xpos", "xquat", "cvel", "xipos", "subtree_com")
        out = self._rows
        out[..., :3], out[..., 3:6], out[..., 6] = pos[:, 1:], quat[:, 1:, 1:], quat[:, 1:, 0]
        spin = vel[:, 1:, :3]
        arm = com[:, 1:] - tree[:, self._trees]
        out[..., 7:10] = vel[:, 1:, 3:] + torch.linalg.cross(spin, arm)
        out[..., 10:] = spin
        self._coordinates.show_broken(out)

    def of(self, env: int, actor: Actor) -> Tensor:
        """Return the rows of one actor [bodies, 13]."""
        return self._rows[env, actor.body_start : actor.body_start + len(actor.asset.bodies)]
