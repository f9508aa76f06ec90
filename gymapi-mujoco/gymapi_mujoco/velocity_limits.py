"""The limits of the velocities of DoFs.

PhysX's solver applies an impulse to a joint that is faster than ``velocity`` of its DoF. Here it is applied after the
time step: equal and opposite on both links of the joint, so that it leaves the robot's momentum as it is. Contacts and
the limits of joints do not take part.
"""

from __future__ import annotations

from typing import List, Union

import torch
from torch import Tensor

from gymapi_mujoco.parts import Part
from gymapi_mujoco.worlds import MassMatrixLayout, Worlds


class VelocityLimits:
    """Limit the velocities of DoFs by joint impulses."""

    def __init__(self, worlds: Worlds, parts: List[Part]):
        columns = [column for part in parts for column in range(part.vel.start, part.vel.stop)]
        self._columns: Union[slice, Tensor]  # of qvel, by DoF
        # Views are faster than copies.
        self._columns = parts[0].vel if len(parts) == 1 else torch.tensor(columns, dtype=torch.int64).to(worlds.device)
        self._qvel, self._mass = worlds.state("qvel"), worlds.result("M")
        self._layout = MassMatrixLayout(worlds)
        one_hot = torch.eye(worlds.model.nv, dtype=worlds.dtype)[:, columns]
        self._one_hot = one_hot.to(worlds.device)  # [nv, D]
        self._skip_others = worlds.device.type == "cpu"  # a GPU would have to be waited for

    def apply(self, limits: Tensor) -> None:
        """Change the velocities where |velocity| is above the limits [N, D], at the inertia of the last step.

        A DoF that only these impulses bring above its limit is slowed down after the next step.
        """
        velocity, rows = self._qvel[:, self._columns], slice(None)
        if self._skip_others:
            rows = (velocity.abs() > limits).any(dim=1).nonzero()[:, 0]
            if not len(rows):
                return
        velocity, limits = velocity[rows], limits[rows]
        excess = velocity - torch.clamp(velocity, -limits, limits)  # [W, D]
        mass = self._layout.full(self._mass[rows])
        one_hot = self._one_hot.expand(len(mass), -1, -1)
        response = torch.linalg.solve_ex(mass, one_hot)[0]  # [W, nv, D]: of velocities to impulses on DoFs
        active = excess != 0
        both_active = active[:, :, None] & active[:, None]
        identity = torch.diag_embed((~active).to(excess.dtype))
        system = torch.where(both_active, response[:, self._columns], identity)  # [W, D, D]
        impulse = torch.linalg.solve_ex(system, excess)[0]
        self._qvel[rows] -= (response @ impulse[:, :, None])[:, :, 0]
