"""Parameters of each robot in Isaac Gym."""

# pyright: reportMissingModuleSource=false
from __future__ import annotations

from typing import Any, Callable, Dict

import isaacgym.gymtorch as gymtorch
import torch
from isaacgym import gymapi
from torch import Tensor

from rsl_rl.sim.base import Sim
from rsl_rl.sim.isaac_gym_actors import ActorParameters
from rsl_rl.sim.isaac_gym_model import RobotFacts
from rsl_rl.sim.isaac_gym_scene import Scene


class IsaacGymParameters(Sim):
    """The part of the Isaac Gym engine that sets parameters.

    PD loop, joint friction and torque limits are computed in torch before each physics step, and gravity of a robot's
    own is a force on each of its links.
    """

    _scene: Scene
    _gym: gymapi.Gym
    _sim: gymapi.Sim
    _facts: RobotFacts
    _dofs: Tensor  # [J] index of joints in the engine
    _prepared: bool  # whether the first step was made

    def _start_parameters(self) -> None:
        """Set the parameters of the model."""
        self.body_names = tuple(self._scene.body_names)
        self._actors: ActorParameters = self._scene.parameters
        self._masses = self._actors.masses.expand(self.num_envs, -1)  # [N, bodies] on the CPU
        self.total_mass = self._masses.sum(dim=1).to(self.device)
        self._com = self._actors.trunk_com.to(self.device).expand(self.num_envs, 3)  # of the trunk, in its frame
        self._stiffness, self._damping = (self.nominal_parameter(name) for name in ("stiffness", "damping"))

    def _setters(self) -> Dict[str, Callable[[Tensor], None]]:
        return {
            "friction": self.set_friction,
            "restitution": self._set_restitution,
            "payload": self.set_root_payload,
            "link_mass": lambda value: self._set_inertia(link_mass=value),
            "trunk_com": lambda value: self._set_inertia(trunk_com=value),
            "motor_strength": lambda value: self._store(motor_strength=value),
            "torque_limit": lambda value: self._store(torque_limit=value),
            "armature": self._set_armature,
            "joint_friction": lambda value: self._store(joint_friction=value),
            "gravity": lambda value: self._store(gravity=value),
            "trunk_force": lambda value: self._store(trunk_force=value),
        }

    def _model_value(self, name: str) -> Any:
        own: Dict[str, Any] = {
            "friction": self._facts.friction,
            "stiffness": self._facts.stiffness,
            "damping": self._facts.damping,
        }
        own.update(armature=self._facts.armature, torque_limit=self.torque_limits, gravity=[0.0, 0.0, -9.81])
        return {**own, "link_mass": 1.0, "motor_strength": 1.0}.get(name, 0.0)

    def set_friction(self, friction: Tensor) -> None:
        self._store(friction=friction)
        self._actors.set_friction(friction)

    def _set_restitution(self, restitution: Tensor) -> None:
        self._store(restitution=restitution)
        self._actors.set_restitution(restitution)

    def set_root_payload(self, mass: Tensor) -> None:
        """Add mass [N] to the trunk; on a GPU only before the first step, because PhysX ignores later changes."""
        trunk = float(self._actors.masses[self._scene.trunk])
        if float(mass.min()) <= -trunk:
            raise ValueError(
                f"a payload of {float(mass.min()):g} kg takes off all of the trunk's {trunk:g} kg, or more; take off "
                "less"
            )
        self._set_inertia(payload=mass)

    def _set_inertia(self, **values: Tensor) -> None:
        """Set masses or the trunk's centre of mass."""
        if self._prepared and self._scene.on_gpu:
            if all(
                torch.equal(value, self._parameters.get(name, self.nominal_parameter(name).expand_as(value)))
                for name, value in values.items()
            ):
                return  # a resumed run sets the same values
            raise ValueError(
                f"the values of {' and '.join(values)} differ from those of the first step, and Isaac Gym cannot "
                "change masses on a GPU after it; use the mode startup, or --sim_device cpu"
            )
        own = {**self._parameters, **values}
        trunk = self._scene.trunk
        masses = self._actors.masses * own.get("link_mass", torch.ones(())).cpu()
        masses = masses.expand(self.num_envs, -1).clone()
        masses[:, trunk] += own.get("payload", torch.zeros(())).cpu()
        com = self._actors.trunk_com + own.get("trunk_com", torch.zeros(3)).cpu()
        com = com.expand(self.num_envs, 3)
        self._actors.set_masses(masses, com)
        self._store(**values)
        self._masses, self._com = masses, com.to(self.device)
        self.total_mass.copy_(masses.sum(dim=1))

    def _set_armature(self, armature: Tensor) -> None:
        self._store(armature=armature)
        ordered = torch.zeros_like(armature)
        ordered[:, self._dofs] = armature
        self._actors.set_armature(ordered)

    def set_gains(self, stiffness: Tensor, damping: Tensor) -> None:
        self._store(stiffness=stiffness, damping=damping)
        self._stiffness, self._damping = self._parameters["stiffness"], self._parameters["damping"]

    def use_torques(self) -> None:
        self._takes_torques = True

    def _torque(self, targets: Tensor) -> Tensor:
        """Return the torques [N, J] of joint targets, or of the torques that were asked for."""
        wanted = targets
        if not self._takes_torques:
            wanted = self._stiffness * (targets - self.joint_pos) - self._damping * self.joint_vel
        limit = self._parameters.get("torque_limit", self.torque_limits)
        torque = torch.maximum(torch.minimum(wanted, limit), -limit)
        return torque * self._parameters["motor_strength"] if "motor_strength" in self._parameters else torque

    def _friction_torque(self) -> Any:
        """Return the torque of dry friction [N, J]: at most what stops a joint's rotor in a physics step."""
        if "joint_friction" not in self._parameters:
            return 0.0
        friction = self._parameters["joint_friction"]
        stopping = self._parameters.get("armature", self.nominal_parameter("armature")) * self.joint_vel / self.dt
        return torch.maximum(torch.minimum(stopping, friction), -friction)

    def _apply_forces(self) -> None:
        """Apply the force on the trunk and the difference of gravity from the scene's, for one physics step."""
        own = self._parameters
        if "gravity" not in own and "trunk_force" not in own:
            return
        forces = torch.zeros(self.num_envs, len(self.body_names), 3, device=self.device)
        if "gravity" in own:
            change = own["gravity"] - self.nominal_parameter("gravity")
            forces += self._masses.to(self.device).unsqueeze(-1) * change.unsqueeze(1)
        if "trunk_force" in own:
            forces[:, self._scene.trunk] += own["trunk_force"]
        self._wrench = (
            forces.view(-1, 3),
            torch.zeros_like(forces).view(-1, 3),
        )  # stored because the engine reads it later
        force, torque = (gymtorch.unwrap_tensor(part) for part in self._wrench)
        self._gym.apply_rigid_body_force_tensors(self._sim, force, torque, gymapi.ENV_SPACE)
