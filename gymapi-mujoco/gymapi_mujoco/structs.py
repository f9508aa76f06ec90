"""The value classes of ``gymapi``: vectors, quaternions, transforms, parameters and properties.

They have declared fields only, and floats rounded to 32 bits, as the C++ classes have. Defaults are those of Isaac Gym
as far as they are public.
"""

from __future__ import annotations

import copy
import math
import sys
from typing import Any, Callable, ClassVar, Dict, Optional, Tuple

import numpy as np

from gymapi_mujoco.enums import ContactCollection, MeshNormalMode, UpAxis
from gymapi_mujoco.rotations import euler_to_wxyz, multiply, rotation_matrix


def to_float(value: Any) -> float:
    """Return a number, or an array or tensor of one element, rounded to float32.

    The C++ fields are float32: a step of 0.005 s reads as 0.004999999888, and clients depend on it.
    """
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, (str, bytes)) or value is None:
        raise TypeError(f"{value!r} is not a number")
    return float(np.float32(value))


def to_int(value: Any) -> int:
    """Return an integer; floats with a fraction are a TypeError."""
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, str) or number is None or int(number) != number:
        raise TypeError(f"{value!r} is not an integer")
    return int(number)


_PLAIN: Dict[str, Callable[[Any], Any]] = {"float": to_float, "int": to_int, "bool": bool, "str": str}


class Struct:
    """A class whose annotated attributes are its fields; other attributes are an AttributeError."""

    _converters: ClassVar[Dict[str, Callable[[Any], Any]]] = {}
    _defaults: ClassVar[Dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        kinds = {name: kind for name, kind in cls.__annotations__.items() if "ClassVar" not in kind}
        cls._converters = {name: _PLAIN.get(kind) or _checked(cls.__module__, kind) for name, kind in kinds.items()}
        cls._defaults = {name: cls._converters[name](getattr(cls, name)) for name in kinds}

    def __init__(self) -> None:
        for name, value in self._defaults.items():
            self.__dict__[name] = copy.deepcopy(value) if isinstance(value, Struct) else value

    def __setattr__(self, name: str, value: Any) -> None:
        convert = self._converters.get(name)
        if convert is None:
            raise AttributeError(
                f"gymapi.{type(self).__name__} has no attribute '{name}'; it has {', '.join(self._converters)}"
            )
        try:
            self.__dict__[name] = convert(value)
        except (TypeError, ValueError, RuntimeError) as error:
            raise TypeError(f"gymapi.{type(self).__name__}.{name}: {error}") from None

    def __eq__(self, other: Any) -> bool:
        return type(other) is type(self) and other.__dict__ == self.__dict__

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"

    def __deepcopy__(self, memo: Any) -> Any:
        twin = self.__class__.__new__(self.__class__)
        for name, value in self.__dict__.items():
            twin.__dict__[name] = copy.deepcopy(value) if isinstance(value, Struct) else value
        return twin

    def __copy__(self) -> Any:
        return copy.deepcopy(self)


def _checked(module: str, kind: str) -> Callable[[Any], Any]:
    """Return the conversion of a field whose type is a class of the same module, looked up at the first use."""

    def convert(value: Any) -> Any:
        wanted = getattr(sys.modules[module], kind)
        if isinstance(value, wanted):
            return copy.deepcopy(value) if isinstance(value, Struct) else value  # a field is a value of its own
        if hasattr(wanted, "__members__"):  # an enumeration takes its number
            try:
                return wanted(to_int(value))
            except ValueError:
                raise TypeError(f"{value!r} is not one of {', '.join(wanted.__members__)}") from None
        raise TypeError(f"got {type(value).__name__}, and it takes a gymapi.{kind}")

    return convert


# Vectors, quaternions (x y z w) and transforms.


class Vec2(Struct):
    dtype: ClassVar[np.dtype] = np.dtype([("x", "<f4"), ("y", "<f4")])
    x: float = 0.0
    y: float = 0.0

    def __init__(self, x: float = 0.0, y: float = 0.0) -> None:
        self.__dict__.update(x=to_float(x), y=to_float(y))


class Vec3(Struct):
    dtype: ClassVar[np.dtype] = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4")])
    x: float = 0.0
    y: float = 0.0
    z: float = 0.0

    def __init__(self, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> None:
        self.__dict__.update(x=to_float(x), y=to_float(y), z=to_float(z))

    def __add__(self, other: Vec3) -> Vec3:
        return Vec3(self.x + other.x, self.y + other.y, self.z + other.z)

    def __sub__(self, other: Vec3) -> Vec3:
        return Vec3(self.x - other.x, self.y - other.y, self.z - other.z)

    def __mul__(self, factor: float) -> Vec3:
        return Vec3(self.x * factor, self.y * factor, self.z * factor)

    def __truediv__(self, divisor: float) -> Vec3:
        return Vec3(self.x / divisor, self.y / divisor, self.z / divisor)

    def __neg__(self) -> Vec3:
        return self * -1.0

    def dot(self, other: Vec3) -> float:
        return self.x * other.x + self.y * other.y + self.z * other.z

    def cross(self, other: Vec3) -> Vec3:
        return Vec3(*np.cross(as_array(self), as_array(other)))

    def length_sq(self) -> float:
        return self.dot(self)

    def length(self) -> float:
        return math.sqrt(self.length_sq())

    def normalize(self) -> Vec3:
        return self / self.length()

    @staticmethod
    def from_buffer(buffer: Any) -> np.ndarray:
        return np.frombuffer(buffer, dtype=Vec3.dtype)


class Quat(Struct):
    """A rotation; the product ``a * b`` rotates by b, then by a."""

    dtype: ClassVar[np.dtype] = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("w", "<f4")])
    x: float = 0.0
    y: float = 0.0
    z: float = 0.0
    w: float = 1.0

    def __init__(self, x: float = 0.0, y: float = 0.0, z: float = 0.0, w: float = 1.0) -> None:
        self.__dict__.update(x=to_float(x), y=to_float(y), z=to_float(z), w=to_float(w))

    def __mul__(self, other: Quat) -> Quat:
        return from_wxyz(multiply(to_wxyz(self), to_wxyz(other)))

    def inverse(self) -> Quat:
        return Quat(-self.x, -self.y, -self.z, self.w)

    def normalize(self) -> Quat:
        return from_wxyz(to_wxyz(self) / np.linalg.norm(to_wxyz(self)))

    def rotate(self, vector: Vec3) -> Vec3:
        return Vec3(*(rotation_matrix(to_wxyz(self)) @ as_array(vector)))

    def to_euler_zyx(self) -> Tuple[float, float, float]:
        """Return roll, pitch and yaw [rad]: rotations about x, then y, then z of the fixed frame."""
        matrix = rotation_matrix(to_wxyz(self))
        pitch = math.asin(max(-1.0, min(1.0, -matrix[2, 0])))
        return math.atan2(matrix[2, 1], matrix[2, 2]), pitch, math.atan2(matrix[1, 0], matrix[0, 0])

    @staticmethod
    def from_euler_zyx(roll: float, pitch: float, yaw: float) -> Quat:
        return from_wxyz(euler_to_wxyz(roll, pitch, yaw))

    @staticmethod
    def from_axis_angle(axis: Vec3, angle: float) -> Quat:
        unit = as_array(axis) / np.linalg.norm(as_array(axis))
        return from_wxyz(np.concatenate(([math.cos(angle / 2)], math.sin(angle / 2) * unit)))

    @staticmethod
    def from_buffer(buffer: Any) -> np.ndarray:
        return np.frombuffer(buffer, dtype=Quat.dtype)


