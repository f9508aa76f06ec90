"""CSV files as of BONES-SEED: a header that names the joints, centimetres, degrees and Euler angles of the root.

ProtoMotions documents extrinsic x y z angles, 120 frames a second, and columns Frame, root_translateX to Z,
root_rotateX to Z and <joint>_dof.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from rsl_rl.motion.importers.source import Given, Source
from rsl_rl.motion.importers.text_table import Table, read_table

USUAL = "--euler xyz --length cm --angles deg --fps 120"

_PLACE = [f"root_translate{axis}" for axis in "XYZ"]
_TURN = [f"root_rotate{axis}" for axis in "XYZ"]


def is_one(table: Table) -> bool:
    """Return whether a table has the columns of this format."""
    return set(_PLACE + _TURN) <= set(table.header)


def read(path: Path, given: Given) -> Source:
    """Return what a file says."""
    return from_table(path, read_table(path))


def from_table(path: Path, table: Table) -> Source:
    """Return what a table says."""
    missing = [name for name in _PLACE + _TURN if name not in table.header]
    if missing:
        raise ValueError(f"{path} has no columns {', '.join(missing)}; name the format of the file with --format")
    if len(set(table.header)) < len(table.header):
        raise ValueError(f"{path} has two columns with one name; correct its header")

    def columns(names: list[str]) -> np.ndarray:
        return table.values[:, [table.header.index(name) for name in names]]

    joints = [name for name in table.header if name not in (*_PLACE, *_TURN) and name.lower() not in ("frame", "time")]
    if not joints:
        raise ValueError(f"{path} has no columns of joints")
    return Source(path.name, None, columns(_PLACE), None, columns(_TURN), columns(joints), tuple(joints), usual=USUAL)
