"""Run an exported policy on a robot: the inputs are sensor readings in SI units, the outputs joint targets [rad].

Needs numpy and onnxruntime, and no other file than policy.onnx: copy both to the robot.

    policy = OnnxPolicy("policy.onnx", joint_names=("FR_hip_joint", ...))  # in the order in which the robot lists them
    while True:  # once in policy.control_period seconds; policy.reset() at the start of each episode
        targets = policy(command=(0.5, 0.0, 0.0), base_quat=..., base_ang_vel=..., joint_pos=..., joint_vel=...)

The robot follows the targets with PD loops of policy.stiffness and policy.damping, up to policy.torque_limits.
A ValueError means that a reading, or the target computed from it, is outside the limits of the training; nothing has
changed then, and the robot should stop, or keep its last targets for a short time.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import numpy as np

Network = Callable[..., Sequence[np.ndarray]]
"""Function from obs [1, D] and recurrent states to actions [1, A] and the next recurrent states."""
Vector = Union[Sequence[float], np.ndarray, None]

NEEDED = "inputs observations joint_names default_joint_pos action_scale action_clip stiffness damping torque_limits"
PER_JOINT = ("default_joint_pos", "stiffness", "damping", "torque_limits")
_CHECKSUM = b'\x72\x4c\x0a\x06sha256\x12\x42"'  # begins the metadata entry sha256, with 64 digits between quotes
FRAMES: Dict[str, str] = dict.fromkeys(("base_lin_vel", "base_ang_vel", "gravity", "command", "gait_clock"), "base")
FRAMES.update(dict.fromkeys(("joint_pos", "joint_vel", "action"), "joint"))
"""The observation terms that a robot can provide, and the frame of each."""


class Policy:
    """A network with its description (policy.json); stores the last action, the last observation for terms with a
    history, and the network's recurrent states."""

    def __init__(self, description: Mapping[str, Any], network: Network, joint_names: Optional[Sequence[str]] = None):
        missing = [name for name in (*NEEDED.split(), "control_period") if name not in description]
        if missing:
            raise ValueError(f"the policy's description lacks {', '.join(missing)}; export the policy again")
        _check_numbers(description)
        own = list(description["joint_names"])
        self.joint_names: List[str] = list(own if joint_names is None else joint_names)
        if sorted(own) != sorted(self.joint_names):
            raise ValueError(f"got the joints {self.joint_names}; the policy moves {own}: name these, in any order")
        self.description, self._network = description, network
        self._terms = _check_terms(description)
        self._robot_index = [self.joint_names.index(name) for name in own]  # of each of the policy's joints
        self._default = np.array(description["default_joint_pos"], np.float32)  # in the policy's order
        self._scale = np.array(description["action_scale"], np.float32)  # a number, or one for each joint
        self._clip = np.float32(description["action_clip"])
        self._memory_shapes = [shape for name, shape in description["inputs"].items() if name != "obs"]
        self.control_period: float = description["control_period"]
        self.default_joint_pos = self._to_robot(self._default)
        gains = (self._to_robot(np.array(description[name])) for name in ("stiffness", "damping", "torque_limits"))
        self.stiffness, self.damping, self.torque_limits = gains  # [N m/rad], [N m s/rad], [N m]
        self._input_limits: Mapping[str, float] = description.get("input_limits", {})
        self._largest_change = _largest_change(description)  # of the command in a control step, [3]
        self._clock = _gait_clock(description)  # period [s] and the size of a command up to which the robot stands
        self._target_limits = _target_limits(description)
        self.reset()

    def reset(self) -> None:
        """Start an episode: clear the last action, the histories and the recurrent states."""
        self.last_action = np.zeros(len(self._default), np.float32)  # in the policy's order of joints
        self._last_obs: Optional[np.ndarray] = None  # [D] of the call before
        self._time = 0.0  # of the gait clock [s]
        self._command = np.zeros(3, np.float32)  # that the network reads
        self.memories: Sequence[np.ndarray] = [np.zeros(shape, np.float32) for shape in self._memory_shapes]

    def __call__(self, **state: Any) -> np.ndarray:
        """Return joint targets [rad] in the order of ``joint_names``; the arguments are those of :meth:`observe`.

        Targets that are not finite, or beyond the joint limits by more than the torque limit can use, are a ValueError.
        """
        obs = self.observe(**state)
        actions, *memories = self._network(obs[None], *self.memories)
        if actions.shape != (1, len(self._default)) or not all(np.isfinite(x).all() for x in (actions, *memories)):
            raise ValueError(f"the network's actions {actions} are not {len(self._default)} finite numbers")
        action = np.clip(actions[0], -self._clip, self._clip)
        targets = self._default + self._scale * action
        self._check_targets(targets)
        self.last_action, self.memories, self._last_obs = action, memories, obs
        self._time += self.control_period
        self._command = self._limited(state.get("command"))
        return self._to_robot(targets)

    @np.errstate(over="ignore", invalid="ignore")  # the checks find what is too large
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
    ) -> np.ndarray:
        """Return the next observation [D] of a state: command vx, vy [m/s] and yaw rate [rad/s]; orientation w x y z,
        base to world; velocities in the base frame [rad/s], [m/s], the linear one also in the world frame; joints
        [rad], [rad/s] in the order of ``joint_names``. Values that the policy does not use may be omitted. The clock is
        sine and cosine of the gait's phase; if omitted, it runs with the calls of the episode.

        A term with a history is several control steps, the oldest first; at the start of an episode all are this one.
        The network reads the command after the limits of its acceleration, which starts at zero in each episode.
        """
        if base_quat is not None and (np.shape(base_quat) != (4,) or not abs(np.linalg.norm(base_quat) - 1.0) < 0.01):
            raise ValueError(f"base_quat={base_quat} is not a rotation; give a unit quaternion w x y z")
        if base_lin_vel is None and base_lin_vel_world is not None and base_quat is not None:
            base_lin_vel = _to_base(base_quat, base_lin_vel_world)
        command = self._limited(command)
        values: Dict[str, Any] = {
            "base_lin_vel": base_lin_vel,
            "base_ang_vel": base_ang_vel,
            "gravity": None if base_quat is None else _to_base(base_quat, (0.0, 0.0, -1.0)),
            "command": command,
            "joint_pos": None if joint_pos is None else self._from_robot(joint_pos) - self._default,
            "joint_vel": None if joint_vel is None else self._from_robot(joint_vel),
            "action": self.last_action,
            "gait_clock": self._gait(command, gait_clock),
        }
        parts, start = [], 0
        for name, size, scale, history in self._terms:
            newest, end = self._scaled(values[name], name, size, scale), start + size * history
            past = np.tile(newest, history - 1) if self._last_obs is None else self._last_obs[start + size : end]
            parts += [past, newest]
            start = end
        return np.concatenate(parts)

    def _limited(self, command: Vector) -> Any:
        """Return the command that the network reads next; an invalid command is returned unchanged."""
        if self._largest_change is None or np.shape(command) != (3,):
            return command
        change = np.asarray(command, np.float32) - self._command
        return self._command + np.clip(change, -self._largest_change, self._largest_change)

    def _gait(self, command: Vector, clock: Vector) -> Optional[np.ndarray]:
        """Return sine and cosine of the gait's phase, or zeros for a command to stand."""
        if self._clock is None or command is None:
            return None
        period, dead_zone = self._clock
        angle = 2 * np.pi * self._time / period
        phase = np.array((np.sin(angle), np.cos(angle)) if clock is None else clock, np.float32)
        return phase * (float(np.square(np.asarray(command, np.float32)).sum()) > dead_zone**2)

    def _scaled(self, value: Any, name: str, size: int, scale: np.float32) -> np.ndarray:
        """Return a term of the observation; a value that is not finite, or larger than in training, is a ValueError."""
        array = np.full(0, np.nan) if value is None else np.asarray(value, np.float32)
        if array.shape != (size,) or not np.isfinite(array).all():
            given = {"gravity": "base_quat", "base_lin_vel": "base_lin_vel, or base_lin_vel_world with base_quat"}
            given["gait_clock"] = "command"
            source = given.get(name, name)
            raise ValueError(f"the policy senses {name}: give {source}, {size} finite numbers; got {value}")
        scaled = array * scale
        limits = self._input_limits
        largest, largest_scaled = limits.get(name, np.inf), limits.get("observation", np.finfo(np.float32).max)
        if np.abs(array).max() > largest or np.abs(scaled).max() > largest_scaled:
            raise ValueError(f"{name}={value} is larger than any in training: check the sensor, its unit and its frame")
        return scaled

    def _check_targets(self, targets: np.ndarray) -> None:
        low, high = self._target_limits
        wrong = np.flatnonzero(~((targets >= low) & (targets <= high)))
        if len(wrong):
            i, own = wrong[0], self.description["joint_names"]
            raise ValueError(
                f"the target of {own[i]} would be {targets[i]:.3g} rad, outside {low[i]:.3g} to {high[i]:.3g}"
            )

    def _from_robot(self, joints: Union[Sequence[float], np.ndarray]) -> np.ndarray:
        if np.shape(joints) != (len(self.joint_names),):
            raise ValueError(f"{np.size(joints)} joint values; give one for each of {self.joint_names}")
        return np.asarray(joints, np.float32)[self._robot_index]

    def _to_robot(self, joints: np.ndarray) -> np.ndarray:
        ordered = np.empty_like(joints)
        ordered[self._robot_index] = joints
        return ordered


