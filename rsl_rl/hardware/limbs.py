"""Kinematics and gravity torques of a robot's limbs, read from its MJCF file, for a trunk that is held.

Vectors are in the base frame. At joint angles of zero all links have the orientation of the base, so a joint is a point
and an axis, and a link a mass with a centre.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np

GRAVITY = 9.81
"""[m/s^2]."""
POSE_DISTANCE, POSE_MARGIN = 1.2, 0.05
"""Largest distance of a pose from the one in which a limb hangs, and its least one from the ends of ranges [rad]."""
NUM_POSES = 400
"""Poses among which :func:`telling_pose` chooses."""


@dataclass(frozen=True)
class Limbs:
    """Joints of a robot, a parent before its children."""

    names: Tuple[str, ...]
    parents: Tuple[int, ...]
    """Joint that moves each joint; -1 for joints of the trunk."""
    anchors: np.ndarray  # [J, 3] at angles of zero [m]
    axes: np.ndarray  # [J, 3]
    masses: np.ndarray  # [J] of what each joint moves and no further joint does [kg]
    centers: np.ndarray  # [J, 3] of these masses [m]
    ranges: np.ndarray  # [J, 2] [rad]
    links: Tuple[str, ...]
    """Name of the link that each joint moves."""
    inertia: np.ndarray  # [J, J] mass matrix at angles near zero [kg m^2]

    def chain(self, joint: int) -> List[int]:
        """Return the joints from the trunk to a joint."""
        found: List[int] = []
        while joint >= 0:
            found.insert(0, joint)
            joint = self.parents[joint]
        return found

    def ends(self) -> List[int]:
        """Return the last joint of each limb."""
        return [joint for joint in range(len(self.names)) if joint not in self.parents]

    def part(self, joints: Sequence[int]) -> Limbs:
        """Return some of the joints, with all joints that they move or are moved by."""
        place = {joint: i for i, joint in enumerate(joints)}
        rows = list(joints)
        return Limbs(
            tuple(self.names[j] for j in rows),
            tuple(place.get(self.parents[j], -1) for j in rows),
            self.anchors[rows],
            self.axes[rows],
            self.masses[rows],
            self.centers[rows],
            self.ranges[rows],
            tuple(self.links[j] for j in rows),
            self.inertia[np.ix_(rows, rows)],
        )

    def place_of(self, joint: int) -> str:
        """Return where a joint's limb is, such as "front left", by the centre of its last link."""
        x, y, _ = self.centers[joint]
        ends = self.centers[self.ends()]
        words = []
        if np.ptp(ends[:, 0]) > 0.1:
            share = (x - ends[:, 0].min()) / np.ptp(ends[:, 0])
            words.append("front" if share > 0.75 else "rear" if share < 0.25 else "middle")
        if np.ptp(ends[:, 1]) > 0.02:
            words.append("left" if y > 0 else "right")
        return " ".join(words)


class Loads(NamedTuple):
    """Torques of T samples, of J joints."""

    torques: np.ndarray  # [T, J] that hold the joints against gravity [N m]
    stiffness: np.ndarray  # [T, J, J] derivative of torque i by angle j [N m/rad]
    per_gravity: np.ndarray  # [T, J, 3] derivative of the torque by the direction of gravity [N m]


