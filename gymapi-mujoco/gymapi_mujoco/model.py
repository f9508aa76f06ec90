"""The MuJoCo model of one environment: ground and actors, and where the actors are in its arrays.

Bodies and DoFs have the order of the client's indices.
"""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

from typing import Dict, List, Optional, Set, Tuple

import mujoco
import numpy as np
import torch
from torch import Tensor

from gymapi_mujoco.attractors import add_attractors
from gymapi_mujoco.contacts import CONTACT_IMPEDANCE, friction_cone, solref
from gymapi_mujoco.enums import DofDriveMode
from gymapi_mujoco.scene import Actor, Scene
from gymapi_mujoco.shapes import add_geom, new_spec
from gymapi_mujoco.structs import as_array
from gymapi_mujoco.tendons import add_tendons

SOLVER_ITERATIONS = 50
"""Largest number of solver iterations in a physics step. With 20, the solver stopped early for one of 256 robots that
moved at random."""

LEAST_FRICTION = 1e-9
"""Friction of DoFs that have some, before the first step [N or N m]."""

_GROUND_COLOR, _ACTOR_COLOR = [0.45, 0.47, 0.45, 1.0], [0.8, 0.8, 0.82, 1.0]

_DRIVEN = (int(DofDriveMode.DOF_MODE_POS), int(DofDriveMode.DOF_MODE_VEL))


def build_model(scene: Scene) -> mujoco.MjModel:
    """Compile the ground and the actors of environment 0."""
    spec = new_spec()
    spec.option.timestep = scene.params.dt / scene.params.substeps
    spec.option.gravity = as_array(scene.params.gravity)
    spec.option.iterations, spec.option.ls_iterations = SOLVER_ITERATIONS, 20
    spec.option.cone = friction_cone()
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_ISLAND
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_EULER  # the damping of joints is implicit; see Drives
    driven = has_drives(scene)
    _light(spec)
    for i, ground in enumerate(scene.grounds):
        geom = ground.add_to(spec, f"ground{i}")
        geom.contype, geom.conaffinity, geom.condim, geom.rgba = 1, 0, 3, _GROUND_COLOR
        geom.friction[0] = ground.friction
    classes = _collision_bits(scene.actors[0])
    meshes: Dict[tuple, str] = {}
    for actor in scene.actors[0]:
        _add_actor(spec, scene, actor, classes, meshes, driven)
    add_attractors(spec, scene)
    model = spec.compile()
    assert model.nbody == 1 + scene.num_bodies(0), "MuJoCo has merged bodies"
    return model


def _light(spec: mujoco.MjSpec) -> None:
    """Give pictures a sky and enough light."""
    spec.visual.headlight.ambient, spec.visual.headlight.diffuse = [0.45] * 3, [0.5] * 3
    spec.visual.headlight.specular = [0.05] * 3
    sky = spec.add_texture(name="sky", type=mujoco.mjtTexture.mjTEXTURE_SKYBOX, width=64, height=384)
    sky.builtin, sky.rgb1, sky.rgb2 = mujoco.mjtBuiltin.mjBUILTIN_GRADIENT, [0.6, 0.7, 0.8], [0.35, 0.45, 0.6]


def has_drives(scene: Scene) -> bool:
    """Return whether a DoF of any actor has a position or velocity drive."""
    return any(np.isin(actor.dof_properties["driveMode"], _DRIVEN).any() for env in scene.actors for actor in env)


def _add_actor(
    spec: mujoco.MjSpec,
    scene: Scene,
    actor: Actor,
    classes: Dict[Tuple[int, int], Tuple[int, int]],
    meshes: Dict[tuple, str],
    driven: bool,
) -> None:
    asset, parts = actor.asset, []
    twins = scene.twins(actor.index)
    shifted = _shifted_bodies(actor, twins)
    shape_index = 0
    for i, body in enumerate(asset.bodies):
        above = spec.worldbody if body.parent < 0 else parts[body.parent]
        pos, quat = body.pos, body.quat
        if body.parent < 0:
            pos, quat = actor.pos, actor.quat
        part = above.add_body(name=f"{actor.index}/{body.name}", pos=pos, quat=quat)
        parts.append(part)
        _add_inertia(part, body.mass, body.com, body.inertia)
        if i in shifted or (driven and body.joints):
            part.simple = False  # the short cut takes the armature of the start; Drives changes it
        part.gravcomp = 1.0 if asset.options.disable_gravity else 0.0
        if body.parent < 0 and asset.floating:
            part.add_freejoint(name=f"{actor.index}/free")
        for joint in body.joints:
            _add_joint(part, actor, joint.name, twins, spec.option.timestep)
        for shape in body.shapes:
            geom = add_geom(spec, part, shape, meshes, density=0.0)
            geom.name = f"{actor.index}/{i}/{shape_index}"
            geom.contype, geom.conaffinity = classes[actor.index, int(actor.filters[shape_index])]
            geom.condim, geom.priority = 3, 1  # the friction of the actor's shape is used, see ModelProperties
            # Friction and restitution are written by ModelProperties.
            geom.solref[:] = solref(np.zeros(()), spec.option.timestep)
            geom.solimp[:2] = CONTACT_IMPEDANCE
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
    if not asset.floating:
        _exclude_neighbours(spec, actor)
    add_tendons(spec, actor.index, asset.tendons)
    if actor.index == 0:  # MuJoCo computes the forces on bodies if a sensor asks for one
        parts[0].add_site(name="probe")
        site = mujoco.mjtObj.mjOBJ_SITE
        spec.add_sensor(name="probe", type=mujoco.mjtSensor.mjSENS_FORCE, objtype=site, objname="probe")


