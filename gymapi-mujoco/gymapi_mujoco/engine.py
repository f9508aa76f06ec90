"""The running simulation: MuJoCo's worlds, what acts on them in a step, and the tensors that clients exchange."""

from __future__ import annotations

from functools import cached_property

import torch

from gymapi_mujoco.actuation import DofForces, Drives, Efforts, VelocityLimits
from gymapi_mujoco.attractors import Attractors
from gymapi_mujoco.backends import Backend
from gymapi_mujoco.drag import Drag
from gymapi_mujoco.explicit_damping import ExplicitDamping
from gymapi_mujoco.forces import AppliedForces, ContactForces, ForceSensors
from gymapi_mujoco.friction import JointFriction
from gymapi_mujoco.kinematics import ActorMatrices, Jacobian, Kinematics, MassMatrix
from gymapi_mujoco.model import Layout, build_model
from gymapi_mujoco.properties import ModelProperties
from gymapi_mujoco.scene import Actor, Scene
from gymapi_mujoco.states import BodyStates, Coordinates, DofStates, RootStates
from gymapi_mujoco.tendons import Tendons


class Engine:
    """What ``prepare_sim`` makes of a scene."""

    def __init__(self, scene: Scene, backend: Backend):
        scene.check_layout()
        self.scene, self.model = scene, build_model(scene)
        self.worlds = worlds = backend.make(self.model, len(scene.actors))
        self.layout = layout = Layout(scene, self.model, worlds.device)
        # What acts on DoFs, and the properties of the actors in the model.
        limits = torch.cat([torch.from_numpy(actor.dof_properties["effort"].copy()) for actor in scene.actors[0]])
        self.efforts = Efforts(worlds, layout, limits.to(layout.device))
        self.drives = Drives(worlds, layout)
        self.velocity_limits = VelocityLimits(worlds, layout)
        self.friction = JointFriction(worlds, layout)
        self.properties = ModelProperties(scene, worlds, self.drives, self.velocity_limits, self.friction)
        names = [name for actor in scene.actors[0] for name in actor.asset.dof_names]
        self.explicit_damping = ExplicitDamping(worlds, layout, names, scene.params.dt)
        self.attractors = Attractors(scene, worlds)
        self._tendons = Tendons(worlds)
        for env, actors in enumerate(scene.actors if self.model.ntendon else ()):
            for actor in actors:
                self.write_tendons(env, actor)
        # States, and what follows from them.
        self.kinematics = Kinematics(worlds, self.properties)
        self.jacobians = ActorMatrices(Jacobian, scene, layout, self.kinematics)
        self.mass_matrices = ActorMatrices(MassMatrix, scene, layout, self.kinematics)
        self.coordinates = Coordinates(layout, self.kinematics)
        self.roots = RootStates(layout, self.coordinates, self.properties)
        self.dofs = DofStates(layout, self.coordinates)
        self.bodies = BodyStates(layout, self.coordinates, self.kinematics)
        # Forces on bodies.
        self.applied_forces = AppliedForces(scene, layout, self.kinematics)
        self.contact_forces = ContactForces(layout, self.coordinates, self.applied_forces, self.kinematics)
        self.drag = Drag(scene, layout, self.kinematics, self.applied_forces)
        self._start()

    def _start(self) -> None:
        self.roots.start(self.scene)
        self.dofs.start(self.scene)
        self.coordinates.keep_start()
        self.drives.position_target.copy_(self.dofs.positions())
        self.roots.refresh()
        self.dofs.refresh()

    def simulate(self) -> None:
        """Advance all environments by one time step."""
        self.efforts.begin_step()
        self.explicit_damping.begin_step()
        self.friction.begin_step()
        self.drag.begin_step()
        self.applied_forces.begin_step()
        self.drives.begin_step()
        self.properties.update()
        broken = self.worlds.step(self.scene.params.substeps)
        self.velocity_limits.apply()
        self.drives.end_step()
        self.kinematics.stepped()
        if broken is not None:
            self.coordinates.restart(broken)

    def write_tendons(self, env: int, actor: Actor) -> None:
        """Take over the properties of an actor's tendons."""
        first = sum(len(other.asset.tendons) for other in self.scene.actors[env][: actor.index])
        for i, (tendon, props) in enumerate(zip(actor.asset.tendons, actor.tendon_properties)):
            self._tendons.write(env, first + i, tendon, props)

    # Tensors that cost time in each step are made at their first use.

    @cached_property
    def dof_forces(self) -> DofForces:
        return DofForces(self.worlds, self.layout, self.efforts, self.drives)

    @cached_property
    def force_sensors(self) -> ForceSensors:
        return ForceSensors(self.scene, self.properties, self.applied_forces, self.kinematics)
