"""Find the git repositories that hold files."""

from __future__ import annotations

from pathlib import Path
from typing import Dict, Iterable, List, Union

INSTALLED = {"site-packages", "dist-packages"}
"""Folders of installed packages; a repository around them is not that of the packages."""


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
