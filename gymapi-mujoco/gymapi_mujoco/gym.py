"""The class ``gymapi.Gym``: the calls of Isaac Gym.

Each function checks the handles that it is given, and passes the call to the object that it concerns: a scene and its
actors before ``prepare_sim``, the parts of the engine after it, cameras and viewers.
"""

from __future__ import annotations

import copy
import math
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np
import torch

from gymapi_mujoco.actor_calls import ActorCalls
from gymapi_mujoco.asset import Asset, ForceSensor, primitive
from gymapi_mujoco.backends import choose, usable_threads
from gymapi_mujoco.cameras import Camera, look_at, write_png
from gymapi_mujoco.engine import Engine
from gymapi_mujoco.enums import (
    CONSTANTS,
    CameraFollowMode,
    CoordinateSpace,
    DofType,
    ImageType,
    IndexDomain,
    JointType,
    MeshType,
    SimType,
)
from gymapi_mujoco.ground import HeightField, Plane
from gymapi_mujoco.handles import (
    Env,
    Sim,
    actor_of,
    asset_of,
    camera_of,
    engine_of,
    env_of,
    pictures_of,
    prepared,
    segmentation_of,
    sim_of,
    unprepared,
    viewer_of,
)
from gymapi_mujoco.mjcf import read_mjcf
from gymapi_mujoco.scene import Actor, require_count
from gymapi_mujoco.structs import (
    ActuatorProperties,
    AssetOptions,
    CameraProperties,
    ForceSensorProperties,
    HeightFieldParams,
    IndexRange,
    PlaneParams,
    RigidBodyProperties,
    RigidShapeProperties,
    SimParams,
    Transform,
    TriangleMeshParams,
    Vec3,
    Version,
    as_array,
    to_transform,
    to_wxyz,
)
from gymapi_mujoco.tendon_calls import TendonCalls
from gymapi_mujoco.tensors import Tensor, floats, indices
from gymapi_mujoco.urdf import read_urdf
from gymapi_mujoco.viewer import ActionEvent, Viewer

_POS, _VEL = CONSTANTS["STATE_POS"], CONSTANTS["STATE_VEL"]