class Transform(Struct):
    """A rotation ``r``, then a translation ``p``; the product ``a * b`` transforms by b, then by a."""

    dtype: ClassVar[np.dtype] = np.dtype([("p", Vec3.dtype), ("r", Quat.dtype)])
    p: Vec3 = Vec3()
    r: Quat = Quat()

    def __init__(self, p: Optional[Vec3] = None, r: Optional[Quat] = None) -> None:
        self.p = p if p is not None else Vec3()
        self.r = r if r is not None else Quat()

    def __mul__(self, other: Transform) -> Transform:
        return Transform(self.transform_point(other.p), self.r * other.r)

    def inverse(self) -> Transform:
        back = self.r.inverse()
        return Transform(-back.rotate(self.p), back)

    def transform_point(self, point: Vec3) -> Vec3:
        return self.r.rotate(point) + self.p

    def transform_vector(self, vector: Vec3) -> Vec3:
        return self.r.rotate(vector)

    def transform_points(self, points: np.ndarray) -> np.ndarray:
        """Return an array of ``Vec3.dtype``, transformed."""
        return self._rotated(points, as_array(self.p))

    def transform_vectors(self, vectors: np.ndarray) -> np.ndarray:
        return self._rotated(vectors, np.zeros(3))

    def _rotated(self, values: np.ndarray, offset: np.ndarray) -> np.ndarray:
        values = np.asarray(values, dtype=Vec3.dtype)
        rows = np.stack([values["x"], values["y"], values["z"]], axis=-1)
        rows = rows @ rotation_matrix(to_wxyz(self.r)).T + offset
        out: Any = np.empty(values.shape, Vec3.dtype)
        for i, name in enumerate("xyz"):
            out[name] = rows[..., i]
        return out

    @staticmethod
    def from_buffer(buffer: Any) -> np.ndarray:
        return np.frombuffer(buffer, dtype=Transform.dtype)


