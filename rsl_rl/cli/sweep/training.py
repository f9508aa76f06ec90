"""One training of a sweep: start or resume it, watch it, record its result."""

from __future__ import annotations

from pathlib import Path
from typing import Any, List, NamedTuple, Optional, Sequence

from rsl_rl.cli.errors import print_line
from rsl_rl.cli.processes import (
    TrainProcesses,
    describe_exit,
    final_metrics,
    find_named_run,
    read_metrics,
    wait_for_lock,
)
from rsl_rl.cli.sweep.search_space import ParseConfig, flags_of
from rsl_rl.cli.sweep.study import Assignment, SweepSettings, SweepStudy

REPORTS = 10
"""Number of comparisons of a training that may be pruned, at equal distances."""


class RunFlags(NamedTuple):
    """Flags of the trainings of a sweep, apart from the values of its parameters."""

    of_all: Sequence[str]
    of_new: Sequence[str]  # of a training that is not resumed
    prefix: str  # of the names of the runs
    experiment: Path  # folder of the runs


class SweepTrainer:
    """Train the assignments of a sweep, each as an ordinary run in a process of its own."""

    def __init__(
        self,
        study: SweepStudy,
        settings: SweepSettings,
        metric: str,
        flags: RunFlags,
        parse_config: ParseConfig,
        processes: TrainProcesses,
    ):
        self._study, self._settings, self._metric, self._flags = study, settings, metric, flags
        self._parse_config, self._processes = parse_config, processes

    def run(self, assignment: Assignment) -> None:
        """Train with the seed of a trial and record the result; nothing is recorded of an interrupted training.

        An unfinished run is resumed, and a finished one only read. A training that is killed is resumed once.
        """
        name = self._run_name(assignment)
        flags = [*self._parameter_flags(assignment), "--seed", str(assignment.seed)]
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
        self,
        assignment: Assignment,
        flags: Sequence[str],
        name: str,
        cfg: Any,
        output: Path,
        pruning: _Pruning,
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
        decides = self._settings.prune and assignment.seed == self._settings.seeds[0]
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

    def _run_name(self, assignment: Assignment) -> str:
        name = f"trial_{assignment.trial:04d}_seed_{assignment.seed}"
        return f"{self._flags.prefix}_{name}" if self._flags.prefix else name

    def _parameter_flags(self, assignment: Assignment) -> List[str]:
        return [
            flag
            for parameter in self._settings.space
            for flag in flags_of(parameter, assignment.values[parameter.field])
        ]


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
