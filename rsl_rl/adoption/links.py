"""Reduce a third-party model to the links that move in walking: a base and legs, with primitive shapes.

Joints that belong to no leg, such as those of arms, are locked; what is fixed to a link becomes part of it. A foot is
a ball at the end of a leg, or a box with a flat sole.
"""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import mujoco
import numpy as np

from rsl_rl.adoption.geometry import (
    MESHES,
    Shape,
    fit,
    geoms_of,
    inertia_box,
    points_of,
    rotation,
    shape_of,
)
from rsl_rl.adoption.reading import SourceModel
from rsl_rl.adoption.structure import ANKLE_JOINTS, Leg, Parts, Skeleton, find_parts, joints_of, link_points, posed

_BALL, _BOX = int(mujoco.mjtGeom.mjGEOM_SPHERE), int(mujoco.mjtGeom.mjGEOM_BOX)
_CAPSULE = int(mujoco.mjtGeom.mjGEOM_CAPSULE)

_MAX_SHAPES = 2
"""Shapes of a source link that are kept as they are; one shape is fitted around more."""

_HEAVY = 0.01
"""A link without shapes gets the box of its inertia if it has more than this fraction of the robot's mass."""

_RADIUS = (0.06, 0.15)
"""Smallest and largest radius of a ball foot, as fractions of the length of its link."""


Frame = Tuple[np.ndarray, np.ndarray]
"""Place [3] and axes [3, 3] of a link in the world."""


class Foot(NamedTuple):
    """The part of the last link that touches the floor."""

    shape: Shape  # in the frame of the last link
    height: float  # of its centre above the floor, standing [m]

    @property
    def is_flat(self) -> bool:
        return self.shape.kind == _BOX


@dataclass(frozen=True)
class Hinge:
    """A joint of a leg, in the frame of its link."""

    name: str
    axis: np.ndarray  # [3]
    pos: np.ndarray  # [3] [m]
    range: Tuple[float, float]  # [rad]
    effort: Optional[float]  # largest torque of the source [N m]; None: it has none
    armature: float  # [kg m^2]
    damping: float  # [N m s/rad]


@dataclass(frozen=True)
class Link:
    """A moving part: mass, shapes, and its joints to the parent link."""

    name: str
    parent: str  # name of a link; empty for the base
    pos: np.ndarray  # [3] in the frame of the parent, at zero joint angles [m]
    mat: np.ndarray  # [3, 3] link to parent
    mass: float  # [kg]
    com: np.ndarray  # [3] centre of mass [m]
    inertia: np.ndarray  # [3, 3] about the centre of mass [kg m^2]
    joints: Tuple[Hinge, ...]
    shapes: Tuple[Shape, ...]
    foot: Optional[Foot]


@dataclass(frozen=True)
class LegInfo:
    """Names of a leg."""

    name: str  # such as FL or left
    joints: Tuple[str, ...]
    links: Tuple[str, ...]

    @property
    def foot(self) -> str:
        return f"{self.name}_foot"


@dataclass(frozen=True)
class LinkTree:
    """A robot of links. Its base frame has x forward, y left and z up; legs are in pairs of left and right."""

    links: Tuple[Link, ...]  # the base first, then leg by leg; with other limbs in the order of the source
    legs: Tuple[LegInfo, ...]
    locked: Dict[str, float]  # angle of each locked joint

    @property
    def mass(self) -> float:
        return sum(link.mass for link in self.links)

    @property
    def feet(self) -> List[Foot]:
        return [link.foot for link in self.links if link.foot is not None]

    @property
    def has_flat_feet(self) -> bool:
        return self.feet[0].is_flat


