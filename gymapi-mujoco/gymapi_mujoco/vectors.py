"""Vectors, quaternions (x y z w) and transforms of ``gymapi``."""

from __future__ import annotations

import math
from typing import Any, ClassVar, Optional, Tuple

import numpy as np

from gymapi_mujoco.structs import Struct, to_float


class Vec2(Struct):
    dtype: ClassVar[np.dtype] = np.dtype([("x", "<f4"), ("y", "<f4")])
    x: float = 0.0
    y: float = 0.0

    def __init__(self, x: float = 0.0, y: float = 0.0) -> None:
        self.__dict__.update(x=to_float(x), y=to_float(y))


class Vec3(Struct):
    dtype: ClassVar[np.dtype] = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4")])
    x: float = 0.0
    y: float = 0.0
    z: float = 0.0

    def __init__(self, x: float = 0.0, y: float = 0.0, z: float = 0.0) -> None:
        self.__dict__.update(x=to_float(x), y=to_float(y), z=to_float(z))

    def __add__(self, other: Vec3) -> Vec3:
        return Vec3(self.x + other.x, self.y + other.y, self.z + other.z)

    def __sub__(self, other: Vec3) -> Vec3:
        return Vec3(self.x - other.x, self.y - other.y, self.z - other.z)

    def __mul__(self, factor: float) -> Vec3:
        return Vec3(self.x * factor, self.y * factor, self.z * factor)

    def __truediv__(self, divisor: float) -> Vec3:
        return Vec3(self.x / divisor, self.y / divisor, self.z / divisor)

    def __neg__(self) -> Vec3:
        return self * -1.0

    def dot(self, other: Vec3) -> float:
        return self.x * other.x + self.y * other.y + self.z * other.z

    def cross(self, other: Vec3) -> Vec3:
        return Vec3(*np.cross(as_array(self), as_array(other)))

    def length_sq(self) -> float:
        return self.dot(self)

    def length(self) -> float:
        return math.sqrt(self.length_sq())

    def normalize(self) -> Vec3:
        return self / self.length()

    @staticmethod
    def from_buffer(buffer: Any) -> np.ndarray:
        return np.frombuffer(buffer, dtype=Vec3.dtype)


class Quat(Struct):
    """A rotation; the product ``a * b`` rotates by b, then by a."""

    dtype: ClassVar[np.dtype] = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("w", "<f4")])
    x: float = 0.0
    y: float = 0.0
    z: float = 0.0
    w: float = 1.0

    def __init__(self, x: float = 0.0, y: float = 0.0, z: float = 0.0, w: float = 1.0) -> None:
        self.__dict__.update(x=to_float(x), y=to_float(y), z=to_float(z), w=to_float(w))

    def __mul__(self, other: Quat) -> Quat:
        return from_wxyz(multiply(to_wxyz(self), to_wxyz(other)))

    def inverse(self) -> Quat:
        return Quat(-self.x, -self.y, -self.z, self.w)

    def normalize(self) -> Quat:
        return from_wxyz(to_wxyz(self) / np.linalg.norm(to_wxyz(self)))

    def rotate(self, vector: Vec3) -> Vec3:
        return Vec3(*(rotation_matrix(to_wxyz(self)) @ as_array(vector)))

    def to_euler_zyx(self) -> Tuple[float, float, float]:
        """Return roll, pitch and yaw [rad]: rotations about x, then y, then z of the fixed frame."""
        matrix = rotation_matrix(to_wxyz(self))
        pitch = math.asin(max(-1.0, min(1.0, -matrix[2, 0])))
        return math.atan2(matrix[2, 1], matrix[2, 2]), pitch, math.atan2(matrix[1, 0], matrix[0, 0])

    @staticmethod
    def from_euler_zyx(roll: float, pitch: float, yaw: float) -> Quat:
        return from_wxyz(euler_to_wxyz(roll, pitch, yaw))

    @staticmethod
    def from_axis_angle(axis: Vec3, angle: float) -> Quat:
        unit = as_array(axis) / np.linalg.norm(as_array(axis))
        return from_wxyz(np.concatenate(([math.cos(angle / 2)], math.sin(angle / 2) * unit)))

    @staticmethod
    def from_buffer(buffer: Any) -> np.ndarray:
        return np.frombuffer(buffer, dtype=Quat.dtype)


