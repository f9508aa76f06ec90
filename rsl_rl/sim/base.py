"""The interface of physics engines, and the choice of one. To add an engine, see docs/engines.md."""

from __future__ import annotations

import importlib.util
import os
from abc import ABC, abstractmethod
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.config.sim import SimConfig
from rsl_rl.sim import SIMS
from rsl_rl.utils.height_field import HeightField

PARAMETERS: Dict[str, str] = {
    "friction": "",  # sliding friction between floor and robot
    "restitution": "",  # speed after an impact on the floor over the speed before it
    "payload": "",  # mass added to the trunk [kg]
    "link_mass": "bodies",  # factor of the mass and inertia of each link
    "trunk_com": "vector",  # displacement of the trunk's centre of mass in the base frame [m]
    "stiffness": "joints",  # proportional gain [N m/rad]
    "damping": "joints",  # derivative gain [N m s/rad]
    "motor_strength": "joints",  # factor of the torque of each joint, its limit included
    "torque_limit": "joints",  # largest torque of each joint [N m]
    "armature": "joints",  # inertia of each joint's rotor [kg m^2]
    "joint_friction": "joints",  # dry friction of each joint [N m]
    "gravity": "vector",  # gravity in the world frame [m/s^2]
    "trunk_force": "vector",  # force on the trunk's centre of mass in the world frame [N]
}
"""Parameters of each robot that an engine can change, and their sizes: one number, one for each of "joints" or
"bodies", or a "vector" x, y, z. An engine may lack some."""

AUTO = "auto"

_SINGLE_INSTANCE = ("isaacgym",)
"""Engines that allow one simulation per process."""

_ON_GPU = {"mujoco_warp": "mujoco_warp", "isaacgym": "isaacgym"}
"""Engines that run on a GPU, and the package of each."""

_OUTPUTS = ("joint_torque", "contact_force", "foot_pos", "foot_vel", "foot_up", "diverged", "overflowed")
"""Outputs of the last step besides the state."""


class RobotPoseVel(NamedTuple):
    """Pose and velocity of robots; frames and units are those of :class:`Sim`."""

    root_pos: Tensor  # [N, 3]
    root_quat: Tensor  # [N, 4]
    root_lin_vel: Tensor  # [N, 3]
    root_ang_vel: Tensor  # [N, 3]
    joint_pos: Tensor  # [N, J]
    joint_vel: Tensor  # [N, J]


class LinkStates(NamedTuple):
    """States of L links, of their origins, in world axes."""

    pos: Tensor  # [N, L, 3] m
    vel: Tensor  # [N, L, 3] m/s
    turn: Tensor  # [N, L, 3, 3] rotations from link to world; a column is an axis of the link
    ang_vel: Tensor  # [N, L, 3] rad/s


Drive = Callable[[int], Tensor]
"""Function that returns the joint targets [rad], or torques [N m], of a physics step from its index, [N, J]."""


