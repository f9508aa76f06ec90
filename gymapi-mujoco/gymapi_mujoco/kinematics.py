"""What MuJoCo computes of the present state: poses and velocities of bodies, Jacobians, mass matrices."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

from typing import Callable, Dict, List, Tuple, Union

import numpy as np
import torch
from torch import Tensor

from gymapi_mujoco.model import Layout
from gymapi_mujoco.properties import ModelProperties
from gymapi_mujoco.rotations import rotate_inverse
from gymapi_mujoco.scene import Scene
from gymapi_mujoco.worlds import Worlds


class Kinematics:
    """Results of the present state, by MjData's names, computed when they are asked for.

    That overwrites the results of the last substep, so what is needed of them is copied before.
    """

    def __init__(self, worlds: Worlds, properties: ModelProperties):
        self.worlds, self._properties = worlds, properties
        self._results: Dict[str, Tensor] = {}
        self._current = False
        self._copies: List[Callable[[], None]] = []
        self._copied = False

    def get(self, *names: str) -> List[Tensor]:
        """Return results [N, ...] of the present state."""
        for name in names:
            if name not in self._results:
                self._results[name] = self.worlds.result(name)
                self._current = False
        if not self._current:
            self.copy_last_substep()
            self._properties.update()
            self.worlds.forward()
            self._current = True
        return [self._results[name] for name in names]

    def state_written(self) -> None:
        self._current = False

    def stepped(self) -> None:
        self._current = self._copied = False

    def keep(self, copy: Callable[[], None]) -> None:
        """Let a function copy results of the last substep, once after each step."""
        self._copies.append(copy)

    def copy_last_substep(self) -> None:
        """Call the functions that copy results, unless they were called since the last step."""
        if not self._copied:
            for copy in self._copies:
                copy()
            self._copied = True


class NamedActor:
    """One actor of each environment, by its name, with what its matrices are made of."""

    def __init__(self, scene: Scene, layout: Layout, kinematics: Kinematics, name: str):
        names = [actor.name for actor in scene.actors[0]]
        if name not in names:
            raise ValueError(f"there is no actor '{name}'; the actors are {', '.join(names)}")
        index = names.index(name)
        self.layout, self.kinematics, self.own = layout, kinematics, layout.actors[index]
        self.bodies = np.arange(self.own.root, self.own.root + len(scene.actors[0][index].asset.bodies))
        self.dof_columns = range(self.own.vel.start, self.own.vel.stop)
        columns = torch.tensor([*range(*self.own.free_vel.indices(kinematics.worlds.model.nv)), *self.dof_columns])
        self.columns = columns.to(layout.device)

    def root(self) -> Tuple[Tensor, Tensor]:
        """Return position of the root's centre of mass and its quaternion, [N, 3] and [N, 4]."""
        com, quat = self.kinematics.get("xipos", "xquat")
        return com[:, self.own.root], quat[:, self.own.root]


class Jacobian:
    """Of the centres of mass of the bodies, a fixed base left out, by the velocities of the root and the DoFs."""

    def __init__(self, actor: NamedActor):
        self._actor, layout, model = actor, actor.layout, actor.kinematics.worlds.model
        bodies = actor.bodies if actor.own.floating else actor.bodies[1:]
        self.buffer = layout.zeros(layout.num_envs, len(bodies), 6, len(actor.columns))
        moves = np.zeros((len(bodies), model.nv), dtype=bool)
        for row, body in enumerate(bodies):
            while body:
                start = model.body_dofadr[body]
                moves[row, start : start + model.body_dofnum[body]] = True
                body = model.body_parentid[body]
        self._moves = torch.from_numpy(moves[:, list(actor.dof_columns)]).to(layout.device)
        self._ids = torch.from_numpy(bodies).to(layout.device)
        self._roots = torch.from_numpy(model.body_rootid[bodies].astype(np.int64)).to(layout.device)
        self.refresh()

    def refresh(self) -> None:
        own, ids = self._actor.own, self._ids
        cdof, com, tree = self._actor.kinematics.get("cdof", "xipos", "subtree_com")
        axes = cdof[:, None, own.vel]  # [N, 1, D, 6] rotation, translation at the tree's centre
        arm = com[:, ids] - tree[:, self._roots]
        linear = axes[..., 3:] + torch.linalg.cross(axes[..., :3], arm[:, :, None])
        moves = self._moves[None, :, :, None]
        first = 6 if own.floating else 0
        self.buffer[..., :3, first:] = (linear * moves).transpose(2, 3).float()
        self.buffer[..., 3:, first:] = (axes[..., :3] * moves).expand(linear.shape).transpose(2, 3).float()
        if own.floating:
            root, _ = self._actor.root()
            offset = com[:, ids] - root[:, None]
            eye = torch.eye(3, dtype=com.dtype, device=com.device)
            turned = torch.linalg.cross(eye.expand(*offset.shape[:2], 3, 3), offset[:, :, None])  # row i: e_i x offset
            self.buffer[..., :3, :3], self.buffer[..., 3:, 3:6] = eye.float(), eye.float()
            self.buffer[..., :3, 3:6] = turned.transpose(2, 3).float()
            self.buffer[..., 3:, :3] = 0.0


class MassMatrix:
    """The joint-space inertia; of a floating base it belongs to the root's velocity as the root state has it."""

    def __init__(self, actor: NamedActor):
        self._actor = actor
        self.buffer = actor.layout.zeros(actor.layout.num_envs, len(actor.columns), len(actor.columns))
        self.refresh()

    def refresh(self) -> None:
        actor = self._actor
        full = actor.kinematics.worlds.mass_matrix(actor.kinematics.get("M")[0])
        matrix = full[:, actor.columns][:, :, actor.columns]
        if actor.own.floating:
            root, quat = actor.root()
            origin = actor.kinematics.get("xpos")[0][:, actor.own.root]
            eye = torch.eye(3, dtype=matrix.dtype, device=matrix.device).expand(len(quat), 3, 3)
            change = torch.eye(len(actor.columns), dtype=matrix.dtype, device=matrix.device).repeat(len(quat), 1, 1)
            # MuJoCo's velocities of the free joint by ours: v_origin = v_com - w x (com - origin), w_body = R^T w.
            change[:, :3, 3:6] = torch.linalg.cross((root - origin)[:, None].expand(eye.shape), eye).transpose(1, 2)
            inverse = quat[:, None].expand(len(quat), 3, 4)
            change[:, 3:6, 3:6] = rotate_inverse(inverse, eye).transpose(1, 2)
            matrix = change.transpose(1, 2) @ matrix @ change
        self.buffer.copy_(matrix)


class ActorMatrices:
    """The matrices of one kind, Jacobians or mass matrices, that a client has asked for, by the actor's name."""

    def __init__(
        self,
        kind: Callable[[NamedActor], Union[Jacobian, MassMatrix]],
        scene: Scene,
        layout: Layout,
        kinematics: Kinematics,
    ):
        self._kind, self._of_actor = kind, lambda name: NamedActor(scene, layout, kinematics, name)
        self._made: Dict[str, Union[Jacobian, MassMatrix]] = {}

    def acquire(self, name: str) -> Tensor:
        if name not in self._made:
            self._made[name] = self._kind(self._of_actor(name))
        return self._made[name].buffer

    def refresh(self) -> None:
        for matrix in self._made.values():
            matrix.refresh()
