"""Choose the motors of a robot, and write its links as an MJCF file that the engines of this project read.

Torque limits, gains and armature come from masses, leg length and the limits of the source.
"""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import math
from typing import Dict, List, NamedTuple, Sequence, Set, Tuple, Union
from xml.dom import minidom
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import mujoco
import numpy as np

from rsl_rl.adoption.geometry import Shape, points_of_shape
from rsl_rl.adoption.links import Hinge, Link, LinkTree
from rsl_rl.utils.text import xml_comment

_GEOM = mujoco.mjtGeom
_KINDS = {
    int(_GEOM.mjGEOM_SPHERE): ("sphere", 1),
    int(_GEOM.mjGEOM_CAPSULE): ("capsule", 2),
    int(_GEOM.mjGEOM_CYLINDER): ("cylinder", 2),
    int(_GEOM.mjGEOM_ELLIPSOID): ("ellipsoid", 3),
    int(_GEOM.mjGEOM_BOX): ("box", 3),
}
"""Name and number of sizes of each shape."""

_MAX_CONTACTS = 4
"""Shapes of a link that touch the floor; the others are only seen. Each takes time in every step."""

_GRAVITY = 9.81

_GO2_REACH = 0.40
"""Length of a leg of the Unitree Go2 [m], on which the constants below were chosen."""

_STIFFNESS = 1.8
"""Gain of a leg with a ball foot, in units of the leg's torque scale per rad. The Go2, the A1, ANYmal and Solo are
trained with 1.1 to 1.9."""

_FLAT_STIFFNESS = 2.0
"""The same of a leg with a flat foot, at all joints: ankles alone must keep a biped from tipping over."""

_DAMPING_TIME = 0.025
"""Damping divided by stiffness, for a leg of the length of the Go2's [s]; it grows with the root of the length."""

_FLAT_DAMPING_TIME = 0.04
"""The same of a leg with a flat foot [s]."""

_PLAUSIBLE = 8.0
"""A torque limit of more than this times the torque scale is not the limit of a motor."""

_DEFAULT_LIMIT = 2.0
"""Torque limit of motors for which the source has none, in units of the torque scale. The Go2 has 1.5 to 2.9."""

_ARMATURE = 4e-4
"""Armature per torque limit of motors for which the source has none [kg m^2 / (N m)]; 0.01 kg m^2 for the Go2."""

_FRAME = """<mujoco model="">
  <compiler angle="radian" autolimits="true"/>
  <option timestep="0.005" integrator="implicitfast" solver="Newton" iterations="10" ls_iterations="20"
    cone="pyramidal">
    <flag island="disable" midphase="disable"/>
  </option>
  <default>
    <geom friction="0.8 0.02 0.01" contype="0" conaffinity="0" material="shell"/>
    <pair condim="3" friction="0.8 0.8 0.02 0.01 0.01"/>
    <site size="0.005" group="4"/>
  </default>
  <asset>
    <texture name="sky" type="skybox" builtin="gradient" rgb1="0.75 0.84 0.93" rgb2="0.97 0.98 1" width="256"
      height="1536"/>
    <texture name="tiles" type="2d" builtin="checker" rgb1="0.86 0.88 0.9" rgb2="0.78 0.8 0.83" mark="edge"
      markrgb="0.68 0.7 0.73" width="512" height="512"/>
    <material name="floor" texture="tiles" texrepeat="1 1" texuniform="true"/>
    <material name="shell" rgba="0.82 0.84 0.87 1" specular="0.4"/>
    <material name="dark" rgba="0.3 0.32 0.36 1"/>
    <material name="rubber" rgba="0.05 0.05 0.06 1"/>
  </asset>
  <statistic center="0 0 {center:.3g}" extent="{extent:.3g}"/>
  <visual>
    <headlight ambient="0.45 0.45 0.45" diffuse="0.4 0.4 0.4" specular="0.1 0.1 0.1"/>
    <global offwidth="1280" offheight="720"/>
    <quality shadowsize="4096"/>
    <map shadowclip="2"/>
  </visual>
  <worldbody>
    <light name="sun" mode="trackcom" pos="-0.6 -0.4 2" dir="0.3 0.2 -1" type="directional" diffuse="0.5 0.5 0.5"/>
    <geom name="floor" type="plane" size="0 0 0.05" material="floor"/>
  </worldbody>
  <actuator/>
  <contact/>
  <sensor/>
</mujoco>"""


