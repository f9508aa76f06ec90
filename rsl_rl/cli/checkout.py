"""Files beside the package: in a checkout they are folders, and a wheel installs them as packages."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Optional

FOLDERS = {"rsl_rl_benchmarks": "benchmarks", "rsl_rl_configs": "configs", "rsl_rl_deploy": "deploy"}
"""Packages of the wheel, and their folders in a checkout. Other names would hide packages of other projects."""


def find_checkout() -> Optional[Path]:
    """Return the checkout that rsl_rl is imported from, or None if it is installed from a wheel."""
    root = Path(__file__).resolve().parent.parent.parent
    return root if (root / "setup.py").is_file() and (root / "configs" / "__init__.py").is_file() else None


def import_shipped(name: str) -> ModuleType:
    """Import a module such as "rsl_rl_configs.toy": of the checkout if there is one, otherwise the installed one."""
    package, root = name.partition(".")[0], find_checkout()
    if root is not None and package not in sys.modules:
        path = root / FOLDERS[package] / "__init__.py"
        spec = importlib.util.spec_from_file_location(package, path, submodule_search_locations=[str(path.parent)])
        assert spec is not None and spec.loader is not None  # the file is Python
        sys.modules[package] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[package])
    return importlib.import_module(name)


def default_log_root() -> Path:
    """Return the folder of runs: logs/ of the checkout, or of the current folder without a checkout."""
    return (find_checkout() or Path.cwd()) / "logs"
