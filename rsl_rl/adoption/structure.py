"""Find base, legs and feet of a compiled model, by its chains of joints and its shapes.

Names tell arms from legs and decide which way is forward; where they say nothing, shapes and joints decide alone.
"""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

from collections import Counter
from typing import Any, Collection, Dict, Iterable, List, Mapping, NamedTuple, Sequence, Tuple

import mujoco
import numpy as np

from rsl_rl.adoption.geometry import geoms_of, inertia_box, points_of, points_of_shape
from rsl_rl.adoption.names import end_of, is_arm, side_of
from rsl_rl.adoption.reading import SourceModel
from rsl_rl.utils.registry import suggest

_HINGE, _FREE = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_FREE)

_REACH = 0.3
"""A chain whose lowest point is higher than the lowest one of all, by more than this fraction of the robot's height
below its base, is an arm and no leg."""

_ROUND = 0.15
"""A last link is a wheel if its lowest point moves by less than this fraction of its radius in a turn."""

_ALONG = 0.9
"""Smallest cosine between an axis and one that counts as parallel."""

_APART = 0.15
"""Smallest distance between the ends of two legs, as a fraction of the length of a leg: the bars of a closed chain end
at one place."""

_SIDEWAYS = 0.7
"""An arm that points further to its side than this fraction of its length is held in a T-pose."""

_ABOVE = 0.3
"""Legs do not begin above the base by more than this fraction of their length."""

_TURN_COST, _ROUNDS, _EIGHTH = 0.1, 3, np.pi / 8
"""Of the search for angles that lower a chain: fraction of its length that it must get lower for each rad that a joint
turns; passes over its joints; distance between the angles that are tried [rad]."""

_MIRRORED = 0.1
"""Largest distance between a hip and the mirror image of another one, as a fraction of the distance between hips, of
legs that point down in none of the poses of the source."""

ANKLE_JOINTS = 5
"""A leg with this many joints has an ankle, and its foot is flat."""

_MAX_JOINTS = 6
"""Joints of a leg; a chain with more may be an arm."""

Parts = Dict[int, List[int]]
"""Bodies of each moving link, by the link's first body."""


Chains = Dict[int, Tuple[int, ...]]
"""Joints from the base to a link, by the link."""


class Hints(NamedTuple):
    """What a user knows of a robot. Empty values are found from the model."""

    feet: Tuple[str, ...] = ()  # last links of the legs, or links that are fixed to them
    base: str = ""  # link that is the trunk: its frame is that of the base
    legs: int = 0  # number of legs
    lock: Mapping[str, float] = {}  # angles of joints that do not move [rad]


class Leg(NamedTuple):
    """A chain of hinges from the base to a foot."""

    joints: Tuple[int, ...]  # of the source model, from the base to the foot
    link: int  # body of the last joint


class Skeleton(NamedTuple):
    """The parts of a robot, as indices of the source model."""

    legs: Tuple[Leg, ...]
    locked: Dict[int, float]  # angle of each joint that belongs to no leg
    base: int  # link whose frame is that of the base
    frame: np.ndarray  # [3, 3] columns: forward, left and up in the frame of the base link
    notes: Tuple[str, ...]
    warnings: Tuple[str, ...]  # guesses that may be wrong


NO_HINTS = Hints()


