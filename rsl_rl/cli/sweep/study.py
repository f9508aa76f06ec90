"""The state of a sweep, shared by several processes and machines: trials of Optuna in a journal file; and a training.

The only file that imports Optuna.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import statistics
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence

import numpy as np
import optuna
from optuna.samplers import RandomSampler, TPESampler
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend, JournalFileOpenLock
from optuna.trial import FrozenTrial, Trial, TrialState

from rsl_rl.cli.errors import print_line
from rsl_rl.cli.sweep.search_space import Choices, Parameter, ParseConfig, Value, flags_of, paths_of
from rsl_rl.cli.trainings import (
    TrainProcesses,
    describe_exit,
    final_metrics,
    find_named_run,
    wait_for_lock,
)
from rsl_rl.config.aliases import is_former_name
from rsl_rl.loggers.logger import read_metrics
from rsl_rl.runners import TrainingError
from rsl_rl.runners.run_folder import run_lock
from rsl_rl.utils.files import make_folder, refuse_link, require_writable
from rsl_rl.utils.text import one_line

SAMPLERS = {"tpe": TPESampler, "random": RandomSampler}

REPORTS = 10
"""Number of comparisons of a training that may be pruned, at equal distances."""

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
        self._folder, self.settings = folder, settings
        require_writable(make_folder(folder) / "trials")
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        with wait_for_lock(folder):
            self._study = _open_study(folder / "study.journal", settings)
            self._names = _names_in_journal(self._study.get_trials(deepcopy=False), settings.space)
            choices = [parameter.values for parameter in settings.space if isinstance(parameter, Choices)]
            for values in itertools.product(*choices) if settings.trials == 0 else ():
                combination = {self._names[parameter.field]: x for parameter, x in zip(settings.space, values)}
                self._study.enqueue_trial(combination, skip_if_exists=True)

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
        for frozen in self._running():
            self._settle(frozen)  # a process that was killed may not have done it
        for frozen in self._running():
            trial = Trial(self._study, frozen._trial_id)
            values = self._suggest(trial)  # a process that was killed may not have done it
            for seed in self._open_seeds(frozen):
                assignment = Assignment(frozen.number, seed, values)
                if self._lock(assignment, stack):
                    return assignment
        started = len(self._study.get_trials(deepcopy=False)) - self._num_waiting()
        if self._num_waiting() == 0 and started >= self.settings.trials:
            return None
        # seeded for the trial, so that an interrupted sweep samples as an uninterrupted one does
        sequence = np.random.SeedSequence([self.settings.sampler_seed, started])
        self._study.sampler = SAMPLERS[self.settings.sampler](seed=int(sequence.generate_state(1)[0]))
        trial = self._study.ask()
        assignment = Assignment(trial.number, self.settings.seeds[0], self._suggest(trial))
        return assignment if self._lock(assignment, stack) else None

    def _running(self) -> List[FrozenTrial]:
        return self._study.get_trials(deepcopy=False, states=(TrialState.RUNNING,))

    def _num_waiting(self) -> int:
        return len(self._study.get_trials(deepcopy=False, states=(TrialState.WAITING,)))

    def _lock(self, assignment: Assignment, stack: contextlib.ExitStack) -> bool:
        try:
            stack.enter_context(run_lock(make_folder(self.output_folder(assignment))))
        except TrainingError:  # another process holds it
            return False
        return True

    def _open_seeds(self, frozen: FrozenTrial) -> List[int]:
        """Return the seeds without a result; with pruning, the first one decides whether the others are trained."""
        still_open = [seed for seed in self.settings.seeds if _name(seed) not in frozen.user_attrs]
        first = self.settings.seeds[0]
        return [first] if self.settings.prune and first in still_open else still_open

    def _suggest(self, trial: Trial) -> Dict[str, Value]:
        """Return the values of a trial; those that it has already are not sampled again."""
        values: Dict[str, Value] = {}
        for parameter in self.settings.space:
            field, name = parameter.field, self._names[parameter.field]
            if isinstance(parameter, Choices):
                values[field] = trial.suggest_categorical(name, parameter.values)
            elif parameter.is_integer:
                values[field] = trial.suggest_int(name, int(parameter.low), int(parameter.high), log=parameter.is_log)
            else:
                values[field] = trial.suggest_float(name, parameter.low, parameter.high, log=parameter.is_log)
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
            self._record(assignment, target)

    def record_end(self, assignment: Assignment, message: str, pruned: bool = False) -> None:
        """Record a training that failed or was pruned, and so its trial."""
        with wait_for_lock(self._folder):
            self._record(assignment, message, pruned)

    def _record(self, assignment: Assignment, result: Any, pruned: bool = False) -> None:
        """Write the result of a training, unless that of another seed has ended the trial."""
        frozen = self._frozen(assignment)
        if frozen.state == TrialState.RUNNING:
            trial = Trial(self._study, frozen._trial_id)
            if pruned:
                trial.set_user_attr(_PRUNED, True)
            trial.set_user_attr(_name(assignment.seed), result)
            self._settle(self._frozen(assignment))

    def _settle(self, frozen: FrozenTrial) -> None:
        """End a running trial if the results of its trainings say so."""
        results = [frozen.user_attrs.get(_name(seed)) for seed in self.settings.seeds]
        targets = [result for result in results if isinstance(result, float)]
        if any(isinstance(result, str) for result in results):
            state = TrialState.PRUNED if frozen.user_attrs.get(_PRUNED) else TrialState.FAIL
            self._study.tell(frozen.number, state=state)
        elif len(targets) == len(results):
            self._study.tell(frozen.number, statistics.fmean(targets))

    def _frozen(self, assignment: Assignment) -> FrozenTrial:
        return self._study.get_trials(deepcopy=False)[assignment.trial]

    def results(self) -> List[TrialResult]:
        """Return all trials that have begun: the complete ones, best first, then all others by number."""
        found = []
        for frozen in self._study.get_trials(deepcopy=False):
            attributes = {seed: frozen.user_attrs.get(_name(seed)) for seed in self.settings.seeds}
            targets = {seed: value for seed, value in attributes.items() if isinstance(value, float)}
            message = next((f"seed {seed}: {text}" for seed, text in attributes.items() if isinstance(text, str)), "")
            if frozen.state != TrialState.WAITING:
                state = _STATES.get(frozen.state, "running")
                values = {field: frozen.params[name] for field, name in self._names.items() if name in frozen.params}
                found.append(TrialResult(frozen.number, state, values, targets, message))
        sign = 1 if self.settings.minimize else -1

        def order(trial: TrialResult) -> Any:
            complete = trial.state == "complete"
            return not complete, sign * statistics.fmean(trial.targets.values()) if complete else 0.0, trial.number

        return sorted(found, key=order)


def _name(seed: int) -> str:
    """Return the attribute of a trial that holds the result of a seed: the target, or the reason of its end."""
    return f"seed_{seed}"


_PRUNED = "pruned"
"""Attribute of a trial that is to be pruned."""


def _open_study(path: Path, settings: SweepSettings) -> optuna.Study:
    """Open the study in a journal, or begin one; a damaged journal is a ValueError."""
    refuse_link(path)
    if path.exists():
        _remove_partial_line(path)
        _require_lines(path)
    try:
        study = optuna.create_study(
            storage=JournalStorage(JournalFileBackend(str(path), lock_obj=_HeldElsewhere(str(path)))),
            study_name="sweep",
            direction="minimize" if settings.minimize else "maximize",
            load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=4),
        )
        study.get_trials(deepcopy=False)
    except OSError:
        raise
    except Exception as error:  # a damaged file can cause any error
        reason = one_line(f"{type(error).__name__}: {error}")[:200]
        raise ValueError(f"{path} is damaged ({reason}); {_REMEDY}") from error
    return study


_CREATE_TRIAL = 4
"""Code of the operation that begins a trial, in a journal of Optuna; trials are numbered in this order."""

_REMEDY = "restore it from a copy, or start another sweep with --experiment_name"


def _require_lines(path: Path) -> None:
    """Raise a ValueError for a line of a journal that is not an operation, or one on a trial that has not begun, which
    Optuna passes over if another process wrote it."""
    num_trials = 0
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            operation = json.loads(line)
            num_trials += operation["op_code"] == _CREATE_TRIAL
            is_sound = operation.get("trial_id", -1) < num_trials
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError):
            is_sound = False
        if not is_sound:
            raise ValueError(f"line {number} of {path} is damaged; {_REMEDY}")


def _names_in_journal(trials: Sequence[FrozenTrial], space: Sequence[Parameter]) -> Dict[str, str]:
    """Return for each field the name that the trials have for it: a former one in the journal of an older version."""
    known = {name for trial in trials for name in (*trial.params, *trial.system_attrs.get("fixed_params", {}))}
    names = {}
    for parameter in space:
        former = [name for name in sorted(known) if any(is_former_name(name, path) for path in paths_of(parameter))]
        names[parameter.field] = parameter.field if parameter.field in known else next(iter(former), parameter.field)
    return names


def _remove_partial_line(path: Path) -> None:
    """Remove a last line without its end, which a process killed while writing has left."""
    content = path.read_bytes()
    if content and not content.endswith(b"\n"):
        with path.open("r+b") as file:
            file.truncate(content.rfind(b"\n") + 1)


class RunFlags(NamedTuple):
    """Flags of the trainings of a sweep, apart from the values of its parameters."""

    of_all: Sequence[str]
    of_new: Sequence[str]  # of a training that is not resumed
    prefix: str  # of the names of the runs
    experiment: Path  # folder of the runs


class SweepTrainer:
    """Train the assignments of a sweep, each as an ordinary run in a process of its own."""

    def __init__(
        self, study: SweepStudy, metric: str, flags: RunFlags, parse_config: ParseConfig, processes: TrainProcesses
    ):
        self._study, self._metric, self._flags = study, metric, flags
        self._parse_config, self._processes = parse_config, processes

    def run(self, assignment: Assignment) -> None:
        """Train with the seed of a trial and record the result; nothing is recorded of an interrupted training.

        An unfinished run is resumed, and a finished one only read. A training that is killed is resumed once.
        """
        name = f"trial_{assignment.trial:04d}_seed_{assignment.seed}"
        name = f"{self._flags.prefix}_{name}" if self._flags.prefix else name
        space, values = self._study.settings.space, assignment.values
        flags = [flag for parameter in space for flag in flags_of(parameter, values[parameter.field])]
        flags += ["--seed", str(assignment.seed)]
        cfg = self._parse_config(flags)
        last = cfg.runner.max_iterations
        pruning = _Pruning(self._study, assignment, self._metric, last, self._flags.experiment, name)
        output, code = self._study.output_folder(assignment) / "output.txt", 0
        for _ in range(2):
            code = self._train(assignment, [*flags, "--run_name", name], name, cfg, output, pruning)
            if self._processes.interrupted:
                return
            if code >= 0:
                break
        if pruning.at is not None:
            self._end(assignment, f"worse than the median at iteration {pruning.at}", pruned=True)
        elif code != 0:
            self._end(assignment, f"{describe_exit(code, output)} ({output})")
        else:
            self._record(assignment, name, cfg)

    def _train(
        self, assignment: Assignment, flags: Sequence[str], name: str, cfg: Any, output: Path, pruning: _Pruning
    ) -> int:
        """Start or resume a run and return the exit code of the training; 0 without one for a finished run."""
        run, how = find_named_run(self._flags.experiment, name), self._flags.of_new
        if run is not None:
            with wait_for_lock(run, lambda: not self._processes.interrupted) as free:
                if not free:  # the training of a sweep that was killed is still saving
                    return 0
            if final_metrics(run, cfg) is not None:
                return 0
            how = ["--resume", "--load_run", run.name]
        print_line(f"trial {assignment.trial}, seed {assignment.seed}: {'resuming' if run else 'training'} {name}")
        settings = self._study.settings
        decides = settings.prune and assignment.seed == settings.seeds[0]
        return self._processes.run([*self._flags.of_all, *flags, *how], output, pruning.decide if decides else None)

    def _record(self, assignment: Assignment, name: str, cfg: Any) -> None:
        run = find_named_run(self._flags.experiment, name)
        metrics = final_metrics(run, cfg) if run is not None else None
        target = (metrics or {}).get(self._metric)
        if target is None:
            self._end(assignment, f"{self._metric} of the last iteration is missing or no finite number")
            return
        self._study.record_target(assignment, float(target))
        print_line(f"trial {assignment.trial}, seed {assignment.seed}: {self._metric} {target:.4g}")

    def _end(self, assignment: Assignment, message: str, pruned: bool = False) -> None:
        self._study.record_end(assignment, message, pruned)
        state = "pruned" if pruned else "failed"
        print_line(f"trial {assignment.trial}, seed {assignment.seed}: {state}: {message}")


class _Pruning:
    """Compare a running training with the earlier trials."""

    def __init__(
        self, study: SweepStudy, assignment: Assignment, metric: str, max_iterations: int, experiment: Path, name: str
    ):
        self._study, self._assignment, self._metric = study, assignment, metric
        is_rare = metric.startswith("evaluation/")
        self._last, self._every = max_iterations, 1 if is_rare else max(1, max_iterations // REPORTS)
        self._experiment, self._name = experiment, name
        self._seen = 0  # iterations so far
        self.at: Optional[int] = None  # iteration of the decision to prune

    def decide(self) -> bool:
        """Report the iterations since the last call; return whether the trial should be pruned."""
        run = find_named_run(self._experiment, self._name)
        for record in read_metrics(run) if run is not None else ():
            iteration, target = record["iteration"], record.get(self._metric)
            if not self._seen < iteration < self._last:
                continue
            self._seen = iteration
            if iteration % self._every or target is None:  # no episode has ended, or nothing is evaluated
                continue
            if self._study.report(self._assignment, iteration, target):
                self.at = iteration
                return True
        return False
