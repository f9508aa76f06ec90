"""An asset: a tree of bodies with joints, inertia and collision shapes, in the order of Isaac Gym."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from typing import Dict, List, Optional, Tuple

import numpy as np

from gymapi_mujoco.enums import DofDriveMode
from gymapi_mujoco.rotations import identity, multiply, rotation_matrix
from gymapi_mujoco.shapes import Shape, inertia_of_shapes
from gymapi_mujoco.structs import AssetOptions, RigidShapeProperties, TendonProperties

DOF_DTYPE = np.dtype(
    [
        ("hasLimits", "?"),
        ("lower", "<f4"),
        ("upper", "<f4"),
        ("driveMode", "<i4"),
        ("velocity", "<f4"),
        ("effort", "<f4"),
        ("stiffness", "<f4"),
        ("damping", "<f4"),
        ("friction", "<f4"),
        ("armature", "<f4"),
    ],
    align=True,
)
"""One row of ``get_asset_dof_properties``, with a C struct's alignment, so that torch can read its columns."""

NO_LIMIT = float(np.finfo(np.float32).max)
"""What a limit reads as where there is none."""


@dataclass
class Joint:
    """A degree of freedom between a body and its parent; the anchor is in the body's frame."""

    name: str
    sliding: bool
    axis: np.ndarray
    anchor: np.ndarray = field(default_factory=lambda: np.zeros(3))
    lower: float = 0.0
    upper: float = 0.0
    limited: bool = False
    effort: float = 0.0
    velocity: float = 0.0
    stiffness: float = 0.0
    damping: float = 0.0
    friction: float = 0.0
    armature: float = 0.0


@dataclass
class Motor:
    """An actuator of a joint."""

    joint: str
    effort: float
    """Force or torque for a control of 1 [N or N m]."""
    control: Optional[Tuple[float, float]] = None
    """Limits of the control; None for none."""
    force: Optional[Tuple[float, float]] = None
    """Limits of the force; None for none."""
    stiffness: float = 0.0
    damping: float = 0.0


@dataclass
class Body:
    """A rigid body; ``pos`` and ``quat`` place it in its parent's frame, where all its joints are at zero."""

    name: str
    parent: int
    """Index of the parent among the bodies, -1 for the root."""
    pos: np.ndarray = field(default_factory=lambda: np.zeros(3))
    quat: np.ndarray = field(default_factory=identity)
    joints: List[Joint] = field(default_factory=list)
    fixed_joint: str = ""
    """Name of the fixed joint that holds the body, if one does."""
    mass: float = 0.0
    com: np.ndarray = field(default_factory=lambda: np.zeros(3))
    inertia: np.ndarray = field(default_factory=lambda: np.zeros((3, 3)))
    """About the centre of mass, in the body's axes [kg m^2]."""
    shapes: List[Shape] = field(default_factory=list)


@dataclass
class Tendon:
    """A fixed tendon; its length is the sum of coefficients times joint positions."""

    name: str
    joints: List[str]
    coefficients: List[float]

    @property
    def squared_coefficient(self) -> float:
        """Return the squared geometric mean of the coefficients."""
        sizes = np.abs([x for x in self.coefficients if x != 0])
        return float(np.exp(2 * np.log(sizes).mean())) if len(sizes) else 1.0


@dataclass
class ForceSensor:
    body: int
    pos: np.ndarray
    quat: np.ndarray
    world_frame: bool
    contact: bool
    dynamics: bool