def find_skeleton(source: SourceModel, hints: Hints = NO_HINTS) -> Skeleton:
    """Return the parts of a robot; a model without a legged robot is a ValueError."""
    model = source.model
    if hints.legs < 0 or hints.legs % 2:
        raise ValueError(f"--legs {hints.legs}: legs come in pairs; give 2, 4 or 6")
    fixed = {_joint(source, name, angle): angle for name, angle in hints.lock.items()}
    base = _body(source, hints.base, "--base") if hints.base else source.base
    parts = find_parts(model, source.base, fixed)
    chains = _leaves(source, parts, hints, fixed)
    candidates = _without_arms(source, chains) if not hints.feet else chains
    poses = [pose.copy() for pose in source.poses]
    for pose in poses:
        for joint, angle in fixed.items():
            pose[model.jnt_qposadr[joint]] = angle
    trunk = next(link for link in parts if base in parts[link])
    problem = _Problem(source, hints, parts, candidates, trunk, _up(model, posed(model, poses[0]), parts, candidates))
    legs, angles, notes = _search_legs(problem, poses)
    used = {joint for leg in legs for joint in leg.joints}
    blocking = [model.joint(joint).name for joint in _path(model, base, source.base) if joint in used]
    if blocking:
        raise ValueError(f"--base {hints.base} is a part of a leg: it moves with the joint '{blocking[0]}'")
    pose, legs_used = poses[0].copy(), model.jnt_qposadr[sorted(used)]
    pose[legs_used] = angles[legs_used]
    frame = _frame(posed(model, pose), base, legs, problem.up)
    frame, more, warnings = _forward(problem, posed(model, poses[0]), posed(model, pose), base, legs, frame)
    left = posed(model, poses[0]).xmat[base].reshape(3, 3) @ frame[:, 1]
    hanging = _hang(problem, {leaf: path for leaf, path in chains.items() if not used & set(path)}, poses[0], left)
    others = [j for j in range(model.njnt) if model.jnt_type[j] != _FREE and j not in used]
    locked = {
        joint: fixed.get(joint, float(hanging[model.jnt_qposadr[joint]]))
        for joint in others
        if model.body_rootid[model.jnt_bodyid[joint]] == source.base
    }
    warnings += _doubts(problem, legs)
    return Skeleton(legs, locked, base, frame, (*notes, *more), tuple(warnings))


def _joint(source: SourceModel, name: str, angle: float) -> int:
    """Return the joint that a user locks at an angle [rad], or at a position [m] if it slides."""
    model = source.model
    known = {model.joint(j).name: j for j in range(model.njnt) if model.jnt_type[j] != _FREE}
    if name not in known:
        raise ValueError(f"--lock {name}: {source.path} has no joint of that name.{suggest(name, known)}")
    joint = known[name]
    low, high = model.jnt_range[joint]
    if model.jnt_limited[joint] and not low <= angle <= high:
        raise ValueError(f"--lock {name}={angle:g} is outside of the range of the joint, {low:.4g} to {high:.4g} rad")
    return joint


def _body(source: SourceModel, name: str, flag: str) -> int:
    model = source.model
    known = {model.body(b).name: b for b in range(1, model.nbody) if model.body_rootid[b] == source.base}
    if name not in known:
        raise ValueError(f"{flag} {name}: {source.path} has no link of that name.{suggest(name, known)}")
    return known[name]


def posed(model: Any, qpos: np.ndarray) -> Any:
    """Return data of a model in a pose, with positions computed."""
    data = mujoco.MjData(model)
    data.qpos[:] = qpos
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    return data


def find_parts(model: Any, base: int, fixed: Collection[int]) -> Parts:
    """Return the bodies of each link that moves against its parent, if the joints ``fixed`` do not move."""
    owner, parts = {base: base}, {base: [base]}
    for body in range(base + 1, model.nbody):
        if model.body_rootid[body] != base:
            continue
        moves = any(joint not in fixed for joint in joints_of(model, body))
        owner[body] = body if moves else owner[int(model.body_parentid[body])]
        parts.setdefault(owner[body], []).append(body)
    return parts


def joints_of(model: Any, body: int) -> range:
    """Return the joints between a body and its parent."""
    first = int(model.body_jntadr[body])
    return range(first, first + int(model.body_jntnum[body]))


def link_points(model: Any, data: Any, bodies: Sequence[int]) -> np.ndarray:
    """Return points on the shapes of the bodies of a link, [n, 3] in world coordinates.

    A link without shapes has the box of its inertia and the origins of the frames that are fixed to it.
    """
    found: List[np.ndarray] = []
    for body in bodies:
        local = [points_of(model, geom) for geom in geoms_of(model, body)]
        found += [_to_world(data, body, points) for points in local if len(points)]
    if not found:
        found = [data.xpos[list(bodies)]]
        heavy = [body for body in bodies if model.body_mass[body] > 1e-3]
        found += [_to_world(data, body, points_of_shape(inertia_box(model, body))) for body in heavy]
    return np.concatenate(found)


