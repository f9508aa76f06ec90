"""Scene of Isaac Gym: ground, N copies of a robot from its URDF, and a window that shows them."""

# pyright: reportMissingModuleSource=false
from __future__ import annotations

import math
from pathlib import Path
from typing import ClassVar, List, Sequence

import torch
from isaacgym import gymapi
from torch import Tensor

from rsl_rl.config.sim import SimConfig
from rsl_rl.sim.isaacgym.actors import ActorParameters, shape_friction
from rsl_rl.sim.isaacgym.ground import Ground, Plane
from rsl_rl.sim.isaacgym.model import RobotFacts
from rsl_rl.utils.host import available_cpus

SPACING = 3.0
"""Distance of robots on a plane [m]. Robots do not collide, but PhysX tests all pairs of overlapping shapes before it
applies the collision filters, and robots at one position are N^2 such pairs."""

MAX_VELOCITY = 1000.0
"""Limit of every velocity [m/s, rad/s], large enough to have no effect: the MJCF has none, and broken robots must be
found."""


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
        ground: Ground,
        headless: bool,
    ):
        if Scene._open:
            raise ValueError(
                "Isaac Gym allows one simulation per process, and there is one already; videos and evaluations during "
                "training, evaluate.py and play.py need more: use --sim mujoco for them"
            )
        self.gym = gymapi.acquire_gym()
        self.on_gpu, self.headless = device.type == "cuda", headless
        index = device.index or 0
        self.sim = self.gym.create_sim(
            index, -1 if headless else index, gymapi.SIM_PHYSX, _sim_params(cfg, self.on_gpu)
        )
        if self.sim is None:
            raise ValueError(f"Isaac Gym could not create a simulation on {device}; see its output above")
        Scene._open = True
        try:
            self._populate(urdf, facts, num_envs, ground)
        except BaseException:
            self.close()
            raise

    def _populate(self, urdf: Path, facts: RobotFacts, num_envs: int, ground: Ground) -> None:
        ground.add_to(self.gym, self.sim)
        self.origins = _grid(num_envs) if isinstance(ground, Plane) else torch.zeros(num_envs, 3)
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


class IsaacGymViewer:
    """A window that shows a scene with a graphics device; without calls of ``draw`` it needs no time."""

    def __init__(self, scene: Scene):
        if scene.headless:
            raise ValueError("this simulation has no graphics device; make it with headless=False to open a window")
        self._gym, self._sim, self._on_gpu = scene.gym, scene.sim, scene.on_gpu
        self._viewer = self._gym.create_viewer(self._sim, gymapi.CameraProperties())
        if self._viewer is None:
            raise ValueError("Isaac Gym could not open a window; use a machine with a display, or headless=True")
        x, y, _ = scene.origins[0].tolist()
        camera, target = gymapi.Vec3(x - 2.0, y - 2.0, 1.5), gymapi.Vec3(x, y, 0.3)
        self._gym.viewer_camera_look_at(self._viewer, scene.envs[0], camera, target)

    def draw(self) -> bool:
        """Show the last step, at most in real time; return whether the window is still open."""
        if self._gym.query_viewer_has_closed(self._viewer):
            return False
        if self._on_gpu:
            self._gym.fetch_results(self._sim, True)  # the window draws from the host's copy
        self._gym.step_graphics(self._sim)
        self._gym.draw_viewer(self._viewer, self._sim, False)
        self._gym.sync_frame_time(self._sim)
        return True

    def close(self) -> None:
        self._gym.destroy_viewer(self._viewer)


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
