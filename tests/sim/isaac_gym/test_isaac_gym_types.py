"""Pyright holds every call against isaacgym-stubs: the backend passes, and each planted mistake is found."""

import json
import subprocess
import sys

import pytest

if sys.version_info >= (3, 11):
    import tomllib

FILES = ("engine", "scene")

MISTAKES = {
    "a misspelled method": ("engine", "self._gym.simulate(", "self._gym.simulat("),
    "a missing argument": ("engine", "fetch_results(self._sim, True)", "fetch_results(self._sim)"),
    "another missing argument": (
        "engine",
        "indexed(self._sim, root_state, ids, count)",
        "indexed(self._sim, root_state, ids)",
    ),
    "an argument of the wrong type": ("engine", "root_state, ids, count)", "root_state, self._ids, count)"),
    "a misspelled function of gymtorch": ("engine", "gymtorch.wrap_tensor(", "gymtorch.wrap("),
    "a misspelled constant": ("scene", "gymapi.SIM_PHYSX", "gymapi.SIM_PHYX"),
    "a misspelled setting of PhysX": ("scene", "physx.rest_offset", "physx.rest_ofset"),
    "a misspelled setting of the simulation": ("scene", "params.substeps", "params.sub_steps"),
    "a misspelled option of the asset": ("scene", "options.angular_damping", "options.angular_dampening"),
    "a setting of the wrong type": ("scene", "params.up_axis = gymapi.UP_AXIS_Z", "params.up_axis = 2"),
    "a vector that is a list": ("scene", "gymapi.Vec3(0.0, 0.0, -9.81)", "[0.0, 0.0, -9.81]"),
    "a call of old": ("scene", "gym.add_ground(sim, params)", "gym.add_ground(params)"),
    "an argument too many": ("scene", "destroy_sim(self.sim)", "destroy_sim(self.sim, True)"),
}
"""What: file, what stands there, what is planted."""


@pytest.fixture(scope="module")
def found(tmp_path_factory, pytestconfig):
    """The errors that pyright finds with the repository's settings: by file, one message each."""
    root, folder = pytestconfig.rootpath, tmp_path_factory.mktemp("planted")
    settings = tomllib.loads((root / "pyproject.toml").read_text())["tool"]["pyright"]
    stubs = root / settings.get("stubPath", "typings")
    places = {"include": ["."], "exclude": [], "stubPath": str(stubs), "extraPaths": [str(root)], "venvPath": str(root)}
    (folder / "pyrightconfig.json").write_text(json.dumps({**settings, **places}))
    sources = {name: (root / "rsl_rl" / "sim" / "isaacgym" / f"{name}.py").read_text() for name in FILES}
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    for i, (name, old, new) in enumerate(MISTAKES.values()):
        assert old in sources[name], f"{name}.py no longer has {old}; plant the mistake elsewhere"
        (folder / f"planted_{i}.py").write_text(sources[name].replace(old, new, 1))
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    diagnostics = json.loads(done.stdout)["generalDiagnostics"]
    errors = [d for d in diagnostics if d["severity"] == "error"]
    return {name: [d["message"] for d in errors if d["file"].endswith(f"/{name}.py")] for name in _names()}


def _names():
    return (*FILES, *(f"planted_{i}" for i in range(len(MISTAKES))))


@pytest.mark.parametrize("name", FILES)
def test_the_backend_passes(found, name):
    assert found[name] == []


@pytest.mark.parametrize("what", MISTAKES)
def test_a_planted_mistake_is_found(found, what):
    name, _, new = MISTAKES[what]
    assert len(found[f"planted_{list(MISTAKES).index(what)}"]) >= 1, f"nobody minds {new} in {name}.py"
