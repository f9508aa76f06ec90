"""Checkpoint files: written atomically, read without executing code."""

from __future__ import annotations

import contextlib
import hashlib
import io
import re
import zipfile
from collections import OrderedDict
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

import torch
from torch import Tensor
from torch.nn import Parameter

from rsl_rl.utils.files import atomic_write
from rsl_rl.utils.text import one_line

FORMAT = 1
"""Version of the format; increased if older code cannot read it."""

BEST = "best"
"""Name of the best checkpoint of a run, found by evaluations during the training: ``model_best.pt``."""

Which = Union[int, str]
"""A checkpoint of a run: its iteration, -1 for the newest undamaged one, or BEST."""

_NO_COMMENT = 2
"""Size of the field with the length of a zip archive's comment, at the end of the archive [bytes]."""

_END_RECORD_SIZE = 22
"""Size of the last record of a zip archive without a comment [bytes]."""

_DIGEST_SIZE = 64
"""Size of a SHA-256 in hexadecimal [bytes]."""

_LEAVES = (bool, int, float, complex, str, bytes, type(None), Tensor, Parameter)
"""Types of the values that a checkpoint can hold, besides dicts, lists and tuples of them."""


class CheckpointError(ValueError):
    """A checkpoint that cannot be used; the message says why and what to do."""


def write_checkpoint(path: Path, state: Dict[str, Any]) -> None:
    """Save a dict of tensors and plain values atomically, followed by its SHA-256; other values are a ValueError."""
    check_serializable(state, "the checkpoint")
    buffer = io.BytesIO()
    torch.save(state, buffer)
    archive = buffer.getbuffer()[:-_NO_COMMENT]  # a zip archive ends with the length of a comment and the comment
    digest = hashlib.sha256(archive).hexdigest().encode()
    atomic_write(path, b"".join((archive, len(digest).to_bytes(_NO_COMMENT, "little"), digest)))


def check_serializable(value: Any, where: str) -> None:
    """Raise a ValueError if ``torch.load`` with ``weights_only=True`` could not load a value."""
    kind = type(value)
    if kind in (dict, OrderedDict):
        for key, item in value.items():
            check_serializable(key, f"a key of {where}")
            check_serializable(item, f"{where}[{key!r}]")
    elif kind in (list, tuple):
        for i, item in enumerate(value):
            check_serializable(item, f"{where}[{i}]")
    elif kind not in _LEAVES:
        raise ValueError(
            f"{where} is a {kind.__module__}.{kind.__qualname__}, which a checkpoint cannot hold; give tensors, "
            "numbers, texts, and lists, tuples and dicts of them (torch.from_numpy(array), float(number))"
        )


def read_checkpoint(
    path: Path, device: Union[str, torch.device] = "cpu", convert: Optional[Callable[[Any], Any]] = None
) -> Dict[str, Any]:
    """Load a checkpoint without executing code, and ``convert`` its content; a file that is not a checkpoint is a
    :class:`CheckpointError`."""
    if not path.is_file():
        raise CheckpointError(f"there is no checkpoint {path}")
    try:
        content = path.read_bytes()
        verify_checksum(content)
        state = torch.load(io.BytesIO(content), map_location=device, weights_only=True)
        state = state if convert is None else convert(state)
    except Exception as error:  # a damaged file can cause any error
        reason = one_line(str(error))[:160]
        raise CheckpointError(f"{path} is damaged or not a checkpoint ({reason}); {_alternative(path)}") from error
    if not isinstance(state, dict) or "model_state_dict" not in state:
        keys = ", ".join(sorted(map(str, state))) if isinstance(state, dict) else type(state).__name__
        raise CheckpointError(f"{path} is not a policy checkpoint: it has {keys or 'nothing'} and no model_state_dict")
    version = state.get("format", 0)
    if not isinstance(version, int) or version > FORMAT:
        raise CheckpointError(f"{path} has format {version}, and this version reads up to {FORMAT}; update rsl-rl-lib")
    return state


def verify_checksum(content: bytes) -> None:
    """Raise a ValueError if the bytes of a checkpoint have changed.

    Files of other trainers have no SHA-256; the checksums of the parts of the zip archive are verified instead.
    """
    mark = len(content) - _DIGEST_SIZE
    archive, digest = content[: mark - _NO_COMMENT], content[mark:]
    end = content[mark - _END_RECORD_SIZE : mark]  # of the archive, where a SHA-256 follows it
    if end[:4] == b"PK\x05\x06" and end[-_NO_COMMENT:] == _DIGEST_SIZE.to_bytes(_NO_COMMENT, "little"):
        if hashlib.sha256(archive).hexdigest().encode() != digest:
            raise ValueError("its checksum is wrong")
    elif content[:2] == b"PK":
        if content[-_END_RECORD_SIZE:][:4] != b"PK\x05\x06" or content[-_NO_COMMENT:] != bytes(_NO_COMMENT):
            raise ValueError("its end is missing")
        broken = zipfile.ZipFile(io.BytesIO(content)).testzip()
        if broken is not None:
            raise ValueError(f"the checksum of {broken} is wrong")


def first_unusable(value: Any, name: str, allow_complex: bool = False) -> str:
    """Return what no learner can load in a tensor or number, or in nested dicts, lists and tuples; an empty string if
    there is nothing. An example is "numbers that are not finite, in actor.0.bias". ``name`` is that of ``value``."""
    if isinstance(value, Mapping):
        items = [(str(key), item) for key, item in value.items()]
    elif isinstance(value, (list, tuple)):
        items = [(str(i), item) for i, item in enumerate(value)]
    else:
        fault = _fault(value, allow_complex)
        return f"{fault}, in {name}" if fault else ""
    return next(filter(None, (first_unusable(item, f"{name}.{key}", allow_complex) for key, item in items)), "")


