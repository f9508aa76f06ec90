"""Parameter classes of ``gymapi``, with its defaults as far as they are public."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from gymapi_mujoco.enums import ContactCollection, MeshNormalMode, UpAxis
from gymapi_mujoco.structs import Struct
from gymapi_mujoco.vectors import Mat33, Transform, Vec3


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


class IndexRange(Struct):
    start: int = 0
    count: int = 0


class Int2(Struct):
    x: int = 0
    y: int = 0


class Version(Struct):
    major: int = 1
    minor: int = 0
