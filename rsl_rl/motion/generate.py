"""Generate reference motions of a robot from its model alone: gaits at any speed, and motions on the spot."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import math
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

import mujoco
import numpy as np
import torch
from torch import Tensor

from rsl_rl.motion import gaits, postures
from rsl_rl.motion.clip import Clip
from rsl_rl.motion.gaits import Body, Gait, Track
from rsl_rl.motion.kinematics import Kinematics, build_clip
from rsl_rl.motion.legs import Legs, legs_of, yaw_matrix
from rsl_rl.motion.postures import Key
from rsl_rl.motion.rotations import from_vector, multiply, turned
from rsl_rl.robots import Robot
from rsl_rl.sim.kinematics import rotation_matrix
from rsl_rl.utils.registry import suggest
from rsl_rl.utils.tensors import from_yaw

MAX_ERROR = 1e-3
"""Largest error of a foot, as a share of the length of the legs."""

_HEIGHTS = (1.0, 0.97, 0.94, 0.9, 0.86, 0.82, 0.78)
"""Heights of the trunk in a gait, as shares of the standing height; the first that the legs allow is used."""

_LOWEST = tuple(0.3 + 0.02 * i for i in range(26))
"""Heights of a lying trunk, as shares of the standing height; the first that legs and trunk allow is used."""

_TURNING = 0.02
"""Weight of the rotation of a sole; small, so that ankles without roll do not move the feet."""

_CLEARANCE = 0.005
"""Distance of a lying trunk from the floor [m]."""


class Model(NamedTuple):
    """A robot with what its motions are generated from."""

    robot: Robot
    kinematics: Kinematics
    legs: Legs
    body: Body
    height: float  # of the standing trunk [m]
    below: float  # lowest point of the trunk's shapes under its origin [m]


def model_of(robot: Robot) -> Model:
    """Measure a robot for the generator; one without two or four feet is a ValueError."""
    kinematics, legs = Kinematics(robot), legs_of(robot)
    model = kinematics.model
    height = robot.foot_radius - float(legs.default_position[:, 2].mean())
    home = legs.default_position.clone()
    home[:, 2] = robot.foot_radius
    data = mujoco.MjData(model)
    data.qpos[:3], data.qpos[3:7] = (0.0, 0.0, height), (1.0, 0.0, 0.0, 0.0)
    data.qpos[model.jnt_qposadr[kinematics.joints]] = legs.default
    mujoco.mj_forward(model, data)
    full = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, full)
    mass, trunk = float(full[0, 0]), int(model.jnt_bodyid[0])
    arm = data.subtree_com[trunk] - data.qpos[:3]
    inertia = float(full[4, 4]) / mass - float(arm[0] ** 2 + arm[2] ** 2)  # about the centre of mass
    own = [i for i in range(model.ngeom) if model.geom_bodyid[i] == trunk and _collides(model, i)]
    below = min((_lowest(model, data, i) - height for i in own), default=0.0)
    gaits.places_of(home)  # a ValueError if the feet are not where gaits need them
    return Model(robot, kinematics, legs, Body(home, legs.length, inertia), height, below)


def _collides(model: mujoco.MjModel, geom: int) -> bool:
    pairs = {*model.pair_geom1.tolist(), *model.pair_geom2.tolist()}
    return bool(model.geom_contype[geom] or model.geom_conaffinity[geom] or geom in pairs)


def _lowest(model: mujoco.MjModel, data: mujoco.MjData, geom: int) -> float:
    """Return the lowest point of the box around a geom in the world [m]."""
    center, half = model.geom_aabb[geom][:3], model.geom_aabb[geom][3:]
    down = data.geom_xmat[geom].reshape(3, 3)[2]
    return float(data.geom_xpos[geom][2] + down @ center - np.abs(down) @ half)


def motion_names(robot: Robot) -> Dict[str, str]:
    """Return the motions that can be generated for a robot, each with "gait" or "on the spot"."""
    return _names(len(legs_of(robot).default_position))


def _names(feet: int) -> Dict[str, str]:
    cyclic, keys = (gaits.GAITS, postures.KEYS) if feet == 4 else (gaits.BIPED_GAITS, postures.BIPED_KEYS)
    return {**dict.fromkeys(cyclic, "gait"), "turn": "gait", **dict.fromkeys([*keys, "hop"], "on the spot")}


def generate(
    robot: Robot,
    motion: str,
    speed: Optional[float] = None,
    side: Optional[float] = None,
    turn: Optional[float] = None,
    seconds: float = 0.0,
    fps: float = 50.0,
    name: str = "",
) -> Clip:
    """Return a motion of a robot: one of :func:`motion_names`.

    A gait is a loop of as many whole cycles as take ``seconds``, at least one, at a velocity forward and to the left
    [m/s] with a yaw rate [rad/s]; None is the gait's own. A motion that the joint limits or the lengths of the legs do
    not allow is a ValueError.
    """
    own = model_of(robot)
    known = _names(len(own.body.home))
    if motion not in known:
        raise ValueError(
            f"unknown motion '{motion}' for this robot; known: {', '.join(known)}.{suggest(motion, known)}"
        )
    for given, flag in ((speed, "speed"), (side, "side"), (turn, "turn"), (seconds, "seconds")):
        if given is not None and not math.isfinite(given):
            raise ValueError(f"{flag} is {given}; give a number")
    if not 0 <= seconds <= 600:
        raise ValueError(f"seconds is {seconds:g}; give up to 600")
    if not 10 <= fps <= 1000:
        raise ValueError(f"fps is {fps:g}; give 10 to 1000 frames per second")
    if known[motion] == "gait":
        return _gait(own, motion, (speed, side, turn), seconds, fps, name)
    if any(value is not None for value in (speed, side, turn)) or seconds:
        raise ValueError(f"'{motion}' stays on the spot for a time of its own; leave out speed, side, turn and seconds")
    return _posture(own, motion, fps, name or motion)


def _gait(
    own: Model,
    motion: str,
    given: Tuple[Optional[float], Optional[float], Optional[float]],
    seconds: float,
    fps: float,
    name: str,
) -> Clip:
    """Return a gait at the greatest height of the trunk that the legs allow."""
    body, four = own.body, len(own.body.home) == 4
    gait: Gait = (gaits.GAITS if four else gaits.BIPED_GAITS)[
        motion if motion != "turn" else ("trot" if four else "march")
    ]
    root = math.sqrt(gaits.GRAVITY * body.length)  # [m/s]
    on_the_spot = motion in ("turn", "side_step", "march")
    defaults = (
        0.0 if on_the_spot or given[1] or given[2] else gait.speed * root,
        0.08 * root if motion == "side_step" else 0.0,
        (0.8 if four else 0.5) * (motion == "turn"),
    )
    vx, vy, rate = (default if value is None else value for value, default in zip(given, defaults))
    plan = gaits.schedule(gait, body, (vx, vy, rate), fps)
    cycles = max(1, round(seconds / plan.period))
    shift = torch.zeros(3, dtype=torch.float64)
    worst = 0.0
    for share in _HEIGHTS:
        for _ in range(1 if four else 2):  # the second time with the centre of mass above the feet
            track = gaits.track(gait, plan, body, share * own.height, cycles)
            pose, joint_pos, error = _solve(own, track, shift)
            if not four:
                shift = shift - _mean_offset(own, pose, joint_pos, track)
        worst = float(error.max()) / body.length
        if worst < MAX_ERROR:
            label = name or f"{motion} {vx:.2f} {vy:.2f} {rate:.2f}"
            return build_clip(own.kinematics, pose[0], pose[1], joint_pos, fps, label, loop=True)
    raise ValueError(
        f"the legs do not reach the steps of '{motion}' at {vx:.2f} m/s forward, {vy:.2f} m/s to the left and "
        f"{rate:.2f} rad/s (error {100 * worst:.1f} % of their length); give a lower speed"
    )


def _posture(own: Model, motion: str, fps: float, name: str) -> Clip:
    """Return a motion on the spot, which goes as low as legs and trunk allow."""
    body, four = own.body, len(own.body.home) == 4
    keys = (postures.KEYS if four else postures.BIPED_KEYS).get(motion)
    if keys is None:
        tracks = [postures.hop(body, own.height, fps, 0.2 if four else 0.06, 0.25 if four else 0.12)]
    else:
        tracks = _depths(own, keys, fps)
    for track in tracks:
        shift = torch.zeros(len(track.root_pos), 3, dtype=torch.float64)
        for _ in range(1 if four else 4):  # later times with the centre of mass above the feet
            pose, joint_pos, error = _solve(own, track, shift)
            if not four:
                shift = shift - _offsets(own, pose, joint_pos, track)
        if float(error.max()) < MAX_ERROR * body.length:
            return build_clip(own.kinematics, pose[0], pose[1], joint_pos, fps, name)
    raise ValueError(
        f"the legs of this robot do not allow '{motion}': a foot is {100 * float(error.max()):.1f} cm away"
    )


def _depths(own: Model, keys: Sequence[Key], fps: float) -> List[Track]:
    """Return a motion by keyframes at several depths, the deepest first, for legs that do not fold so far."""
    if any(postures.LOW in key[1:3] for key in keys):
        floor = (_CLEARANCE - own.below) / own.height
        lowest = [share for share in _LOWEST if share >= floor]
        if not lowest:
            raise ValueError("the trunk of this robot is too near to the floor to lie down")
        return [postures.hold(keys, own.body, own.height, share, fps) for share in lowest]

    def less_deep(key: Key, share: float) -> Key:
        return key._replace(front=1 - share * (1 - key.front), rear=1 - share * (1 - key.rear))

    shares = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
    return [postures.hold([less_deep(key, x) for key in keys], own.body, own.height, 1.0, fps) for x in shares]


def _solve(own: Model, track: Track, shift: Tensor) -> Tuple[Tuple[Tensor, Tensor], Tensor, Tensor]:
    """Return the pose of the trunk [S, 3] and [S, 4], joint angles [S, J] and the largest error of a foot [S]."""
    pos = track.root_pos + torch.cat(
        (turned(shift[..., :2].expand(len(track.root_pos), 2), track.root_yaw), 0 * track.root_pos[:, 2:]), dim=1
    )
    zero = torch.zeros_like(track.root_pitch)
    lean = from_vector(torch.stack((zero, track.root_pitch, zero), dim=1))
    quat = multiply(from_yaw(track.root_yaw), lean)
    to_world = rotation_matrix(quat)
    position = (track.foot_pos - pos.unsqueeze(1)) @ to_world
    rotation = to_world.mT.unsqueeze(1) @ yaw_matrix(track.foot_yaw) @ own.legs.default_rotation
    joint_pos, error = own.legs.solve(position, rotation, turning=_TURNING)
    return (pos, quat), joint_pos, error


def _offsets(own: Model, pose: Tuple[Tensor, Tensor], joint_pos: Tensor, track: Track) -> Tensor:
    """Return how far the centre of mass is from above the middle of the feet [S, 3], in the frame of the heading."""
    model = own.kinematics.model
    data, trunk = mujoco.MjData(model), int(model.jnt_bodyid[0])
    center = torch.zeros(len(joint_pos), 3, dtype=torch.float64)
    angles = [int(model.jnt_qposadr[joint]) for joint in own.kinematics.joints]
    for i in range(len(joint_pos)):
        data.qpos[:3], data.qpos[3:7], data.qpos[angles] = pose[0][i], pose[1][i], joint_pos[i]
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        center[i] = torch.as_tensor(data.subtree_com[trunk].copy())
    apart = center - track.foot_pos.mean(dim=1)
    return torch.cat((turned(apart[:, :2], -track.root_yaw), 0 * apart[:, 2:]), dim=1)


def _mean_offset(own: Model, pose: Tuple[Tensor, Tensor], joint_pos: Tensor, track: Track) -> Tensor:
    """Return the forward part of the mean of :func:`_offsets` [3]; the sideward part is the sway."""
    mean = _offsets(own, pose, joint_pos, track).mean(dim=0)
    return mean * torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