class Motor(NamedTuple):
    """Values of the motor of a joint."""

    effort: float  # largest torque [N m]
    stiffness: float  # [N m/rad]
    damping: float  # [N m s/rad]
    armature: float  # [kg m^2]


class MotorChoice(NamedTuple):
    """Motors by joint name, with the torque scale and remarks on guesses."""

    motors: Dict[str, Motor]
    torque_scale: float  # weight on one leg times the length of the leg [N m]
    notes: Tuple[str, ...]


def choose_motors(tree: LinkTree, reach: float, factor: float = 1.0) -> MotorChoice:
    """Return the motors of a robot with legs of length ``reach`` [m]; ``factor`` is that of all gains."""
    scale = tree.mass * _GRAVITY * reach / len(tree.legs)
    flat, growth = tree.has_flat_feet, math.sqrt(reach / _GO2_REACH)
    stiffness = factor * scale * (_FLAT_STIFFNESS if flat else _STIFFNESS)
    time = growth * (_FLAT_DAMPING_TIME if flat else _DAMPING_TIME)
    motors: Dict[str, Motor] = {}
    guessed: List[str] = []
    for hinge in (hinge for link in tree.links for hinge in link.joints):
        effort = hinge.effort
        if effort is None or effort > _PLAUSIBLE * scale:
            effort = _DEFAULT_LIMIT * scale
            guessed.append(hinge.name)
        armature = max(hinge.armature, _ARMATURE * effort)
        values = (effort, stiffness, stiffness * time, armature)
        motors[hinge.name] = Motor(*(float(f"{value:.3g}") for value in values))
    notes = []
    if guessed:
        of = "all joints" if len(guessed) == len(motors) else ", ".join(guessed)
        limit = f"{_DEFAULT_LIMIT:g} times the torque scale"
        notes.append(f"torque limit of {of}: {limit}, because the source has none or a huge one")
    return MotorChoice(motors, scale, tuple(notes))


def write_mjcf(name: str, tree: LinkTree, motors: Dict[str, Motor], height: float, comment: str) -> str:
    """Return an MJCF file with one free joint, a motor per joint, and sensors of links and feet.

    ``height`` is that of the base above the floor [m].
    """
    root = ElementTree.fromstring(_FRAME.format(center=height, extent=5 * height))
    root.set("model", name)
    bodies: Dict[str, Element] = {}
    world, actuator, contact, sensor = root[-4:]
    feet = {leg.links[-1]: leg.foot for leg in tree.legs}
    taken = {"floor", *feet.values(), *(link.name for link in tree.links)}  # names of geoms
    for link in tree.links:
        body = _body(link, bodies[link.parent] if link.parent else world, height)
        bodies[link.name] = body
        for hinge in link.joints:
            _joint(body, hinge, motors[hinge.name])
        _inertial(body, link)
        names = [link.name, *(_unused(f"{link.name}_{i + 1}", taken) for i in range(1, len(link.shapes)))]
        for geom, shape in zip(names, link.shapes):
            _geom(body, geom, shape, "shell" if not link.parent else "dark")
            if any(shape is large for large in _largest(link.shapes)):
                SubElement(contact, "pair", geom1="floor", geom2=geom)
        if link.shapes:
            _contact(sensor, link.name, "body1" if len(link.shapes) > 1 else "geom1")
        if link.foot is not None:
            foot = feet[link.name]
            _geom(body, foot, link.foot.shape, "rubber")
            turn = _turn(link.foot.shape.mat) if link.foot.is_flat else {}
            SubElement(body, "site", {"name": foot, "pos": _text(link.foot.shape.pos), **turn})
            SubElement(contact, "pair", geom1="floor", geom2=foot)
            _contact(sensor, foot, "geom1")
        for hinge in link.joints:
            motor = motors[hinge.name]
            SubElement(
                actuator,
                "position",
                name=hinge.name,
                joint=hinge.name,
                kp=_text([motor.stiffness]),
                kv=_text([motor.damping]),
                forcerange=_text([-motor.effort, motor.effort]),
            )
    flat = any(foot.is_flat for foot in tree.feet)
    for kind, element in (("pos", "framepos"), ("vel", "framelinvel"), *([("up", "framezaxis")] if flat else [])):
        for leg in tree.legs:
            SubElement(sensor, element, name=f"{leg.foot}_{kind}", objtype="site", objname=leg.foot)
    return f"{xml_comment(comment)}\n{indented(root)}\n"


