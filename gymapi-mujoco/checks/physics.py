"""Measure the interface against physics with a closed form, and print a table: expected, got, deviation, tolerance.

    python gymapi-mujoco/checks/physics.py             # the table, as in docs/isaacgym-physics.md
    python gymapi-mujoco/checks/physics.py friction    # rows whose name contains a word

The exit status is 1 if a deviation is above its tolerance. The tests of the package run the same cases.
"""

# pyright: reportMissingImports=false, reportMissingModuleSource=false, reportAttributeAccessIssue=false
from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Iterator, List, Optional, Sequence

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "gymapi_mujoco" / "modules"))

from isaacgym import gymapi, gymtorch

G, DT = 9.81, 0.005


@dataclass(frozen=True)
class Case:
    """A quantity with a closed form."""

    name: str
    unit: str
    expected: float
    tolerance: float
    """Largest absolute deviation."""
    reason: str
    """Why there is one."""
    measure: Callable[[], float]


CASES: List[Case] = []


def case(name: str, unit: str, expected: float, tolerance: float, reason: str) -> Callable:
    def add(measure: Callable[[], float]) -> Callable[[], float]:
        CASES.append(Case(name, unit, expected, tolerance, reason, measure))
        return measure

    return add


# Bodies and simulations


def box(mass: float = 2.0, inertia: Sequence[float] = (0.02, 0.02, 0.02), side: float = 0.2) -> str:
    return f"""<robot name="box"><link name="box">{inertial(mass, inertia)}
      <collision><geometry><box size="{side} {side} {side}"/></geometry></collision></link></robot>"""


def ball(mass: float = 1.0) -> str:
    return f"""<robot name="ball"><link name="ball">{inertial(mass, [0.004] * 3)}
      <collision><geometry><sphere radius="0.1"/></geometry></collision></link></robot>"""


def inertial(mass: float, inertia: Sequence[float], at: str = "0 0 0") -> str:
    x, y, z = inertia
    tensor = f'<inertia ixx="{x}" iyy="{y}" izz="{z}" ixy="0" ixz="0" iyz="0"/>'
    return f'<inertial><origin xyz="{at}"/><mass value="{mass}"/>{tensor}</inertial>'


MASS, INERTIA, LENGTH = 1.5, 0.02, 0.3


def arm(axis: str = "0 1 0", at: str = f"0 0 {-LENGTH}", limits: str = "", extra: str = "") -> str:
    """Return a link of 1.5 kg on a hinge, 0.02 kg m^2 about its centre of mass at 0.3 m."""
    kind = "revolute" if "lower" in limits else "continuous"
    return f"""<robot name="arm"><link name="base">{inertial(5, [0.1] * 3)}</link>
      <joint name="hinge" type="{kind}"><parent link="base"/><child link="arm"/><axis xyz="{axis}"/>
        <limit {limits or 'effort="0" velocity="0"'}/>{extra}</joint>
      <link name="arm">{inertial(MASS, [INERTIA] * 3, at)}</link></robot>"""


ABOUT_HINGE = INERTIA + MASS * LENGTH**2


