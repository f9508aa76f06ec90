"""Where actors are in a world."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import mujoco
import numpy as np

from gymapi_mujoco.scene import Actor


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
