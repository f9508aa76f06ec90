"""Which repository holds a file; real repositories."""

import git
import pytest

from rsl_rl.utils.git_repositories import one_file_per_repository


@pytest.fixture
def repo(tmp_path):
    """A repository with a tracked file, a new file, an ignored folder and a virtual environment that is not ignored."""
    folder = tmp_path / "tasks"
    created = git.Repo.init(folder)
    for name in ("tracked.py", "new.py", "ignored/lib.py", ".venv/lib/python3.11/site-packages/rsl_rl/run_log.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")
    (folder / ".gitignore").write_text("ignored/\n")
    created.index.add(["tracked.py", ".gitignore"])
    author = git.Actor("a", "a@example.org")
    created.index.commit("first", author=author, committer=author)
    return folder


def test_one_file_per_repository_with_two_files_of_one_returns_the_first(repo):
    assert one_file_per_repository([repo / "new.py", repo / "tracked.py", repo]) == [repo / "new.py"]


@pytest.mark.parametrize("name", ["ignored/lib.py", ".venv/lib/python3.11/site-packages/rsl_rl/run_log.py", "missing"])
def test_one_file_per_repository_with_a_file_that_only_lies_there_returns_nothing(repo, name):
    assert one_file_per_repository([repo / name]) == []


def test_one_file_per_repository_outside_any_repository_returns_nothing(tmp_path):
    (tmp_path / "alone.py").touch()
    assert one_file_per_repository([tmp_path / "alone.py"]) == []
