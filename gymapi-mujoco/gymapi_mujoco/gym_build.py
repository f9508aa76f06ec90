"""The calls of ``Gym`` that build a simulation: ground, assets, environments, actors and their properties."""

from __future__ import annotations

import copy
import sys
from pathlib import Path
from typing import Any, List, Optional

import numpy as np

from gymapi_mujoco.asset import DOF_DTYPE, Asset, Body, ForceSensor, Shape
from gymapi_mujoco.backends import choose
from gymapi_mujoco.engine import Engine
from gymapi_mujoco.enums import SimType
from gymapi_mujoco.ground import HeightField, Plane
from gymapi_mujoco.handles import actor_of, asset_of, engine_of, env_of, sim_of, unprepared
from gymapi_mujoco.inertia import inertia_of_shapes
from gymapi_mujoco.mjcf import read_mjcf
from gymapi_mujoco.params import (
    AssetOptions,
    ForceSensorProperties,
    HeightFieldParams,
    PlaneParams,
    RigidBodyProperties,
    RigidShapeProperties,
    SimParams,
    TriangleMeshParams,
)
from gymapi_mujoco.scene import Actor, Env, Sim, usable_threads
from gymapi_mujoco.urdf import read_urdf
from gymapi_mujoco.vectors import Mat33, Transform, Vec3, as_array, to_wxyz


