"""Settings of the physics."""

from __future__ import annotations

from dataclasses import dataclass

from rsl_rl.config.base import require


@dataclass(frozen=True)
class SimConfig:
    """Which engine computes the physics, and how finely."""

    backend: str = "mujoco"
    """Engine: mujoco (all CPU cores)."""
    dt: float = 0.005
    """Physics step [s]."""
    decimation: int = 4
    """Physics steps per control step."""
    num_threads: int = 0
    """CPU threads of the physics; 0 takes the cores that this process may use."""

    def __post_init__(self):
        require(self.dt > 0, f"sim.dt={self.dt}: give a positive time in seconds, such as 0.005")
        require(self.decimation >= 1, f"sim.decimation={self.decimation}: give a whole number of at least 1")
        require(self.num_threads >= 0, f"sim.num_threads={self.num_threads}: give 0 (all cores) or a number of threads")

    @property
    def control_dt(self) -> float:
        """Control period [s]."""
        return self.dt * self.decimation
