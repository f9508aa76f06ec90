"""Pickles of GMR and of the motion_lib family (PHC, ASAP, HumanoidVerse), read without running their code.

GMR documents fps, root_pos, root_rot as x y z w, dof_pos, local_body_pos and link_body_list. motion_lib files hold one
or more motions by name, each with root_trans_offset, root_rot as x y z w, dof, pose_aa and fps.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Mapping, Optional, Tuple

import numpy as np

from rsl_rl.motion.importers.qpos import rate_of
from rsl_rl.motion.importers.safe_pickle import load
from rsl_rl.motion.importers.source import Given, Source
from rsl_rl.utils.registry import suggest

USUAL = "--quaternion xyzw --length m --angles rad"

_KEYS = {
    "root_pos": ("root_pos", "root_trans_offset", "root_trans"),
    "root_rot": ("root_rot", "root_quat"),
    "joints": ("dof_pos", "dof"),
}
"""Names of a field in the formats of the family."""


def read(path: Path, given: Given) -> Source:
    """Return what a file says; with several motions, about the one that is given."""
    content = load(path)
    if not isinstance(content, Mapping):
        raise ValueError(
            f"{path} holds a {type(content).__name__}; a dict with root_pos, root_rot and dof_pos is needed"
        )
    name, motion = _choose(path, content, given.motion)
    found = {field: _array(path, motion, keys) for field, keys in _KEYS.items()}
    bodies = motion.get("local_body_pos")
    pos = np.asarray(bodies) if isinstance(bodies, np.ndarray) and bodies.ndim == 3 and bodies.shape[1] else None
    return Source(
        name,
        rate_of(path, dict(motion)),
        found["root_pos"],
        found["root_rot"],
        None,
        found["joints"],
        _names(motion, ("dof_names", "joint_names")),
        body_pos=pos,
        usual=USUAL,
    )


def _choose(path: Path, content: Mapping[Any, Any], wanted: str) -> Tuple[str, Mapping[Any, Any]]:
    if any(key in content for keys in _KEYS.values() for key in keys):
        return path.name, content
    motions = {str(name): value for name, value in content.items() if isinstance(value, Mapping)}
    if wanted and wanted not in motions:
        raise ValueError(f"{path} has no motion '{wanted}'; it has {_some(motions)}.{suggest(wanted, motions)}")
    if not motions:
        raise ValueError(f"{path} has {_some(content)}; root_pos, root_rot and dof_pos, or motions by name are needed")
    if len(motions) > 1 and not wanted:
        raise ValueError(f"{path} has {len(motions)} motions: add --motion with one of {_some(motions)}")
    name = wanted or next(iter(motions))
    return f"{path.name} ({name})", motions[name]


def _some(names: Mapping[Any, Any]) -> str:
    listed = [str(name) for name in names][:8]
    return ", ".join(listed) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def _array(path: Path, motion: Mapping[Any, Any], keys: Tuple[str, ...]) -> np.ndarray:
    for key in keys:
        if key in motion:
            try:
                value = np.asarray(motion[key])
                value = value.reshape(len(value), -1) if value.ndim > 2 else value
            except (TypeError, ValueError) as error:
                raise ValueError(f"{path}: {key} is not an array ({error})") from error
            sizes: Dict[str, Optional[int]] = {"root_pos": 3, "root_rot": 4}
            width = next((sizes[field] for field, own in _KEYS.items() if key in own and field in sizes), None)
            if value.ndim != 2 or (width is not None and value.shape[1] != width):
                raise ValueError(f"{path}: {key} has the shape {list(value.shape)}; give [frames, {width or 'joints'}]")
            return value
    raise ValueError(f"{path} has no {' or '.join(keys)}; it has {_some(motion)}")


def _names(motion: Mapping[Any, Any], keys: Tuple[str, ...]) -> Tuple[str, ...]:
    for key in keys:
        value = motion.get(key)
        if isinstance(value, (list, tuple, np.ndarray)) and len(value):
            return tuple(map(str, value))
    return ()