def loads(limbs: Limbs, angles: np.ndarray, gravity: np.ndarray) -> Loads:
    """Return the torques that hold joint angles [T, J] [rad] with gravity in a direction [T, 3].

    A joint with the axis a, which carries the masses m_k at c_k from its anchor o, needs the torque
    -g . (a x sum of m_k (c_k - o)). The derivative by the angle of a joint with the axis b before it is
    -g . (b x (a x sum of m_k (c_k - o))), and the matrix of these is symmetric.
    """
    steps, joints = angles.shape
    sines, cosines = np.sin(angles.T), np.cos(angles.T)
    rotations, anchors, axes, moments = [], [], [], []  # [3, 3, T] and [3, T] of each joint
    for j, parent in enumerate(limbs.parents):
        before = np.eye(3)[..., None] if parent < 0 else rotations[parent]
        offset = limbs.anchors[j] - (limbs.anchors[parent] if parent >= 0 else 0.0)
        anchors.append((anchors[parent] if parent >= 0 else 0.0) + _times(before, offset))
        axes.append(np.broadcast_to(_times(before, limbs.axes[j]), (3, steps)))
        turned = turns(limbs.axes[j], sines[j], cosines[j])
        rotations.append(turned if parent < 0 else np.einsum("ikt,kjt->ijt", before, turned))
        moments.append(limbs.masses[j] * _times(rotations[j], limbs.centers[j] - limbs.anchors[j]))
    masses = limbs.masses.copy()
    for j in reversed(range(joints)):
        parent = limbs.parents[j]
        if parent >= 0:
            moments[parent] = moments[parent] + moments[j] + masses[j] * (anchors[j] - anchors[parent])
            masses[parent] += masses[j]
    levers = [_cross(axis, moment) for axis, moment in zip(axes, moments)]
    g, stiffness = GRAVITY * gravity.T, np.zeros((steps, joints, joints))
    for j in range(joints):
        pull = _cross(levers[j], g)  # -g . (a x lever) = -a . (lever x g)
        for i in limbs.chain(j):
            stiffness[:, i, j] = stiffness[:, j, i] = -(axes[i] * pull).sum(axis=0)
    per_gravity = -GRAVITY * np.stack(levers).transpose(2, 0, 1)
    return Loads(-np.stack([(lever * g).sum(axis=0) for lever in levers], axis=1), stiffness, per_gravity)


def _times(matrices: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return the products [3, T] of matrices [3, 3, T] and a vector [3]."""
    return matrices[:, 0] * vector[0] + matrices[:, 1] * vector[1] + matrices[:, 2] * vector[2]


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return cross products of vectors [3, T]."""
    return np.stack((a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]))


def turns(axis: np.ndarray, sines: np.ndarray, cosines: np.ndarray) -> np.ndarray:
    """Return the rotation matrices [3, 3, T] about an axis [3] by angles with these sines and cosines [T] (Rodrigues'
    formula)."""
    x, y, z = axis
    skew = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3)[..., None] + skew[..., None] * sines + (skew @ skew)[..., None] * (1 - cosines)


def hanging_pose(limbs: Limbs, steps: int = 300) -> np.ndarray:
    """Return joint angles [J] in which the limbs hang from a level trunk [rad]: the lowest potential energy."""
    low, high = np.clip(limbs.ranges, -math.pi, math.pi).T
    angles, down = np.clip(0.1 * np.clip((low + high) / 2, -1, 1), low, high), np.array([[0.0, 0.0, -1.0]])
    for _ in range(steps):  # the torque that holds a limb is the slope of its energy
        held = loads(limbs, angles[None], down)
        scale = np.linalg.norm(held.per_gravity[0], axis=1)
        step = held.torques[0] / (scale + 0.1 * scale.max() + 1e-9)
        angles = np.clip(angles - np.clip(0.3 * step, -0.1, 0.1), low, high)
    return angles


def telling_pose(
    limb: Limbs, unknown: Sequence[int], largest: np.ndarray, tilt: float
) -> Tuple[np.ndarray, np.ndarray]:
    """Return joint angles [n] in which gravity tells most of the zeros of the ``unknown`` joints of a limb [rad], and
    the torques [n] that hold them under a level trunk, at most ``largest`` [n] [N m].

    The trunk will be level and turned by ``tilt`` [rad]. Only joints that swing the limb forwards and backwards leave
    their zeros, so that limbs do not touch.
    """
    low, high = limb.ranges.T
    swings = np.abs(limb.axes[:, 1]) > 0.7
    rest = np.where(swings, hanging_pose(limb), 0.0)
    moves = np.random.default_rng(0).uniform(-POSE_DISTANCE, POSE_DISTANCE, (NUM_POSES, len(rest))) * swings
    poses = np.clip(np.concatenate([rest[None], rest + moves]), low + POSE_MARGIN, high - POSE_MARGIN)
    sine, cosine = math.sin(tilt), math.cos(tilt)
    ways = np.array([[0, 0, -1], [sine, 0, -cosine], [-sine, 0, -cosine], [0, sine, -cosine], [0, -sine, -cosine]])
    held = [loads(limb, poses, np.tile(way, (len(poses), 1))) for way in ways]
    slopes = np.sqrt(np.mean([np.diagonal(one.stiffness, axis1=1, axis2=2) ** 2 for one in held], axis=0))
    torques, score = held[0].torques, np.log(slopes[:, list(unknown)] + 1e-6).sum(axis=1)
    score[1:][(np.abs(torques[1:]) > largest).any(axis=1)] = -np.inf  # the first is that of the least torque
    chosen = int(score.argmax())
    return poses[chosen], torques[chosen]


