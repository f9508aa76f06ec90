"""Write files so that a full disk or a killed process leaves no partial file, and a link leads to no other file."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
import tempfile
from pathlib import Path
from typing import Optional

_PART = ".part"

_KINDS = {stat.S_IFLNK: "a symbolic link", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


class LinkError(OSError):
    """A link, pipe or device in the place of a file or folder; writing to it would change something else."""


def is_regular_file(path: Path) -> bool:
    """Return whether a path is a file itself: no folder, device, pipe or symbolic link."""
    return os.path.lexists(str(path)) and stat.S_ISREG(os.lstat(str(path)).st_mode)


def expand_user(text: str, where: str) -> Path:
    """Return a path with ~ replaced by a home folder; an unknown user is a ValueError that starts with ``where``."""
    try:
        return Path(text).expanduser()
    except RuntimeError as error:
        user = Path(text).parts[0]
        raise ValueError(f"{where} {text}: there is no home folder {user}; write the whole path") from error


def read_file(path: Path, largest: int = 100_000_000) -> bytes:
    """Return the content of a file that a user names; a device, a pipe, a folder, or a file above a size [bytes] is a
    ValueError, a missing one an OSError."""
    if not path.exists():
        raise FileNotFoundError(f"there is no file {path}; check the path")
    status = os.stat(str(path))
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path} is not a file; give a file")
    if status.st_size > largest:
        raise ValueError(f"{path} has {status.st_size / 1e6:.0f} MB; such a file may have {largest / 1e6:g} MB")
    return path.read_bytes()


def refuse_link(path: Path) -> None:
    """Raise a LinkError unless a path is a folder, a file with this name only, or nothing."""
    with contextlib.suppress(FileNotFoundError):  # another process may delete it at any moment
        _refuse(path, os.lstat(str(path)))


def _refuse(path: Path, status: os.stat_result) -> None:
    is_file = stat.S_ISREG(status.st_mode)
    if stat.S_ISDIR(status.st_mode) or (is_file and status.st_nlink <= 1):
        return
    kind = "a hard link" if is_file else _KINDS.get(stat.S_IFMT(status.st_mode), "a device")
    raise LinkError(
        f"{path} is {kind}, through which something else would be changed; delete it, or put a copy of the file or "
        "folder in its place"
    )


def open_file(path: Path, flags: int) -> int:
    """Open or create a file and return its descriptor; a link, a pipe or a device is a LinkError."""
    refuse_link(path)
    protected = flags | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)  # it may have changed since
    descriptor = os.open(str(path), protected | os.O_CREAT, 0o666)
    try:
        _refuse(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def make_folder(folder: Path) -> Path:
    """Create a folder, and those around it, if there is none, and return it; a link to a folder is a LinkError."""
    refuse_link(folder)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def make_new_folder(parent: Path, name: str) -> Path:
    """Create a new folder and return it; a number is appended to a name that exists."""
    parent.mkdir(parents=True, exist_ok=True)  # a dangling link is an error here
    for number in itertools.count(1):
        folder = parent / (name if number == 1 else f"{name}_{number}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError("unreachable")


def atomic_write(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a temporary file and rename it to ``path``, so that ``path`` has either the old or the new content.

    After an OSError the old file is unchanged and there is no temporary file. A link is replaced and not followed. The
    bits of ``mode`` that the process masks are left out.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_PART}")
    try:
        if os.path.lexists(str(temporary)):  # of a killed process with the same number
            temporary.unlink()
        with open(str(temporary), "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        if temporary.exists():
            temporary.unlink()
    _sync_folder(path.parent)


def require_writable(folder: Path) -> None:
    """Create a folder if there is none; an OSError says why no file can be written in it."""
    with tempfile.TemporaryFile(dir=str(make_folder(folder))):
        pass


def _sync_folder(folder: Path) -> None:
    """Flush the entries of a folder to the disk, on systems that support it."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(str(folder), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_temporary_files(folder: Path) -> None:
    """Delete temporary files of processes that were killed in :func:`atomic_write`, as far as that is possible."""
    for path in folder.glob(f".*{_PART}"):
        with contextlib.suppress(OSError):
            path.unlink()


class AppendFile:
    """A file that is only appended to."""

    def __init__(self, path: Path):
        self._file = os.fdopen(open_file(path, os.O_WRONLY | os.O_APPEND), "ab", buffering=0)

    def append(self, content: bytes) -> None:
        """Append bytes; after an OSError the file is unchanged."""
        end = os.fstat(self._file.fileno()).st_size
        view: Optional[memoryview] = memoryview(content)
        try:
            while view:
                view = view[self._file.write(view) or 0 :]
        except OSError:
            self._file.truncate(end)
            raise

    def sync(self) -> None:
        """Flush the file to the disk."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()