def build_links(source: SourceModel, skeleton: Skeleton) -> LinkTree:
    """Return the links of a robot: base, legs, and limbs whose joints are not locked."""
    model, base = source.model, source.base
    data = posed(model, locked_pose(source, skeleton))
    legs = _name_legs(source, data, skeleton)
    parts = find_parts(model, base, skeleton.locked)
    names, frames = link_names(source, skeleton, parts), link_frames(source, skeleton, parts, data)
    up = frames[base][1]
    builder = _Builder(model, data, parts, frames, names)
    owner = {body: link for link, bodies in parts.items() for body in bodies}
    efforts, feet = efforts_of(model), {leg.link: leg for _, leg in legs}
    chains = [sorted({int(model.jnt_bodyid[joint]) for joint in leg.joints}) for _, leg in legs]
    moving = [link for chain in chains for link in chain]
    limbs = [link for link in parts if link != base and link not in moving]
    links = [builder.link(base, None, (), None)]
    for link in sorted((*moving, *limbs)) if limbs else moving:  # a parent is before its children
        hinges = tuple(
            _hinge(model, joint, efforts) for joint in joints_of(model, link) if joint not in skeleton.locked
        )
        foot = _find_foot(model, data, feet[link], parts[link], up) if link in feet else None
        links.append(builder.link(link, owner[int(model.body_parentid[link])], hinges, foot))
    infos = [
        LegInfo(name, tuple(model.joint(joint).name for joint in leg.joints), tuple(names[link] for link in chain))
        for (name, leg), chain in zip(legs, chains)
    ]
    locked = {model.joint(joint).name: angle for joint, angle in skeleton.locked.items()}
    return LinkTree(tuple(links), tuple(infos), locked)


def link_names(source: SourceModel, skeleton: Skeleton, parts: Parts) -> Dict[int, str]:
    """Return the name of each link."""
    return {link: link_name(source.model, skeleton.base if link == source.base else link) for link in parts}


def link_frames(source: SourceModel, skeleton: Skeleton, parts: Parts, data: Any) -> Dict[int, Frame]:
    """Return the frame of each link in ``data``, whose pose is that of :func:`locked_pose`."""
    frames = {link: (data.xpos[link], data.xmat[link].reshape(3, 3)) for link in parts}
    base = skeleton.base
    frames[source.base] = data.xpos[base], data.xmat[base].reshape(3, 3) @ skeleton.frame
    return frames


def locked_pose(source: SourceModel, skeleton: Skeleton) -> np.ndarray:
    """Return the pose [nq] of the source with its locked joints at their angles and those of the legs at zero."""
    qpos, address = source.poses[0].copy(), source.model.jnt_qposadr
    for joint, angle in skeleton.locked.items():
        qpos[address[joint]] = angle
    for leg in skeleton.legs:
        qpos[address[list(leg.joints)]] = 0.0
    return qpos


def _name_legs(source: SourceModel, data: Any, skeleton: Skeleton) -> List[Tuple[str, Leg]]:
    """Return the legs with names, front before rear and left before right."""
    base = skeleton.base
    to_base = (data.xmat[base].reshape(3, 3) @ skeleton.frame).T
    places = [(to_base @ (data.xanchor[list(leg.joints)].mean(axis=0) - data.xpos[base])) for leg in skeleton.legs]
    order = sorted(range(len(places)), key=lambda i: -places[i][0])
    left = [skeleton.legs[i] for i in order if places[i][1] > 0]
    right = [skeleton.legs[i] for i in order if places[i][1] <= 0]
    if len(left) != len(right):
        raise ValueError(f"{source.path} has {len(left)} left and {len(right)} right legs; legs must come in pairs")
    rows = {1: [("left", "right")], 2: [("FL", "FR"), ("RL", "RR")]}.get(len(left))
    rows = rows or [(f"L{i}", f"R{i}") for i in range(1, len(left) + 1)]
    return [pair for names, *pairs in zip(rows, left, right) for pair in zip(names, pairs)]


class _Builder(NamedTuple):
    """Build links from the bodies of a source in a pose."""

    model: Any  # of the source
    data: Any
    parts: Parts
    frames: Dict[int, Frame]
    names: Dict[int, str]

    def link(self, link: int, parent: Optional[int], hinges: Tuple[Hinge, ...], foot: Optional[Foot]) -> Link:
        """Return a link with its inertia and its shapes."""
        model, data, bodies = self.model, self.data, self.parts[link]
        origin, mat = self.frames[link]
        above, turned = self.frames[link if parent is None else parent]
        mass = float(model.body_mass[bodies].sum())
        com = (model.body_mass[bodies] @ data.xipos[bodies]) / mass
        inertia = np.zeros((3, 3))
        for body in bodies:
            axes, away = data.ximat[body].reshape(3, 3), data.xipos[body] - com
            inertia += axes @ np.diag(model.body_inertia[body]) @ axes.T
            inertia += model.body_mass[body] * (away @ away * np.eye(3) - np.outer(away, away))
        if foot is None:
            heavy = _HEAVY * float(model.body_subtreemass[min(self.parts)])
            shapes = [shape for body in bodies for shape in _shapes(model, data, body, origin, mat, heavy)]
        else:
            shapes = [] if foot.is_flat else [_shank_shape(foot, hinges[-1].pos)]
        return Link(
            name=self.names[link],
            parent="" if parent is None else self.names[parent],
            pos=turned.T @ (origin - above),
            mat=turned.T @ mat,
            mass=mass,
            com=mat.T @ (com - origin),
            inertia=mat.T @ inertia @ mat,
            joints=hinges,
            shapes=tuple(shapes),
            foot=foot,
        )


