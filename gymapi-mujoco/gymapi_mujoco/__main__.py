"""The launcher: ``python -m gymapi_mujoco train.py --task go2`` runs a client with the module ``isaacgym``.

``python -m gymapi_mujoco --install`` makes ``import isaacgym`` work in every process of this Python; ``--uninstall``
undoes it.
"""

from __future__ import annotations

import os
import runpy
import sys
import sysconfig
from pathlib import Path
from typing import List

import gymapi_mujoco
from gymapi_mujoco import ENGINE_VARIABLE, ENGINES, legacy

USAGE = """usage: python -m gymapi_mujoco [--engine ENGINE] [--cuda-as-cpu] SCRIPT [ARGUMENTS]
       python -m gymapi_mujoco [--engine ENGINE] [--cuda-as-cpu] -m MODULE [ARGUMENTS]
       python -m gymapi_mujoco --install | --uninstall

Runs a client of Isaac Gym on MuJoCo. The folders around the script, up to the root of its git repository, and the
folders beside those that have a setup.py or pyproject.toml are put at the end of the module path, so the repository
and the learner in it need not be installed.

--engine cpu    simulate with MuJoCo on the CPU, whatever device the client asks for
--engine warp   simulate with MuJoCo Warp, without a GPU on Warp's CPU device
--engine auto   MuJoCo Warp where the client asks for a GPU that is there, MuJoCo on the CPU elsewhere (default)
--cuda-as-cpu   use the CPU where the client writes a CUDA device into its code
--install       let 'import isaacgym' work in every process of this Python
--uninstall     undo --install
"""


def main() -> None:
    """Run the command line."""
    args = sys.argv[1:]
    if not args or args[0] in ("-h", "--help"):
        print(USAGE, end="")
        raise SystemExit(0 if args else 2)
    if args[0] in ("--install", "--uninstall"):
        print(install() if args[0] == "--install" else uninstall())
        return
    gymapi_mujoco.limit_active_waiting()  # before an option or the script imports torch
    args = _take_options(args)
    if not args or (args[0].startswith("-") and args[0] != "-m") or args == ["-m"]:
        raise SystemExit(f"gymapi_mujoco: '{' '.join(args)}' names no script\n\n{USAGE}")
    run(args)


def _take_options(args: List[str]) -> List[str]:
    """Apply the launcher's own options; return what follows them."""
    while args and args[0] in ("--cuda-as-cpu", "--engine"):
        if args[0] == "--engine":
            chosen = args[1] if len(args) > 1 else ""
            if chosen not in ENGINES:
                raise SystemExit(f"gymapi_mujoco: --engine '{chosen}'; give one of {', '.join(ENGINES)}")
            os.environ[ENGINE_VARIABLE] = chosen  # for the processes that the script starts, too
            args = args[2:]
            continue
        from gymapi_mujoco.cuda_names import treat_cuda_as_cpu

        treat_cuda_as_cpu()
        args = args[1:]
    return args


def run(args: List[str]) -> None:
    """Run a script, or a module after ``-m``, as ``python`` would."""
    gymapi_mujoco.activate()
    legacy.apply()  # before the script's first import
    if args[0] == "-m":
        sys.path.insert(0, os.getcwd())
        _extend_path(Path.cwd())
        sys.argv = args[1:]
        runpy.run_module(args[1], run_name="__main__", alter_sys=True)
        return
    script = Path(args[0])
    if not script.is_file():
        raise SystemExit(f"gymapi_mujoco: there is no file {script.absolute()}")
    sys.argv = args
    sys.path.insert(0, str(script.resolve().parent))
    _extend_path(script.resolve().parent)
    runpy.run_path(str(script), run_name="__main__")


def _extend_path(folder: Path) -> None:
    """Put the projects around a folder on the path of this process and of those that it starts."""
    added = [str(gymapi_mujoco.MODULES), str(gymapi_mujoco.MODULES.parent.parent)]
    for around in _repository(folder):
        parts = [around, *sorted(part for part in around.iterdir() if part.is_dir())]
        added += [str(part) for part in parts if _is_project(part)]
    sys.path.extend(path for path in added if path not in sys.path)
    inherited = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([*added, *filter(None, [inherited])])


def _repository(folder: Path) -> List[Path]:
    """Return a folder and those above it, up to the root of its git repository; without one, up to its project."""
    above = [folder, *folder.parents]
    roots = [place for place in above if (place / ".git").exists()][:1]
    roots += [place for place in above if _is_project(place)][-1:]
    return above[: above.index(roots[0]) + 1] if roots else []


def _is_project(folder: Path) -> bool:
    return (folder / "setup.py").is_file() or (folder / "pyproject.toml").is_file()


def _path_file() -> Path:
    return Path(sysconfig.get_paths()["purelib"]) / "gymapi_mujoco_modules.pth"


def install() -> str:
    """Write a path file, so that every process of this Python finds ``isaacgym``; refuse if another one is there."""
    import importlib.util

    found = importlib.util.find_spec("isaacgym")
    if found is not None and str(gymapi_mujoco.MODULES) not in str(found.origin):
        raise SystemExit(f"gymapi_mujoco: there is an isaacgym already, at {found.origin}; uninstall it first")
    path = _path_file()
    path.write_text(f"{gymapi_mujoco.MODULES}\n")
    return f"wrote {path}: 'import isaacgym' is gymapi-mujoco's from now on; --uninstall removes it"


def uninstall() -> str:
    path = _path_file()
    if not path.is_file():
        return f"nothing to remove: there is no {path}"
    path.unlink()
    return f"removed {path}"


if __name__ == "__main__":
    main()
