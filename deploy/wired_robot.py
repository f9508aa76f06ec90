"""A simulated robot whose wiring is not that of its policy, on the floor or with its trunk on a stand.

udp_robot.py makes one with --wiring or --stand. The wiring is a JSON file with any of the fields of :class:`Wiring`;
``draw_wiring`` draws one at random. On the stand an operator turns the trunk and moves the links as he is asked, about
as well as a person does.
"""

import json
import math
from collections import deque
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

import numpy as np
from sim_to_sim import Walker

GO2_NOISE = {"joint_pos": 0.004, "joint_vel": 0.1, "base_ang_vel": 0.05, "base_quat": 0.004}
"""Standard deviations of a Go2's sensors, about those of its training [rad], [rad/s]."""
UNITS = {"joint_pos": ("rad", "deg"), "joint_vel": ("rad/s", "deg/s"), "base_ang_vel": ("rad/s", "deg/s")}
HELD_MASS = 1e5
"""Inertia that makes the trunk on the stand immovable for the legs [kg], [kg m^2]."""
_CONJUGATE = np.array((1.0, -1.0, -1.0, -1.0))
STAND_HEIGHT = 3.0
"""Of the trunk on the stand [m]."""


@dataclass(frozen=True)
class Wiring:
    """What is between the joints of a robot and its driver. A channel is a place in readings and targets."""

    joints: Tuple[str, ...] = ()
    """Joint of each channel; empty for the order that the driver says."""
    signs: Tuple[float, ...] = ()
    """1 or -1 of each channel: reading = sign * angle + zero."""
    zeros: Tuple[float, ...] = ()
    """[rad]."""
    imu_mounting: Tuple[float, ...] = (1.0, 0.0, 0.0, 0.0)
    """Rotation from the base frame to that of the IMU, w x y z."""
    quaternion_order: str = "wxyz"
    quaternion_inverse: bool = False
    gyro_in_world: bool = False
    units: Mapping[str, str] = field(default_factory=lambda: {name: known[0] for name, known in UNITS.items()})
    dead: Tuple[int, ...] = ()
    """Channels whose motors give no torque."""
    swapped: Tuple[Tuple[int, int], ...] = ()
    """Pairs of channels whose targets are exchanged, and whose readings are not."""
    flipped: Tuple[int, ...] = ()
    """Channels whose targets turn the other way than their readings."""
    frozen: Tuple[int, ...] = ()
    """Channels whose readings do not change."""
    freezes_at: float = math.inf
    """Time from which all readings stay the same [s]."""
    noise: Mapping[str, float] = field(default_factory=dict)
    """Standard deviation of each reading [rad], [rad/s]; base_quat is turned about each axis."""
    resolution: Mapping[str, float] = field(default_factory=dict)
    """Step of each reading, as of an encoder [rad], [rad/s]."""
    reading_delay: float = 0.0
    """Time by which readings are late [s]."""
    target_delay: float = 0.0
    """Time by which targets are late [s]."""
    friction: Tuple[float, ...] = ()
    """Dry friction of the joints, in the driver's order [N m]; one number is that of all."""
    backlash: float = 0.0
    """Play between a motor, which has the encoder, and its joint [rad]."""
    strength: Tuple[float, ...] = ()
    """Factor of the torque of the joints, in the driver's order; one number is that of all."""
    payload: float = 0.0
    """Mass added to the trunk [kg]."""
    tilt: Tuple[float, float] = (0.0, 0.0)
    """Roll and pitch of a trunk that the operator calls level [rad]."""
    seed: int = 0
    """Of noise and of the operator."""


def read_wiring(path: Path, names: Sequence[str]) -> Wiring:
    """Read a wiring of a robot with these joints; what does not fit is a ValueError that names the field."""
    if not path.is_file():  # such as a pipe, which could be read for ever
        raise FileNotFoundError(f"no file {path}; --draw_wiring SEED writes one")
    try:
        told = json.loads(path.read_bytes().decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {' '.join(str(error).split())[:200]}") from error
    known = {one.name: one for one in fields(Wiring)}
    unknown = [name for name in told if name not in known] if isinstance(told, dict) else [str(told)[:50]]
    if unknown:
        raise ValueError(f"{path} has {unknown[0]}; a wiring has {', '.join(known)}")
    try:
        return check_wiring(Wiring(**{name: _frozen(value) for name, value in told.items()}), names)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path}: {error}") from error