def _to_world(data: Any, body: int, points: np.ndarray) -> np.ndarray:
    return points @ data.xmat[body].reshape(3, 3).T + data.xpos[body]


def _path(model: Any, body: int, base: int) -> Tuple[int, ...]:
    """Return the joints between the base and a body."""
    joints: Tuple[int, ...] = ()
    while body != base:
        joints = (*joints_of(model, body), *joints)
        body = int(model.body_parentid[body])
    return joints


def _leaves(source: SourceModel, parts: Parts, hints: Hints, fixed: Collection[int]) -> Dict[int, Tuple[int, ...]]:
    """Return the joints from the base to each last link, or to the links that the user names."""
    model = source.model
    paths = {body: tuple(j for j in _path(model, body, source.base) if j not in fixed) for body in parts}
    del paths[source.base]
    if not paths:
        raise ValueError(
            f"{source.path} has no joints between links; a legged robot has legs with at least two joints each"
        )
    if not hints.feet:
        inner = {path[:i] for path in paths.values() for i in range(len(path))}
        return {body: path for body, path in paths.items() if path not in inner}
    found: Dict[int, Tuple[int, ...]] = {}
    for name in hints.feet:
        body = _body(source, name, "--feet")
        link = next(link for link in parts if body in parts[link])
        if link not in paths or link in found:
            why = "another foot is a part of the same link" if link in found else "no joint moves it against the base"
            raise ValueError(f"--feet {name}: {why}; name one link of each leg")
        found[link] = paths[link]
    return found


def _without_arms(source: SourceModel, chains: Chains) -> Chains:
    """Return the chains that are not arms or heads by their names."""
    model = source.model
    legs = {leaf: path for leaf, path in chains.items() if not is_arm(_names(model, path, leaf))}
    if not legs:
        raise ValueError(
            f"{source.path} has no legs: by their names all chains of joints are arms or heads "
            f"({_listed(model, chains)}); if some are legs, give their last links with --feet"
        )
    return legs


def _link_names(model: Any, joints: Sequence[int], link: int) -> List[str]:
    """Return the names of the links of a chain."""
    return [model.body(body).name for body in sorted({int(model.jnt_bodyid[joint]) for joint in joints} | {link})]


def _names(model: Any, joints: Sequence[int], link: int) -> List[str]:
    """Return the names of the joints of a chain and of its links."""
    return [*(model.joint(joint).name for joint in joints), *_link_names(model, joints, link)]


def _listed(model: Any, links: Iterable[int]) -> str:
    return ", ".join(model.body(link).name for link in links)


class _Problem(NamedTuple):
    """A robot whose legs are to be found."""

    source: SourceModel
    hints: Hints
    parts: Parts
    chains: Chains  # that may be legs
    trunk: int  # link of the base
    up: np.ndarray  # [3] in the world


def _search_legs(problem: _Problem, poses: Sequence[np.ndarray]) -> Tuple[Tuple[Leg, ...], np.ndarray, List[str]]:
    """Return the legs, the pose [nq] in which they point down, and notes.

    The poses of the source are tried first, and then the one in which all chains reach as low as they can. There, only
    legs at places that are mirror images count: every hand can point down.
    """
    model, path = problem.source.model, problem.source.path
    refusal = None
    for pose in sorted(poses, key=lambda pose: -_depth(problem, pose)):
        if _points_down(problem, pose):
            try:
                return _legs_in(problem, pose), pose, []
            except ValueError as error:
                refusal = refusal or error
    pose = _lowered(problem, problem.chains, poses[0])
    if len(problem.chains) == 1 or not _points_down(problem, pose):
        raise refusal or ValueError(f"{path} has no legs: no chain of joints reaches below its base link")
    try:
        legs = _legs_in(problem, pose)
    except ValueError as error:
        raise refusal or error from None
    hips = posed(model, pose).xanchor[[leg.joints[0] for leg in legs]]
    errors = [_mirror_error(hips, axis) for axis in np.eye(3) if abs(axis @ problem.up) < 0.5]
    if min(errors) > _MIRRORED * float(np.ptp(hips, axis=0).max()) and not problem.hints.feet:
        raise refusal or ValueError(
            f"{path} has no legs: the chains that can reach below its base link do not begin at mirrored places; name "
            "the last links of the legs with --feet if that is wrong"
        )
    return legs, pose, ["legs found by turning their joints; in the poses of the file they do not point down"]