class World:
    """One environment with copies of a robot, on a plane, with its tensors."""

    def __init__(
        self,
        urdf: str,
        height: float = 5.0,
        actors: int = 1,
        gravity: float = -G,
        ground: Sequence[float] = (1.0, 0.0),
        change: Optional[Callable] = None,
        fixed: bool = False,
        **options: object,
    ):
        self.gym, params = gymapi.acquire_gym(), gymapi.SimParams()
        params.dt, params.substeps, params.up_axis = DT, 1, gymapi.UP_AXIS_Z
        params.gravity, params.physx.num_threads = gymapi.Vec3(0, 0, gravity), 1
        self.sim = self.gym.create_sim(0, -1, gymapi.SIM_PHYSX, params)
        plane = gymapi.PlaneParams()
        plane.normal, (plane.dynamic_friction, plane.restitution) = gymapi.Vec3(0, 0, 1), ground
        plane.static_friction = plane.dynamic_friction
        self.gym.add_ground(self.sim, plane)
        asset_options = gymapi.AssetOptions()
        asset_options.fix_base_link, asset_options.angular_damping = fixed, 0.0
        asset_options.default_dof_drive_mode = int(gymapi.DOF_MODE_EFFORT)
        asset_options.max_angular_velocity = 1000.0
        for name, value in options.items():
            setattr(asset_options, name, value)
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "robot.urdf").write_text(urdf)
            self.asset = self.gym.load_asset(self.sim, folder, "robot.urdf", asset_options)
        self.env = self.gym.create_env(self.sim, gymapi.Vec3(), gymapi.Vec3(), 1)
        for i in range(actors):
            pose = gymapi.Transform(gymapi.Vec3(0, 0, height + 0.2 * i))
            self.gym.create_actor(self.env, self.asset, pose, f"actor{i}", 0, 0)
        if change is not None:
            change(self)
        self.gym.prepare_sim(self.sim)
        wrap = gymtorch.wrap_tensor
        self.root = wrap(self.gym.acquire_actor_root_state_tensor(self.sim))
        self.dof = wrap(self.gym.acquire_dof_state_tensor(self.sim))
        self.body = wrap(self.gym.acquire_rigid_body_state_tensor(self.sim))
        self.force = wrap(self.gym.acquire_net_contact_force_tensor(self.sim))

    def step(self, seconds: float, effort: float = 0.0, pull: Sequence[float] = (0, 0, 0)) -> World:
        for _ in range(round(seconds / DT)):
            if self.dof is not None and effort:
                self.gym.set_dof_actuation_force_tensor(self.sim, gymtorch.unwrap_tensor(torch.full((1,), effort)))
            if any(pull):
                forces = torch.zeros_like(self.force)
                forces[0] = torch.tensor(pull)
                self.gym.apply_rigid_body_force_tensors(self.sim, gymtorch.unwrap_tensor(forces))
            self.gym.simulate(self.sim)
        return self.refresh()

    def refresh(self) -> World:
        for name in ("actor_root_state", "dof_state", "rigid_body_state", "net_contact_force"):
            getattr(self.gym, f"refresh_{name}_tensor")(self.sim)
        return self

    def start(self, pos: float = 0.0, vel: float = 0.0, root: Optional[Sequence[float]] = None) -> World:
        """Set the DoF, or the root's linear and angular velocity [6]."""
        if root is not None:
            self.root[0, 7:] = torch.tensor(root)
            self.gym.set_actor_root_state_tensor(self.sim, gymtorch.unwrap_tensor(self.root))
        else:
            self.dof[0] = torch.tensor([pos, vel])
            self.gym.set_dof_state_tensor(self.sim, gymtorch.unwrap_tensor(self.dof))
        return self

    def drive(self, position: Optional[float] = None, velocity: Optional[float] = None) -> World:
        for name, value in (("position", position), ("velocity", velocity)):
            if value is not None:
                target = gymtorch.unwrap_tensor(torch.tensor([float(value)]))
                getattr(self.gym, f"set_dof_{name}_target_tensor")(self.sim, target)
        return self


def dof(**values: float) -> Callable[[World], None]:
    """Return a change of the first actor's DoF properties."""

    def change(world: World) -> None:
        props = world.gym.get_actor_dof_properties(world.env, 0)
        for name, value in values.items():
            props[name] = value
        world.gym.set_actor_dof_properties(world.env, 0, props)

    return change


def shapes(**values: float) -> Callable[[World], None]:
    """Return a change of the shapes of all actors."""

    def change(world: World) -> None:
        for actor in range(world.gym.get_actor_count(world.env)):
            props = world.gym.get_actor_rigid_shape_properties(world.env, actor)
            for shape in props:
                for name, value in values.items():
                    setattr(shape, name, value)
            world.gym.set_actor_rigid_shape_properties(world.env, actor, props)

    return change


@contextmanager
def cone(kind: str) -> Iterator[None]:
    before = os.environ.get("GYMAPI_MUJOCO_CONE")
    os.environ["GYMAPI_MUJOCO_CONE"] = kind
    try:
        yield
    finally:
        os.environ.pop("GYMAPI_MUJOCO_CONE")
        if before is not None:
            os.environ["GYMAPI_MUJOCO_CONE"] = before


# Motion

_EULER = "semi-implicit Euler, as PhysX's"


@case("fall: depth after 1 s", "m", G / 2, 0.026, f"{_EULER}: g dt / 2 in a second")
def _() -> float:
    return 10.0 - float(World(box(), 10.0).step(1.0).root[0, 2])


@case("fall: speed after 1 s", "m/s", G, 1e-4, "float32")
def _() -> float:
    return -float(World(box(), 10.0).step(1.0).root[0, 9])


