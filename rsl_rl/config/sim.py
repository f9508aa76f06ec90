"""Settings of the physics."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rsl_rl.config.base import Settings, require_counts, require_within


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
