"""Scene of Isaac Gym: ground, and N copies of a robot from its URDF with their friction, masses and armature."""

# pyright: reportMissingModuleSource=false
from __future__ import annotations

import math
from pathlib import Path
from typing import Any, ClassVar, List, Optional, Sequence

import numpy as np
import torch
from isaacgym import gymapi
from torch import Tensor

from rsl_rl.config.sim import SimConfig
from rsl_rl.sim.isaacgym.model import RobotFacts
from rsl_rl.utils.height_field import HeightField
from rsl_rl.utils.host import available_cpus

FRICTION = 0.0
"""Friction of every ground. PhysX uses the mean of ground and robot, so the robot's shapes get twice the wanted
friction, and all frictions from zero are possible."""

VERTICAL_SCALE = 0.001
"""One count of the height samples, which are 16-bit [m]."""

FRICTION_STEPS = 512
"""Number of frictions per unit. PhysX allows 65536 materials, so frictions are rounded."""

SPACING = 3.0
"""Distance of robots on a plane [m]. Robots do not collide, but PhysX tests all pairs of overlapping shapes before it
applies the collision filters, and robots at one position are N^2 such pairs."""

MAX_VELOCITY = 1000.0
"""Limit of every velocity [m/s, rad/s], large enough to have no effect: the MJCF has none, and broken robots must be
found."""


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
    return 2 * round(friction * FRICTION_STEPS) / FRICTION_STEPS - FRICTION


def _scale(matrix: gymapi.Mat33, factor: float) -> None:
    for row in (matrix.x, matrix.y, matrix.z):
        row.x, row.y, row.z = row.x * factor, row.y * factor, row.z * factor


class Scene:
    """Handles of environments and actors.

    A process can have one scene: the engine aborts at the second.
    """

    _open: ClassVar[bool] = False

    def __init__(
        self,
        urdf: Path,
        facts: RobotFacts,
        num_envs: int,
        cfg: SimConfig,
        device: torch.device,
        ground: Optional[HeightField],
    ):
        if Scene._open:
            raise ValueError(
                "Isaac Gym allows one simulation per process, and there is one already; videos and evaluations during "
                "training, evaluate.py and play.py need more: use --sim mujoco for them"
            )
        self.gym = gymapi.acquire_gym()
        self.on_gpu = device.type == "cuda"
        # -1: no graphics device
        self.sim = self.gym.create_sim(device.index or 0, -1, gymapi.SIM_PHYSX, _sim_params(cfg, self.on_gpu))
        if self.sim is None:
            raise ValueError(f"Isaac Gym could not create a simulation on {device}; see its output above")
        Scene._open = True
        try:
            self._populate(urdf, facts, num_envs, ground)
        except BaseException:
            self.close()
            raise

    def _populate(self, urdf: Path, facts: RobotFacts, num_envs: int, ground: Optional[HeightField]) -> None:
        if ground is None:
            _add_plane(self.gym, self.sim)
        else:
            _add_height_field(self.gym, self.sim, ground)
        self.origins = _grid(num_envs) if ground is None else torch.zeros(num_envs, 3)
        asset = self._load(urdf, facts)
        self.body_names: List[str] = self.gym.get_asset_rigid_body_names(asset)
        self.dof_names: List[str] = self.gym.get_asset_dof_names(asset)
        self.dof_properties = self.gym.get_asset_dof_properties(asset)  # numpy, one row per DoF
        self._configure_dofs(facts)
        self.trunk = _find("body", facts.root_name, self.body_names)
        self._create(asset, num_envs, facts)
        self.parameters = ActorParameters(self.gym, self.envs, self.actors, self.trunk)

    def close(self) -> None:
        """Free the engine's resources."""
        self.gym.destroy_sim(self.sim)
        Scene._open = False

    def _load(self, urdf: Path, facts: RobotFacts) -> gymapi.Asset:
        options = gymapi.AssetOptions()
        options.fix_base_link = False
        options.collapse_fixed_joints = False  # head and feet need separate contact forces
        options.replace_cylinder_with_capsule = True  # the MJCF has capsules, which a URDF cannot have
        options.flip_visual_attachments = False
        options.default_dof_drive_mode = int(gymapi.DOF_MODE_EFFORT)
        options.use_physx_armature = True  # in joint space, as MuJoCo has it; else it is added to the links
        options.armature = 0.0  # and set per DoF
        options.linear_damping = options.angular_damping = 0.0  # the engine's defaults are not
        options.max_linear_velocity = options.max_angular_velocity = MAX_VELOCITY
        options.override_com = options.override_inertia = False
        options.enable_gyroscopic_forces = True
        if not urdf.is_file():
            raise ValueError(f"{urdf} is missing: this backend reads the URDF beside the robot's MJCF; write one")
        asset = self.gym.load_urdf(self.sim, str(urdf.parent), urdf.name, options)
        shapes = self.gym.get_asset_rigid_shape_properties(asset)
        for shape in shapes:
            shape.friction = shape_friction(facts.friction)
            shape.restitution = 0.0
        self.gym.set_asset_rigid_shape_properties(asset, shapes)
        return asset

    def _configure_dofs(self, facts: RobotFacts) -> None:
        """Use the engine's drives for the passive damping only; the PD loop is computed by IsaacGymSim."""
        properties = self.dof_properties
        properties["driveMode"].fill(int(gymapi.DOF_MODE_EFFORT))
        properties["stiffness"].fill(0.0)
        properties["damping"].fill(facts.joint_damping)
        properties["friction"].fill(0.0)
        properties["armature"].fill(facts.armature)
        properties["velocity"].fill(MAX_VELOCITY)

    def _create(self, asset: gymapi.Asset, num_envs: int, facts: RobotFacts) -> None:
        """Create the robots. All environments are at the world's origin, so that there is one frame. Collision group i
        disables collisions of robot i with others, filter 1 collisions between its links."""
        corner, per_row = gymapi.Vec3(0.0, 0.0, 0.0), math.isqrt(num_envs)
        self.envs: List[gymapi.Env] = []
        self.actors: List[int] = []
        for i, (x, y, _) in enumerate(self.origins.tolist()):
            env = self.gym.create_env(self.sim, corner, corner, per_row)
            pose = gymapi.Transform()
            pose.p = gymapi.Vec3(x, y, facts.start_height)
            actor = self.gym.create_actor(env, asset, pose, "robot", i, 1, 0)
            self.gym.set_actor_dof_properties(env, actor, self.dof_properties)
            self.envs.append(env)
            self.actors.append(actor)

    def bodies(self, names: Sequence[str]) -> List[int]:
        """Return the indices of links among the engine's bodies."""
        return [_find("body", name, self.body_names) for name in names]

    def dofs(self, names: Sequence[str]) -> List[int]:
        """Return the indices of joints among the engine's DoFs."""
        return [_find("joint", name, self.dof_names) for name in names]