def check_wiring(wiring: Wiring, names: Sequence[str]) -> Wiring:
    """Return a wiring with a value for each joint; what does not fit is a ValueError that names the field."""
    count = len(names)
    full = replace(
        wiring,
        joints=tuple(wiring.joints or names),
        signs=_per_joint(wiring.signs or 1.0, count, "signs"),
        zeros=_per_joint(wiring.zeros or 0.0, count, "zeros"),
        friction=_per_joint(wiring.friction or 0.0, count, "friction"),
        strength=_per_joint(wiring.strength or 1.0, count, "strength"),
        units={**Wiring().units, **wiring.units},
    )
    if sorted(full.joints) != sorted(names):
        raise ValueError(f"joints={list(full.joints)}; give each of {list(names)} once")
    if not {-1.0, 1.0}.issuperset(full.signs):
        raise ValueError(f"signs={list(full.signs)}; give 1 or -1 for each joint")
    if any(full.units.get(name) not in allowed for name, allowed in UNITS.items()) or len(full.units) != len(UNITS):
        raise ValueError(f"units={dict(full.units)}; give {UNITS}")
    mounting = np.array(full.imu_mounting, float)
    if mounting.shape != (4,) or not abs(np.linalg.norm(mounting) - 1) < 1e-3:
        raise ValueError(f"imu_mounting={list(full.imu_mounting)}; give a unit quaternion w x y z")
    if full.quaternion_order not in ("wxyz", "xyzw"):
        raise ValueError(f"quaternion_order={full.quaternion_order}; give wxyz or xyzw")
    for name in ("noise", "resolution"):
        values = getattr(full, name)
        if not set(GO2_NOISE).issuperset(values) or not all(0 <= x < math.inf for x in values.values()):
            raise ValueError(f"{name}={dict(values)}; give numbers from 0 for some of {list(GO2_NOISE)}")
    for name in ("reading_delay", "target_delay", "backlash"):
        if not 0 <= getattr(full, name) <= 1:
            raise ValueError(f"{name}={getattr(full, name)}; give a number from 0 to 1")
    if min(full.friction) < 0 or min(full.strength) < 0:
        raise ValueError("friction and strength must not be negative")
    if not all(map(_is_number, (full.payload, *full.tilt))) or len(full.tilt) != 2 or full.payload < 0:
        raise ValueError(f"payload={full.payload}, tilt={full.tilt}; give a mass from 0, and roll and pitch")
    if not isinstance(full.freezes_at, (int, float)) or not full.freezes_at >= 0:
        raise ValueError(f"freezes_at={full.freezes_at}; give a time from 0")
    if not isinstance(full.seed, int) or full.seed < 0:
        raise ValueError(f"seed={full.seed}; give a whole number from 0")
    channels = [*full.dead, *full.flipped, *full.frozen, *(i for pair in full.swapped for i in pair)]
    if any(not isinstance(i, int) or not 0 <= i < count for i in channels):
        raise ValueError(f"dead, swapped, flipped, frozen: give channels from 0 to {count - 1}")
    return full


def write_wiring(wiring: Wiring, path: Path) -> None:
    Path(path).write_text(json.dumps({k: v for k, v in asdict(wiring).items() if v != math.inf}, indent=1) + "\n")


