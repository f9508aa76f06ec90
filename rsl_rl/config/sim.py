"""Settings of the physics: the engine, and actuators, which turn joint targets into torques."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Dict, Optional, Tuple, Union

from rsl_rl.config.base import (
    Config,
    Settings,
    require,
    require_counts,
    require_field,
    require_not_negative,
    require_positive,
    require_within,
)
from rsl_rl.utils.registry import require_patterns


@dataclass(frozen=True)
class SimConfig(Settings):
    """Physics engine and its resolution."""

    section: ClassVar[str] = "env.sim"

    backend: str = "auto"
    """Engine: mujoco (CPU cores), mujoco_warp (a GPU), isaacgym (a GPU, where Isaac Gym is installed),
    "package.module:Class", or auto: mujoco_warp on a GPU and mujoco on a CPU."""
    dt: float = 0.005
    """Physics step [s]."""
    decimation: int = 4
    """Physics steps per control step."""
    num_threads: int = 0
    """CPU threads of the physics; 0: all cores that this process may use."""
    max_contacts: int = 0
    """Size of mujoco_warp's contact buffer per robot; all robots share the buffer. 0: the largest number that the model
    can have."""
    contact_impedance: float = 0.0
    """Impedance of contacts (the first two numbers of MuJoCo's ``solimp``), at most 0.9999. The higher it is, the less
    a foot below its friction limit creeps: a Go2 with constant joint targets drifts 16 mm in 10 s with the values of
    its model file, 0.9 to 0.95, and 8 mm with 0.999. Such contacts of robots that move fast need more solver
    iterations, so at least 50 are allowed. 0: the values of the model file. Not used by isaacgym."""

    def __post_init__(self):
        super().__post_init__()
        require_within(self, 1e-6, 0.1, "dt")
        require_counts(self, 1, "decimation", high=10_000)
        require_counts(self, 0, "num_threads", high=1024)
        require_counts(self, 0, "max_contacts", high=10_000)
        require_within(self, 0.0, 0.9999, "contact_impedance")

    @property
    def control_dt(self) -> float:
        """Control period [s]."""
        return self.dt * self.decimation


PerJoint = Union[float, Dict[str, float]]
"""A number for all joints, or numbers by regular expressions; each joint's name matches exactly one as a whole."""


@dataclass(frozen=True)
class ActuatorConfig(Config):
    """Ideal PD loops, computed by the engine: stiffness * (target - position) - damping * velocity, up to the limit."""

    section: ClassVar[str] = "env.control.actuator"
    builds: ClassVar[str] = "rsl_rl.tasks.actuators:Actuator"

    torque_limit: Optional[PerJoint] = None
    """Largest torque of the joints [N m]; a number, or numbers by name pattern. None: that of the model."""
    armature: Optional[PerJoint] = None
    """Inertia of the rotors, seen at the joints [kg m^2]; likewise."""
    friction: Optional[PerJoint] = None
    """Dry friction of the joints [N m]; likewise."""

    def __post_init__(self):
        super().__post_init__()
        self._check_numbers("torque_limit")
        self._check_numbers("armature", "friction", zero=True)

    def _check_numbers(self, *names: str, zero: bool = False) -> None:
        """Require positive numbers, or with ``zero`` none negative."""
        for name in names:
            if getattr(self, name) is not None:
                (require_not_negative if zero else require_positive)(self, name)
                require_patterns(getattr(self, name), f"{self.section}.{name}")


@dataclass(frozen=True)
class DCMotorConfig(ActuatorConfig):
    """PD loops with the torque-speed line of a DC motor: less torque is left the faster a joint turns."""

    builds: ClassVar[str] = "rsl_rl.tasks.actuators:DCMotor"

    stall_torque: PerJoint = 40.0
    """Torque at zero speed that the voltage allows, on the joint's side of the gear [N m]; it may exceed the limit."""
    no_load_speed: PerJoint = 30.0
    """Speed at which no torque is left [rad/s]."""

    def __post_init__(self):
        super().__post_init__()
        self._check_numbers("stall_torque", "no_load_speed")


@dataclass(frozen=True)
class ActuatorNetworkConfig(ActuatorConfig):
    """A learned actuator: a TorchScript network from position errors and velocities to the torque of a joint.

    The network is applied to all joints of all robots at once: [N * J, 2 * len(history)] to [N * J, 1]. Its inputs are
    the errors target - position at each time of ``history``, then the velocities at these times.
    """

    builds: ClassVar[str] = "rsl_rl.tasks.actuators:ActuatorNetwork"

    path: str = ""
    """File of the TorchScript network."""
    history: Tuple[int, ...] = (0, 2, 4)
    """Times of the inputs: physics steps before the present one."""
    error_scale: float = 1.0
    """Factor of the errors [1/rad]."""
    velocity_scale: float = 1.0
    """Factor of the velocities [s/rad]."""
    torque_scale: float = 1.0
    """Torque per unit of the network's output [N m]."""

    def __post_init__(self):
        super().__post_init__()
        require_field(self, "path", bool(self.path), ": give the file of a TorchScript network")
        fits = bool(self.history) and all(0 <= steps <= 1000 for steps in self.history)
        require_field(self, "history", fits, ": give numbers of physics steps from 0 to 1000")
        scales = (self.error_scale, self.velocity_scale, self.torque_scale)
        require(all(scales), f"{self.section}: a scale is 0; give factors other than 0")