def _shapes(model: Any, data: Any, body: int, origin: np.ndarray, mat: np.ndarray, heavy: float) -> List[Shape]:
    """Return the shapes of a body in the frame of its link."""
    geoms = [geom for geom in geoms_of(model, body) if len(points_of(model, geom))]
    if not geoms:
        shapes = [inertia_box(model, body)] if model.body_mass[body] > heavy else []
    elif len(geoms) <= _MAX_SHAPES and not any(model.geom_type[geom] in MESHES for geom in geoms):
        shapes = [shape_of(model, geom) for geom in geoms]
    else:
        shapes = [fit(np.concatenate([points_of(model, geom) for geom in geoms]))]
    turn, shift = mat.T @ data.xmat[body].reshape(3, 3), mat.T @ (data.xpos[body] - origin)
    return [Shape(shape.kind, shape.size, turn @ shape.pos + shift, turn @ shape.mat) for shape in shapes]


def _hinge(model: Any, joint: int, efforts: Dict[int, float]) -> Hinge:
    dof = model.jnt_dofadr[joint]
    low, high = model.jnt_range[joint] if model.jnt_limited[joint] else (-np.pi, np.pi)
    return Hinge(
        name=model.joint(joint).name,
        axis=model.jnt_axis[joint].copy(),
        pos=model.jnt_pos[joint].copy(),
        range=(max(float(low), -2 * np.pi), min(float(high), 2 * np.pi)),
        effort=efforts.get(joint),
        armature=float(model.dof_armature[dof]),
        damping=float(np.ravel(model.dof_damping[dof])[0]),
    )


def link_name(model: Any, link: int) -> str:
    """Return the name of a link; one that the prepared model uses for something else gets an ending."""
    name = model.body(link).name
    return f"{name}_link" if re.fullmatch(r"world|floor|(FL|FR|RL|RR|left|right|[LR]\d+)_foot", name) else name


def efforts_of(model: Any) -> Dict[int, float]:
    """Return the largest torque of each joint that has one, from the joint or its actuator [N m]."""
    found: Dict[int, List[float]] = {}
    for joint in range(model.njnt):
        if model.jnt_actfrclimited[joint]:
            found.setdefault(joint, []).append(float(np.abs(model.jnt_actfrcrange[joint]).max()))
    for i in range(model.nu):
        if model.actuator_trntype[i] != mujoco.mjtTrn.mjTRN_JOINT:
            continue
        joint, gear = int(model.actuator_trnid[i, 0]), abs(float(model.actuator_gear[i, 0]))
        if model.actuator_forcelimited[i]:
            found.setdefault(joint, []).append(gear * float(np.abs(model.actuator_forcerange[i]).max()))
        if model.actuator_ctrllimited[i] and model.actuator_biastype[i] == mujoco.mjtBias.mjBIAS_NONE:
            gain = abs(float(model.actuator_gainprm[i, 0]))
            found.setdefault(joint, []).append(gear * gain * float(np.abs(model.actuator_ctrlrange[i]).max()))
    return {joint: min(limits) for joint, limits in found.items() if min(limits) > 0}