def _fault(value: Any, allow_complex: bool) -> str:
    """Return why a tensor or number cannot be loaded; an empty string if it can, and for other values."""
    if not isinstance(value, (Tensor, float, complex)):
        return ""
    number = torch.as_tensor(value)
    if number.is_meta:
        return "a tensor without values (device meta)"
    if number.is_quantized:
        return "a quantized tensor"
    if number.layout != torch.strided or number.is_nested:
        return "a sparse or nested tensor"
    if number.is_complex() and not allow_complex:
        return "complex numbers"
    try:
        return "" if torch.isfinite(number).all() else "numbers that are not finite"
    except (NotImplementedError, RuntimeError):  # of types without arithmetic, such as float8
        return f"numbers of the type {str(number.dtype).rpartition('.')[2]}"


def is_whole(path: Path) -> bool:
    """Return whether a checkpoint can be read."""
    try:
        read_checkpoint(path)
    except CheckpointError:
        return False
    return True


def _alternative(damaged: Path) -> str:
    """Return a text with an undamaged checkpoint to use instead."""
    limit = iteration_of(damaged)
    older = [path for path in checkpoints_of(damaged.parent) if limit < 0 or iteration_of(path) < limit]
    whole = next((path for path in reversed(older) if is_whole(path)), None)
    return f"use {whole.name} (--checkpoint {iteration_of(whole)})" if whole else "use another one"


def checkpoints_of(run: Path) -> List[Path]:
    """Return the checkpoints in a run folder, the oldest first."""
    return sorted((path for path in run.glob("model_*.pt") if iteration_of(path) >= 0), key=iteration_of)


def iteration_of(path: Path) -> int:
    """Return the iteration in a name such as ``model_150.pt``, or -1 for other names."""
    match = re.fullmatch(r"model_(\d+)\.pt", path.name)
    return int(match.group(1)) if match else -1


def checkpoint_id(path: Path) -> Which:
    """Return the iteration of a checkpoint file, or BEST."""
    return BEST if path == best_path(path.parent) else iteration_of(path)


def best_path(run: Path) -> Path:
    """Return the path of a run's best checkpoint, which may not exist."""
    return run / f"model_{BEST}.pt"


def best_iteration(run: Path) -> int:
    """Return the iteration of a run's best checkpoint; a missing one, or one without it, is a
    :class:`CheckpointError`."""
    path = find_checkpoint(run, BEST)
    iteration = read_checkpoint(path).get("iter")
    if not isinstance(iteration, int):
        raise CheckpointError(f"{path} has no number of its iteration (iter); use another checkpoint")
    return iteration


def find_checkpoint(run: Path, which: Which = -1) -> Path:
    """Return a checkpoint in a run folder; a missing one is a :class:`CheckpointError`."""
    found = checkpoints_of(run)
    known = ", ".join(str(iteration_of(path)) for path in found[-10:])
    if which == BEST:
        if best_path(run).is_file():
            return best_path(run)
        raise CheckpointError(
            f"{run} has no {best_path(run).name}, which a training with --evaluate_interval saves; it has "
            f"{known or 'none'}"
        )
    if not found:
        raise CheckpointError(f"{run} has no checkpoint model_<iteration>.pt")
    if which == -1:
        return next((path for path in reversed(found) if is_whole(path)), found[-1])
    for path in found:
        if iteration_of(path) == which:
            return path
    raise CheckpointError(f"{run} has no checkpoint of iteration {which}; it has {known}")


def find_run(experiment: Path, name: str = "-1") -> Path:
    """Return the folder of a run by its name, or -1 for the newest one with a checkpoint.

    Names of runs begin with their start time; folders with other names, such as copies, count as older than these.
    """
    if name != "-1":
        run = Path(name) if Path(name).is_dir() else experiment / name
        if not run.is_dir():
            raise CheckpointError(f"there is no run {name} in {experiment}; it has {_names(experiment)}")
        return run
    runs = {path.parent for path in experiment.glob("*/model_*.pt") if iteration_of(path) >= 0}
    if not runs:
        raise CheckpointError(f"{experiment} has no run with a checkpoint; train one first")
    return max(runs, key=lambda run: (re.match(r"\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", run.name) is not None, run.name))


def config_of(run: Path, iteration: int = -1) -> Path:
    """Return the file with the config of a run at an iteration (-1: the last): ``config.yaml``, or
    ``config_from_<start>.yaml`` if the run was resumed at an earlier iteration."""
    starts = later_configs(run)
    passed = [start for start in starts if iteration == -1 or start <= iteration]
    return starts[max(passed)] if passed else run / "config.yaml"


def later_configs(run: Path) -> Dict[int, Path]:
    """Return the configs of a run that was resumed, by the iteration of the start."""
    matches = {path: re.fullmatch(r"config_from_(\d+)\.yaml", path.name) for path in run.glob("config_from_*.yaml")}
    return {int(match.group(1)): path for path, match in matches.items() if match}


def prune_checkpoints(run: Path, keep_last: int, keep_every: int) -> None:
    """Delete all checkpoints except the newest ``keep_last`` (0: keep all) and every ``keep_every``-th iteration."""
    for path in checkpoints_of(run)[:-keep_last] if keep_last else ():
        if not keep_every or iteration_of(path) % keep_every:
            path.unlink()


def discard_run_folder(folder: Path) -> None:
    """Remove the empty folder of a new run, and the experiment's folder if it is empty."""
    with contextlib.suppress(OSError):
        folder.rmdir()
        folder.parent.rmdir()


def _names(folder: Path) -> str:
    names = sorted(path.name for path in folder.glob("*") if path.is_dir())
    return ", ".join(names[-5:]) if names else "none"
