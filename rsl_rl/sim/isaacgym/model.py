"""Robot data that Isaac Gym does not provide: values of the MJCF, and the chains of links in the URDF."""

from __future__ import annotations

from pathlib import Path
from typing import List, NamedTuple, Sequence, Tuple
from xml.etree import ElementTree

import torch
from torch import Tensor

from rsl_rl.robots.robot import read_joint_names
from rsl_rl.sim.kinematics import Step


class RobotFacts(NamedTuple):
    """Names and values of the MJCF that a URDF cannot contain."""

    root_name: str
    joint_names: Tuple[str, ...]
    link_names: Tuple[str, ...]
    foot_names: Tuple[str, ...]
    start_height: float  # of the trunk [m]
    friction: float
    joint_damping: float  # passive [N m s/rad]
    armature: float  # [kg m^2]
    stiffness: float  # of the PD loop [N m/rad]
    damping: float  # of the PD loop [N m s/rad]


def read_facts(mjcf: Path) -> RobotFacts:
    """Read an MJCF with names as in rsl_rl.sim.mujoco_robots and values in its outermost default."""
    tree = ElementTree.parse(mjcf).getroot()
    sensors = [sensor.get("name", "") for sensor in tree.iterfind("sensor/*")]
    trunk = tree.find("worldbody/body")
    joint, geom, drive = (tree.find(f"default/{kind}") for kind in ("joint", "geom", "position"))
    if trunk is None or joint is None or geom is None or drive is None:
        raise ValueError(f"{mjcf} has no body, or no default for joint, geom and position; write it like go2.xml")
    return RobotFacts(
        root_name=trunk.get("name", ""),
        joint_names=read_joint_names(mjcf),
        link_names=tuple(name[: -len("_contact")] for name in sensors if name.endswith("_contact")),
        foot_names=tuple(name[: -len("_pos")] for name in sensors if name.endswith("_pos")),
        start_height=float(trunk.get("pos", "0 0 0").split()[2]),
        friction=float(geom.get("friction", "1").split()[0]),
        joint_damping=float(joint.get("damping", 0)),
        armature=float(joint.get("armature", 0)),
        stiffness=float(drive.get("kp", 1)),
        damping=float(drive.get("kv", 0)),
    )


def chain_of(urdf: Path, link: str, joint_names: Sequence[str]) -> List[Step]:
    """Return the steps from the trunk to a link of a URDF."""
    joints = ElementTree.parse(urdf).getroot().findall("joint")
    above = {_link(joint, "child"): joint for joint in joints}
    if link not in above and link not in {_link(joint, "parent") for joint in joints}:
        raise ValueError(f"{urdf} has no link '{link}', which the MJCF beside it names; correct one of them")
    chain = []
    while link in above:
        joint = above[link]
        if any(_vector(joint, "origin", "rpy")):
            raise ValueError(f"{urdf}: joint '{joint.get('name')}' has an rpy; turn its axis instead")
        step = Step(_vector(joint, "origin", "xyz"))
        if joint.get("type") != "fixed":
            step = step._replace(axis=_vector(joint, "axis", "xyz"), joint=joint_names.index(joint.get("name", "")))
        chain.append(step)
        link = _link(joint, "parent")
    return chain[::-1]


def _link(joint: ElementTree.Element, role: str) -> str:
    found = joint.find(role)
    return "" if found is None else found.get("link", "")


def _vector(joint: ElementTree.Element, tag: str, attribute: str) -> Tensor:
    found = joint.find(tag)
    text = "0 0 0" if found is None else found.get(attribute, "0 0 0")
    return torch.tensor([float(number) for number in text.split()])