def draw_wiring(names: Sequence[str], torque_limits: Sequence[float], seed: int) -> Wiring:
    """Draw a wiring: any order and signs, zeros up to 0.5 rad, an IMU that is turned by any rotation of its axes and up
    to 15 degrees more, delays of 0 to 60 ms together, a Go2's noise, friction of 0.2 to 1 % of the torque limits,
    motors 5 % weaker or stronger, and a stand that is level to about a degree."""
    rng, count = np.random.default_rng(seed), len(names)
    axes = np.eye(3)[rng.permutation(3)] * rng.choice([-1.0, 1.0], (3, 1))
    axes[0] *= np.linalg.det(axes)
    delay, part = rng.uniform(0.0, 0.06), rng.uniform()
    vector = rng.normal(size=3)
    vector *= math.radians(15) * rng.uniform() / np.linalg.norm(vector)
    mounting = product(turn(vector), quaternion(axes))
    return check_wiring(
        Wiring(
            joints=tuple(names[int(i)] for i in rng.permutation(count)),
            signs=tuple(rng.choice([-1.0, 1.0], count).tolist()),
            zeros=tuple(rng.uniform(-0.5, 0.5, count).round(4).tolist()),
            imu_mounting=tuple(mounting.tolist()),
            noise=GO2_NOISE,
            reading_delay=delay * part,
            target_delay=delay * (1 - part),
            friction=tuple((rng.uniform(0.002, 0.01, count) * np.asarray(torque_limits)).tolist()),
            strength=tuple(rng.uniform(0.95, 1.05, count).tolist()),
            tilt=tuple(rng.normal(0, 0.009, 2).tolist()),
            seed=seed,
        ),
        names,
    )


