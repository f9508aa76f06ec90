"""A robot on its feet, where the tests of every engine begin."""

from typing import Optional

import torch

from rsl_rl.robots.go2 import GO2
from rsl_rl.sim.base import RobotPoseVel, Sim

POSE = torch.tensor(GO2.default_joint_pos)


def stand(sim: Sim, mask: Optional[torch.Tensor] = None, height: float = 0.32) -> None:
    """Put every robot, or those of a mask, at rest into its standing pose."""
    n = sim.num_envs
    position, upright, still = torch.zeros(n, 3), torch.zeros(n, 4), torch.zeros(n, 3)
    position[:, 2], upright[:, 0] = height, 1.0
    motion = RobotPoseVel(position, upright, still, still, POSE.repeat(n, 1), torch.zeros(n, 12))
    mask = torch.ones(n, dtype=torch.bool) if mask is None else mask
    sim.reset(mask.to(sim.device), RobotPoseVel._make(x.to(sim.device) for x in motion))