def _find_foot(model: Any, data: Any, leg: Leg, bodies: Sequence[int], frame: np.ndarray) -> Foot:
    """Return the foot of a leg, of the bodies of its last link.

    ``frame`` are forward, left and up in the world, and ``data`` has zero joint angles.
    """
    origin, mat = data.xpos[leg.link], data.xmat[leg.link].reshape(3, 3)
    anchor = data.xanchor[leg.joints[-1]]
    if len(leg.joints) >= ANKLE_JOINTS:
        foot = _flat_foot(link_points(model, data, bodies), anchor, frame)
    else:
        foot = _ball_foot(model, data, bodies, anchor)
    shape = foot.shape
    return Foot(shape._replace(pos=mat.T @ (shape.pos - origin), mat=mat.T @ shape.mat), foot.height)


def _ball_foot(model: Any, data: Any, bodies: Sequence[int], anchor: np.ndarray) -> Foot:
    """Return a ball at the point of the link that is farthest from its joint, in world coordinates."""
    points = link_points(model, data, bodies)
    reach = np.linalg.norm(points - anchor, axis=1)
    length = float(reach.max())
    own = _round_end(model, data, bodies, anchor, length)
    if own is None:
        tip = points[reach > 0.92 * length]
        along = tip.mean(axis=0) - anchor
        along /= np.linalg.norm(along)
        across = (tip - anchor) - np.outer((tip - anchor) @ along, along)
        width = float(np.linalg.norm(across - across.mean(axis=0), axis=1).max()) if len(tip) > 2 else 0.0
        radius = float(np.clip(width, _RADIUS[0] * length, _RADIUS[1] * length))
        center = anchor + across.mean(axis=0) + along * (float(((tip - anchor) @ along).max()) - radius)
        own = (center, radius)
    center, radius = own
    return Foot(Shape(_BALL, (radius, 0.0, 0.0), center, np.eye(3)), radius)


def _round_end(
    model: Any, data: Any, bodies: Sequence[int], anchor: np.ndarray, length: float
) -> Optional[Tuple[np.ndarray, float]]:
    """Return centre and radius of a ball or of a capsule's end that the source has at the end of the link."""
    found = []
    for body in bodies:
        for geom in geoms_of(model, body):
            kind, size = int(model.geom_type[geom]), model.geom_size[geom]
            if kind not in (_BALL, _CAPSULE):
                continue
            mat = data.xmat[body].reshape(3, 3)
            center = data.xpos[body] + mat @ model.geom_pos[geom]
            if kind == _CAPSULE:
                axis = mat @ rotation(model.geom_quat[geom])[:, 2] * size[1]
                center = max((center + axis, center - axis), key=lambda end: float(np.linalg.norm(end - anchor)))
            found.append((float(np.linalg.norm(center - anchor)) + size[0], kind == _BALL, center, float(size[0])))
    found = [entry for entry in found if entry[0] > 0.93 * length and entry[3] < 0.4 * length]
    if not found:
        return None
    _, _, center, radius = max(found, key=lambda entry: (entry[1], entry[0]))
    return center, radius


def _flat_foot(points: np.ndarray, anchor: np.ndarray, frame: np.ndarray) -> Foot:
    """Return a box with the sole of the link, in world coordinates."""
    local = points @ frame  # forward, left, up
    bottom, ankle = float(local[:, 2].min()), float(anchor @ frame[:, 2])
    tall = max(ankle - bottom, 0.02)
    sole = local[local[:, 2] < bottom + 0.35 * tall]
    low, high = sole[:, :2].min(axis=0), sole[:, :2].max(axis=0)
    half = np.maximum((high - low) / 2, 0.3 * tall)
    thick = 0.25 * tall
    center = np.array([*((low + high) / 2), bottom + thick])
    return Foot(Shape(_BOX, (float(half[0]), float(half[1]), thick), frame @ center, frame), thick)


def _shank_shape(foot: Foot, joint: np.ndarray) -> Shape:
    """Return a capsule between the joint of the last link and its ball foot, which does not touch a floor below it."""
    radius = 0.6 * foot.shape.size[0]
    along = foot.shape.pos - joint
    start, end = joint + 0.1 * along, joint + 0.9 * along
    length = float(np.linalg.norm(along))
    axis = along / length
    other = np.eye(3)[int(np.abs(axis).argmin())]
    first = np.cross(other, axis)
    first /= np.linalg.norm(first)
    mat = np.stack([first, np.cross(axis, first), axis], axis=1)
    return Shape(_CAPSULE, (radius, 0.4 * length, 0.0), (start + end) / 2, mat)