@case("projectile: way at 3 m/s in 1 s", "m", 3.0, 1e-4, "float32")
def _() -> float:
    return float(World(box(), 10.0).start(root=[3, 0, 0, 0, 0, 0]).step(1.0).root[0, 0])


@case("spin of a ball at 20 rad/s after 2 s", "rad/s", 20.0, 1e-3, "float32")
def _() -> float:
    return float(World(ball(), gravity=0).start(root=[0, 0, 0, 0, 0, 20]).step(2.0).root[0, 12])


_PRECESSION = (0.05 - 0.03) / 0.03 * 4.0  # of a body with inertias of 0.03, 0.03 and 0.05 kg m^2 and 4 rad/s


@case("top without torques: angular velocity along x in its own frame after 0.5 s, 2 rad/s at first", "rad/s",
      2 * math.cos(_PRECESSION * 0.5), 0.05, _EULER)  # fmt: skip
def _() -> float:
    world = World(box(2.0, (0.03, 0.03, 0.05)), gravity=0).start(root=[0, 0, 0, 2, 0, 4]).step(0.5)
    x, y, z, w = world.root[0, 3:7].tolist()
    along_x = torch.tensor([1 - 2 * (y * y + z * z), 2 * (x * y + w * z), 2 * (x * z - w * y)])
    return float(world.root[0, 10:] @ along_x)


@case("tumbling box: kinetic energy after 5 s", "J", 0.5 * (0.02 * 3**2 + 0.03 * 1 + 0.045 * 2**2), 0.008, _EULER)
def _() -> float:
    world = World(box(2.0, (0.02, 0.03, 0.045)), gravity=0).start(root=[0, 0, 0, 3, 1, 2]).step(5.0)
    matrix = gymtorch.wrap_tensor(world.gym.acquire_mass_matrix_tensor(world.sim, "actor0"))
    return float(0.5 * world.root[0, 7:] @ matrix[0] @ world.root[0, 7:])


_PERIOD = 2 * math.pi * math.sqrt(ABOUT_HINGE / (MASS * G * LENGTH))


@case("pendulum: period, amplitude 0.05 rad", "s", _PERIOD * (1 + 0.05**2 / 16), 0.002, "read between two steps")
def _() -> float:
    world, crossings, before = World(arm(), fixed=True).start(pos=0.05), [], 0.05
    for i in range(round(5 * _PERIOD / DT)):
        now = float(world.step(DT).dof[0, 0])
        if before > 0 >= now:
            crossings.append((i + before / (before - now)) * DT)
        before = now
    return (crossings[-1] - crossings[0]) / (len(crossings) - 1)


@case("pendulum: amplitude after 20 s, 0.5 rad at first", "rad", 0.5, 0.01, f"{_EULER}; it neither grows nor decays")
def _() -> float:
    world = World(arm(), fixed=True).start(pos=0.5).step(20.0)
    return max(abs(float(world.step(DT).dof[0, 0])) for _ in range(round(_PERIOD / DT)))


@case("armature 0.1: acceleration by 1 N m", "rad/s^2", 1 / (ABOUT_HINGE + 0.1), 0.001, "float32")
def _() -> float:
    world = World(arm("0 0 1", f"{LENGTH} 0 0"), fixed=True, change=dof(armature=0.1))
    return float(world.step(DT, effort=1.0).dof[0, 1]) / DT


# Friction of shapes


def slips(angle: float, force: float, kind: str) -> bool:
    """Return whether a box of 2 kg slides by more than 1 mm in 0.5 s; friction 0.5 on both sides."""
    with cone(kind):
        world = World(box(), 0.1, ground=(0.5, 0.0), change=shapes(friction=0.5)).step(0.2)
        start = world.root[0, :2].clone()
        radians = math.radians(angle)
        world.step(0.5, pull=[force * math.cos(radians), force * math.sin(radians), 0])
        return float((world.root[0, :2] - start).norm()) > 1e-3


def threshold(angle: float, kind: str) -> float:
    """Return the coefficient at which a pull begins to move the box."""
    low, high = 0.2, 0.8
    while high - low > 0.002:
        middle = (low + high) / 2
        low, high = (low, middle) if slips(angle, middle * 2 * G, kind) else (middle, high)
    return (low + high) / 2


