"""Pictures of a robot in several poses, rendered in a separate process."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import NamedTuple, Sequence, Tuple

import numpy as np

from rsl_rl.viz.video import Renderer, render


class Picture(NamedTuple):
    """One picture of a sheet."""

    pose: np.ndarray  # [7 + J] root position [m], quaternion w x y z, joint angles [rad]
    caption: str
    azimuth: float = 125.0  # direction of view [deg]; 180 looks at the robot from the front, 90 from the right
    elevation: float = -16.0  # [deg]


def write_pictures(
    path: Path, model_path: Path, pictures: Sequence[Picture], columns: int, size: Tuple[int, int] = (400, 320)
) -> None:
    """Write pictures as one PNG, ``columns`` in a row; a missing OpenGL driver is a VideoError."""
    with tempfile.TemporaryDirectory() as folder:
        recording = Path(folder) / "pictures.npz"
        np.savez(
            recording,
            model_path=str(model_path),
            poses=np.array([picture.pose for picture in pictures]),
            captions=[picture.caption for picture in pictures],
            views=np.array([(picture.azimuth, picture.elevation) for picture in pictures]),
            columns=columns,
            size=size,
        )
        render(Renderer(worker="rsl_rl.viz.picture_worker"), recording, path, len(pictures), "pictures")