class WiredWalker(Walker):
    """A robot of sim_to_sim.py behind a wiring. Readings, targets and gains are those of its channels."""

    _joint: Any = None  # [J] of each channel

    def __init__(self, mujoco: Any, policy: Any, wiring: Wiring, model: Optional[Path] = None, stand: bool = False):
        super().__init__(mujoco, policy, model)
        names = self.policy.joint_names
        self.wiring = check_wiring(wiring, names)
        self._joint = np.array([names.index(name) for name in self.wiring.joints])
        self._signs, self._zeros = np.array(self.wiring.signs), np.array(self.wiring.zeros)
        self._factor = 180 / math.pi if self.wiring.units["joint_pos"] == "deg" else 1.0
        self._random = np.random.default_rng(self.wiring.seed)
        self._target_channel = np.arange(len(names))  # whose target each channel's motor gets
        for i, j in self.wiring.swapped:
            self._target_channel[[i, j]] = self._target_channel[[j, i]]
        self._operator = Operator(self) if stand else None
        self._dofs = self._vel
        self.model.dof_frictionloss[self._dofs] = self.wiring.friction
        if self.wiring.payload:
            self.set_body(None, self.wiring.payload)
        if stand:
            self.model.dof_armature[:6] = HELD_MASS
        self.reset()

    @property
    def stands(self) -> bool:
        """Whether the trunk is held by a stand."""
        return self._operator is not None

    def reset(self) -> None:
        """Reset the robot to its standing pose, or let its legs hang from the stand."""
        super().reset()
        wiring, count = self.wiring, len(self.policy.joint_names)
        self._strength = np.array(wiring.strength)
        self._strength[self._joint[list(wiring.dead)]] = 0.0
        self.largest_share, self._per_limit = np.zeros(count), 1.0 / self.policy.torque_limits
        self._reading_queue: deque = deque()
        self._target_queue: deque = deque()
        self._frozen: Optional[Dict[str, np.ndarray]] = None
        self._motor_pos = self.data.qpos[self._pos].copy()
        self._sent_gains = self.policy.stiffness, self.policy.damping
        if self._operator is not None:
            self.data.qpos[2] = STAND_HEIGHT
            self._operator.reset()
            self.set_gains(0.0, 0.3)
            still = np.zeros(count)
            for _ in range(300):  # the legs swing out
                self._simulate(still, still, 0.3 * self.policy.damping, round(0.01 / self.model.opt.timestep))
            self.largest_share[:] = 0.0
            self.data.time = 0.0

    def hand(self, request: Mapping[str, Any]) -> None:
        """Let the operator do something; see :class:`Operator`."""
        if self._operator is not None:
            self._operator.take(request)

    def set_gains(self, stiffness_scale: Any, damping_scale: Any) -> None:
        """Set the gains of the channels, as factors of the policy's."""
        if self._joint is None:  # the model is being built
            super().set_gains(stiffness_scale, damping_scale)
            return
        self._sent_gains = self.policy.stiffness * stiffness_scale, self.policy.damping * damping_scale

    def simulate(self, targets: np.ndarray) -> None:
        """Simulate the time of ``substeps`` with targets of the channels, which arrive after their delay."""
        now, delay = self.data.time, self.wiring.target_delay
        self._target_queue.append((now + delay, np.array(targets, float), *self._sent_gains))
        while len(self._target_queue) > 1 and self._target_queue[1][0] <= now + 1e-9:
            self._target_queue.popleft()
        due, sent, stiffness, damping = self._target_queue[0]
        count = len(sent)
        kp, kd, wanted = np.zeros(count), np.zeros(count), np.zeros(count)
        if due <= now + 1e-9 or not self.stands:
            sent, stiffness, damping = (np.broadcast_to(x, (count,)) for x in (sent, stiffness, damping))
            sent = np.where(np.isin(np.arange(count), self.wiring.flipped), 2 * self._offsets() - sent, sent)
            order = self._target_channel
            kp[self._joint], kd[self._joint] = stiffness[order], damping[order]
            wanted[self._joint] = self._signs * (sent[order] / self._factor - self._zeros)
        self._simulate(wanted, kp, kd, self.substeps)
        self._measure()

    def _offsets(self) -> np.ndarray:
        return self._zeros * self._factor

    def _simulate(self, wanted: np.ndarray, kp: np.ndarray, kd: np.ndarray, substeps: int) -> None:
        """Simulate steps of the physics with targets and gains of the joints."""
        model, data, play = self.model, self.data, self.wiring.backlash / 2
        model.actuator_gainprm[:, 0] = kp * self._strength
        model.actuator_biasprm[:, 1] = -kp * self._strength
        model.actuator_biasprm[:, 2] = -kd * self._strength
        data.ctrl[:] = wanted
        if self._operator is not None:
            self._operator.act()
        for _ in range(substeps):
            if play:  # the motor moves freely within the play
                pos = data.qpos[self._pos]
                self._motor_pos = np.clip(np.where(kp > 0, wanted, self._motor_pos), pos - play, pos + play)
                data.ctrl[:] = wanted - self._motor_pos + pos
            self._mujoco.mj_step(model, data)
            share = np.abs(data.actuator_force) * self._per_limit
            np.maximum(self.largest_share, share, out=self.largest_share)

    def readings(self) -> Dict[str, np.ndarray]:
        """Return the newest readings that have arrived."""
        if not self._reading_queue:
            self._measure()
        return self._reading_queue[0][1]

    def _measure(self) -> None:
        """Measure, and drop readings that newer ones have replaced."""
        now, wiring, queue = self.data.time, self.wiring, self._reading_queue
        if now >= wiring.freezes_at and queue:
            return
        queue.append((now + wiring.reading_delay, self._measured()))
        while len(queue) > 1 and queue[1][0] <= now + 1e-9:
            queue.popleft()

    def _measured(self) -> Dict[str, np.ndarray]:
        """Return what the sensors measure now."""
        wiring, data, joint = self.wiring, self.data, self._joint
        pos = data.qpos[self._pos] if wiring.backlash == 0 else self._motor_pos
        quat, gyro = product(data.qpos[3:7], conjugate(np.array(wiring.imu_mounting))), data.qvel[3:6]
        gyro = rotate(np.array(wiring.imu_mounting), gyro)
        values = {
            "joint_pos": self._signs * pos[joint] + self._zeros,
            "joint_vel": self._signs * data.qvel[self._vel][joint],
            "base_ang_vel": rotate(quat, gyro) if wiring.gyro_in_world else gyro,
            "base_lin_vel": self.base_to_world().T @ data.qvel[:3],
        }
        for name, std in wiring.noise.items():
            if name != "base_quat":
                values[name] = values[name] + self._random.normal(0.0, std, len(values[name]))
            elif std:
                quat = product(quat, turn(self._random.normal(0.0, std, 3)))
        for name, step in wiring.resolution.items():
            if step and name in values:
                values[name] = np.round(values[name] / step) * step
        for name, unit in wiring.units.items():
            values[name] = values[name] * (180 / math.pi if unit.startswith("deg") else 1.0)
        quat = conjugate(quat) if wiring.quaternion_inverse else quat
        values["base_quat"] = quat if wiring.quaternion_order == "wxyz" else quat[[1, 2, 3, 0]]
        if wiring.frozen:
            frozen, first = list(wiring.frozen), self._frozen or values
            self._frozen = first
            for name in ("joint_pos", "joint_vel"):
                values[name][frozen] = first[name][frozen]
        return values


