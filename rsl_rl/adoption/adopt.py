"""Prepare a third-party robot model: from a URDF or MJCF file to a model that stands in this project's engines."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Tuple

import mujoco

from rsl_rl.adoption.geometry import mend_inertias
from rsl_rl.adoption.links import LinkTree, build_links
from rsl_rl.adoption.mjcf import MotorChoice, choose_motors, write_mjcf
from rsl_rl.adoption.reading import SourceModel, read_model
from rsl_rl.adoption.standing import (
    SECONDS,
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
from rsl_rl.adoption.structure import NO_HINTS, Hints, Skeleton, find_skeleton
from rsl_rl.utils.mujoco_model import without_log
from rsl_rl.utils.text import listed

GAIN_FACTORS = (1.0, 1.4, 2.0, 2.8)
"""Factors of the gains that are tried until the robot stands."""

MAX_LEG_JOINTS = 60
"""Largest number of joints of all legs: the search for a pose takes time with its square."""

MAX_TILT, MAX_SINK, MAX_DRIFT = 0.03, 0.03, 0.06
"""Of a robot that stands after 5 s: tilt of the base [rad]; difference from the wanted height and horizontal drift, as
fractions of the length of its legs."""

_FALLEN = 0.5
"""Tilt of a robot that falls over [rad]."""


@dataclass(frozen=True)
class AdoptedRobot:
    """A prepared robot with everything that was found."""

    name: str
    source: SourceModel
    skeleton: Skeleton
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
    warnings: Tuple[str, ...]  # guesses that may be wrong
    faults: Tuple[str, ...]  # why it does not stand; empty: it does

    @property
    def stands(self) -> bool:
        """Return whether the robot keeps standing with constant joint targets: on its feet, level, at one place."""
        return not self.faults


def standing_faults(model: Any, tree: LinkTree, stance: Stance, settled: Settled, reach: float) -> Tuple[str, ...]:
    """Return why a robot does not stand, most important reason first; nothing for one that does."""
    ball_biped = len(tree.legs) == 2 and not tree.has_flat_feet
    faults = []
    if settled.tilt > _FALLEN:
        faults.append("it falls over" + (", as nothing balances on two ball feet" if ball_biped else ""))
    elif settled.tilt > MAX_TILT:
        faults.append(f"it tilts by {settled.tilt:.3f} rad, more than {MAX_TILT}")
    if not faults and abs(settled.height - stance.height) > MAX_SINK * reach:
        faults.append(
            f"its height becomes {settled.height:.3f} m in place of {stance.height:.3f} m, more than "
            f"{MAX_SINK * reach:.3f} m away"
        )
    if settled.drift > MAX_DRIFT * reach and settled.tilt < _FALLEN:
        faults.append(f"it drifts by {settled.drift:.3f} m in {SECONDS:g} s, more than {MAX_DRIFT * reach:.3f} m")
    lifted = [leg.foot for leg, force in zip(tree.legs, settled.forces) if force <= 0]
    if lifted and settled.tilt < _FALLEN:
        faults.append(f"feet in the air: {', '.join(lifted)}")
    if settled.others > 0 and settled.tilt < _FALLEN:
        faults.append("links other than the feet touch the floor")
    limit = model.actuator_forcerange[:, 1]
    weak = [model.actuator(i).name for i in range(model.nu) if abs(settled.torques[i]) > 0.99 * limit[i]]
    if faults and weak:
        faults.append(f"motors at their torque limit: {', '.join(weak)}")
    return tuple(faults)


@without_log()
def adopt_model(path: Path, name: str, hints: Hints = NO_HINTS) -> AdoptedRobot:
    """Read a file and prepare its robot; a file that holds no legged robot is a ValueError."""
    source = read_model(path)
    mended = mend_inertias(source.model)
    skeleton = find_skeleton(source, hints)
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
        faults = standing_faults(model, tree, stance, settled, reach)
        if not faults:
            break
    mjcf = write_mjcf(name, tree, choice.motors, stance.height, _comment(path, tree))
    notes = [*source.notes, *skeleton.notes, *choice.notes]
    warnings = list(skeleton.warnings)
    if mended:
        warnings.append(
            f"inertias that mass and shape cannot have, replaced by those of solid shapes: {listed(mended)}"
        )
    if tree.locked:
        angles = [f"{joint} at {angle:.3g} rad" if angle else joint for joint, angle in tree.locked.items()]
        notes.append(f"locked joints, which belong to no leg: {', '.join(angles)}")
    if not symmetry.holds:
        notes.append("the left legs are not mirror images of the right ones, so the policy is not symmetric")
    model = mujoco.MjModel.from_xml_string(mjcf)
    return AdoptedRobot(
        name,
        source,
        skeleton,
        tree,
        symmetry,
        reach,
        choice,
        stance,
        targets,
        settled,
        model,
        mjcf,
        tuple(notes),
        tuple(warnings),
        faults,
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