class Building:
    """Part of ``Gym``."""

    _announced = False

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
        sim = Sim(params, graphics_device, choose(compute_device, params.use_gpu_pipeline, threads))
        if not Building._announced:
            Building._announced = True
            print(sim.backend, file=sys.stderr)
        return sim

    def destroy_sim(self, sim: Sim) -> None:
        sim_of(sim, "destroy_sim").closed = True
        sim.engine = None

    def prepare_sim(self, sim: Sim) -> bool:
        """Compile the model and allocate the tensors; nothing can be built afterwards."""
        unprepared(sim, "prepare_sim").engine = Engine(sim)
        return True

    def get_sim_params(self, sim: Sim) -> SimParams:
        return sim_of(sim, "get_sim_params").params

    def set_sim_params(self, sim: Sim, params: SimParams) -> None:
        """Change the parameters; after ``prepare_sim`` only gravity."""
        old = sim_of(sim, "set_sim_params").params
        if sim.engine is not None and (params.dt, params.substeps) != (old.dt, old.substeps):
            raise ValueError("set_sim_params: dt and substeps cannot change after prepare_sim; gravity can")
        sim.params = copy.deepcopy(params)
        if sim.engine is not None:
            sim.engine.parameters.apply_gravity()

    # Ground.

    def add_ground(self, sim: Sim, params: PlaneParams) -> None:
        unprepared(sim, "add_ground").grounds.append(Plane.from_params(params))

    def add_heightfield(self, sim: Sim, samples: np.ndarray, params: HeightFieldParams) -> None:
        unprepared(sim, "add_heightfield").grounds.append(HeightField.from_samples(samples, params))

    def add_triangle_mesh(
        self, sim: Sim, vertices: np.ndarray, triangles: np.ndarray, params: TriangleMeshParams
    ) -> None:
        unprepared(sim, "add_triangle_mesh").grounds.append(HeightField.from_mesh(vertices, triangles, params))

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
        if not (size > 0).all():
            raise ValueError(f"create_{kind}: sizes must be positive, and one is {size.min():g} m")
        options = copy.deepcopy(options) if options is not None else AssetOptions()
        shape = Shape(kind, size) if quat is None else Shape(kind, size, quat=quat)
        body = Body(kind, -1, shapes=[shape])
        body.mass, body.com, body.inertia = inertia_of_shapes([shape], options.density)
        return Asset(kind, [body], options)

    def get_asset_rigid_shape_properties(self, asset: Asset) -> List[RigidShapeProperties]:
        return copy.deepcopy(asset_of(asset, "get_asset_rigid_shape_properties").shape_properties)

    def set_asset_rigid_shape_properties(self, asset: Asset, props: List[RigidShapeProperties]) -> bool:
        """Set what actors created from now on have."""
        _require_count(props, len(asset_of(asset, "set_asset_rigid_shape_properties").shapes), "shape", "asset")
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

    # Environments and actors.

    def create_env(self, sim: Sim, lower: Vec3, upper: Vec3, num_per_row: int) -> Env:
        env = Env(unprepared(sim, "create_env"), lower, upper, int(num_per_row))
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
        actor = Actor(env, asset_of(asset, "create_actor"), pose, name or "", group, filter, segmentationId)
        env.actors.append(actor)
        return actor.index

    def get_actor_rigid_shape_properties(self, env: Env, actor: int) -> List[RigidShapeProperties]:
        own = actor_of(env, actor, "get_actor_rigid_shape_properties")
        props = copy.deepcopy(own.asset.shape_properties)
        for shape, friction, restitution, mask in zip(props, own.friction, own.restitution, own.filters):
            shape.friction, shape.restitution, shape.filter = friction, restitution, int(mask)
        return props

    def set_actor_rigid_shape_properties(self, env: Env, actor: int, props: List[RigidShapeProperties]) -> bool:
        """Set friction and restitution of an actor's shapes, at any time, and their filters before ``prepare_sim``."""
        own = actor_of(env, actor, "set_actor_rigid_shape_properties")
        _require_count(props, len(own.asset.shapes), "shape", own.name)
        filters = np.array([shape.filter for shape in props], dtype=np.int64)
        if env.sim.engine is not None and not np.array_equal(filters, own.filters):
            raise ValueError("set_actor_rigid_shape_properties: filters cannot change after prepare_sim")
        own.filters = filters
        own.friction = np.array([shape.friction for shape in props])
        own.restitution = np.array([shape.restitution for shape in props])
        if env.sim.engine is not None:
            env.sim.engine.parameters.apply_friction(own.index, np.array([env.index]))
        return True

    def get_actor_rigid_body_properties(self, env: Env, actor: int) -> List[RigidBodyProperties]:
        own = actor_of(env, actor, "get_actor_rigid_body_properties")
        return [_body_properties(*values) for values in zip(own.mass.tolist(), own.com, own.inertia)]

    def set_actor_rigid_body_properties(
        self,
        env: Env,
        actorHandle: int,  # noqa: N803
        props: List[RigidBodyProperties],
        recomputeInertia: bool = False,  # noqa: N803
    ) -> bool:
        """Set mass and centre of mass; the inertia follows the mass if it is recomputed, and is the given one else."""
        own = actor_of(env, actorHandle, "set_actor_rigid_body_properties")
        _require_count(props, len(own.asset.bodies), "body", own.name)
        if any(body.flags for body in props):
            raise NotImplementedError("set_actor_rigid_body_properties: flags of bodies; use AssetOptions instead")
        mass = np.array([body.mass for body in props])
        if (mass < 0).any():
            body = own.asset.body_names[int(mass.argmin())]
            raise ValueError(f"set_actor_rigid_body_properties: body '{body}' has a mass of {mass.min():g} kg")
        own.com = np.array([[body.com.x, body.com.y, body.com.z] for body in props])
        if recomputeInertia:
            growth = np.where(own.asset.masses > 0, mass / np.where(own.asset.masses > 0, own.asset.masses, 1), 1)
            own.inertia = own.asset.inertias * growth[:, None, None]
        else:
            given = np.array([_rows(body.inertia) for body in props])
            rounded = given == own.inertia.astype(np.float32)
            own.inertia = np.where(rounded.all(axis=(1, 2))[:, None, None], own.inertia, given)
        own.mass = mass
        if env.sim.engine is not None:
            env.sim.engine.parameters.apply_masses(own.index, np.array([env.index]))
        return True

    def get_actor_dof_properties(self, env: Env, actor: int) -> np.ndarray:
        return actor_of(env, actor, "get_actor_dof_properties").dof_properties.copy()

    def set_actor_dof_properties(self, env: Env, actor: int, props: np.ndarray) -> bool:
        """Set limits, drive mode, gains, damping and armature of an actor's DoFs; at any time."""
        own = actor_of(env, actor, "set_actor_dof_properties")
        if not isinstance(props, np.ndarray) or props.dtype.names is None:
            raise TypeError("set_actor_dof_properties: pass the array of get_actor_dof_properties, changed")
        _require_count(props, len(own.dof_properties), "DoF", own.name)
        own.dof_properties = props.astype(DOF_DTYPE)
        if env.sim.engine is not None:
            env.sim.engine.parameters.apply_dofs(own.index, np.array([env.index]))
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
        return engine_of(sim, "diverged_count").diverged


def _require_count(props: Any, count: int, kind: str, name: str) -> None:
    if len(props) != count:
        raise ValueError(f"properties of {len(props)} {kind}s for '{name}', which has {count}; pass all of them")


def _rows(matrix: Mat33) -> List[List[float]]:
    return [[row.x, row.y, row.z] for row in (matrix.x, matrix.y, matrix.z)]


def _body_properties(mass: float, com: np.ndarray, inertia: np.ndarray) -> RigidBodyProperties:
    props = RigidBodyProperties()
    props.mass, props.com = mass, Vec3(*com)
    props.invMass = 1 / mass if mass > 0 else 0.0
    _fill(props.inertia, inertia)
    if abs(np.linalg.det(inertia)) > 0:
        _fill(props.invInertia, np.linalg.inv(inertia))
    return props


def _fill(matrix: Mat33, rows: np.ndarray) -> None:
    matrix.x, matrix.y, matrix.z = Vec3(*rows[0]), Vec3(*rows[1]), Vec3(*rows[2])