class Transform(Struct):
    """A rotation ``r``, then a translation ``p``; the product ``a * b`` transforms by b, then by a."""

    dtype: ClassVar[np.dtype] = np.dtype([("p", Vec3.dtype), ("r", Quat.dtype)])
    p: Vec3 = Vec3()
    r: Quat = Quat()

    def __init__(self, p: Optional[Vec3] = None, r: Optional[Quat] = None) -> None:
        self.p = p if p is not None else Vec3()
        self.r = r if r is not None else Quat()

    def __mul__(self, other: Transform) -> Transform:
        return Transform(self.transform_point(other.p), self.r * other.r)

    def inverse(self) -> Transform:
        back = self.r.inverse()
        return Transform(-back.rotate(self.p), back)

    def transform_point(self, point: Vec3) -> Vec3:
        return self.r.rotate(point) + self.p

    def transform_vector(self, vector: Vec3) -> Vec3:
        return self.r.rotate(vector)

    def transform_points(self, points: np.ndarray) -> np.ndarray:
        """Return an array of ``Vec3.dtype``, transformed."""
        return self._rotated(points, as_array(self.p))

    def transform_vectors(self, vectors: np.ndarray) -> np.ndarray:
        return self._rotated(vectors, np.zeros(3))

    def _rotated(self, values: np.ndarray, offset: np.ndarray) -> np.ndarray:
        values = np.asarray(values, dtype=Vec3.dtype)
        rows = np.stack([values["x"], values["y"], values["z"]], axis=-1)
        rows = rows @ rotation_matrix(to_wxyz(self.r)).T + offset
        out: Any = np.empty(values.shape, Vec3.dtype)
        for i, name in enumerate("xyz"):
            out[name] = rows[..., i]
        return out

    @staticmethod
    def from_buffer(buffer: Any) -> np.ndarray:
        return np.frombuffer(buffer, dtype=Transform.dtype)


class Mat33(Struct):
    """Three rows."""

    x: Vec3 = Vec3()
    y: Vec3 = Vec3()
    z: Vec3 = Vec3()

    def __init__(self) -> None:
        self.__dict__.update(x=Vec3(), y=Vec3(), z=Vec3())


class Mat44(Struct):
    x: Quat = Quat(0, 0, 0, 0)
    y: Quat = Quat(0, 0, 0, 0)
    z: Quat = Quat(0, 0, 0, 0)
    w: Quat = Quat(0, 0, 0, 0)


def as_array(vector: Vec3) -> np.ndarray:
    """Return x, y, z as float64 [3]."""
    return np.array([vector.x, vector.y, vector.z])


def to_wxyz(quat: Quat) -> np.ndarray:
    """Return a quaternion in MuJoCo's order [4]."""
    return np.array([quat.w, quat.x, quat.y, quat.z])


def from_wxyz(quat: np.ndarray) -> Quat:
    return Quat(quat[1], quat[2], quat[3], quat[0])


def multiply(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the product of quaternions w x y z [4]: first b, then a."""
    w = a[0] * b[0] - a[1:] @ b[1:]
    return np.concatenate(([w], a[0] * b[1:] + b[0] * a[1:] + np.cross(a[1:], b[1:])))


def euler_to_wxyz(roll: float, pitch: float, yaw: float) -> np.ndarray:
    """Return rotations about x, then y, then z of the fixed frame (URDF's rpy) as a quaternion w x y z."""
    result = np.array([1.0, 0.0, 0.0, 0.0])
    for axis, angle in enumerate((roll, pitch, yaw)):
        turn = np.array([math.cos(angle / 2), 0.0, 0.0, 0.0])
        turn[1 + axis] = math.sin(angle / 2)
        result = multiply(turn, result)
    return result


def rotation_matrix(quat: np.ndarray) -> np.ndarray:
    """Return the matrices [..., 3, 3] of unit quaternions w x y z [..., 4]."""
    w, x, y, z = np.moveaxis(quat, -1, 0)
    rows = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
        [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
        [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)
