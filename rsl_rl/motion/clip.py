"""Reference motions: a clip in memory and in a file, and several clips on a device with batched lookup."""

from __future__ import annotations

import io
import math
import zipfile
import zlib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple, Union

import numpy as np
import torch
from torch import Tensor

from rsl_rl.motion.rotations import continuous, multiply, slerp, turn_between, turned
from rsl_rl.utils.files import atomic_write, read_file
from rsl_rl.utils.tensors import from_yaw

FORMAT = 1
"""Version of the file format."""

LARGEST = 500_000_000
"""Size of the largest file that is read [bytes]; also of its content without compression."""


@dataclass(frozen=True)
class Clip:
    """A motion of one robot in frames at a constant rate, with the poses and velocities of all its bodies.

    A clip that loops ends with a frame that is its first one, moved over the floor and turned about the vertical.
    """

    name: str
    fps: float
    """Frames per second [Hz]."""
    joint_names: Tuple[str, ...]
    link_names: Tuple[str, ...]
    """Bodies of the robot's model in the model's order, the trunk first."""
    joint_pos: Tensor
    """[F, J] rad."""
    joint_vel: Tensor
    """[F, J] rad/s."""
    link_pos: Tensor
    """[F, L, 3] m, origins of the bodies in the world."""
    link_quat: Tensor
    """[F, L, 4] w x y z, body to world."""
    link_vel: Tensor
    """[F, L, 3] m/s, world, of the bodies' origins."""
    link_ang_vel: Tensor
    """[F, L, 3] rad/s, world."""
    loop: bool = False

    def __post_init__(self) -> None:
        frames, joints, links = len(self.joint_pos), len(self.joint_names), len(self.link_names)
        shapes = {
            "joint_pos": (frames, joints),
            "joint_vel": (frames, joints),
            "link_pos": (frames, links, 3),
            "link_quat": (frames, links, 4),
            "link_vel": (frames, links, 3),
            "link_ang_vel": (frames, links, 3),
        }
        for name, shape in shapes.items():
            if tuple(getattr(self, name).shape) != shape:
                raise ValueError(f"{name} of the clip '{self.name}' has {list(getattr(self, name).shape)}, not {shape}")
        if frames < 2 or not links:
            raise ValueError(f"the clip '{self.name}' has {frames} frames of {links} bodies; give at least 2 of 1")
        if not (math.isfinite(self.fps) and self.fps > 0):
            raise ValueError(f"fps of the clip '{self.name}' is {self.fps}; give a positive number")

    @property
    def num_frames(self) -> int:
        """Return the number of frames F."""
        return len(self.joint_pos)

    @property
    def length(self) -> float:
        """Return the time from the first frame to the last one [s]; of a loop, the time of a round."""
        return (self.num_frames - 1) / self.fps

    @property
    def root_pos(self) -> Tensor:
        """Return the positions of the trunk [F, 3] m."""
        return self.link_pos[:, 0]

    @property
    def root_quat(self) -> Tensor:
        """Return the rotations of the trunk [F, 4] w x y z."""
        return self.link_quat[:, 0]


_ARRAYS = ("joint_pos", "joint_vel", "link_pos", "link_quat", "link_vel", "link_ang_vel")


def save_clip(clip: Clip, path: Union[str, Path]) -> None:
    """Write a clip to a .npz file, whose arrays have the names of the fields of Clip."""
    arrays: Dict[str, Any] = {name: getattr(clip, name).numpy().astype(np.float32) for name in _ARRAYS}
    names = {name: np.array(getattr(clip, name), dtype=np.str_) for name in ("joint_names", "link_names")}
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer,
        format=np.array(f"rsl_rl clip {FORMAT}"),
        name=np.array(clip.name),
        fps=np.array(float(clip.fps)),
        loop=np.array(clip.loop),
        **names,
        **arrays,
    )
    atomic_write(Path(path), buffer.getvalue())


def load_clip(path: Union[str, Path]) -> Clip:
    """Read a clip that :func:`save_clip` wrote; anything else is a ValueError of one line."""
    path = Path(path)
    arrays = read_arrays(path)
    version = str(arrays.get("format", ""))
    if not version.startswith("rsl_rl clip "):
        raise ValueError(
            f"{path} is not a clip of rsl_rl; read it with `rsl-rl motion import {path.name} --robot NAME`"
        )
    if version != f"rsl_rl clip {FORMAT}":
        raise ValueError(f"{path} has the format '{version}', and this version reads 'rsl_rl clip {FORMAT}'; update")
    missing = [field.name for field in fields(Clip) if field.name not in arrays]
    if missing:
        raise ValueError(f"{path} has no {', '.join(missing)}; write it again with `rsl-rl motion`")
    try:
        values = {name: torch.from_numpy(arrays[name].astype(np.float32)) for name in _ARRAYS}
        return Clip(
            name=str(arrays["name"]),
            fps=float(arrays["fps"]),
            loop=bool(arrays["loop"]),
            joint_names=tuple(map(str, arrays["joint_names"])),
            link_names=tuple(map(str, arrays["link_names"])),
            **values,
        )
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path}: {error}") from error


