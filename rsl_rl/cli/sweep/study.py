"""The state of a sweep, shared by several processes and machines: trials of Optuna in a journal file.

The only file that imports Optuna.
"""

from __future__ import annotations

import contextlib
import itertools
import statistics
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence

import numpy as np
import optuna
from optuna.samplers import RandomSampler, TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, Trial, TrialState

from rsl_rl.cli.processes import wait_for_lock
from rsl_rl.cli.sweep.search_space import Choices, Parameter, Value
from rsl_rl.runners import TrainingError
from rsl_rl.runners.run_folder import run_lock
from rsl_rl.utils.files import require_writable

SAMPLERS = {"tpe": TPESampler, "random": RandomSampler}

_STATES = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}


class SweepSettings(NamedTuple):
    """What a sweep does; equal for all processes of a sweep, apart from the number of trials."""

    space: Sequence[Parameter]
    trials: int
    """Number of trials; 0: every combination of the choices."""
    seeds: Sequence[int]
    minimize: bool
    sampler: str
    sampler_seed: int
    prune: bool


class Assignment(NamedTuple):
    """A training to do: the seed of a trial."""

    trial: int
    seed: int
    values: Dict[str, Value]  # by field, in the order of the space


class TrialResult(NamedTuple):
    """State of a trial."""

    number: int
    state: str  # complete, pruned, failed or running
    values: Dict[str, Value]
    targets: Dict[int, float]  # by seed, of the finished trainings
    message: str  # of a failed or pruned trial


class _HeldElsewhere(JournalFileOpenLock):
    """The lock of the journal does nothing: every writer holds the lock of the sweep's folder, which the system
    releases when a process is killed."""

    def acquire(self) -> bool:
        return True

    def release(self) -> None:
        pass