class Asset:
    """What ``load_asset`` returns."""

    def __init__(self, name: str, bodies: List[Body], options: AssetOptions):
        self.name, self.bodies, self.options = name, bodies, options
        self.body_names = [body.name for body in bodies]
        self.joints = [joint for body in bodies for joint in body.joints]
        self.dof_names = [joint.name for joint in self.joints]
        self.joint_names = [body.fixed_joint or joint for body in bodies[1:] for joint in _names_of(body)]
        self.dof_properties = np.array([_dof_row(joint, options) for joint in self.joints], dtype=DOF_DTYPE)
        self.motors = [Motor(joint.name, joint.effort, force=_limits(joint.effort)) for joint in self.joints]
        self.shapes = [(i, shape) for i, body in enumerate(bodies) for shape in body.shapes]
        self.shape_properties = [RigidShapeProperties() for _ in self.shapes]
        self.masses = np.array([body.mass for body in bodies])
        self.coms = np.array([body.com for body in bodies]).reshape(-1, 3)
        self.inertias = np.array([body.inertia for body in bodies]).reshape(-1, 3, 3)
        self.sensors: List[ForceSensor] = []
        self.tendons: List[Tendon] = []
        self.tendon_properties: List[TendonProperties] = []
        self.colors: Dict[int, np.ndarray] = {}
        self.floating = not options.fix_base_link
        self.scale = 1.0
        self._scaled: Dict[float, Asset] = {1.0: self}

    def scaled(self, scale: float) -> Asset:
        """Return this asset with its lengths scaled, always the same one for a scale."""
        if scale not in self._scaled:
            other = copy.deepcopy(self)
            growth = scale / self.scale
            for body in other.bodies:
                body.pos, body.com, body.mass = growth * body.pos, growth * body.com, growth**3 * body.mass
                body.inertia = growth**5 * body.inertia
                for joint in body.joints:
                    joint.anchor = growth * joint.anchor
                for shape in body.shapes:
                    shape.pos, shape.size = growth * shape.pos, growth * shape.size
            for sensor in other.sensors:
                sensor.pos = growth * sensor.pos
            other.masses, other.coms = growth**3 * other.masses, growth * other.coms
            other.inertias = growth**5 * other.inertias
            other.scale, other._scaled = scale, self._scaled
            self._scaled[scale] = other
        return self._scaled[scale]


def _limits(effort: float) -> Optional[Tuple[float, float]]:
    return (-effort, effort) if effort > 0 else None


def _names_of(body: Body) -> List[str]:
    return [joint.name for joint in body.joints] or [body.fixed_joint]


def _dof_row(joint: Joint, options: AssetOptions) -> tuple:
    limits = (joint.lower, joint.upper) if joint.limited else (-NO_LIMIT, NO_LIMIT)
    mode = int(DofDriveMode(options.default_dof_drive_mode))
    armature = joint.armature or options.armature
    return (
        joint.limited,
        *limits,
        mode,
        joint.velocity,
        joint.effort,
        joint.stiffness,
        joint.damping,
        joint.friction,
        armature,
    )


def combine(body: Body, other: Body) -> None:
    """Merge a body into the one that it is fixed to; ``other.pos`` and ``other.quat`` place it there."""
    turn = rotation_matrix(other.quat)
    com, inertia = turn @ other.com + other.pos, turn @ other.inertia @ turn.T
    total = body.mass + other.mass
    if total > 0:
        centre = (body.mass * body.com + other.mass * com) / total
        body.inertia = _moved(body.inertia, body.mass, body.com - centre) + _moved(inertia, other.mass, com - centre)
        body.mass, body.com = total, centre
    for shape in other.shapes:
        shape.pos, shape.quat = turn @ shape.pos + other.pos, multiply(other.quat, shape.quat)
        body.shapes.append(shape)


def _moved(inertia: np.ndarray, mass: float, offset: np.ndarray) -> np.ndarray:
    """Return an inertia about a point at ``offset`` from the centre of mass (parallel axes)."""
    return inertia + mass * (offset @ offset * np.eye(3) - np.outer(offset, offset))


def primitive(kind: str, size: np.ndarray, options: AssetOptions, quat: Optional[np.ndarray] = None) -> Asset:
    """Return an asset of one body with one shape, of the density that the options have."""
    if not (size > 0).all():
        raise ValueError(f"create_{kind}: sizes must be positive, and one is {size.min():g} m")
    shape = Shape(kind, size) if quat is None else Shape(kind, size, quat=quat)
    body = Body(kind, -1, shapes=[shape])
    body.mass, body.com, body.inertia = inertia_of_shapes([shape], options.density)
    return Asset(kind, [body], options)
