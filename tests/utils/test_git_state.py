import git

from rsl_rl.utils.git_state import write_git_state


def test_commit_and_uncommitted_changes_are_kept(tmp_path):
    folder = tmp_path / "robot_repo"
    repo = git.Repo.init(folder)
    (folder / "a.txt").write_text("before\n")
    repo.index.add(["a.txt"])
    author = git.Actor("a", "a@example.org")
    commit = repo.index.commit("first", author=author, committer=author)
    (folder / "a.txt").write_text("after\n")
    paths = write_git_state([folder / "a.txt", tmp_path / "nowhere"], tmp_path / "git")
    assert [path.name for path in paths] == ["robot_repo.diff"]
    text = paths[0].read_text()
    assert commit.hexsha in text and "-before" in text and "+after" in text


def test_a_repository_without_commits_is_no_error(tmp_path):
    git.Repo.init(tmp_path / "new")
    (path,) = write_git_state([tmp_path / "new"], tmp_path / "git")
    assert "commit none" in path.read_text()
