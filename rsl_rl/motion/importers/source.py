"""What a file says about a motion before its conventions are known, and what the user says about them."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Optional, Sequence, Tuple

import numpy as np

LENGTHS = {"m": 1.0, "cm": 0.01, "mm": 0.001}
"""Units of length [m]."""

ANGLES = {"rad": 1.0, "deg": float(np.pi) / 180}
"""Units of angles [rad]."""

UPS = ("z", "y", "x", "-z", "-y", "-x")
"""Axes of the file's world that may point up."""

QUATERNIONS = ("wxyz", "xyzw")
"""Orders of the numbers of a quaternion."""

EULER = ("xyz", "xzy", "yxz", "yzx", "zxy", "zyx")
"""Orders of turns about the fixed axes of the world; "xyz" turns about x first. About the axes of the body it is the
reverse."""

MOST_FRAMES = 2_000_000
"""Frames of the longest motion that is read."""


class ConventionError(ValueError):
    """A convention of a file that has to be given; the message names the flag."""


class OtherBodiesError(ValueError):
    """A file whose bodies are not the links of the robot."""


@dataclass(frozen=True)
class Given:
    """Conventions that the user knows; None and "" mean that they are to be found."""

    fps: Optional[float] = None
    """Frames per second [Hz]."""
    joints: str = ""
    """Names of the joints in the order of the file, with commas; "model" for the order of the robot's model, "breadth"
    for that of Isaac Lab, which goes through the bodies level by level."""
    quaternion: str = ""
    """Order of the numbers of a quaternion, wxyz or xyzw."""
    euler: str = ""
    """Order of the turns about fixed axes, such as xyz."""
    length: str = ""
    """Unit of length: m, cm or mm."""
    angles: str = ""
    """Unit of angles: rad or deg."""
    up: str = ""
    """Axis of the file's world that points up, such as z or y."""
    motion: str = ""
    """Name of the motion in a file with several."""

    def __post_init__(self) -> None:
        allowed = {"quaternion": QUATERNIONS, "euler": EULER, "length": LENGTHS, "angles": ANGLES, "up": UPS}
        for field in fields(self):
            value = getattr(self, field.name)
            if value and field.name in allowed and value not in allowed[field.name]:
                raise ValueError(f"{field.name} is '{value}'; give one of {', '.join(allowed[field.name])}")
        if self.fps is not None and not 1 <= self.fps <= 10_000:
            raise ValueError(f"fps is {self.fps}; give 1 to 10,000 frames per second")


@dataclass(frozen=True)
class Source:
    """The content of a file: F frames of a root, K columns of joint angles, and B bodies."""

    name: str
    fps: Optional[float] = None
    root_pos: Optional[np.ndarray] = None
    """[F, 3]"""
    root_quat: Optional[np.ndarray] = None
    """[F, 4] in an unknown order."""
    root_euler: Optional[np.ndarray] = None
    """[F, 3] turns about x, y and z in an unknown order."""
    joints: Optional[np.ndarray] = None
    """[F, K]"""
    joint_names: Tuple[str, ...] = ()
    body_pos: Optional[np.ndarray] = None
    """[F, B, 3] in the world; without ``body_quat``, in the frame of the root."""
    body_quat: Optional[np.ndarray] = None
    """[F, B, 4] in an unknown order."""
    rest_aligned: bool = False
    """Whether frames of bodies may be parallel to the world in the zero pose, whatever they are in the model."""
    usual: str = ""
    """What the format documents, for messages, such as "--quaternion xyzw"."""

    def __post_init__(self) -> None:
        sizes = {}
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(value, np.ndarray):
                if value.dtype.kind not in "iuf":
                    raise ValueError(f"{self.name}: {field.name} holds {value.dtype}; numbers are needed")
                object.__setattr__(self, field.name, value.astype(np.float64))
                sizes[field.name] = len(value)
        if len(set(sizes.values())) > 1:
            listed = ", ".join(f"{count} of {name}" for name, count in sizes.items())
            raise ValueError(f"{self.name}: numbers of frames differ ({listed}); the file is damaged")
        count = min(sizes.values(), default=0)
        if not 2 <= count <= MOST_FRAMES:
            raise ValueError(f"{self.name} has {count} frames; give 2 to {MOST_FRAMES:,}")


def plain_name(name: str) -> str:
    """Return a name of a joint or body without what differs between formats: case, and the words joint, link, dof."""
    words = [word for word in re.split(r"[^a-z0-9]+", name.lower()) if word not in ("joint", "link", "dof", "")]
    return "_".join(words)


def columns_of_names(names: Sequence[str], wanted: Sequence[str]) -> Optional[Tuple[int, ...]]:
    """Return the column of each wanted name among the names of a file, None if one is missing or doubtful."""
    plain = [plain_name(name) for name in names]
    if len(set(plain)) < len(plain):
        return None
    own = [plain_name(name) for name in wanted]
    return tuple(plain.index(name) for name in own) if set(own) <= set(plain) else None
