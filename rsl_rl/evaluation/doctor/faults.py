"""The faults that the doctor looks for in the motion of a robot: each with the correction that undoes it."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, Iterable, Iterator, List, Mapping, Sequence, Tuple

import numpy as np

from rsl_rl.evaluation.doctor.replay import Actuation, Motion, multiply, rotate, rotate_back

Correction = Callable[[Motion], Motion]


@dataclass(frozen=True)
class Fault:
    """Something that may be wrong between a policy and its robot, as a correction of the log."""

    kind: str
    boundary: str  # reading, target or motion
    sentence: str
    correct: Correction = lambda motion: motion
    actuation: Actuation = Actuation()
    fix: Mapping[str, Any] = field(default_factory=dict)  # of policy.json: permutation, signs, zeros, mounting, units


PLACES = ("readings and targets", "readings", "targets")
"""Where joints are mixed up: in the driver, which maps both ways, or one way only."""


def faults(joint_names: Sequence[str], legs: Sequence[Sequence[int]]) -> List[Fault]:
    """Return the faults of a robot with legs of these joints, in the policy's order."""
    found = [*_imu(), *_units(), *_actuation()]
    for place in PLACES:
        found += _signs(joint_names, legs, place)
        found += _orders(joint_names, legs, place)
    return found


def _at(place: str, joints: Callable[[np.ndarray], np.ndarray]) -> Correction:
    """Return the correction that applies a function to joint values [T, J]."""

    def correct(motion: Motion) -> Motion:
        if place != "targets":
            motion = replace(motion, joint_pos=joints(motion.joint_pos), joint_vel=joints(motion.joint_vel))
        return motion if place == "readings" else replace(motion, targets=joints(motion.targets))

    return correct


def _boundary(place: str) -> str:
    return "target" if place == "targets" else "reading"


def _signs(names: Sequence[str], legs: Sequence[Sequence[int]], place: str) -> Iterator[Fault]:
    """Yield each joint with the wrong sign, and the joints at the same place of all legs, or of one side."""
    groups: List[Tuple[int, ...]] = [(i,) for i in range(len(names))]
    for depth in range(max(map(len, legs))):
        same = tuple(leg[depth] for leg in legs if len(leg) > depth)
        groups += [same] if len(same) > 1 else []
    groups.append(tuple(range(len(names))))
    for group in groups:
        signs = np.ones(len(names))
        signs[list(group)] = -1.0
        listed = ", ".join(names[i] for i in group)
        sentence = f"the sign of {listed} is wrong in the {place}"
        fix = {"signs": signs.tolist()} if place == PLACES[0] else {}
        yield Fault("joint sign", _boundary(place), sentence, _at(place, lambda x, s=signs: x * s), fix=fix)


def _orders(names: Sequence[str], legs: Sequence[Sequence[int]], place: str) -> Iterator[Fault]:
    """Yield orders of the joints that robots have: legs exchanged, joints of all legs exchanged, joint after joint
    in place of leg after leg, sorted by name, and every exchange of two joints."""
    for order, text in joint_orders(names, legs):
        inverse = np.argsort(order)
        # The robot's joint number i is the policy's joint order[i].
        fix = {"permutation": [int(i) for i in order]} if place == PLACES[0] else {}
        sentence = f"the {place} have the joints in another order: {text}"
        yield Fault("joint order", _boundary(place), sentence, _at(place, lambda x, p=inverse: x[:, p]), fix=fix)


def joint_orders(names: Sequence[str], legs: Sequence[Sequence[int]]) -> List[Tuple[np.ndarray, str]]:
    """Return orders with a description; column i of a log in this order is the joint order[i]."""
    count, equal = len(names), len(set(map(len, legs))) == 1
    orders: Dict[Tuple[int, ...], str] = {}

    def add(indices: Iterable[int], text: str) -> None:
        order = tuple(int(i) for i in indices)
        if order != tuple(range(count)):
            orders.setdefault(order, text)

    for i, j in itertools.combinations(range(count), 2):
        order = list(range(count))
        order[i], order[j] = j, i
        add(order, f"{names[i]} and {names[j]} are exchanged")
    if equal:
        size = len(legs[0])
        table = np.array(legs)
        for legs_order in itertools.permutations(range(len(legs))):
            order = np.arange(count)
            order[table.ravel()] = table[list(legs_order)].ravel()
            first = ", ".join(str(names[order[leg[0]]]) for leg in legs)
            add(order, f"whole legs are exchanged, which begin with {first}")
        if size <= 4:
            swaps = list(itertools.permutations(range(size)))
        else:
            swaps = [_exchanged(size, i, j) for i, j in itertools.combinations(range(size), 2)]
        for swap in swaps:
            order = np.arange(count)
            order[table.ravel()] = table[:, list(swap)].ravel()
            add(order, "in each leg: " + ", ".join(str(names[order[i]]) for i in legs[0]))
        by_depth = table.T.ravel()
        add(by_depth, "joint after joint in place of leg after leg")
        add(np.argsort(by_depth), "leg after leg in place of joint after joint")
    by_name = np.argsort(np.array(names))
    add(by_name, "sorted by name")
    add(np.argsort(by_name), "as if the policy's were sorted by name")
    add(np.arange(count)[::-1], "the last joint first")
    return [(np.array(order), text) for order, text in orders.items()]


