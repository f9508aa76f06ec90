"""pyright checks that our classes take and return the types of isaacgym-stubs."""

import ast
import json
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent
PLAIN = {"int", "float", "bool", "str", "None", "Any", "object", "List", "Dict", "Tuple", "Callable", "Iterable"}


@pytest.fixture(scope="module")
def stub():
    try:
        path = distribution("isaacgym-stubs").locate_file("isaacgym-stubs/gymapi.pyi")
    except PackageNotFoundError:
        pytest.skip("isaacgym-stubs is not installed; run 'pip install isaacgym-stubs==1.1rc4'")
    return ast.parse(re.sub(r"def lambda\(", "def lambda_(", Path(str(path)).read_text(encoding="utf-8")))


def type_of(annotation, provided):
    """Return a type of the stubs as code, None if it contains a class that is not provided."""
    if annotation is None or isinstance(annotation, ast.Constant):
        return "Any"
    text = re.sub(r"numpy\.ndarray\[[\w.]+\]", "numpy.ndarray", ast.unparse(annotation))
    text = re.sub(r"\b(Keyboard|Mouse)Input\b", "Any", text)  # enumerations made at run time, which pyright cannot see
    names = set(re.findall(r"(?<![.\w])[A-Za-z_]\w*", text)) - {"numpy"}
    if not names - PLAIN <= provided:
        return None
    return re.sub(r"(?<![.\w])([A-Za-z_]\w*)", lambda m: f"gymapi.{m[0]}" if m[0] in provided else m[0], text)


def client_of(stub, gymapi):
    """Return a program that reads and writes every field and calls every method, with the types of the stubs."""
    provided = set(gymapi.__all__)
    lines = [
        "from typing import Any, Callable, Dict, Iterable, List, Tuple",
        "import numpy",
        "from isaacgym import gymapi",
    ]
    for node in stub.body:
        if (
            not isinstance(node, ast.ClassDef)
            or node.name not in provided
            or hasattr(getattr(gymapi, node.name), "__members__")
        ):
            continue
        for part in node.body:
            if isinstance(part, ast.AnnAssign) and "ClassVar" not in ast.unparse(part.annotation):
                kind = type_of(part.annotation, provided)
                if kind is not None and node.name not in ("Asset", "Env", "Sim", "Viewer"):
                    name = part.target.id
                    lines += [f"def _{node.name}_{name}(own: gymapi.{node.name}, value: {kind}) -> {kind}:"]
                    lines += [f"    own.{name} = value"] * (node.name != "Tensor") + [f"    return own.{name}"]
            if node.name == "Gym" and isinstance(part, ast.FunctionDef) and hasattr(gymapi.Gym, part.name):
                lines += _call(part, provided)
    return "\n".join(lines)


def _call(function, provided):
    """Return code of a function that calls a method with all its arguments, and with those without a default."""
    arguments = function.args.args[1:]
    kinds = [type_of(argument.annotation, provided) for argument in arguments]
    result = type_of(function.returns, provided)
    if function.name.startswith("_") or function.args.vararg or None in (*kinds, result):
        return []
    names = [argument.arg for argument in arguments]
    parameters = "".join(f", {name}: {kind}" for name, kind in zip(names, kinds))
    required = len(names) - len(function.args.defaults)
    body = [f"    gym.{function.name}({', '.join(names[:required])})"] if required < len(names) else []
    body += [f"    return gym.{function.name}({', '.join(names)})"]
    name = f"_{function.name}_{function.lineno}"  # some calls have two signatures
    return [f"def {name}(gym: gymapi.Gym{parameters}) -> {result}:", *body]


def test_pyright_accepts_a_client_that_uses_the_types_of_the_stubs(stub, gymapi, tmp_path):
    pytest.importorskip("pyright")
    program = client_of(stub, gymapi)
    assert program.count("def ") > 250
    (tmp_path / "client.py").write_text(program)
    paths = [str(PACKAGE), str(PACKAGE / "gymapi_mujoco" / "modules")]
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"include": ["client.py"], "extraPaths": paths}))
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    found = json.loads(done.stdout)
    lines = program.splitlines()
    errors = [
        f"{lines[error['range']['start']['line']].strip()}: {error['message']}"
        for error in found["generalDiagnostics"]
        if error["severity"] == "error"
    ]
    assert not errors, "\n".join(errors)
    assert found["summary"]["filesAnalyzed"] >= 1
