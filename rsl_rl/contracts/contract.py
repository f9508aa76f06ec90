"""The contract of a policy: what a robot needs to know to run it, the content of policy.json.

All numbers are in SI units and angles in radians; lists of joints are in the policy's order. The base frame has x
forward, y left and z up. Quaternions are w x y z in the contract itself.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from rsl_rl.config.base import (
    Settings,
    require,
    require_choice,
    require_counts,
    require_field,
    require_not_negative,
    require_positive,
    require_ranges,
)
from rsl_rl.config.mdp import MAX_HISTORY
from rsl_rl.utils.config_io import from_dict, short_repr, to_dict
from rsl_rl.utils.files import atomic_write

FORMAT = 2
"""Version of policy.json; files of version 1 are read too."""

HISTORY_ORDERS = ("term", "step")
MEMORIES = ("none", "inputs", "internal")
QUATERNION_ORDERS = ("wxyz", "xyzw")

SENSED = ("base_lin_vel", "base_ang_vel", "gravity", "command", "gait_clock", "joint_pos", "joint_vel", "action")
"""The observation terms that a robot can provide to a policy without styles and reference motions."""

MAX_SIZE = 100_000_000
"""Largest file of a contract [bytes]."""

LONGEST_PERIOD = 1.0
"""Longest time between two actions [s]; a larger number is of another unit."""

FAR_BEYOND = 0.5
"""Distance beyond a joint's range [rad] that no default pose has; one in degrees has more."""

MAX_TERMS = 1000
"""Largest number of terms of an observation."""

Pair = Tuple[float, float]
"""Lowest and highest value."""
PerJoint = Tuple[float, ...]


@dataclass(frozen=True)
class Term(Settings):
    """One term of the observation: clipped, then scaled, then stacked over control steps."""

    name: str
    """Quantity, such as joint_pos; docs/contract.md lists them."""
    size: int
    """Numbers of one control step."""
    scale: Union[float, Tuple[float, ...]] = 1.0
    """Factor of the SI value; one number, or one for each of the term's."""
    frame: str = ""
    """base, joint (one number per joint, in the policy's order) or world."""
    history: int = 1
    """Control steps in the observation, the oldest first. At the start of an episode all of them are the first one."""
    clip: Optional[Pair] = None
    """Lowest and highest SI value that the network gets; null: not clipped."""
    delay: Pair = (0.0, 0.0)
    """Range of the time by which the term was late in training [s]."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 1, "size")
        require_counts(self, 1, "history", high=MAX_HISTORY)
        require_ranges(self, *(("clip", "delay") if self.clip else ("delay",)))
        fits = not isinstance(self.scale, tuple) or len(self.scale) == self.size
        require_field(self, "scale", fits, f": give one number, or {self.size}")


@dataclass(frozen=True)
class Units(Settings):
    """Units of what the robot reads and gets; the contract's own numbers are in SI units."""

    section: ClassVar[str] = "units"

    joint_pos: str = "rad"
    """rad or deg, of joint angles and joint targets."""
    joint_vel: str = "rad/s"
    """rad/s or deg/s."""
    base_ang_vel: str = "rad/s"
    """rad/s or deg/s."""

    def __post_init__(self):
        super().__post_init__()
        require_choice(self, ("rad", "deg"), "joint_pos")
        require_choice(self, ("rad/s", "deg/s"), "joint_vel", "base_ang_vel")


@dataclass(frozen=True)
class Provenance(Settings):
    """What made the files."""

    command: str = ""
    """Command line."""
    commit: str = ""
    """Git commit of the program, or of the repository that the file is from."""
    version: str = ""
    """Version of the program."""
    checkpoint: str = ""
    """Checkpoint of the training."""


