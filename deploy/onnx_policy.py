"""Run an exported policy on a robot: the inputs are sensor readings in SI units, the outputs joint targets [rad].

Needs numpy and onnxruntime, and no other file than policy.onnx: copy both to the robot.

    policy = OnnxPolicy("policy.onnx", joint_names=("FR_hip_joint", ...))  # in the order in which the robot lists them
    while True:  # once in policy.control_period seconds; policy.reset() at the start of each episode
        targets = policy(command=(0.5, 0.0, 0.0), base_quat=..., base_ang_vel=..., joint_pos=..., joint_vel=...)

A policy that follows a motion also gets the reference of each step, for example from references.py.

The robot follows the targets with PD loops of policy.stiffness and policy.damping, up to policy.torque_limits.

A reading that is missing (None), not finite or larger than any in training cannot be used, nor can an output of the
network that is not finite. In the first call of an episode this is a ValueError: the robot should not start. Later the
policy returns its last targets, in at most ``max_held`` calls in a row. Then it raises a PolicyStoppedError, in every
call until reset(): the robot should set the stiffness of its joints to zero and keep their damping. Commands are
clipped to the range of the training, and targets to policy.target_limits; policy.counts says how often.

Readings and targets are the robot's own: sign, zero and unit of its joints, order of its quaternion and mounting of its
IMU are in the description. OnnxPolicy("policy.onnx", description="policy.json") reads it from a file of its own, and
OnnxPolicy("policy.onnx", robot="robot.yaml") takes them from the file that `rsl-rl bring-up` has written.

OnnxPolicy("policy.onnx", log="walk.csv") writes what it gets and gives in each call, for `rsl-rl doctor`. The command

    python onnx_policy.py policy.onnx --check

replays trace.npz, which the export has written beside policy.onnx, and compares each step with what the training had.
Log and replay need policy_records.py beside this file.
"""

import argparse
import hashlib
import importlib
import json
import sys
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

Network = Callable[..., Sequence[np.ndarray]]
"""Function from obs [1, D] and recurrent states to actions [1, A] and the next recurrent states."""
Vector = Union[Sequence[float], np.ndarray, None]

NEEDED = "inputs observations joint_names default_joint_pos action_scale action_clip stiffness damping torque_limits"
NEEDED += " control_period"
MAPPING = "joint_signs joint_zeros quaternion_order imu_mounting units"
"""Needed in format 2; in a file of format 1 a robot reads and moves as the simulation does."""
MAX_HELD = 5
"""Calls in a row in which a policy without usable readings returns its last targets."""
_CHECKSUM = b'\x72\x4c\x0a\x06sha256\x12\x42"'  # begins the metadata entry sha256, with 64 digits between quotes
_LARGEST = 1_000_000  # numbers in an input of the network
_MAX_SIZE = 1_000_000_000  # of a file [bytes]
_LONGEST_PERIOD = 1.0  # between two actions [s]; a larger number is of another unit
_FAR_BEYOND = 0.5  # distance from the range of a joint [rad] that no default pose has; one in degrees has more
_FLOAT_MAX = np.finfo(np.float32).max
_BASE = "base_lin_vel base_ang_vel gravity command gait_clock style foot_clock"
FRAMES: Dict[str, str] = dict.fromkeys(_BASE.split(), "base")
FRAMES.update(dict.fromkeys(("joint_pos", "joint_vel", "action"), "joint"))
FRAMES.update(reference_joint_pos="joint", reference_joint_vel="joint", reference_offset="base", reference_turn="base")
"""The observation terms that a robot can provide, and the frame of each."""
_SIZES = {"gait_clock": 2, "reference_turn": 6}
_SOURCES = {"gravity": "base_quat", "base_lin_vel": "base_lin_vel, or base_lin_vel_world with base_quat"}
_SOURCES["reference_offset"] = "base_pos and reference_base_pos with base_quat"
_SOURCES["reference_turn"] = "reference_base_quat with base_quat"


class PolicyStoppedError(ValueError):
    """The policy has had no usable readings for too many calls; it has stopped until it is reset."""


