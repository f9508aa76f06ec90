"""The driver of a robot, the checks of what it reads, and calls that end when the driver does not answer."""

from __future__ import annotations

import queue
import threading
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence

import numpy as np

MAX_READING_AGE = 0.1
"""Age from which a reading is too old [s]."""
FROZEN_SECONDS = 0.5
"""Time for which no number of the readings changes, after which they count as frozen [s]."""


class StoppedError(Exception):
    """A reason to stop at once; the robot has to be damped."""


class Reading(NamedTuple):
    """What a robot has measured."""

    time: float  # [s]
    joint_pos: np.ndarray  # [J] in the robot's unit
    joint_vel: np.ndarray  # [J]
    base_quat: np.ndarray  # [4]
    base_ang_vel: np.ndarray  # [3]


class Watched:
    """A driver, the protocol of deploy/robot_loop.py, whose readings are checked and whose calls may take at most
    ``timeout`` seconds; None for calls without a limit, in this thread."""

    def __init__(self, driver: Any, timeout: Optional[float] = 1.0):
        self._driver, self._timeout = driver, timeout
        self._calls: queue.Queue[Any] = queue.Queue()
        self._thread: Optional[threading.Thread] = None
        self.names = self._read_names()
        self._newest: Optional[Reading] = None
        self._changed = -np.inf  # time of the last change [s]

    def _read_names(self) -> Sequence[str]:
        names = self.call("joint_names", self._driver.joint_names)
        listed = list(names) if hasattr(names, "__iter__") and not isinstance(names, str) else []
        if not listed or not all(isinstance(name, str) for name in listed) or len(set(listed)) != len(listed):
            raise StoppedError(f"the driver's joint_names() gives {_short(names)}; give a list of different names")
        return listed

    def reading(self, now: float) -> Optional[Reading]:
        """Return the newest reading, None if none has come yet; one that cannot be used is a StoppedError."""
        told = self.call("readings", self._driver.readings)
        if told is None:
            return None
        if not isinstance(told, Mapping):
            raise StoppedError(f"the driver's readings() gives {_short(told)}; give a mapping, or None")
        count = len(self.names)
        sizes = {"joint_pos": count, "joint_vel": count, "base_quat": 4, "base_ang_vel": 3}
        reading = Reading(
            float(_numbers(told, "time", 0)),
            *(np.atleast_1d(_numbers(told, name, size)) for name, size in sizes.items()),
        )
        age = now - reading.time
        if not abs(age) <= MAX_READING_AGE:
            allowed = f"at most {1000 * MAX_READING_AGE:.0f} ms are allowed"
            raise StoppedError(f"stale reading: the newest is {1000 * age:.0f} ms old; {allowed}")
        if not abs(np.linalg.norm(reading.base_quat) - 1.0) < 0.02:
            raise StoppedError(f"base_quat={_short(reading.base_quat)} is not a unit quaternion")
        before = self._newest
        if before is None or any(not np.array_equal(a, b) for a, b in zip(reading[1:], before[1:])):
            self._changed = now
        elif now - self._changed > FROZEN_SECONDS:
            raise StoppedError(f"frozen reading: no number has changed for {1000 * FROZEN_SECONDS:.0f} ms")
        self._newest = reading
        return reading

    def hold(self, targets: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        self.call("hold", lambda: self._driver.hold(targets, stiffness, damping))

    def stop(self) -> None:
        self.call("stop", self._driver.stop)

    def call(self, name: str, function: Callable[[], Any]) -> Any:
        """Return the result of a method; one that does not return in time, or fails, is a StoppedError."""
        if self._timeout is None:
            return _tried(name, function)()
        if self._thread is None:
            self._answers: queue.Queue[Any] = queue.Queue()
            calls, answers = self._calls, self._answers
            self._thread = threading.Thread(target=_answer, args=(calls, answers), daemon=True)
            self._thread.start()
        self._calls.put(_tried(name, function))
        try:
            result = self._answers.get(timeout=self._timeout)
        except BaseException as error:  # Ctrl-C too: the next call, such as stop, gets a thread and answers of its own
            self._calls, self._thread = queue.Queue(), None
            if not isinstance(error, queue.Empty):
                raise
            raise StoppedError(f"the driver's {name}() has not returned within {self._timeout:g} s") from None
        if isinstance(result, StoppedError):
            raise result
        return result


def _answer(calls: queue.Queue[Any], answers: queue.Queue[Any]) -> None:
    while True:
        try:
            answers.put(calls.get()())
        except StoppedError as error:
            answers.put(error)
        except KeyboardInterrupt:  # Ctrl-C interrupts the main thread alone, so this is the driver's own
            answers.put(StoppedError("the driver raised a KeyboardInterrupt"))


def _tried(name: str, function: Callable[[], Any]) -> Callable[[], Any]:
    """Return a function whose errors are StoppedErrors."""

    def call() -> Any:
        try:
            return function()
        except (StoppedError, KeyboardInterrupt):
            raise
        except BaseException as error:  # of the driver: whatever it is, the robot must stop
            text = " ".join(str(error).split())
            raise StoppedError(f"the driver's {name}() failed: {type(error).__name__}: {text}") from error

    return call


def _numbers(told: Mapping[str, Any], name: str, size: int) -> np.ndarray:
    """Return finite numbers of a reading; others are a StoppedError."""
    if name not in told or told[name] is None:
        raise StoppedError(f"the driver's readings() lack {name}; bring-up needs it")
    try:
        array = np.full(1, np.nan) if np.iscomplexobj(told[name]) else np.asarray(told[name], float)
    except (TypeError, ValueError):
        array = np.full(1, np.nan)
    if array.shape != ((size,) if size else ()) or not np.isfinite(array).all():
        wanted = f"{size} finite numbers" if size else "a finite number"
        raise StoppedError(f"the driver reads {name}={_short(told[name])}; give {wanted}")
    return array


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 100 else f"{text[:100]}..."
