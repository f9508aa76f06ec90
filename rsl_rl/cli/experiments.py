"""Find experiments: those of this project, and those that other packages register as entry points."""

from __future__ import annotations

import inspect
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any, Dict, Iterable, List, Type

from rsl_rl.cli.checkout import find_checkout, import_shipped
from rsl_rl.config.experiment import TrainConfig
from rsl_rl.utils.registry import Registry

GROUP = "rsl_rl.tasks"
"""Group of the entry points that register experiments, each as "package.module:Class"."""


class Experiments:
    """Names of experiments. A name with a colon is the path of a class."""

    def __init__(self) -> None:
        self._paths: Dict[str, List[str]] = {}
        for entry in _entry_points():
            self._paths.setdefault(entry.name, []).append(entry.value)
        if find_checkout() is not None:
            package = import_shipped("rsl_rl_configs")
            for name, path in package.PATHS.items():
                self._paths.setdefault(name, []).append(f"{package.__name__}.{path}")

    def names(self) -> List[str]:
        return sorted(self._paths)

    def load(self, name: str) -> Type[TrainConfig]:
        """Import the class of an experiment; a name that is unknown or registered twice is a ValueError."""
        paths = sorted(set(self._paths.get(name, [])))
        if len(paths) > 1:
            raise ValueError(f"--task {name} is registered by several packages; use one of {', '.join(paths)}")
        experiment = Registry("task", {known: own[0] for known, own in self._paths.items()}).load(name)
        if not (isinstance(experiment, type) and issubclass(experiment, TrainConfig)):
            raise ValueError(f"--task {name} is no TrainConfig; name one of {', '.join(self.names())}")
        return experiment

    def same(self, name: str, other: str) -> bool:
        """Return whether two names are those of one experiment; a name that cannot be imported is that of no other."""
        if name == other:
            return True
        try:
            return self.load(name) is self.load(other)
        except (ValueError, ImportError):
            return False


def _entry_points() -> Iterable[EntryPoint]:
    found: Any = entry_points()
    return found.select(group=GROUP) if hasattr(found, "select") else found.get(GROUP, ())  # a dict before Python 3.10


def file_of(cfg: TrainConfig) -> Path:
    """Return the file in which the class of an experiment is defined."""
    return Path(inspect.getfile(type(cfg)))
