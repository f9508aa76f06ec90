"""Orders of joints that files do not name: that of the model, that of Isaac Lab, and those of public data."""

from __future__ import annotations

from typing import Dict, List, Sequence, Tuple

from rsl_rl.motion.importers.evidence import Columns
from rsl_rl.motion.importers.source import ConventionError, Given, Source, columns_of_names, plain_name
from rsl_rl.motion.kinematics import Kinematics
from rsl_rl.utils.registry import suggest

_LEG = ("hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll")
_ARM = ("shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow", "wrist_roll", "wrist_pitch", "wrist_yaw")

_WAIST = ("waist_yaw", "waist_roll", "waist_pitch")
_BOTH = ("left", "right")

PUBLIC: Dict[str, Tuple[str, ...]] = {
    "g1_29": (
        *(f"{side}_{joint}_joint" for side in _BOTH for joint in _LEG),
        *(f"{joint}_joint" for joint in _WAIST),
        *(f"{side}_{joint}_joint" for side in _BOTH for joint in _ARM),
    ),
    "g1_29_breadth": tuple(  # the shoulders hang on the torso, below the waist
        f"{joint}_joint"
        for level in range(10)
        for joint in (
            *(f"{side}_{_LEG[level]}" for side in _BOTH if level < 3),
            *(_WAIST[level] for _ in range(1) if level < 3),
            *(f"{side}_{_LEG[level]}" for side in _BOTH if 3 <= level < 6),
            *(f"{side}_{_ARM[level - 3]}" for side in _BOTH if level >= 3),
        )
    ),
}
"""Orders of the Unitree G1 with 29 joints in public data: that of MuJoCo, as in Unitree's LAFAN1 files, mjlab and
BONES-SEED, and that of Isaac Lab, as in BeyondMimic's files."""


def breadth_first(kinematics: Kinematics) -> Tuple[str, ...]:
    """Return the joints in the order of Isaac Lab: level by level of the tree of bodies, each in the model's order."""
    model = kinematics.model
    depth: Dict[int, int] = {}
    for number, parent in enumerate(kinematics.parents):
        depth[number] = depth.get(parent, -1) + 1
    level = {int(model.jnt_bodyid[joint]): name for joint, name in zip(kinematics.joints, kinematics.joint_names)}
    order = sorted(range(len(kinematics.bodies)), key=lambda number: (depth[number], number))
    return tuple(level[kinematics.bodies[number]] for number in order if kinematics.bodies[number] in level)


def columns_of(source: Source, given: Given, kinematics: Kinematics) -> Tuple[List[Columns], List[str]]:
    """Return the columns of the joints by the names of a file or those that are given, and notes on others.

    Without names the list is empty.
    """
    assert source.joints is not None
    count, own = source.joints.shape[1], kinematics.joint_names
    names: Sequence[str] = source.joint_names
    if given.joints:
        words = given.joints.replace(" ", "").split(",")
        named = {"model": own, "breadth": breadth_first(kinematics), **PUBLIC}
        names = named.get(given.joints, words)
        if names is words and len(words) == 1 and count > 1:
            raise ValueError(f"--joints is '{given.joints}'; give names with commas, or one of {', '.join(named)}")
    if not names:
        return [], []
    if len(names) != count:
        raise ValueError(
            f"{source.name} has {count} columns of joints, and {len(names)} names are known for them "
            f"({', '.join(names)}); give --joints with a name for each column, in their order"
        )
    columns = columns_of_names(names, own)
    if columns is None:
        plain = [plain_name(name) for name in names]
        missing = [name for name in own if plain.count(plain_name(name)) != 1]
        raise ConventionError(
            f"{source.name} names no joint, or two, for {', '.join(missing)}; give --joints with a name for each "
            f"column, in their order.{suggest(missing[0], names) if missing else ''}"
        )
    left = [i for i in range(count) if i not in columns]
    notes = []
    if left:
        ranges = source.joints[:, left].max(axis=0) - source.joints[:, left].min(axis=0)
        moving = [f"{names[i]} (moves by {moved:.2f})" for i, moved in zip(left, ranges)]
        notes.append(f"left out, because the robot does not have them: {', '.join(moving)}")
    return [Columns(columns, (1.0,) * len(columns))], notes


def ask_for_joints(source: Source, kinematics: Kinematics) -> ConventionError:
    """Return the error that asks for the order of joints."""
    assert source.joints is not None
    count, own = source.joints.shape[1], kinematics.joint_names
    if count != len(own):
        known = [name for name, names in PUBLIC.items() if len(names) == count]
        also = f", or --joints {' or '.join(known)}" if known else ""
        return ConventionError(
            f"{source.name} has {count} joints without names, and the robot {len(own)}: add --joints with a name for "
            f"each column{also}"
        )
    return ConventionError(
        f"{source.name} does not name its joints: add --joints model if they have the order of the robot's model "
        f"({', '.join(own[:3])}, ...), --joints breadth if that of Isaac Lab "
        f"({', '.join(breadth_first(kinematics)[:3])}, ...), or their names with commas"
    )
