"""Training callbacks: evaluate and film the current policy every few updates.

Each callback has its own environment and random generator, and starts from the same state each time. The result of the
training does not depend on them, and all policies are evaluated with the same robots and commands.
"""

from __future__ import annotations

import contextlib
import math
import shutil
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Sequence

from rsl_rl.config.experiment import ProgressConfig
from rsl_rl.distributed import SINGLE_PROCESS, Collective
from rsl_rl.evaluation.conditions import ActingPolicy, for_evaluation
from rsl_rl.evaluation.endurance import (
    for_endurance,
    for_small_commands,
    measure_endurance,
    measure_small_commands,
    size_of,
)
from rsl_rl.evaluation.evaluate import evaluate
from rsl_rl.evaluation.playback import for_playback, make_clip, run_playback
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.viz.video import PART_SUFFIX, VideoQueue

CurrentPolicy = Callable[[], ActingPolicy]
"""A function that returns a copy of the current policy, with its own recurrent state."""


class EvaluationTest(NamedTuple):
    """One test of an evaluation."""

    env: LeggedRobot
    measure: Callable[[LeggedRobot, ActingPolicy], Dict[str, float]]
    """Returns metrics of a policy in ``env``."""


def build_tests(env_cfg: Any, cfg: ProgressConfig, device: str, seed: int) -> List[EvaluationTest]:
    """Return the tests of an evaluation in their order; a task that cannot be evaluated is a ValueError."""
    tests = [
        EvaluationTest(
            build_evaluation_env(env_cfg, cfg, device, seed),
            lambda env, policy: evaluate(env, policy, cfg.evaluate_seconds),
        )
    ]
    if cfg.small_commands:
        with _errors_of("small_commands", cfg.small_commands):
            env = for_small_commands(env_cfg).build(device, seed=seed)
        tests.append(EvaluationTest(env, lambda env, policy: measure_small_commands(env, policy).metrics))
    if cfg.joystick_hours:
        num_envs, seconds = size_of(cfg.joystick_hours, env_cfg.sim.control_dt)
        with _errors_of("joystick_hours", cfg.joystick_hours):
            env = for_endurance(env_cfg, num_envs, seconds).build(device, seed=seed)
        tests.append(EvaluationTest(env, lambda env, policy: measure_endurance(env, policy, seconds).metrics))
    return tests


def build_evaluation_env(env_cfg: Any, cfg: ProgressConfig, device: str, seed: int) -> LeggedRobot:
    """Return the environment of the first test; a task that cannot be evaluated is a ValueError."""
    with _errors_of("evaluate_interval", cfg.evaluate_interval):
        period = cfg.evaluate_command_period
        task = for_evaluation(env_cfg, cfg.evaluate_robots, cfg.evaluate_seconds, command_period=period)
    if not task.gate:
        raise ValueError(
            f"progress.evaluate_interval={cfg.evaluate_interval} needs limits in env.gate to find the best checkpoint, "
            "and env.gate is empty; set some limits, or leave out evaluate_interval"
        )
    return task.build(device, seed=seed)


def build_video_env(env_cfg: Any, cfg: ProgressConfig, device: str, seed: int) -> LeggedRobot:
    """Return the environment of videos; a task that cannot be filmed is a ValueError."""
    with _errors_of("video_interval", cfg.video_interval):
        task = for_playback(env_cfg, cfg.video_robots, cfg.video_seconds, None)
    return task.build(device, seed=seed)


@contextlib.contextmanager
def _errors_of(setting: str, value: float) -> Iterator[None]:
    """Let the message of a ValueError start with the setting that needs the task."""
    try:
        yield
    except ValueError as error:
        raise ValueError(f"progress.{setting}={value}: {error}") from error


def score(metrics: Mapping[str, float], gate: Mapping[str, float]) -> float:
    """Return the largest ratio of a metric to its limit; at most 1 meets all limits, and less is better. A metric that
    was not measured does not count, and one within a limit of 0 counts as 0."""
    ratios = [_ratio(metrics[name], limit) for name, limit in gate.items() if name in metrics]
    return max(ratios, default=math.inf)


def _ratio(value: float, limit: float) -> float:
    if math.isnan(value):
        return math.inf
    if limit > 0:
        return value / limit
    return 0.0 if value <= limit else 1 + value - limit


def describe_evaluation(iteration: int, metrics: Mapping[str, float], gate: Mapping[str, float]) -> str:
    """Return a line on the criteria that were measured in an evaluation during a training."""
    parts = [f"{name} {metrics[name]:.3g} (limit {limit:g})" for name, limit in gate.items() if name in metrics]
    return f"evaluation after iteration {iteration}: {', '.join(parts)}"