class OnnxPolicy(Policy):
    """The policy in an ONNX file, which contains its description."""

    def __init__(self, path: Union[str, Path], joint_names: Optional[Sequence[str]] = None):
        super().__init__(*open_onnx(path), joint_names)


def open_onnx(path: Union[str, Path]) -> Tuple[Mapping[str, Any], Network]:
    """Load a file's description and its network; damage is a ValueError, a missing onnxruntime an ImportError."""
    if not Path(path).is_file():
        raise FileNotFoundError(f"no file {path}; scripts/play.py writes policy.onnx into the run's exported/ folder")
    try:
        import onnxruntime
    except ImportError as error:
        raise ImportError("onnxruntime is not installed; run: pip install onnxruntime") from error
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # the networks are small
    content = Path(path).read_bytes()
    damaged = f"{path} is damaged: its checksum is wrong; copy it again, or export the policy again"
    if _CHECKSUM in content and not _is_intact(content):
        raise ValueError(damaged)
    try:
        session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
        names = [x.name for x in session.get_inputs()]
        description = _entries(session.get_modelmeta().custom_metadata_map)
    except Exception as error:  # onnxruntime's errors have no type in common
        raise ValueError(f"{path} is not an ONNX model: {' '.join(str(error).split())}") from error
    if "joint_limits" in description and not _is_intact(content):  # every export with this entry has a checksum
        raise ValueError(damaged)
    return description, lambda *inputs: [np.asarray(x) for x in session.run(None, dict(zip(names, inputs)))]


