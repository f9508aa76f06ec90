"""What a bring-up has found of a robot's wiring."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Dict, List, Optional

from rsl_rl.hardware.imu import Imu


@dataclass
class Channel:
    """What was found of one channel."""

    name: str
    """Name that the driver gives it."""
    joint: str = ""
    """The policy's joint; empty: not determined."""
    sign: int = 0
    zero: float = 0.0
    """Robot's angle at which the joint's is zero [rad]."""
    zero_spread: float = math.inf
    """Standard deviation of the zero [rad]."""
    margin: float = 0.0
    """By how much other joints or signs are less likely (difference of log-likelihoods)."""
    delay: float = math.nan
    """Time from a target to the reading of its motion [s]."""
    rate: float = math.nan
    """Different readings in a second [1/s]."""
    low: float = math.nan
    high: float = math.nan
    """Lowest and highest reading [rad]."""
    friction: float = math.nan
    """Torque error that remains [N m]."""
    evidence: str = "gravity"


@dataclass
class Found:
    """The result of a bring-up."""

    channels: List[Channel]
    imu: Optional[Imu] = None
    units: Dict[str, str] = field(default_factory=dict)
    problems: List[str] = field(default_factory=list)
    """Why the mapping is not to be used; empty: all is determined."""
    notes: List[str] = field(default_factory=list)
    seconds: float = 0.0
    fits: Dict[str, Any] = field(default_factory=dict)
    """Measured and predicted torques by limb, for plots."""
    rates: Dict[str, float] = field(default_factory=dict)
    """Different readings in a second of each kind, at most 1 / PERIOD [1/s]."""
    delay: float = math.nan
    """Time from a target to the reading of its motion, of all channels [s]."""

    @property
    def is_complete(self) -> bool:
        return not self.problems and self.imu is not None and all(one.joint for one in self.channels)
