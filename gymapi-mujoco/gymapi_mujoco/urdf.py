"""Reader of URDF files: links become bodies in depth-first order, the children of a link sorted by the joint's name."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, List, Tuple
from xml.etree import ElementTree

import numpy as np

from gymapi_mujoco.asset import Asset, Body, Joint, combine
from gymapi_mujoco.rotations import euler_to_wxyz, identity, multiply, rotation_matrix
from gymapi_mujoco.shapes import Shape, inertia_of_shapes
from gymapi_mujoco.structs import AssetOptions

_MOVING = ("revolute", "continuous", "prismatic")
_KINDS = (*_MOVING, "fixed", "floating")
_Element = ElementTree.Element


def read_urdf(path: Path, options: AssetOptions) -> Asset:
    """Read a URDF file; what cannot be read is a ValueError that names the file and the place."""
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as error:
        raise ValueError(f"{path} is not a valid URDF file: {error}") from None
    return _Reader(path, root, options).asset()


class _Reader:
    def __init__(self, path: Path, root: _Element, options: AssetOptions):
        self.path, self.options = path, options
        self.name = root.get("name", path.stem)
        self.links = {link.get("name", ""): link for link in root.iterfind("link")}
        self.children: Dict[str, List[_Element]] = {name: [] for name in self.links}
        below = set()
        for joint in root.iterfind("joint"):
            parent, child = self._end(joint, "parent"), self._end(joint, "child")
            if joint.get("type") not in _KINDS:
                kind = joint.get("type")
                raise ValueError(f"{path}: joint '{joint.get('name')}' is {kind}; it can be {', '.join(_KINDS)}")
            self.children[parent].append(joint)
            below.add(child)
        roots = [name for name in self.links if name not in below]
        if len(roots) != 1:
            raise ValueError(f"{path}: a robot has one root link, and this has {len(roots)}: {', '.join(roots)}")
        self.root = roots[0]
        for joints in self.children.values():
            joints.sort(key=lambda joint: joint.get("name", ""))
        self.bodies: List[Body] = []
        self.reached = {self.root}

    def _end(self, joint: _Element, tag: str) -> str:
        found = joint.find(tag)
        name = "" if found is None else found.get("link", "")
        if name not in self.links:
            raise ValueError(f"{self.path}: joint '{joint.get('name')}' has the {tag} '{name}', which is not a link")
        return name

    def asset(self) -> Asset:
        only = self.children[self.root]
        if len(only) == 1 and only[0].get("type") == "floating":
            self.root = self._end(only[0], "child")  # a 'world' link above the robot
        self._add(self.root, Body(self.root, -1))
        apart = [name for name in self.links if name not in self.reached]
        if apart:
            raise ValueError(
                f"{self.path}: no joint leads from the root '{self.root}' to {', '.join(apart)}; the joints form a loop"
            )
        return Asset(self.name, self.bodies, self.options)

    def _add(self, link: str, body: Body) -> None:
        """Append a body, and all below it, depth first."""
        index = len(self.bodies)
        self.bodies.append(body)
        self._fill(link, body)
        self._descend(link, body, index, np.zeros(3), identity())

    def _descend(self, link: str, body: Body, index: int, pos: np.ndarray, quat: np.ndarray) -> None:
        """Add what hangs on a link; pos and quat place the link in the body that it belongs to."""
        for joint in self.children[link]:
            child = self._end(joint, "child")
            offset, turn = _origin(joint)
            there, rotated = pos + rotation_matrix(quat) @ offset, multiply(quat, turn)
            fixed = joint.get("type") == "fixed"
            kept = joint.get("dont_collapse", "").lower() == "true"
            if fixed and self.options.collapse_fixed_joints and not kept:
                part = Body(child, -1, there, rotated)
                self._fill(child, part)
                combine(body, part)
                self._descend(child, body, index, there, rotated)
                continue
            below = Body(child, index, there, rotated)
            if fixed:
                below.fixed_joint = joint.get("name", "")
            elif joint.get("type") == "floating":
                raise ValueError(f"{self.path}: joint '{joint.get('name')}' is floating inside the robot; remove it")
            else:
                below.joints.append(self._joint(joint))
            self._add(child, below)

    def _fill(self, link: str, body: Body) -> None:
        """Give a body the shapes and the inertia of its link."""
        element = self.links[link]
        self.reached.add(link)
        for collision in element.iterfind("collision"):
            body.shapes.append(self._shape(link, collision))
        inertial = element.find("inertial")
        mass = None if inertial is None else inertial.find("mass")
        if inertial is None or mass is None:
            given = None if inertial is None else inertial.find("density")
            density = self.options.density if given is None else float(given.get("value", "0"))
            body.mass, body.com, body.inertia = inertia_of_shapes(body.shapes, density)
            return
        body.com, quat = _origin(inertial)
        tensor = inertial.find("inertia")
        body.mass = float(mass.get("value", "0"))
        if tensor is not None:
            turn = rotation_matrix(quat)
            rows = [[float(tensor.get("i" + min(a, b) + max(a, b), "0")) for b in "xyz"] for a in "xyz"]
            body.inertia = turn @ np.array(rows) @ turn.T
        if not (np.isfinite(body.inertia).all() and np.isfinite(body.com).all() and 0 <= body.mass < np.inf):
            raise ValueError(f"{self.path}: link '{link}' has a mass of {body.mass:g} kg, or no real inertia")

    def _joint(self, element: _Element) -> Joint:
        joint = _joint(element)
        for name in ("effort", "velocity", "damping", "friction"):
            if not getattr(joint, name) >= 0:
                raise ValueError(
                    f"{self.path}: joint '{joint.name}' has {name}={getattr(joint, name):g}; give zero or more"
                )
        return joint

    def _shape(self, link: str, collision: _Element) -> Shape:
        pos, quat = _origin(collision)
        geometry = collision.find("geometry")
        found = None if geometry is None else next(iter(geometry), None)
        if found is None:
            raise ValueError(f"{self.path}: a collision of link '{link}' has no geometry")
        if found.tag == "box":
            return Shape("box", _numbers(found, "size") / 2, pos, quat)
        if found.tag == "sphere":
            return Shape("sphere", _numbers(found, "radius"), pos, quat)
        if found.tag in ("cylinder", "capsule"):
            size = np.array([float(found.get("radius", "0")), float(found.get("length", "0")) / 2])
            round_ends = found.tag == "capsule" or self.options.replace_cylinder_with_capsule
            return Shape("capsule" if round_ends else "cylinder", size, pos, quat)
        if found.tag == "mesh":
            file = find_mesh(found.get("filename", ""), self.path)
            return Shape("mesh", _numbers(found, "scale", "1 1 1"), pos, quat, str(file))
        raise ValueError(f"{self.path}: link '{link}' has a collision geometry '{found.tag}', which is not supported")


def _joint(element: _Element) -> Joint:
    kind = element.get("type")
    axis = _numbers(found, "xyz", "1 0 0") if (found := element.find("axis")) is not None else np.array([1.0, 0, 0])
    limit, dynamics = element.find("limit"), element.find("dynamics")
    joint = Joint(element.get("name", ""), kind == "prismatic", axis / np.linalg.norm(axis))
    if limit is not None:
        joint.lower, joint.upper = float(limit.get("lower", "0")), float(limit.get("upper", "0"))
        joint.effort, joint.velocity = float(limit.get("effort", "0")), float(limit.get("velocity", "0"))
        joint.limited = kind != "continuous" and joint.lower < joint.upper  # both zero: no limit
    if dynamics is not None:
        joint.damping, joint.friction = float(dynamics.get("damping", "0")), float(dynamics.get("friction", "0"))
    return joint


def find_mesh(name: str, urdf: Path) -> Path:
    """Find a mesh by its ``package://`` or relative name: beside the URDF file, or in a folder above it."""
    tail = name.split("://", 1)[-1]
    parts = Path(tail).parts
    names = [tail, *(str(Path(*parts[1:])) for _ in "." if name.startswith("package://") and len(parts) > 1)]
    for folder in urdf.parents:
        for candidate in names:
            if (folder / candidate).is_file():
                return folder / candidate
    raise ValueError(f"{urdf} names the mesh '{name}', which is neither beside it nor in a folder above; add the file")


def _origin(element: _Element) -> Tuple[np.ndarray, np.ndarray]:
    """Return position and quaternion w x y z of an element's ``origin``."""
    origin = element.find("origin")
    if origin is None:
        return np.zeros(3), identity()
    return _numbers(origin, "xyz", "0 0 0"), euler_to_wxyz(*_numbers(origin, "rpy", "0 0 0"))


def _numbers(element: _Element, attribute: str, default: str = "0") -> np.ndarray:
    return np.array([float(number) for number in element.get(attribute, default).split()])