def _is_intact(content: bytes) -> bool:
    """Return whether an ONNX file ends with a metadata entry that is the checksum of what is before it."""
    checksum = hashlib.sha256(content[: -len(_CHECKSUM) - 65]).hexdigest()
    return content.endswith(_CHECKSUM + checksum.encode() + b'"')


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


def _check_numbers(description: Mapping[str, Any]) -> None:
    """Check format, names and numbers of a description; what no robot should move by is a ValueError."""
    if description.get("format", 1) != 1:
        raise ValueError(f"the description has format {description['format']}; this file reads 1: use the newer one")
    names = description["joint_names"]
    if not names or len(set(names)) != len(names):
        raise ValueError(f"joint_names={names}; each joint must have a name of its own")
    shapes = {name: (len(names),) for name in PER_JOINT}
    shapes.update(dict.fromkeys(("action_clip", "control_period"), ()))
    shapes["action_scale"] = (len(names),) if isinstance(description["action_scale"], list) else ()
    if "joint_limits" in description:
        shapes["joint_limits"] = (len(names), 2)
    for name, shape in shapes.items():
        try:
            array = np.array(description[name], float)
        except (TypeError, ValueError):
            array = np.full(0, np.nan)
        low = -np.inf if name in ("default_joint_pos", "joint_limits") else 0.0
        if array.shape != shape or not np.isfinite(array).all() or (array < low).any():
            raise ValueError(f"{name}={description[name]}; give finite numbers of shape {list(shape)}, none negative")
    if any(low > high for low, high in description.get("joint_limits", ())):
        raise ValueError(f"joint_limits={description['joint_limits']}; give the lowest first")
    zero = [name for name in ("action_scale", "action_clip", "control_period") if not np.all(description[name])]
    if zero:
        raise ValueError(f"{', '.join(zero)} must be positive; export the policy again")