class Mat33(Struct):
    """Three rows."""

    x: Vec3 = Vec3()
    y: Vec3 = Vec3()
    z: Vec3 = Vec3()

    def __init__(self) -> None:
        self.__dict__.update(x=Vec3(), y=Vec3(), z=Vec3())


class Mat44(Struct):
    x: Quat = Quat(0, 0, 0, 0)
    y: Quat = Quat(0, 0, 0, 0)
    z: Quat = Quat(0, 0, 0, 0)
    w: Quat = Quat(0, 0, 0, 0)


def as_array(vector: Vec3) -> np.ndarray:
    """Return x, y, z as float64 [3]."""
    return np.array([vector.x, vector.y, vector.z])


def to_wxyz(quat: Quat) -> np.ndarray:
    """Return a quaternion in MuJoCo's order [4]."""
    return np.array([quat.w, quat.x, quat.y, quat.z])


def from_wxyz(quat: np.ndarray) -> Quat:
    return Quat(quat[1], quat[2], quat[3], quat[0])


def to_transform(pos: np.ndarray, quat: np.ndarray) -> Transform:
    """Return the transform of a position and a quaternion w x y z."""
    return Transform(Vec3(*pos), from_wxyz(quat))


# Parameters and properties.


class FlexParams(Struct):
    """Accepted and not used: the engine is not Flex."""

    contact_regularization: float = 0.0
    deterministic_mode: bool = False
    dynamic_friction: float = 0.0
    friction_mode: int = 2
    geometric_stiffness: float = 0.0
    max_rigid_contacts: int = 0
    max_soft_contacts: int = 0
    num_inner_iterations: int = 20
    num_outer_iterations: int = 4
    particle_friction: float = 0.0
    relaxation: float = 0.75
    return_contacts: bool = False
    shape_collision_distance: float = 0.0
    shape_collision_margin: float = 0.0
    solver_type: int = 5
    static_friction: float = 0.0
    warm_start: float = 0.4


class PhysXParams(Struct):
    """``num_threads`` limits the threads; the other settings are of PhysX's solver and are not used."""

    always_use_articulations: bool = False
    bounce_threshold_velocity: float = 0.2
    contact_collection: ContactCollection = ContactCollection.CC_ALL_SUBSTEPS
    contact_offset: float = 0.02
    default_buffer_size_multiplier: float = 2.0
    friction_correlation_distance: float = 0.025
    friction_offset_threshold: float = 0.04
    max_depenetration_velocity: float = 100.0
    max_gpu_contact_pairs: int = 1048576
    num_position_iterations: int = 4
    num_subscenes: int = 0
    num_threads: int = 0
    num_velocity_iterations: int = 1
    rest_offset: float = 0.001
    solver_type: int = 1
    use_gpu: bool = False


class SimParams(Struct):
    """Time step [s], gravity [m/s^2] and settings of the engine."""

    dt: float = 1 / 60
    enable_actor_creation_warning: bool = True
    flex: FlexParams = FlexParams()
    gravity: Vec3 = Vec3(0.0, -9.8, 0.0)
    num_client_threads: int = 0
    physx: PhysXParams = PhysXParams()
    stress_visualization: bool = False
    stress_visualization_max: float = 0.0
    stress_visualization_min: float = 0.0
    substeps: int = 2
    up_axis: UpAxis = UpAxis.UP_AXIS_Y
    use_gpu_pipeline: bool = False


class PlaneParams(Struct):
    """A plane n . x + distance = 0."""

    distance: float = 0.0
    dynamic_friction: float = 1.0
    normal: Vec3 = Vec3(0.0, 1.0, 0.0)
    restitution: float = 0.0
    segmentation_id: int = 0
    static_friction: float = 1.0


class HeightFieldParams(Struct):
    """``nbColumns`` samples along x, ``nbRows`` along y; ``transform.p`` is the place of the first sample."""

    column_scale: float = 1.0
    dynamic_friction: float = 1.0
    nbColumns: int = 0  # noqa: N815
    nbRows: int = 0  # noqa: N815
    restitution: float = 0.0
    row_scale: float = 1.0
    segmentation_id: int = 0
    static_friction: float = 1.0
    transform: Transform = Transform()
    vertical_scale: float = 1.0


class TriangleMeshParams(Struct):
    dynamic_friction: float = 1.0
    nb_triangles: int = 0
    nb_vertices: int = 0
    restitution: float = 0.0
    segmentation_id: int = 0
    static_friction: float = 1.0
    transform: Transform = Transform()


class VhacdParams(Struct):
    """Accepted and not used: meshes collide as their convex hulls."""

    alpha: float = 0.05
    beta: float = 0.05
    concavity: float = 0.0
    convex_hull_approximation: bool = True
    convex_hull_downsampling: int = 4
    max_convex_hulls: int = 64
    max_num_vertices_per_ch: int = 64
    min_volume_per_ch: float = 0.0001
    mode: int = 0
    ocl_acceleration: bool = True
    pca: int = 0
    plane_downsampling: int = 4
    project_hull_vertices: bool = True
    resolution: int = 100000


