"""What made a training: its command, the state of the program, the versions of packages, and the CPU.

Equal ones give equal weights, bit by bit; the seed and all settings are in the run's config.yaml.
"""

from __future__ import annotations

import json
import platform
import shlex
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Dict, List, Sequence

from rsl_rl.utils.files import atomic_write
from rsl_rl.utils.git_state import changed_files, commit_of

FILE = "provenance.json"
"""Name of the file in a run's folder."""

PACKAGES = ("torch", "mujoco", "numpy", "onnx", "onnxscript", "mujoco-warp", "rsl-rl-lib")
"""Packages on which weights, or the bytes of an exported file, depend."""

_OF_THE_FOLDER = ("--log_root", "--runner.experiment_name", "--runner.run_name")
"""Flags that say only where a run is written."""


def training_provenance(flags: Sequence[str], ranks: int = 1) -> Dict[str, Any]:
    """Return what makes a training with these flags, as the command line names them, in this process and the others."""
    import torch

    program = ["rsl-rl"] if ranks == 1 else ["torchrun", f"--nproc_per_node={ranks}", "-m", "rsl_rl"]
    return {
        "command": shlex.join([*program, "train", *without_folder(flags)]),
        "commit": commit_of(__file__),
        "changed_files": changed_files(__file__),
        "date": f"{datetime.now(timezone.utc):%Y-%m-%d}",
        "versions": package_versions(),
        "cpu": cpu_name(),
        "instruction_set": instruction_set(),
        "threads": torch.get_num_threads(),
    }


def write_provenance(folder: Path, flags: Sequence[str], ranks: int = 1) -> Path:
    """Write :func:`training_provenance` into the folder of a run."""
    path = folder / FILE
    atomic_write(path, (json.dumps(training_provenance(flags, ranks), indent=2) + "\n").encode())
    return path


def without_folder(flags: Sequence[str]) -> List[str]:
    """Return the flags of a training without those that say where it is written."""
    kept: List[str] = []
    words = list(flags)
    while words:
        word = words.pop(0)
        name, equals, _ = word.partition("=")
        if name in _OF_THE_FOLDER:
            words = words if equals else words[1:]
        else:
            kept.append(word)
    return kept


def package_versions() -> Dict[str, str]:
    """Return the versions of Python and of the PACKAGES that are installed."""
    versions = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def cpu_name() -> str:
    """Return the name of the CPU's model, with what the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    facts: Dict[str, str] = {}
    for line in lines:
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    parts = [facts.get("model name", ""), *(f"{key} {facts[key]}" for key in ("cpu family", "model") if key in facts)]
    return ", ".join(part for part in parts if part) or platform.machine()


def instruction_set() -> str:
    """Return the architecture of the CPU and the vector instructions that torch uses, such as "x86_64 AVX512"."""
    import torch

    capability = getattr(torch.backends.cpu, "get_cpu_capability", lambda: "")()
    return f"{platform.machine()} {capability}".strip()
