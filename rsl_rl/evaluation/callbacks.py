"""What a policy can do while it trains: numbers and films of it, every so many updates.

Both walk robots of their own, with draws of their own, and begin from the same state each time: the training is the
same with them and without, and one policy is judged like another.
"""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any, Callable, Dict, Mapping

from rsl_rl.config.progress import ProgressConfig
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.evaluation.evaluate import ActingPolicy, evaluate, for_evaluation
from rsl_rl.evaluation.playback import film_of, for_replay, replay
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.viz.video import PART
from rsl_rl.viz.video_queue import FilmQueue

PresentPolicy = Callable[[], ActingPolicy]
"""Gives the policy as it is at the moment, with a memory of its own."""


def build_for_evaluations(env_cfg: Any, cfg: ProgressConfig, device: str, seed: int) -> LeggedRobot:
    """Return the robots that are judged; a ValueError says why the task has none."""
    task = _fitting(env_cfg, cfg, "evaluate", for_evaluation)
    if not task.gate:
        raise ValueError(
            f"progress.evaluate_interval={cfg.evaluate_interval} needs env.gate, the limits that tell which checkpoint "
            "is the best, and it is empty; give the task a gate, or leave evaluate_interval out"
        )
    return task.build(device, seed=seed)


def build_for_clips(env_cfg: Any, cfg: ProgressConfig, device: str, seed: int) -> LeggedRobot:
    """Return the robots that are filmed; a ValueError says why the task has none."""
    task = _fitting(env_cfg, cfg, "video", lambda task, robots, seconds: for_replay(task, robots, seconds, None))
    return task.build(device, seed=seed)


def _fitting(
    env_cfg: Any, cfg: ProgressConfig, purpose: str, make: Callable[[Any, int, float], LeggedRobotConfig]
) -> LeggedRobotConfig:
    """Return the task as ``make`` alters it; an error begins with the setting that asked for it."""
    interval, robots, seconds = (f"{purpose}_{name}" for name in ("interval", "robots", "seconds"))
    try:
        return make(env_cfg, getattr(cfg, robots), getattr(cfg, seconds))
    except ValueError as error:
        raise ValueError(f"progress.{interval}={getattr(cfg, interval)}: {error}") from error


def score(numbers: Mapping[str, float], gate: Mapping[str, float]) -> float:
    """Return the worst of the gate's numbers as a share of its limit: at most 1 passes the gate, and less is better."""
    shares = [numbers[name] / limit if limit > 0 else 1 + numbers[name] - limit for name, limit in gate.items()]
    return max(math.inf if math.isnan(share) else share for share in shares)


class _Periodic:
    """Called with the number of updates done, does its work every ``interval`` of them and after the last."""

    def __init__(self, env: LeggedRobot, interval: int, last: int, policy: PresentPolicy):
        self._env, self._interval, self._last, self._policy = env, interval, last, policy
        self._initial = env.state_dict()

    def __call__(self, iteration: int) -> Dict[str, float]:
        if iteration % self._interval and iteration != self._last:
            return {}
        self._env.load_state_dict(self._initial)
        return self._work(iteration)

    def _work(self, iteration: int) -> Dict[str, float]:
        raise NotImplementedError


class Evaluations(_Periodic):
    """Judges the policy of the moment and offers it, with its numbers, to whoever keeps the best."""

    def __init__(
        self,
        env: LeggedRobot,
        cfg: ProgressConfig,
        last: int,
        policy: PresentPolicy,
        offer: Callable[[int, Mapping[str, float]], None],
    ):
        super().__init__(env, cfg.evaluate_interval, last, policy)
        self._seconds, self._offer = cfg.evaluate_seconds, offer

    def _work(self, iteration: int) -> Dict[str, float]:
        numbers = evaluate(self._env, self._policy(), self._seconds)
        numbers["score"] = score(numbers, self._env.cfg.gate)
        self._offer(iteration, numbers)
        return {f"evaluation/{name}": value for name, value in numbers.items()}


class Clips(_Periodic):
    """Walks robots with the policy of the moment and has the recording filmed while the training goes on.

    At the end, either :meth:`finish` or :meth:`give_up`.
    """

    def __init__(
        self,
        env: LeggedRobot,
        cfg: ProgressConfig,
        last: int,
        policy: PresentPolicy,
        folder: Path,
        tell: Callable[[str], None],
    ):
        super().__init__(env, cfg.video_interval, last, policy)
        self._seconds, self._folder, self._tell = cfg.video_seconds, folder, tell
        for left in folder.glob(f".model_*{PART}"):  # by a process that was killed
            shutil.rmtree(left, ignore_errors=True)
        self._films = FilmQueue()

    def __call__(self, iteration: int) -> Dict[str, float]:
        self._pass_on_news()
        return {} if self._films.broken else super().__call__(iteration)

    def _work(self, iteration: int) -> Dict[str, float]:
        recording = replay(self._env, self._policy(), self._seconds)
        film = film_of(recording, self._env, f"iteration {iteration}    ")
        self._films.add(self._folder / f"model_{iteration}.mp4", film)
        return {}

    def _pass_on_news(self) -> None:
        for line in self._films.news():
            self._tell(line)

    def finish(self, interrupted: Callable[[], bool]) -> None:
        """Wait for the films that are not done yet, unless there is an interruption meanwhile."""
        if not self._films.wait(0):
            self._tell(f"waiting for {self._films.pending} films; Ctrl-C leaves them out")
        while not self._films.wait(0.1) and not interrupted():
            self._pass_on_news()
        left = self._films.pending
        self.give_up()
        self._pass_on_news()
        if left:
            self._tell(f"{left} films are left out")

    def give_up(self) -> None:
        """Leave out the films that are not done yet; of none there is half a file."""
        self._films.stop()