_PYRAMID = "a pyramid with four edges: in between it is the chord; GYMAPI_MUJOCO_CONE=elliptic"
_CREEP = "soft contacts creep"
for _angle in (0.0, 22.5, 45.0):
    _chord = 0.5 / (math.cos(math.radians(_angle)) + math.sin(math.radians(_angle)))
    for _kind, _tolerance, _reason in (
        ("pyramidal", 0.5 - _chord + 0.07, _PYRAMID if _angle else "it creeps below its limit"),
        ("elliptic", 0.01, _CREEP),
    ):
        CASES.append(
            Case(f"friction 0.5 at {_angle:g} degrees, {_kind} cone: pull / weight that moves a box", "1", 0.5,
                 _tolerance, _reason, lambda angle=_angle, kind=_kind: threshold(angle, kind))
        )  # fmt: skip


def slope(along: float, kind: str) -> float:
    """Return the angle at which a box begins to slide down a slope along a direction from x; friction 0.5 [degrees]."""
    low, high = 10.0, 35.0
    while high - low > 0.1:
        middle, radians = (low + high) / 2, math.radians(along)
        tilt = math.radians(middle)
        with cone(kind):  # gravity is turned instead of the ground
            world = World(box(), 0.1, ground=(0.5, 0.0), change=shapes(friction=0.5)).step(0.2)
            start, params = world.root[0, :2].clone(), world.gym.get_sim_params(world.sim)
            level = G * math.sin(tilt)
            params.gravity = gymapi.Vec3(level * math.cos(radians), level * math.sin(radians), -G * math.cos(tilt))
            world.gym.set_sim_params(world.sim, params)
            slides = float((world.step(0.5).root[0, :2] - start).norm()) > 1e-3
        low, high = (low, middle) if slides else (middle, high)
    return (low + high) / 2


for _kind, _along, _tolerance in (("elliptic", 0.0, 0.5), ("elliptic", 45.0, 0.5), ("pyramidal", 45.0, 8.5)):
    CASES.append(
        Case(f"friction 0.5: slope on which a box begins to slide, {_along:g} degrees from x, {_kind} cone", "degrees",
             math.degrees(math.atan(0.5)), _tolerance, _CREEP if _kind == "elliptic" else _PYRAMID,
             lambda along=_along, kind=_kind: slope(along, kind))
    )  # fmt: skip


def sliding(kind: str) -> World:
    """Return a box on a ground of friction 0.2 that has slid for 0.1 s at first with 2 m/s."""
    with cone(kind):
        world = World(box(), 0.1, ground=(0.2, 0.0), change=shapes(friction=1.0))
        return world.step(0.2).start(root=[2, 0, 0, 0, 0, 0]).step(0.1)


_LIFTED = "MuJoCo's contacts lift what slides fast, with either cone"
for _kind in ("pyramidal", "elliptic"):
    CASES.append(
        Case(f"friction, mean of 1.0 and 0.2, {_kind} cone: speed after 0.1 s, 2 m/s at first", "m/s", 2 - 0.06 * G,
             0.06, _LIFTED, lambda kind=_kind: float(sliding(kind).root[0, 7]))
    )  # fmt: skip
    CASES.append(
        Case(f"friction: lift of that box after 0.1 s, {_kind} cone", "mm", 0.0, 50.0, _LIFTED,
             lambda kind=_kind: 1000 * (float(sliding(kind).root[0, 2]) - 0.1))
    )  # fmt: skip


@case("friction: creep of a box pulled with 70 % of it", "mm/s", 0.0, 0.3, _CREEP)
def _() -> float:
    world = World(box(), 0.1, ground=(0.5, 0.0), change=shapes(friction=0.5)).step(0.3, pull=[0.35 * 2 * G, 0, 0])
    before = float(world.root[0, 0])
    return 1000 * (float(world.step(1.0, pull=[0.35 * 2 * G, 0, 0]).root[0, 0]) - before)


# Restitution


def rebound(shape: float, ground: float) -> float:
    """Return speed after over speed before, the mean of balls that fall from 0.3 to 1.2 m."""
    ratios = []
    for i in range(10):
        world = World(ball(), 0.4 + 0.1 * i, ground=(1.0, ground), change=shapes(restitution=shape))
        touched, fastest = False, 0.0
        for _ in range(300):
            before = float(world.root[0, 9])
            world.step(DT)
            touched |= float(world.root[0, 2]) < 0.1
            if not touched:
                fastest = -before + G * DT
            elif float(world.root[0, 2]) > 0.1:
                ratios.append(float(world.root[0, 9]) / fastest)
                break
        else:
            ratios.append(0.0)
    return sum(ratios) / len(ratios)