class SweepStudy:
    """Trials of a sweep, in the folder of the sweep.

    A trial is one setting, trained with each seed. Processes claim one training (trial and seed) at a time by a lock;
    the lock of a killed process is free, so that the next process continues its training.
    """

    def __init__(self, folder: Path, settings: SweepSettings):
        self._folder, self._settings = folder, settings
        require_writable(folder / "trials")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with wait_for_lock(folder):
            path = folder / "study.journal"
            _remove_partial_line(path)
            self._study = optuna.create_study(
                storage=JournalStorage(JournalFileBackend(str(path), lock_obj=_HeldElsewhere(str(path)))),
                study_name="sweep",
                direction="minimize" if settings.minimize else "maximize",
                load_if_exists=True,
                pruner=optuna.pruners.MedianPruner(n_startup_trials=4),
            )
            for values in _combinations(settings.space) if settings.trials == 0 else ():
                self._study.enqueue_trial(values, skip_if_exists=True)

    def output_folder(self, assignment: Assignment) -> Path:
        """Return the folder with the output of a training."""
        return self._folder / "trials" / f"{assignment.trial:04d}_seed_{assignment.seed}"

    @contextlib.contextmanager
    def claim(self) -> Iterator[Optional[Assignment]]:
        """Hold a training that no process works on; None if there is none. Earlier trials come first."""
        with contextlib.ExitStack() as stack:
            with wait_for_lock(self._folder):
                assignment = self._claim_next(stack)
            yield assignment

    def _claim_next(self, stack: contextlib.ExitStack) -> Optional[Assignment]:
        for frozen in self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            trial = Trial(self._study, frozen._trial_id)
            values = self._suggest(trial)  # a process that was killed may not have done it
            for seed in self._open_seeds(frozen):
                assignment = Assignment(frozen.number, seed, values)
                if self._lock(assignment, stack):
                    return assignment
        started = len(self._study.get_trials(deepcopy=False)) - self._num_waiting()
        if self._num_waiting() == 0 and started >= self._settings.trials:
            return None
        self._set_sampler(started)
        trial = self._study.ask()
        assignment = Assignment(trial.number, self._settings.seeds[0], self._suggest(trial))
        return assignment if self._lock(assignment, stack) else None

    def _num_waiting(self) -> int:
        return len(self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,)))

    def _lock(self, assignment: Assignment, stack: contextlib.ExitStack) -> bool:
        try:
            stack.enter_context(run_lock(self.output_folder(assignment)))
        except TrainingError:  # another process holds it
            return False
        return True

    def _open_seeds(self, frozen: FrozenTrial) -> List[int]:
        """Return the seeds without a result; with pruning, the first one decides whether the others are trained."""
        still_open = [seed for seed in self._settings.seeds if _name(seed) not in frozen.user_attrs]
        first = self._settings.seeds[0]
        return [first] if self._settings.prune and first in still_open else still_open

    def _set_sampler(self, number: int) -> None:
        """Seed the sampler for a trial, so that an interrupted sweep samples as an uninterrupted one does."""
        sequence = np.random.SeedSequence([self._settings.sampler_seed, number])
        self._study.sampler = SAMPLERS[self._settings.sampler](seed=int(sequence.generate_state(1)[0]))

    def _suggest(self, trial: Trial) -> Dict[str, Value]:
        """Return the values of a trial; those that it has already are not sampled again."""
        values: Dict[str, Value] = {}
        for parameter in self._settings.space:
            field = parameter.field
            if isinstance(parameter, Choices):
                values[field] = trial.suggest_categorical(field, parameter.values)
            elif parameter.is_integer:
                values[field] = trial.suggest_int(field, int(parameter.low), int(parameter.high), log=parameter.is_log)
            else:
                values[field] = trial.suggest_float(field, parameter.low, parameter.high, log=parameter.is_log)
        return values

    def report(self, assignment: Assignment, iteration: int, target: float) -> bool:
        """Report the target at an iteration of a running training; return whether its trial should be pruned.

        It should if its best target so far is worse than the median of the earlier trials at this iteration; at least
        four of these must be complete.
        """
        with wait_for_lock(self._folder):
            trial = Trial(self._study, self._frozen(assignment)._trial_id)
            trial.report(target, iteration)
            return bool(trial.should_prune())

    def record_target(self, assignment: Assignment, target: float) -> None:
        """Record the target of a finished training; the last seed completes the trial with the mean."""
        with wait_for_lock(self._folder):
            if self._write(assignment, target):
                attributes = self._frozen(assignment).user_attrs
                targets = [attributes[_name(seed)] for seed in self._settings.seeds if _name(seed) in attributes]
                if len(targets) == len(self._settings.seeds):
                    self._study.tell(assignment.trial, statistics.fmean(targets))

    def record_end(self, assignment: Assignment, message: str, pruned: bool = False) -> None:
        """Record a training that failed or was pruned, and so its trial."""
        with wait_for_lock(self._folder):
            if self._write(assignment, message):
                self._study.tell(assignment.trial, state=TrialState.PRUNED if pruned else TrialState.FAIL)

    def _write(self, assignment: Assignment, result: Any) -> bool:
        """Write the result of a training; return whether its trial is still running."""
        frozen = self._frozen(assignment)
        if frozen.state != TrialState.RUNNING:  # the training of another seed has ended it
            return False
        Trial(self._study, frozen._trial_id).set_user_attr(_name(assignment.seed), result)
        return True

    def _frozen(self, assignment: Assignment) -> FrozenTrial:
        return self._study.get_trials(deepcopy=False)[assignment.trial]

    def results(self) -> List[TrialResult]:
        """Return all trials that have begun: the complete ones, best first, then all others by number."""
        found = []
        for frozen in self._study.get_trials(deepcopy=False):
            attributes = {seed: frozen.user_attrs.get(_name(seed)) for seed in self._settings.seeds}
            targets = {seed: value for seed, value in attributes.items() if isinstance(value, float)}
            message = next((f"seed {seed}: {text}" for seed, text in attributes.items() if isinstance(text, str)), "")
            if frozen.state != TrialState.WAITING:
                state = _STATES.get(frozen.state, "running")
                found.append(TrialResult(frozen.number, state, dict(frozen.params), targets, message))
        sign = 1 if self._settings.minimize else -1

        def order(trial: TrialResult) -> Any:
            complete = trial.state == "complete"
            return not complete, sign * statistics.fmean(trial.targets.values()) if complete else 0.0, trial.number

        return sorted(found, key=order)


def _name(seed: int) -> str:
    """Return the attribute of a trial that holds the result of a seed: the target, or the reason of its end."""
    return f"seed_{seed}"


def _combinations(space: Sequence[Parameter]) -> Iterator[Dict[str, Any]]:
    choices = [parameter.values for parameter in space if isinstance(parameter, Choices)]
    for values in itertools.product(*choices):
        yield {parameter.field: value for parameter, value in zip(space, values)}


def _remove_partial_line(path: Path) -> None:
    """Remove a last line without its end, which a process killed while writing has left."""
    content = path.read_bytes() if path.exists() else b""
    if content and not content.endswith(b"\n"):
        with path.open("r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)