def _exchanged(size: int, i: int, j: int) -> Tuple[int, ...]:
    order = list(range(size))
    order[i], order[j] = j, i
    return tuple(order)


def axis_rotations() -> List[np.ndarray]:
    """Return the 24 rotations that turn axes into axes, as quaternions w x y z, the identity first."""
    quarter = [np.array([1.0, 0, 0, 0])]
    half = math.sqrt(0.5)
    found: List[np.ndarray] = []
    turns = [np.array([half, *(half * np.eye(3)[axis])]) for axis in range(3)]
    while quarter:
        quat = quarter.pop(0)
        if any(abs(abs(quat @ other) - 1.0) < 1e-6 for other in found):
            continue
        found.append(quat)
        quarter += [multiply(quat, turn) for turn in turns]
    return found


def turned(mounting: np.ndarray) -> Correction:
    """Return the correction of an IMU whose frame is the base's, turned by a quaternion."""

    def correct(motion: Motion) -> Motion:
        back = mounting * np.array([1.0, -1, -1, -1])
        return replace(
            motion,
            base_quat=multiply(motion.base_quat, back),
            base_ang_vel=rotate(mounting, motion.base_ang_vel),
        )

    return correct


def _imu() -> Iterator[Fault]:
    for quat in axis_rotations()[1:]:
        axes = rotate_back(quat, np.eye(3))  # rows: the base's axes in the IMU's frame
        names = [f"{'-' if row[np.abs(row).argmax()] < 0 else '+'}{'xyz'[int(np.abs(row).argmax())]}" for row in axes]
        sentence = f"the IMU is turned: forward is its {names[0]}, left its {names[1]}, up its {names[2]}"
        yield Fault("IMU turned", "reading", sentence, turned(quat), fix={"mounting": quat.tolist()})

    def reorder(motion: Motion) -> Motion:
        return replace(motion, base_quat=motion.base_quat[:, [3, 0, 1, 2]])

    def conjugate(motion: Motion) -> Motion:
        return replace(motion, base_quat=motion.base_quat * np.array([1.0, -1, -1, -1]))

    sentence = "the quaternion is x y z w; the policy reads w x y z"
    yield Fault("quaternion order", "reading", sentence, reorder, fix={"quaternion_order": "xyzw"})
    yield Fault("quaternion inverse", "reading", "the quaternion turns the world into the base", conjugate)
    yield Fault(
        "world frame",
        "reading",
        "base_ang_vel is in the world frame",
        lambda m: replace(m, base_ang_vel=rotate_back(m.base_quat, m.base_ang_vel)),
    )
    yield Fault(
        "world frame",
        "reading",
        "base_lin_vel is in the world frame: give it as base_lin_vel_world",
        lambda m: m if m.base_lin_vel is None else replace(m, base_lin_vel=rotate_back(m.base_quat, m.base_lin_vel)),
    )


def _units() -> Iterator[Fault]:
    degree = math.radians(1.0)
    for names in (("joint_pos",), ("joint_vel",), ("joint_pos", "joint_vel"), ("base_ang_vel",)):

        def correct(motion: Motion, names: Tuple[str, ...] = names) -> Motion:
            return replace(motion, **{name: getattr(motion, name) * degree for name in names})

        listed = " and ".join(names)
        units = {name: "deg" if name == "joint_pos" else "deg/s" for name in names}
        fix = {} if "joint_pos" in names else {"units": units}
        yield Fault("degrees", "reading", f"{listed} in degrees", correct, fix=fix)


def _actuation() -> Iterator[Fault]:
    for factor in (0.3, 0.45, 0.65, 1.5, 2.2, 3.3):
        yield Fault(
            "gains",
            "motion",
            f"the stiffness is about {factor:g} times that of the policy",
            actuation=Actuation(stiffness=factor),
        )
    for factor in (0.15, 0.3, 0.5, 1.9, 3.0, 5.0):
        yield Fault(
            "gains",
            "motion",
            f"the damping is about {factor:g} times that of the policy",
            actuation=Actuation(damping=factor),
        )
    for factor in (0.35, 0.7, 1.5, 2.5):
        yield Fault(
            "gains",
            "motion",
            f"stiffness and damping are about {factor:g} times those of the policy",
            actuation=Actuation(stiffness=factor, damping=factor),
        )
    for share in (0.1, 0.15, 0.22, 0.33, 0.5, 0.7):
        sentence = f"the motors give about {share:.0%} of the policy's torque limits, and reach this limit"
        yield Fault("torque limit", "motion", sentence, actuation=Actuation(torque=share))
    for steps in (1, 2, 3):
        late = "a step" if steps == 1 else f"{steps} steps"
        yield Fault(
            "late action", "motion", f"the motors get the targets {late} late", actuation=Actuation(delay=steps)
        )
