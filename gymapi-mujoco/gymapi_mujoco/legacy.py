"""What old clients import or call and what is gone from Python, NumPy and torch's defaults.

Isaac Gym's clients were written for Python 3.8, NumPy 1.20 and torch 1.10. ``apply`` puts back, in this process only:

- NumPy's ``float``, ``int``, ``bool``, ``object``, ``complex``, ``str`` (removed in 1.24) and ``product``,
  ``cumproduct``, ``alltrue``, ``sometrue``, ``in1d``, ``row_stack``, ``trapz``, ``Inf``, ``infty``, ``NaN``, ``NAN``,
  ``float_``, ``complex_``, ``unicode_`` (removed in 2.0);
- the abstract classes in ``collections`` such as ``Mapping`` (removed in Python 3.10), ``inspect.getargspec`` (3.11),
  and the modules ``imp`` and ``distutils`` (3.12);
- silence of the warning of ``torch.meshgrid`` without ``indexing``.

A name that exists is not changed. It runs when ``isaacgym`` is imported, and not if the environment variable
``GYMAPI_MUJOCO_LEGACY`` is 0. Whether torch is imported before ``isaacgym`` makes no difference here.
"""

from __future__ import annotations

import collections
import collections.abc
import importlib
import importlib.util
import inspect
import os
import sys
import types
import warnings
from typing import Any, Dict, List, Tuple

import numpy as np

_NUMPY: Dict[str, Any] = {
    "float": float,
    "int": int,
    "bool": bool,
    "object": object,
    "complex": complex,
    "str": str,
    "product": np.prod,
    "cumproduct": np.cumprod,
    "alltrue": np.all,
    "sometrue": np.any,
    "row_stack": np.vstack,
    "Inf": np.inf,
    "infty": np.inf,
    "NaN": np.nan,
    "NAN": np.nan,
    "float_": np.float64,
    "complex_": np.complex128,
    "unicode_": np.str_,
}

_applied: List[Tuple[Any, str]] = []


def apply() -> None:
    """Add the missing names, unless ``GYMAPI_MUJOCO_LEGACY`` is 0."""
    if os.environ.get("GYMAPI_MUJOCO_LEGACY", "1") == "0":
        return
    for name, value in _NUMPY.items():
        _add(np, name, value)
    _add(np, "in1d", lambda a, b, **kwargs: np.isin(np.ravel(a), b, **kwargs))
    _add(np, "trapz", getattr(np, "trapezoid", None))
    for name in collections.abc.__all__:
        _add(collections, name, getattr(collections.abc, name))
    _add(inspect, "getargspec", _getargspec)
    if _is_missing("imp"):
        _add_module("imp", _imp())
    if _is_missing("distutils") and not _is_missing("setuptools"):
        _add_module("distutils", importlib.import_module("setuptools._distutils"))
    warnings.filterwarnings("ignore", message="torch.meshgrid: in an upcoming release")


def remove() -> None:
    """Take away what ``apply`` added."""
    while _applied:
        owner, name = _applied.pop()
        if owner is sys:
            sys.modules.pop(name, None)
        else:
            delattr(owner, name)


def _add(owner: Any, name: str, value: Any) -> None:
    if value is not None and name not in vars(owner):
        setattr(owner, name, value)
        _applied.append((owner, name))


def _is_missing(name: str) -> bool:
    """Return whether a module can not be imported; one that was added by ``apply`` can be."""
    return name not in sys.modules and importlib.util.find_spec(name) is None


def _add_module(name: str, module: types.ModuleType) -> None:
    sys.modules[name] = module
    _applied.append((sys, name))


def _getargspec(function: Any) -> Any:
    """Return positional arguments, ``*`` and ``**`` names and defaults, as ``inspect.getargspec`` did."""
    spec = inspect.getfullargspec(function)
    return collections.namedtuple("ArgSpec", "args varargs keywords defaults")(*spec[:4])


def _imp() -> types.ModuleType:
    """Return a module ``imp`` with what clients call: ``reload``, ``load_source`` and ``new_module``."""
    module = types.ModuleType("imp")

    def load_source(name: str, path: str) -> types.ModuleType:
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} is no Python file")
        loaded = importlib.util.module_from_spec(spec)
        sys.modules[name] = loaded
        spec.loader.exec_module(loaded)
        return loaded

    vars(module).update(reload=importlib.reload, load_source=load_source, new_module=types.ModuleType)
    return module
