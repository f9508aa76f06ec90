"""Find the left-right symmetry of a robot and a standing pose, and let the robot settle.

The pose has a level trunk and small torques against gravity. Robots with two legs have their feet below the hips,
others have them a little outside. The pose is found by a least-squares search over the joint angles of the left legs;
the right ones mirror them.
"""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Sequence, Tuple

import mujoco
import numpy as np

from rsl_rl.adoption.links import LinkTree
from rsl_rl.adoption.structure import knee_of

MIRROR = np.array([1.0, -1.0, 1.0])
"""The mirror image of a point in the base frame: y points left."""

_TOLERANCE, _NUM_POSES = 0.02, 100
"""Largest error of a mirrored foot, as a fraction of the distance from base to foot; random poses in which it is
measured."""

_BALL_HEIGHT, _FLAT_HEIGHT = 0.75, 0.96
"""Height of a standing hip, as a fraction of the leg's largest reach: of legs with ball feet and with flat feet."""

_OUTWARD = 0.12
"""Distance of a foot from the middle joint of its leg, to the outside, as a fraction of the leg's largest reach: of
robots with more than two legs. HyQ, Go1 and Aliengo fall less often after pushes with their feet further apart, and HyQ
stands with lower gains (benchmarks/README.md, TRIALS.md)."""

_LIMIT_MARGIN = 0.85
"""Fraction of a joint's half range beyond which an angle costs."""

_ITERATIONS, _STARTS = 60, 12

SECONDS = 5.0
"""Time that a robot has to stand with constant joint targets."""

_SAMPLE, _CLEARANCE = 10, 0.005
"""Physics steps between two samples of the history; height above the floor at the start [m]."""

Residuals = Callable[[np.ndarray], np.ndarray]


class Symmetry(NamedTuple):
    """The left-right mirror image of joints and feet."""

    joints: Tuple[int, ...]  # index of the joint on the other side
    signs: Tuple[float, ...]  # sign of its angle
    feet: Tuple[int, ...]  # index of the foot on the other side
    error: float  # largest distance between a foot and its mirror image in random poses [m]
    holds: bool  # whether that is small


def find_symmetry(model: Any, tree: LinkTree) -> Symmetry:
    """Return the symmetry of the prepared model."""
    data = mujoco.MjData(model)
    data.qpos[:7], data.qpos[7:] = [0, 0, 0, 1, 0, 0, 0], 0.0
    mujoco.mj_kinematics(model, data)
    names = [model.joint(i).name for i in range(1, model.njnt)]
    joints, signs = list(range(len(names))), [1.0] * len(names)
    fits = True
    for left, right in zip(tree.legs[::2], tree.legs[1::2]):
        fits &= len(left.joints) == len(right.joints)
        for a, b in zip(left.joints, right.joints):
            i, j = names.index(a), names.index(b)
            alignment = float(data.xaxis[j + 1] @ (-MIRROR * data.xaxis[i + 1]))  # a turn is mirrored with a minus
            fits &= abs(alignment) > 0.95
            joints[i], joints[j] = j, i
            signs[i] = signs[j] = 1.0 if alignment > 0 else -1.0
    feet = tuple(i ^ 1 for i in range(len(tree.legs)))
    error = _mirror_error(model, tree, joints, np.array(signs)) if fits else float("inf")
    size = max(float(np.linalg.norm(data.site(leg.foot).xpos)) for leg in tree.legs)
    return Symmetry(tuple(joints), tuple(signs), feet, error, error < _TOLERANCE * size)


def _mirror_error(model: Any, tree: LinkTree, joints: List[int], signs: np.ndarray) -> float:
    """Return the largest distance of a foot from the mirror image of the other one, when joint angles are mirrored."""
    random = np.random.default_rng(0)
    low, high = model.jnt_range[1:].T
    mirrored_range = np.sort(signs[:, None] * model.jnt_range[1:][joints], axis=1)
    low, high = np.maximum(low, mirrored_range[:, 0]), np.minimum(high, mirrored_range[:, 1])
    sites = [model.site(leg.foot).id for leg in tree.legs]
    worst, others = 0.0, [sites[i ^ 1] for i in range(len(sites))]
    data, other = mujoco.MjData(model), mujoco.MjData(model)
    for _ in range(_NUM_POSES):
        angles = random.uniform(low, np.maximum(low, high))
        for d, values in ((data, angles), (other, signs * angles[joints])):
            d.qpos[:3], d.qpos[3:7], d.qpos[7:] = 0.0, [1, 0, 0, 0], values
            mujoco.mj_kinematics(model, d)
        difference = data.site_xpos[sites] * MIRROR - other.site_xpos[others]
        worst = max(worst, float(np.linalg.norm(difference, axis=1).max()))
    return worst


class Stance(NamedTuple):
    """A pose of the joints with the base level."""

    angles: np.ndarray  # [J] [rad]
    height: float  # of the base above the floor [m]