_STEPS = "the contact lasts a few time steps; mean of ten heights"
for _shape, _ground, _tolerance in ((0.0, 0.0, 0.2), (0.5, 0.5, 0.06), (0.8, 0.8, 0.05), (1.0, 0.0, 0.06)):
    CASES.append(
        Case(f"restitution {_shape:g} of the shape, {_ground:g} of the ground: speed after / before", "1",
             (_shape + _ground) / 2, _tolerance, _STEPS, lambda shape=_shape, ground=_ground: rebound(shape, ground))
    )  # fmt: skip


# Damping and friction of joints and bodies


@case("DoF damping 0.2: speed after 1 s, 3 rad/s at first", "rad/s", 3 * math.exp(-0.2 / ABOUT_HINGE), 0.005, _EULER)
def _() -> float:
    world = World(arm("0 0 1", f"{LENGTH} 0 0"), fixed=True, change=dof(damping=0.2))
    return float(world.start(vel=3.0).step(1.0).dof[0, 1])


@case("DoF stiffness 2 without a drive: angle by 0.5 N m", "rad", 0.25, 0.001, "settled")
def _() -> float:
    world = World(arm("0 0 1", f"{LENGTH} 0 0"), fixed=True, change=dof(damping=1.0, stiffness=2.0))
    return float(world.step(20.0, effort=0.5).dof[0, 0])


_TURNED = f"coefficient times the transmitted force, {MASS:g} kg times g, acts as N m, as in PhysX"


@case(
    "DoF friction 0.01: speed after 0.2 s, 3 rad/s at first",
    "rad/s",
    3 - 0.2 * 0.01 * MASS * G / INERTIA,
    0.05,
    _TURNED,
)
def _() -> float:
    return float(World(arm("0 0 1", "0 0 0"), fixed=True, change=dof(friction=0.01)).start(vel=3.0).step(0.2).dof[0, 1])


@case("DoF friction 0.01: angle after 1 s with 90 % of its torque", "mrad", 0.0, 2.0, _CREEP)
def _() -> float:
    world = World(arm("0 0 1", "0 0 0"), fixed=True, change=dof(friction=0.01)).step(DT)
    return 1000 * float(world.step(1.0, effort=0.009 * MASS * G).dof[0, 0])


@case("linear_damping 0.8: speed after 1 s, 3 m/s at first", "m/s", 3 * math.exp(-0.8), 0.005, "explicit in time")
def _() -> float:
    world = World(box(), gravity=0, linear_damping=0.8).start(root=[3, 0, 0, 0, 0, 0])
    return float(world.step(1.0).root[0, 7])


@case("angular_damping 0.5: spin after 1 s, 4 rad/s at first", "rad/s", 4 * math.exp(-0.5), 0.005, "explicit in time")
def _() -> float:
    world = World(box(), gravity=0, angular_damping=0.5).start(root=[0, 0, 0, 0, 0, 4])
    return float(world.step(1.0).root[0, 12])


@case("max_linear_velocity 2: speed after a fall of 1 s", "m/s", 2.0, G * DT + 1e-3, "one step of gravity above it")
def _() -> float:
    return -float(World(box(), 10.0, max_linear_velocity=2.0).step(1.0).root[0, 9])


@case("max_angular_velocity 5: spin, 20 rad/s at first", "rad/s", 5.0, 0.01, "reached after one step")
def _() -> float:
    world = World(box(), gravity=0, max_angular_velocity=5.0).start(root=[0, 0, 0, 0, 0, 20])
    return float(world.step(2 * DT).root[0, 12])


@case("link that overlaps its fixed base: acceleration by 1 N m", "rad/s^2", 1 / ABOUT_HINGE, 0.001, "float32")
def _() -> float:
    shape = '<collision><geometry><box size="0.2 0.2 0.2"/></geometry></collision></link>'
    return float(World(arm("0 0 1", f"{LENGTH} 0 0").replace("</link>", shape), fixed=True)
                 .step(DT, effort=1.0).dof[0, 1]) / DT  # fmt: skip


# Drives, limits, clipping


