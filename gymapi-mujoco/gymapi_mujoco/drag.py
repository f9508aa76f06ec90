"""Damping of bodies, and the limits of their speed."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

from typing import Any, List, Optional

import numpy as np
import torch
from torch import Tensor

from gymapi_mujoco.forces import AppliedForces
from gymapi_mujoco.kinematics import Kinematics
from gymapi_mujoco.model import Layout
from gymapi_mujoco.rotations import rotate, rotate_inverse
from gymapi_mujoco.scene import Scene
from gymapi_mujoco.structs import AssetOptions

_NO_LIMIT = AssetOptions().max_linear_velocity
"""Limits of this size or above are not checked [m/s, rad/s]."""


_DIVERGED = 1e10
"""Speed from which MuJoCo puts a world into its start state."""


class Drag:
    """Forces on bodies by ``linear_damping`` and ``angular_damping``, and on those that are faster than
    ``max_linear_velocity`` and ``max_angular_velocity``.

    As in PhysX each body has a force of its own: mass times velocity times damping, and against a speed above its limit
    the impulse that takes the excess in one time step. Joints pass a part of it on to the other bodies.
    """

    def __init__(self, scene: Scene, layout: Layout, kinematics: Kinematics, applied: AppliedForces):
        self._kinematics, self._applied, self._dt = kinematics, applied, scene.params.dt
        worlds, model = kinematics.worlds, kinematics.worlds.model
        options = [actor.asset.options for actor in scene.actors[0] for _ in actor.asset.bodies]
        per_body = [
            [o.linear_damping, o.angular_damping, o.max_linear_velocity, o.max_angular_velocity] for o in options
        ]
        values = np.array(per_body, dtype=float).reshape(-1, 4)
        damping = np.minimum(values[:, :2], 1 / self._dt)
        limits = np.where(values[:, 2:] < _NO_LIMIT, values[:, 2:], np.inf)
        self._damped, self._limited = bool((damping > 0).any()), bool(np.isfinite(limits).any())
        self._on_cpu = worlds.device.type == "cpu"  # a GPU would have to be waited for
        self._only_spin = self._on_cpu and not self._damped and bool(np.isinf(limits[:, 0]).all())
        self._damping, self._limits = (torch.from_numpy(x).to(worlds.device, worlds.dtype) for x in (damping, limits))
        self._roots = torch.from_numpy(model.body_rootid[1:].astype(np.int64)).to(worlds.device)
        self._lowest = float(limits[:, 1].min()) if len(limits) else np.inf
        if self._on_cpu:  # NumPy has a third of torch's time per call
            self._speeds, self._turns = worlds.state("qvel").numpy(), _reach(model)
            self._most_turns = self._turns.sum(axis=1).max(initial=0.0)
        self._spin: Optional[Tensor] = None

    def begin_step(self) -> None:
        """Apply the forces for the next ``simulate``."""
        if not (self._damped or self._limited) or (self._on_cpu and not self._acts()):
            return
        worlds = self._kinematics.worlds
        vel, com, trees, frame = self._kinematics.get("cvel", "xipos", "subtree_com", "xquat")
        spin, arm = vel[:, 1:, :3], com[:, 1:] - trees[:, self._roots]
        linear = vel[:, 1:, 3:] + torch.linalg.cross(spin, arm)
        mass, inertia = worlds.values("body_mass")[:, 1:, None], worlds.values("body_inertia")[:, 1:]
        turn = worlds.values("body_iquat")[:, 1:].expand(frame[:, 1:].shape)
        principal = rotate_inverse(turn, rotate_inverse(frame[:, 1:], spin))
        momentum = rotate(frame[:, 1:], rotate(turn, inertia * principal))
        self._applied.add(-self._rate(linear, 0) * mass * linear, -self._rate(spin, 1) * momentum)

    def _rate(self, velocity: Tensor, kind: int) -> Tensor:
        """Return by which part velocities [N, B, 3], linear (0) or angular (1), decrease in a second [N, B, 1]."""
        excess = 1 - self._limits[:, kind] / velocity.norm(dim=-1).clamp(min=1e-9)
        return (self._damping[:, kind] + excess.clamp(min=0) / self._dt)[..., None]

    def _acts(self) -> bool:
        """Return whether there is a force: not in a state that diverged, which the time step reports; and if only
        turning is limited, where the fastest speed times the most joints above a body, then the sum of the speeds above
        a body, allow it, and the last substep shows it."""
        fastest = max(self._speeds.max(initial=0.0), -self._speeds.min(initial=0.0))
        if not self._only_spin:
            return bool(fastest < _DIVERGED)
        if fastest * self._most_turns <= self._lowest:
            return False
        largest = (self._turns @ np.abs(self._speeds).T).max(axis=0, initial=0.0)  # [N]
        rows = torch.from_numpy(((largest > self._lowest) & (largest < _DIVERGED)).nonzero()[0])
        if not len(rows):
            return False
        if self._spin is None:  # a result that is requested is copied in each substep from then on
            self._spin = self._kinematics.get("cvel")[0]
        return bool((self._spin[rows, 1:, :3].norm(dim=-1) > self._limits[:, 1]).any())


def _reach(model: Any) -> np.ndarray:
    """Return which rotations turn a body [L, nv], as 0 or 1, for the bodies that others do not follow."""
    rows: List[np.ndarray] = []
    for body in set(range(1, model.nbody)) - {int(parent) for parent in model.body_parentid[1:]}:
        row, at = np.zeros(model.nv), body
        while at:
            start, count = model.body_dofadr[at], model.body_dofnum[at]
            row[start + (3 if count == 6 else 0) : start + count] = 1
            at = model.body_parentid[at]
        rows.append(row)
    return np.stack(rows) if rows else np.zeros((0, model.nv))
