"""Friction, restitution, masses and armature of the robots in Isaac Gym."""

# pyright: reportMissingModuleSource=false
from __future__ import annotations

from typing import List

import torch
from isaacgym import gymapi
from torch import Tensor

from rsl_rl.sim.isaacgym.ground import FRICTION as GROUND_FRICTION

FRICTION_STEPS = 512
"""Number of frictions per unit. PhysX allows 65536 materials, so frictions are rounded."""


class ActorParameters:
    """Friction, restitution, masses and centre of mass of N actors of one asset."""

    def __init__(self, gym: gymapi.Gym, envs: List[gymapi.Env], actors: List[int], trunk: int):
        self._gym, self._actors, self._trunk = gym, list(zip(envs, actors)), trunk
        bodies = gym.get_actor_rigid_body_properties(*self._actors[0])
        self.masses = torch.tensor([body.mass for body in bodies])  # [bodies] [kg]
        com = bodies[trunk].com
        self.trunk_com = torch.tensor([com.x, com.y, com.z])  # in the trunk's frame

    def set_friction(self, friction: Tensor) -> None:
        """Set the friction [N] between each robot and the ground, rounded to 1/FRICTION_STEPS."""
        self._set_shapes("friction", [shape_friction(value) for value in friction.tolist()])

    def set_restitution(self, restitution: Tensor) -> None:
        """Set the restitution [N] between each robot and the ground, which has none: PhysX uses the mean."""
        if not bool(((restitution >= 0) & (restitution <= 0.5)).all()):
            low, high = float(restitution.min()), float(restitution.max())
            raise ValueError(f"restitutions from {low:g} to {high:g}; 'isaacgym' takes 0 to 0.5")
        self._set_shapes("restitution", [2 * value for value in restitution.tolist()])

    def _set_shapes(self, name: str, values: List[float]) -> None:
        for actor, value in zip(self._actors, values):
            shapes = self._gym.get_actor_rigid_shape_properties(*actor)
            for shape in shapes:
                setattr(shape, name, value)
            self._gym.set_actor_rigid_shape_properties(*actor, shapes)

    def set_masses(self, masses: Tensor, trunk_com: Tensor) -> None:
        """Set the masses [N, bodies] in kg, with which inertias are scaled, and the trunk's centre of mass [N, 3]."""
        if float(masses.min()) <= 0:
            raise ValueError(f"a link's mass would be {float(masses.min()):g} kg; give positive factors")
        for actor, own, com in zip(self._actors, masses.tolist(), trunk_com.tolist()):
            bodies = self._gym.get_actor_rigid_body_properties(*actor)
            for body, mass in zip(bodies, own):
                growth = mass / body.mass if body.mass else 1.0
                body.mass *= growth
                body.invMass /= growth
                _scale(body.inertia, growth)
                _scale(body.invInertia, 1 / growth)
            bodies[self._trunk].com = gymapi.Vec3(*com)
            # False: otherwise the engine computes the inertia from the shapes.
            self._gym.set_actor_rigid_body_properties(*actor, bodies, False)

    def set_armature(self, armature: Tensor) -> None:
        """Set the inertia of the rotors [N, DoFs], in the engine's order [kg m^2]."""
        for actor, own in zip(self._actors, armature.cpu().numpy()):
            properties = self._gym.get_actor_dof_properties(*actor)
            properties["armature"] = own
            self._gym.set_actor_dof_properties(*actor, properties)


def shape_friction(friction: float) -> float:
    """Return the friction of a robot's shape whose mean with that of the ground is ``friction``, rounded."""
    return 2 * round(friction * FRICTION_STEPS) / FRICTION_STEPS - GROUND_FRICTION


def _scale(matrix: gymapi.Mat33, factor: float) -> None:
    for row in (matrix.x, matrix.y, matrix.z):
        row.x, row.y, row.z = row.x * factor, row.y * factor, row.z * factor
