"""Parameters of each robot that an engine can change: their names, sizes and units."""

from __future__ import annotations

from typing import Dict, NamedTuple, Tuple


class ParameterKind(NamedTuple):
    """Size and meaning of a parameter."""

    size: str  # "": one number a robot; "joints", "bodies": one for each; "vector": x, y, z
    meaning: str


PARAMETERS: Dict[str, ParameterKind] = {
    "friction": ParameterKind("", "sliding friction between floor and robot"),
    "restitution": ParameterKind("", "speed after an impact on the floor over the speed before it"),
    "payload": ParameterKind("", "mass added to the trunk [kg]"),
    "link_mass": ParameterKind("bodies", "factor of the mass and inertia of each link"),
    "trunk_com": ParameterKind("vector", "displacement of the trunk's centre of mass in the base frame [m]"),
    "stiffness": ParameterKind("joints", "proportional gain [N m/rad]"),
    "damping": ParameterKind("joints", "derivative gain [N m s/rad]"),
    "motor_strength": ParameterKind("joints", "factor of the torque of each joint, its limit included"),
    "torque_limit": ParameterKind("joints", "largest torque of each joint [N m]"),
    "armature": ParameterKind("joints", "inertia of each joint's rotor [kg m^2]"),
    "joint_friction": ParameterKind("joints", "dry friction of each joint [N m]"),
    "gravity": ParameterKind("vector", "gravity in the world frame [m/s^2]"),
    "trunk_force": ParameterKind("vector", "force on the trunk's centre of mass in the world frame [N]"),
}
"""Every parameter by name; an engine may lack some."""


def parameter_shape(name: str, num_joints: int, num_bodies: int) -> Tuple[int, ...]:
    """Return the shape of a parameter of one robot."""
    sizes: Dict[str, Tuple[int, ...]] = {"": (), "joints": (num_joints,), "bodies": (num_bodies,), "vector": (3,)}
    return sizes[PARAMETERS[name].size]
