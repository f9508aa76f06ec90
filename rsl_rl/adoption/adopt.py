"""Prepare a third-party robot model: from a URDF or MJCF file to a model that stands in this project's engines."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Tuple

import mujoco

from rsl_rl.adoption.links import LinkTree, build_links
from rsl_rl.adoption.mjcf import MotorChoice, choose_motors, write_mjcf
from rsl_rl.adoption.reading import SourceModel, read_model
from rsl_rl.adoption.standing import (
    Search,
    Settled,
    Stance,
    Symmetry,
    compensate,
    find_reach,
    find_stance,
    find_symmetry,
    settle,
)
from rsl_rl.adoption.structure import find_skeleton
from rsl_rl.utils.mujoco_model import without_log

GAIN_FACTORS = (1.0, 1.4, 2.0, 2.8)
"""Factors of the gains that are tried until the robot stands."""

MAX_LEG_JOINTS = 60
"""Largest number of joints of all legs: the search for a pose takes time with its square."""

MAX_TILT, MAX_SINK, MAX_DRIFT = 0.03, 0.03, 0.06
"""Of a robot that stands after 5 s: tilt of the base [rad]; difference from the wanted height and horizontal drift, as
fractions of the length of its legs."""


@dataclass(frozen=True)
class AdoptedRobot:
    """A prepared robot with everything that was found."""

    name: str
    source: SourceModel
    tree: LinkTree
    symmetry: Symmetry
    reach: float  # largest distance from hip to foot [m]
    choice: MotorChoice
    stance: Stance  # where the robot stands
    targets: Stance  # joint targets with which it settles there
    settled: Settled
    model: Any  # mujoco.MjModel of ``mjcf``
    mjcf: str
    notes: Tuple[str, ...]

    @property
    def stands(self) -> bool:
        """Return whether the robot keeps standing with constant joint targets."""
        return stands(self.stance, self.settled, self.reach)


def stands(stance: Stance, settled: Settled, reach: float) -> bool:
    """Return whether a robot stands: on all feet and on nothing else, level, at its height, at one place."""
    return (
        settled.tilt < MAX_TILT
        and abs(settled.height - stance.height) < MAX_SINK * reach
        and settled.drift < MAX_DRIFT * reach
        and bool((settled.forces > 0).all())
        and settled.others == 0
    )


@without_log()
def adopt_model(path: Path, name: str) -> AdoptedRobot:
    """Read a file and prepare its robot; a file that holds no legged robot is a ValueError."""
    source = read_model(path)
    skeleton = find_skeleton(source)
    count = sum(len(leg.joints) for leg in skeleton.legs)
    if count > MAX_LEG_JOINTS:
        raise ValueError(f"{path} has legs with {count} joints; at most {MAX_LEG_JOINTS} are supported")
    tree = build_links(source, skeleton)
    draft = _compile(name, tree, choose_motors(tree, 0.5))
    symmetry = find_symmetry(draft, tree)
    search = Search(draft, tree, symmetry)
    reach = find_reach(search)
    search.model = _compile(name, tree, choose_motors(tree, reach))
    addresses = [source.model.joint(joint).qposadr[0] for leg in tree.legs for joint in leg.joints]
    stance = find_stance(search, reach, [pose[addresses] for pose in source.poses[2:]])
    for factor in GAIN_FACTORS:
        choice = choose_motors(tree, reach, factor)
        model = _compile(name, tree, choice)
        targets = compensate(model, search, stance)
        settled = settle(model, tree, targets)
        if stands(stance, settled, reach):
            break
    mjcf = write_mjcf(name, tree, choice.motors, stance.height, _comment(path, tree))
    notes = [*source.notes, *choice.notes]
    if tree.locked:
        notes.append(f"locked joints, which belong to no leg: {', '.join(tree.locked)}")
    if not symmetry.holds:
        notes.append("the left legs are not mirror images of the right ones, so the policy is not symmetric")
    model = mujoco.MjModel.from_xml_string(mjcf)
    return AdoptedRobot(
        name, source, tree, symmetry, reach, choice, stance, targets, settled, model, mjcf, tuple(notes)
    )


def _compile(name: str, tree: LinkTree, choice: MotorChoice) -> Any:
    try:
        return mujoco.MjModel.from_xml_string(write_mjcf(name, tree, choice.motors, 1.0, ""))
    except ValueError as error:
        raise ValueError(f"{name} cannot be prepared: {error}; look for unusual names or numbers") from error


def _comment(path: Path, tree: LinkTree) -> str:
    return (
        f"Prepared by `rsl-rl adopt` from {path.name}: base and legs with primitive shapes, {tree.mass:.2f} kg.\n"
        "x points forward, y to the left, z up; legs in the order "
        f"{', '.join(leg.name for leg in tree.legs)}. Parts touch the floor and nothing else."
    )
