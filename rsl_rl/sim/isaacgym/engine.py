"""Physics of NVIDIA's Isaac Gym, Preview 4: PhysX through its tensor interface, on a GPU or on the CPU.

**This backend has never run on the real engine**, which is no longer maintained and not available. Pyright checks every
call against isaacgym-stubs. It runs on the package gymapi-mujoco of this repository, which has the same interface and
simulates with MuJoCo; so do its tests. Not verified on the engine: that the damping of a joint acts in effort mode,
that PhysX uses the mean of two frictions, that the velocity of the trunk is that of its centre of mass, the order of
height samples, and contact forces.

Conventions of Isaac Gym that differ from :class:`Sim` are converted here: quaternions x y z w; angular velocity in
world axes; linear velocity of the trunk's centre of mass, not of its origin; another order of DoFs and bodies; robots
at different positions on the plane.

The robot is the URDF next to the task's MJCF; joints, links and feet have the names and the order of the MJCF. The
internal state of PhysX cannot be read, so a resumed run is not bit-equal to an uninterrupted one.
"""

# pyright: reportMissingModuleSource=false
from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Callable, Dict, Optional, Sequence, Union

try:  # before torch: Isaac Gym cannot be imported after it
    import isaacgym.gymtorch as gymtorch
    from isaacgym import gymapi
except ModuleNotFoundError as error:
    if error.name != "isaacgym":
        raise
    raise ModuleNotFoundError(
        "No module named 'isaacgym': the backend 'isaacgym' is NVIDIA's Isaac Gym Preview 4 for Python 3.6 to 3.8; "
        "download it from developer.nvidia.com/isaac-gym and run 'pip install -e isaacgym/python', or run the same "
        "interface on MuJoCo: 'pip install ./gymapi-mujoco' and 'python -m gymapi_mujoco --install'",
        name="isaacgym",
    ) from error
except ImportError as error:
    raise ValueError(f"Isaac Gym cannot be imported ({error}); import isaacgym before torch") from error

import torch
from torch import Tensor

from rsl_rl.config.sim import SimConfig
from rsl_rl.sim.base import Drive, RobotPoseVel, Sim
from rsl_rl.sim.isaacgym.model import RobotFacts, chain_of, read_facts
from rsl_rl.sim.isaacgym.scene import Scene, usable_device
from rsl_rl.sim.kinematics import LinkKinematics, rotation_matrix
from rsl_rl.utils.height_field import HeightField
from rsl_rl.utils.tensors import rotate_inverse