class _Periodic:
    """A callback that runs every ``interval`` updates and after the last; it is called with the number of updates.

    It has environments, which may be none on ranks that only wait.
    """

    def __init__(self, envs: Sequence[LeggedRobot], interval: int, last: int, policy: CurrentPolicy, after: int = 0):
        self._interval, self._last, self._policy, self._after = interval, last, policy, after
        self._envs, self._initial = tuple(envs), [env.state_dict() for env in envs]

    def __call__(self, iteration: int) -> Dict[str, float]:
        due = iteration % self._interval == 0 and iteration >= self._after
        return self._run(iteration) if due or iteration == self._last else {}

    def _initial_envs(self) -> Sequence[LeggedRobot]:
        """Return the environments in their first states."""
        for env, state in zip(self._envs, self._initial):
            env.load_state_dict(state)
        return self._envs

    def _run(self, iteration: int) -> Dict[str, float]:
        raise NotImplementedError


class EvaluationCallback(_Periodic):
    """Evaluate the current policy by ``tests``; pass the iteration and the metrics to each of ``listeners``.

    With ``until_gate``, an evaluation ends with the test by which it misses the gate. In a distributed training rank 0
    evaluates, and all ranks have the callback, the others without tests.
    """

    def __init__(
        self,
        tests: Sequence[EvaluationTest],
        cfg: ProgressConfig,
        last: int,
        policy: CurrentPolicy,
        listeners: Sequence[Callable[[int, Mapping[str, float]], None]],
        collective: Collective = SINGLE_PROCESS,
    ):
        super().__init__([test.env for test in tests], cfg.evaluate_interval, last, policy, cfg.evaluate_after)
        self._tests, self._cfg, self._listeners, self._collective = tuple(tests), cfg, tuple(listeners), collective

    def _evaluate(self) -> Dict[str, float]:
        metrics: Dict[str, float] = {}
        for env, test in zip(self._initial_envs(), self._tests):
            gate = env.cfg.gate
            if metrics and self._cfg.until_gate and score(metrics, gate) > self._cfg.gate_score:
                break
            metrics.update(test.measure(env, self._policy()))
        return {**metrics, "score": score(metrics, gate)}

    def _run(self, iteration: int) -> Dict[str, float]:
        metrics = self._collective.call_on_first(self._evaluate)
        for listener in self._listeners:
            listener(iteration, metrics)
        return {f"evaluation/{name}": value for name, value in metrics.items()}


class VideoCallback(_Periodic):
    """Record robots with the current policy; a video is rendered in another process during the training.

    Call :meth:`finish` or :meth:`cancel` at the end.
    """

    def __init__(
        self,
        env: LeggedRobot,
        cfg: ProgressConfig,
        last: int,
        policy: CurrentPolicy,
        folder: Path,
        print_line: Callable[[str], None],
    ):
        super().__init__((env,), cfg.video_interval, last, policy)
        self._seconds, self._folder, self._print_line = cfg.video_seconds, folder, print_line
        for leftover in folder.glob(f".model_*{PART_SUFFIX}"):  # of a process that was killed
            shutil.rmtree(leftover, ignore_errors=True)
        self._videos = VideoQueue()

    def __call__(self, iteration: int) -> Dict[str, float]:
        self._print_messages()
        return {} if self._videos.broken else super().__call__(iteration)

    def _run(self, iteration: int) -> Dict[str, float]:
        (env,) = self._initial_envs()
        recording = run_playback(env, self._policy(), self._seconds)
        clip = make_clip(recording, env, f"iteration {iteration}    ")
        self._videos.add(self._folder / f"model_{iteration}.mp4", clip)
        return {}

    def _print_messages(self) -> None:
        for line in self._videos.pop_messages():
            self._print_line(line)

    def finish(self, interrupted: Callable[[], bool]) -> None:
        """Wait until all videos are rendered, or until ``interrupted`` returns true."""
        if not self._videos.wait(0):
            self._print_line(f"waiting for {self._videos.pending} videos; Ctrl-C skips them")
        while not self._videos.wait(0.1) and not interrupted():
            self._print_messages()
        skipped = self._videos.pending
        self.cancel()
        self._print_messages()
        if skipped:
            self._print_line(f"{skipped} videos are skipped")

    def cancel(self) -> None:
        """Skip the videos that are not rendered yet; no partial file is left."""
        self._videos.stop()