@dataclass(frozen=True)
class Contract(Settings):
    """What a robot needs to know to run a policy. The fields without a default must be there."""

    inputs: Mapping[str, Tuple[int, ...]]
    """Shapes of the network's inputs by name, in order: obs, and recurrent states."""
    outputs: Mapping[str, Tuple[int, ...]]
    """Shapes of the network's outputs by name, in order: actions, and recurrent states."""
    control_period: float
    """Time between two actions [s]."""
    observations: Tuple[Term, ...]
    """Terms of the observation in order."""
    joint_names: Tuple[str, ...]
    """Joints in the order of the policy's actions."""
    joint_signs: PerJoint
    """1, or -1 for a joint that turns the other way: policy's angle = sign * (robot's angle - zero)."""
    joint_zeros: PerJoint
    """Robot's angle at which the policy's angle is zero [rad]."""
    default_joint_pos: PerJoint
    """Policy's joint angles of action 0, which the observation joint_pos is relative to [rad]."""
    action_scale: Union[float, PerJoint]
    """Joint angle per unit of action [rad]: target = default_joint_pos + action_scale * action."""
    action_clip: Optional[float]
    """Actions are clipped to [-action_clip, action_clip]; null: not clipped."""
    stiffness: PerJoint
    """Proportional gain of the joints [N m/rad]."""
    damping: PerJoint
    """Derivative gain of the joints [N m s/rad]."""
    torque_limits: PerJoint
    """Largest torque of the joints [N m]."""
    quaternion_order: str
    """Order of the orientation that the robot reads, wxyz or xyzw; it turns vectors of the sensor into the world."""
    imu_mounting: Tuple[float, float, float, float]
    """Rotation from the base frame to the frame of the IMU, w x y z; 1 0 0 0 for axes that are those of the base."""
    units: Units
    """Units of readings and joint targets."""
    format: int = FORMAT
    """Version of the file."""
    task: str = ""
    """Name of the task of the training."""
    robot: str = ""
    """Name of the robot."""
    network_sha256: str = ""
    """SHA-256 of the network: of an ONNX file without its metadata properties, of another file as it is."""
    memory: str = "none"
    """none; inputs: recurrent states are inputs and outputs; internal: the network keeps them until it is reset."""
    history_order: str = "term"
    """How histories are stacked: term after term, each with its steps; or step after step, each with its terms."""
    base_frame: str = "x forward, y left, z up"
    """Axes of the base frame."""
    sensing_period: Optional[float] = None
    """Time between two readings in training [s]; null: not known."""
    action_delay: Pair = (0.0, 0.0)
    """Range of the time between an action and its torque in training [s]."""
    command_ranges: Optional[Tuple[Pair, Pair, Pair]] = None
    """Lowest and highest vx, vy [m/s] and yaw rate [rad/s] of the training; null: not known."""
    commands: Mapping[str, Any] = field(default_factory=dict)
    """velocity: limits of the command's change, max_lin_acc [m/s^2] and max_yaw_acc [rad/s^2], 0 for none. gait_clock:
    period [s] and dead_zone, the size of a command up to which the clock is zero; null: it never is. style: the names
    of the styles. foot_clock: a rhythm of each style, period [s], touchdown and duty of each foot in periods, and
    dead_zone."""
    actuator: Mapping[str, Any] = field(default_factory=lambda: {"type": "pd"})
    """Kind of the actuators, pd, dc_motor or network, with their numbers."""
    joint_limits: Optional[Tuple[Pair, ...]] = None
    """Lowest and highest angle of the joints in the policy's angles [rad]; null: not known."""
    target_limits: Optional[Tuple[Pair, ...]] = None
    """Lowest and highest joint target in the policy's angles [rad]; null: those of joint_limits and torque_limits."""
    input_limits: Mapping[str, float] = field(default_factory=dict)
    """Largest size of each reading in SI units, and as "observation" of each number of the observation."""
    observation_clip: Optional[float] = None
    """The scaled observation is clipped to [-observation_clip, observation_clip]; null: not clipped."""
    nominal_observation: Optional[Tuple[float, ...]] = None
    """Observation of a robot that stands in the default pose with the command zero, scaled; null: not known."""
    provenance: Provenance = field(default_factory=Provenance)
    """What made the files."""
    simulation: Mapping[str, Any] = field(default_factory=dict)
    """Model of the robot, height [m] of its base at the start, and what is a fall."""

    def __post_init__(self):
        super().__post_init__()
        joints = len(self.joint_names)
        require_field(self, "format", self.format == FORMAT, f"; give {FORMAT}")
        distinct = joints > 0 and all(self.joint_names) and len(set(self.joint_names)) == joints
        require_field(self, "joint_names", distinct, "; each joint must have a name of its own")
        for name in PER_JOINT:
            value = getattr(self, name)
            fits = not isinstance(value, tuple) or len(value) == joints
            require(fits, f"{name} has {fits or len(value)} values; give one for each of {joints} joints")
        require_field(self, "joint_signs", {-1.0, 1.0}.issuperset(self.joint_signs), "; give 1 or -1 for each joint")
        require_not_negative(self, "stiffness", "damping", "torque_limits")
        require_positive(self, "control_period", "action_scale")
        require_field(self, "control_period", self.control_period <= LONGEST_PERIOD, "; give seconds, at most 1")
        require_ranges(self, "action_delay")
        for name in ("command_ranges", "joint_limits", "target_limits"):
            ordered = all(low <= high for low, high in getattr(self, name) or ())
            require_field(self, name, ordered, ": give the lower number of each pair first")
        for i, (low, high) in enumerate(self.joint_limits or ()):
            pose, name = self.default_joint_pos[i], self.joint_names[i]
            fits = low - FAR_BEYOND <= pose <= high + FAR_BEYOND
            require(fits, f"default_joint_pos: {pose:g} of {name} is not in joint_limits; give radians")
        for name in ("action_clip", "observation_clip", "sensing_period"):
            if getattr(self, name) is not None:
                require_positive(self, name)
        require_choice(self, QUATERNION_ORDERS, "quaternion_order")
        require_choice(self, HISTORY_ORDERS, "history_order")
        require_choice(self, MEMORIES, "memory")
        length = sum(number**2 for number in self.imu_mounting) ** 0.5
        require_field(self, "imu_mounting", abs(length - 1.0) < 0.01, "; give a unit quaternion w x y z")
        states = [name for name in self.inputs if name != "obs"]
        fits = (self.memory == "inputs") == bool(states)
        require_field(self, "memory", fits, f", but the network has the inputs {', '.join(self.inputs)}")
        self._check_sizes(joints)
        self._check_commands()

    def _check_commands(self) -> None:
        """Raise a ValueError for limits of the command, or a gait clock, that no robot can follow."""
        limits, clock = (self._section_of_commands(name) for name in ("velocity", "gait_clock"))
        if limits is not None:
            rates = [limits.get(name, 0.0) for name in ("max_lin_acc", "max_yaw_acc")]
            fits = all(_is_number(rate) and rate >= 0 for rate in rates)
            require(fits, f"commands.velocity={short_repr(limits)}; give max_lin_acc and max_yaw_acc, 0 for none")
        if clock is not None or any(term.name == "gait_clock" for term in self.observations):
            given: Mapping[str, Any] = clock or {}
            period, dead_zone = given.get("period"), given.get("dead_zone")
            fits = (
                _is_number(period)
                and period != 0
                and all(x is None or (_is_number(x) and x >= 0) for x in (period, dead_zone))
            )
            require(fits, f"commands.gait_clock={short_repr(clock)}; give a positive period, and a dead_zone or null")
        self._check_styles()

    def _check_styles(self) -> None:
        """Raise a ValueError for styles without the rhythms that the clocks of the feet need."""
        sizes = {term.name: term.size for term in self.observations if term.name in ("style", "foot_clock")}
        names = (self._section_of_commands("style") or {}).get("styles", ())
        fits = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
        fits = fits and len(names) == sizes.get("style", len(names))
        require(fits, f"commands.style.styles={short_repr(names)}; give a name for each number of the term style")
        rhythms = (self._section_of_commands("foot_clock") or {}).get("rhythms", ())
        if "foot_clock" not in sizes and not rhythms:
            return
        fits = isinstance(rhythms, (list, tuple)) and len(rhythms) == len(names)
        fits = fits and all(_is_rhythm(one, sizes.get("foot_clock")) for one in rhythms)
        require(
            fits,
            f"commands.foot_clock.rhythms={short_repr(rhythms)}; give for each style a positive period, and touchdown "
            "and duty of each foot, the latter between 0 and 1",
        )

    def _section_of_commands(self, name: str) -> Optional[Mapping[str, Any]]:
        section = self.commands.get(name)
        require(
            section is None or isinstance(section, Mapping),
            f"commands.{name}={short_repr(section)}; give names with values",
        )
        return section

    def _check_sizes(self, joints: int) -> None:
        """Raise a ValueError for sizes that contradict each other."""
        require(bool(self.observations), "observations has no terms; give terms with name, size and scale")
        total = sum(term.size * term.history for term in self.observations)
        obs, actions = self.inputs.get("obs"), self.outputs.get("actions")
        require(
            obs == (1, total),
            f"inputs: obs is {short_repr(obs)}, but the observations have {total} numbers; give (1, {total})",
        )
        require(
            actions == (1, joints), f"outputs: actions is {short_repr(actions)}; give (1, {joints}), one of each joint"
        )
        equal = len({term.history for term in self.observations}) == 1 or self.history_order == "term"
        require(equal, "history_order=step, but the terms have different histories; give all the same")
        nominal = self.nominal_observation
        fits = nominal is None or len(nominal) == total
        require(fits, f"nominal_observation has {fits or len(nominal or ())} numbers; give {total}")


