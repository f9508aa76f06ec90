"""Arrays of MuJoCo's qpos: position, quaternion w x y z and joint angles of a frame in each row, in .npy or .npz.

A .npz has the array under the name qpos, and may have fps and joint_names.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any, Dict

import numpy as np

from rsl_rl.motion.clip import LARGEST, read_arrays
from rsl_rl.motion.importers.source import Given, Source
from rsl_rl.utils.files import read_file

USUAL = "--quaternion wxyz --length m --angles rad"


def read(path: Path, given: Given) -> Source:
    """Return what a file says."""
    if path.suffix.lower() == ".npz":
        return from_arrays(path, read_arrays(path))
    content = read_file(path, LARGEST)
    try:
        return from_arrays(path, {"qpos": np.load(io.BytesIO(content), allow_pickle=False)})
    except (EOFError, OSError, SyntaxError, MemoryError) as error:
        raise ValueError(f"{path} is not a .npy file, or it is damaged ({error})") from error
    except ValueError as error:
        raise ValueError(str(error) if str(path) in str(error) else f"{path} cannot be read: {error}") from error


def from_arrays(path: Path, arrays: Dict[str, np.ndarray]) -> Source:
    """Return what arrays say."""
    qpos: Any = arrays.get("qpos")
    if not isinstance(qpos, np.ndarray) or qpos.ndim != 2 or qpos.shape[1] < 8:
        shape = "nothing" if qpos is None else list(qpos.shape)
        raise ValueError(f"{path} has {shape} as qpos; give [frames, 7 + joints]")
    names = tuple(map(str, arrays.get("joint_names", ())))
    return Source(path.name, rate_of(path, arrays), qpos[:, :3], qpos[:, 3:7], None, qpos[:, 7:], names, usual=USUAL)


def rate_of(path: Path, content: Dict[str, Any]) -> float | None:
    """Return the frame rate of a file, None if it does not say it."""
    if content.get("fps") is None:
        return None
    try:
        rate = float(np.asarray(content["fps"], dtype=np.float64).reshape(-1)[0])
    except (TypeError, ValueError, IndexError) as error:
        raise ValueError(f"{path}: fps is {content['fps']!r}; a number is needed") from error
    if not 1 <= rate <= 10_000:
        raise ValueError(f"{path}: fps is {rate:g}; give --fps with the right one")
    return rate