def _target_limits(description: Mapping[str, Any]) -> Tuple[np.ndarray, np.ndarray]:
    """Return lowest and highest joint targets [J] [rad].

    A target may lie beyond the joint's range as far as the PD loop needs for the whole torque.
    """
    if "joint_limits" not in description:
        largest = np.full(len(description["joint_names"]), np.finfo(np.float32).max)
        return -largest, largest
    low, high = np.array(description["joint_limits"], float).T
    stiffness = np.maximum(np.array(description["stiffness"], float), 1e-9)
    margin = np.array(description["torque_limits"], float) / stiffness
    return low - margin, high + margin


def _check_terms(description: Mapping[str, Any]) -> List[Tuple[str, int, np.float32, int]]:
    """Return name, size, scale and history of the observation terms; a term that is not in FRAMES is a ValueError."""
    described = description["observations"]
    terms = [(term["name"], term["size"], np.float32(term["scale"]), term.get("history", 1)) for term in described]
    if not all(isinstance(history, int) and history >= 1 for *_, history in terms):
        raise ValueError(f"histories of observations are not numbers of steps: {terms}; export the policy again")
    if not all(np.isfinite(scale) for _, _, scale, _ in terms):
        raise ValueError(f"scales of observations are not finite: {terms}; export the policy again")
    unknown = [name for name, *_ in terms if name not in FRAMES]
    if unknown:
        raise ValueError(f"no robot senses {', '.join(unknown)}; train a policy on some of {', '.join(FRAMES)}")
    wrong = [term["name"] for term in described if term["frame"] != FRAMES[term["name"]]]
    size, expected = sum(size * history for _, size, _, history in terms), description["inputs"]["obs"][-1]
    if wrong or size != expected:
        raise ValueError(f"frames of {wrong} are others than {FRAMES}, or the sizes' sum {size} is not {expected}")
    return terms


def _largest_change(description: Mapping[str, Any]) -> Optional[np.ndarray]:
    """Return the largest change of the command in a control step, [3]; None without limits."""
    limit = description.get("commands", {}).get("velocity", {})
    if not limit:
        return None
    lin, yaw = limit.get("max_lin_acc"), limit.get("max_yaw_acc")
    if not all(isinstance(value, (int, float)) and 0 <= value < np.inf for value in (lin, yaw)):
        raise ValueError(f"the limits of the command are {limit}; give max_lin_acc and max_yaw_acc, 0 for none")
    rates = np.array([lin or np.inf, lin or np.inf, yaw or np.inf], np.float32)
    return rates * np.float32(description["control_period"])


def _gait_clock(description: Mapping[str, Any]) -> Optional[Tuple[float, float]]:
    """Return period and dead zone of the gait clock; None without one."""
    if all(term["name"] != "gait_clock" for term in description["observations"]):
        return None
    clock = description.get("commands", {}).get("gait_clock", {})
    period, dead_zone = clock.get("period"), clock.get("dead_zone")
    if not (isinstance(period, float) and 0 < period < np.inf and isinstance(dead_zone, float) and dead_zone >= 0):
        raise ValueError(f"the gait clock is {clock}; give a period and a dead_zone, or export the policy again")
    return period, dead_zone


def _to_base(quat: Any, vector: Any) -> np.ndarray:
    """Turn a vector from the world frame into the base frame by a quaternion w x y z."""
    w, axis, v = np.float32(quat[0]), np.asarray(quat[1:], np.float32), np.asarray(vector, np.float32)
    twice_cross = 2 * np.cross(axis, v)
    return v - w * twice_cross + np.cross(axis, twice_cross)
