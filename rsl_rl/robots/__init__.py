"""Robot models: data, no behaviour."""

from rsl_rl.robots.robot import ROBOTS, Robot

__all__ = ["ROBOTS", "Robot"]
