"""The folder of a run: one writer at a time, its files besides the checkpoints, and what an earlier training has left
after the iteration from which another one goes on."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import socket
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from rsl_rl.config.learn import LearnConfig
from rsl_rl.loggers import ConsoleLogger, JsonlLogger, Logger, Record, RetryingLogger
from rsl_rl.loggers.logger import METRICS, load_logger, parse_record
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
from rsl_rl.utils.files import (
    LinkError,
    atomic_write,
    make_folder,
    make_new_folder,
    open_file,
    refuse_link,
    remove_temporary_files,
)
from rsl_rl.utils.git_state import one_file_per_repository, read_git_state, write_git_state

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

LOCK = ".lock"
"""Name of the lock file in a run folder; it holds the host and the process that train there."""

_LARGEST_LOCK = 10_000
"""Size of what is read of a lock file [bytes]."""


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
        descriptor = open_file(path, os.O_RDWR)
        try:
            held = _try_lock(descriptor)
            owner = _read_owner(descriptor)
            if held is False or (held is None and _is_alive(owner)):
                pid, host = owner or ("unknown", "unknown")
                raise TrainingError(
                    f"process {pid} on host {host} is training in {path.parent}; stop it first, or start a run of its "
                    f"own. If it no longer exists, delete {path}"
                )
            if not _is_current(descriptor, path):  # its holder has just deleted it
                os.close(descriptor)
                continue
            os.ftruncate(descriptor, 0)
            os.lseek(descriptor, 0, os.SEEK_SET)
            os.write(descriptor, json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode())
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


class _Owner(NamedTuple):
    """The process that a lock file names."""

    pid: int
    host: str


def _read_owner(descriptor: int) -> Optional[_Owner]:
    """Return the process that an open lock file names; None where it is empty or damaged."""
    try:
        content = json.loads(os.read(descriptor, _LARGEST_LOCK))
        host, pid = content["host"], content["pid"]
    except (ValueError, TypeError, KeyError, RecursionError, OSError):
        return None
    sound = isinstance(host, str) and host.isprintable() and isinstance(pid, int) and 0 < pid < 2**31
    return _Owner(pid, host) if sound else None


def _is_alive(owner: Optional[_Owner]) -> bool:
    """Return whether the process that a lock file names may still exist; one of another host may."""
    if owner is None:
        return False
    if owner.host != socket.gethostname():
        return True
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return owner.pid != os.getpid()


def _is_current(descriptor: int, path: Path) -> bool:
    """Return whether the path still names the open file."""
    with contextlib.suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(descriptor), os.lstat(str(path)))
    return False


class RunLog:
    """Write config and git state of a run, and its metrics with the loggers; without a folder, use the console only.

    Only rank 0 of a distributed training writes and prints.
    """

    def __init__(self, folder: Optional[Path], cfg: LearnConfig, env_cfg: Any, rank: int = 0):
        self._rank, self.folder = rank, folder if rank == 0 else None
        self._cfg, self._env_cfg = cfg, env_cfg
        self._git_files: List[Path] = [Path(__file__)]
        self._logger_class = load_logger(cfg.runner.logger) if self.folder is not None else None
        self._loggers: List[Logger] = []
        self._config_path: Optional[Path] = None  # of the config of this object's start
        self._git_state: Optional[Dict[str, bytes]] = None  # of a start that is still to be written

    def add_git_repo(self, file_in_repo: Union[str, Path]) -> None:
        """Save the state of the repository of a file too."""
        self._git_files.append(Path(file_in_repo))

    def start(self, first_iteration: int, last_iteration: int) -> None:
        """Move files of later iterations away, write config and git state once, and open the loggers.

        A resumed run writes them with its first iteration, so that a start that fails leaves no config. Files that
        cannot be moved, and links in the folder, are a :class:`TrainingError`.
        """
        notes: List[str] = []
        loggers = self._loggers or self._make_loggers()
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            notes += _clear_folder(self.folder, first_iteration)
            if self._config_path is None or not self._config_path.exists():  # it may have been moved away
                self._begin(self.folder, first_iteration, notes)
        self._loggers = loggers
        for logger in self._loggers:
            logger.start(first_iteration, last_iteration)
        for note in notes:
            self.print_line(note)

    def _begin(self, folder: Path, iteration: int, notes: List[str]) -> None:
        """Read the git state of a start, and write it with the config in a new run. Warnings are added to ``notes``."""
        is_new = not (folder / "config.yaml").exists()
        self._config_path = folder / ("config.yaml" if is_new else f"config_from_{iteration}.yaml")
        self._git_state = read_git_state(one_file_per_repository(self._git_files), notes.append)
        if is_new:
            self._write_start()

    def _write_start(self) -> None:
        """Write config and git state of a start, unless that is done."""
        state, path = self._git_state, self._config_path
        if state is None or path is None:
            return
        self._git_state = None
        config = to_dict(self._cfg)
        config.setdefault("env", to_dict(self._env_cfg))
        write_yaml(config, path)
        write_git_state(state, path.with_name(path.stem.replace("config", "git", 1)))

    def _make_loggers(self) -> List[Logger]:
        loggers: List[Logger] = [ConsoleLogger(self._cfg.runner.experiment_name)] if self._rank == 0 else []
        if self.folder is not None and self._logger_class is not None:
            files = JsonlLogger(self.folder / METRICS), self._logger_class(self.folder, to_dict(self._cfg))
            loggers += [RetryingLogger(logger, self.print_line) for logger in files]
        return loggers

    def write(self, record: Record) -> None:
        """Write the metrics of one iteration with every logger."""
        try:
            self._write_start()
        except OSError as error:
            self.print_line(f"warning: the config and git state of this start could not be written ({error})")
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


def _clear_folder(run: Path, iteration: int) -> List[str]:
    """Move away what a run has after an iteration, and return notes for the user.

    A link in place of a file of the run, and an error of the disk, are a :class:`TrainingError`.
    """
    try:
        for path in sorted(run.iterdir()):
            refuse_link(path)
        branch = supersede_after(run, iteration)
    except LinkError as error:
        raise TrainingError(str(error)) from error
    except OSError as error:
        raise TrainingError(
            f"the files after iteration {iteration} cannot be moved to {run / 'superseded'} ({error}); none is lost; "
            "correct this, or resume a copy of the run"
        ) from error
    remove_temporary_files(run)
    return [] if branch is None else [f"note: iterations after {iteration} of an earlier training are in {branch}"]


def supersede_after(run: Path, iteration: int) -> Optional[Path]:
    """Move what a run has after an iteration to a new folder ``superseded/after_<iteration>``, and return the folder;
    None where there is nothing after it.

    These are checkpoints, the best if it is one of them, films, config and git state of later starts, and lines of the
    metrics; the event files of TensorBoard, which hold the earlier iterations too, are copied. After an OSError all
    files are in their places.
    """
    late = [path for path in checkpoints_of(run) if iteration_of(path) > iteration]
    late += [path for path in (run / "videos").glob("model_*") if _iteration_of_film(path) > iteration]
    with contextlib.suppress(CheckpointError):  # there is none, or a damaged one, which the next will replace
        if best_iteration(run) > iteration:
            late.append(best_path(run))
    kept, dropped = _split_metrics(run / METRICS, iteration)
    is_trained = bool(late) or any(line.endswith(b"\n") for line in dropped)
    starts = [start for start in later_configs(run) if start > iteration or (start == iteration and is_trained)]
    late += [path for start in starts for path in (later_configs(run)[start], run / f"git_from_{start}")]
    folder = None
    if is_trained or starts:
        folder = make_new_folder(make_folder(run / "superseded"), f"after_{iteration}")
        _move([path for path in late if path.exists()], kept, dropped, run, folder)
    elif dropped:
        atomic_write(run / METRICS, b"".join(kept))
    return folder


def _move(late: Sequence[Path], kept: Sequence[bytes], dropped: Sequence[bytes], run: Path, folder: Path) -> None:
    """Move files and the dropped lines of the metrics to a new folder; an OSError undoes it."""
    moved: List[Path] = []
    try:
        for path in run.glob("events.out.tfevents.*"):
            shutil.copy2(path, folder / path.name)
        if dropped:
            atomic_write(folder / METRICS, b"".join(dropped))
        for path in late:
            os.replace(path, folder / path.name)
            moved.append(path)
        if dropped:
            atomic_write(run / METRICS, b"".join(kept))
    except OSError:
        for path in moved:
            os.replace(folder / path.name, path)
        shutil.rmtree(folder)
        raise


def _split_metrics(path: Path, iteration: int) -> Tuple[List[bytes], List[bytes]]:
    """Return the lines of a metrics file up to an iteration, and those after it."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else []
    late = [_iteration_of_line(line) > iteration for line in lines]
    return [line for line, drop in zip(lines, late) if not drop], [line for line, drop in zip(lines, late) if drop]


def _iteration_of_line(line: bytes) -> float:
    """Return the iteration of a line, infinity where it has none, such as one that was cut off."""
    try:
        return parse_record(line)["iteration"] if line.endswith(b"\n") else math.inf
    except ValueError:
        return math.inf


def _iteration_of_film(path: Path) -> int:
    match = re.fullmatch(r"model_(\d+)(_frames\.png|\.mp4)", path.name)
    return int(match.group(1)) if match else -1