class Sim(ABC):
    """N copies of one legged robot on a floor, which is the plane z = 0 or a height field.

    SI units and radians. Quaternions are w x y z and turn body coordinates into world coordinates. The world's z axis
    points up. State tensors are float32 on ``device``; ``step`` and the writing methods update them in place, so make a
    copy to compare with later. Joints are in the order of ``joint_names``, links with contact sensors in that of
    ``link_names``, and feet in that of ``foot_names``.
    """

    engine: str  # name of the backend
    num_envs: int
    device: torch.device
    ground: Optional[HeightField] = None  # None: the plane z = 0
    dt: float  # physics step [s]
    joint_names: Tuple[str, ...]
    link_names: Tuple[str, ...]
    foot_names: Tuple[str, ...]
    body_names: Tuple[str, ...]  # links with mass, the trunk first
    joint_limits: Tensor  # [J, 2] lowest and highest position
    torque_limits: Tensor  # [J]
    total_mass: Tensor  # [N], including the payload

    root_pos: Tensor  # [N, 3] world
    root_quat: Tensor  # [N, 4]
    root_lin_vel: Tensor  # [N, 3] world
    root_ang_vel: Tensor  # [N, 3] body
    joint_pos: Tensor  # [N, J]
    joint_vel: Tensor  # [N, J]
    joint_torque: Tensor  # [N, J] applied in the last physics step
    contact_force: Tensor  # [N, links, 3] of the floor on the link, world, in the last physics step
    foot_pos: Tensor  # [N, feet, 3] centre of the foot, world, before the last physics step
    foot_vel: Tensor  # [N, feet, 3] world, before the last physics step
    foot_up: Tensor  # [N, feet, 3] z axis of the foot, world, likewise; [N, 0, 3] if the model has no sensor of it
    diverged: Tensor  # [N] bool: the physics diverged in the last step; the state is the engine's default until a reset
    overflowed: Tensor  # [N] bool: contacts of the last step did not fit the engine's buffer, so the physics is wrong

    _parameters: Dict[str, Tensor]  # of each robot, as set
    _takes_torques: bool = False  # whether ``step`` and ``step_each`` get torques

    def _allocate(self) -> None:
        """Allocate all tensors, with zeros; names, number of robots and device must be set before.

        An engine with other state tensors overrides ``state_buffers``.
        """

        def tensor(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(self.num_envs, *shape, dtype=dtype, device=self.device)

        joints, links, feet = len(self.joint_names), len(self.link_names), len(self.foot_names)
        sizes = (3, 4, 3, 3, joints, joints)
        self._state_buffer = torch.zeros(self.num_envs * sum(sizes), device=self.device)
        blocks = self._state_buffer.split([self.num_envs * size for size in sizes])
        for name, size, block in zip(RobotPoseVel._fields, sizes, blocks):
            setattr(self, name, block.view(self.num_envs, size))
        self.joint_torque = tensor(joints)
        self.contact_force = tensor(links, 3)
        self.foot_pos, self.foot_vel, self.foot_up = tensor(feet, 3), tensor(feet, 3), tensor(feet, 3)
        self.diverged, self.overflowed = tensor(dtype=torch.bool), tensor(dtype=torch.bool)
        self._parameters = {}
        self._nominal: Dict[str, Tensor] = {}

    def pose_vel(self) -> RobotPoseVel:
        """Return the state tensors, which the next ``step`` updates."""
        return RobotPoseVel._make(getattr(self, name) for name in RobotPoseVel._fields)

    def state_buffers(self) -> Sequence[Tensor]:
        """Return the tensors that contain all values of ``pose_vel()``, of any shape."""
        return (self._state_buffer,)

    @abstractmethod
    def step(self, joint_targets: Tensor, num_substeps: int) -> None:
        """Simulate ``num_substeps`` physics steps with constant joint position targets [N, J] of the PD loops."""

    @abstractmethod
    def step_each(self, drive: Drive, num_substeps: int) -> None:
        """Simulate ``num_substeps`` physics steps. Before each, when the state is up to date, ``drive(i)`` returns its
        joint targets, or its torques after ``use_torques``."""

    @abstractmethod
    def use_torques(self) -> None:
        """Take torques instead of joint targets from now on; there is no PD loop in the engine then."""

    @abstractmethod
    def reset(self, mask: Tensor, pose_vel: RobotPoseVel) -> None:
        """Reset the robots marked in mask [N] to the given pose and velocity; rows of the others are ignored."""

    @abstractmethod
    def set_root_velocity(self, mask: Tensor, lin_vel: Tensor, ang_vel: Tensor) -> None:
        """Set the velocity of the trunk (world; body) of the robots marked in mask [N], for pushes."""

    # State for checkpoints and replays.

    def state_dict(self) -> Dict[str, Any]:
        """Return everything that the next steps depend on, including the parameters of each robot."""
        return {
            "state": self.physics_state(),
            "outputs": {name: getattr(self, name).clone() for name in _OUTPUTS},
            "parameters": {name: value.clone() for name, value in self._parameters.items()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned; another shape of a tensor is a ValueError."""
        require_same_shapes(state, self.state_dict(), "the saved state of the physics")
        self.set_parameters(state["parameters"])
        self.set_physics_state(state["state"])
        for name, value in state["outputs"].items():
            getattr(self, name).copy_(value)

    @abstractmethod
    def physics_state(self, out: Optional[Tensor] = None) -> Tensor:
        """Return the state that the next ``step`` depends on, without targets and parameters, [N, S]; in ``out`` if
        given."""

    @abstractmethod
    def set_physics_state(self, state: Tensor) -> None:
        """Set the states [N, S] of all robots to a result of :meth:`physics_state`."""

    # Parameters of each robot; the defaults are those of the model file.

    def parameters(self) -> Dict[str, Tensor]:
        """Return the values that were set, by the names of PARAMETERS; do not write to them."""
        return dict(self._parameters)

    def parameters_of(self, robot: int) -> Dict[str, Tensor]:
        """Return the values that were set for a robot."""
        return {name: value[robot].clone() for name, value in self._parameters.items()}

    def set_parameters(self, parameters: Mapping[str, Tensor]) -> None:
        """Set parameters by the names of PARAMETERS, each [N, ...]; stiffness and damping together."""
        given = {name: value.to(self.device) for name, value in parameters.items()}
        if "stiffness" in given:
            self.set_gains(given.pop("stiffness"), given.pop("damping"))
        for name, value in given.items():
            self.require_parameter(name)
            self._setters()[name](value)

    def require_parameter(self, name: str, where: str = "") -> None:
        """Raise a ValueError if this engine cannot set a parameter; ``where`` is the path of the term that needs it."""
        known = {"stiffness", "damping", *self._setters()}
        if name not in known:
            term = f"{where}: " if where else ""
            raise ValueError(
                f"{term}the engine '{self.engine}' cannot set '{name}'; it sets {', '.join(sorted(known))}. Remove the "
                "term, or choose another engine with --sim"
            )

    def shape_of_parameter(self, name: str) -> Tuple[int, ...]:
        """Return the shape of a parameter of one robot."""
        sizes = {"": (), "joints": (len(self.joint_names),), "bodies": (len(self.body_names),), "vector": (3,)}
        return sizes[PARAMETERS[name]]

    def nominal_parameter(self, name: str) -> Tensor:
        """Return the value of a parameter without randomisation, of the shape of one robot."""
        shape = self.shape_of_parameter(name)
        if name not in self._nominal:
            self._nominal[name] = torch.as_tensor(self._model_value(name), device=self.device).float().expand(shape)
        return self._nominal[name]

    def _store(self, **values: Tensor) -> None:
        """Store parameters [N, ...] as set; an unknown name or another shape is a ValueError."""
        for name, value in values.items():
            shape = [self.num_envs, *self.shape_of_parameter(name)]
            if list(value.shape) != shape:
                raise ValueError(f"the parameter '{name}' has the shape {list(value.shape)}; give {shape}")
            self._parameters[name] = value.clone()

    @abstractmethod
    def _setters(self) -> Dict[str, Callable[[Tensor], None]]:
        """Return the function that sets each parameter that the engine can set, but the gains."""

    @abstractmethod
    def _model_value(self, name: str) -> Any:
        """Return the value of a parameter in the model file, a number or an array."""

    @abstractmethod
    def set_friction(self, friction: Tensor) -> None:
        """Set the sliding friction [N] between floor and robot."""

    @abstractmethod
    def set_root_payload(self, mass: Tensor) -> None:
        """Add mass [N] in kg to the trunk; negative values remove mass."""

    @abstractmethod
    def set_gains(self, stiffness: Tensor, damping: Tensor) -> None:
        """Set the PD gains [N, J] of the joints: N m/rad and N m s/rad."""

    def link_kinematics(self, names: Sequence[str]) -> Callable[[RobotPoseVel], LinkStates]:
        """Return a function that computes the states of links, or of feet by ``foot_names``. An unknown name is a
        ValueError."""
        raise ValueError(f"the engine '{self.engine}' does not give the state of links; take mujoco or mujoco_warp")

    def link_indices(self, names: Sequence[str]) -> Tensor:
        """Return the indices of links in ``contact_force``; an unknown name is a ValueError."""
        unknown = [name for name in names if name not in self.link_names]
        if unknown:
            raise ValueError(f"unknown links {unknown}; this model reports contact of {', '.join(self.link_names)}")
        return torch.tensor([self.link_names.index(name) for name in names], dtype=torch.long, device=self.device)


def require_same_shapes(saved: Any, own: Any, name: str) -> None:
    """Raise a ValueError if a tensor of a saved state of physics has another shape than the same entry of ``own``.

    Entries that only one of the two nested dicts has are left to who loads them. ``name`` is that of ``saved``.
    """
    if isinstance(own, Mapping) and isinstance(saved, Mapping):
        for key, value in own.items():
            if key in saved:
                require_same_shapes(saved[key], value, f"{name}.{key}")
    elif isinstance(own, Tensor) and isinstance(saved, Tensor) and saved.shape != own.shape:
        raise ValueError(
            f"{name} has the shape {list(saved.shape)} and this simulation needs {list(own.shape)}; use the number of "
            "robots, the model and the engine of the run, or load it with load_env=False (--fresh_episodes)"
        )


class Backend(NamedTuple):
    """An engine and its device."""

    engine: str
    device: str

    def __str__(self) -> str:
        return f"{self.engine} on {self.device}"


def choose_backend(engine: str = AUTO, device: str = AUTO) -> Backend:
    """Resolve "auto": MuJoCo Warp if there is a GPU and the package, otherwise MuJoCo on the CPU."""
    gpu = torch.cuda.is_available()
    if device == AUTO:
        wanted = engine if engine != AUTO else "mujoco_warp"
        device = "cuda:0" if gpu and wanted in _ON_GPU and _installed(wanted) else "cpu"
    if engine == AUTO:
        engine = "mujoco" if device.startswith("cpu") else "mujoco_warp"
    return Backend(engine, device)


def is_available(backend: Backend) -> bool:
    """Return whether this machine has the engine and its device, and the engine allows several simulations, as
    evaluation and playback need."""
    return backend.engine not in _SINGLE_INSTANCE and _installed(backend.engine) and has_device(backend.device)


def has_device(device: str) -> bool:
    """Return whether this machine has a device."""
    wanted = torch.device(device)
    return wanted.type != "cuda" or (wanted.index or 0) < torch.cuda.device_count()


def _installed(engine: str) -> bool:
    return engine not in _ON_GPU or importlib.util.find_spec(_ON_GPU[engine]) is not None


def make_sim(
    model_path: Union[str, os.PathLike],
    num_envs: int,
    cfg: SimConfig,
    device: str,
    ground: Optional[HeightField] = None,
) -> Sim:
    """Build the simulation with the engine of a config; "auto" depends on the device. No ground is a plane."""
    return SIMS.load(choose_backend(cfg.backend, device).engine)(model_path, num_envs, cfg, device, ground)