class Search:
    """Least-squares search of joint angles; the right legs are the mirror image of the left ones."""

    def __init__(self, model: Any, tree: LinkTree, symmetry: Symmetry):
        self.model, self.tree = model, tree
        self.hips = [model.joint(leg.joints[0]).id for leg in tree.legs]
        self.feet = [model.site(leg.foot).id for leg in tree.legs]
        self._random = np.random.default_rng(0)
        self.low, self.high = model.jnt_range[1:].T.copy()
        count = model.njnt - 1
        if symmetry.holds:
            left = [i for i in range(count) if i <= symmetry.joints[i]]
            self.spread = np.zeros((count, len(left)))
            for k, i in enumerate(left):
                self.spread[i, k] = 1.0
                self.spread[symmetry.joints[i], k] = symmetry.signs[i]
            self._free = left
        else:
            self.spread, self._free = np.eye(count), list(range(count))

    @property
    def model(self) -> Any:
        """The prepared model; another one may have other gains."""
        return self._model

    @model.setter
    def model(self, model: Any) -> None:
        self._model, self.data = model, mujoco.MjData(model)
        self.data.qpos[:7] = [0, 0, 0, 1, 0, 0, 0]

    def best(self, residuals: Residuals, starts: Sequence[np.ndarray] = ()) -> np.ndarray:
        """Return the angles [J] of the smallest sum of squared residuals.

        The search starts at the given angles [J], at zero and at random angles around it.
        """
        low, high = self.low[self._free], self.high[self._free]
        zero = np.clip(0.0, low, high)
        given = [np.clip(start[self._free], low, high) for start in starts]
        random = [np.clip(zero + 0.7 * self._random.standard_normal(len(zero)), low, high) for _ in range(_STARTS)]

        def of_free(free: np.ndarray) -> np.ndarray:
            return residuals(self.angles(free))

        found = [least_squares(of_free, start, low, high) for start in (*given, zero, *random)]
        return self.angles(min(found, key=lambda entry: entry[1])[0])

    def angles(self, free: np.ndarray) -> np.ndarray:
        """Return the angles of all joints [J]."""
        return np.clip(self.spread @ free, self.low, self.high)

    def pose(self, angles: np.ndarray) -> Any:
        """Return data with the base level at the origin and these joint angles."""
        self.data.qpos[7:] = angles
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        return self.data


def least_squares(
    residuals: Residuals, start: np.ndarray, low: np.ndarray, high: np.ndarray
) -> Tuple[np.ndarray, float]:
    """Return the point within bounds with the smallest sum of squared residuals, and the sum: Levenberg-Marquardt."""
    x, damping, step = start, 1e-2, 1e-5
    r = residuals(x)
    for _ in range(_ITERATIONS):
        inward = np.where(x + step <= high, step, -step)
        jacobian = np.stack([(residuals(x + d) - r) / d[i] for i, d in enumerate(np.diag(inward))], axis=1)
        gradient = jacobian.T @ r
        free = ~((x <= low) & (gradient > 0) | (x >= high) & (gradient < 0))
        if not free.any():
            break
        part = jacobian[:, free]
        new = x.copy()
        new[free] -= np.linalg.solve(part.T @ part + damping * np.eye(part.shape[1]), gradient[free])
        new = np.clip(new, low, high)
        r_new = residuals(new)
        if r_new @ r_new < r @ r:
            small = np.abs(new - x).max() < 1e-5
            x, r, damping = new, r_new, max(damping / 3, 1e-6)
            if small:
                break
        else:
            damping *= 4
            if damping > 1e6:
                break
    return x, float(r @ r)


def find_reach(search: Search) -> float:
    """Return how far below its hip a foot gets, with all feet below their hips [m]."""
    hips, feet = search.hips, search.feet

    def residuals(angles: np.ndarray) -> np.ndarray:
        data = search.pose(angles)
        return np.ravel(data.site_xpos[feet] - data.xanchor[hips] + np.array([0.0, 0.0, 5.0]))

    data = search.pose(search.best(residuals))
    return float((data.xanchor[hips] - data.site_xpos[feet])[:, 2].min())