class Policy:
    """A network with its description (policy.json); stores the last action, the last observation for terms with a
    history, and the network's recurrent states."""

    def __init__(
        self,
        description: Mapping[str, Any],
        network: Network,
        joint_names: Optional[Sequence[str]] = None,
        max_held: int = MAX_HELD,
        log: Union[str, Path, None] = None,
    ):
        own = _joint_names(description)
        given = own if joint_names is None else joint_names
        self.joint_names: List[str] = [name for name in given if isinstance(name, str)] if _is_sized(given) else []
        if sorted(own) != sorted(self.joint_names) or len(given) != len(own):
            raise ValueError(f"got the joints {_short(given)}; the policy moves {own}: name these, in any order")
        if not isinstance(max_held, int) or isinstance(max_held, bool) or max_held < 0:
            raise ValueError(f"max_held={_short(max_held)}; give a whole number of calls from 0")
        self.description, self._network, self._max_held = description, network, max_held
        self._robot_index = [self.joint_names.index(name) for name in own]  # of each of the policy's joints
        per_joint = (len(own),)
        self._default = _field(description, "default_joint_pos", per_joint)  # in the policy's order
        if description.get("joint_limits") is not None:
            low, high = _ranges(description, "joint_limits", *per_joint)
            if (np.maximum(low - self._default, self._default - high) > _FAR_BEYOND).any():
                raise ValueError(f"default_joint_pos={_short(self._default)} is not in joint_limits; give radians")
        each = isinstance(description["action_scale"], list)
        self._scale = _field(description, "action_scale", per_joint if each else (), "positive ")
        self._clip = _size_limit(description, "action_clip")
        if _field(description, "control_period", (), "positive ") > _LONGEST_PERIOD:
            raise ValueError(f"control_period={_short(description['control_period'])}; give seconds, at most 1")
        self.control_period = float(description["control_period"])
        self._mapping = _mapping(description)
        self.default_joint_pos = self._to_angles(self._default)  # of the robot
        gains = (_field(description, name, per_joint, "non-negative ") for name in ("stiffness", "damping"))
        self.stiffness, self.damping = map(self._to_robot, gains)  # [N m/rad], [N m s/rad]
        self.torque_limits = self._to_robot(_field(description, "torque_limits", per_joint, "non-negative "))  # [N m]
        self._memory_shapes = _memory_shapes(description)
        self._terms = _terms(description)
        self._layout = _layout(description, self._terms)  # of the observation: indices of its numbers term after term
        self._term_order = np.argsort(self._layout)
        self._obs_clip = _size_limit(description, "observation_clip")
        self._input_limits = _input_limits(description)
        self._command_range = _command_range(description)
        self._largest_change = _largest_change(description)  # of the command in a control step, [3]
        self._clock = _gait_clock(description)  # period [s] and the size of a command up to which the robot stands
        self._dead_zone = _numbers(_section(_section(description, "commands"), "foot_clock").get("dead_zone"), ())
        self._target_limits = _target_limits(description)
        limits = [self._to_angles(x) for x in self._target_limits]
        self.target_limits = np.sort(np.stack(limits, axis=1), axis=1)  # [J, 2] of the robot's angles
        self.counts = dict.fromkeys(("calls", "held_calls", "clipped_commands", "clamped_targets"), 0)
        """Calls that returned targets; those of them that returned the last ones, or whose command was out of range;
        joint targets out of their limits. A reset keeps the numbers."""
        self._episode, self.clock = 0, time.monotonic  # [s], of the log
        self._log = None if log is None else _records().Log(log, self)
        self.reset()

    def reset(self) -> None:
        """Start an episode: clear the last action, the histories, the recurrent states and a stop."""
        self.last_action = np.zeros(len(self._default), np.float32)  # in the policy's order of joints
        self.last_obs: Optional[np.ndarray] = None  # [D] of the call before
        self._time = 0.0  # of the gait clock [s]
        self._command = np.zeros(3, np.float32)  # that the network reads
        self.memories: Sequence[np.ndarray] = [np.zeros(shape, np.float32) for shape in self._memory_shapes]
        self._targets: Optional[np.ndarray] = None  # of the last call, in the policy's order
        self.held, self.problem = 0, ""  # calls in a row without usable readings, and the reason of the last of them
        self._episode += 1

    @np.errstate(over="ignore", invalid="ignore")  # the checks find what is too large
    def __call__(self, **state: Any) -> np.ndarray:
        """Return joint targets in the order of ``joint_names`` and in the robot's angles [rad, or deg if its ``units``
        say so]; the arguments are those of :meth:`observe`.

        Without usable readings they are the last targets, then a PolicyStoppedError, see the top of this file.
        """
        if self.held > self._max_held:
            raise PolicyStoppedError(self.problem)
        now = self.clock()
        try:
            self._targets = self._next_targets(**state)
            self.held = 0
        except ValueError as error:
            if self._targets is None:
                if self._log is not None:
                    self._log.write(now, self._episode, state, None)
                raise
            self.held, self.problem = self.held + 1, str(error)
            if self.held > self._max_held:
                self.problem = f"stopped after {self.held} calls in a row without usable readings; the last: {error}"
                raise PolicyStoppedError(self.problem) from error
            self.counts["held_calls"] += 1
        self.counts["calls"] += 1
        self._time += self.control_period
        targets = self._to_angles(self._targets)
        if self._log is not None:
            self._log.write(now, self._episode, state, targets)
        return targets

    def _next_targets(self, command: Vector = None, **state: Any) -> np.ndarray:
        """Return the joint targets of the next action in the policy's order; an error changes nothing."""
        obs = self.observe(command=command, **state)
        actions, *memories = self._network(obs[None], *self.memories)
        if actions.shape != (1, len(self._default)) or not all(np.isfinite(x).all() for x in (actions, *memories)):
            raise ValueError(f"the network's actions {_short(actions)} are not {len(self._default)} finite numbers")
        action = np.clip(actions[0], -self._clip, self._clip)
        wanted = self._default + self._scale * action
        targets = np.clip(wanted, *self._target_limits)
        self.last_action, self.memories, self.last_obs = action, memories, obs
        if command is not None:
            trained = self._trained(command)
            self.counts["clipped_commands"] += int((trained != np.asarray(command, np.float32)).any())
            self._command = self._limited(trained)
        self.counts["clamped_targets"] += int((targets != wanted).sum())
        return targets

    def observe(
        self,
        command: Vector = None,
        base_quat: Vector = None,
        base_ang_vel: Vector = None,
        joint_pos: Vector = None,
        joint_vel: Vector = None,
        base_lin_vel: Vector = None,
        base_lin_vel_world: Vector = None,
        gait_clock: Vector = None,
        base_pos: Vector = None,
        reference_base_pos: Vector = None,
        reference_base_quat: Vector = None,
        reference_joint_pos: Vector = None,
        reference_joint_vel: Vector = None,
        style: Vector = None,
        foot_clock: Vector = None,
    ) -> np.ndarray:
        """Return the next observation [D] of a state: command vx, vy [m/s] and yaw rate [rad/s]; orientation w x y z,
        base to world, and angular velocity in the base frame [rad/s], both as the IMU gives them; linear velocity in
        the base frame or the world frame [m/s]; joints [rad], [rad/s] in the order of ``joint_names``. Order and units
        may be others, by the description. Values that the policy does not use may be omitted. The clock is sine and
        cosine of the gait's phase; if omitted, it runs with the calls of the episode. References are what
        references.py gives, and ``base_pos`` is the position of the base in their world. styles.py gives styles and
        the clocks of the feet.

        A term with a history is several control steps, the oldest first; at the start of an episode all are this one.
        The network reads the command within the range of the training, after the limits of its acceleration, which
        starts at zero in each episode.
        """
        quat = None if base_quat is None else self._base_orientation(base_quat)
        if base_lin_vel is None and base_lin_vel_world is not None and quat is not None:
            velocity = _numbers(base_lin_vel_world, (3,))
            base_lin_vel = base_lin_vel_world if velocity is None else _to_base(quat, velocity)
        limited = None if command is None else self._limited(self._trained(command))
        values: Dict[str, Any] = {
            "base_lin_vel": base_lin_vel,
            "base_ang_vel": base_ang_vel,
            "gravity": None if quat is None else _to_base(quat, np.array((0.0, 0.0, -1.0), np.float32)),
            "command": limited,
            "joint_pos": joint_pos,
            "joint_vel": joint_vel,
            "action": self.last_action,
            "gait_clock": self._gait(limited, gait_clock),
            "style": style,
            "foot_clock": foot_clock if limited is None else self._while_moving(limited, foot_clock, self._dead_zone),
            "reference_joint_pos": reference_joint_pos,
            "reference_joint_vel": reference_joint_vel,
            "reference_offset": _offset(quat, base_pos, reference_base_pos),
            "reference_turn": _axes(quat, reference_base_quat),
        }
        parts, start = [], 0
        last = None if self.last_obs is None else self.last_obs[self._term_order]
        for name, size, scale, history, clip in self._terms:
            newest, end = self._scaled(values[name], name, size, scale, clip), start + size * history
            past = np.tile(newest, history - 1) if last is None else last[start + size : end]
            parts += [past, newest]
            start = end
        return np.clip(np.concatenate(parts)[self._layout], -self._obs_clip, self._obs_clip)

    def _base_orientation(self, reading: Vector) -> np.ndarray:
        """Return the orientation of the base, w x y z, of a reading of the IMU."""
        quat = _numbers(reading, (4,))
        if quat is None or not abs(np.linalg.norm(quat) - 1.0) < 0.01:
            order = " ".join(self._mapping.quaternion_order)
            raise ValueError(f"base_quat={_short(reading)} is not a rotation; give a unit quaternion {order}")
        ordered = quat[[self._mapping.quaternion_order.index(axis) for axis in "wxyz"]]
        return _product(ordered, self._mapping.imu_mounting)

    def term_names(self) -> Iterator[str]:
        """Yield the name of the term of each number of the observation."""
        names = [name for name, size, _, history, _ in self._terms for _ in range(size * history)]
        yield from (names[i] for i in self._layout)

    def _trained(self, command: Vector) -> np.ndarray:
        """Return a command [3], clipped to the range of the training."""
        array = _numbers(command, (3,))
        if array is None:
            raise ValueError(f"the policy senses command: give command, 3 finite numbers; got {_short(command)}")
        return np.clip(array, *self._command_range)

    def _limited(self, command: np.ndarray) -> np.ndarray:
        """Return the command that the network reads next."""
        if self._largest_change is None:
            return command
        return self._command + np.clip(command - self._command, -self._largest_change, self._largest_change)

    def _gait(self, command: Optional[np.ndarray], clock: Vector) -> Any:
        """Return sine and cosine of the gait's phase, or zeros for a command to stand."""
        if self._clock is None or command is None:
            return None
        period, dead_zone = self._clock
        angle = 2 * np.pi * self._time / period
        phase = _numbers((np.sin(angle), np.cos(angle)) if clock is None else clock, (2,))
        return clock if phase is None else self._while_moving(command, phase, dead_zone)

    def _while_moving(self, command: np.ndarray, clock: Vector, dead_zone: Optional[float]) -> Any:
        """Return a clock, or zeros for a command to stand; without a dead zone it always runs."""
        moves = dead_zone is None or float(np.square(command).sum()) > dead_zone**2
        return clock if moves or clock is None else np.zeros(np.shape(clock), np.float32)

    def _scaled(self, value: Any, name: str, size: int, scale: np.ndarray, clip: np.ndarray) -> np.ndarray:
        """Return a term of the observation; a value that is not finite, or larger than in training, is a ValueError."""
        array = None if value is None else _numbers(value, (size,))
        if array is None:
            source = "command" if name == "gait_clock" and value is None else _SOURCES.get(name, name)
            raise ValueError(f"the policy senses {name}: give {source}, {size} finite numbers; got {_short(value)}")
        array = self._from_robot(name, array)
        scaled = np.clip(array, *clip) * scale
        largest, largest_scaled = (self._input_limits.get(key, _FLOAT_MAX) for key in (name, "observation"))
        if not (np.abs(array).max() <= largest and np.abs(scaled).max() <= largest_scaled):
            raise ValueError(
                f"{name}={_short(value)} is larger than any in training: check the sensor, its unit and its frame"
            )
        return scaled

    def _from_robot(self, name: str, array: np.ndarray) -> np.ndarray:
        """Return what the policy senses, in SI units, of a reading of the robot."""
        array, mapping = array * self._mapping.units.get(name, 1.0), self._mapping
        if name == "base_ang_vel":
            return _to_base(mapping.imu_mounting, array)
        if name == "reference_joint_pos":
            return array - np.tile(self._default, len(array) // len(self._default))
        if name == "joint_pos":
            return mapping.signs * (array[self._robot_index] - mapping.zeros) - self._default
        return mapping.signs * array[self._robot_index] if name == "joint_vel" else array

    def _to_angles(self, joints: np.ndarray) -> np.ndarray:
        """Return the robot's angles, in its unit and order, of the policy's [rad]."""
        mapping = self._mapping
        return self._to_robot((mapping.signs * joints + mapping.zeros) / mapping.units["joint_pos"])

    def _to_robot(self, joints: np.ndarray) -> np.ndarray:
        ordered = np.empty_like(joints)
        ordered[self._robot_index] = joints
        return ordered


class OnnxPolicy(Policy):
    """The policy in an ONNX file, which contains its description; ``description`` is a policy.json to use instead,
    ``robot`` a robot.yaml with the wiring of the robot, and ``log`` a CSV file to write, see policy_records.py."""

    def __init__(
        self,
        path: Union[str, Path],
        joint_names: Optional[Sequence[str]] = None,
        max_held: int = MAX_HELD,
        description: Union[str, Path, None] = None,
        log: Union[str, Path, None] = None,
        robot: Union[str, Path, None] = None,
    ):
        told, network = open_onnx(path, description)
        if robot is not None:
            told, joint_names = with_robot(told, Path(robot), joint_names)
        super().__init__(told, network, joint_names, max_held, log)


def open_onnx(
    path: Union[str, Path], description_path: Union[str, Path, None] = None
) -> Tuple[Mapping[str, Any], Network]:
    """Load a file's network and its description, or that of another file; damage is a ValueError, a missing onnxruntime
    an ImportError."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"no file {path}; scripts/play.py writes policy.onnx into the run's exported/ folder")
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError("onnxruntime is not installed; run: pip install onnxruntime") from error
    if Path(path).stat().st_size > _MAX_SIZE:
        raise ValueError(f"{path} has more than {_MAX_SIZE // 10**6} MB, which no policy has")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # the networks are small
    content = Path(path).read_bytes()
    damaged = f"{path} is damaged: its checksum is wrong; copy it again, or export the policy again"
    if _CHECKSUM in content and not _is_intact(content):
        raise ValueError(damaged)
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        shapes = {x.name: x.shape for x in session.get_inputs()}
        description = _entries(session.get_modelmeta().custom_metadata_map)
    except Exception as error:  # onnxruntime's errors have no type in common
        raise ValueError(f"{path} is not an ONNX model: {' '.join(str(error).split())}") from error
    if "joint_limits" in description and not _is_intact(content):  # every export with this entry has a checksum
        raise ValueError(damaged)
    if description_path is not None:
        description = _read_description(Path(description_path))
    if description.get("network_sha256", "") not in ("", network_sha256(content)):
        raise ValueError(
            f"{description_path or path} describes another network: its network_sha256 is not that of {path}"
        )
    described = description.get("inputs", shapes)
    if described != shapes or list(described) != list(shapes):
        raise ValueError(f"inputs={_short(described)}; the network's are {shapes}: export the policy again")
    return description, lambda *inputs: [np.asarray(x) for x in session.run(None, dict(zip(shapes, inputs)))]


def with_robot(
    description: Mapping[str, Any], path: Path, joint_names: Optional[Sequence[str]] = None
) -> Tuple[Dict[str, Any], List[str]]:
    """Return a description with the wiring of a robot, and the policy's joints in the order of the robot's.

    ``path`` is a robot.yaml of `rsl-rl bring-up`; ``joint_names`` are the names that the driver gives, which must be
    those of the bring-up. What does not fit is a ValueError.
    """
    robot = _read_description(path)
    joints = robot.get("joints")
    if robot.get("format") != 1 or not isinstance(joints, list) or not all(isinstance(one, dict) for one in joints):
        raise ValueError(f"{path} is not a robot.yaml of format 1; run rsl-rl bring-up")
    names = robot.get("robot"), description.get("robot")
    if all(names) and names[0] != names[1]:
        raise ValueError(f"{path} is of the robot {_short(names[0])}; the policy is of {_short(names[1])}")
    by_name = {str(one.get("name")): one for one in joints}
    own = _joint_names(description)
    if sorted(by_name) != sorted(own) or len(by_name) != len(joints):
        raise ValueError(
            f"{path} is of a robot with the joints {_short(list(by_name))}; the policy moves {_short(own)}"
        )
    told = [one.get("driver_name") for one in joints]
    if joint_names is not None and list(joint_names) != told:
        raise ValueError(
            f"{path} is of a driver that names its joints {_short(told)}; this one says {_short(list(joint_names))}: "
            "run rsl-rl bring-up with it"
        )
    mapping = {name: robot.get(name) for name in ("quaternion_order", "imu_mounting", "units")}
    per_joint = {"joint_signs": "sign", "joint_zeros": "zero"}
    mapping.update({field: [by_name[name].get(key) for name in own] for field, key in per_joint.items()})
    return {**description, "format": 2, **mapping}, list(by_name)


def _is_intact(content: bytes) -> bool:
    """Return whether an ONNX file ends with a metadata entry that is the checksum of what is before it."""
    checksum = hashlib.sha256(content[: -len(_CHECKSUM) - 65]).hexdigest()
    return content.endswith(_CHECKSUM + checksum.encode() + b'"')


def network_sha256(content: bytes) -> str:
    """Return the SHA-256 of an ONNX model without its metadata properties, which are field 14 of the protobuf."""
    digest, start = hashlib.sha256(), 0
    while start < len(content):
        tag, end = _varint(content, start)
        size, end = _varint(content, end)  # of a field with content; other fields of a model are one number
        end += size if tag & 7 == 2 else 0
        if tag >> 3 != 14:
            digest.update(content[start:end])
        start = end
    return digest.hexdigest()


def _varint(content: bytes, start: int) -> Tuple[int, int]:
    """Return a number in the variable-length coding of protobuf, and where it ends."""
    number = 0
    for i, byte in enumerate(content[start : start + 10]):
        number |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return number, start + i + 1
    raise ValueError("the file is not a protobuf")


def _read_description(path: Path) -> Dict[str, Any]:
    """Read policy.json; another content is a ValueError."""
    if not path.is_file():  # such as a pipe, which could be read for ever
        raise FileNotFoundError(f"no file {path}; the export writes policy.json beside policy.onnx")
    if path.stat().st_size > _MAX_SIZE:
        raise ValueError(f"{path} has more than {_MAX_SIZE // 10**6} MB, which no description has")
    try:
        description = json.loads(path.read_bytes().decode(), object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {_short(error)}") from error
    if not isinstance(description, dict):
        raise ValueError(f"{path} is not a description: {_short(description)}")
    return description


def _each_once(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """Return an object of JSON; a duplicate field is a ValueError."""
    found: Dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"duplicate field {_short(name)}")
        found[name] = value
    return found


def _entries(metadata: Mapping[str, str]) -> Dict[str, Any]:
    """Return the metadata that is JSON, by name; entries of other programs may have any content."""
    entries = {}
    for name, value in metadata.items():
        try:
            entries[name] = json.loads(value)
        except ValueError:
            continue
    entries.pop("sha256", None)
    return entries


def _numbers(value: Any, shape: Tuple[int, ...]) -> Optional[np.ndarray]:
    """Return finite numbers of a shape as float32; None for others, and for booleans and texts."""
    try:
        array = np.asarray(value)
    except Exception:  # of any kind, from readings of any type, such as lists of different lengths
        return None
    if array.shape != shape or array.dtype.kind not in "iuf" or _has_boolean(value):
        return None
    with np.errstate(over="ignore"):
        array = array.astype(np.float32)
    return array if np.isfinite(array).all() else None


def _is_sized(value: Any) -> bool:
    return hasattr(value, "__len__") and hasattr(value, "__iter__")


def _has_boolean(value: Any) -> bool:
    """Return whether lists of numbers have a boolean, which numpy takes for a number."""
    return isinstance(value, (bool, np.bool_)) or (isinstance(value, (list, tuple)) and any(map(_has_boolean, value)))


def _short(value: Any) -> str:
    """Return a value of a description as one line of at most 100 letters."""
    try:
        text = " ".join(str(value).split())
    except Exception:  # of a number with thousands of digits, lists within lists, or an object of any kind
        text = f"a {type(value).__name__}"
    return text if len(text) <= 100 else f"{text[:100]}..."


def _joint_names(description: Mapping[str, Any]) -> List[str]:
    """Return the names of the joints; a description of another format, or with fields missing, is a ValueError."""
    version = description.get("format", 1)
    if version not in (1, 2) or not isinstance(version, int) or isinstance(version, bool):
        raise ValueError(f"the description has format {_short(version)}; this file reads 1 and 2: use the newer one")
    needed = NEEDED if version == 1 else f"{NEEDED} {MAPPING}"
    missing = [name for name in needed.split() if name not in description]
    if missing:
        raise ValueError(f"the policy's description lacks {', '.join(missing)}; export the policy again")
    names = description["joint_names"]
    are_texts = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
    if not names or not are_texts or len(set(names)) != len(names):
        raise ValueError(f"joint_names={_short(names)}; each joint must have a name of its own")
    return list(names)


class RobotMapping(NamedTuple):
    """How readings and targets of the robot become the policy's: angle = signs * (robot's angle - zeros)."""

    signs: np.ndarray  # [J] 1 or -1, in the policy's order
    zeros: np.ndarray  # [J] [rad]
    quaternion_order: str
    imu_mounting: np.ndarray  # [4] w x y z, base to IMU
    units: Mapping[str, float]  # SI units per unit of each reading


def _mapping(description: Mapping[str, Any]) -> RobotMapping:
    """Return the robot's mapping; a file of format 1 has none."""
    count, rate = len(description["joint_names"]), {"rad/s": 1.0, "deg/s": np.pi / 180}
    known = {"joint_pos": {"rad": 1.0, "deg": np.pi / 180}, "joint_vel": rate, "base_ang_vel": rate}
    plain = {
        "joint_signs": [1.0] * count,
        "joint_zeros": [0.0] * count,
        "quaternion_order": "wxyz",
        "imu_mounting": [1.0, 0.0, 0.0, 0.0],
        "units": {name: next(iter(units)) for name, units in known.items()},
    }
    if description.get("format", 1) > 1:
        plain = {name: description[name] for name in plain}
    signs, zeros = (_field(plain, name, (count,)) for name in ("joint_signs", "joint_zeros"))
    if not (np.abs(signs) == 1).all():
        raise ValueError(f"joint_signs={_short(plain['joint_signs'])}; give 1 or -1 for each joint")
    mounting, order, units = _field(plain, "imu_mounting", (4,)), plain["quaternion_order"], _section(plain, "units")
    if not abs(np.linalg.norm(mounting) - 1.0) < 0.01:
        raise ValueError(f"imu_mounting={_short(plain['imu_mounting'])}; give a unit quaternion w x y z")
    if order not in ("wxyz", "xyzw"):
        raise ValueError(f"quaternion_order={_short(order)}; give wxyz or xyzw")
    for name, choices in known.items():
        if str(units.get(name)) not in choices:
            raise ValueError(f"units: {name}={_short(units.get(name))}; give one of {', '.join(choices)}")
    factors = {name: choices[units[name]] for name, choices in known.items()}
    return RobotMapping(signs, zeros, order, mounting, factors)


