"""Report the first environment that breaks for each cause."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional, Set

import torch
from torch import Tensor

from rsl_rl.env.protocols import ReportsFaults, supports
from rsl_rl.env.step_validator import StepValidator
from rsl_rl.env.vec_env import VecEnv
from rsl_rl.utils.files import atomic_write, make_folder
from rsl_rl.utils.text import file_name

_PREFIX = "faults/"
_NEXT = "next_obs/"


class FaultReporter:
    """Print a line for the first environment that broke for each cause, and write a fault dump:
    ``postmortem/<cause>_<iteration>.pt`` for programs and ``.json`` for people.

    Each rank of a distributed training reports on its own environments; the names of files end with ``_rank<rank>``
    where that is not 0.
    """

    def __init__(
        self,
        folder: Optional[Path],
        env: VecEnv,
        validator: StepValidator,
        print_line: Callable[[str], None],
        rank: int = 0,
    ):
        self._folder = folder / "postmortem" if folder is not None else None
        self._env, self._validator = env, validator
        self._print_line = (lambda text: print(f"rank {rank}: {text}", flush=True)) if rank else print_line
        self._suffix = f"_rank{rank}" if rank else ""  # of the files of a rank
        self._known: Set[str] = set()

    def report_new(self, counts: Mapping[str, float], iteration: int) -> None:
        """Report causes, "faults/<cause>", that have occurred now and never before."""
        for name, count in counts.items():
            cause = name[len(_PREFIX) :] if name.startswith(_PREFIX) else None
            if cause is None or count == 0 or cause in self._known:
                continue
            event = self._validator.first_event(cause)
            if event is not None:
                self._known.add(cause)
                self._report(cause, count, iteration, event)

    def _report(self, cause: str, count: float, iteration: int, event: Dict[str, Tensor]) -> None:
        environment, step = int(event.pop("environment")), int(event.pop("step"))
        details = self._details(cause)
        if details and details.get("environment", environment) != environment:  # it broke before the training
            environment, event = details["environment"], {}
        term = (details or {}).get("term") or _offending_term(cause, event)
        dump = {
            "format": 1,
            "cause": cause,
            "term": term,
            "environment": environment,
            "iteration": iteration,
            "step": step,
            "seen_by_learner": event,
            "env": details,
        }
        line = (
            f"fault: {cause}{f' ({term})' if term else ''} in environment {environment}, iteration {iteration}, step "
            f"{step}; {count:.0f} such steps in this iteration are masked"
        )
        if self._folder is None:
            self._print_line(line)
            return
        stem = f"{file_name(cause)}_{iteration}{self._suffix}"
        try:
            make_folder(self._folder)
            packed = io.BytesIO()
            torch.save(dump, packed)
            atomic_write(self._folder / f"{stem}.pt", packed.getvalue())
            atomic_write(self._folder / f"{stem}.json", (json.dumps(_plain(dump), indent=1) + "\n").encode())
        except Exception as error:  # of the disk or of the environment's data; it must not end the training
            self._print_line(f"{line}; the fault dump could not be written ({error})")
            return
        self._print_line(f"{line}; see postmortem/{stem}.json")

    def _details(self, cause: str) -> Optional[Dict[str, Any]]:
        """Return the environment's data on a fault; an error in it does not end the training."""
        try:
            return self._env.postmortem(cause) if supports(self._env, ReportsFaults) else None
        except Exception as error:
            self._print_line(
                f"warning: the environment's postmortem('{cause}') failed: {type(error).__name__}: {error}"
            )
            return None


def _offending_term(cause: str, event: Mapping[str, Tensor]) -> str:
    """Describe the value that the learner could not use."""
    if not event:
        return ""
    if cause == "reward":
        return f"{float(event['reward']):g}"
    if cause != "observation":
        return ""
    seen = {name[len(_NEXT) :]: group.flatten() for name, group in event.items() if name.startswith(_NEXT)}
    sizes = {name: group.float().abs().nan_to_num(torch.inf, torch.inf) for name, group in seen.items()}
    name = max(sizes, key=lambda name: float(sizes[name].max()))
    worst = int(sizes[name].argmax())
    return f"{float(seen[name][worst]):g} in column {worst} of the group '{name}'"


def _plain(value: Any) -> Any:
    """Return nested values for JSON, with numbers that are not finite as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Tensor):
        return _plain(value.tolist())
    return str(value) if isinstance(value, float) and value - value != 0 else value
