"""Robot data that Isaac Gym does not provide: values of the MJCF, and forward kinematics of the feet."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, NamedTuple, Sequence, Tuple
from xml.etree import ElementTree

import torch
from torch import Tensor

from rsl_rl.robots.robot import read_joint_names
from rsl_rl.sim.base import RobotPoseVel


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


def cross_matrix(vector: Tensor) -> Tensor:
    """Return the matrices [..., 3, 3] of the cross product ``vector x``."""
    x, y, z = vector.unbind(-1)
    zero = torch.zeros_like(x)
    return torch.stack((zero, -z, y, z, zero, -x, -y, x, zero), dim=-1).unflatten(-1, (3, 3))


def rotation_matrix(quat: Tensor) -> Tensor:
    """Return the rotation matrices [N, 3, 3] of unit quaternions [N, 4], w x y z."""
    turn = cross_matrix(quat[:, 1:])
    return torch.eye(3, device=quat.device) + 2 * quat[:, :1, None] * turn + 2 * turn @ turn


class FootKinematics:
    """Position, velocity and z axis of the feet from the state of the trunk and the joints.

    The engine has body states only after a step: not after a reset, and not before the last physics step. They are
    computed here from the tree of the URDF.
    """

    def __init__(self, urdf: Path, foot_names: Sequence[str], joint_names: Sequence[str], device: torch.device):
        above = {_link(joint, "child"): joint for joint in ElementTree.parse(urdf).getroot().iterfind("joint")}
        chains = [_chain(above, foot, urdf) for foot in foot_names]
        levels = max(len(chain) for chain in chains)
        offset, axis = torch.zeros(levels, len(chains), 3), torch.zeros(levels, len(chains), 3)
        joints = torch.zeros(levels, len(chains), dtype=torch.long)
        for foot, chain in enumerate(chains):
            for level, joint in enumerate(chain):
                offset[level, foot] = _vector(joint, "origin", "xyz")
                if joint.get("type") != "fixed":  # a zero axis turns nothing, whatever the angle
                    axis[level, foot] = _vector(joint, "axis", "xyz")
                    joints[level, foot] = joint_names.index(joint.get("name", ""))
        self._offset, self._axis, self._joints = offset.to(device), axis.to(device), joints.to(device)
        self._cross = cross_matrix(self._axis)  # [levels, feet, 3, 3]
        self._cross2 = self._cross @ self._cross
        self._eye = torch.eye(3, device=device)

    def __call__(self, pose_vel: RobotPoseVel) -> Tuple[Tensor, Tensor, Tensor]:
        """Return position, velocity and z axis of the feet, [N, F, 3] each."""
        root_pos, root_quat, root_lin_vel, root_ang_vel, joint_pos, joint_vel = pose_vel
        turn = rotation_matrix(root_quat).unsqueeze(1)  # [N, 1 or F, 3, 3], link to world
        pos, vel = root_pos.unsqueeze(1), root_lin_vel.unsqueeze(1)
        spin = (turn @ root_ang_vel[:, None, :, None]).squeeze(-1)  # [N, 1 or F, 3], world
        for level, joints in enumerate(self._joints):
            arm = (turn @ self._offset[level].unsqueeze(-1)).squeeze(-1)  # [N, F, 3]
            pos, vel = pos + arm, vel + torch.linalg.cross(spin.expand_as(arm), arm)
            axis = (turn @ self._axis[level].unsqueeze(-1)).squeeze(-1)
            spin = spin + axis * joint_vel[:, joints].unsqueeze(-1)
            angle = joint_pos[:, joints][..., None, None]
            turn = turn @ (self._eye + angle.sin() * self._cross[level] + (1 - angle.cos()) * self._cross2[level])
        return pos, vel, turn[..., 2]


def _chain(above: Dict[str, ElementTree.Element], link: str, urdf: Path) -> List[ElementTree.Element]:
    """Return the joints from the root to a link."""
    if link not in above:
        raise ValueError(
            f"{urdf} has no joint that holds '{link}', which the MJCF beside it names; correct one of them"
        )
    chain = []
    while link in above:
        chain.append(above[link])
        if any(_vector(above[link], "origin", "rpy")):
            raise ValueError(f"{urdf}: joint '{above[link].get('name')}' has an rpy; turn its axis instead")
        link = _link(above[link], "parent")
    return chain[::-1]


def _link(joint: ElementTree.Element, role: str) -> str:
    found = joint.find(role)
    return "" if found is None else found.get("link", "")


def _vector(joint: ElementTree.Element, tag: str, attribute: str) -> Tensor:
    found = joint.find(tag)
    text = "0 0 0" if found is None else found.get(attribute, "0 0 0")
    return torch.tensor([float(number) for number in text.split()])
