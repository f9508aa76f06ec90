"""One writer at a time in a run folder."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from pathlib import Path
from typing import Any, Dict, Iterator, Optional

from rsl_rl.runners.rollback import TrainingError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

NAME = ".lock"
"""Name of the lock file in a run folder; it holds the host and the process that train there."""


@contextlib.contextmanager
def run_lock(folder: Optional[Path]) -> Iterator[None]:
    """Hold the lock of a run folder; None for no folder, which needs no lock.

    A folder in which another process trains is a :class:`TrainingError`, and one that cannot be written an OSError. The
    lock of a process that was killed is taken over: the system releases it, and where the file system knows no locks,
    the process that the file names is looked up on this host.
    """
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / NAME
    descriptor = _acquire(path)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()
        os.close(descriptor)


def _acquire(path: Path) -> int:
    """Return the descriptor of a lock file that this process holds."""
    while True:
        descriptor = os.open(str(path), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            held = _try_lock(descriptor)
            owner = _read_owner(path)
            if held is False or (held is None and _is_alive(owner)):
                raise TrainingError(
                    f"process {owner.get('pid', 'unknown')} on host {owner.get('host', 'unknown')} is training in "
                    f"{path.parent}; stop it first, or start a run of its own. If it no longer exists, delete {path}"
                )
            if not _is_current(descriptor, path):  # its holder has just deleted it
                os.close(descriptor)
                continue
            path.write_text(json.dumps({"host": socket.gethostname(), "pid": os.getpid()}), encoding="utf-8")
            return descriptor
        except BaseException:
            with contextlib.suppress(OSError):
                os.close(descriptor)
            raise


def _try_lock(descriptor: int) -> Optional[bool]:
    """Return whether the lock was free and is now held; None where the file system knows no locks."""
    if fcntl is None:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _read_owner(path: Path) -> Dict[str, Any]:
    try:
        owner = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _is_alive(owner: Dict[str, Any]) -> bool:
    """Return whether the process that a lock file names may still exist; one of another host may."""
    if not owner:
        return False
    if owner.get("host") != socket.gethostname():
        return True
    try:
        os.kill(int(owner.get("pid", 0)), 0)
    except ProcessLookupError:
        return False
    except (OSError, ValueError, TypeError):
        return True
    return int(owner["pid"]) != os.getpid()


def _is_current(descriptor: int, path: Path) -> bool:
    """Return whether the path still names the open file."""
    with contextlib.suppress(FileNotFoundError):
        return os.fstat(descriptor).st_ino == path.stat().st_ino
    return False