def contact_links(tree: LinkTree) -> Tuple[str, ...]:
    """Return the names of the links with contact sensors, without the feet."""
    return tuple(link.name for link in tree.links if link.shapes)


def indented(root: Element) -> str:
    """Return an element as a text with a line for each element in it."""
    for element in root.iter():
        element.text = element.tail = None
    pretty = minidom.parseString(ElementTree.tostring(root, encoding="unicode")).toprettyxml(indent="  ")
    return pretty.partition("\n")[2].rstrip()


def _unused(name: str, taken: Set[str]) -> str:
    """Return a name that is not taken, and take it."""
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _largest(shapes: Sequence[Shape]) -> List[Shape]:
    """Return the shapes of a link that touch the floor: the largest ones."""
    return sorted(shapes, key=lambda shape: -float(np.ptp(points_of_shape(shape), axis=0).prod()))[:_MAX_CONTACTS]


def _contact(sensor: Element, name: str, kind: str) -> None:
    fixed = {"geom2": "floor", "num": "1", "reduce": "netforce", "data": "force"}
    SubElement(sensor, "contact", {"name": f"{name}_contact", kind: name, **fixed})


def _body(link: Link, parent: Element, height: float) -> Element:
    if not link.parent:
        body = SubElement(parent, "body", name=link.name, pos=_text([0, 0, height]))
        SubElement(body, "freejoint")
        return body
    return SubElement(parent, "body", {"name": link.name, "pos": _text(link.pos), **_turn(link.mat)})


def _joint(body: Element, hinge: Hinge, motor: Motor) -> None:
    SubElement(
        body,
        "joint",
        name=hinge.name,
        pos=_text(hinge.pos),
        axis=_text(hinge.axis),
        range=_text(hinge.range),
        damping=_text([hinge.damping]),
        armature=_text([motor.armature]),
    )


def _inertial(body: Element, link: Link) -> None:
    i = link.inertia
    full = [i[0, 0], i[1, 1], i[2, 2], i[0, 1], i[0, 2], i[1, 2]]
    SubElement(body, "inertial", pos=_text(link.com), mass=_text([link.mass]), fullinertia=_text(full, 9))


def _geom(body: Element, name: str, shape: Shape, material: str) -> None:
    kind, count = _KINDS[shape.kind]
    turn = {} if kind == "sphere" else _turn(shape.mat)
    place = {"size": _text(shape.size[:count]), "pos": _text(shape.pos)}
    SubElement(body, "geom", {"name": name, "type": kind, **place, "material": material, **turn})


def _turn(mat: np.ndarray) -> Dict[str, str]:
    quat = np.zeros(4)
    mujoco.mju_mat2Quat(quat, np.ascontiguousarray(mat).reshape(9))
    return {} if abs(quat[0]) > 1 - 1e-9 else {"quat": _text(quat)}


def _text(values: Union[Sequence[float], np.ndarray], digits: int = 6) -> str:
    return " ".join(f"{float(x):.{digits}g}" if abs(x) > 1e-13 else "0" for x in values)