class Gym(ActorCalls, TendonCalls):
    """The calls of Isaac Gym; one that is not provided is an AttributeError that names it.

    Names that are not found have the index -1. Setters act at once; the next refresh shows what was set.
    """

    def __init__(self) -> None:
        self._announced = False

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"Gym.{name} is not provided by gymapi-mujoco")

    # The simulation.

    def create_sim(
        self, compute_device: int = 0, graphics_device: int = 0, type: SimType = SimType.SIM_PHYSX, params: Any = None
    ) -> Sim:
        """Create a simulation; the first of a process prints the engine and the device."""
        if params is not None and not isinstance(params, SimParams):
            raise TypeError(f"create_sim: params is a {params.__class__.__name__}; pass a gymapi.SimParams")
        if SimType(type) != SimType.SIM_PHYSX:
            raise NotImplementedError("create_sim: SIM_FLEX is not provided; use SIM_PHYSX (without --flex)")
        params = copy.deepcopy(params or SimParams())
        threads = usable_threads(params.physx.num_threads)
        backend = choose(compute_device, params.use_gpu_pipeline, threads)
        sim = Sim(params, graphics_device, backend)
        if not self._announced:
            self._announced = True
            print(backend, file=sys.stderr)
        return sim

    def destroy_sim(self, sim: Sim) -> None:
        sim_of(sim, "destroy_sim").close()

    def prepare_sim(self, sim: Sim) -> bool:
        """Compile the model and allocate the tensors; nothing can be built afterwards. Where a tensor was acquired
        before, this has happened then."""
        if not sim_of(sim, "prepare_sim").prepared_early:
            unprepared(sim, "prepare_sim").prepare()
        sim.prepared_early = False
        return True

    def get_sim_params(self, sim: Sim) -> SimParams:
        return sim_of(sim, "get_sim_params").scene.params

    def set_sim_params(self, sim: Sim, params: SimParams) -> None:
        """Change the parameters; after ``prepare_sim`` only gravity."""
        sim_of(sim, "set_sim_params").set_params(params)

    # Ground.

    def add_ground(self, sim: Sim, params: PlaneParams) -> None:
        unprepared(sim, "add_ground").scene.grounds.append(Plane.from_params(params))

    def add_heightfield(self, sim: Sim, samples: np.ndarray, params: HeightFieldParams) -> None:
        unprepared(sim, "add_heightfield").scene.grounds.append(HeightField.from_samples(samples, params))

    def add_triangle_mesh(
        self, sim: Sim, vertices: np.ndarray, triangles: np.ndarray, params: TriangleMeshParams
    ) -> None:
        unprepared(sim, "add_triangle_mesh").scene.grounds.append(HeightField.from_mesh(vertices, triangles, params))

    # Assets.

    def load_asset(self, sim: Sim, rootpath: str, filename: str, options: Optional[AssetOptions] = None) -> Asset:
        """Load a URDF file (.urdf) or an MJCF file (.xml, .mjcf)."""
        unprepared(sim, "load_asset")
        path, options = Path(rootpath) / filename, options if options is not None else AssetOptions()
        if not path.is_file():
            raise FileNotFoundError(f"load_asset: there is no file {path.absolute()}; correct the asset's path")
        if not isinstance(options, AssetOptions):
            raise TypeError(f"load_asset: options is a {type(options).__name__}; pass a gymapi.AssetOptions")
        if path.suffix == ".urdf":
            return read_urdf(path, copy.deepcopy(options))
        if path.suffix in (".xml", ".mjcf"):
            return read_mjcf(path, copy.deepcopy(options))
        raise NotImplementedError(f"load_asset: {path.name} is neither .urdf nor .xml (MJCF); others cannot be read")

    load_urdf = load_mjcf = load_asset

    def create_box(
        self, sim: Sim, width: float, height: float, depth: float, options: Optional[AssetOptions] = None
    ) -> Asset:
        """Create a box with the sides width (x), height (y) and depth (z) [m]."""
        return self._primitive(sim, "box", np.array([width, height, depth]) / 2, options)

    def create_sphere(self, sim: Sim, radius: float, options: Optional[AssetOptions] = None) -> Asset:
        return self._primitive(sim, "sphere", np.array([radius]), options)

    def create_capsule(self, sim: Sim, radius: float, width: float, options: Optional[AssetOptions] = None) -> Asset:
        """Create a capsule along x; width is the length of its cylindrical part [m]."""
        turned = np.array([np.sqrt(0.5), 0.0, np.sqrt(0.5), 0.0])
        return self._primitive(sim, "capsule", np.array([radius, width / 2]), options, turned)

    def _primitive(
        self, sim: Sim, kind: str, size: np.ndarray, options: Optional[AssetOptions], quat: Optional[np.ndarray] = None
    ) -> Asset:
        unprepared(sim, f"create_{kind}")
        return primitive(kind, size, copy.deepcopy(options) if options is not None else AssetOptions(), quat)

    def get_asset_rigid_shape_properties(self, asset: Asset) -> List[RigidShapeProperties]:
        return copy.deepcopy(asset_of(asset, "get_asset_rigid_shape_properties").shape_properties)

    def set_asset_rigid_shape_properties(self, asset: Asset, props: List[RigidShapeProperties]) -> bool:
        """Set what actors created from now on have."""
        require_count(props, len(asset_of(asset, "set_asset_rigid_shape_properties").shapes), "shape", "asset")
        asset.shape_properties = [copy.deepcopy(shape) for shape in props]
        return True

    def get_asset_dof_properties(self, asset: Asset) -> np.ndarray:
        return asset_of(asset, "get_asset_dof_properties").dof_properties.copy()

    def create_asset_force_sensor(
        self, asset: Asset, body_idx: int, local_pose: Transform, props: Optional[ForceSensorProperties] = None
    ) -> int:
        """Add a force sensor to a body; return its index, or -1 for an unknown body."""
        props = props or ForceSensorProperties()
        if not 0 <= body_idx < len(asset_of(asset, "create_asset_force_sensor").bodies):
            return -1
        contact, dynamics = props.enable_constraint_solver_forces, props.enable_forward_dynamics_forces
        pos, quat = as_array(local_pose.p), to_wxyz(local_pose.r)
        asset.sensors.append(ForceSensor(body_idx, pos, quat, props.use_world_frame, contact, dynamics))
        return len(asset.sensors) - 1

    # Names, counts and indices of assets.

    def get_asset_rigid_body_count(self, asset: Asset) -> int:
        return len(asset_of(asset, "get_asset_rigid_body_count").bodies)

    def get_asset_rigid_body_names(self, asset: Asset) -> List[str]:
        return list(asset_of(asset, "get_asset_rigid_body_names").body_names)

    def get_asset_rigid_body_name(self, asset: Asset, index: int) -> str:
        return asset_of(asset, "get_asset_rigid_body_name").body_names[index]

    def get_asset_rigid_body_dict(self, asset: Asset) -> Dict[str, int]:
        return {name: i for i, name in enumerate(asset_of(asset, "get_asset_rigid_body_dict").body_names)}

    def find_asset_rigid_body_index(self, asset: Asset, name: str) -> int:
        return _index(asset_of(asset, "find_asset_rigid_body_index").body_names, name)

    def get_asset_rigid_shape_count(self, asset: Asset) -> int:
        return len(asset_of(asset, "get_asset_rigid_shape_count").shapes)

    def get_asset_rigid_body_shape_indices(self, asset: Asset) -> List[IndexRange]:
        ranges = []
        owners = [body for body, _ in asset_of(asset, "get_asset_rigid_body_shape_indices").shapes]
        for i in range(len(asset.bodies)):
            part = IndexRange()
            part.start, part.count = sum(owner < i for owner in owners), owners.count(i)
            ranges.append(part)
        return ranges

    def get_asset_dof_count(self, asset: Asset) -> int:
        return len(asset_of(asset, "get_asset_dof_count").joints)

    def get_asset_dof_names(self, asset: Asset) -> List[str]:
        return list(asset_of(asset, "get_asset_dof_names").dof_names)

    def get_asset_dof_name(self, asset: Asset, index: int) -> str:
        return asset_of(asset, "get_asset_dof_name").dof_names[index]

    def get_asset_dof_dict(self, asset: Asset) -> Dict[str, int]:
        return {name: i for i, name in enumerate(asset_of(asset, "get_asset_dof_dict").dof_names)}

    def find_asset_dof_index(self, asset: Asset, name: str) -> int:
        return _index(asset_of(asset, "find_asset_dof_index").dof_names, name)

    def get_asset_dof_type(self, asset: Asset, index: int) -> DofType:
        sliding = asset_of(asset, "get_asset_dof_type").joints[index].sliding
        return DofType.DOF_TRANSLATION if sliding else DofType.DOF_ROTATION

    def get_dof_type_string(self, kind: DofType) -> str:
        return {DofType.DOF_ROTATION: "Rotation", DofType.DOF_TRANSLATION: "Translation"}.get(kind, "Invalid")

    def get_asset_joint_count(self, asset: Asset) -> int:
        return len(asset_of(asset, "get_asset_joint_count").joint_names)

    def get_asset_joint_names(self, asset: Asset) -> List[str]:
        return list(asset_of(asset, "get_asset_joint_names").joint_names)

    def get_asset_joint_name(self, asset: Asset, index: int) -> str:
        return asset_of(asset, "get_asset_joint_name").joint_names[index]

    def get_asset_joint_dict(self, asset: Asset) -> Dict[str, int]:
        return {name: i for i, name in enumerate(asset_of(asset, "get_asset_joint_dict").joint_names)}

    def get_asset_joint_type(self, asset: Asset, index: int) -> JointType:
        name = asset_of(asset, "get_asset_joint_type").joint_names[index]
        if name not in asset.dof_names:
            return JointType.JOINT_FIXED
        sliding = asset.joints[asset.dof_names.index(name)].sliding
        return JointType.JOINT_PRISMATIC if sliding else JointType.JOINT_REVOLUTE

    def get_joint_type_string(self, kind: JointType) -> str:
        return JointType(kind).name[len("JOINT_") :].capitalize()

    def get_asset_actuator_count(self, asset: Asset) -> int:
        return len(asset_of(asset, "get_asset_actuator_count").motors)

    def get_asset_actuator_joint_name(self, asset: Asset, index: int) -> str:
        return asset_of(asset, "get_asset_actuator_joint_name").motors[index].joint

    def get_asset_actuator_properties(self, asset: Asset) -> List[ActuatorProperties]:
        """Return the motors of an MJCF file in its order, with the gear as effort; of a URDF file one per DoF, with the
        effort limit of the DoF."""
        result = []
        for motor in asset_of(asset, "get_asset_actuator_properties").motors:
            props = ActuatorProperties()
            props.motor_effort, props.kp, props.kv = motor.effort, motor.stiffness, motor.damping
            if motor.control is not None:
                props.control_limited = True
                props.lower_control_limit, props.upper_control_limit = motor.control
            if motor.force is not None:
                props.force_limited = True
                props.lower_force_limit, props.upper_force_limit = motor.force
            result.append(props)
        return result

    def get_asset_soft_body_count(self, asset: Asset) -> int:
        """Return 0: assets have no soft bodies here."""
        asset_of(asset, "get_asset_soft_body_count")
        return 0

    # Environments and actors.

    def create_env(self, sim: Sim, lower: Vec3, upper: Vec3, num_per_row: int) -> Env:
        env = Env(sim, unprepared(sim, "create_env").scene.add_env(lower, upper, int(num_per_row)))
        sim.envs.append(env)
        return env

    def create_actor(
        self,
        env: Env,
        asset: Asset,
        pose: Transform,
        name: str = "",
        group: int = -1,
        filter: int = -1,
        segmentationId: int = 0,  # noqa: N803
    ) -> int:
        """Add an actor with the properties that the asset has now; return its handle."""
        unprepared(env_of(env, "create_actor").sim, "create_actor")
        own, before = asset_of(asset, "create_actor"), env.actors
        env.actors.append(Actor(own, pose, name or "", group, filter, segmentationId, before))
        return env.actors[-1].index

    def get_actor_rigid_shape_properties(self, env: Env, actor: int) -> List[RigidShapeProperties]:
        return actor_of(env, actor, "get_actor_rigid_shape_properties").get_shapes()

    def set_actor_rigid_shape_properties(self, env: Env, actor: int, props: List[RigidShapeProperties]) -> bool:
        """Set friction and restitution of an actor's shapes, at any time, and their filters before ``prepare_sim``."""
        own, engine = actor_of(env, actor, "set_actor_rigid_shape_properties"), env.sim.engine
        own.set_shapes(props, prepared=engine is not None)
        if engine is not None:
            engine.properties.apply_contacts(own.index, np.array([env.index]))
        return True

    def get_actor_rigid_body_properties(self, env: Env, actor: int) -> List[RigidBodyProperties]:
        return actor_of(env, actor, "get_actor_rigid_body_properties").get_bodies()

    def set_actor_rigid_body_properties(
        self,
        env: Env,
        actorHandle: int,  # noqa: N803
        props: List[RigidBodyProperties],
        recomputeInertia: bool = False,  # noqa: N803
    ) -> bool:
        """Set mass and centre of mass; the inertia follows the mass if it is recomputed, and is the given one else."""
        own, engine = actor_of(env, actorHandle, "set_actor_rigid_body_properties"), env.sim.engine
        own.set_bodies(props, recomputeInertia)
        if engine is not None:
            engine.properties.apply_masses(own.index, np.array([env.index]))
        return True

    def get_actor_dof_properties(self, env: Env, actor: int) -> np.ndarray:
        return actor_of(env, actor, "get_actor_dof_properties").dof_properties.copy()

    def set_actor_dof_properties(self, env: Env, actor: int, props: np.ndarray) -> bool:
        """Set limits, drive mode, gains, damping and armature of an actor's DoFs; at any time."""
        own, engine = actor_of(env, actor, "set_actor_dof_properties"), env.sim.engine
        own.set_dofs(props)
        if engine is not None:
            engine.properties.apply_dofs(own.index, np.array([env.index]))
        return True

    def enable_actor_dof_force_sensors(self, env: Env, actor: int) -> bool:
        """Return True: DoF forces are always there."""
        actor_of(env, actor, "enable_actor_dof_force_sensors")
        return True

    def begin_aggregate(self, env: Env, max_bodies: int, max_shapes: int, self_collision: bool) -> bool:
        """Return True: aggregates only speed PhysX up."""
        env_of(env, "begin_aggregate")
        return True

    def end_aggregate(self, env: Env) -> bool:
        env_of(env, "end_aggregate")
        return True

    def diverged_count(self, sim: Sim) -> int:
        """Return how many times an environment diverged and was put into its start state; not in Isaac Gym."""
        return engine_of(sim, "diverged_count").coordinates.restarts

    # Names, counts and indices of actors.

    def get_actor_count(self, env: Env) -> int:
        return len(env_of(env, "get_actor_count").actors)

    def get_actor_handle(self, env: Env, index: int) -> int:
        return actor_of(env, index, "get_actor_handle").index

    def get_actor_name(self, env: Env, actor: int) -> str:
        return actor_of(env, actor, "get_actor_name").name

    def get_actor_asset(self, env: Env, actor: int) -> Asset:
        return actor_of(env, actor, "get_actor_asset").asset

    def find_actor_handle(self, env: Env, name: str) -> int:
        return _index([actor.name for actor in env_of(env, "find_actor_handle").actors], name)

    def get_actor_index(self, env: Env, actor: int, domain: IndexDomain) -> int:
        index = actor_of(env, actor, "get_actor_index").index
        before = sum(len(other.actors) for other in env.sim.envs[: env.index])
        return index + before if domain == IndexDomain.DOMAIN_SIM else index

    def find_actor_index(self, env: Env, name: str, domain: IndexDomain) -> int:
        handle = self.find_actor_handle(env, name)
        return handle if handle < 0 else self.get_actor_index(env, handle, domain)

    def get_actor_rigid_body_count(self, env: Env, actor: int) -> int:
        return len(actor_of(env, actor, "get_actor_rigid_body_count").asset.bodies)

    def get_actor_rigid_body_names(self, env: Env, actor: int) -> List[str]:
        return list(actor_of(env, actor, "get_actor_rigid_body_names").asset.body_names)

    def get_actor_rigid_body_dict(self, env: Env, actor: int) -> Dict[str, int]:
        return self.get_asset_rigid_body_dict(actor_of(env, actor, "get_actor_rigid_body_dict").asset)

    def find_actor_rigid_body_index(self, env: Env, actor: int, name: str, domain: IndexDomain) -> int:
        own = actor_of(env, actor, "find_actor_rigid_body_index")
        return env.body_index(own, _index(own.asset.body_names, name), domain)

    def find_actor_rigid_body_handle(self, env: Env, actor: int, name: str) -> int:
        """Return the index of a body in its environment."""
        return self.find_actor_rigid_body_index(env, actor, name, IndexDomain.DOMAIN_ENV)

    def get_actor_rigid_body_index(self, env: Env, actor: int, body: int, domain: IndexDomain) -> int:
        own = actor_of(env, actor, "get_actor_rigid_body_index")
        return env.body_index(own, body, domain)

    def get_actor_rigid_body_handle(self, env: Env, actor: int, body: int) -> int:
        own = actor_of(env, actor, "get_actor_rigid_body_handle")
        return env.body_index(own, body, IndexDomain.DOMAIN_ENV)

    def get_actor_root_rigid_body_handle(self, env: Env, actor: int) -> int:
        own = actor_of(env, actor, "get_actor_root_rigid_body_handle")
        return env.body_index(own, 0, IndexDomain.DOMAIN_ENV)

    def get_actor_rigid_shape_count(self, env: Env, actor: int) -> int:
        return len(actor_of(env, actor, "get_actor_rigid_shape_count").asset.shapes)

    def get_actor_rigid_body_shape_indices(self, env: Env, actor: int) -> List[IndexRange]:
        return self.get_asset_rigid_body_shape_indices(actor_of(env, actor, "get_actor_rigid_body_shape_indices").asset)

    def get_actor_dof_count(self, env: Env, actor: int) -> int:
        return len(actor_of(env, actor, "get_actor_dof_count").asset.joints)

    def get_actor_dof_names(self, env: Env, actor: int) -> List[str]:
        return list(actor_of(env, actor, "get_actor_dof_names").asset.dof_names)

    def get_actor_dof_dict(self, env: Env, actor: int) -> Dict[str, int]:
        return self.get_asset_dof_dict(actor_of(env, actor, "get_actor_dof_dict").asset)

    def find_actor_dof_index(self, env: Env, actor: int, name: str, domain: IndexDomain) -> int:
        own = actor_of(env, actor, "find_actor_dof_index")
        return env.dof_index(own, _index(own.asset.dof_names, name), domain)

    def find_actor_dof_handle(self, env: Env, actor: int, name: str) -> int:
        return self.find_actor_dof_index(env, actor, name, IndexDomain.DOMAIN_ENV)

    def get_actor_dof_index(self, env: Env, actor: int, dof: int, domain: IndexDomain) -> int:
        own = actor_of(env, actor, "get_actor_dof_index")
        return env.dof_index(own, dof, domain)

    def get_actor_dof_handle(self, env: Env, actor: int, dof: int) -> int:
        own = actor_of(env, actor, "get_actor_dof_handle")
        return env.dof_index(own, dof, IndexDomain.DOMAIN_ENV)

    def get_actor_joint_count(self, env: Env, actor: int) -> int:
        return len(actor_of(env, actor, "get_actor_joint_count").asset.joint_names)

    def get_actor_joint_names(self, env: Env, actor: int) -> List[str]:
        return list(actor_of(env, actor, "get_actor_joint_names").asset.joint_names)

    def get_actor_joint_dict(self, env: Env, actor: int) -> Dict[str, int]:
        return self.get_asset_joint_dict(actor_of(env, actor, "get_actor_joint_dict").asset)

    def get_actor_actuator_count(self, env: Env, actor: int) -> int:
        return len(actor_of(env, actor, "get_actor_actuator_count").asset.motors)

    def get_actor_soft_body_count(self, env: Env, actor: int) -> int:
        """Return 0: actors have no soft bodies here."""
        actor_of(env, actor, "get_actor_soft_body_count")
        return 0

    def get_actor_force_sensor_count(self, env: Env, actor: int) -> int:
        return len(actor_of(env, actor, "get_actor_force_sensor_count").asset.sensors)

    # Counts of environments and the simulation.

    def get_env(self, sim: Sim, index: int) -> Env:
        envs = sim_of(sim, "get_env").envs
        if not 0 <= index < len(envs):
            raise IndexError(f"get_env: environment {index}; the simulation has {len(envs)} environments")
        return envs[index]

    def get_env_count(self, sim: Sim) -> int:
        return len(sim_of(sim, "get_env_count").envs)

    def get_env_origin(self, env: Env) -> Vec3:
        return Vec3(*env_of(env, "get_env_origin").origin)

    def get_env_rigid_body_count(self, env: Env) -> int:
        return env_of(env, "get_env_rigid_body_count").num_bodies

    def get_env_dof_count(self, env: Env) -> int:
        return env_of(env, "get_env_dof_count").num_dofs

    def get_env_joint_count(self, env: Env) -> int:
        return sum(len(actor.asset.joint_names) for actor in env_of(env, "get_env_joint_count").actors)

    def get_sim_actor_count(self, sim: Sim) -> int:
        return sum(len(env.actors) for env in sim_of(sim, "get_sim_actor_count").envs)

    def get_sim_rigid_body_count(self, sim: Sim) -> int:
        return sum(env.num_bodies for env in sim_of(sim, "get_sim_rigid_body_count").envs)

    def get_sim_dof_count(self, sim: Sim) -> int:
        return sum(env.num_dofs for env in sim_of(sim, "get_sim_dof_count").envs)

    def get_sim_joint_count(self, sim: Sim) -> int:
        return sum(self.get_env_joint_count(env) for env in sim_of(sim, "get_sim_joint_count").envs)

    def get_sim_force_sensor_count(self, sim: Sim) -> int:
        envs = sim_of(sim, "get_sim_force_sensor_count").envs
        return sum(len(actor.asset.sensors) for env in envs for actor in env.actors)

    def get_version(self) -> Version:
        """Return 1.0, which is Preview 4's."""
        return Version()

    # Time steps.

    def simulate(self, sim: Sim) -> None:
        """Advance all environments by ``dt``."""
        engine_of(sim, "simulate").simulate()
        sim.frames += 1

    def fetch_results(self, sim: Sim, wait: bool) -> None:
        """Do nothing: ``simulate`` returns when the step is done."""
        engine_of(sim, "fetch_results")

    def get_sim_time(self, sim: Sim) -> float:
        return sim_of(sim, "get_sim_time").time

    def get_frame_count(self, sim: Sim) -> int:
        return sim_of(sim, "get_frame_count").frames

    def get_elapsed_time(self, sim: Sim) -> float:
        """Return the wall-clock time since ``create_sim`` [s]."""
        return time.monotonic() - sim_of(sim, "get_elapsed_time").started

    # State tensors.

    def acquire_actor_root_state_tensor(self, sim: Sim) -> Tensor:
        """Return [actors, 13]: position, quaternion x y z w, linear and angular velocity in world axes."""
        return Tensor(prepared(sim, "acquire_actor_root_state_tensor").roots.buffer)

    def acquire_dof_state_tensor(self, sim: Sim) -> Tensor:
        """Return [DoFs, 2]: position and velocity."""
        return Tensor(prepared(sim, "acquire_dof_state_tensor").dofs.buffer)

    def acquire_rigid_body_state_tensor(self, sim: Sim) -> Tensor:
        """Return [bodies, 13], as the root states; velocities are those of the centres of mass."""
        bodies = prepared(sim, "acquire_rigid_body_state_tensor").bodies
        bodies.refresh()
        return Tensor(bodies.buffer)

    def acquire_net_contact_force_tensor(self, sim: Sim) -> Tensor:
        """Return [bodies, 3]: the sum of contact forces on each body [N], in world axes."""
        return Tensor(prepared(sim, "acquire_net_contact_force_tensor").contact_forces.buffer)

    def refresh_actor_root_state_tensor(self, sim: Sim) -> bool:
        engine_of(sim, "refresh_actor_root_state_tensor").roots.refresh()
        return True

    def refresh_dof_state_tensor(self, sim: Sim) -> bool:
        engine_of(sim, "refresh_dof_state_tensor").dofs.refresh()
        return True

    def refresh_rigid_body_state_tensor(self, sim: Sim) -> bool:
        engine_of(sim, "refresh_rigid_body_state_tensor").bodies.refresh()
        return True

    def refresh_net_contact_force_tensor(self, sim: Sim) -> bool:
        engine_of(sim, "refresh_net_contact_force_tensor").contact_forces.refresh()
        return True

    def set_actor_root_state_tensor(self, sim: Sim, state: Tensor) -> bool:
        return _write(_ROOTS, sim, state, "set_actor_root_state_tensor")

    def set_actor_root_state_tensor_indexed(self, sim: Sim, state: Tensor, actors: Tensor, count: int) -> bool:
        """Write the root states of the first ``count`` actors in ``actors``, out of a tensor of all states."""
        return _write(_ROOTS, sim, state, "set_actor_root_state_tensor_indexed", (actors, count))

    def set_dof_state_tensor(self, sim: Sim, state: Tensor) -> bool:
        return _write(_DOFS, sim, state, "set_dof_state_tensor")

    def set_dof_state_tensor_indexed(self, sim: Sim, state: Tensor, actors: Tensor, count: int) -> bool:
        return _write(_DOFS, sim, state, "set_dof_state_tensor_indexed", (actors, count))

    # Efforts, targets and forces.

    def set_dof_actuation_force_tensor(self, sim: Sim, forces: Tensor) -> bool:
        """Apply forces [DoFs] for the next ``simulate``, limited to the DoFs' ``effort`` where it is above zero."""
        return _write(_EFFORTS, sim, forces, "set_dof_actuation_force_tensor")

    def set_dof_actuation_force_tensor_indexed(self, sim: Sim, forces: Tensor, actors: Tensor, count: int) -> bool:
        return _write(_EFFORTS, sim, forces, "set_dof_actuation_force_tensor_indexed", (actors, count))

    def set_dof_position_target_tensor(self, sim: Sim, targets: Tensor) -> bool:
        return _write(_POSITIONS, sim, targets, "set_dof_position_target_tensor")

    def set_dof_position_target_tensor_indexed(self, sim: Sim, targets: Tensor, actors: Tensor, count: int) -> bool:
        return _write(_POSITIONS, sim, targets, "set_dof_position_target_tensor_indexed", (actors, count))

    def set_dof_velocity_target_tensor(self, sim: Sim, targets: Tensor) -> bool:
        return _write(_VELOCITIES, sim, targets, "set_dof_velocity_target_tensor")

    def set_dof_velocity_target_tensor_indexed(self, sim: Sim, targets: Tensor, actors: Tensor, count: int) -> bool:
        return _write(_VELOCITIES, sim, targets, "set_dof_velocity_target_tensor_indexed", (actors, count))

    def apply_rigid_body_force_tensors(
        self,
        sim: Sim,
        forceTensor: Optional[Tensor] = None,  # noqa: N803
        torqueTensor: Optional[Tensor] = None,  # noqa: N803
        space: CoordinateSpace = CoordinateSpace.ENV_SPACE,
    ) -> bool:
        """Apply forces and torques [bodies, 3] at the centres of mass for the next ``simulate``."""
        call = "apply_rigid_body_force_tensors"
        engine = engine_of(sim, call)
        given = (forceTensor, torqueTensor)
        force, torque = (None if x is None else _vectors(engine, x, call) for x in given)
        engine.applied_forces.at_centres(force, torque, CoordinateSpace(space))
        return True

    def apply_rigid_body_force_at_pos_tensors(
        self,
        sim: Sim,
        forceTensor: Tensor,  # noqa: N803
        posTensor: Optional[Tensor] = None,  # noqa: N803
        space: CoordinateSpace = CoordinateSpace.ENV_SPACE,
    ) -> bool:
        """Apply forces [bodies, 3] at positions [bodies, 3] for the next ``simulate``."""
        call = "apply_rigid_body_force_at_pos_tensors"
        engine = engine_of(sim, call)
        if posTensor is None:
            return self.apply_rigid_body_force_tensors(sim, forceTensor, None, space)
        force, pos = _vectors(engine, forceTensor, call), _vectors(engine, posTensor, call)
        engine.applied_forces.at_positions(force, pos, CoordinateSpace(space))
        return True

    # Forces of joints and sensors, Jacobians, mass matrices.

    def acquire_dof_force_tensor(self, sim: Sim) -> Tensor:
        """Return [DoFs]: the force that efforts and drives applied in the last step."""
        return Tensor(prepared(sim, "acquire_dof_force_tensor").dof_forces.buffer)

    def refresh_dof_force_tensor(self, sim: Sim) -> bool:
        engine_of(sim, "refresh_dof_force_tensor").dof_forces.refresh()
        return True

    def acquire_force_sensor_tensor(self, sim: Sim) -> Tensor:
        """Return [sensors, 6]: force and torque at each sensor."""
        return Tensor(prepared(sim, "acquire_force_sensor_tensor").force_sensors.buffer)

    def refresh_force_sensor_tensor(self, sim: Sim) -> bool:
        engine_of(sim, "refresh_force_sensor_tensor").force_sensors.refresh()
        return True

    def acquire_jacobian_tensor(self, sim: Sim, name: str) -> Tensor:
        """Return [environments, bodies, 6, 6 + DoFs] of a named actor: of linear, then angular velocities of the
        centres of mass, by the root's velocities and the DoFs'. A fixed base has [.., bodies - 1, 6, DoFs]."""
        return Tensor(prepared(sim, "acquire_jacobian_tensor").jacobians.acquire(name))

    def refresh_jacobian_tensors(self, sim: Sim) -> bool:
        engine_of(sim, "refresh_jacobian_tensors").jacobians.refresh()
        return True

    def acquire_mass_matrix_tensor(self, sim: Sim, name: str) -> Tensor:
        """Return [environments, 6 + DoFs, 6 + DoFs] of a named actor; [.., DoFs, DoFs] with a fixed base."""
        return Tensor(prepared(sim, "acquire_mass_matrix_tensor").mass_matrices.acquire(name))

    def refresh_mass_matrix_tensors(self, sim: Sim) -> bool:
        engine_of(sim, "refresh_mass_matrix_tensors").mass_matrices.refresh()
        return True

    # Cameras.

    def create_camera_sensor(self, env: Env, props: Optional[CameraProperties] = None) -> int:
        """Add a camera to an environment; return its handle."""
        env_of(env, "create_camera_sensor").cameras.append(Camera(env.index, props or CameraProperties()))
        return len(env.cameras) - 1

    def set_camera_location(self, camera: int, env: Env, position: Vec3, target: Vec3) -> None:
        """Place a camera in the environment's frame, looking at a target."""
        camera_of(env, camera, "set_camera_location").place(as_array(position), look_at(position, target))

    def set_camera_transform(self, camera: int, env: Env, pose: Transform) -> None:
        camera_of(env, camera, "set_camera_transform").place(as_array(pose.p), to_wxyz(pose.r))

    def attach_camera_to_body(self, camera: int, env: Env, body: int, pose: Transform, mode: CameraFollowMode) -> None:
        found = camera_of(env, camera, "attach_camera_to_body")
        if not 0 <= body < env.num_bodies:
            raise IndexError(f"attach_camera_to_body: body {body}; environment {env.index} has {env.num_bodies} bodies")
        found.attach(body, pose, mode)

    def get_camera_transform(self, sim: Sim, env: Env, camera: int) -> Transform:
        """Return the camera's pose in the world."""
        found, engine = camera_of(env, camera, "get_camera_transform"), sim_of(sim, "get_camera_transform").engine
        pos, quat = found.pose(None if engine is None else engine.kinematics)
        return to_transform(pos + env.origin, quat)

    def step_graphics(self, sim: Sim) -> None:
        """Do nothing: pictures are of the present state."""
        sim_of(sim, "step_graphics")

    def render_all_camera_sensors(self, sim: Sim) -> None:
        """Draw into the tensors of ``get_camera_image_gpu_tensor``."""
        pictures_of(sim, "render_all_camera_sensors").draw_tensors(env.cameras for env in sim.envs)

    def get_camera_image(self, sim: Sim, env: Env, camera: int, kind: ImageType) -> np.ndarray:
        """Return colour uint8 [h, w * 4], depth float32 [h, w] (negative, m), or segmentation uint32 [h, w]."""
        pictures = pictures_of(sim, "get_camera_image")
        return pictures.image(camera_of(env, camera, "get_camera_image"), ImageType(kind))

    def get_camera_image_gpu_tensor(self, sim: Sim, env: Env, camera: int, kind: ImageType) -> Tensor:
        """Return a tensor that ``render_all_camera_sensors`` writes to."""
        device = engine_of(sim, "get_camera_image_gpu_tensor").layout.device
        return camera_of(env, camera, "get_camera_image_gpu_tensor").tensor(ImageType(kind), device)

    def start_access_image_tensors(self, sim: Sim) -> None:
        """Do nothing: tensors can be read at any time."""
        sim_of(sim, "start_access_image_tensors")

    def end_access_image_tensors(self, sim: Sim) -> None:
        """Do nothing."""
        sim_of(sim, "end_access_image_tensors")

    # The viewer.

    def create_viewer(self, sim: Sim, props: Optional[CameraProperties] = None) -> Viewer:
        """Return a viewer; its window opens at the first ``draw_viewer``, if there is a display."""
        return sim_of(sim, "create_viewer").create_viewer(props or CameraProperties())

    def destroy_viewer(self, viewer: Viewer) -> None:
        viewer_of(viewer, "destroy_viewer").close()

    def query_viewer_has_closed(self, viewer: Viewer) -> bool:
        return viewer_of(viewer, "query_viewer_has_closed").closed

    def draw_viewer(self, viewer: Viewer, sim: Sim, render_collision: bool = False) -> None:
        """Show the collision shapes of at most 256 environments."""
        viewer_of(viewer, "draw_viewer").draw()

    def poll_viewer_events(self, viewer: Viewer) -> None:
        """Do nothing: the window collects events by itself."""
        viewer_of(viewer, "poll_viewer_events")

    def sync_frame_time(self, sim: Sim) -> None:
        """Wait until as much time has passed as was simulated, if there is a window."""
        if sim_of(sim, "sync_frame_time").is_shown:
            sim.wait_for_frame()

    def subscribe_viewer_keyboard_event(self, viewer: Viewer, key: int, action: str) -> None:
        viewer_of(viewer, "subscribe_viewer_keyboard_event").actions[int(key)] = action

    def subscribe_viewer_mouse_event(self, viewer: Viewer, button: int, action: str) -> None:
        """Accept the subscription; MuJoCo's window keeps the mouse for its camera, so no event comes."""
        viewer_of(viewer, "subscribe_viewer_mouse_event")

    def query_viewer_action_events(self, viewer: Viewer) -> List[ActionEvent]:
        """Return the events since the last call."""
        events, viewer.events = viewer_of(viewer, "query_viewer_action_events").events, []
        return events

    def viewer_camera_look_at(self, viewer: Viewer, env: Optional[Env], position: Vec3, target: Vec3) -> None:
        """Move the viewer's camera; without an environment, positions are in the world."""
        origin = np.zeros(3) if env is None else env.origin
        index = None if env is None else env.index
        viewer_of(viewer, "viewer_camera_look_at").look(index, position, target, origin)

    def get_viewer_camera_transform(self, viewer: Viewer, env: Optional[Env]) -> Transform:
        """Return the viewer's pose in an environment, or in the world."""
        own = viewer_of(viewer, "get_viewer_camera_transform")
        return to_transform(own.pos - (0.0 if env is None else env.origin), own.quat)

    def get_viewer_camera_handle(self, viewer: Viewer) -> int:
        """Return -1: the viewer's camera is none of an environment's."""
        viewer_of(viewer, "get_viewer_camera_handle")
        return -1

    def draw_env_rigid_contacts(self, viewer: Viewer, env: Env, color: Vec3, scale: float, sync: bool) -> None:
        """Do nothing: the window shows no contacts."""
        viewer_of(viewer, "draw_env_rigid_contacts")

    def write_viewer_image_to_file(self, viewer: Viewer, path: str) -> None:
        """Write a PNG file with the viewer's environment from the viewer's place; needs OpenGL and Pillow."""
        viewer_of(viewer, "write_viewer_image_to_file").write_image(path)

    def write_camera_image_to_file(self, sim: Sim, env: Env, camera: int, kind: ImageType, path: str) -> None:
        """Write a colour picture as a PNG file; needs OpenGL and Pillow."""
        if kind != ImageType.IMAGE_COLOR:
            raise NotImplementedError("write_camera_image_to_file: only IMAGE_COLOR; get the others as arrays")
        image = self.get_camera_image(sim, env, camera, kind)
        write_png(image.reshape(len(image), -1, 4)[..., :3], path)

    def clear_lines(self, viewer: Viewer) -> None:
        viewer_of(viewer, "clear_lines").lines.clear()

    def add_lines(self, viewer: Viewer, env: Optional[Env], count: int, vertices: Any, colors: Any) -> None:
        """Draw lines between points [2 * count] (``Vec3.dtype`` or floats), in the environment's frame."""
        origin = np.zeros(3) if env is None else env.origin
        ends = _floats(vertices).reshape(-1, 2, 3)[:count] + origin
        viewer_of(viewer, "add_lines").lines.append((ends, _floats(colors).reshape(-1, 3)[:count]))

    def set_rigid_body_color(self, env: Env, actor: int, body: int, kind: MeshType, color: Vec3) -> None:
        """Colour the shapes of a body, in the pictures of all environments."""
        own = actor_of(env, actor, "set_rigid_body_color")
        own.asset.colors[body] = as_array(color)

    def get_rigid_body_segmentation_id(self, env: Env, actor: int, body: int) -> int:
        return int(segmentation_of(env, actor, body, "get_rigid_body_segmentation_id")[body])

    def set_rigid_body_segmentation_id(self, env: Env, actor: int, body: int, segmentation: int) -> None:
        """Set what segmentation pictures show for a body."""
        segmentation_of(env, actor, body, "set_rigid_body_segmentation_id")[body] = segmentation

    def set_light_parameters(self, sim: Sim, index: int, intensity: Vec3, ambient: Vec3, direction: Vec3) -> None:
        """Accept and ignore: pictures have MuJoCo's headlight."""
        sim_of(sim, "set_light_parameters")


