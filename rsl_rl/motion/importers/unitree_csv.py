"""CSV files as of Unitree's retargeted LAFAN1 motions: position, quaternion and joint angles of a frame in each row.

The data set documents metres, radians, x y z w, and 30 frames a second; files have no header and name no joints.
"""

from __future__ import annotations

from pathlib import Path

from rsl_rl.motion.importers.source import Given, Source
from rsl_rl.motion.importers.text_table import Table, read_table

USUAL = "--quaternion xyzw --length m --angles rad --fps 30"


def read(path: Path, given: Given) -> Source:
    """Return what a file says."""
    return from_table(path, read_table(path))


def from_table(path: Path, table: Table) -> Source:
    """Return what a table says; a header names the joints from the eighth column on."""
    if table.values.shape[1] < 8:
        raise ValueError(
            f"{path} has {table.values.shape[1]} columns; 3 for the position, 4 for the quaternion and one for each "
            "joint are needed"
        )
    root_pos, root_quat, joints = table.values[:, :3], table.values[:, 3:7], table.values[:, 7:]
    names = tuple(table.header[7:])
    return Source(path.name, None, root_pos, root_quat, None, joints, names, usual=USUAL)
