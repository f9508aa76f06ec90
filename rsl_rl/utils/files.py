"""Files that are whole at every moment, on disks that fill up and in processes that are killed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Optional

_PART = ".part"


def atomic_write(path: Path, content: bytes) -> None:
    """Write a file beside ``path`` and move it there: whoever looks finds the old content or the new, whole.

    An OSError leaves the old file as it was and nothing else behind.
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


def _sync_folder(folder: Path) -> None:
    """Have the disk remember the names in a folder, where the system knows how."""
    if hasattr(os, "O_DIRECTORY"):
        descriptor = os.open(str(folder), os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def remove_temporary_files(folder: Path) -> None:
    """Delete what processes that were killed in :func:`atomic_write` left in a folder."""
    for path in folder.glob(f".*{_PART}"):
        path.unlink()


class AppendFile:
    """A file that only grows, by whole pieces."""

    def __init__(self, path: Path):
        self._file = path.open("ab", buffering=0)

    def append(self, content: bytes) -> None:
        """Add bytes at the end; after an OSError the file is what it was before."""
        end = os.fstat(self._file.fileno()).st_size
        view: Optional[memoryview] = memoryview(content)
        try:
            while view:
                view = view[self._file.write(view) or 0 :]
        except OSError:
            self._file.truncate(end)
            raise

    def sync(self) -> None:
        """Have the disk hold all of it."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Release the file."""
        self._file.close()