def _index(names: Sequence[str], name: str) -> int:
    """Return the index of a name, -1 if there is none."""
    return names.index(name) if name in names else -1


def _dofs(engine: Engine) -> int:
    return engine.layout.num_envs * engine.layout.num_dofs


class _Setter(NamedTuple):
    """How a tensor of a caller is written: its name in messages, its number of values, and the engine's method."""

    what: str
    size: Callable[[Engine], int]
    write: Callable[[Engine], Callable[[torch.Tensor, Optional[torch.Tensor]], None]]
    """Of values, and flat indices of actors or None for all."""


_ROOTS = _Setter("the state", lambda engine: engine.roots.buffer.numel(), lambda engine: engine.roots.write)
_DOFS = _Setter("the state", lambda engine: engine.dofs.buffer.numel(), lambda engine: engine.dofs.write)
_EFFORTS = _Setter("the tensor of forces", _dofs, lambda engine: engine.efforts.set)
_POSITIONS = _Setter("the tensor of targets", _dofs, lambda engine: engine.drives.set_positions)
_VELOCITIES = _Setter("the tensor of targets", _dofs, lambda engine: engine.drives.set_velocities)


def _write(setter: _Setter, sim: Sim, values: Tensor, call: str, chosen: Optional[Tuple[Tensor, int]] = None) -> bool:
    """Write the values of all actors, or those of the chosen ones: a tensor of actors, and how many of them."""
    engine = engine_of(sim, call)
    layout, rows = engine.layout, None
    if chosen is not None:
        actors, count = chosen
        rows = indices(actors, int(count), layout.num_envs * layout.num_actors, call, layout.device)
    setter.write(engine)(floats(values, setter.size(engine), call, setter.what, layout.device), rows)
    return True


def _vectors(engine: Engine, tensor: Tensor, call: str) -> torch.Tensor:
    """Return a tensor [environments, bodies, 3] of a handle."""
    shape = (engine.layout.num_envs, engine.layout.num_bodies, 3)
    return floats(tensor, math.prod(shape), call, "the tensor", engine.layout.device).view(shape)


def _floats(array: Any) -> np.ndarray:
    """Return points as floats: an array of ``Vec3.dtype``, of floats, or a list of ``Vec3``."""
    if isinstance(array, (list, tuple)) and array and isinstance(array[0], Vec3):
        return np.stack([as_array(point) for point in array])
    array = np.asarray(array)
    if array.dtype.names:
        return np.stack([array[name] for name in "xyz"], axis=-1).astype(float)
    return array.astype(float)