def find_stance(search: Search, reach: float, hints: Sequence[np.ndarray]) -> Stance:
    """Return a standing pose; ``hints`` are poses [J] of the source to start from."""
    model, tree, hips, feet, flat = search.model, search.tree, search.hips, search.feet, search.tree.has_flat_feet
    knees = [model.joint(leg.joints[knee_of(len(leg.joints))]).id for leg in tree.legs]
    planes = [model.joint(leg.joints[len(leg.joints) // 2]).id for leg in tree.legs]
    boxes = [model.geom(leg.foot).id for leg in tree.legs]
    drop = reach * (_FLAT_HEIGHT if flat else _BALL_HEIGHT)
    efforts = model.actuator_forcerange[:, 1]
    middle, half = (search.low + search.high) / 2, np.maximum((search.high - search.low) / 2, 1e-3)
    left = np.where(np.arange(len(feet)) % 2, -1.0, 1.0)  # legs are in pairs of left and right
    outward = _OUTWARD * reach * left if len(feet) > 2 else 0.0
    wanted = 1.0 if len(tree.legs) == 2 else -1.0  # knees in front of the hips as people's, or behind as the Go2's

    def residuals(angles: np.ndarray) -> np.ndarray:
        data = search.pose(angles)
        foot, hip, knee = data.site_xpos[feet], data.xanchor[hips], data.xanchor[knees]
        plane = data.xanchor[planes]
        parts = [
            10 * (foot[:, 2] - foot[:, 2].mean()) / reach,  # a level floor
            [10 * ((hip[:, 2] - foot[:, 2]).min() - drop) / reach],
            5 * (foot[:, 1] - plane[:, 1] - outward) / reach,
            [8 * (foot[:, 0].mean() - data.subtree_com[1, 0]) / reach],  # equal weight on front and rear
            np.minimum(wanted * (knee[:, 0] - hip[:, 0]), 0.0) / reach,
            2 * np.maximum(np.abs(angles - middle) / half - _LIMIT_MARGIN, 0.0),
            0.14 * gravity_torques(model, data, feet) / efforts,
            0.03 * angles,
        ]
        if len(feet) > 2:
            parts.append(3 * (foot[:, 0] - plane[:, 0]) / reach)
        if flat:
            mats = data.geom_xmat[boxes].reshape(-1, 3, 3)
            parts += [6 * mats[:, 0, 2], 6 * mats[:, 1, 2], 3 * mats[:, 1, 0]]  # a level sole that points forward
        return np.concatenate(parts)

    data = search.pose(search.best(residuals, hints))
    heights = np.array([foot.height for foot in tree.feet])
    return Stance(data.qpos[7:].copy(), float((heights - data.site_xpos[feet][:, 2]).mean()))


def gravity_torques(model: Any, data: Any, feet: Sequence[int]) -> np.ndarray:
    """Return the torques [J] that hold a pose, with the weight on all feet alike [N m]."""
    torque, jacobian = np.zeros(model.nv), np.zeros((3, model.nv))
    mujoco.mj_comVel(model, data)
    mujoco.mj_rne(model, data, 0, torque)
    weight = float(model.body_subtreemass[1]) * 9.81 / len(feet)
    for foot in feet:
        mujoco.mj_jacSite(model, data, jacobian, None, foot)
        torque -= weight * jacobian[2]
    return torque[6:]


class Settled(NamedTuple):
    """How a robot stands after some seconds with constant joint targets."""

    height: float  # of the base [m]
    tilt: float  # of the base from the vertical [rad]
    drift: float  # horizontal distance from the start [m]
    angles: np.ndarray  # [J] [rad]
    torques: np.ndarray  # [J] [N m]
    forces: np.ndarray  # [feet] vertical [N]
    others: float  # largest force on another link [N]
    history: np.ndarray  # [T, 3] time [s], height [m] and tilt [rad] of the base


def settle(model: Any, tree: LinkTree, stance: Stance, seconds: float = SECONDS) -> Settled:
    """Simulate a robot that stands with its stance as joint targets."""
    data = mujoco.MjData(model)
    data.qpos[:7] = [0, 0, stance.height + _CLEARANCE, 1, 0, 0, 0]
    data.qpos[7:] = data.ctrl[:] = stance.angles
    history = []
    for _ in range(round(seconds / (_SAMPLE * model.opt.timestep))):
        mujoco.mj_step(model, data, nstep=_SAMPLE)
        history.append((data.time, data.qpos[2], _tilt(data)))
    feet = [f"{leg.foot}_contact" for leg in tree.legs]
    contacts = [model.sensor(i).name for i in range(model.nsensor) if model.sensor(i).name.endswith("_contact")]
    others = [float(np.linalg.norm(data.sensor(name).data)) for name in contacts if name not in feet]
    return Settled(
        height=float(data.qpos[2]),
        tilt=_tilt(data),
        drift=float(np.hypot(*data.qpos[:2])),
        angles=data.qpos[7:].copy(),
        torques=data.actuator_force.copy(),
        forces=np.array([abs(float(data.sensor(name).data[2])) for name in feet]),
        others=max(others, default=0.0),
        history=np.array(history),
    )


def _tilt(data: Any) -> float:
    return float(np.arccos(np.clip(data.xmat[1, 8], -1, 1)))


def compensate(model: Any, search: Search, stance: Stance) -> Stance:
    """Return joint targets with which the robot settles in its stance: gravity bends joints away from their targets."""
    targets, settled = stance, settle(model, search.tree, stance, 2.0)
    for _ in range(4):
        if settled.tilt > 0.5:  # it falls
            break
        step = np.linalg.lstsq(search.spread, stance.angles - settled.angles, rcond=None)[0]  # the symmetric part
        angles = np.clip(targets.angles + 0.7 * search.spread @ step, search.low, search.high)
        targets = Stance(angles, stance.height)
        settled = settle(model, search.tree, targets, 2.0)
    return targets