class AssetOptions(Struct):
    angular_damping: float = 0.5
    armature: float = 0.0
    collapse_fixed_joints: bool = False
    convex_decomposition_from_submeshes: bool = False
    default_dof_drive_mode: int = 0
    density: float = 1000.0
    disable_gravity: bool = False
    enable_gyroscopic_forces: bool = True
    fix_base_link: bool = False
    flip_visual_attachments: bool = False
    linear_damping: float = 0.0
    max_angular_velocity: float = 64.0
    max_linear_velocity: float = 1000.0
    mesh_normal_mode: MeshNormalMode = MeshNormalMode.FROM_ASSET
    min_particle_mass: float = 1e-12
    override_com: bool = False
    override_inertia: bool = False
    replace_cylinder_with_capsule: bool = False
    slices_per_cylinder: int = 20
    tendon_limit_stiffness: float = 1.0
    thickness: float = 0.02
    use_mesh_materials: bool = False
    use_physx_armature: bool = True
    vhacd_enabled: bool = False
    vhacd_params: VhacdParams = VhacdParams()


class RigidShapeProperties(Struct):
    """Friction is used; restitution, rolling and torsional friction and compliance are not."""

    compliance: float = 0.0
    contact_offset: float = 0.02
    filter: int = 0
    friction: float = 1.0
    rest_offset: float = 0.001
    restitution: float = 0.0
    rolling_friction: float = 0.0
    thickness: float = 0.01
    torsion_friction: float = 0.0


class RigidBodyProperties(Struct):
    """Mass [kg], centre of mass [m] in the body's frame, inertia [kg m^2] about it."""

    com: Vec3 = Vec3()
    flags: int = 0
    inertia: Mat33 = Mat33()
    invInertia: Mat33 = Mat33()  # noqa: N815
    invMass: float = 0.0  # noqa: N815
    mass: float = 0.0


class ForceSensorProperties(Struct):
    enable_constraint_solver_forces: bool = True
    enable_forward_dynamics_forces: bool = True
    use_world_frame: bool = False


class CameraProperties(Struct):
    """Size [pixels], field of view [deg], planes [m]."""

    enable_tensors: bool = False
    far_plane: float = 2.0e6
    height: int = 900
    horizontal_fov: float = 90.0
    near_plane: float = 0.001
    supersampling_horizontal: int = 1
    supersampling_vertical: int = 1
    use_collision_geometry: bool = False
    width: int = 1600


class DofState(Struct):
    dtype: ClassVar[np.dtype] = np.dtype([("pos", "<f4"), ("vel", "<f4")])
    pos: float = 0.0
    vel: float = 0.0


class Velocity(Struct):
    dtype: ClassVar[np.dtype] = np.dtype([("linear", Vec3.dtype), ("angular", Vec3.dtype)])
    linear: Vec3 = Vec3()
    angular: Vec3 = Vec3()


class RigidBodyState(Struct):
    dtype: ClassVar[np.dtype] = np.dtype([("pose", Transform.dtype), ("vel", Velocity.dtype)])
    pose: Transform = Transform()
    vel: Velocity = Velocity()


class ActuatorProperties(Struct):
    control_limited: bool = False
    force_limited: bool = False
    kp: float = 0.0
    kv: float = 0.0
    lower_control_limit: float = 0.0
    lower_force_limit: float = 0.0
    motor_effort: float = 0.0
    upper_control_limit: float = 0.0
    upper_force_limit: float = 0.0


class TendonProperties(Struct):
    """Of a fixed tendon: torque of a joint = (stiffness (rest length - length) - damping d length / dt) / coefficient,
    and the same of ``limit_stiffness`` outside of the limits."""

    damping: float = 0.0
    fixed_lower_limit: float = 0.0
    fixed_spring_rest_length: float = 0.0
    fixed_upper_limit: float = 0.0
    is_fixed_limited: bool = False
    limit_stiffness: float = 0.0
    stiffness: float = 0.0


class AttractorProperties(Struct):
    """What pulls a body: ``target`` is a pose in the environment's frame, ``offset`` the place on the body."""

    axes: int = 0
    damping: float = 0.0
    offset: Transform = Transform()
    rigid_handle: int = 0
    stiffness: float = 0.0
    target: Transform = Transform()


class DofFrame(Struct):
    """Origin and axis of a DoF in its environment."""

    origin: Vec3 = Vec3()
    axis: Vec3 = Vec3()


class IndexRange(Struct):
    start: int = 0
    count: int = 0


class Int2(Struct):
    x: int = 0
    y: int = 0


class Version(Struct):
    major: int = 1
    minor: int = 0
