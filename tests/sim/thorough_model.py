"""The robot's model for MuJoCo, without its short cuts."""

import mujoco

from rsl_rl.robots.go2 import GO2


def thorough_spec() -> mujoco.MjSpec:
    """Return the model without what it does to save time: collisions are searched for, in all phases, and islands."""
    spec = mujoco.MjSpec.from_file(str(GO2.model_path))
    spec.option.disableflags = 0
    for pair in spec.pairs:
        spec.geom(pair.geomname1).contype = spec.geom(pair.geomname2).conaffinity = 1
        spec.delete(pair)
    return spec
