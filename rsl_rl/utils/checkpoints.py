"""Checkpoint files: written whole or not at all, read without executing anything."""

from __future__ import annotations

import contextlib
import hashlib
import io
import itertools
import re
import zipfile
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

import torch
from torch import Tensor

from rsl_rl.utils.files import write_whole
from rsl_rl.utils.plain import require_plain

FORMAT = 1
"""Version of the layout; raised when a reader of today could not understand it."""

BEST = "best"
"""Stands for the best checkpoint of a run, as an evaluation during the training found it: ``model_best.pt``."""

Which = Union[int, str]
"""A checkpoint of a run: its iteration, -1 for the newest that is whole, or BEST."""

_NO_COMMENT = 2
"""Bytes of the length of a zip archive's comment, which end an archive without one."""

_END_RECORD_SIZE = 22
"""Bytes of the record that ends a zip archive without a comment."""

_DIGEST_SIZE = 64
"""Bytes of a SHA-256 in hexadecimal."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message says why and what to do."""


def write_checkpoint(path: Path, state: Dict[str, Any]) -> None:
    """Save a dict of tensors and plain values, whole or not at all, with its SHA-256 at the end; anything else in it is
    a ValueError."""
    require_plain(state, "the checkpoint")
    buffer = io.BytesIO()
    torch.save(state, buffer)
    archive = buffer.getbuffer()[:-_NO_COMMENT]  # a zip archive ends with the length of a comment and the comment
    digest = hashlib.sha256(archive).hexdigest().encode()
    write_whole(path, b"".join((archive, len(digest).to_bytes(_NO_COMMENT, "little"), digest)))


def read_checkpoint(
    path: Path, device: Union[str, torch.device] = "cpu", convert: Optional[Callable[[Any], Any]] = None
) -> Dict[str, Any]:
    """Load a checkpoint dict without executing anything in it, and ``convert`` what the file holds; where the result is
    not one, it is a :class:`CheckpointError`."""
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}")
    try:
        content = path.read_bytes()
        require_whole(content)
        state = torch.load(io.BytesIO(content), map_location=device, weights_only=True)
        state = state if convert is None else convert(state)
    except Exception as error:  # a damaged file can make the reader stumble over anything
        reason = " ".join(str(error).split())[:160]
        raise CheckpointError(
            f"{path} is damaged or no checkpoint of weights alone ({reason}); {_alternative(path)}"
        ) from error
    if not isinstance(state, dict) or "model_state_dict" not in state:
        keys = ", ".join(sorted(map(str, state))) if isinstance(state, dict) else type(state).__name__
        raise CheckpointError(f"{path} is no policy checkpoint: it holds {keys or 'nothing'} and no model_state_dict")
    version = state.get("format", 0)
    if not isinstance(version, int) or version > FORMAT:
        raise CheckpointError(f"{path} has format {version}, and this version reads up to {FORMAT}; update rsl-rl-lib")
    return state


def require_whole(content: bytes) -> None:
    """Raise a ValueError where the bytes of a checkpoint are not those that were written.

    Files of other trainers have no SHA-256; theirs is the checksum that a zip archive keeps of each of its parts.
    """
    mark = len(content) - _DIGEST_SIZE
    archive, digest = content[: mark - _NO_COMMENT], content[mark:]
    end = content[mark - _END_RECORD_SIZE : mark]  # of the archive, where a SHA-256 follows it
    if end[:4] == b"PK\x05\x06" and end[-_NO_COMMENT:] == _DIGEST_SIZE.to_bytes(_NO_COMMENT, "little"):
        if hashlib.sha256(archive).hexdigest().encode() != digest:
            raise ValueError("its checksum is not that of its content")
    elif content[:2] == b"PK":
        if content[-_END_RECORD_SIZE:][:4] != b"PK\x05\x06" or content[-_NO_COMMENT:] != bytes(_NO_COMMENT):
            raise ValueError("its end is not that of an archive without a comment")
        broken = zipfile.ZipFile(io.BytesIO(content)).testzip()
        if broken is not None:
            raise ValueError(f"the checksum of {broken} is wrong")


def first_not_finite(value: Any, name: str) -> str:
    """Return the name of the first number in a tensor, or in nested dicts, lists and tuples, that is not finite; an
    empty string if there is none. ``name`` is that of ``value``."""
    if isinstance(value, Mapping):
        items = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        items = [(str(i), item) for i, item in enumerate(value)]
    else:
        number = torch.as_tensor(value) if isinstance(value, (Tensor, float, complex)) else torch.zeros(())
        return "" if torch.isfinite(number).all() else name
    return next(filter(None, (first_not_finite(item, f"{name}.{key}") for key, item in items)), "")


def is_whole(path: Path) -> bool:
    """Tell whether a checkpoint can be read."""
    try:
        read_checkpoint(path)
    except CheckpointError:
        return False
    return True


