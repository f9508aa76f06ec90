"""State of N robots after a control step, the input of all terms of a task."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Optional, Sequence, Tuple, Type, TypeVar, Union

import torch
from torch import Tensor

from rsl_rl.robots.robot import Names, Robot
from rsl_rl.sim.base import LinkStates, RobotPoseVel, Sim
from rsl_rl.terrain.ground import ScanGrid, ground_of
from rsl_rl.utils.tensors import ColumnSelector, heading, rotate_inverse, rows_on_cpu, turn

P = TypeVar("P")

_STORED = (
    "command",
    "action",
    "previous_action",
    "last_joint_vel",
    "foot_contact",
    "foot_touchdown",
    "air_time",
    "friction",
    "payload",
    "_touching",
)
"""Attributes that the next step depends on."""


_FAR_BEYOND = 0.5
"""Distance beyond a joint's range [rad] that no default pose has; one in degrees has more."""


class RobotState:
    """Quantities of N robots with J joints and F feet, refreshed once per control step.

    SI units. The base frame is the trunk's: x forward, y left, z up. Heights are above the ground underneath.
    """

    def __init__(self, sim: Sim, robot: Robot, control_dt: float, dead_zone: float = 0.1):
        self.sim, self.robot = sim, robot
        self.ground, self.scan_grid = ground_of(sim.ground, sim.device), ScanGrid(sim.device)
        self._scans: Dict[bool, Tensor] = {}  # of this control step, with and without errors
        self.control_dt, self.dead_zone = control_dt, dead_zone  # [s]; [m/s] and [rad/s]
        num_envs, num_joints, num_feet = sim.num_envs, len(sim.joint_names), len(sim.foot_names)
        angles = robot.default_joint_pos
        if len(angles) != num_joints:
            raise ValueError(
                f"default_joint_pos has {len(angles)} angles, but {robot.model_path} has {num_joints} joints; give one "
                f"for each of {', '.join(sim.joint_names)}"
            )
        for name, angle, (low, high) in zip(sim.joint_names, angles, sim.joint_limits.tolist()):
            if not low - _FAR_BEYOND <= angle <= high + _FAR_BEYOND:
                raise ValueError(
                    f"default_joint_pos of {name} is {angle:g} rad, outside its range of {low:.3g} to {high:.3g} rad; "
                    "correct env.control.default_joint_pos, or default_joint_pos of the robot, and give radians"
                )
        self.default_joint_pos = torch.tensor(angles, device=sim.device)  # [J]

        def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(num_envs, *shape, dtype=dtype, device=sim.device)

        self.commands: Dict[str, Tensor] = {"velocity": zeros(3)}  # [N, k] of each term of env.commands
        self.unlimited_command: Optional[Tensor] = None  # [N, 3] see requested_command; None without limits
        self.action = zeros(num_joints)  # [N, J] the last one taken
        self.previous_action = zeros(num_joints)  # [N, J] the one before
        self.last_joint_vel = zeros(num_joints)  # [N, J] one control step ago
        self.joint_acc = zeros(num_joints)  # [N, J] of the last control step [rad/s^2]
        self.foot_contact = zeros(num_feet, dtype=torch.bool)  # [N, F] now or one step ago, as a filter
        self.foot_touchdown = zeros(num_feet, dtype=torch.bool)  # [N, F] a swing ended in this step
        self.air_time = zeros(num_feet)  # [N, F] of the current swing; at a touchdown, of the swing that ended [s]
        self.moving = zeros()  # [N] 1 if the command of the last step was a motion, else 0
        self.friction = zeros()  # [N] randomised parameters, for the critic
        self.payload = zeros()  # [N] [kg]
        self.scan_error = zeros(3)  # [N, 3] of the height scan: its shift along x and y, and added to each height [m]
        self.timed_out = zeros(dtype=torch.bool)  # [N] the episode ends in this step without a fall
        self.parameters: Dict[str, Tensor] = {}  # [N, k] what each event of rsl_rl.tasks.mdp.randomization has drawn
        self._touching = zeros(num_feet, dtype=torch.bool)
        lower, upper = sim.joint_limits.unbind(dim=1)
        self.joint_middle = sim.joint_limits.mean(dim=1)  # [J] centre of the joint's range [rad]
        self.joint_half_range = (upper - lower) / 2  # [J] [rad]
        self._contact_strength = zeros(len(sim.link_names))  # [N, L] size of the floor's force in the last step [N]
        self._kinematics: Dict[Tuple[str, ...], Callable[[RobotPoseVel], LinkStates]] = {}
        self._link_states: Dict[Tuple[str, ...], LinkStates] = {}  # of this control step
        self._parts: Dict[type, Any] = {}  # see ``part``
        self._selectors: Dict[Tuple[str, Names], ColumnSelector] = {}  # of joints, feet, and links that report contact
        self._down = torch.tensor([0.0, 0.0, -1.0], device=sim.device).expand(num_envs, 3)
        self.refresh_pose()

    @property
    def command(self) -> Tensor:
        """Commanded vx, vy [m/s] and yaw rate [rad/s] in the base frame, [N, 3]."""
        return self.commands["velocity"]

    @command.setter
    def command(self, value: Tensor) -> None:
        self.commands["velocity"] = value

    @property
    def requested_command(self) -> Tensor:
        """The velocity command before its acceleration is limited, [N, 3]; ``command`` itself without limits."""
        return self.command if self.unlimited_command is None else self.unlimited_command

    def command_of(self, name: str) -> Tensor:
        """Return the command [N, k] of a term of env.commands.terms; without the term a ValueError."""
        if name not in self.commands:
            raise ValueError(f"a term needs the command '{name}'; add it to env.commands.terms")
        return self.commands[name]

    @property
    def planar_velocity(self) -> Tensor:
        """What the velocity command asks for: forward and left [m/s] and yaw rate [rad/s] in the base frame, [N, 3]."""
        return torch.cat((self.base_lin_vel[:, :2], self.base_ang_vel[:, 2:]), dim=1)

    def commands_motion(self) -> Tensor:
        """Return 1 for robots whose command is larger than the dead zone, else 0, [N]."""
        return (self.command.square().sum(dim=1) > self.dead_zone**2).float()

    def set_parameter(self, name: str, value: Tensor) -> None:
        """Store a randomised parameter [N, k] for observations; friction and payload have attributes of their own."""
        self.parameters[name] = value
        if name in ("friction", "payload"):
            setattr(self, name, value[:, 0])

    @property
    def sensed_joint_offset(self) -> Tensor:
        """Joint angles that the encoders report less those of the default pose [N, J] [rad]."""
        return self._with_encoder_offset(self.joint_offset)

    @property
    def sensed_joint_pos(self) -> Tensor:
        """Joint angles that the encoders report [N, J] [rad]."""
        return self._with_encoder_offset(self.sim.joint_pos)

    def _with_encoder_offset(self, angles: Tensor) -> Tensor:
        """Add the offsets of the encoders to joint angles [N, J] [rad]."""
        offset = self.parameters.get("encoder_offset")
        return angles if offset is None else angles + offset

    def state_dict(self) -> Dict[str, Any]:
        """Return the part of the state that cannot be computed from the simulation."""
        parameters = {name: value.clone() for name, value in self.parameters.items()}
        stored = {name: getattr(self, name).clone() for name in _STORED}
        return {**stored, **({"parameters": parameters} if parameters else {})}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned; restore the simulation before."""
        for name in _STORED:
            setattr(self, name, state[name].to(self.sim.device, copy=True))
        for name, value in state.get("parameters", {}).items():
            if name in self.parameters:  # others belong to events that the task has no more
                self.parameters[name] = value.to(self.sim.device, copy=True)
        self.refresh_pose()
        self._scans.clear()

    def refresh_pose(self) -> None:
        """Update the attributes that depend on the simulation only; call it after a step, a reset and an event."""
        sim = self.sim
        self._link_states.clear()
        self.base_lin_vel = rotate_inverse(sim.root_quat, sim.root_lin_vel)  # [N, 3] base frame
        self.base_ang_vel = sim.root_ang_vel  # [N, 3] base frame
        self.gravity = rotate_inverse(sim.root_quat, self._down)  # [N, 3] unit vector of gravity in the base frame
        self.base_height = self.ground.height_above(sim.root_pos)  # [N] of the trunk's origin [m]
        self.joint_pos = sim.joint_pos  # [N, J]
        self.joint_offset = sim.joint_pos - self.default_joint_pos  # [N, J]
        self.joint_vel = sim.joint_vel  # [N, J]
        self.joint_torque = sim.joint_torque  # [N, J]
        self.foot_pos = sim.foot_pos  # [N, F, 3] world
        self.foot_height = self.ground.height_above(sim.foot_pos)  # [N, F] of the foot's centre [m]
        self.foot_vel = sim.foot_vel  # [N, F, 3] world
        self.foot_up = sim.foot_up  # [N, F, 3] z axis of the feet, world; [N, 0, 3] if the model has no sensor of it
        self.foot_force = self.contact_force(sim.foot_names)  # [N, F, 3] world

    def trunk_above_scan(self, with_error: bool) -> Tensor:
        """Return the height of the trunk above the ground at the points of the height scan [m], [N, points].

        It is computed once in a control step, and again for robots that are reset.
        """
        if with_error not in self._scans:
            self._scans[with_error] = self._scan(slice(None), with_error)
        return self._scans[with_error]

    def _scan(self, robots: Union[slice, Tensor], with_error: bool) -> Tensor:
        position, direction = self.sim.root_pos[robots], heading(self.sim.root_quat[robots])
        middle, height = position[:, :2], position[:, 2:]
        if with_error:
            shift, bias = self.scan_error[robots].split([2, 1], dim=1)
            middle, height = middle + turn(direction, shift), height - bias
        return height - self.ground.height_at(*self.scan_grid(middle, direction))

    def _update_scans(self, mask: Tensor) -> None:
        """Compute the height scans of robots marked in mask [N] again, or of all robots when they are read."""
        robots = rows_on_cpu(mask) if self._scans else None
        if robots is None:
            self._scans.clear()
            return
        for with_error, scan in self._scans.items():
            scan[robots] = self._scan(robots, with_error)

    def contact_force(self, links: Tuple[str, ...]) -> Tensor:
        """Return the contact force on each of the links after the last step, [N, len(links), 3] in world axes [N]."""
        return self._columns_of(links)(self.sim.contact_force)

    def contact_strength(self, links: Tuple[str, ...]) -> Tensor:
        """Return the norm of the contact force on each of the links after the last step, before resets, in newtons,
        [N, len(links)]."""
        return self._columns_of(links)(self._contact_strength)

    def link_pos(self, links: Tuple[str, ...]) -> Tensor:
        """Return the positions of the origins of links, [N, len(links), 3] in world axes [m]."""
        return self.links(links).pos

    def link_vel(self, links: Tuple[str, ...]) -> Tensor:
        """Return the velocities of the origins of links, [N, len(links), 3] in world axes [m/s]."""
        return self.links(links).vel

    def link_turn(self, links: Tuple[str, ...]) -> Tensor:
        """Return the rotations from links to the world, [N, len(links), 3, 3]; a column is an axis of the link."""
        return self.links(links).turn

    def links(self, links: Tuple[str, ...]) -> LinkStates:
        """Return the states of links, or of feet by their names."""
        if links not in self._link_states:
            self._link_states[links] = self.kinematics(links)(self.sim.pose_vel())
        return self._link_states[links]

    def in_base(self, points: Tensor) -> Tensor:
        """Return points [N, P, 3] of the world in the base frame, one after the other [N, 3 P]."""
        quat = self.sim.root_quat.repeat_interleave(points.shape[1], dim=0)
        return rotate_inverse(quat, (points - self.sim.root_pos.unsqueeze(1)).flatten(0, 1)).view(len(points), -1)

    def kinematics(self, links: Tuple[str, ...]) -> Callable[[RobotPoseVel], LinkStates]:
        """Return a function that computes the states of links of this robot in another state of its joints and its
        trunk."""
        if links not in self._kinematics:
            self._kinematics[links] = self.sim.link_kinematics(links)
        return self._kinematics[links]

    def add_part(self, part: Any) -> None:
        """Let terms find an object by its class, such as what a command source knows beyond the numbers of its
        command."""
        self._parts[type(part)] = part

    def part(self, kind: Type[P]) -> P:
        """Return the object of a class that :meth:`add_part` was given; without one a ValueError."""
        if kind not in self._parts:
            raise ValueError(f"a term needs a {kind.__name__}; add the command source of it to env.commands.terms")
        return self._parts[kind]

    def has_part(self, kind: type) -> bool:
        """Return whether there is an object of a class."""
        return kind in self._parts

    def joints(self, x: Tensor, names: Names) -> Tensor:
        """Return the columns of x [N, J, ...] of joints; ``names`` are groups of the robot or regular expressions."""
        return self._select("joints", names, lambda: self.robot.joint_indices(names, self.sim.joint_names))(x)

    def feet(self, x: Tensor, names: Names) -> Tensor:
        """Return the columns of x [N, F, ...] of feet; ``names`` are groups of the robot or regular expressions."""
        return self._select("feet", names, lambda: self.robot.foot_indices(names, self.sim.foot_names))(x)

    def _columns_of(self, links: Tuple[str, ...]) -> ColumnSelector:
        return self._select("links", links, lambda: self.sim.link_indices(links).tolist())

    def _select(self, kind: str, names: Names, find: Callable[[], Sequence[int]]) -> ColumnSelector:
        """Return the selector of the columns that ``find`` finds, which is called for new names only."""
        key = (kind, names)
        if key not in self._selectors:
            self._selectors[key] = ColumnSelector(find(), self.sim.device)
        return self._selectors[key]

    def refresh(self) -> None:
        """Update all attributes after a control step."""
        self.refresh_pose()
        self._scans.clear()
        self._contact_strength = _length(self.sim.contact_force)
        self.moving = self.commands_motion()
        self.joint_acc = (self.joint_vel - self.last_joint_vel) / self.control_dt
        touching = self.foot_force[:, :, 2] > 1.0
        contact = touching | self._touching
        self._touching = touching
        self.air_time = self.air_time.masked_fill(self.foot_contact, 0.0).add_(self.control_dt)
        self.foot_touchdown = contact & ~self.foot_contact
        self.foot_contact = contact

    def end_step(self) -> None:
        """Store values that the next step needs."""
        self.last_joint_vel.copy_(self.joint_vel)

    def reset(self, mask: Tensor) -> None:
        """Clear the history of the robots marked in mask [N]; call ``refresh_pose`` afterwards."""
        column = mask.unsqueeze(1)
        for tensor in (self.action, self.previous_action, self.air_time, self.last_joint_vel):
            tensor.masked_fill_(column, 0.0)
        self.foot_contact = self.foot_contact | column
        self._touching = self._touching | column
        self._update_scans(mask)


def _length(x: Tensor) -> Tensor:
    """Return the lengths [...] of vectors [..., 3]; ``norm`` is slow on a CPU."""
    first, second, third = x.unbind(dim=-1)
    return torch.addcmul(torch.addcmul(first.square(), second, second), third, third).sqrt_()
