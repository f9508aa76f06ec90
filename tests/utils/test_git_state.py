import os
import subprocess

import git
import pytest

from rsl_rl.utils import git_state
from rsl_rl.utils.git_state import one_file_per_repository, write_git_state

AUTHOR = git.Actor("a", "a@example.org")


@pytest.fixture
def repo(tmp_path):
    """A repository with one committed file, which has been changed since."""
    folder = tmp_path / "robot_repo"
    repo = git.Repo.init(folder)
    (folder / "a.txt").write_text("before\n")
    repo.index.add(["a.txt"])
    repo.index.commit("first", author=AUTHOR, committer=AUTHOR)
    (folder / "a.txt").write_text("after\n")
    yield repo
    repo.close()


def saved(repo, tmp_path):
    """The file that is written for a repository, and the lines that the user reads."""
    lines = []
    (path,) = write_git_state([repo.working_dir], tmp_path / "git", lines.append)
    return path, lines


def test_commit_and_uncommitted_changes_are_kept(repo, tmp_path):
    paths = write_git_state([f"{repo.working_dir}/a.txt", tmp_path / "nowhere"], tmp_path / "git")
    assert [path.name for path in paths] == ["robot_repo.diff"]
    text = paths[0].read_text()
    assert repo.head.commit.hexsha in text and "-before" in text and "+after" in text


def test_a_repository_without_commits_is_no_error(tmp_path):
    path, lines = saved(git.Repo.init(tmp_path / "new"), tmp_path)
    assert "commit none" in path.read_text() and lines == []


def test_the_diff_restores_text_and_binary_files_whatever_git_is_set_to(repo, tmp_path):
    folder = tmp_path / "robot_repo"
    with repo.config_writer() as config:
        config.set_value("diff", "external", "echo")
        config.set_value("color", "ui", "always")
        config.set_value("diff", "noprefix", "true")
    (folder / "latin.txt").write_bytes("größe\n".encode("latin-1"))
    (folder / "weights.bin").write_bytes(bytes(range(256)) * 4)
    repo.git.add("-A")
    path, lines = saved(repo, tmp_path)
    assert lines == [] and b"\x1b" not in path.read_bytes()
    wanted = {name: (folder / name).read_bytes() for name in ("a.txt", "latin.txt", "weights.bin")}
    repo.git.reset("--hard", "HEAD")
    subprocess.run(["git", "apply", str(path)], cwd=folder, check=True)
    assert {name: (folder / name).read_bytes() for name in wanted} == wanted


def test_changes_of_a_large_file_are_left_out_and_named(repo, tmp_path, monkeypatch):
    monkeypatch.setattr(git_state, "LARGEST_FILE", 1000)
    (tmp_path / "robot_repo" / "big [1].csv").write_text("0.123\n" * 1000)
    repo.git.add("-A")
    path, lines = saved(repo, tmp_path)
    text = path.read_text()
    assert "+after" in text and "0.123" not in text and "left out: the changes of big [1].csv" in text
    assert lines == [f"warning: {path} is incomplete: the changes of big [1].csv (0 MB, more than 0.001 MB)"]


def test_a_large_diff_is_cut_off_with_a_note(repo, tmp_path, monkeypatch):
    (tmp_path / "robot_repo" / "many.csv").write_text("0.123\n" * 1000)
    repo.git.add("-A")
    monkeypatch.setattr(git_state, "LARGEST_DIFF", 2000)
    path, lines = saved(repo, tmp_path)
    assert path.stat().st_size < 5000 and "left out: the rest of the diff" in path.read_text() and len(lines) == 1


def test_an_empty_reference_is_no_error(repo, tmp_path):
    (tmp_path / "robot_repo" / ".git" / repo.head.ref.path).write_text("")
    path, _ = saved(repo, tmp_path)
    assert "commit none" in path.read_text()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_another_user_is_recorded_as_refused(repo, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))  # without safe.directory
    monkeypatch.delenv("SUDO_UID", raising=False)
    for folder in (tmp_path / "robot_repo", tmp_path / "robot_repo" / ".git"):
        os.chown(folder, 12345, 12345)
    path, lines = saved(repo, tmp_path)
    assert "dubious ownership" in path.read_text() and any("dubious ownership" in line for line in lines)


@pytest.fixture
def tasks_repo(tmp_path):
    """A repository with a tracked file, a new file, an ignored folder and a virtual environment that is not ignored."""
    folder = tmp_path / "tasks"
    created = git.Repo.init(folder)
    for name in ("tracked.py", "new.py", "ignored/lib.py", ".venv/lib/python3.11/site-packages/rsl_rl/run_log.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")
    (folder / ".gitignore").write_text("ignored/\n")
    created.index.add(["tracked.py", ".gitignore"])
    created.index.commit("first", author=AUTHOR, committer=AUTHOR)
    return folder


def test_one_file_per_repository_with_two_files_of_one_returns_the_first(tasks_repo):
    assert one_file_per_repository([tasks_repo / "new.py", tasks_repo / "tracked.py", tasks_repo]) == [
        tasks_repo / "new.py"
    ]


@pytest.mark.parametrize("name", ["ignored/lib.py", ".venv/lib/python3.11/site-packages/rsl_rl/run_log.py", "missing"])
def test_one_file_per_repository_with_a_file_that_only_lies_there_returns_nothing(tasks_repo, name):
    assert one_file_per_repository([tasks_repo / name]) == []


def test_one_file_per_repository_outside_any_repository_returns_nothing(tmp_path):
    (tmp_path / "alone.py").touch()
    assert one_file_per_repository([tmp_path / "alone.py"]) == []
