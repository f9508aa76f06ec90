"""Find experiments and other files beside the package.

In a checkout they are folders, and a wheel installs them as packages. Other packages register experiments as entry
points.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from importlib.metadata import entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, Dict, List, Optional, Type

from rsl_rl.cli.flag_help import first_sentence
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.utils.registry import Registry
from rsl_rl.utils.text import one_line

FOLDERS = {
    "rsl_rl_benchmarks": "benchmarks",
    "rsl_rl_configs": "configs",
    "rsl_rl_deploy": "deploy",
    "rsl_rl_zoo": "zoo",
}
"""Packages of the wheel, and their folders in a checkout. Other names would hide packages of other projects."""

GROUP = "rsl_rl.tasks"
"""Group of the entry points that register experiments, each as "package.module:Class"."""


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


class Experiments:
    """Names of experiments. A name with a colon is the path of a class."""

    def __init__(self) -> None:
        self._paths: Dict[str, List[str]] = {}
        found: Any = entry_points()  # a dict before Python 3.10
        for entry in found.select(group=GROUP) if hasattr(found, "select") else found.get(GROUP, ()):
            self._paths.setdefault(entry.name, []).append(entry.value)
        if find_checkout() is not None:
            package = import_shipped("rsl_rl_configs")
            for name, path in package.PATHS.items():
                self._paths.setdefault(name, []).append(f"{package.__name__}.{path}")

    def names(self) -> List[str]:
        return sorted(self._paths)

    def lines(self) -> List[str]:
        """Return a line for each experiment: its name, and the first sentence of its class."""
        width = max(map(len, self._paths), default=0)
        return [f"{name:{width}}  {self._description(name)}".rstrip() for name in self.names()]

    def _description(self, name: str) -> str:
        try:
            return first_sentence(self.load(name))
        except Exception as error:  # of the module of another package
            return f"cannot be imported: {one_line(f'{type(error).__name__}: {error}')}"

    def load(self, name: str) -> Type[TrainConfig]:
        """Import the class of an experiment; a name that is unknown or registered twice is a ValueError."""
        if name.partition(".")[0] in FOLDERS:
            import_shipped(name.partition(".")[0])
        paths = sorted(set(self._paths.get(name, [])))
        if len(paths) > 1:
            raise ValueError(f"--task {name} is registered by several packages; use one of {', '.join(paths)}")
        experiment = Registry("task", {known: own[0] for known, own in self._paths.items()}).load(name)
        if not (isinstance(experiment, type) and issubclass(experiment, TrainConfig)):
            raise ValueError(f"--task {name} is not a TrainConfig; name one of {', '.join(self.names())}")
        return experiment

    def same(self, name: str, other: str) -> bool:
        """Return whether two names are those of one experiment; a name that cannot be imported is that of no other."""
        if name == other:
            return True
        try:
            return self.load(name) is self.load(other)
        except (ValueError, ImportError):
            return False


def file_of(cfg: TrainConfig) -> Path:
    """Return the file in which the class of an experiment is defined."""
    return Path(inspect.getfile(type(cfg)))