class IsaacGymSim(Sim):
    """N robots in one PhysX scene.

    The state tensors are copies. Changes of a task are written to the engine at the next ``step``, for all changed
    robots at once: the engine allows one write of states per step, after the setup.

    PD loop, joint friction and torque limits are computed in torch before each physics step, and gravity of a robot's
    own is a force on each of its links.

    Each ``step`` after a change synchronises once with the GPU, because the engine needs the number of changed robots.
    """

    engine = "isaacgym"

    def __init__(
        self,
        model_path: Union[str, os.PathLike],
        num_envs: int,
        cfg: SimConfig,
        device: str = "cpu",
        ground: Optional[HeightField] = None,
    ):
        mjcf = Path(model_path).resolve()
        self.ground = ground
        self.num_envs, self.device, self.dt = num_envs, usable_device(device), cfg.dt
        facts, urdf = read_facts(mjcf), mjcf.with_suffix(".urdf")
        self.joint_names, self.link_names, self.foot_names = facts.joint_names, facts.link_names, facts.foot_names
        self._scene = Scene(urdf, facts, num_envs, cfg, self.device, ground)
        self._gym, self._sim = self._scene.gym, self._scene.sim
        self._prepared = False  # whether the first step was made
        try:
            self._connect(urdf, facts)
        except BaseException:
            self.close()
            raise

    def _connect(self, urdf: Path, facts: RobotFacts) -> None:
        """Find the robot's joints and links in the engine, and allocate the tensors."""
        self._dofs = torch.tensor(self._scene.dofs(self.joint_names), device=self.device)  # [J] in the engine's order
        self._bodies = torch.tensor(self._scene.bodies(self.link_names), device=self.device)
        self._urdf = urdf
        self._feet = self.link_kinematics(self.foot_names)
        self._origins, self._facts = self._scene.origins.to(self.device), facts
        self._start(facts.start_height)
        self.body_names = tuple(self._scene.body_names)
        self._actors = self._scene.parameters
        self._masses = self._actors.masses.expand(self.num_envs, -1)  # [N, bodies] on the CPU
        self.total_mass = self._masses.sum(dim=1).to(self.device)
        self._com = self._actors.trunk_com.to(self.device).expand(self.num_envs, 3)  # of the trunk, in its frame
        self._stiffness, self._damping = (self.nominal_parameter(name) for name in ("stiffness", "damping"))

    def _property(self, name: str) -> Tensor:
        """Return a property of the DoFs [J], in the order of the joints."""
        return torch.tensor(self._scene.dof_properties[name].tolist(), device=self.device)[self._dofs]

    def _start(self, start_height: float) -> None:
        """Allocate the tensors, with the start state."""
        self.joint_limits = torch.stack([self._property(name) for name in ("lower", "upper")], dim=1)
        self.torque_limits = self._property("effort")
        self._allocate()
        self.root_pos[:, 2], self.root_quat[:, 0] = start_height, 1.0
        self.joint_pos.copy_(torch.zeros_like(self.torque_limits).clamp(*self.joint_limits.unbind(1)))
        self._default = RobotPoseVel._make(x.clone() for x in self.pose_vel())
        self._modified = torch.ones_like(self.diverged)  # robots whose state must be written to the engine
        self._effort = torch.zeros_like(self.joint_torque)  # in the engine's order

    def _prepare(self) -> None:
        """Let the engine allocate its tensors, and share them; the scene cannot change afterwards."""
        self._gym.prepare_sim(self._sim)
        joints, bodies = len(self.joint_names), len(self._scene.body_names)
        self._root = gymtorch.wrap_tensor(self._gym.acquire_actor_root_state_tensor(self._sim))  # [N, 13]
        dof_state = gymtorch.wrap_tensor(self._gym.acquire_dof_state_tensor(self._sim))  # [N * J, 2]
        forces = gymtorch.wrap_tensor(self._gym.acquire_net_contact_force_tensor(self._sim))  # [N * bodies, 3]
        self._dof_state = dof_state.view(self.num_envs, joints, 2)
        self._forces = forces.view(self.num_envs, bodies, 3)
        self._prepared = True

    def step(self, joint_targets: Tensor, num_substeps: int) -> None:
        self.step_each(lambda _: joint_targets, num_substeps)

    def step_each(self, drive: Drive, num_substeps: int) -> None:
        if not self._prepared:
            self._prepare()
        self._write_states()
        for substep in range(num_substeps):
            if substep == num_substeps - 1:
                self._refresh_feet()
            self._advance(drive(substep))
        self._gym.refresh_net_contact_force_tensor(self._sim)
        self.contact_force.copy_(self._forces[:, self._bodies])  # of the ground on the link
        self._reset_diverged()

    def _advance(self, targets: Tensor) -> None:
        """Simulate one physics step with joint targets or torques, and read the state."""
        self.joint_torque.copy_(self._torque(targets))
        efforts = self.joint_torque - self._friction_torque()
        self._effort[:, self._dofs] = efforts.nan_to_num()  # a broken robot gets no torque
        self._apply_forces()
        self._gym.set_dof_actuation_force_tensor(self._sim, gymtorch.unwrap_tensor(self._effort.view(-1)))
        self._gym.simulate(self._sim)
        if not self._scene.on_gpu:
            self._gym.fetch_results(self._sim, True)
        self._gym.refresh_actor_root_state_tensor(self._sim)
        self._gym.refresh_dof_state_tensor(self._sim)
        self._read_states()

    def _read_states(self) -> None:
        self.root_pos.copy_(self._root[:, :3] - self._origins)
        self.root_quat.copy_(self._root[:, 3:7].roll(1, dims=1))
        spin = self._root[:, 10:13]
        self.root_ang_vel.copy_(rotate_inverse(self.root_quat, spin))
        self.root_lin_vel.copy_(self._root[:, 7:10] - torch.linalg.cross(spin, self._com_offset()))
        self.joint_pos.copy_(self._dof_state[:, self._dofs, 0])
        self.joint_vel.copy_(self._dof_state[:, self._dofs, 1])

    def _write_states(self) -> None:
        """Write the states of changed robots to the engine."""
        robots = self._modified.nonzero().squeeze(-1)
        if not len(robots):
            return
        spin = (rotation_matrix(self.root_quat) @ self.root_ang_vel.unsqueeze(-1)).squeeze(-1)
        lin_vel = self.root_lin_vel + torch.linalg.cross(spin, self._com_offset())
        root = torch.cat((self.root_pos + self._origins, self.root_quat.roll(-1, dims=1), lin_vel, spin), dim=1)
        self._root[robots] = root[robots]
        self._dof_state[robots[:, None], self._dofs, 0] = self.joint_pos[robots]
        self._dof_state[robots[:, None], self._dofs, 1] = self.joint_vel[robots]
        self._ids = robots.int()  # stored because the engine reads it later; actor i is robot i
        ids, count = gymtorch.unwrap_tensor(self._ids), len(robots)
        root_state, dof_state = gymtorch.unwrap_tensor(self._root), gymtorch.unwrap_tensor(self._dof_state.view(-1, 2))
        self._gym.set_actor_root_state_tensor_indexed(self._sim, root_state, ids, count)
        self._gym.set_dof_state_tensor_indexed(self._sim, dof_state, ids, count)
        self._modified.zero_()

    def _com_offset(self) -> Tensor:
        """Return the vector from the trunk's origin to its centre of mass [N, 3], in world axes."""
        return (rotation_matrix(self.root_quat) @ self._com.unsqueeze(-1)).squeeze(-1)

    def _refresh_feet(self) -> None:
        for name, value in self._foot_state().items():
            getattr(self, name).copy_(value)

    def _foot_state(self) -> Dict[str, Tensor]:
        """Return the state of the feet: the engine has none after a reset and before the last physics step."""
        feet = self._feet(self.pose_vel())
        return {"foot_pos": feet.pos, "foot_vel": feet.vel, "foot_up": feet.turn[..., 2]}

    def link_kinematics(self, names: Sequence[str]) -> LinkKinematics:
        return LinkKinematics([chain_of(self._urdf, name, self.joint_names) for name in names], self.device)

    def _reset_diverged(self) -> None:
        """Mark robots whose state is not finite, and reset them to the default state."""
        values = torch.cat((self.physics_state(), self.contact_force.flatten(1)), dim=1)
        self.diverged.copy_(~torch.isfinite(values).all(dim=1))
        for name, value in self._default._asdict().items():
            self._overwrite(name, self.diverged, value)
        for name in ("joint_torque", "contact_force", "foot_pos", "foot_vel", "foot_up"):
            self._overwrite(name, self.diverged, torch.zeros_like(getattr(self, name)))
        self._modified |= self.diverged

    def _overwrite(self, name: str, mask: Tensor, value: Tensor) -> None:
        """Copy the rows of ``value`` that are marked in mask [N], without synchronisation."""
        own: Tensor = getattr(self, name)
        own.copy_(torch.where(mask.view(-1, *[1] * (own.dim() - 1)), value, own))

    def reset(self, mask: Tensor, pose_vel: RobotPoseVel) -> None:
        for name, value in pose_vel._asdict().items():
            self._overwrite(name, mask, value)
        zeros = {name: torch.zeros_like(getattr(self, name)) for name in ("joint_torque", "contact_force")}
        for name, value in {**self._foot_state(), **zeros}.items():
            self._overwrite(name, mask, value)
        self._modified |= mask

    def set_root_velocity(self, mask: Tensor, lin_vel: Tensor, ang_vel: Tensor) -> None:
        self._overwrite("root_lin_vel", mask, lin_vel)
        self._overwrite("root_ang_vel", mask, ang_vel)
        self._modified |= mask

    def physics_state(self, out: Optional[Tensor] = None) -> Tensor:
        return torch.cat(self.pose_vel(), dim=1, out=out)

    def set_physics_state(self, state: Tensor) -> None:
        parts = state.split([x.shape[1] for x in self.pose_vel()], dim=1)
        for own, part in zip(self.pose_vel(), parts):
            own.copy_(part)
        self._modified.fill_(True)

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
        self._wrench = forces.view(-1, 3), torch.zeros_like(forces).view(-1, 3)  # stored: the engine reads it later
        force, torque = (gymtorch.unwrap_tensor(part) for part in self._wrench)
        self._gym.apply_rigid_body_force_tensors(self._sim, force, torque, gymapi.ENV_SPACE)

    def close(self) -> None:
        """Free the engine's resources; the simulation cannot be used afterwards."""
        self._scene.close()
