"""BVH files with the skeleton of a robot, read with the package pybvh (extra "motion").

A joint of BVH is a body with three angles. Its frame is parallel to the world when all angles are zero.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Dict, List

import numpy as np
import torch
from pybvh import read_bvh_file

from rsl_rl.motion.clip import LARGEST
from rsl_rl.motion.importers.source import Given, Source
from rsl_rl.motion.rotations import multiply, rotate
from rsl_rl.utils.files import read_file


def read(path: Path, given: Given) -> Source:
    """Return what a file says: poses of bodies by forward kinematics of its skeleton."""
    read_file(path, LARGEST)  # says what is wrong with a file that is missing or too large
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            motion = read_bvh_file(path, world_up="+y")
            root_pos, quats = motion.to_quat()
    except (ValueError, IndexError, KeyError, TypeError, UnicodeDecodeError, RecursionError, AttributeError) as error:
        raise ValueError(f"{path} is not a BVH file, or it is damaged ({error})") from error
    quat, pos = torch.as_tensor(np.asarray(quats, dtype=np.float64)), torch.as_tensor(np.asarray(root_pos, dtype=float))
    places: Dict[str, torch.Tensor] = {}
    turns: Dict[str, torch.Tensor] = {}
    names: List[str] = []
    joint = 0
    for node in motion.nodes:
        if node.is_end_site():
            continue
        own = quat[:, joint]
        joint += 1
        if node.parent is None:
            places[node.name], turns[node.name] = pos, own
        else:
            before = turns[node.parent.name]
            arm = rotate(before, torch.as_tensor(node.offset).expand(len(before), 3))
            places[node.name], turns[node.name] = places[node.parent.name] + arm, multiply(before, own)
        names.append(node.name)
    return Source(
        path.name,
        float(motion.fps),
        body_pos=torch.stack([places[name] for name in names], dim=1).numpy(),
        body_quat=torch.stack([turns[name] for name in names], dim=1).numpy(),
        rest_aligned=True,
    )
