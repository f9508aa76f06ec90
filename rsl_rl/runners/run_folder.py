"""The folder of a run: one writer at a time, its files besides the checkpoints, and what an earlier training has left
after the iteration from which another one goes on."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import re
import shutil
import socket
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple, Union

from rsl_rl.config.learn import LearnConfig
from rsl_rl.loggers import LOGGERS, ConsoleLogger, JsonlLogger, Logger, Record, RetryingLogger
from rsl_rl.loggers.logger import METRICS
from rsl_rl.runners.rollback import TrainingError
from rsl_rl.utils.checkpoints import (
    CheckpointError,
    best_iteration,
    best_path,
    checkpoints_of,
    iteration_of,
    later_configs,
)
from rsl_rl.utils.config_io import to_dict, write_yaml
from rsl_rl.utils.files import atomic_write, remove_temporary_files
from rsl_rl.utils.git_state import one_file_per_repository, write_git_state

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
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
    path = folder / LOCK
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


class RunLog:
    """Write config and git state of a run, and its metrics with the loggers; without a folder, use the console only.

    Only rank 0 of a distributed training writes and prints.
    """

    def __init__(self, folder: Optional[Path], cfg: LearnConfig, env_cfg: Any, rank: int = 0):
        self._rank, self.folder = rank, folder if rank == 0 else None
        self._cfg, self._env_cfg = cfg, env_cfg
        self._git_files: List[Path] = [Path(__file__)]
        self._logger_class = LOGGERS.load(cfg.runner.logger) if self.folder is not None else None
        self._loggers: List[Logger] = []
        self._config_path: Optional[Path] = None  # of the config that this object has written

    def add_git_repo(self, file_in_repo: Union[str, Path]) -> None:
        """Save the state of the repository of a file too."""
        self._git_files.append(Path(file_in_repo))

    def start(self, first_iteration: int, last_iteration: int) -> None:
        """Move files of later iterations away, write config and git state once, and open the loggers.

        In a resumed run an error of the disk prints a warning only.
        """
        notes: List[str] = []
        if self.folder is not None:
            resumed = (self.folder / "config.yaml").exists()
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                branch = supersede_after(self.folder, first_iteration)
                if branch is not None:
                    notes.append(f"note: iterations after {first_iteration} of an earlier training are in {branch}")
                remove_temporary_files(self.folder)
                if self._config_path is None or not self._config_path.exists():  # it may have been moved away
                    self._write_config(self.folder, first_iteration, notes)
            except OSError as error:
                if not resumed:
                    raise
                notes.append(f"warning: the config and git state of this start could not be written ({error})")
        self._loggers = self._loggers or self._make_loggers()
        for logger in self._loggers:
            logger.start(first_iteration, last_iteration)
        for note in notes:
            self.print_line(note)

    def _write_config(self, folder: Path, iteration: int, notes: List[str]) -> None:
        """Write config and git state; a resumed run writes new files. Warnings are added to ``notes``."""
        ending = f"_from_{iteration}" if (folder / "config.yaml").exists() else ""
        config = to_dict(self._cfg)
        config.setdefault("env", to_dict(self._env_cfg))
        path = folder / f"config{ending}.yaml"
        write_yaml(config, path)
        write_git_state(one_file_per_repository(self._git_files), folder / f"git{ending}", notes.append)
        self._config_path = path

    def _make_loggers(self) -> List[Logger]:
        loggers: List[Logger] = [ConsoleLogger(self._cfg.runner.experiment_name)] if self._rank == 0 else []
        if self.folder is not None and self._logger_class is not None:
            files = JsonlLogger(self.folder / METRICS), self._logger_class(self.folder, to_dict(self._cfg))
            loggers += [RetryingLogger(logger, self.print_line) for logger in files]
        return loggers

    def write(self, record: Record) -> None:
        """Write the metrics of one iteration with every logger."""
        for logger in self._loggers:
            logger.write(record)

    def print_line(self, text: str) -> None:
        """Print a line for the user."""
        for logger in self._loggers:
            logger.note(text)

    def sync(self) -> None:
        """Flush all files to the disk."""
        for logger in self._loggers:
            logger.sync()

    def close(self) -> None:
        """Close the files; ``start`` may follow."""
        for logger in self._loggers:
            logger.close()


def supersede_after(run: Path, iteration: int) -> Optional[Path]:
    """Move what a run has after an iteration to a new folder ``superseded/after_<iteration>``, and return the folder;
    None where there is nothing after it.

    These are checkpoints, the best if it is one of them, films, configs of later starts, and lines of the metrics; the
    event files of TensorBoard, which hold the earlier iterations too, are copied.
    """
    late = [path for path in checkpoints_of(run) if iteration_of(path) > iteration]
    late += [path for start, path in later_configs(run).items() if start > iteration]
    late += [path for path in (run / "videos").glob("model_*") if _iteration_of_film(path) > iteration]
    with contextlib.suppress(CheckpointError):  # there is none, or a damaged one, which the next will replace
        if best_iteration(run) > iteration:
            late.append(best_path(run))
    kept, dropped = _split_metrics(run / METRICS, iteration)
    folder = None
    if late or any(line.endswith(b"\n") for line in dropped):
        folder = _new_folder(run / "superseded", f"after_{iteration}")
        _move(late, dropped, run, folder)
    if dropped:
        atomic_write(run / METRICS, b"".join(kept))
    return folder


def _move(late: Sequence[Path], lines: Sequence[bytes], run: Path, folder: Path) -> None:
    if lines:
        atomic_write(folder / METRICS, b"".join(lines))
    for path in run.glob("events.out.tfevents.*"):
        shutil.copy2(path, folder / path.name)
    for path in late:
        os.replace(path, folder / path.name)


def _split_metrics(path: Path, iteration: int) -> Tuple[List[bytes], List[bytes]]:
    """Return the lines of a metrics file up to an iteration, and those after it."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    late = [_iteration_of_line(line) > iteration for line in lines]
    return [line for line, drop in zip(lines, late) if not drop], [line for line, drop in zip(lines, late) if drop]


def _iteration_of_line(line: bytes) -> float:
    """Return the iteration of a line, infinity where it has none, such as one that was cut off."""
    try:
        return float(json.loads(line)["iteration"]) if line.endswith(b"\n") else math.inf
    except (ValueError, KeyError, TypeError):
        return math.inf


def _iteration_of_film(path: Path) -> int:
    match = re.fullmatch(r"model_(\d+)(_frames\.png|\.mp4)", path.name)
    return int(match.group(1)) if match else -1


def _new_folder(parent: Path, name: str) -> Path:
    for number in itertools.count(1):
        folder = parent / (name if number == 1 else f"{name}_{number}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
            return folder
    raise AssertionError("unreachable")
