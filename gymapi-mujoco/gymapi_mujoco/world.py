"""The MuJoCo model of one environment: ground and actors; bodies and DoFs have the order of the client's indices."""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import warnings
from typing import Dict, List, Set, Tuple

import mujoco
import numpy as np

from gymapi_mujoco.enums import DofDriveMode
from gymapi_mujoco.inertia import add_geom, new_spec
from gymapi_mujoco.scene import Actor, Sim
from gymapi_mujoco.vectors import as_array, multiply, rotation_matrix

CONTACT_TIME = 0.01
"""Time constant of contacts [s]. MuJoCo needs at least two time steps."""

CONTACT_IMPEDANCE = 0.999
"""Impedance of contacts (the first two numbers of ``solimp``). The higher it is, the less a shape below its friction
limit creeps: the feet of a standing Go2 slide apart by 1 cm/s with MuJoCo's default, 0.9 to 0.95."""

SOLVER_ITERATIONS = 50
"""Largest number of solver iterations in a physics step. With 20, the solver stopped early for one of 256 robots that
moved at random."""

_GROUND_COLOR, _ACTOR_COLOR = [0.45, 0.47, 0.45, 1.0], [0.8, 0.8, 0.82, 1.0]

_DRIVEN = (int(DofDriveMode.DOF_MODE_POS), int(DofDriveMode.DOF_MODE_VEL))


def build_model(sim: Sim) -> mujoco.MjModel:
    """Compile the ground and the actors of environment 0."""
    spec = new_spec()
    spec.option.timestep = sim.params.dt / sim.params.substeps
    spec.option.gravity = as_array(sim.params.gravity)
    spec.option.iterations, spec.option.ls_iterations = SOLVER_ITERATIONS, 20
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_ISLAND
    # Euler treats the damping of joints implicitly, implicitfast that of drives too.
    driven = has_drives(sim)
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST if driven else mujoco.mjtIntegrator.mjINT_EULER
    _light(spec)
    for i, ground in enumerate(sim.grounds):
        geom = ground.add_to(spec, f"ground{i}")
        geom.contype, geom.conaffinity, geom.condim, geom.rgba = 1, 0, 3, _GROUND_COLOR
        geom.friction[0] = ground.friction
    classes = _collision_bits(sim.envs[0].actors)
    meshes: Dict[tuple, str] = {}
    for actor in sim.envs[0].actors:
        _add_actor(spec, actor, classes, meshes, driven)
    model = spec.compile()
    assert model.nbody == 1 + sim.envs[0].num_bodies, "MuJoCo has merged bodies"
    return model


def _light(spec: mujoco.MjSpec) -> None:
    """Give pictures a sky and enough light."""
    spec.visual.headlight.ambient, spec.visual.headlight.diffuse = [0.45] * 3, [0.5] * 3
    spec.visual.headlight.specular = [0.05] * 3
    sky = spec.add_texture(name="sky", type=mujoco.mjtTexture.mjTEXTURE_SKYBOX, width=64, height=384)
    sky.builtin, sky.rgb1, sky.rgb2 = mujoco.mjtBuiltin.mjBUILTIN_GRADIENT, [0.6, 0.7, 0.8], [0.35, 0.45, 0.6]


def ground_friction(sim: Sim) -> float:
    return sim.grounds[0].friction if sim.grounds else 1.0


def has_drives(sim: Sim) -> bool:
    """Return whether a DoF of any actor has a position or velocity drive."""
    return any(np.isin(actor.dof_properties["driveMode"], _DRIVEN).any() for env in sim.envs for actor in env.actors)


def _add_actor(
    spec: mujoco.MjSpec,
    actor: Actor,
    classes: Dict[Tuple[int, int], Tuple[int, int]],
    meshes: Dict[tuple, str],
    driven: bool,
) -> None:
    asset, parts = actor.asset, []
    shifted = _shifted_bodies(actor)
    shape_index = 0
    for i, body in enumerate(asset.bodies):
        above = spec.worldbody if body.parent < 0 else parts[body.parent]
        pos, quat = body.pos, body.quat
        if body.parent < 0:  # an asset from MJCF has an offset of its own
            pos, quat = actor.pos + rotation_matrix(actor.quat) @ pos, multiply(actor.quat, quat)
        part = above.add_body(name=f"{actor.index}/{body.name}", pos=pos, quat=quat)
        parts.append(part)
        _add_inertia(part, body.mass, body.com, body.inertia)
        if i in shifted:
            part.simple = False
        part.gravcomp = 1.0 if asset.options.disable_gravity else 0.0
        if body.parent < 0 and asset.floating:
            part.add_freejoint(name=f"{actor.index}/free")
        for joint in body.joints:
            _add_joint(part, actor, joint.name)
        for shape in body.shapes:
            geom = add_geom(spec, part, shape, meshes, density=0.0)
            geom.name = f"{actor.index}/{i}/{shape_index}"
            geom.contype, geom.conaffinity = classes[actor.index, int(actor.filters[shape_index])]
            geom.condim, geom.priority = 3, 1  # the friction of the actor's shape is used, see Parameters
            geom.solref[0] = max(2 * spec.option.timestep, CONTACT_TIME)
            geom.solimp[:2] = CONTACT_IMPEDANCE
            geom.friction[0] = (actor.friction[shape_index] + ground_friction(actor.env.sim)) / 2
            geom.rgba = [*asset.colors[i], 1.0] if i in asset.colors else _ACTOR_COLOR
            shape_index += 1
    if driven:
        for joint in asset.joints:
            spec.add_actuator(
                name=f"{actor.index}/{joint.name}",
                target=f"{actor.index}/{joint.name}",
                trntype=mujoco.mjtTrn.mjTRN_JOINT,
                gaintype=mujoco.mjtGain.mjGAIN_FIXED,
                biastype=mujoco.mjtBias.mjBIAS_AFFINE,
                forcelimited=True,
                forcerange=[-1e30, 1e30],
            )
    if actor.index == 0:  # MuJoCo computes the forces on bodies if a sensor asks for one
        parts[0].add_site(name="probe")
        site = mujoco.mjtObj.mjOBJ_SITE
        spec.add_sensor(name="probe", type=mujoco.mjtSensor.mjSENS_FORCE, objtype=site, objname="probe")


