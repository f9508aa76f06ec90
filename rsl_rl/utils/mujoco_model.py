"""Load a robot's MJCF file with another ground."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Iterator, List, Optional, Tuple, Union

import mujoco
import numpy as np

from rsl_rl.utils.height_field import HeightField

FLOOR = "floor"
"""Name of the geom of the ground in the models."""

_BASE = 1.0
"""Thickness of the solid below the lowest point [m]."""


@contextlib.contextmanager
def without_log() -> Iterator[None]:
    """Stop MuJoCo from printing warnings and from writing a log file into the working directory."""
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(_ignore)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(before)


def _ignore(message: str) -> None:
    pass


def visual_file(path: Union[str, os.PathLike]) -> Path:
    """Return the name of the file beside a model that has its robot with meshes, for pictures."""
    return Path(path).with_name(f"{Path(path).stem}_visual.xml")


def file_to_draw(path: Union[str, os.PathLike]) -> Path:
    """Return the file of a model from which its robot is drawn: :func:`visual_file` if there is one, or the model."""
    file = visual_file(path)
    return file if file.is_file() else Path(path)


@without_log()
def load_model(path: Union[str, os.PathLike], ground: Optional[HeightField] = None) -> mujoco.MjModel:
    """Return the model of an MJCF file, whose geom "floor" becomes the given height field.

    The geom keeps its name and its material, so that contact pairs and sensors refer to it as before. A file that
    MuJoCo cannot load is a ValueError.
    """
    if ground is None:
        try:
            return mujoco.MjModel.from_xml_path(str(path))
        except ValueError as error:
            raise ValueError(f"{path} cannot be loaded: {error}") from error
    spec = mujoco.MjSpec.from_file(str(path))
    floor = spec.geom(FLOOR)
    if floor is None:
        raise ValueError(f"{path} has no geom named '{FLOOR}', which the terrain replaces; name its ground so")
    heights, (size, pos) = np.asarray(ground.heights, dtype=np.float64), height_field_size(ground)
    data = ((heights - pos[2]) / size[2]).astype(np.float32).T  # MuJoCo's rows are along y
    nx, ny = heights.shape
    spec.add_hfield(name=FLOOR, nrow=ny, ncol=nx, size=size, userdata=data.ravel())
    floor.type, floor.hfieldname, floor.pos = mujoco.mjtGeom.mjGEOM_HFIELD, FLOOR, pos
    model = spec.compile()
    model.vis.map.shadowclip *= 10  # beyond it, hills have black dots in pictures
    return model


def height_field_size(ground: HeightField) -> Tuple[List[float], List[float]]:
    """Return the size of the height field in MuJoCo: half length, half width, rise and thickness; and its position."""
    (length, width), low = ground.size, float(ground.heights.min())
    rise = max(float(ground.heights.max()) - low, 1e-3)  # MuJoCo needs a positive one
    return [length / 2, width / 2, rise, _BASE], [ground.origin[0] + length / 2, ground.origin[1] + width / 2, low]