def _field(description: Mapping[str, Any], name: str, shape: Tuple[int, ...], sign: str = "") -> np.ndarray:
    """Return the numbers of a field; ``sign`` is "", "positive " or "non-negative "."""
    array = _numbers(description[name], shape)
    if array is None or (sign and (array < 0).any()) or (sign == "positive " and not array.all()):
        wanted = f"{sign}finite numbers of shape {list(shape)}" if shape else f"a {sign}finite number"
        raise ValueError(f"{name}={_short(description[name])}; give {wanted}")
    return array


def _ranges(description: Mapping[str, Any], name: str, count: int) -> Tuple[np.ndarray, np.ndarray]:
    """Return the lowest and the highest values of a field, each [count]."""
    low, high = _field(description, name, (count, 2)).T
    if (low > high).any():
        raise ValueError(f"{name}={_short(description[name])}; give the lowest first")
    return low, high


def _section(description: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return an optional field that has fields of its own."""
    section = description.get(name, {})
    if not isinstance(section, Mapping):
        raise ValueError(f"{name}={_short(section)}; give names with values")
    return section


def _target_limits(description: Mapping[str, Any]) -> Tuple[np.ndarray, np.ndarray]:
    """Return lowest and highest joint targets [J] [rad].

    Files without them have the ranges of the joints at most. There a target may lie beyond the joint's range as far as
    the PD loop needs for the whole torque.
    """
    count = len(description["joint_names"])
    if description.get("target_limits") is not None:
        return _ranges(description, "target_limits", count)
    if description.get("joint_limits") is None:
        return np.full(count, -np.inf, np.float32), np.full(count, np.inf, np.float32)
    low, high = _ranges(description, "joint_limits", count)
    stiffness, torque = (_field(description, name, (count,)) for name in ("stiffness", "torque_limits"))
    margin = torque / np.maximum(stiffness, np.float32(1e-9))
    return low - margin, high + margin


def _command_range(description: Mapping[str, Any]) -> Tuple[np.ndarray, np.ndarray]:
    """Return lowest and highest command [3]: those of the training, and zero, which stops every robot."""
    if description.get("command_ranges") is None:
        return np.full(3, -_FLOAT_MAX), np.full(3, _FLOAT_MAX)
    low, high = _ranges(description, "command_ranges", 3)
    return np.minimum(low, 0), np.maximum(high, 0)


def _input_limits(description: Mapping[str, Any]) -> Dict[str, np.ndarray]:
    """Return the largest magnitude of observation terms in SI units, and as "observation" of all scaled numbers."""
    limits = _section(description, "input_limits")
    try:
        return {name: _field(limits, name, (), "positive ") for name in limits}
    except ValueError as error:
        raise ValueError(f"input_limits: {error}") from error


def _size_limit(description: Mapping[str, Any], name: str) -> np.ndarray:
    """Return the largest size of each number; without the field, or null, the largest there is."""
    if description.get(name) is None:
        return np.array(_FLOAT_MAX, np.float32)
    return _field(description, name, (), "positive ")


def _memory_shapes(description: Mapping[str, Any]) -> List[List[int]]:
    """Return the shapes of the recurrent states, in the order of the network's inputs."""
    inputs = _section(description, "inputs")
    for name, shape in inputs.items():
        counts = shape if isinstance(shape, (list, tuple)) and len(shape) <= 4 else [0]
        if not all(_is_count(count) for count in counts) or int(np.prod(counts)) > _LARGEST:
            raise ValueError(f"inputs: {name}={_short(shape)}; give the sizes of at most {_LARGEST:,} numbers")
    if len(inputs.get("obs", ())) != 2:
        raise ValueError(f"inputs={_short(inputs)}; give obs the shape [1, numbers of the observation]")
    return [shape for name, shape in inputs.items() if name != "obs"]


def _is_count(value: Any, largest: int = _LARGEST) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= largest


def _terms(description: Mapping[str, Any]) -> List[Tuple[str, int, np.ndarray, int, np.ndarray]]:
    """Return name, size, scale, history and clip [2, 1] of the observation terms; a term that is not in FRAMES is a
    ValueError."""
    described = description["observations"]
    listed = described if isinstance(described, (list, tuple)) and described else [None]
    names = [str(term.get("name", "")) if isinstance(term, Mapping) else "" for term in listed[:1001]]
    if not all(names) or len(names) > 1000:
        raise ValueError(
            f"observations={_short(described)}; give terms with name, size, scale and frame, at most 1,000"
        )
    unknown = [name for name in names if name not in FRAMES]
    if unknown:
        raise ValueError(f"no robot senses {_short(', '.join(unknown))}; train a policy on some of {', '.join(FRAMES)}")
    terms = []
    for name, term in zip(names, described):
        frame, history = FRAMES[name], term.get("history", 1)
        size = len(description["joint_names"]) if frame == "joint" else _SIZES.get(name, 3)
        if name in ("style", "foot_clock") and _is_count(term.get("size")):
            size = term["size"]
        if name in ("reference_joint_pos", "reference_joint_vel") and _is_count(term.get("size")):
            size *= max(1, term["size"] // size)  # of several frames
        scale = _numbers(term.get("scale"), (size,) if isinstance(term.get("scale"), list) else ())
        clip = (
            np.array((-_FLOAT_MAX, _FLOAT_MAX), np.float32)
            if term.get("clip") is None
            else _numbers(term["clip"], (2,))
        )
        fits = (term.get("size"), term.get("frame")) == (size, frame) and _is_count(history, 1000)
        if not fits or scale is None:
            wanted = f"the size {size}, the frame {frame}, a finite scale and a history of 1 to 1000 steps"
            raise ValueError(f"observations: {_short(term)}; give {name} {wanted}")
        if clip is None or clip[0] > clip[1]:
            raise ValueError(
                f"observations: {name} has clip={_short(term['clip'])}; give the lowest and highest number"
            )
        terms.append((name, size, scale, history, clip))
    total, expected = sum(term[1] * term[3] for term in terms), description["inputs"]["obs"][-1]
    if total != expected:
        raise ValueError(f"observations: the sizes' sum {total} is not {expected}, the size of the network's input")
    return terms


def _layout(
    description: Mapping[str, Any], terms: Sequence[Tuple[str, int, np.ndarray, int, np.ndarray]]
) -> np.ndarray:
    """Return which number of the terms, one after the other, each number of the observation is."""
    order, steps = description.get("history_order", "term"), {term[3] for term in terms}
    if order not in ("term", "step"):
        raise ValueError(f"history_order={_short(order)}; give term or step")
    if order == "term":
        return np.arange(sum(term[1] * term[3] for term in terms))
    if len(steps) > 1:
        raise ValueError("history_order=step, but the terms have different histories; give all the same")
    starts = np.cumsum([0, *(term[1] * term[3] for term in terms)])
    per_step = [
        start + step * term[1] + np.arange(term[1]) for step in range(*steps) for start, term in zip(starts, terms)
    ]
    return np.concatenate(per_step)


def _largest_change(description: Mapping[str, Any]) -> Optional[np.ndarray]:
    """Return the largest change of the command in a control step, [3]; None without limits."""
    limit = _section(_section(description, "commands"), "velocity")
    names = ("max_lin_acc", "max_yaw_acc")
    if not any(name in limit for name in names):
        return None
    rates = [_numbers(limit.get(name), ()) for name in names]
    if any(rate is None or rate < 0 for rate in rates):
        raise ValueError(f"the limits of the command are {_short(limit)}; give max_lin_acc and max_yaw_acc, 0 for none")
    lin, yaw = (rate or np.inf for rate in rates)
    return np.array([lin, lin, yaw], np.float32) * np.float32(description["control_period"])


def _gait_clock(description: Mapping[str, Any]) -> Optional[Tuple[float, Optional[float]]]:
    """Return period and dead zone of the gait clock; None without one. Without a dead zone it always runs."""
    if all(term["name"] != "gait_clock" for term in description["observations"]):
        return None
    clock = _section(_section(description, "commands"), "gait_clock")
    period, dead_zone = (_numbers(clock.get(name), ()) for name in ("period", "dead_zone"))
    always = "dead_zone" in clock and clock["dead_zone"] is None
    if period is None or period <= 0 or not (always or (dead_zone is not None and dead_zone >= 0)):
        raise ValueError(
            f"the gait clock is {_short(clock)}; give a period and a dead_zone, or export the policy again"
        )
    return clock["period"], clock["dead_zone"]


def _offset(quat: Optional[np.ndarray], base_pos: Vector, reference: Vector) -> Optional[np.ndarray]:
    """Return the position of the reference in the base frame; None without usable readings."""
    own, wanted = _numbers(base_pos, (3,)), _numbers(reference, (3,))
    return None if quat is None or own is None or wanted is None else _to_base(quat, wanted - own)


def _axes(quat: Optional[np.ndarray], reference: Vector) -> Optional[np.ndarray]:
    """Return the x and the y axis of the reference in the base frame, x1 y1 x2 y2 x3 y3; None without readings."""
    wanted = _numbers(reference, (4,))
    if quat is None or wanted is None or not abs(np.linalg.norm(wanted) - 1.0) < 0.01:
        return None
    x, y = (_to_base(quat, _to_base(_inverse(wanted), axis)) for axis in np.eye(3, dtype=np.float32)[:2])
    return np.stack((x, y), axis=1).ravel()


def _inverse(quat: np.ndarray) -> np.ndarray:
    return quat * np.array((1, -1, -1, -1), np.float32)


def _product(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return the rotation by the second quaternion and then by the first, w x y z."""
    (w, *_), (v, *_), axis, other = first, second, first[1:], second[1:]
    return np.concatenate(([w * v - axis @ other], w * other + v * axis + _cross(axis, other))).astype(np.float32)


def _to_base(quat: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Turn a vector from the world frame into the base frame by a quaternion w x y z."""
    w, axis = quat[0], quat[1:]
    twice_cross = 2 * _cross(axis, vector)
    return vector - w * twice_cross + _cross(axis, twice_cross)


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the cross product of two vectors [3]; np.cross takes ten times as long."""
    return a[[1, 2, 0]] * b[[2, 0, 1]] - a[[2, 0, 1]] * b[[1, 2, 0]]


def _records() -> Any:
    """Return policy_records.py, which is beside this file, in a package or in a folder on a robot."""
    try:
        return importlib.import_module(f"{__package__}.policy_records" if __package__ else "policy_records")
    except ImportError as error:
        raise ImportError("no policy_records.py beside onnx_policy.py; copy it too: each export has it") from error


def main() -> int:
    parser = argparse.ArgumentParser(description="Replay the trace of an export, and compare each step with it.")
    parser.add_argument("policy", type=Path, help="policy.onnx")
    parser.add_argument("--check", action="store_true", required=True, help="compare with the trace")
    parser.add_argument("--trace", type=Path, help="file of the trace; trace.npz beside the policy without it")
    args = parser.parse_args()
    path = args.trace or args.policy.with_name("trace.npz")
    try:
        records = _records()
        trace = records.read_trace(path)
        return int(records.check(OnnxPolicy(args.policy, trace["joint_names"].tolist()), trace, path))
    except (ValueError, OSError, ImportError) as error:
        print(f"onnx_policy.py: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
