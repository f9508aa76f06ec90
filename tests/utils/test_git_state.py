import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import git
import pytest

from rsl_rl.utils import git_state
from rsl_rl.utils.git_state import one_file_per_repository, read_git_state, write_git_state

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


def test_changed_files_are_the_tracked_ones_with_other_content(repo, tmp_path):
    folder = tmp_path / "robot_repo"
    (folder / "new.txt").write_text("not tracked\n")
    assert git_state.changed_files(folder / "new.txt") == ["a.txt"]
    (folder / "a.txt").write_text("before\n")
    assert git_state.changed_files(folder / "a.txt") == []
    (folder / "site-packages").mkdir()
    assert git_state.changed_files(folder / "site-packages") == []
    assert git_state.changed_files(tmp_path) == []


def saved(repo, tmp_path):
    """The file that is written for a repository, and the lines that the user reads."""
    lines = []
    (path,) = write_git_state(read_git_state([repo.working_dir], lines.append), tmp_path / "git")
    return path, lines


def test_commit_and_uncommitted_changes_are_kept(repo, tmp_path):
    states = read_git_state([f"{repo.working_dir}/a.txt", tmp_path / "nowhere"])
    paths = write_git_state(states, tmp_path / "git")
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
    assert lines == [
        "warning: git/robot_repo.diff is incomplete: the changes of big [1].csv (0 MB, more than 0.001 MB)"
    ]


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


SECRETS = {  # name of a file: its text
    ".env": "SPEED=fast\n",
    "config/prod.env": "SPEED=fast\n",
    "deploy/robot.pem": "no header\n",
    ".ssh/config": "Host robot\n",
    "secrets.yaml": "speed: fast\n",
    "key.txt": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1r\n",
    "settings.py": 'WANDB_API_KEY = "0123456789abcdef0123456789abcdef01234567"\n',
    "login.yaml": "user: me\npassword: correcthorse7\n",
    "run.sh": "export HF_TOKEN=hf_abcdefghijklmnopqrstuvwxyzABCDEFGH\n",
    "clone.sh": "git clone https://me:letmein@example.org/robot.git\n",
    "name [1] \u00e4.json": '{"aws_secret_access_key": "wJalrXUtnFEMIK7MDENGbPxRfiCY"}\n',
}  # fmt: skip


@pytest.mark.parametrize("name", SECRETS)
def test_changes_that_look_like_credentials_are_left_out_and_named(repo, tmp_path, name):
    file = tmp_path / "robot_repo" / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(SECRETS[name])
    repo.git.add("-A", "--force")
    path, lines = saved(repo, tmp_path)
    text = path.read_text()
    assert "+after" in text and not [line for line in SECRETS[name].splitlines() if line in text]
    assert len(lines) == 1 and "incomplete: changes that look like credentials, in " in lines[0]
    assert f"left out: {lines[0].partition('incomplete: ')[2]}" in text
    assert file.name in lines[0] or "name [1]" in lines[0]


def test_changes_away_from_credentials_are_left_out_too(repo, tmp_path):
    repo.git.add("-A")
    (tmp_path / "robot_repo" / "b.py").write_text("password = 'correcthorse'\n")
    (tmp_path / "robot_repo" / ".env").write_text("SPEED=slow\n")
    repo.git.add("-A")
    repo.index.commit("second", author=AUTHOR, committer=AUTHOR)
    (tmp_path / "robot_repo" / "b.py").write_text("password = os.environ['PASSWORD']\n")
    (tmp_path / "robot_repo" / ".env").rename(tmp_path / "robot_repo" / "env.txt")
    repo.git.add("-A")
    path, lines = saved(repo, tmp_path)
    assert "correcthorse" not in path.read_text() and "-SPEED" not in path.read_text()
    assert lines == ["warning: git/robot_repo.diff is incomplete: changes that look like credentials, in .env, b.py"]


CODE = """
token = tokens[0]
password: str = getpass("password: ")
self.pad_token, self.secret = tokenizer.pad_token, config.secret
key = "left_foot_contact_force"
actor_key: int = 12
for token in tokens_of(text): print(f"{token}: {count[token]}")
api_key = os.environ["API_KEY"]
url = "https://example.org:8080/a@b"
"""


def test_changes_of_code_about_keys_and_tokens_are_kept(repo, tmp_path):
    (tmp_path / "robot_repo" / "monkey.py").write_text(CODE)
    repo.git.add("-A")
    path, lines = saved(repo, tmp_path)
    assert lines == [] and all(line in path.read_text() for line in CODE.splitlines())


def test_the_state_is_for_its_owner_only(repo, tmp_path):
    path, _ = saved(repo, tmp_path)
    assert path.stat().st_mode & 0o777 == 0o600


