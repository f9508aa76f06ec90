"""Save the state of git repositories with a run."""

from __future__ import annotations

from pathlib import Path
from typing import Iterable, List, Union


def write_git_state(files_in_repos: Iterable[Union[str, Path]], folder: Path) -> List[Path]:
    """Write commit, status and uncommitted diff of the repository around each file to ``folder/<repo>.diff``.

    Files outside any repository are skipped; without git, all files are skipped. Return the files written.
    """
    try:
        import git  # needs the git program, which robots and clusters may lack
    except ImportError:
        return []
    written = []
    for file in files_in_repos:
        try:
            repo = git.Repo(file, search_parent_directories=True)
            head = repo.head.commit.hexsha if repo.head.is_valid() else "none"
            text = f"commit {head}\n\n{repo.git.status()}\n\n{repo.git.diff('HEAD') if head != 'none' else ''}\n"
        except (git.InvalidGitRepositoryError, git.NoSuchPathError, git.GitCommandError):
            continue
        folder.mkdir(parents=True, exist_ok=True)
        path = _unused(folder, Path(repo.working_dir).name, written)
        path.write_text(text, encoding="utf-8", errors="replace")
        written.append(path)
    return written


def _unused(folder: Path, name: str, written: List[Path]) -> Path:
    """Return an unused file name for a repository; several repositories may have the same name."""
    path, number = folder / f"{name}.diff", 1
    while path in written:
        number += 1
        path = folder / f"{name}_{number}.diff"
    return path
