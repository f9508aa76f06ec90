"""Friction of DoFs."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

from typing import Dict

import numpy as np
import torch
from torch import Tensor

from gymapi_mujoco.model import LEAST_FRICTION, Layout
from gymapi_mujoco.worlds import Worlds

_RESULTS = ("cinert", "cvel", "cdof", "cdof_dot", "qacc_smooth", "xipos", "subtree_com")


class JointFriction:
    """Dry friction of DoFs: at most ``friction`` times the force that the joint transmits.

    As in PhysX, that is the length of force and torque together, sqrt(|f|^2 + |t|^2) in N and N m, which the parent
    exerts on the child at the child's centre of mass, in the motion that there would be without contacts and limits.
    Here it is that of the last substep.
    """

    def __init__(self, worlds: Worlds, layout: Layout):
        self._worlds, model = worlds, worlds.model
        self._any = False
        columns = [column for own in layout.actors for column in range(own.vel.start, own.vel.stop)]
        above = _bodies_above(model)  # [B, B] a body is above another one, or the same
        moves = above[:, model.dof_bodyid]  # [B, nv] a DoF moves a body
        self._columns = torch.tensor(columns, dtype=torch.int64).to(worlds.device)
        self._bodies = torch.from_numpy(model.dof_bodyid[columns].astype(np.int64)).to(worlds.device)
        self._trees = torch.from_numpy(model.body_rootid.astype(np.int64)).to(worlds.device)
        self._moves, self._below = (
            torch.from_numpy(x.copy()).to(worlds.device, worlds.dtype) for x in (moves, above.T)
        )
        self._coefficients = torch.zeros(layout.num_envs, layout.num_dofs, dtype=worlds.dtype, device=worlds.device)
        self._results: Dict[str, Tensor] = {}

    def set(self, envs: Tensor, dofs: slice, coefficients: np.ndarray) -> None:
        """Set the coefficients of DoFs [W, dofs]."""
        if coefficients.any() and not self._any:
            self._any = True
            self._loss = self._worlds.field("dof_frictionloss")
            self._results = {name: self._worlds.result(name) for name in _RESULTS}
            self._qvel, self._gravity = self._worlds.state("qvel"), self._worlds.field("opt.gravity")
        self._coefficients[envs, dofs] = torch.from_numpy(coefficients).to(self._coefficients)

    def begin_step(self) -> None:
        """Set the limits of the friction from the forces of the last substep."""
        if self._any:
            limits = self._coefficients * self._transmitted()
            self._loss[:, self._columns] = limits.clamp(min=LEAST_FRICTION)

    def _transmitted(self) -> Tensor:
        """Return the transmitted forces of DoFs [N, D], by Newton's and Euler's equations of the bodies below."""
        inertia, vel, axes, turning, acc, com, trees = self._results.values()  # about the tree's centre of mass
        motion = axes * acc[..., None] + turning * self._qvel[..., None]
        acceleration = self._moves @ motion  # [N, B, 6] rotation, translation
        acceleration[..., 3:] -= self._gravity[:, None]
        torque, force = _momentum(inertia, acceleration)
        spin, impulse = _momentum(inertia, vel)
        torque = torque + torch.linalg.cross(vel[..., :3], spin) + torch.linalg.cross(vel[..., 3:], impulse)
        force = force + torch.linalg.cross(vel[..., :3], impulse)
        torque, force = (self._below @ torque)[:, self._bodies], (self._below @ force)[:, self._bodies]
        arm = (com - trees[:, self._trees])[:, self._bodies]
        torque = torque - torch.linalg.cross(arm, force)
        return (torque.square().sum(-1) + force.square().sum(-1)).sqrt()


def _momentum(inertia: Tensor, motion: Tensor) -> tuple:
    """Return inertias [N, B, 10] of MuJoCo times motions [N, B, 6]: torque and force, or their likes, [N, B, 3]."""
    xx, yy, zz, xy, xz, yz = inertia[..., :6].unbind(-1)
    rows = torch.stack([xx, xy, xz, xy, yy, yz, xz, yz, zz], -1).view(*xx.shape, 3, 3)
    moment, mass, turn, along = inertia[..., 6:9], inertia[..., 9:], motion[..., :3], motion[..., 3:]
    torque = (rows @ turn[..., None])[..., 0] + torch.linalg.cross(moment, along)
    return torque, mass * along - torch.linalg.cross(moment, turn)


def _bodies_above(model) -> np.ndarray:
    """Return for each body [B, B] the bodies above it and itself, without the world."""
    above = np.zeros((model.nbody, model.nbody))
    for body in range(1, model.nbody):
        at = body
        while at:
            above[body, at] = 1
            at = model.body_parentid[at]
    return above
