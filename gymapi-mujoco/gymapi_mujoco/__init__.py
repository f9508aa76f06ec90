"""The interface of Isaac Gym Preview 4 on MuJoCo's batched engine. Not affiliated with NVIDIA.

``activate()`` gives this process the module ``isaacgym``; ``python -m gymapi_mujoco train.py`` runs a script with it.
"""

from __future__ import annotations

import sys
from pathlib import Path

__version__ = "0.1.0"

MODULES = Path(__file__).resolve().parent / "modules"
"""The folder that holds the package ``isaacgym``."""


def activate() -> None:
    """Make ``import isaacgym`` in this process import this package's module."""
    if str(MODULES) not in sys.path:
        sys.path.insert(0, str(MODULES))


def deactivate() -> None:
    """Undo :func:`activate`, and forget the modules of ``isaacgym``."""
    while str(MODULES) in sys.path:
        sys.path.remove(str(MODULES))
    for name in [name for name in sys.modules if name == "isaacgym" or name.startswith("isaacgym.")]:
        del sys.modules[name]
