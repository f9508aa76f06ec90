"""The limits of the velocities of DoFs.

PhysX's solver applies an impulse to a joint that is faster than ``velocity`` of its DoF. Here it is applied after the
time step: equal and opposite on both links of the joint, so that it leaves the robot's momentum as it is.
"""

from __future__ import annotations

from typing import List, Union

import torch
from torch import Tensor

from gymapi_mujoco.mass_matrix import MassMatrixEntries
from gymapi_mujoco.parts import Part
from gymapi_mujoco.worlds import Worlds


class VelocityLimits:
    """Impulses that slow down the DoFs above their limits to them."""

    def __init__(self, worlds: Worlds, parts: List[Part]):
        self._columns: Union[slice, Tensor]  # of qvel, by DoF
        if len(parts) == 1:
            self._columns = parts[0].vel  # views are faster than copies
        else:
            columns = [column for part in parts for column in range(part.vel.start, part.vel.stop)]
            self._columns = torch.tensor(columns, dtype=torch.int64).to(worlds.device)
        self._qvel, self._mass = worlds.state("qvel"), worlds.result("M")
        self._entries = MassMatrixEntries(worlds)
        self._select = worlds.device.type == "cpu"  # a GPU would have to be waited for

    def apply(self, limits: Tensor) -> None:
        """Change the velocities where |velocity| is above the limits [N, D], at the inertia of the last step.

        A DoF that only these impulses bring above its limit is slowed down after the next step.
        """
        velocity, worlds = self._qvel[:, self._columns], slice(None)
        if self._select:
            worlds = (velocity.abs() > limits).any(dim=1).nonzero()[:, 0]
            if not len(worlds):
                return
        velocity, limits = velocity[worlds], limits[worlds]
        excess = velocity - torch.clamp(velocity, -limits, limits)
        factor, _ = torch.linalg.cholesky_ex(self._entries.full(self._mass[worlds]))
        response = torch.cholesky_inverse(factor)[:, :, self._columns]  # of all velocities to impulses on the DoFs
        active = excess != 0
        both = active[:, :, None] & active[:, None]
        system = torch.where(both, response[:, self._columns], torch.diag_embed((~active).to(excess.dtype)))
        impulse = torch.linalg.solve_ex(system, excess)[0]
        self._qvel[worlds] -= (response @ impulse[:, :, None])[:, :, 0]
