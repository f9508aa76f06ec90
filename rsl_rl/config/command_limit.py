"""Settings of how fast the velocity command that a policy reads may change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rsl_rl.config.base import Settings, require_not_negative


@dataclass(frozen=True)
class CommandLimitConfig(Settings):
    """Limits of the acceleration with which the command that the policy reads follows the requested velocity.

    The limits are a part of the policy: evaluations, videos, play and the exported policy have them, and tracking
    errors are those of the requested velocity. Trainings do not have them, since a command that changes at once is
    harder to follow.
    """

    section: ClassVar[str] = "env.commands.limit"

    max_lin_acc: float = 0.0
    """Largest change of the velocity in x and in y [m/s^2]; 0: no limit."""
    max_yaw_acc: float = 0.0
    """Largest change of the yaw rate [rad/s^2]; 0: no limit."""
    enabled: bool = False
    """Whether the limits hold in the simulation. Evaluations, videos and play set it."""

    def __post_init__(self):
        super().__post_init__()
        require_not_negative(self, "max_lin_acc", "max_yaw_acc")

    @property
    def limits(self) -> bool:
        """Whether there is a limit."""
        return self.max_lin_acc > 0 or self.max_yaw_acc > 0