def driven(mode: int, **values: float) -> World:
    return World(arm("0 0 1", f"{LENGTH} 0 0"), fixed=True, change=dof(driveMode=mode, **values))


_POS, _VEL = int(gymapi.DOF_MODE_POS), int(gymapi.DOF_MODE_VEL)


@case("position drive 20 N m/rad: error under 1 N m", "rad", 1 / 20, 1e-4, "settled")
def _() -> float:
    return float(driven(_POS, stiffness=20.0, damping=3.0).drive(position=0.4).step(5.0, effort=1.0).dof[0, 0]) - 0.4


_W = math.sqrt(30 / ABOUT_HINGE)


@case("position drive, critically damped: angle after 0.1 s to 1 rad", "rad",
      1 - math.exp(-_W * 0.1) * (1 + _W * 0.1), 0.02, "implicit in time, as PhysX's")  # fmt: skip
def _() -> float:
    world = driven(_POS, stiffness=30.0, damping=2 * math.sqrt(30 * ABOUT_HINGE)).drive(position=1.0)
    return float(world.step(0.1).dof[0, 0])


@case("position drive 1e5 N m/rad, no damping: angle after 2 s to 0.5 rad", "rad", 0.5, 1e-3, "implicit: it is stable")
def _() -> float:
    return float(driven(_POS, stiffness=1e5, damping=0.0).drive(position=0.5).step(2.0).dof[0, 0])


_PLATE = f"""<robot name="plate"><link name="base">{inertial(5, [0.1] * 3)}</link>
  <joint name="lift" type="prismatic"><parent link="base"/><child link="plate"/><axis xyz="0 0 1"/>
    <limit effort="0" velocity="0"/></joint>
  <link name="plate">{inertial(0.1, [0.001] * 3)}
    <collision><geometry><box size="0.4 0.4 0.02"/></geometry></collision></link></robot>"""


@case("position drive 4000 N/m, 100 N s/m of a plate of 0.1 kg: sag 1 s after a box of 2 kg fell on it", "m",
      2.1 * G / 4000, 2e-4, "the drive is implicit for contacts too")  # fmt: skip
def _() -> float:
    def drop(world: World) -> None:
        dof(driveMode=_POS, stiffness=4000.0, damping=100.0)(world)
        options = gymapi.AssetOptions()
        options.density = 250.0
        load = world.gym.create_box(world.sim, 0.2, 0.2, 0.2, options)
        world.gym.create_actor(world.env, load, gymapi.Transform(gymapi.Vec3(0, 0, 1.3)), "load", 0, 0)

    return -float(World(_PLATE, 1.0, fixed=True, change=drop).drive(position=0.0).step(1.0).dof[0, 0])


@case("velocity drive 5 N m s/rad: speed after 1 s to 2 rad/s", "rad/s", 2.0, 1e-3, "settled")
def _() -> float:
    return float(driven(_VEL, damping=5.0).drive(velocity=2.0).step(1.0).dof[0, 1])


@case("drive with effort 2: acceleration", "rad/s^2", 2 / ABOUT_HINGE, 0.02, "float32")
def _() -> float:
    world = driven(_POS, stiffness=1000.0, damping=0.0, effort=2.0).drive(position=3.0)
    return float(world.step(0.05).dof[0, 1]) / 0.05


@case("effort 100 with a limit of 3: acceleration", "rad/s^2", 3 / ABOUT_HINGE, 0.02, "float32")
def _() -> float:
    world = World(arm("0 0 1", f"{LENGTH} 0 0", 'effort="3" velocity="0"'), fixed=True)
    return float(world.step(0.05, effort=100.0).dof[0, 1]) / 0.05


@case("limit of a DoF at 0.5 rad, pushed by 5 N m: angle", "rad", 0.5, 0.01, "limits are soft")
def _() -> float:
    world = World(arm("0 0 1", f"{LENGTH} 0 0", 'lower="-0.5" upper="0.5" effort="0" velocity="0"'), fixed=True)
    return float(world.step(2.0, effort=5.0).dof[0, 0])


@case("limit of a DoF's velocity, 3 rad/s, pushed by 5 N m: speed", "rad/s", 3.0, 1e-3, "after each simulate")
def _() -> float:
    world = World(arm("0 0 1", f"{LENGTH} 0 0", 'effort="0" velocity="3"'), fixed=True)
    return float(world.step(1.0, effort=5.0).dof[0, 1])


# Forces