def read_arrays(path: Path) -> Dict[str, np.ndarray]:
    """Return the arrays of a .npz file; objects in it, a damaged file, and one too large are ValueErrors."""
    content = read_file(path, LARGEST)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(item.file_size for item in archive.infolist())
        if size > LARGEST:
            raise ValueError(f"{path} unpacks to {size / 1e6:.0f} MB; such a file may have {LARGEST / 1e6:.0f} MB")
        with np.load(io.BytesIO(content), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        others = [name for name, array in arrays.items() if not isinstance(array, np.ndarray)]
        if others:
            raise ValueError(f"{path} holds '{others[0]}', which is not an array")
        return arrays
    except (
        zipfile.BadZipFile,
        zlib.error,
        EOFError,
        OSError,
        KeyError,
        RuntimeError,
        SyntaxError,
        MemoryError,
    ) as error:
        raise ValueError(f"{path} is not a .npz file, or it is damaged ({error})") from error
    except ValueError as error:
        raise ValueError(str(error) if str(path) in str(error) else f"{path} cannot be read: {error}") from error


class Frame(NamedTuple):
    """Moments of N clips."""

    joint_pos: Tensor  # [N, J] rad
    joint_vel: Tensor  # [N, J] rad/s
    link_pos: Tensor  # [N, L, 3] m, world
    link_quat: Tensor  # [N, L, 4] w x y z, body to world
    link_vel: Tensor  # [N, L, 3] m/s, world
    link_ang_vel: Tensor  # [N, L, 3] rad/s, world


class ClipSet:
    """Several clips of one robot on a device. Lookup does not synchronise with the host."""

    def __init__(self, clips: Sequence[Clip], device: Union[str, torch.device]):
        if not clips:
            raise ValueError("no clip is given; name at least one")
        first = clips[0]
        for clip in clips:
            if (clip.joint_names, clip.link_names) != (first.joint_names, first.link_names):
                raise ValueError(
                    f"the clips '{first.name}' and '{clip.name}' are of different robots; give those of one"
                )
        self.names = tuple(clip.name for clip in clips)
        self.joint_names, self.link_names = first.joint_names, first.link_names
        self.num_frames: Tuple[int, ...] = tuple(clip.num_frames for clip in clips)
        parts: List[Tensor] = []
        quats: List[Tensor] = []
        for clip in clips:
            rest = (clip.joint_pos, clip.joint_vel, clip.link_pos, clip.link_vel, clip.link_ang_vel)
            parts.append(torch.cat([x.flatten(1) for x in rest], dim=1))
            quats.append(continuous(clip.link_quat))
        joints, links = len(self.joint_names), len(self.link_names)
        self._sizes = [joints, joints, 3 * links, 3 * links, 3 * links]
        self._rows = torch.cat(parts).float().to(device)  # [sum of F, 2 J + 9 L]
        self._quats = torch.cat(quats).float().to(device)  # [sum of F, L, 4]
        self.fps = torch.tensor([clip.fps for clip in clips]).to(device)  # [M]
        self.lengths = torch.tensor([clip.length for clip in clips]).to(device)  # [M] s
        self.loops = torch.tensor([clip.loop for clip in clips]).to(device)  # [M]
        frames = torch.tensor(self.num_frames)
        self._last = (frames - 2).to(device)  # [M] of the intervals between frames
        self._start = (frames.cumsum(0) - frames).to(device)  # [M] row of the first frame
        turns = torch.stack([turn_between(clip.root_quat[0], clip.root_quat[-1]) for clip in clips])
        self._turn = turns.to(device)  # [M] rad about the vertical in a round
        ends = torch.stack([clip.root_pos[[0, -1], :2] for clip in clips])  # [M, 2, 2]
        # a point x of a round is at R x + shift in the next one
        self._shift = (ends[:, 1] - turned(ends[:, 0], turns)).to(device)  # [M, 2]

    def at(self, clip: Tensor, time: Tensor) -> Frame:
        """Return the moments at times [N] s of clips [N] int64.

        Positions and velocities are interpolated linearly, rotations by slerp. Times before the start are the start,
        and times after the end are the end, both at rest; a loop goes on from where it ended.
        """
        length, loops = self.lengths[clip], self.loops[clip]
        rounds = torch.where(loops, (time / length).floor().clamp(min=0), torch.zeros_like(time))
        place = (time - rounds * length).clamp(min=0) * self.fps[clip]  # in frames
        index = torch.minimum(place.long(), self._last[clip])
        share = (place - index).clamp(max=1.0)
        row = self._start[clip] + index
        before, after = self._rows[row], self._rows[row + 1]
        values = torch.lerp(before, after, share.unsqueeze(1))
        quat = slerp(self._quats[row], self._quats[row + 1], share.unsqueeze(1))
        joint_pos, joint_vel, pos, vel, ang_vel = values.split(self._sizes, dim=1)
        turn = self._turn[clip]
        angle = turn * rounds
        pos, vel, ang_vel = (x.unflatten(1, (-1, 3)) for x in (pos, vel, ang_vel))
        # sum of R^i shift for i < rounds: a geometric series of turns
        half = turn / 2
        small = half.abs() < 1e-6
        ratio = torch.where(
            small, rounds, (rounds * half).sin() / torch.where(small, torch.ones_like(half), half.sin())
        )
        moved = turned(self._shift[clip], (rounds - 1) * half) * ratio.unsqueeze(1)
        pos, vel, ang_vel = (_turned_3d(x, angle) for x in (pos, vel, ang_vel))
        pos = torch.cat((pos[..., :2] + moved.unsqueeze(1), pos[..., 2:]), dim=2)
        quat = multiply(from_yaw(angle).unsqueeze(1).expand_as(quat), quat)
        still = ~loops & ((time < 0) | (time > length))
        joint_vel = joint_vel.masked_fill(still.unsqueeze(1), 0.0)
        vel, ang_vel = (x.masked_fill(still[:, None, None], 0.0) for x in (vel, ang_vel))
        return Frame(joint_pos, joint_vel, pos, quat, vel, ang_vel)


def _turned_3d(vector: Tensor, angle: Tensor) -> Tensor:
    """Turn vectors [N, L, 3] about the vertical by angles [N]."""
    angle = angle.unsqueeze(1).expand(vector.shape[:2])
    return torch.cat((turned(vector[..., :2], angle), vector[..., 2:]), dim=-1)