def _is_rhythm(rhythm: Any, size: Optional[int]) -> bool:
    """Return whether a rhythm can be followed; ``size`` is that of the term foot_clock, two numbers for each foot."""
    if not isinstance(rhythm, Mapping):
        return False
    period, touchdown, duty = rhythm.get("period"), rhythm.get("touchdown"), rhythm.get("duty")
    if not isinstance(touchdown, (list, tuple)) or not isinstance(duty, (list, tuple)):
        return False
    feet = len(duty) if size is None else size / 2
    fits = len(touchdown) == len(duty) == feet and all(map(_is_number, (period, *touchdown, *duty)))
    return fits and rhythm["period"] > 0 and all(0 < share < 1 for share in duty)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) < 1e30


PER_JOINT = (
    *("joint_signs", "joint_zeros", "default_joint_pos", "action_scale", "stiffness", "damping", "torque_limits"),
    *("joint_limits", "target_limits"),
)
"""Fields with a value for each joint."""

REQUIRED = tuple(f.name for f in fields(Contract) if f.default is MISSING and f.default_factory is MISSING)
"""Fields that every contract must have."""


def plain_mapping(num_joints: int) -> Dict[str, Any]:
    """Return the fields of a robot that reads and moves exactly as the simulation does."""
    return {
        "joint_signs": [1.0] * num_joints,
        "joint_zeros": [0.0] * num_joints,
        "quaternion_order": "wxyz",
        "imu_mounting": [1.0, 0.0, 0.0, 0.0],
        "units": to_dict(Units()),
    }


