"""Find the git repositories that hold files, and save their state with a run.

A repository may be somebody else's: git runs with a time limit and without the programs that a repository's own
configuration names. Changes that look like credentials are left out.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from rsl_rl.utils.files import atomic_write, make_folder
from rsl_rl.utils.host import kill_group
from rsl_rl.utils.text import one_line, printable

INSTALLED = {"site-packages", "dist-packages"}
"""Folders of installed packages; a repository around them is not that of the packages."""
LARGEST_FILE = 10_000_000
"""Size of a changed file [bytes] above which its changes are left out."""
LARGEST_DIFF = 50_000_000
"""Size of a diff [bytes] after which it is cut off."""
TIME_LIMIT = 20.0
"""Time for all git commands in one repository [s]."""

_SAFE = (
    "--no-pager",
    *("-c", "color.ui=false"),
    *("-c", "core.fsmonitor="),
    *("-c", f"core.hooksPath={os.devnull}"),
    *("-c", "diff.autoRefreshIndex=false"),
    *("-c", "status.submoduleSummary=false"),
)
"""Options by which git runs no program that a repository names, apart from filters. Submodules have configurations of
their own, so their files are not looked at either (--ignore-submodules=dirty)."""

_ENVIRONMENT = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_ALLOW_PROTOCOL": "none",  # a partial clone would fetch what it lacks
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}

_REDIRECTIONS = {"GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_COMMON_DIR", "GIT_CONFIG"}
"""Environment variables, set for programs that git has started, that name another repository."""

_DIFF = (
    "diff",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--no-renames",
    "--submodule=short",
    "--ignore-submodules=dirty",
)

_CREDENTIAL_FILE = re.compile(
    rb"(?:^|/)(?:"
    rb"[^/]*\.env|\.env(?:\.[^/]*|rc)"
    rb"|[^/]*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk)"
    rb"|id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?"
    rb"|[._]netrc|\.pgpass|\.npmrc|\.pypirc|\.dockercfg|\.htpasswd|\.git-credentials|kubeconfig|kaggle\.json"
    rb"|\.?(?:credentials?|secrets?|passwords?|passwd)(?:\.[^/]*)?"
    rb"|service[-_]account[^/]*\.json"
    rb"|\.(?:ssh|aws|gnupg|docker|kube)/.*"
    rb")$",
    re.IGNORECASE,
)
"""Names of files that hold credentials."""

_CREDENTIAL = re.compile(
    rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY"
    rb"|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"
    rb"|\b(?:gh[pousr]|npm|hf)_[0-9A-Za-z]{30,}|\bgithub_pat_\w{20,}"
    rb"|\b(?:glpat|sk|xox[abeprs])-[\w-]{20,}|\bpypi-[\w-]{40,}|\bAIza[\w-]{30,}"
    rb"|\beyJ[\w-]{10,2000}\.eyJ"
    rb"|\bBearer [\w.~+/-]{20,}"
    rb"|://[^\s/:@'\"]{1,200}:[^\s/:@'\"{}]{1,200}@"
    # a setting whose name ends with such a word, and its value: in quotation marks, or with a digit
    rb"|(?:passw(?:or)?d|passphrase|secret|token|credential|(?:api|access|private|auth|account)[-_]?key)s?['\"]?\]?"
    rb"[ \t]{0,20}[:=][ \t]{0,20}"
    rb"(?:['\"][\w+/=@!$%^&*#.-]{8,}['\"]|(?=[^\s0-9]{0,200}[0-9])[\w+/=@!$%^&*#-]{8,200}[ \t\r]{0,20}$)",
    re.IGNORECASE | re.MULTILINE,
)
"""Text of credentials: keys, tokens, passwords in addresses and as values of settings."""


def one_file_per_repository(files: Iterable[Union[str, Path]]) -> List[Path]:
    """Return the first file of each repository, and files whose repository git cannot read.

    A repository holds a file if it tracks it or would add it. Installed packages and ignored files, such as those of a
    virtual environment inside the repository, are left out. Without git the result is empty.
    """
    found: Dict[Path, Path] = {}
    for file in (Path(name).resolve() for name in files):
        root = _root_of(file)
        if root is None or root in found or INSTALLED & set(file.relative_to(root).parts):
            continue
        if file == root or _Repository(root).git("check-ignore", "--quiet", "--", str(file)).code != 0:
            found[root] = file
    return list(found.values())


def read_git_state(
    files_in_repos: Iterable[Union[str, Path]], note: Callable[[str], None] = lambda line: None
) -> Dict[str, bytes]:
    """Return commit, status and uncommitted diff of the repository around each file, by the name of a file for them.

    Files outside any repository are skipped; without git, all files are skipped. What git refuses, what is too large
    and what looks like credentials is named in the content, and in a line for ``note``.
    """
    states: Dict[str, bytes] = {}
    for root in map(_root_of, files_in_repos):
        if root is None:
            continue
        repository = _Repository(root)
        name, number = f"{root.name}.diff", 1
        while name in states:  # several repositories may have the same name
            number += 1
            name = f"{root.name}_{number}.diff"
        states[name] = repository.read()
        for line in repository.notes:
            note(f"warning: git/{name} is incomplete: {line}")
    return states


def write_git_state(states: Mapping[str, bytes], folder: Path) -> List[Path]:
    """Write the states of repositories into a folder, readable by their owner only; return the files."""
    paths = [folder / name for name in states]
    for path, content in zip(paths, states.values()):
        atomic_write(make_folder(folder) / path.name, content, mode=0o600)
    return paths


def commit_of(file: Union[str, Path]) -> str:
    """Return the commit of the repository that holds a file; empty without one, and for an installed package."""
    root = _root_of(file)
    if root is None or INSTALLED & set(Path(file).resolve().relative_to(root).parts):
        return ""
    result = _Repository(root).git("rev-parse", "--verify", "--quiet", "HEAD")
    return result.output.decode().strip() if result.code == 0 else ""


def changed_files(file: Union[str, Path]) -> List[str]:
    """Return the tracked files with uncommitted changes of the repository that holds a file; none without one, and for
    an installed package."""
    root = _root_of(file)
    if root is None or INSTALLED & set(Path(file).resolve().relative_to(root).parts):
        return []
    asked = ("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no", "--ignore-submodules=dirty")
    lines = _Repository(root).git(*asked).output.split(b"\0")
    return [printable(os.fsdecode(line[3:])) for line in lines if line]  # two letters and a space before each name


def _root_of(file: Union[str, Path]) -> Optional[Path]:
    """Return the folder of the repository around a file; None if there is none, or no git."""
    path = Path(file).resolve()
    if shutil.which("git") is None or not path.exists():  # robots and clusters may lack git
        return None
    return next((folder for folder in (path, *path.parents) if (folder / ".git").exists()), None)


def without_credentials(diff: bytes) -> Tuple[bytes, List[bytes]]:
    """Return a diff without the files whose changes look like credentials, and the names of these files."""
    kept, left_out = [], []
    for section in re.split(rb"(?m)^(?=diff --git )", diff):
        if b"\nGIT binary patch\n" not in section and _CREDENTIAL.search(section):
            names = section.partition(b"\n")[0][len(b"diff --git ") :]  # a/NAME b/NAME
            left_out.append(names[: len(names) // 2].replace(b"a/", b"", 1))
        else:
            kept.append(section)
    return b"".join(kept), left_out


class _Result(NamedTuple):
    """What a git command has given."""

    code: int
    output: bytes
    error: str


class _Repository:
    """Read the state of one repository; ``notes`` lists what is left out."""

    def __init__(self, root: Path):
        self._root = root
        self._deadline = time.monotonic() + TIME_LIMIT
        self._filters: Optional[List[str]] = None  # options that turn off the repository's filters
        self.notes: List[str] = []

    def read(self) -> bytes:
        """Return commit, status and uncommitted diff."""
        head = self._read("rev-parse", "--verify", "--quiet", "HEAD").rstrip() or b"none"
        status = self._read("status", "--ignore-submodules=dirty")
        diff = self._diff() if head != b"none" else b""
        notes = [f"left out: {line}".encode() for line in self.notes]
        return b"\n\n".join([b"commit " + head, *notes, status, diff]) + b"\n"

    def _diff(self) -> bytes:
        names = self._read(*_DIFF, "--name-only", "-z", "HEAD", "--", ":/").split(b"\0")
        large = [name for name in names if name and self._size(name) > LARGEST_FILE]
        for name in large:
            size = f"{self._size(name) / 1e6:.0f} MB, more than {LARGEST_FILE / 1e6:g} MB"
            self.notes.append(f"the changes of {printable(os.fsdecode(name))} ({size})")
        secret = [name for name in names if _CREDENTIAL_FILE.search(name)]
        excluded = [b":(top,literal,exclude)" + name for name in (*large, *secret)]
        prefixes = "--src-prefix=a/", "--dst-prefix=b/"
        diff = self._read(*_DIFF, "--binary", *prefixes, "HEAD", "--", ":/", *excluded)
        diff, more = without_credentials(diff)
        if secret or more:
            files = ", ".join(printable(os.fsdecode(name)) for name in (*secret, *more))
            self.notes.append(f"changes that look like credentials, in {files}")
        return diff

    def _size(self, name: bytes) -> int:
        """Return the size of a file in the working tree [bytes]; 0 if there is none."""
        path = os.path.join(os.fsencode(self._root), name)
        return os.lstat(path).st_size if os.path.lexists(path) else 0

    def _read(self, *arguments: Any) -> bytes:
        """Return the output of a git command, up to LARGEST_DIFF; empty if it fails, which is noted."""
        code, output, error = self.git(*arguments)
        if len(output) > LARGEST_DIFF:
            self.notes.append(f"the rest of the diff, which is larger than {LARGEST_DIFF / 1e6:g} MB")
            return output[:LARGEST_DIFF]
        if code != 0 and error not in ("", *self.notes):
            self.notes.append(error)
        return output if code == 0 else b""

    def git(self, *arguments: Any) -> _Result:
        """Run a git command without programs of the repository's configuration."""
        try:
            if self._filters is None:
                self._filters = self._without_filters()
            return self._run([*_SAFE, *self._filters], arguments)
        except (OSError, ValueError) as error:
            return _Result(-1, b"", str(error))

    def _without_filters(self) -> List[str]:
        """Return options that replace the repository's filters, which are programs, by those of the user."""
        present, of_user = self._filter_settings({}), self._filter_settings({"GIT_DIR": os.devnull})
        if any(b"=" in name for name in present):
            raise ValueError("git is not run, because the repository's configuration has a filter with '=' in its name")
        values = (os.fsdecode(name + b"=" + of_user.get(name, b"")) for name in present)
        return [word for value in values for word in ("-c", value)]

    def _filter_settings(self, environment: Mapping[str, str]) -> Dict[bytes, bytes]:
        """Return the values of filters in git's configuration, by name; see gitattributes."""
        code, output, error = self._run([], ["config", "-z", "--get-regexp", r"^filter\."], environment)
        if code not in (0, 1):  # 1: there are none
            raise ValueError(error)
        entries = (entry.partition(b"\n") for entry in output.split(b"\0") if entry)
        return {name: value for name, _, value in entries}

    def _run(
        self, options: Sequence[str], arguments: Sequence[Any], more: Optional[Mapping[str, str]] = None
    ) -> _Result:
        """Run git until it ends, its time is over, or its output is larger than LARGEST_DIFF."""
        environment = {name: value for name, value in os.environ.items() if name not in _REDIRECTIONS}
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:  # a pipe could stay open for ever
            process = subprocess.Popen(
                ["git", *options, *arguments],
                cwd=str(self._root),
                env={**environment, **_ENVIRONMENT, **(more or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                start_new_session=True,
            )
            try:
                while process.poll() is None and os.fstat(output.fileno()).st_size <= LARGEST_DIFF:
                    if time.monotonic() > self._deadline:
                        return _Result(-1, b"", f"git has not finished within {TIME_LIMIT:g} s")
                    time.sleep(0.002)
            finally:
                if process.poll() is None:
                    kill_group(process)
                    with contextlib.suppress(subprocess.TimeoutExpired):  # it may wait for a disk
                        process.wait(timeout=1.0)
            output.seek(0)
            errors.seek(0)
            error = one_line(errors.read(10_000).decode(errors="replace"))
            code, content = process.returncode or 0, output.read(LARGEST_DIFF + 1)
        return _Result(code, content, f"git {arguments[0]} failed: {error[:300]}" if error else "")
