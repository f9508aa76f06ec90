"""README.md is short, shows a film, and names an installation that works. Its commands run in tests/test_docs.py."""

import re
import shutil

import pytest


def test_readme_has_less_than_700_words(root):
    assert len((root / "README.md").read_text().split()) < 700


def test_readme_shows_a_film_of_less_than_3_megabytes(root):
    (picture,) = re.findall(r"!\[[^]]*\]\(([^)]+)\)", (root / "README.md").read_text())
    content = (root / picture).read_bytes()
    assert content.startswith(b"GIF89a") and b"NETSCAPE2.0" in content  # it is animated
    assert len(content) < 3e6


@pytest.mark.parametrize(
    "extras", ["sim,video", *(pytest.param(name, marks=pytest.mark.slow) for name in ("sweep", "gymnasium,sim"))]
)
def test_the_installation_resolves(root, extras):
    """The pages' own commands, without the last step: installing over the checkout under test."""
    import subprocess
    import sys

    package = f".[{extras}]"
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "-c", "constraints.txt", package]
    done = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 0, done.stderr


def test_the_package_holds_its_data(root, tmp_path):
    """A wheel of the checkout holds every module and the robot's model, and no tests."""
    import subprocess
    import sys
    import zipfile

    source = tmp_path / "source"
    shutil.copytree(
        root,
        source,
        ignore=shutil.ignore_patterns(
            ".venv", ".git", "logs", "peer", ".*_cache", "*.egg-info", "build", "node_modules"
        ),
    )
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(tmp_path),
        str(source),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "setuptools" in done.stderr and "No module named" in done.stderr:
        pytest.skip("setuptools is not installed")
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("rsl_rl_lib-*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(root)) for path in (root / "rsl_rl").rglob("*.py")}
    page = {"rsl_rl/viz/page.html"} if (root / "rsl_rl" / "viz" / "page.html").is_file() else set()
    zoo = {f"rsl_rl_zoo/{path.relative_to(root / 'zoo')}" for path in (root / "zoo").glob("*/*.*")}
    zoo = {name for name in zoo if "__pycache__" not in name}
    assert "rsl_rl_zoo/go2_flat/policy.onnx" in zoo
    assert modules | {"rsl_rl/robots/go2/go2.xml"} | page | zoo <= names
    assert not any(name.startswith(("tests/", "configs/", "scripts/")) for name in names)
