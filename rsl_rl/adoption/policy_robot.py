"""Prepare a robot model for a policy that was trained elsewhere: with the joints that it moves, in its pose."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import mujoco
import numpy as np

from rsl_rl.adoption.geometry import mend_inertias
from rsl_rl.adoption.links import LinkTree, build_links, efforts_of
from rsl_rl.adoption.mjcf import Motor, contact_links, write_mjcf
from rsl_rl.adoption.reading import SourceModel, read_model
from rsl_rl.adoption.standing import find_symmetry
from rsl_rl.adoption.structure import ANKLE_JOINTS, find_skeleton, joints_of, knee_of
from rsl_rl.utils.mujoco_model import without_log
from rsl_rl.utils.registry import suggest
from rsl_rl.utils.text import listed

CLEARANCE = 0.005
"""Height of the lowest foot above the floor at the start of an episode [m]."""

_STIFFNESS, _DAMPING, _EFFORT = 100.0, 2.0, 1000.0
"""Of motors in the prepared file; a policy brings its own [N m/rad], [N m s/rad], [N m]."""


class PolicyRobot(NamedTuple):
    """A robot that is prepared for a policy."""

    robot: Dict[str, Any]  # fields of rsl_rl.robots.Robot
    contact_links: Tuple[str, ...]  # their contact with the floor is a fall
    num_legs: int
    mass: float  # [kg]
    locked: Tuple[str, ...]  # joints of the file that the policy does not move, held at zero


def read_robot(path: Path) -> SourceModel:
    """Read a URDF or an MJCF file; a file that holds no robot is a ValueError."""
    source = read_model(path)
    mend_inertias(source.model)
    return source


def hinges_of(source: SourceModel) -> Tuple[str, ...]:
    """Return the names of the robot's joints in the order of the file, without sliding ones."""
    model = source.model
    robot = [body for body in range(model.nbody) if model.body_rootid[body] == source.base]
    joints = [joint for body in robot for joint in joints_of(model, body)]
    return tuple(model.joint(joint).name for joint in joints if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE)


def torque_limits_of(source: SourceModel) -> Dict[str, float]:
    """Return the largest torques that a file gives, by joint [N m]."""
    return {source.model.joint(joint).name: limit for joint, limit in efforts_of(source.model).items()}


@without_log()
def robot_for_policy(
    source: SourceModel, joint_names: Sequence[str], default_joint_pos: Sequence[float], path: Path
) -> PolicyRobot:
    """Write the model of a robot with these joints, others locked at zero, and return the robot in a pose [rad].

    ``path`` is the MJCF file to write. Joints that the file does not have, or legs that the policy does not move, are a
    ValueError.
    """
    known = hinges_of(source)
    unknown = [name for name in joint_names if name not in known]
    if unknown:
        raise ValueError(
            f"joint_names: {source.path} has no hinge {listed(unknown)}; it has {', '.join(known)}."
            f"{suggest(unknown[0], known)}"
        )
    skeleton = find_skeleton(source)
    model = source.model
    fixed = [model.joint(joint).name for leg in skeleton.legs for joint in leg.joints]
    fixed = [name for name in fixed if name not in joint_names]
    if fixed:
        raise ValueError(f"joint_names: the policy does not move {listed(fixed)}, joints of legs of {source.path}")
    locked = {joint: 0.0 for joint in skeleton.locked if model.joint(joint).name not in joint_names}
    tree = build_links(source, skeleton._replace(locked=locked))
    motors = {
        hinge.name: Motor(_EFFORT, _STIFFNESS, _DAMPING, hinge.armature) for link in tree.links for hinge in link.joints
    }
    mjcf = write_mjcf(path.stem, tree, motors, 1.0, f"{source.path.name} with the joints of a policy")
    path.write_text(mjcf, encoding="utf-8")
    prepared = mujoco.MjModel.from_xml_string(mjcf)
    order = [prepared.joint(i).name for i in range(1, prepared.njnt)]
    pose = dict(zip(joint_names, default_joint_pos))
    angles = tuple(float(pose[name]) for name in order)
    symmetry = find_symmetry(prepared, tree)
    groups = {"left": tree.legs[::2], "right": tree.legs[1::2]}
    robot = dict(
        model_path=path,
        default_joint_pos=angles,
        standing_height=1.0 - _lowest(prepared, tree, angles) + CLEARANCE,
        foot_radius=float(np.mean([foot.height for foot in tree.feet])),
        mirrored_joints=symmetry.joints,
        mirror_signs=symmetry.signs,
        mirrored_feet=symmetry.feet,
        foot_groups={group: tuple(leg.foot for leg in legs) for group, legs in groups.items()},
    )
    return PolicyRobot(robot, _falling(tree), len(tree.legs), tree.mass, tuple(tree.locked))


def _lowest(model: Any, tree: LinkTree, angles: Sequence[float]) -> float:
    """Return the height of the lowest point of the feet in a pose [m], with the base where the file has it."""
    data = mujoco.MjData(model)
    data.qpos[7:] = angles
    mujoco.mj_kinematics(model, data)
    heights: List[float] = []
    for leg, foot in zip(tree.legs, tree.feet):
        geom = data.geom(leg.foot)
        down = np.abs(geom.xmat.reshape(3, 3)[2]) @ np.array(foot.shape.size) if foot.is_flat else foot.shape.size[0]
        heights.append(float(geom.xpos[2] - down))
    return min(heights)


def _falling(tree: LinkTree) -> Tuple[str, ...]:
    """Return the links that must not touch the floor: the base and limbs, and of legs with ankles those to the knee."""
    in_legs = {link for leg in tree.legs for link in leg.links}
    found = [link.name for link in tree.links if link.name not in in_legs]
    for leg in tree.legs:
        if len(leg.joints) >= ANKLE_JOINTS:
            found += leg.links[: knee_of(len(leg.joints)) + 1]
    return tuple(name for name in contact_links(tree) if name in found)
