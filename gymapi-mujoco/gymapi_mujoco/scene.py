"""What a client builds before ``prepare_sim``: ground, environments and actors. The engine is built from it."""

from __future__ import annotations

import copy
import math
from typing import Callable, Dict, List, Sized, Tuple

import numpy as np

from gymapi_mujoco.asset import DOF_DTYPE, NO_LIMIT, Asset
from gymapi_mujoco.enums import DofDriveMode
from gymapi_mujoco.ground import Ground
from gymapi_mujoco.rotations import multiply, rotation_matrix
from gymapi_mujoco.structs import (
    AttractorProperties,
    Mat33,
    RigidBodyProperties,
    RigidShapeProperties,
    SimParams,
    Transform,
    Vec3,
    as_array,
    to_wxyz,
)

_Check = Callable[[np.ndarray], np.ndarray]


def _not_negative(values: np.ndarray) -> np.ndarray:
    return values >= 0  # NaN is not


_ALLOWED: Dict[str, _Check] = {
    "driveMode": lambda values: np.isin(values, [int(mode) for mode in DofDriveMode]),
    **{name: _not_negative for name in ("velocity", "effort", "stiffness", "damping", "friction", "armature")},
    **{name: lambda values: ~np.isnan(values) for name in ("lower", "upper")},
}
_WANTED = {"driveMode": "a DOF_MODE_ constant", "lower": "a number", "upper": "a number"}


class Actor:
    """One copy of an asset in an environment, with properties of its own."""

    def __init__(
        self,
        asset: Asset,
        pose: Transform,
        name: str,
        group: int,
        mask: int,
        segmentation: int,
        before: List[Actor],
    ):
        """``before`` are the actors that the environment has already."""
        self.asset, self.name, self.group = asset, name, group
        self.segmentation = np.full(len(asset.bodies), segmentation, dtype=np.uint32)
        self.quat = to_wxyz(pose.r) / np.linalg.norm(to_wxyz(pose.r))
        self.pos = as_array(pose.p)
        props = asset.shape_properties
        self.friction = np.array([shape.friction for shape in props])
        self.restitution = np.array([shape.restitution for shape in props])
        self.filters = np.array([shape.filter if mask == -1 else mask for shape in props], dtype=np.int64)
        self.dof_properties = asset.dof_properties.copy()
        self.tendon_properties = copy.deepcopy(asset.tendon_properties)
        self.mass, self.com, self.inertia = asset.masses.copy(), asset.coms.copy(), asset.inertias.copy()
        self.index = len(before)
        self.body_start = sum(len(other.asset.bodies) for other in before)
        self.dof_start = sum(len(other.asset.joints) for other in before)

    def set_scale(self, scale: float) -> None:
        """Scale lengths, and masses as those of a body of the same density."""
        growth = scale / self.asset.scale
        self.asset = self.asset.scaled(scale)
        self.mass, self.com = self.mass * growth**3, self.com * growth
        self.inertia = self.inertia * growth**5
        sliding = np.array([joint.sliding for joint in self.asset.joints], dtype=bool)
        for limit in ("lower", "upper"):
            values = self.dof_properties[limit]
            values[sliding & (np.abs(values) < NO_LIMIT)] *= growth

    def start_poses(self) -> np.ndarray:
        """Return position and quaternion x y z w of each body [B, 7] with DoFs at zero or the nearest limit."""
        places: List[Tuple[np.ndarray, np.ndarray]] = []
        values = iter(np.clip(0.0, self.dof_properties["lower"], self.dof_properties["upper"]))
        for body in self.asset.bodies:
            pos, quat = (self.pos, self.quat) if body.parent < 0 else places[body.parent]
            pos, quat = pos + rotation_matrix(quat) @ body.pos, multiply(quat, body.quat)
            for joint in body.joints:
                value, held = float(next(values)), pos + rotation_matrix(quat) @ joint.anchor
                if joint.sliding:
                    pos = pos + rotation_matrix(quat) @ joint.axis * value
                    continue
                quat = multiply(quat, np.array([math.cos(value / 2), *(math.sin(value / 2) * joint.axis)]))
                pos = held - rotation_matrix(quat) @ joint.anchor
            places.append((pos, quat))
        return np.stack([np.concatenate([pos, np.roll(quat, -1)]) for pos, quat in places])

    def get_shapes(self) -> List[RigidShapeProperties]:
        """Return the properties of its shapes."""
        props = copy.deepcopy(self.asset.shape_properties)
        for shape, friction, restitution, mask in zip(props, self.friction, self.restitution, self.filters):
            shape.friction, shape.restitution, shape.filter = friction, restitution, int(mask)
        return props

    def set_shapes(self, props: List[RigidShapeProperties], prepared: bool) -> None:
        """Set friction and restitution of its shapes, and their filters if the simulation is not prepared yet."""
        require_count(props, len(self.asset.shapes), "shape", self.name)
        filters = np.array([shape.filter for shape in props], dtype=np.int64)
        if prepared and not np.array_equal(filters, self.filters):
            raise ValueError("set_actor_rigid_shape_properties: filters cannot change after prepare_sim")
        self.filters = filters
        self.friction = np.array([shape.friction for shape in props])
        self.restitution = np.array([shape.restitution for shape in props])

    def get_bodies(self) -> List[RigidBodyProperties]:
        """Return the properties of its bodies."""
        return [_body_properties(*values) for values in zip(self.mass.tolist(), self.com, self.inertia)]

    def set_bodies(self, props: List[RigidBodyProperties], recompute_inertia: bool) -> None:
        """Set mass and centre of mass; the inertia follows the mass if it is recomputed, and is the given one else."""
        require_count(props, len(self.asset.bodies), "body", self.name)
        if any(body.flags for body in props):
            raise NotImplementedError("set_actor_rigid_body_properties: flags of bodies; use AssetOptions instead")
        mass = np.array([body.mass for body in props])
        wrong = ~(np.isfinite(mass) & (mass >= 0))
        if wrong.any():
            body = int(wrong.argmax())
            raise ValueError(
                f"set_actor_rigid_body_properties: body '{self.asset.body_names[body]}' has a mass of "
                f"{mass[body]:g} kg; give zero or more"
            )
        self.com = np.array([[body.com.x, body.com.y, body.com.z] for body in props])
        if recompute_inertia:
            growth = np.where(self.asset.masses > 0, mass / np.where(self.asset.masses > 0, self.asset.masses, 1), 1)
            self.inertia = self.asset.inertias * growth[:, None, None]
        else:
            given = np.array([_rows(body.inertia) for body in props])
            rounded = given == self.inertia.astype(np.float32)
            self.inertia = np.where(rounded.all(axis=(1, 2))[:, None, None], self.inertia, given)
        self.mass = mass

    def set_dofs(self, props: np.ndarray) -> None:
        """Set limits, drive mode, gains, damping and armature of its DoFs."""
        if not isinstance(props, np.ndarray) or props.dtype.names is None:
            raise TypeError("set_actor_dof_properties: pass the array of get_actor_dof_properties, changed")
        require_count(props, len(self.dof_properties), "DoF", self.name)
        for name, allowed in _ALLOWED.items():
            wrong = ~allowed(props[name])
            if wrong.any():
                dof = int(wrong.argmax())
                raise ValueError(
                    f"set_actor_dof_properties: '{name}' of DoF '{self.asset.dof_names[dof]}' is {props[name][dof]}; "
                    f"give {_WANTED.get(name, 'zero or more')}"
                )
        self.dof_properties = props.astype(DOF_DTYPE)