def _alternative(damaged: Path) -> str:
    """Say which checkpoint to take instead of a damaged one."""
    limit = iteration_of(damaged)
    older = [path for path in checkpoints_of(damaged.parent) if limit < 0 or iteration_of(path) < limit]
    whole = next((path for path in reversed(older) if is_whole(path)), None)
    return f"take {whole.name} (--checkpoint {iteration_of(whole)})" if whole else "take another one"


def checkpoints_of(run: Path) -> List[Path]:
    """Return the checkpoints in a run folder, the oldest first."""
    return sorted((path for path in run.glob("model_*.pt") if iteration_of(path) >= 0), key=iteration_of)


def iteration_of(path: Path) -> int:
    """Return the iteration in a name such as ``model_150.pt``, or -1 for other names."""
    match = re.fullmatch(r"model_(\d+)\.pt", path.name)
    return int(match.group(1)) if match else -1


def which_of(path: Path) -> Which:
    """Return what a checkpoint's name says that it is."""
    return BEST if path == best_of(path.parent) else iteration_of(path)


def best_of(run: Path) -> Path:
    """Return where a run's best checkpoint is, if there is one."""
    return run / f"model_{BEST}.pt"


def best_iteration(run: Path) -> int:
    """Return the iteration of a run's best checkpoint; where there is none, it is a :class:`CheckpointError`."""
    return read_checkpoint(find_checkpoint(run, BEST)).get("iter", 0)


def find_checkpoint(run: Path, which: Which = -1) -> Path:
    """Return a checkpoint in a run folder; where it is not there, it is a :class:`CheckpointError`."""
    found = checkpoints_of(run)
    known = ", ".join(str(iteration_of(path)) for path in found[-10:])
    if which == BEST:
        if best_of(run).is_file():
            return best_of(run)
        raise CheckpointError(
            f"{run} has no {best_of(run).name}, which a training with --evaluate_interval keeps; it has "
            f"{known or 'none'}"
        )
    if not found:
        raise CheckpointError(f"{run} holds no checkpoint model_<iteration>.pt")
    if which == -1:
        return next((path for path in reversed(found) if is_whole(path)), found[-1])
    for path in found:
        if iteration_of(path) == which:
            return path
    raise CheckpointError(f"{run} has no checkpoint of iteration {which}; it has {known}")


def find_run(experiment: Path, name: str = "-1") -> Path:
    """Return a run's folder in an experiment's: by its name, or -1 for the newest that holds a checkpoint.

    Names of runs begin with their start; folders of other names, such as copies, are older than all of these.
    """
    if name != "-1":
        run = Path(name) if Path(name).is_dir() else experiment / name
        if not run.is_dir():
            raise CheckpointError(f"there is no run {name} in {experiment}; it has {_names(experiment)}")
        return run
    runs = {path.parent for path in experiment.glob("*/model_*.pt") if iteration_of(path) >= 0}
    if not runs:
        raise CheckpointError(f"{experiment} holds no run with a checkpoint; train one first")
    return max(runs, key=lambda run: (re.match(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", run.name) is not None, run.name))


def config_of(run: Path, iteration: int = -1) -> Path:
    """Return the file with the config that a run had at an iteration (-1: last): ``config.yaml``, or
    ``config_from_<start>.yaml`` of the last time that it was gone on with."""
    starts = later_configs(run)
    passed = [start for start in starts if iteration == -1 or start <= iteration]
    return starts[max(passed)] if passed else run / "config.yaml"


def later_configs(run: Path) -> Dict[int, Path]:
    """Return the configs of the times that a run was gone on with, by the iteration of the start."""
    matches = {path: re.fullmatch(r"config_from_(\d+)\.yaml", path.name) for path in run.glob("config_from_*.yaml")}
    return {int(match.group(1)): path for path, match in matches.items() if match}


def prune_checkpoints(run: Path, keep_last: int, keep_every: int) -> None:
    """Delete all checkpoints but the newest ``keep_last`` (0: keep all) and those of every ``keep_every``-th
    iteration."""
    for path in checkpoints_of(run)[:-keep_last] if keep_last else ():
        if not keep_every or iteration_of(path) % keep_every:
            path.unlink()


def make_run_folder(experiment: Path, name: str) -> Path:
    """Create a new folder for a run and return it; where the name is taken, with a number behind it."""
    experiment.mkdir(parents=True, exist_ok=True)  # a link to a folder that is gone is an error here
    for number in itertools.count(1):
        folder = experiment / (name if number == 1 else f"{name}_{number}")
        with contextlib.suppress(FileExistsError):
            folder.mkdir()
            return folder
    raise AssertionError("unreachable")


def discard_run_folder(folder: Path) -> None:
    """Remove a run's new folder that nothing was written into, and the experiment's with it where it holds no other."""
    with contextlib.suppress(OSError):
        folder.rmdir()
        folder.parent.rmdir()


def _names(folder: Path) -> str:
    names = sorted(path.name for path in folder.glob("*") if path.is_dir())
    return ", ".join(names[-5:]) if names else "none"
