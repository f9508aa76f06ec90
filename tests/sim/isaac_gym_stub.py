"""A module ``gymapi`` made of isaacgym-stubs: what the stub declares is there and checked at run time, no more."""

import ast
import inspect
import re
import types
from importlib.metadata import distribution
from typing import Any, Callable, Dict, Optional

import numpy as np

_PLAIN = {"int": int, "float": (int, float), "str": str, "bool": bool, "tuple": tuple, "dict": dict, "object": object}


def stub_text() -> str:
    text = distribution("isaacgym-stubs").locate_file("isaacgym-stubs/gymapi.pyi").read_text(encoding="utf-8")
    return re.sub(r"def lambda\(", "def lambda_(", text)  # the stub's only two errors of syntax


def make_gymapi(backend: Callable[[], Any]) -> types.ModuleType:
    """Build the module; its ``acquire_gym()`` gives a Gym whose checked calls end in a fresh ``backend()``."""
    module = types.ModuleType("isaacgym.gymapi")
    tree = ast.parse(stub_text())
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            setattr(module, node.name, _struct(node, module))
    for node in tree.body:  # constants are values of the enumerations
        if isinstance(node, ast.AnnAssign):
            kind, name = getattr(module, ast.unparse(node.annotation), None), node.target.id
            setattr(module, name, _enumerator(kind, name) if kind else node.value and ast.literal_eval(node.value))
    gym = _gym(next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == "Gym"), module)
    module.acquire_gym = lambda: gym(backend())
    return module


def _enumerator(kind: type, name: str) -> Any:
    """Make a constant that knows its name, and its number: its place in the stub's list, which is in order."""
    value = kind.__new__(kind)
    members = re.findall(r"^\s*([A-Z][A-Z_0-9]+) :", kind.__doc__ or "", re.MULTILINE)
    object.__setattr__(value, "constant", name)
    object.__setattr__(value, "number", members.index(name) if name in members else -1)
    return value


def _struct(node: ast.ClassDef, module: types.ModuleType) -> type:
    """Make a class that has the declared attributes, each with a value of the declared type, and takes no others."""
    declared = {n.target.id: n.annotation for n in node.body if isinstance(n, ast.AnnAssign)}
    fields = {name: kind for name, kind in declared.items() if not ast.unparse(kind).startswith("ClassVar")}
    init = next((n for n in node.body if isinstance(n, ast.FunctionDef) and n.name == "__init__"), None)
    signature = _signature(init) if init else inspect.Signature()

    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        for name, annotation in fields.items():
            object.__setattr__(self, name, _neutral(annotation, module))
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if name in fields:
                setattr(self, name, value)

    def assign(self: Any, name: str, value: Any) -> None:
        if name not in fields:
            raise AttributeError(f"{node.name} has no attribute '{name}'")
        _check(value, fields[name], module, f"{node.name}.{name}")
        object.__setattr__(self, name, value)

    body = {"__init__": initialize, "__setattr__": assign, "__doc__": ast.get_docstring(node) or ""}
    if "__members__" in declared:  # an enumeration
        body["__int__"] = lambda self: self.number
    return type(node.name, (), body)


def _neutral(annotation: ast.expr, module: types.ModuleType) -> Any:
    text = ast.unparse(annotation)
    kind = getattr(module, text, None)
    if kind is not None:
        return _enumerator(kind, "") if hasattr(kind, "__int__") else kind()
    return {"int": 0, "float": 0.0, "str": "", "bool": False}.get(text)


def _signature(function: ast.FunctionDef) -> inspect.Signature:
    given = function.args
    named = given.args[1:]  # without self
    without = len(named) - len(given.defaults)
    parameters = [
        inspect.Parameter(
            argument.arg,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if i < without else ...,
            annotation=argument.annotation,
        )
        for i, argument in enumerate(named)
    ]
    if given.vararg:
        parameters.append(inspect.Parameter("args", inspect.Parameter.VAR_POSITIONAL))
    if given.kwarg:
        parameters.append(inspect.Parameter("kwargs", inspect.Parameter.VAR_KEYWORD))
    return inspect.Signature(parameters)


def _gym(node: ast.ClassDef, module: types.ModuleType) -> type:
    """Make the class Gym: every method of the stub, none else, each checking what it is called with."""

    def method(function: ast.FunctionDef) -> Callable:
        signature = _signature(function)

        def call(self: Any, *args: Any, **kwargs: Any) -> Any:
            bound = signature.bind(*args, **kwargs)
            for name, value in bound.arguments.items():
                annotation = signature.parameters[name].annotation
                if isinstance(annotation, ast.expr):
                    _check(value, annotation, module, f"Gym.{function.name}: {name}")
            played = getattr(self.backend, function.name, None)
            if played is None:
                raise NotImplementedError(f"the double does not play {function.name}")
            return played(*bound.args, **bound.kwargs)

        return call

    def initialize(self: Any, backend: Any) -> None:
        self.backend = backend
        backend.api = module

    body: Dict[str, Any] = {n.name: method(n) for n in reversed(node.body) if isinstance(n, ast.FunctionDef)}
    return type("Gym", (), {**body, "__init__": initialize})


def _check(value: Any, annotation: Optional[ast.expr], module: types.ModuleType, place: str) -> None:
    text = ast.unparse(annotation) if annotation is not None else "Any"
    if text.startswith("List["):
        assert isinstance(value, list), f"{place} takes a list, not {type(value).__name__}"
        for item in value:
            _check(item, annotation.slice, module, place)
        return
    if text.startswith("numpy.ndarray["):
        dtype = getattr(np, ast.unparse(annotation.slice).rpartition(".")[2], None)
        assert isinstance(value, np.ndarray) and (dtype is None or value.dtype == dtype), f"{place} takes {text}"
        return
    kind = _PLAIN.get(text) or getattr(module, text, None)
    if kind is None:
        return
    wrong = not isinstance(value, kind) or (isinstance(value, bool) and text in ("int", "float"))
    if wrong:
        raise TypeError(f"{place} takes {text}, not {type(value).__name__}")