def _lowered(problem: _Problem, chains: Chains, pose: np.ndarray) -> np.ndarray:
    """Return a pose [nq] in which each chain reaches as low as it can, by a search along one joint at a time."""
    model, up = problem.source.model, problem.up
    pose, data = pose.copy(), mujoco.MjData(problem.source.model)
    start = posed(model, pose)
    for leaf, path in chains.items():
        bodies = problem.parts[leaf]
        points = (link_points(model, start, bodies) - start.xpos[leaf]) @ start.xmat[leaf].reshape(3, 3)
        length = float(np.linalg.norm(start.xpos[leaf] - start.xanchor[path[0]]) + np.ptp(points, axis=0).max())
        hinges = [joint for joint in path if model.jnt_type[joint] == _HINGE]
        addresses = model.jnt_qposadr[hinges]
        zero = pose[addresses]

        for joint, address in zip(hinges * _ROUNDS, [*addresses] * _ROUNDS):
            low, high = model.jnt_range[joint] if model.jnt_limited[joint] else (-np.pi, np.pi)
            costs = {}
            for angle in (pose[address], *np.clip(_EIGHTH * np.arange(-8, 9), low, high)):
                pose[address] = angle
                data.qpos[:] = pose
                mujoco.mj_kinematics(model, data)
                lowest = (points @ data.xmat[leaf].reshape(3, 3).T @ up).min() + data.xpos[leaf] @ up
                costs.setdefault(angle, float(lowest + _TURN_COST * length * np.abs(pose[addresses] - zero).sum()))
            pose[address] = min(costs, key=lambda angle: round(costs[angle], 6))
    return pose


