"""The interface of Isaac Gym Preview 4 on MuJoCo. Not affiliated with NVIDIA.

``activate()`` gives this process the module ``isaacgym``; ``python -m gymapi_mujoco train.py`` runs a script with it.

The folder ``modules`` has what clients import. Their calls are in ``gym``. It checks the handles by ``handles``, and
passes the call to the object that it concerns:

- what they build: ``scene``, of ``asset`` (read by ``urdf`` and ``mjcf``, with ``shapes``) and ``ground``;
- what runs it: ``engine``, on ``worlds`` (``worlds_cpu`` or ``worlds_warp``; ``backends`` chooses) of one ``model``,
  made of ``properties``, ``actuation``, ``states``, ``kinematics`` and ``forces``;
- what shows it: ``cameras`` and ``viewer``.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

__version__ = "0.1.0"

MODULES = Path(__file__).resolve().parent / "modules"
"""The folder that holds the package ``isaacgym``."""

ENGINE_VARIABLE, ENGINES = "GYMAPI_MUJOCO_ENGINE", ("auto", "cpu", "warp")
"""The environment variable that chooses the engine, and its values."""


def limit_active_waiting() -> None:
    """Limit how long OpenMP's idle threads wait actively, unless the user has set it.

    torch's threads otherwise use the cores that the physics needs. It has an effect only before torch is imported.
    """
    if not {"GOMP_SPINCOUNT", "OMP_WAIT_POLICY"} & set(os.environ):
        os.environ["GOMP_SPINCOUNT"] = "50000"


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
