"""Find the git repositories that hold files, and save their state with a run."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Union

INSTALLED = {"site-packages", "dist-packages"}
"""Folders of installed packages; a repository around them is not that of the packages."""
LARGEST_FILE = 10_000_000
"""Size of a changed file [bytes] above which its changes are left out."""
LARGEST_DIFF = 50_000_000
"""Size of a diff [bytes] after which it is cut off."""
_DIFF = (
    "diff",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--binary",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "HEAD",
    "--",
    ":/",
)


def one_file_per_repository(files: Iterable[Union[str, Path]]) -> List[Path]:
    """Return the first file of each repository, and files whose repository git cannot read.

    A repository holds a file if it tracks it or would add it. Installed packages and ignored files, such as those of a
    virtual environment inside the repository, are left out. Without git the result is empty.
    """
    try:
        import git  # needs the git program, which robots and clusters may lack
    except ImportError:
        return []
    found: Dict[Path, Path] = {}
    for file in (Path(name).resolve() for name in files):
        try:
            repo = git.Repo(file, search_parent_directories=True)
            root = Path(repo.working_dir)
            if INSTALLED & set(file.relative_to(root).parts) or (file != root and repo.ignored(str(file))):
                continue
        except (git.InvalidGitRepositoryError, git.NoSuchPathError):
            continue
        except git.GitCommandError:
            root = file  # the caller reports the error
        found.setdefault(root, file)
    return list(found.values())


def write_git_state(
    files_in_repos: Iterable[Union[str, Path]], folder: Path, note: Callable[[str], None] = lambda line: None
) -> List[Path]:
    """Write commit, status and uncommitted diff of the repository around each file to ``folder/<repo>.diff``.

    Files outside any repository are skipped; without git, all files are skipped. What git refuses and what is too large
    is named in the file, and in a line for ``note``. Return the files written.
    """
    try:
        import git  # needs the git program, which robots and clusters may lack
    except ImportError:
        return []
    written = []
    for file in files_in_repos:
        try:
            with git.Repo(file, search_parent_directories=True) as repo:
                working_dir = repo.working_dir
        except (git.InvalidGitRepositoryError, git.NoSuchPathError):
            continue
        reader = _RepoReader(Path(working_dir))
        content = reader.read()
        folder.mkdir(parents=True, exist_ok=True)
        path = _unused(folder, Path(working_dir).name, written)
        path.write_bytes(content)
        written.append(path)
        for line in reader.notes:
            note(f"warning: {path} is incomplete: {line}")
    return written


class _RepoReader:
    """Read the state of one repository; ``notes`` lists what is left out."""

    def __init__(self, working_dir: Path):
        self._working_dir = working_dir
        self.notes: List[str] = []

    def read(self) -> bytes:
        """Return commit, status and uncommitted diff."""
        head = self._git("rev-parse", "--verify", "--quiet", "HEAD", missing=b"none")
        status = self._git("-c", "color.ui=false", "status")
        diff = self._diff() if head != b"none" else b""
        notes = [f"left out: {line}".encode() for line in self.notes]
        return b"\n\n".join([b"commit " + head, *notes, status, diff]) + b"\n"

    def _diff(self) -> bytes:
        names = self._git("diff", "--no-ext-diff", "--name-only", "-z", "HEAD", "--", ":/").split(b"\0")
        large = [name for name in names if name and self._size(name) > LARGEST_FILE]
        for name in large:
            size = f"{self._size(name) / 1e6:.0f} MB, more than {LARGEST_FILE / 1e6:g} MB"
            self.notes.append(f"the changes of {os.fsdecode(name)} ({size})")
        return self._git(*_DIFF, *(b":(top,literal,exclude)" + name for name in large))

    def _size(self, name: bytes) -> int:
        """Return the size of a file in the working tree [bytes]; 0 if there is none."""
        path = os.path.join(os.fsencode(self._working_dir), name)
        return os.lstat(path).st_size if os.path.lexists(path) else 0

    def _git(self, *arguments: Any, missing: bytes = b"") -> bytes:
        """Return the output of a git command, up to LARGEST_DIFF; ``missing`` if it fails, which is noted."""
        environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
        command, folder = ["git", *arguments], str(self._working_dir)
        with tempfile.TemporaryFile() as errors, subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        ) as process:
            assert process.stdout is not None
            output = process.stdout.read(LARGEST_DIFF)
            if process.stdout.read(1):
                process.kill()
                self.notes.append(f"the rest of the diff, which is larger than {LARGEST_DIFF / 1e6:g} MB")
                return output
            failed = process.wait() != 0
            errors.seek(0)
            error = " ".join(errors.read().decode(errors="replace").split())
        if failed:
            if error:
                self.notes.append(f"git {arguments[0]} failed: {error[:300]}")
            return missing
        return output.rstrip(b"\n\0") if arguments[0] == "rev-parse" else output


def _unused(folder: Path, name: str, written: List[Path]) -> Path:
    """Return an unused file name for a repository; several repositories may have the same name."""
    path, number = folder / f"{name}.diff", 1
    while path in written:
        number += 1
        path = folder / f"{name}_{number}.diff"
    return path