@case("contact force of a box of 2 kg at rest", "N", 2 * G, 0.02, "settled to 1 in 1000")
def _() -> float:
    return float(World(box(), 0.1).step(1.0).force[0, 2])


@case("two boxes of 2 kg, one on the other: net force on the lower one", "N", 2 * G, 0.05, "settled")
def _() -> float:
    return float(World(box(), 0.1, actors=2).step(1.5).force[0, 2])


@case("applied force of 7 N on a free box of 2 kg: acceleration", "m/s^2", 3.5, 1e-4, "float32")
def _() -> float:
    return float(World(box(), gravity=0).step(0.1, pull=[7, 0, 0]).root[0, 7]) / 0.1


@case("force sensor below a box of 2 kg: constraint force", "N", 2 * G, 0.02, "settled")
def _() -> float:
    def sensor(world: World) -> None:
        props = gymapi.ForceSensorProperties()
        props.enable_forward_dynamics_forces = False
        world.gym.create_asset_force_sensor(world.asset, 0, gymapi.Transform(gymapi.Vec3(0, 0, -0.1)), props)

    world = World(box(), 0.1, change=sensor)
    tensor = gymtorch.wrap_tensor(world.gym.acquire_force_sensor_tensor(world.sim))
    world.step(1.0)
    world.gym.refresh_force_sensor_tensor(world.sim)
    return float(tensor[0, 2])


@case("attractor, 200 N/m: sag of a box of 2 kg", "m", 2 * G / 200, 0.005, "a soft equality constraint")
def _() -> float:
    def pull(world: World) -> None:
        props = gymapi.AttractorProperties()
        props.axes, props.stiffness, props.damping = gymapi.AXIS_TRANSLATION, 200.0, 40.0
        props.target = gymapi.Transform(gymapi.Vec3(0, 0, 5.0))
        world.gym.create_rigid_body_attractor(world.env, props)

    return 5.0 - float(World(box(), change=pull).step(3.0).root[0, 2])


# Jacobians and mass matrices


def moving() -> World:
    world = World(arm(), gravity=0)
    world.start(root=[0.3, -0.2, 0.5, 1.0, -2.0, 0.7])
    return world.start(pos=0.6, vel=1.5).refresh()


@case("Jacobian of the arm times velocities, against its velocity: largest error", "m/s, rad/s", 0.0, 1e-5, "float32")
def _() -> float:
    world = moving()
    matrix = gymtorch.wrap_tensor(world.gym.acquire_jacobian_tensor(world.sim, "actor0"))
    speeds = torch.cat([world.root[0, 7:], world.dof[:, 1]])
    return float((matrix[0] @ speeds - world.body[:, 7:]).abs().max())


@case("Jacobian of the arm against differences of its pose by 1e-3 rad: largest error", "m, rad", 0.0, 2e-3,
      "differences of first order")  # fmt: skip
def _() -> float:
    world = World(arm(), fixed=True).start(pos=0.6).refresh()
    matrix = gymtorch.wrap_tensor(world.gym.acquire_jacobian_tensor(world.sim, "actor0"))[0, -1, :, 0].clone()

    def pose(angle: float) -> torch.Tensor:
        x, y, z, qx, qy, qz, w = world.start(pos=angle).refresh().body[1, :7].double().tolist()
        at = torch.tensor([0.0, 0.0, -LENGTH], dtype=torch.float64)  # the centre of mass
        u = torch.tensor([qx, qy, qz], dtype=torch.float64)
        turned = at + 2 * torch.linalg.cross(u, torch.linalg.cross(u, at) + w * at)
        return torch.cat([torch.tensor([x, y, z], dtype=torch.float64) + turned, 2 * torch.atan2(u, torch.tensor(w))])

    return float((matrix - (pose(0.601) - pose(0.6)) / 1e-3).abs().max())


@case("mass matrix: kinetic energy of base and arm", "J", 0.0, 1e-5, "difference to the sum over the bodies")
def _() -> float:
    world = moving()
    matrix = gymtorch.wrap_tensor(world.gym.acquire_mass_matrix_tensor(world.sim, "actor0"))
    speeds = torch.cat([world.root[0, 7:], world.dof[:, 1]])
    masses, inertias = torch.tensor([5.0, MASS]), torch.tensor([0.1, INERTIA])  # balls: any orientation
    energy = 0.5 * (masses * world.body[:, 7:10].square().sum(1) + inertias * world.body[:, 10:].square().sum(1)).sum()
    return float(0.5 * speeds @ matrix[0] @ speeds - energy)


