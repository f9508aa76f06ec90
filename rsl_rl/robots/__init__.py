"""Robot models: data, no behaviour."""

from rsl_rl.robots.robot import ROBOTS, Names, Robot

__all__ = ["ROBOTS", "Names", "Robot"]