def _exclude_neighbours(spec: mujoco.MjSpec, actor: Actor) -> None:
    """Let a fixed base not touch the bodies at its joints, as neighbours never do; MuJoCo takes such a base for a part
    of the world, which touches everything."""
    bodies, welded = actor.asset.bodies, [0]  # welded: the body with joints, or the root, that a body moves with
    for i, body in enumerate(bodies[1:], 1):
        welded.append(i if body.joints else welded[body.parent])
    for i, body in enumerate(bodies):
        if welded[i] and welded[bodies[welded[i]].parent] == 0:
            for other in (bodies[j] for j, moved_with in enumerate(welded) if moved_with == 0):
                names = (f"{actor.index}/{one.name}" for one in (other, body))
                spec.add_exclude(bodyname1=next(names), bodyname2=next(names))


def _shifted_bodies(actor: Actor, twins: List[Actor]) -> Set[int]:
    """Return the bodies whose centre of mass, or shape of inertia, differs in an environment: MuJoCo must not take its
    short cut for bodies whose frame is that of their inertia."""
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


def _add_joint(part: mujoco.MjsBody, actor: Actor, name: str, twins: List[Actor], timestep: float) -> None:
    index = actor.asset.dof_names.index(name)
    joint, props = actor.asset.joints[index], actor.dof_properties[index]
    kind = mujoco.mjtJoint.mjJNT_SLIDE if joint.sliding else mujoco.mjtJoint.mjJNT_HINGE
    added = part.add_joint(name=f"{actor.index}/{name}", type=kind, axis=joint.axis, pos=joint.anchor)
    added.limited = bool(props["hasLimits"])
    if added.limited:
        added.range = [float(props["lower"]), float(props["upper"])]
    added.armature = float(props["armature"])
    added.damping[0] = float(props["damping"])
    added.stiffness[0] = float(props["stiffness"])
    if any(twin.dof_properties["friction"][index] > 0 for twin in twins):
        added.frictionloss = LEAST_FRICTION  # MuJoCo makes a constraint where it is above zero; see JointFriction
        added.solref_friction[0] = 2 * timestep
        added.solimp_friction[:2] = CONTACT_IMPEDANCE


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


class ActorSlices:
    """Where an actor is in the arrays of a world: its coordinates and velocities, its root body, its DoFs."""

    def __init__(self, actor: Actor, model: mujoco.MjModel):
        names = [f"{actor.index}/{name}" for name in actor.asset.dof_names]
        first = [model.joint(name).qposadr[0] for name in names]
        speed = [model.joint(name).dofadr[0] for name in names]
        assert np.array_equal(np.diff(first), np.ones(max(0, len(names) - 1))), "MuJoCo has another order of joints"
        self.index, self.floating = actor.index, actor.asset.floating
        self.dofs = slice(actor.dof_start, actor.dof_start + len(names))  # of those of the environment
        self.root = 1 + actor.body_start  # MuJoCo's first body is the world
        self.pos = slice(first[0], first[0] + len(names)) if names else slice(0, 0)
        self.vel = slice(speed[0], speed[0] + len(names)) if names else slice(0, 0)
        free = model.joint(f"{actor.index}/free") if self.floating else None
        self.free_pos = slice(free.qposadr[0], free.qposadr[0] + 7) if free is not None else slice(0, 0)
        self.free_vel = slice(free.dofadr[0], free.dofadr[0] + 6) if free is not None else slice(0, 0)


class Layout:
    """N environments with A actors, B bodies and D DoFs each, and where their actors are in the arrays."""

    def __init__(self, scene: Scene, model: mujoco.MjModel, device: torch.device):
        self.num_envs, self.num_actors = len(scene.actors), len(scene.actors[0])
        self.num_bodies, self.num_dofs = scene.num_bodies(0), scene.num_dofs(0)
        self.actors = [ActorSlices(actor, model) for actor in scene.actors[0]]
        self.device = device
        self.every_env = torch.arange(self.num_envs, device=device)

    def zeros(self, *shape: int) -> Tensor:
        """Return a tensor for a client."""
        return torch.zeros(shape, device=self.device)

    def envs_of(self, own: ActorSlices, actors: Optional[Tensor]) -> Tensor:
        """Return the environments of those of the actors, flat indices over all environments or None for all, that are
        this actor."""
        if actors is None:
            return self.every_env
        if self.num_actors == 1:
            return actors
        return actors[actors % self.num_actors == own.index] // self.num_actors
