"""Read motions of other programs: formats by name, each in a file of its own."""

from __future__ import annotations

import importlib
from dataclasses import replace
from pathlib import Path
from typing import Dict, List, NamedTuple, Optional, Tuple

import numpy as np
import torch

from rsl_rl.motion.clip import Clip, load_clip, read_arrays
from rsl_rl.motion.importers.bodies import Posed, match_places, match_poses
from rsl_rl.motion.importers.evidence import decide, note_on_legs
from rsl_rl.motion.importers.orders import ask_for_joints, columns_of
from rsl_rl.motion.importers.source import ConventionError, Given, OtherBodiesError, Source
from rsl_rl.motion.kinematics import Kinematics, build_clip
from rsl_rl.motion.legs import legs_of
from rsl_rl.robots import Robot
from rsl_rl.utils.registry import suggest

FORMATS: Dict[str, str] = {
    "unitree_csv": "CSV without header, as of Unitree's LAFAN1 motions",
    "bones_csv": "CSV with a header, centimetres, degrees and Euler angles, as of BONES-SEED",
    "mjlab_npz": "NPZ of mjlab and BeyondMimic",
    "pickles": "pickles of GMR and of motion_lib, read without running their code",
    "bvh": "BVH with the skeleton of the robot",
    "qpos": "arrays of MuJoCo's qpos in .npy or .npz",
}
"""Formats by the name of their module in this package."""

_SUFFIXES = {
    ".npy": "qpos",
    ".bvh": "bvh",
    ".pkl": "pickles",
    ".pickle": "pickles",
    ".p": "pickles",
    ".joblib": "pickles",
}


class Imported(NamedTuple):
    """A clip with what was found out about its file."""

    clip: Clip
    notes: Tuple[str, ...]


def read_motion(path: Path, robot: Robot, given: Given, kind: str = "") -> Imported:
    """Read a motion of a robot from a file, in a format of FORMATS or in the one that the file shows.

    Conventions that the file does not show are a ConventionError that names the flag to give.
    """
    kind = kind or format_of(path)
    if kind == "clip":
        clip = load_clip(path)
        Kinematics(robot).require(clip)
        return Imported(clip, ())
    if kind not in FORMATS:
        raise ValueError(f"unknown format '{kind}'; known: {', '.join(FORMATS)}.{suggest(kind, FORMATS)}")
    source = importlib.import_module(f"rsl_rl.motion.importers.{kind}").read(path, given)
    return interpret(source, robot, given)


def format_of(path: Path) -> str:
    """Return the format of a file by its suffix and its content; "clip" for a clip of rsl_rl."""
    suffix = path.suffix.lower()
    if suffix in (".csv", ".txt"):
        from rsl_rl.motion.importers import bones_csv, text_table

        return "bones_csv" if bones_csv.is_one(text_table.read_table(path)) else "unitree_csv"
    if suffix == ".npz":
        arrays = read_arrays(path)
        return "clip" if "format" in arrays else "qpos" if "qpos" in arrays else "mjlab_npz"
    if suffix not in _SUFFIXES:
        raise ValueError(f"{path} has the suffix '{suffix}'; name its format with --format: {', '.join(FORMATS)}")
    return _SUFFIXES[suffix]


def interpret(source: Source, robot: Robot, given: Given) -> Imported:
    """Return the motion of a file for a robot, by evidence and by what is given."""
    kinematics, legs = Kinematics(robot), legs_of(robot)
    whole, bad = _without_gaps(source)
    fps = given.fps or source.fps
    posed: Optional[Posed] = None
    first: List[str] = []
    if whole.body_quat is not None:
        try:
            posed = match_poses(whole, kinematics, legs, given)
        except OtherBodiesError:
            if not given.joints or whole.joints is None:
                raise
            whole, first = _first_body(whole), ["its bodies are not the robot's links: only the first one is read"]
    if posed is not None:
        pos, quat, joint_pos, notes = posed.root_pos, posed.root_quat, posed.joint_pos, list(posed.notes)
    else:
        orders, notes = columns_of(whole, given, kinematics)
        notes = first + notes
        if not orders and source.body_pos is not None:
            orders = match_places(whole, kinematics)
        if not orders:
            raise ask_for_joints(whole, kinematics)
        if fps is None:
            raise _ask_for_rate(source)
        reading = decide(whole, orders, given, kinematics, legs, fps)
        pos, quat, joint_pos = reading.root_pos, reading.root_quat, reading.joint_pos
        columns = orders[int(reading.conventions["joints"])]
        shown = {flag: value for flag, value in reading.conventions.items() if flag != "joints"}
        notes.append(", ".join(f"{flag} {value}" for flag, value in shown.items()))
        signed = [f"{'-' if sign < 0 else ''}{index}" for index, sign in zip(columns.index, columns.sign)]
        if signed != [str(i) for i in range(len(signed))]:
            notes.append(f"columns of the joints in the order of the model: {', '.join(signed)}")
        notes += [f"doubtful: {_DOUBTS[kind]}" for kind, value in reading.faults.items() if value > 1]
        if given.joints:
            note = note_on_legs(whole, columns, reading, given, kinematics, legs, fps)
            notes += [note] if note else []
    if fps is None:
        raise _ask_for_rate(source)
    gaps = torch.as_tensor(bad)
    for values in (pos, quat, joint_pos):
        values[gaps] = torch.nan
    name = given.motion or Path(source.name).stem
    return Imported(build_clip(kinematics, pos, quat, joint_pos, fps, name), tuple(notes))


def _first_body(source: Source) -> Source:
    """Return a source with the first body as the root, and without bodies."""
    assert source.body_pos is not None and source.body_quat is not None
    root = {"root_pos": source.body_pos[:, 0], "root_quat": source.body_quat[:, 0]}
    return replace(source, **root, body_pos=None, body_quat=None)


_DOUBTS = {
    "slip": "the feet slide while they stand",
    "gap": "the lowest foot is not on the floor at height 0",
    "tilt": "the trunk is far from upright",
    "limits": "joint angles are beyond the limits",
}


def _ask_for_rate(source: Source) -> ConventionError:
    usual = f" ({source.usual} is usual for this format)" if "--fps" in source.usual else ""
    return ConventionError(f"{source.name} does not say its frame rate: add --fps{usual}")


def _without_gaps(source: Source) -> Tuple[Source, np.ndarray]:
    """Return a source with frames without numbers replaced by the ones before them, and a mask [F] of these.

    A frame has none if a value is not finite, or the length of a quaternion is far from 1.
    """
    arrays: List[str] = [
        name
        for name in ("root_pos", "root_quat", "root_euler", "joints", "body_pos", "body_quat")
        if getattr(source, name) is not None
    ]
    count = len(getattr(source, arrays[0]))
    good = np.ones(count, dtype=bool)
    for name in arrays:
        values = getattr(source, name)
        good &= np.isfinite(values.reshape(count, -1)).all(axis=1)
        if name.endswith("quat"):
            length = np.linalg.norm(np.nan_to_num(values), axis=-1)
            good &= (np.abs(length - 1) < 0.1).reshape(count, -1).all(axis=1)
    if good.all():
        return source, ~good
    rows = np.flatnonzero(good)
    if len(rows) < 2:
        raise ValueError(
            f"{source.name} has {len(rows)} frames with finite numbers and quaternions of length 1; give at least 2"
        )
    nearest = rows[np.clip(np.searchsorted(rows, np.arange(count), side="right") - 1, 0, len(rows) - 1)]
    return replace(source, **{name: getattr(source, name)[nearest] for name in arrays}), ~good
