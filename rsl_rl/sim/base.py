"""What a task may ask of physics, in a roboticist's terms."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor


class Sim(ABC):
    """N copies of one legged robot on a floor.

    SI units and radians. Quaternions are w x y z and turn body coordinates into world coordinates. The world's z axis
    points up. State tensors are float32 on ``device``; ``step`` and the writing methods refresh them in place, so keep
    a copy of what you want to compare with later. Joints are in the order of ``joint_names``, links that report contact
    in that of ``link_names``, and feet in that of ``foot_names``.
    """

    num_envs: int
    device: torch.device
    dt: float  # physics step [s]
    joint_names: Tuple[str, ...]
    link_names: Tuple[str, ...]
    foot_names: Tuple[str, ...]
    joint_limits: Tensor  # [J, 2] lowest and highest position
    torque_limits: Tensor  # [J]
    total_mass: Tensor  # [N], with what randomisation added

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
    diverged: Tensor  # [N] bool: the last step broke down there; the state is the engine's default, to be reset
    overflowed: Tensor  # [N] bool: contacts of the last step did not fit the engine's buffers, so its physics is wrong

    @abstractmethod
    def step(self, joint_targets: Tensor, num_substeps: int) -> None:
        """Hold joint position targets [N, J] for ``num_substeps`` physics steps; the joints' PD loops follow them."""

    @abstractmethod
    def reset(
        self,
        mask: Tensor,
        root_pos: Tensor,
        root_quat: Tensor,
        root_lin_vel: Tensor,
        root_ang_vel: Tensor,
        joint_pos: Tensor,
        joint_vel: Tensor,
    ) -> None:
        """Start the robots marked in mask [N] anew in the given state; rows of the others are ignored."""

    @abstractmethod
    def set_root_velocity(self, mask: Tensor, lin_vel: Tensor, ang_vel: Tensor) -> None:
        """Give the robots marked in mask [N] these velocities (world; body), as a push would."""

    # What a run needs to go on, and what a single step can be repeated from.

    @abstractmethod
    def state_dict(self) -> Dict[str, Any]:
        """Return all that the next steps depend on, the parameters of each robot included."""

    @abstractmethod
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state_dict` gave, bit by bit; another number of robots is a ValueError."""

    @abstractmethod
    def physics_state(self, out: Optional[Tensor] = None) -> Tensor:
        """Return what the next ``step`` depends on apart from its targets and the parameters, [N, S]; in ``out`` where
        given."""

    @abstractmethod
    def set_physics_state(self, state: Tensor) -> None:
        """Put every robot into a state [N, S] that :meth:`physics_state` gave."""

    # Parameters of each robot; the defaults are the model file's.

    @abstractmethod
    def parameters_of(self, robot: int) -> Dict[str, Tensor]:
        """Return what was set of friction [], payload [], stiffness [J] and damping [J] for a robot."""

    @abstractmethod
    def set_parameters(self, parameters: Mapping[str, Tensor]) -> None:
        """Set friction [N], payload [N], and stiffness with damping [N, J], those that are given."""

    @abstractmethod
    def set_friction(self, friction: Tensor) -> None:
        """Set the sliding friction [N] between floor and robot."""

    @abstractmethod
    def set_root_payload(self, mass: Tensor) -> None:
        """Add mass [N] in kg to the trunk, or take it off where negative."""

    @abstractmethod
    def set_gains(self, stiffness: Tensor, damping: Tensor) -> None:
        """Set the PD gains [N, J] of the joints: N m/rad and N m s/rad."""

    def link_indices(self, names: Sequence[str]) -> Tensor:
        """Return where links stand in ``contact_force``; an unknown name is an error that lists the known ones."""
        unknown = [name for name in names if name not in self.link_names]
        if unknown:
            raise ValueError(f"unknown links {unknown}; this model reports contact of {', '.join(self.link_names)}")
        return torch.tensor([self.link_names.index(name) for name in names], dtype=torch.long, device=self.device)