class Operator:
    """A person beside the stand. What he is asked for is a mapping with "motion" and more:

    | motion | what he does |
    |---|---|
    | level | turns the trunk upright, and keeps it so |
    | turn | turns it from upright by "angle" [rad] about "axis" in the base frame, and keeps it so |
    | move | bends all joints from the trunk to the link "link" to and fro |
    | joint | turns "joint" by hand, in the direction "sign" of its angles |
    """

    def __init__(self, walker: WiredWalker):
        self._walker, self._model = walker, walker.model
        self.reset()

    def reset(self) -> None:
        walker = self._walker
        self._random = np.random.default_rng(walker.wiring.seed + 1)
        roll, pitch = walker.wiring.tilt
        self._upright = turn(np.array([roll, pitch, 0.0]))
        self._from = self._to = self._upright
        self._began, self._lasts = -math.inf, 1.0
        self._moved: Optional[Tuple[List[int], float]] = None  # degrees of freedom, and time of the beginning
        self._turned: Optional[Tuple[int, float, float]] = None  # degree of freedom, sign, and time of the beginning

    def take(self, request: Mapping[str, Any]) -> None:
        """Begin to do something; what makes no sense is ignored."""
        now, rng = self._walker.data.time + self._random.uniform(0.1, 0.4), self._random  # he needs time to begin
        motion, mj = request.get("motion"), self._walker._mujoco
        if motion in ("level", "turn"):
            axis, angle = np.zeros(3), 0.0
            if motion == "turn":
                axis = np.array(request["axis"], float)
                axis = axis / np.linalg.norm(axis) + rng.normal(0.0, 0.05, 3)
                angle = float(request["angle"]) * rng.uniform(0.85, 1.15)
            self._from, self._to = self._pose(now), product(turn(axis * angle), self._upright)
            self._began, self._lasts = now, rng.uniform(0.7, 1.0)
        elif motion == "move":
            body = mj.mj_name2id(self._model, mj.mjtObj.mjOBJ_BODY, str(request.get("link")))
            self._moved = (self._dofs_of(body), now) if body > 0 else None
        elif motion == "joint":
            joint = mj.mj_name2id(self._model, mj.mjtObj.mjOBJ_JOINT, str(request.get("joint")))
            sign = float(request.get("sign", 1.0))
            self._turned = (int(self._model.jnt_dofadr[joint]), sign, now) if joint >= 0 else None

    def _dofs_of(self, body: int) -> List[int]:
        """Return the degrees of freedom from a link to the trunk."""
        found: List[int] = []
        while body > self._model.jnt_bodyid[0]:
            first, count = int(self._model.body_dofadr[body]), int(self._model.body_dofnum[body])
            found += range(first, first + count)
            body = int(self._model.body_parentid[body])
        return found

    def _pose(self, now: float) -> np.ndarray:
        """Return the orientation to which the trunk is turned at a time."""
        share = min(max((now - self._began) / self._lasts, 0.0), 1.0)
        smooth = share**3 * (10 - 15 * share + 6 * share**2)
        return product(turn(smooth * rotation_vector(product(self._to, conjugate(self._from)))), self._from)

    def act(self) -> None:
        """Apply the forces of the hands in the next step of the physics."""
        data, model, now = self._walker.data, self._model, self._walker.data.time
        stiffness, damping = HELD_MASS * 900.0, HELD_MASS * 60.0  # of the hold of the trunk
        error = rotation_vector(product(conjugate(data.qpos[3:7]), self._pose(now)))  # in the base frame
        data.qfrc_applied[:3] = stiffness * ([0.0, 0.0, STAND_HEIGHT] - data.qpos[:3]) - damping * data.qvel[:3]
        data.qfrc_applied[3:6] = stiffness * error - damping * data.qvel[3:6]
        data.qfrc_applied[6:] = 0.0
        hands: Dict[int, float] = {}  # speed to which each degree of freedom is turned [rad/s]
        if self._moved is not None and now > self._moved[1]:
            dofs, began = self._moved
            for k, dof in enumerate(dofs):
                hands[dof] = 1.2 * math.cos(2 * math.pi * (now - began) / 0.8 + 0.7 * k)
            self._moved = None if now > began + 1.6 else self._moved
        if self._turned is not None and now > self._turned[2]:
            dof, sign, began = self._turned
            hands[dof] = sign * 0.9 * math.sin(math.pi * (now - began) / 1.2)  # turns it by about 0.7 rad
            self._turned = None if now > began + 1.2 else self._turned
        dofs = list(hands)
        if dofs:  # all at once, as each joint accelerates the others
            wanted, inertia = np.zeros(model.nv), np.empty(model.nv)
            wanted[dofs] = (np.array([hands[dof] for dof in dofs]) - data.qvel[dofs]) / 0.04
            self._walker._mujoco.mj_mulM(model, data, inertia, wanted)
            friction = np.copysign(model.dof_frictionloss[dofs], list(hands.values()))
            data.qfrc_applied[dofs] = inertia[dofs] + data.qfrc_bias[dofs] + friction


