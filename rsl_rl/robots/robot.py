"""Data of a robot model. To add a robot, see docs/own-robot.md."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import List, Mapping, Sequence, Tuple, Union
from xml.etree import ElementTree

from rsl_rl.utils.registry import Registry, names_of_pattern, suggest, values_by_name

Names = Union[str, Sequence[str]]
"""Name of a group, regular expression that names match completely, or several of either."""


@dataclass(frozen=True)
class Robot:
    """Data of one robot model with any number of legs; joints and feet are in the model file's order."""

    model_path: Path
    """MJCF file."""
    default_joint_pos: Tuple[float, ...]
    """Joint angles of the standing pose [rad], the joint targets of action 0. A dict gives them by regular expressions
    of joint names; each joint must match exactly one."""
    standing_height: float
    """Height of the trunk at the start of an episode [m]; on rough ground it can be larger."""
    foot_radius: float
    """Distance of a standing foot's centre from the floor [m]."""
    mirrored_joints: Tuple[int, ...]
    """Index of the joint that corresponds to each joint in the left-right mirror image."""
    mirror_signs: Tuple[float, ...]
    """Sign of each joint's angle in the mirror image."""
    mirrored_feet: Tuple[int, ...]
    """Index of the foot that corresponds to each foot in the mirror image."""
    foot_groups: Mapping[str, Names] = field(default_factory=dict)
    """Names of feet by the name of a group, such as "left"; reward terms name groups."""
    joint_groups: Mapping[str, Names] = field(default_factory=dict)
    """Regular expressions of joint names by the name of a group, such as "abduction"; reward terms name groups."""

    def __post_init__(self):
        if isinstance(self.default_joint_pos, Mapping):
            joints = read_joint_names(self.model_path)
            angles = values_by_name(self.default_joint_pos, joints, f"default_joint_pos of {self.model_path.name}")
            object.__setattr__(self, "default_joint_pos", angles)

    def in_pose(self, pose: Union[float, Mapping[str, float], None], where: str = "pose") -> Robot:
        """Return the robot with another default pose [rad]: one angle, or angles by regular expressions of joint names.
        A joint that matches none keeps its own. ``where`` is the path in the config, for messages."""
        if pose is None:
            return self
        angles = values_by_name(pose, read_joint_names(self.model_path), where, others=None)
        kept = zip(angles, self.default_joint_pos)
        return replace(self, default_joint_pos=tuple(own if angle is None else angle for angle, own in kept))

    def joint_indices(self, names: Names, joint_names: Sequence[str]) -> List[int]:
        """Return the indices of joints among ``joint_names``; a name without a joint is a ValueError."""
        return _indices(names, self.joint_groups, joint_names, "joint")

    def foot_indices(self, names: Names, foot_names: Sequence[str]) -> List[int]:
        """Return the indices of feet among ``foot_names``; a name without a foot is a ValueError."""
        return _indices(names, self.foot_groups, foot_names, "foot")


def read_joint_names(mjcf: Path) -> Tuple[str, ...]:
    """Read the names of the joints with a position actuator, in the actuators' order."""
    motors = ElementTree.parse(mjcf).getroot().iterfind("actuator/position")
    return tuple(motor.get("joint", "") for motor in motors)


def _indices(names: Names, groups: Mapping[str, Names], known: Sequence[str], kind: str) -> List[int]:
    """Return the indices of all names of ``known`` that a group or a pattern means, in the order of ``known``."""
    found = set()
    for name in (names,) if isinstance(names, str) else names:
        if name in groups:
            matching = _indices(groups[name], {}, known, kind)
        else:
            matching = [known.index(other) for other in names_of_pattern(name, known)]
        if not matching:
            every = [*groups, *known]
            raise ValueError(f"no {kind} has the name '{name}'; known: {', '.join(every)}.{suggest(name, every)}")
        found.update(matching)
    return sorted(found)


ROBOTS = Registry(
    "robot",
    {
        "anymal_c": "rsl_rl.robots.anymal_c:ANYMAL_C",
        "g1": "rsl_rl.robots.g1:G1",
        "go2": "rsl_rl.robots.go2:GO2",
        "h1": "rsl_rl.robots.h1:H1",
    },
    base="rsl_rl.robots.robot:Robot",
    instances=True,
)