class Scene:
    """The ground and the environments; each environment is a world of its own, so they never touch each other.

    As in Isaac Gym, positions of tensors are relative to the origin of their environment.
    """

    def __init__(self, params: SimParams):
        if not 0 < params.dt < math.inf or params.substeps < 1:
            raise ValueError(f"dt={params.dt:g} s in {params.substeps} substeps; both must be positive")
        self.params = params
        self.grounds: List[Ground] = []
        self.origins: List[np.ndarray] = []
        """Origin [3] of each environment in the world [m]."""
        self.actors: List[List[Actor]] = []
        """The actors of each environment."""
        self.attractors: List[List[AttractorProperties]] = []
        """The attractors of each environment."""

    def add_env(self, lower: Vec3, upper: Vec3, per_row: int) -> int:
        """Add an environment, a cell of a grid with so many in a row; return its number."""
        row, column = divmod(len(self.origins), max(1, per_row))
        size = as_array(upper) - as_array(lower)
        if int(self.params.up_axis):  # z
            self.origins.append(np.array([column * size[0], row * size[1], 0.0]))
        else:
            self.origins.append(np.array([column * size[0], 0.0, row * size[2]]))
        self.actors.append([])
        self.attractors.append([])
        return len(self.origins) - 1

    def twins(self, index: int) -> List[Actor]:
        """Return the actors of one index in all environments."""
        return [actors[index] for actors in self.actors]

    def num_bodies(self, env: int) -> int:
        return sum(len(actor.asset.bodies) for actor in self.actors[env])

    def num_dofs(self, env: int) -> int:
        return sum(len(actor.asset.joints) for actor in self.actors[env])

    def check_layout(self) -> None:
        """Refuse environments whose assets differ: all environments share one model."""
        if not self.actors or not self.actors[0]:
            raise ValueError("prepare_sim: there is no actor; call create_env and create_actor first")
        layout = [actor.asset for actor in self.actors[0]]
        for i, actors in enumerate(self.actors):
            if [actor.asset for actor in actors] != layout:
                raise NotImplementedError(
                    f"environment {i} has other assets than environment 0; all environments must have the same "
                    "assets in the same order, and of the same scale"
                )
        kinds = [[(props.rigid_handle, props.axes) for props in own] for own in self.attractors]
        if any(own != kinds[0] for own in kinds):
            raise NotImplementedError("attractors differ between environments; give all the same bodies and axes")


def require_count(props: Sized, count: int, kind: str, name: str) -> None:
    """Refuse properties that are not as many as what they are for."""
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