def product(first: Any, second: Any) -> np.ndarray:
    """Return the rotation by the second quaternion and then by the first, w x y z."""
    w, x, y, z = map(float, first)
    a, b, c, d = map(float, second)
    return np.array(
        (
            w * a - x * b - y * c - z * d,
            w * b + x * a + y * d - z * c,
            w * c - x * d + y * a + z * b,
            w * d + x * c - y * b + z * a,
        )
    )


def conjugate(quat: np.ndarray) -> np.ndarray:
    return quat * _CONJUGATE


def rotate(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Turn a vector [3] by a quaternion."""
    return product(product(quat, (0.0, *vector)), conjugate(quat))[1:]


def turn(vector: np.ndarray) -> np.ndarray:
    """Return the quaternion of a rotation vector [rad]."""
    angle = float(np.linalg.norm(vector))
    axis = vector / angle if angle > 1e-12 else np.zeros(3)
    return np.array([math.cos(angle / 2), *(math.sin(angle / 2) * axis)])


def rotation_vector(quat: np.ndarray) -> np.ndarray:
    """Return the rotation vector of a quaternion, shorter than pi [rad]."""
    quat = quat if quat[0] >= 0 else -quat
    length = float(np.linalg.norm(quat[1:]))
    return quat[1:] * (2 * math.atan2(length, quat[0]) / length if length > 1e-12 else 2.0)


def quaternion(matrix: np.ndarray) -> np.ndarray:
    """Return the quaternion of a rotation matrix: the eigenvector of a symmetric matrix (Bar-Itzhack 2000)."""
    (a, b, c), (d, e, f), (g, h, i) = matrix
    sums = np.array(
        [
            [a + e + i, h - f, c - g, d - b],
            [h - f, a - e - i, b + d, c + g],
            [c - g, b + d, e - a - i, f + h],
            [d - b, c + g, f + h, i - a - e],
        ]
    )
    vector = np.linalg.eigh(sums)[1][:, -1]
    return vector if vector[0] >= 0 else -vector


def _frozen(value: Any) -> Any:
    """Return lists as tuples, also within lists."""
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and math.isfinite(value)


def _per_joint(value: Any, count: int, name: str) -> Tuple[float, ...]:
    """Return numbers of all joints; another number of them is a ValueError."""
    values: List[float] = list(value) if isinstance(value, (list, tuple)) else [value] * count
    values = values * count if len(values) == 1 else values
    if len(values) != count or not all(map(_is_number, values)):
        raise ValueError(f"{name}={value}; give one number, or {count}")
    return tuple(float(x) for x in values)