def nominal_observation(terms: Sequence[Mapping[str, Any]], history_order: str = "term") -> Optional[List[float]]:
    """Return the observation of a robot that stands in the default pose; None for terms that no robot senses."""
    if any(term["name"] not in SENSED for term in terms):
        return None
    parts = []
    for term in terms:
        scale, size = term.get("scale", 1.0), term["size"]
        scales = scale if isinstance(scale, (list, tuple)) else [scale] * size
        values = [0.0, 0.0, -1.0] if term["name"] == "gravity" else [0.0] * size
        parts.append([value * factor for value, factor in zip(values, scales)])
    if history_order == "step":
        return [number for part in parts for number in part] * terms[0].get("history", 1)
    return [number for part, term in zip(parts, terms) for number in part * term.get("history", 1)]


def contract_of(description: Mapping[str, Any]) -> Contract:
    """Return the contract of a description of format 1 or 2; what does not fit is a ValueError that names the field."""
    if not isinstance(description, Mapping):
        raise ValueError(f"the contract is {short_repr(description)}; give the names of its fields with values")
    terms = description.get("observations")
    count = len(terms) if isinstance(terms, (list, tuple)) else 0
    require(count <= MAX_TERMS, f"observations has {count:,} terms; give at most {MAX_TERMS:,}")
    version = description.get("format", 1)
    if version not in (1, FORMAT) or isinstance(version, (bool, float)):
        raise ValueError(f"format={short_repr(version)}; this program reads 1 and {FORMAT}: use a newer one")
    if version == 1:
        names = description.get("joint_names")
        mapping = plain_mapping(len(names) if isinstance(names, (list, tuple)) else 0)
        description = {**mapping, **description, "format": FORMAT}
        if any(str(name).endswith("_in") for name in description.get("inputs") or ()):
            description = {"memory": "inputs", **description}
    return from_dict(Contract, description)


def contract_json(contract: Contract) -> Dict[str, Any]:
    """Return a contract as plain values."""
    return {"format": contract.format, **to_dict(contract)}


def read_contract(path: Path) -> Contract:
    """Read policy.json; what does not fit is a ValueError that names the field."""
    try:
        return contract_of(read_json(path))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def read_json(path: Path) -> Any:
    """Read a JSON file; damage is a ValueError."""
    if path.stat().st_size > MAX_SIZE:
        raise ValueError(f"it has more than {MAX_SIZE // 1_000_000} MB")
    try:
        return json.loads(path.read_bytes().decode(), object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {' '.join(str(error).split())[:200]}") from error


def _each_once(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    """Return an object of JSON; a duplicate field is a ValueError."""
    twice = [name for name, count in Counter(name for name, _ in pairs).items() if count > 1]
    require(not twice, f"duplicate field {', '.join(map(short_repr, twice))}")
    return dict(pairs)


def write_contract(contract: Contract, path: Path) -> Path:
    """Write policy.json."""
    atomic_write(path, (json.dumps(contract_json(contract), indent=2) + "\n").encode())
    return path