def _add_plane(gym: gymapi.Gym, sim: gymapi.Sim) -> None:
    """Add the floor z = 0."""
    params = gymapi.PlaneParams()
    params.normal = gymapi.Vec3(0.0, 0.0, 1.0)
    params.static_friction = params.dynamic_friction = FRICTION
    params.restitution = 0.0
    gym.add_ground(sim, params)


def _add_height_field(gym: gymapi.Gym, sim: gymapi.Sim, ground: HeightField) -> None:
    """Add heights, which the engine rounds to VERTICAL_SCALE."""
    highest, limit = np.abs(ground.heights).max(), VERTICAL_SCALE * np.iinfo(np.int16).max
    if not highest <= limit:
        raise ValueError(f"heights reach {highest:g} m; the engine takes up to {limit:g} m")
    params = gymapi.HeightFieldParams()
    # The engine reads the samples by columns, and a column is along y: its rows are the points along y.
    params.nbRows, params.nbColumns = ground.heights.shape[1], ground.heights.shape[0]
    params.row_scale = params.column_scale = ground.cell
    params.vertical_scale = VERTICAL_SCALE
    params.transform.p = gymapi.Vec3(*ground.origin, 0.0)
    params.static_friction = params.dynamic_friction = FRICTION
    params.restitution = 0.0
    counts: Any = np.rint(np.asarray(ground.heights) / VERTICAL_SCALE).astype(np.int16)
    gym.add_heightfield(sim, counts.flatten(), params)  # Any: the stub's ndarray[int16] is not a type of numpy


def usable_device(device: str) -> torch.device:
    """Return the device with its index; a device that does not exist, or that PhysX cannot use, is a ValueError."""
    kind, _, number = str(device).partition(":")
    if kind not in ("cpu", "cuda") or (number and not number.isdecimal()):
        raise ValueError(f"sim_device={device}: the backend 'isaacgym' runs on cpu, cuda or cuda:<number>; give one")
    count = torch.cuda.device_count()
    if kind == "cuda" and int(number or 0) >= count:
        raise ValueError(f"sim_device={device}: torch sees {count} GPUs here; take another number, or --sim_device cpu")
    return torch.device(kind, int(number or 0)) if kind == "cuda" else torch.device("cpu")


def _sim_params(cfg: SimConfig, on_gpu: bool) -> gymapi.SimParams:
    params = gymapi.SimParams()
    params.dt = cfg.dt
    params.substeps = 1  # torques follow the state in every physics step
    params.up_axis = gymapi.UP_AXIS_Z
    params.gravity = gymapi.Vec3(0.0, 0.0, -9.81)
    params.use_gpu_pipeline = on_gpu
    params.physx.use_gpu = on_gpu
    params.physx.num_threads = cfg.num_threads or available_cpus()
    # Settings of the solver as in legged_gym.
    params.physx.solver_type = 1  # TGS: joints and contacts converge in few iterations
    params.physx.num_position_iterations = 4
    params.physx.num_velocity_iterations = 0  # TGS needs none
    params.physx.contact_offset = 0.01  # [m] distance at which contacts are created
    params.physx.rest_offset = 0.0  # resting distance of shapes, as in MuJoCo
    params.physx.bounce_threshold_velocity = 0.5  # [m/s]
    params.physx.max_depenetration_velocity = 1.0  # [m/s] limits the velocity of a foot that penetrates the ground
    params.physx.contact_collection = gymapi.CC_LAST_SUBSTEP  # of the last physics step, see Sim
    params.physx.max_gpu_contact_pairs = 2**23  # enough for 8192 robots on rough ground
    params.physx.default_buffer_size_multiplier = 5.0
    return params


def _grid(num_envs: int) -> Tensor:
    """Return positions [N, 3] in a square around the world's origin, where float32 is most precise."""
    side = math.ceil(math.sqrt(num_envs))
    index = torch.arange(num_envs)
    cell = torch.stack((index % side, index.div(side, rounding_mode="floor"), torch.zeros_like(index)), dim=1)
    return SPACING * (cell - torch.tensor([side // 2, side // 2, 0])).float()


def _find(kind: str, name: str, names: Sequence[str]) -> int:
    if name not in names:
        raise ValueError(f"the URDF has no {kind} '{name}', which the MJCF beside it names; it has {', '.join(names)}")
    return names.index(name)
