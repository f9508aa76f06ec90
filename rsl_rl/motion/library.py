"""Find clips by what a config names: a file, or a motion that is generated for the robot."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any, Dict

from rsl_rl.motion.clip import Clip, load_clip
from rsl_rl.robots import ROBOTS
from rsl_rl.utils.registry import import_object

_GENERATOR = "rsl_rl.motion.generate:generate"  # by its name: it needs packages that a file of a clip does not need

_NUMBERS = ("speed", "side", "turn", "seconds")
"""Parameters of a generated motion: velocities [m/s], yaw rate [rad/s], length [s]."""


def find_clip(name: str, robot: str) -> Clip:
    """Return the clip of a name for a robot: a file "walk.npz", or a motion that ``rsl-rl motion generate`` knows with
    its parameters, such as "trot" and "trot speed=0.5 turn=0.2". Anything else is a ValueError."""
    if name.endswith(".npz"):
        path = Path(name).expanduser()
        if not path.is_file():
            raise ValueError(f"the clip '{name}' is not a file; give the path of one, or a motion such as 'trot'")
        return load_clip(path)
    return _generated(name, robot)


@functools.lru_cache(maxsize=64)
def _generated(name: str, robot: str) -> Clip:
    motion, *settings = name.split() or [""]
    numbers: Dict[str, Any] = {}
    for setting in settings:
        key, _, value = setting.partition("=")
        try:
            numbers[key] = float(value)
        except ValueError:
            numbers[key] = None
        if key not in _NUMBERS or numbers[key] is None:
            raise ValueError(f"the clip '{name}' has '{setting}'; give a number as {'=, '.join(_NUMBERS)}=")
    return import_object(_GENERATOR)(ROBOTS.load(robot), motion, name=name, **numbers)