def _hang(problem: _Problem, arms: Chains, pose: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Return the pose [nq] with the arms that point sideways hanging down, as far as their joints allow.

    ``left`` is a direction in the world. Joints of a waist, which move arms of both sides, keep their angles.
    """
    model = problem.source.model
    data = posed(model, pose)
    sides: Dict[int, set] = {}
    for leaf, path in arms.items():
        for joint in path:
            sides.setdefault(joint, set()).add(float((data.xpos[leaf] - data.xpos[problem.trunk]) @ left) > 0)
    sideways: Chains = {}
    for leaf, path in arms.items():
        own = tuple(joint for joint in path if len(sides[joint]) == 1)
        if len(own) > 1:
            arm = data.xpos[leaf] - data.xanchor[own[0]]
            if abs(arm @ left) > _SIDEWAYS * np.linalg.norm(arm):
                sideways[leaf] = own
    return _lowered(problem, sideways, pose)


def _doubts(problem: _Problem, legs: Sequence[Leg]) -> List[str]:
    """Return warnings on legs that may be arms and on other chains that may be legs."""
    model, doubts = problem.source.model, []
    parts, counts = problem.parts, {len(leg.joints) for leg in legs}
    remedy = "name the last links of the legs with --feet if that is wrong"
    bare = [leg.link for leg in legs if not any(geoms_of(model, body) for body in parts[leg.link])]
    if bare:
        doubts.append(f"links of feet without shapes, so that the feet are guesses: {_listed(model, bare)}")
    if problem.hints.feet:
        return doubts
    if max(counts) > _MAX_JOINTS or (max(counts) >= ANKLE_JOINTS and len(legs) > 2):
        listed = _listed(model, (leg.link for leg in legs))
        doubts.append(f"{len(legs)} legs with {max(counts)} joints ({listed}) are rare, some may be arms; {remedy}")
    used = {joint for leg in legs for joint in leg.joints}
    rest = [leaf for leaf, path in problem.chains.items() if len(set(path) - used) > 1 and not used & set(path)]
    if len(rest) > 1 and not problem.hints.legs:
        doubts.append(f"chains taken for arms, which may be legs: {_listed(model, rest)}; {remedy}")
    return doubts


def _up(model: Any, data: Any, parts: Parts, chains: Chains) -> np.ndarray:
    """Return the axis of the world that points up: away from the last links that are farthest from their hips.

    Without legs that hang along another axis, it is z. The hips of hanging legs are at about one height; legs that lie
    stretched out, as in the zero pose of some models, have their hips at different places along them.
    """
    hips = data.xanchor[[path[0] for path in chains.values()]]
    legs = np.array([link_points(model, data, parts[leaf]).mean(axis=0) for leaf in chains]) - hips
    length = np.linalg.norm(legs, axis=1)
    far = length > 0.5 * length.max()
    if not far.any():  # all end at their hips, as wheels do
        return np.array((0.0, 0.0, 1.0))
    down, spread = legs[far].mean(axis=0), np.ptp(hips[far], axis=0)
    axis = int(np.abs(down).argmax())
    if abs(down[axis]) < 0.5 * length.max() or spread[axis] > spread[2]:
        axis = 2
    up = np.zeros(3)
    up[axis] = 1.0 if axis == 2 else -np.sign(down[axis])
    return up


def _depth(problem: _Problem, pose: np.ndarray) -> float:
    """Return how far the last links reach below the base link in a pose [nq] [m]."""
    data = posed(problem.source.model, pose)
    return float(data.xpos[problem.trunk] @ problem.up) - min(_lowest(problem, data).values())


def _lowest(problem: _Problem, data: Any) -> Dict[int, float]:
    """Return the height of the lowest point of each last link [m]."""
    model, parts = problem.source.model, problem.parts
    return {leaf: float((link_points(model, data, parts[leaf]) @ problem.up).min()) for leaf in problem.chains}


def _points_down(problem: _Problem, pose: np.ndarray) -> bool:
    """Return whether a last link reaches below the base link in a pose [nq]."""
    data = posed(problem.source.model, pose)
    base = link_points(problem.source.model, data, problem.parts[problem.trunk]) @ problem.up
    floor = min(_lowest(problem, data).values())
    return bool(floor < np.median(base) and floor <= base.min()) or bool(problem.hints.feet)


def _legs_in(problem: _Problem, pose: np.ndarray) -> Tuple[Leg, ...]:
    """Return the legs: the chains that reach lowest in a pose [nq]; other parts than legs are a ValueError."""
    source, hints, parts, chains, trunk, up = problem
    model, data = source.model, posed(source.model, pose)
    lowest = _lowest(problem, data)
    base_points = link_points(model, data, parts[trunk]) @ up
    floor = min(lowest.values())
    height = float(np.median(base_points)) - floor
    if hints.feet:
        feet = list(chains)
    elif hints.legs:
        feet = sorted(chains, key=lambda leaf: lowest[leaf])
    else:
        feet = [leaf for leaf in chains if lowest[leaf] < floor + _REACH * height]
    legs: List[Leg] = []
    for leaf in feet:
        leg = Leg(chains[leaf], leaf)
        for other in legs if not hints.feet else ():
            shared = tuple(joint for joint in other.joints if joint in leg.joints)
            if len(shared) > 0.6 * max(len(other.joints), len(leg.joints)):  # two toes of one foot: they are locked
                legs.remove(other)
                leg = Leg(shared, int(model.jnt_bodyid[shared[-1]]))
                break
        if len(legs) < (hints.legs or len(feet)):
            legs.append(leg)
    if not hints.feet and not hints.legs:
        legs = _alike(legs, lowest)
    counts = Counter(joint for leg in legs for joint in leg.joints)
    found = tuple(Leg(tuple(j for j in leg.joints if counts[j] == 1), leg.link) for leg in legs)
    _require_legs(problem, data, found, float(base_points.max()))
    return found


def _alike(legs: Sequence[Leg], lowest: Mapping[int, float]) -> List[Leg]:
    """Return the legs with as many joints as the one that reaches lowest, if they are pairs.

    Of a robot with ankles, the others may be arms.
    """
    counts = Counter(joint for leg in legs for joint in leg.joints)
    own = [sum(counts[joint] == 1 for joint in leg.joints) for leg in legs]
    wanted = own[min(range(len(legs)), key=lambda i: lowest.get(legs[i].link, np.inf))]
    alike = [leg for leg, count in zip(legs, own) if count == wanted]
    return alike if len(alike) % 2 == 0 and max(own) >= ANKLE_JOINTS else list(legs)


def _require_legs(problem: _Problem, data: Any, legs: Sequence[Leg], top: float) -> None:
    """Raise a ValueError if these are not the legs of a robot; ``top`` is the height of its base link."""
    source, hints, parts, _, _, up = problem
    model, path = source.model, source.path
    names = [model.body(leg.link).name for leg in legs]
    wheels = [name for name, leg in zip(names, legs) if is_wheel(model, data, leg, parts)]
    if wheels:
        raise ValueError(
            f"{path} stands on wheels ({', '.join(wheels)}); only robots with legs are supported, or with wheels that "
            "--lock holds"
        )
    short = [name for name, leg in zip(names, legs) if len(leg.joints) < 2]
    if short:
        raise ValueError(
            f"{path} has no legs: the chain to {short[0]} has {len(legs[names.index(short[0])].joints)} joint(s) of "
            "its own; a leg has at least two"
        )
    if len(legs) < 2:
        raise ValueError(f"{path} has one leg ({names[0]}); robots with two or more legs are supported")
    if len(legs) % 2:
        raise ValueError(f"{path} has {len(legs)} legs ({', '.join(names)}); they must be pairs of left and right legs")
    if hints.legs and len(legs) != hints.legs:
        raise ValueError(f"--legs {hints.legs}: {path} has {len(legs)} chains that may be legs ({', '.join(names)})")
    other = next((joint for leg in legs for joint in leg.joints if model.jnt_type[joint] != _HINGE), None)
    if other is not None:
        name = model.joint(other).name
        raise ValueError(f"{path}: joint '{name}' of a leg slides or is a ball; only hinges are supported")
    if hints.feet:
        return
    ends = np.array([link_points(model, data, parts[leg.link]).mean(axis=0) for leg in legs])
    hips = data.xanchor[[leg.joints[0] for leg in legs]]
    length = float(np.linalg.norm(ends - hips, axis=1).max())
    distance = np.linalg.norm(ends[:, None] - ends[None], axis=2) + np.diag(np.full(len(ends), np.inf))
    if distance.min() < _APART * length:
        first, second = (names[i] for i in np.unravel_index(distance.argmin(), distance.shape))
        raise ValueError(
            f"{path}: {first} and {second} end at one place, as bars of a closed chain or legs of a planar robot do; "
            "legs must be side by side and chains open. Name the last link of each leg with --feet if that is wrong"
        )
    above = float((hips @ up).min()) - top
    if above > _ABOVE * length and any(len(_path(model, leg.link, source.base)) > len(leg.joints) for leg in legs):
        raise ValueError(
            f"{path} has no legs: the chains that reach lowest ({', '.join(names)}) begin {above:.2f} m above its base "
            "link, as arms do; name the last link of each leg with --feet if that is wrong"
        )


def is_wheel(model: Any, data: Any, leg: Leg, parts: Parts) -> bool:
    """Return whether the last link of a chain is round about its joint, which has no limits."""
    if not leg.joints or model.jnt_limited[leg.joints[-1]]:
        return False
    joint = leg.joints[-1]
    axis, anchor = data.xaxis[joint], data.xanchor[joint]
    arms = link_points(model, data, parts[leg.link]) - anchor
    across = arms - np.outer(arms @ axis, axis)
    first = np.linalg.svd(across, full_matrices=False)[2][0]
    second = np.cross(axis, first)
    angles = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    directions = np.outer(np.cos(angles), first) + np.outer(np.sin(angles), second)
    reach = (across @ directions.T).max(axis=0)  # [24] of the link in each direction across the axis
    return bool(reach.min() > 0 and reach.max() - reach.min() < _ROUND * reach.max())


def _frame(data: Any, base: int, legs: Sequence[Leg], up: np.ndarray) -> np.ndarray:
    """Return forward, left and up in the frame of the base link, by the axes of joints.

    Knees turn about the sideways axis. Where they do not agree, it is y, or the other horizontal axis if only that is
    the axis of a mirror image of the hips. Forward is the positive direction of the remaining axis.
    """
    knees = np.array([data.xaxis[leg.joints[knee_of(len(leg.joints))]] for leg in legs])
    hips = np.array([data.xanchor[leg.joints[0]] - data.xpos[base] for leg in legs])
    size = np.linalg.norm(hips, axis=1).max() + 1e-6
    axes = [axis for axis in np.eye(3)[[1, 0, 2]] if abs(axis @ up) < 0.5]
    agree = [float(np.abs(knees @ axis).min()) for axis in axes]
    errors = [_mirror_error(hips, axis) / size for axis in axes]
    first = agree[0] > _ALONG or (agree[1] < _ALONG and (errors[0] < 0.1 or errors[0] <= errors[1]))
    forward = axes[1] if first else axes[0]
    world = np.stack([forward, np.cross(up, forward), up], axis=1)
    return data.xmat[base].reshape(3, 3).T @ world


def _forward(
    problem: _Problem, zero: Any, data: Any, base: int, legs: Sequence[Leg], frame: np.ndarray
) -> Tuple[np.ndarray, List[str], List[str]]:
    """Return forward, left and up, turned to what the names of the legs and their soles say; with notes and warnings.

    ``zero`` has zero joint angles, in ``data`` legs point down.
    """
    model = problem.source.model
    names = [_link_names(model, leg.joints, leg.link) for leg in legs]
    sides, ends = np.array([side_of(n) for n in names]), np.array([end_of(n) for n in names])
    anchors = np.array([data.xanchor[list(leg.joints)].mean(axis=0) - data.xpos[base] for leg in legs])
    places = anchors @ data.xmat[base].reshape(3, 3) @ frame
    ends = ends * (np.abs(places[:, 0]) > 0.2 * np.abs(places[:, 0]).max()) if len(legs) > 2 else 0 * ends
    turns = [np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]]) for c, s in ((1, 0), (-1, 0), (0, 1), (0, -1))]
    fits = [int(sides @ np.sign((places @ turn)[:, 1]) + ends @ np.sign((places @ turn)[:, 0])) for turn in turns]
    named = int(np.abs(sides).sum() + np.abs(ends).sum())
    if named and max(fits) == named:
        turn = turns[int(np.argmax(fits))]
        return frame @ turn, ["forward is where the names of the legs say"] if fits[0] < named else [], []
    if fits[0] < named:
        wrong = [f"{model.body(leg.link).name} at x {x:.2f}, y {y:.2f}" for leg, (x, y, _) in zip(legs, places)]
        text = f"the names of the legs do not fit their places, x forward and y left [m]: {', '.join(wrong)}"
        return frame, [], [f"{text}; forward may be wrong"]
    if min(len(leg.joints) for leg in legs) >= ANKLE_JOINTS:
        forward = zero.xmat[base].reshape(3, 3) @ frame[:, 0]
        soles = [link_points(model, zero, problem.parts[leg.link]) - zero.xanchor[leg.joints[-1]] for leg in legs]
        if all((sole @ forward).max() < -0.6 * (sole @ forward).min() for sole in soles):
            return frame @ turns[1], ["forward is where the feet point"], []
    return frame, [], []


def knee_of(count: int) -> int:
    """Return the position of the knee in a leg of ``count`` joints: the last one, or the fourth one with an ankle."""
    return 3 if count >= ANKLE_JOINTS else count - 1


def _mirror_error(points: np.ndarray, axis: np.ndarray) -> float:
    """Return the largest distance of a mirrored point from the nearest other point."""
    mirrored = points - 2 * np.outer(points @ axis, axis)
    distance = np.linalg.norm(mirrored[:, None] - points[None], axis=2)
    np.fill_diagonal(distance, np.inf)
    return float(distance.min(axis=1).max())
