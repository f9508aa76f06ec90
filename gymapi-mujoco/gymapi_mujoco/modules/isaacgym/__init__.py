"""The module ``isaacgym``: the interface of Isaac Gym Preview 4 on MuJoCo. Not affiliated with NVIDIA."""

from gymapi_mujoco import __version__, legacy, limit_active_waiting

__engine__ = f"gymapi-mujoco {__version__}"
"""What runs behind the interface; NVIDIA's module has no such name."""

limit_active_waiting()
legacy.apply()
