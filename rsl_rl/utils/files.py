"""Write files so that a full disk or a killed process leaves no partial file."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import Optional

_PART = ".part"


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


def atomic_write(path: Path, content: bytes) -> None:
    """Write a temporary file and rename it to ``path``, so that ``path`` has either the old or the new content.

    After an OSError the old file is unchanged and there is no temporary file.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}{_PART}")
    try:
        with temporary.open("wb") as file:
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
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=str(folder)):
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
    """Delete temporary files of processes that were killed in :func:`atomic_write`."""
    for path in folder.glob(f".*{_PART}"):
        path.unlink()


class AppendFile:
    """A file that is only appended to."""

    def __init__(self, path: Path):
        self._file = path.open("ab", buffering=0)

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