@case("mass matrix of a hinge on a fixed base", "kg m^2", ABOUT_HINGE, 1e-6, "float32")
def _() -> float:
    world = World(arm(), fixed=True)
    return float(gymtorch.wrap_tensor(world.gym.acquire_mass_matrix_tensor(world.sim, "actor0"))[0, 0, 0])


# Writes and orders


@case("root state written and read back: largest error", "m, m/s, rad/s", 0.0, 1e-6, "float32")
def _() -> float:
    world = World(arm())
    state = torch.tensor([[1.0, 2, 3, 0.5, 0.5, 0.5, 0.5, 0.1, 0.2, 0.3, -1, 2, -3]])
    world.gym.set_actor_root_state_tensor(world.sim, gymtorch.unwrap_tensor(state))
    return float((world.refresh().root - state).abs().max())


@case("position of an actor at the origin of an environment at 4 m", "m", 0.0, 0.0, "relative to its environment")
def _() -> float:
    def second(world: World) -> None:
        env = world.gym.create_env(world.sim, gymapi.Vec3(-2, -2, 0), gymapi.Vec3(2, 2, 2), 2)
        world.gym.create_actor(env, world.asset, gymapi.Transform(), "actor0", 0, 0)

    return float(World(box(), change=second).root[-1, :2].abs().max())


@case("indexed write of one actor of two: movement of the other", "m", 0.0, 0.0, "")
def _() -> float:
    world = World(box(), actors=2)
    before, state = world.root.clone(), world.root + 1.0
    index = gymtorch.unwrap_tensor(torch.tensor([1], dtype=torch.int32))
    world.gym.set_actor_root_state_tensor_indexed(world.sim, gymtorch.unwrap_tensor(state), index, 1)
    return float((world.refresh().root[0] - before[0]).abs().max())


@case("quaternion of a turn by 90 degrees about z: its last number, w", "1", math.sqrt(0.5), 1e-6, "order x y z w")
def _() -> float:
    world = World(box(), gravity=0).start(root=[0, 0, 0, 0, 0, math.pi / 2]).step(1.0)
    return float(world.root[0, 6])


@case("order of bodies and DoFs: names out of place", "1", 0.0, 0.0, "depth first, children by the joint's name")
def _() -> float:
    joints = [("z", "base", "c"), ("a", "base", "d"), ("b", "d", "e")]
    links = "".join(f'<link name="{name}">{inertial(1, [0.1] * 3)}</link>' for name in ("base", "c", "d", "e"))
    text = "".join(
        f'<joint name="{name}" type="continuous"><parent link="{parent}"/><child link="{child}"/></joint>'
        for name, parent, child in joints
    )
    world = World(f'<robot name="tree">{links}{text}</robot>')
    found = world.gym.get_asset_rigid_body_names(world.asset) + world.gym.get_asset_dof_names(world.asset)
    return float(sum(name != wanted for name, wanted in zip(found, ["base", "d", "e", "c", "a", "b", "z"])))


# The table


def rows(cases: Sequence[Case]) -> Iterator[tuple]:
    """Measure; yield each case, what was got, and whether it is within its tolerance."""
    for one in cases:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            got = one.measure()
        yield one, got, abs(got - one.expected) <= one.tolerance


def number(value: float) -> str:
    return "0" if abs(value) < 5e-8 else f"{value:.4g}"


def line(one: Case, got: float) -> str:
    """Return a row of the table."""
    values = (one.expected, got, got - one.expected, one.tolerance)
    return f"| {one.name} | {one.unit} | {' | '.join(number(value) for value in values)} | {one.reason} |"


HEAD = "| quantity | unit | expected | got | deviation | tolerance | reason |\n|---|---|---|---|---|---|---|"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("words", nargs="*", help="only rows whose name contains one of these")
    words = parser.parse_args().words
    chosen = [one for one in CASES if not words or any(word in one.name for word in words)]
    if not chosen:
        parser.error(f"no row contains {' or '.join(words)}")
    print(HEAD)
    worst = 0
    for one, got, good in rows(chosen):
        print(line(one, got) + ("" if good else " **beyond the tolerance**"), flush=True)
        worst |= not good
    return worst


if __name__ == "__main__":
    sys.exit(main())
