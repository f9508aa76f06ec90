"""What is kept of the first environment that breaks for each cause."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional, Set

import torch
from torch import Tensor

from rsl_rl.env.vec_env import VecEnv
from rsl_rl.runners.guard import Guard
from rsl_rl.utils.files import write_whole

_PREFIX = "faults/"


class Coroner:
    """Tells the user of the first environment that broke for each cause, and writes down what is known of it:
    ``postmortem/<cause>_<iteration>.pt`` for programs and ``.json`` for people."""

    def __init__(self, folder: Optional[Path], env: VecEnv, guard: Guard, tell: Callable[[str], None]):
        self._folder = folder / "postmortem" if folder is not None else None
        self._ask_env = getattr(env, "postmortem", None)
        self._guard, self._tell = guard, tell
        self._known: Set[str] = set()

    def look(self, counts: Mapping[str, float], iteration: int) -> None:
        """Look into causes, "faults/<cause>", that have occurred now and never before."""
        for name, count in counts.items():
            cause = name[len(_PREFIX) :] if name.startswith(_PREFIX) else None
            if cause is None or count == 0 or cause in self._known:
                continue
            event = self._guard.first_event(cause)
            if event is not None:
                self._known.add(cause)
                self._report(cause, count, iteration, event)

    def _report(self, cause: str, count: float, iteration: int, event: Dict[str, Tensor]) -> None:
        environment, step = int(event.pop("environment")), int(event.pop("step"))
        details = self._details(cause)
        if details and details.get("environment", environment) != environment:  # one that broke before training
            environment, event = details["environment"], {}
        term = (details or {}).get("term") or _culprit(cause, event)
        case = {
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
            f"{step}; {count:.0f} such steps in this iteration are left out"
        )
        if self._folder is None:
            self._tell(line)
            return
        stem = f"{cause}_{iteration}"
        try:
            self._folder.mkdir(exist_ok=True)
            packed = io.BytesIO()
            torch.save(case, packed)
            write_whole(self._folder / f"{stem}.pt", packed.getvalue())
            write_whole(self._folder / f"{stem}.json", (json.dumps(_plain(case), indent=1) + "\n").encode())
        except Exception as error:  # of the disk, or of what an environment says; neither is worth a training
            self._tell(f"{line}; the post-mortem could not be written ({error})")
            return
        self._tell(f"{line}; see postmortem/{stem}.json")

    def _details(self, cause: str) -> Optional[Dict[str, Any]]:
        """Ask the environment what it knows; its own mistakes there end no training."""
        try:
            return self._ask_env(cause) if self._ask_env is not None else None
        except Exception as error:
            self._tell(f"warning: the environment's postmortem('{cause}') failed: {type(error).__name__}: {error}")
            return None


def _culprit(cause: str, event: Mapping[str, Tensor]) -> str:
    """Name the numbers that the learner could not use."""
    if not event:
        return ""
    if cause == "reward":
        return f"{float(event['reward']):g}"
    if cause != "observation":
        return ""
    sizes = {name: event[name].abs().nan_to_num(torch.inf, torch.inf) for name in ("next_actor_obs", "next_critic_obs")}
    name = max(sizes, key=lambda name: float(sizes[name].max()))
    worst = int(sizes[name].argmax())
    return f"{float(event[name][worst]):g} in column {worst} of {name[len('next_') :]}"


def _plain(value: Any) -> Any:
    """Return nested values as JSON knows them; numbers that are not finite as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Tensor):
        return _plain(value.tolist())
    return str(value) if isinstance(value, float) and value - value != 0 else value