PROGRAMS = {  # sections of a repository's configuration, where {0} is a program
    "fsmonitor": '[core]\nfsmonitor = {0}',
    "clean": '[filter "x"]\nclean = {0}',
    "required process": '[filter "x"]\nprocess = {0}\nrequired = true',
    "filter of an odd name": '[filter "a=b"]\nclean = {0}',
    "textconv": '[diff "x"]\ntextconv = {0}',
    "command": '[diff "x"]\ncommand = {0}',
    "external": '[diff]\nexternal = {0}',
    "pager": '[core]\npager = {0}\n[pager]\ndiff = {0}\nstatus = {0}',
    "hooks": '[core]\nhooksPath = {1}/hooks',
    "alias": '[alias]\nstatus = !{0}\ndiff = !{0}\nrev-parse = !{0}',
    "included": '[include]\npath = {1}/more',
    "submodule": '[status]\nsubmoduleSummary = true\n[diff]\nsubmodule = log',
}  # fmt: skip


@pytest.fixture
def program(tmp_path):
    """A program that leaves a trace, and with which the repository's configuration is full."""
    path = tmp_path / "program"
    path.write_text(f"#!/bin/sh\necho ran >> {tmp_path}/ran\ncat\n")
    path.chmod(0o755)
    (tmp_path / "hooks").mkdir()
    (tmp_path / "hooks" / "post-index-change").symlink_to(path)
    (tmp_path / "more").write_text(f'[filter "x"]\nclean = {path}\n[core]\nfsmonitor = {path}\n')
    return path


@pytest.mark.parametrize("what", PROGRAMS)
def test_programs_of_the_configuration_of_a_repository_are_not_run(repo, tmp_path, program, what):
    folder = tmp_path / "robot_repo"
    if what == "submodule":
        inner = git.Repo.clone_from(repo.working_dir, folder / "inner")
        repo.git.execute(["git", "-c", "advice.addEmbeddedRepo=false", "add", "inner"])
        repo.index.commit("with a submodule", author=AUTHOR, committer=AUTHOR)
        (folder / "inner" / "a.txt").write_text("in the submodule\n")
        with open(os.path.join(inner.git_dir, "config"), "a") as file:
            file.write(f"[core]\nfsmonitor = {program}\n" + PROGRAMS["clean"].format(program))
        (folder / "inner" / ".gitattributes").write_text("* filter=x\n")
        inner.close()
    (folder / ".gitattributes").write_text("*.txt filter=x diff=x\n*.md filter=a=b\n")
    with open(os.path.join(repo.git_dir, "config"), "a") as file:
        file.write(PROGRAMS[what].format(program, tmp_path) + "\n")
    os.utime(folder / "a.txt", (1, 1))
    (path,) = write_git_state(read_git_state(one_file_per_repository([folder / "a.txt"])), tmp_path / "git")
    assert not (tmp_path / "ran").exists()
    if "=" in PROGRAMS[what].partition("\n")[0]:
        assert "git is not run" in path.read_text()
    else:
        assert "+after" in path.read_text()


def test_filters_of_the_user_are_run(repo, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    (tmp_path / "gitconfig").write_text('[filter "x"]\nclean = tr a-z A-Z\n')
    with repo.config_writer() as config:
        config.set_value('filter "x"', "clean", "tr a-z 0")
    (tmp_path / "robot_repo" / ".gitattributes").write_text("*.txt filter=x\n")
    path, lines = saved(repo, tmp_path)
    assert "+AFTER" in path.read_text() and lines == []


def pids_in(folder):
    """Return the processes that run in a folder."""
    found = []
    for link in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):  # it has ended, or is somebody else's
            if os.path.realpath(link) == str(folder.resolve()):
                found.append(int(link.parent.name))
    return found


def test_git_that_hangs_is_stopped_with_one_line(repo, tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")  # nobody writes to it
    with open(os.path.join(repo.git_dir, "config"), "a") as file:
        file.write(f"[include]\npath = {tmp_path}/pipe\n")
    monkeypatch.setattr(git_state, "TIME_LIMIT", 0.5)
    began = time.monotonic()
    assert one_file_per_repository([repo.working_dir]) == [tmp_path / "robot_repo"]
    path, lines = saved(repo, tmp_path)
    assert lines == ["warning: git/robot_repo.diff is incomplete: git has not finished within 0.5 s"]
    assert time.monotonic() - began < 20 and "commit none" in path.read_text()
    if sys.platform == "linux":  # nothing of it goes on
        running = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in pids_in(tmp_path / "robot_repo")]
        assert [command for command in running if b"cat-file" not in command] == []  # those are the fixture's


def test_git_that_another_git_has_started_reads_the_repository_of_the_file(repo, tmp_path, monkeypatch):
    other = git.Repo.init(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", other.git_dir)
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "no_index"))
    path, _ = saved(repo, tmp_path)
    other.close()
    assert "+after" in path.read_text()


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