def read_limbs(path: Path, joint_names: Sequence[str]) -> Limbs:
    """Read the joints of an MJCF file by name; joints of the file without a name in the list stay at zero.

    A file without one of the names is a ValueError. The order is that of the list, as long as parents come first.
    """
    from rsl_rl.utils.mujoco_model import load_model

    model = load_model(path)
    return limbs_of(model, joint_names, str(path))


def limbs_of(model: Any, joint_names: Sequence[str], source: str = "the model") -> Limbs:
    """Return the joints of a model of MuJoCo; see :func:`read_limbs`."""
    import mujoco

    mj: Any = mujoco
    data = mj.MjData(model)
    known = {model.joint(i).name: i for i in range(model.njnt)}
    missing = [name for name in joint_names if name not in known]
    if missing:
        raise ValueError(f"{source} has no joint {missing[0]}; it has {', '.join(known)}: give the robot's own --model")
    free = [i for i in range(model.njnt) if model.jnt_type[i] == mj.mjtJoint.mjJNT_FREE]
    others = [n for n in joint_names if model.jnt_type[known[n]] != mj.mjtJoint.mjJNT_HINGE]
    if len(free) != 1 or others:
        raise ValueError(f"{source}: the joints must be hinges of a robot with one free trunk; check --model")
    hinges = [i for i in range(model.njnt) if i != free[0]]
    data.qpos[:] = model.qpos0
    data.qpos[model.jnt_qposadr[hinges]] = 0.0
    start = model.jnt_qposadr[free[0]]
    data.qpos[start : start + 7] = 0, 0, 0, 1, 0, 0, 0
    mj.mj_kinematics(model, data)
    wanted = {known[name]: name for name in joint_names}
    trunk, mover = int(model.jnt_bodyid[free[0]]), {}  # last wanted joint that moves each body
    order: List[int] = []
    for body in range(trunk, model.nbody):
        mover[body] = mover.get(int(model.body_parentid[body]), -1)
        first = int(model.body_jntadr[body])
        for joint in range(first, first + int(model.body_jntnum[body])) if first >= 0 else ():
            if joint in wanted:
                order.append(joint)
                mover[body] = joint
    before: Dict[int, int] = {}
    for body in range(trunk, model.nbody):
        last, first = mover.get(int(model.body_parentid[body]), -1), int(model.body_jntadr[body])
        for joint in range(first, first + int(model.body_jntnum[body])) if first >= 0 else ():
            if joint in wanted:
                before[joint], last = last, joint
    masses, centers = np.zeros(len(order)), np.zeros((len(order), 3))
    for body, joint in mover.items():
        if joint >= 0:
            masses[order.index(joint)] += model.body_mass[body]
            centers[order.index(joint)] += model.body_mass[body] * data.xipos[body]
    ranges = np.where(model.jnt_limited[order, None] != 0, model.jnt_range[order], (-np.inf, np.inf))
    limbs = Limbs(
        tuple(wanted[j] for j in order),
        tuple(order.index(before[j]) if before[j] >= 0 else -1 for j in order),
        data.xanchor[order].copy(),
        data.xaxis[order].copy(),
        masses,
        centers / np.maximum(masses, 1e-9)[:, None],
        ranges,
        tuple(model.body(int(model.jnt_bodyid[j])).name for j in order),
        np.zeros((len(order), len(order))),
    )
    data.qpos[model.jnt_qposadr[order]] = np.clip(0.0, *ranges.T)
    mj.mj_forward(model, data)
    rows, column = model.jnt_dofadr[order], np.zeros(model.nv)
    for i, row in enumerate(rows):
        mj.mj_mulM(model, data, column, np.eye(model.nv)[row])
        limbs.inertia[:, i] = column[rows]
    return limbs
