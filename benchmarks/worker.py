"""Run a worker script, for which this folder is the package ``benchmarks``: `python worker.py SCRIPT SETTINGS`.

A wheel installs the folder under another name. This file imports nothing of rsl_rl, which may be another library's.
"""

import importlib.util
import runpy
import sys
from pathlib import Path


def main() -> None:
    if importlib.util.find_spec("benchmarks") is None:
        folder = Path(__file__).resolve().parent
        spec = importlib.util.spec_from_file_location(
            "benchmarks", folder / "__init__.py", submodule_search_locations=[str(folder)]
        )
        assert spec is not None  # the file is Python
        sys.modules["benchmarks"] = importlib.util.module_from_spec(spec)
    del sys.argv[0]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