def _shifted_bodies(actor: Actor) -> Set[int]:
    """Return the bodies whose centre of mass, or shape of inertia, differs in an environment: MuJoCo must not take its
    short cut for bodies whose frame is that of their inertia."""
    twins = [env.actors[actor.index] for env in actor.env.sim.envs]
    com = np.stack([twin.com for twin in twins]) != actor.asset.coms
    inertia = np.stack([actor.asset.inertias, *(twin.inertia for twin in twins)])
    shape = inertia / np.maximum(np.trace(inertia, axis1=2, axis2=3), 1e-12)[..., None, None]
    differs = (np.abs(shape - shape[:1]) > 1e-6).any(axis=(0, 2, 3))
    return set(np.flatnonzero(com.any(axis=(0, 2)) | differs).tolist())


def _add_inertia(part: mujoco.MjsBody, mass: float, com: np.ndarray, inertia: np.ndarray) -> None:
    part.explicitinertial = True
    part.mass, part.ipos = mass, com
    part.fullinertia = [*np.diag(inertia), inertia[0, 1], inertia[0, 2], inertia[1, 2]]
    if mass <= 0 or np.linalg.eigvalsh(inertia).min() <= 0:
        part.fullinertia = [np.nan] * 6  # unset: the smallest one that MuJoCo takes
        part.mass, part.inertia = max(mass, 1e-6), np.full(3, max(1e-9, 1e-4 * mass))


def _add_joint(part: mujoco.MjsBody, actor: Actor, name: str) -> None:
    index = actor.asset.dof_names.index(name)
    joint, props = actor.asset.joints[index], actor.dof_properties[index]
    kind = mujoco.mjtJoint.mjJNT_SLIDE if joint.sliding else mujoco.mjtJoint.mjJNT_HINGE
    added = part.add_joint(name=f"{actor.index}/{name}", type=kind, axis=joint.axis, pos=joint.anchor)
    added.limited = bool(props["hasLimits"])
    if added.limited:
        added.range = [float(props["lower"]), float(props["upper"])]
    added.armature = float(props["armature"])
    added.damping[0] = float(props["damping"])


def _collision_bits(actors: List[Actor]) -> Dict[Tuple[int, int], Tuple[int, int]]:
    """Return contype and conaffinity by actor and filter: shapes touch if their filters have no bit in common and
    their groups are equal, or one of them is -1. All touch the ground, which has the first bit."""
    classes = [(actor.index, int(mask)) for actor in actors for mask in np.unique(actor.filters)]
    if len(classes) > 30:
        raise NotImplementedError(
            f"an environment with {len(classes)} collision filters of actors; MuJoCo has bits for 30: use fewer actors"
        )
    bits = {}
    for i, (actor, mask) in enumerate(classes):
        touches = 1
        for j, (other, filter_) in enumerate(classes):
            groups = actors[actor].group, actors[other].group
            if not mask & filter_ and (-1 in groups or groups[0] == groups[1]):
                touches |= 2 << j
        bits[actor, mask] = (2 << i, touches)
    return bits


def warn_unused(sim: Sim) -> None:
    """Warn once of settings that change PhysX's result and not this engine's."""
    actors = [actor for env in sim.envs for actor in env.actors]
    if any(actor.restitution.any() for actor in actors):
        warnings.warn("restitution of shapes is not used: contacts do not bounce", stacklevel=4)
    if any(actor.dof_properties["friction"].any() for actor in actors):
        warnings.warn("friction of DoFs is not used: joints have damping only", stacklevel=4)
    options = {id(actor.asset): actor.asset.options for actor in sim.envs[0].actors}.values()
    if any(option.linear_damping or option.angular_damping for option in options):
        warnings.warn("linear_damping and angular_damping of assets are not used", stacklevel=4)
