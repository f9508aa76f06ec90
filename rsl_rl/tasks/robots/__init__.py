"""Robot models: data, no behaviour."""

from rsl_rl.tasks.robots.robot import ROBOTS, Robot

__all__ = ["ROBOTS", "Robot"]
