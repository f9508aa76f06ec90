"""Move a robot on a stand safely: every target is within the torque share, and the run stops at once when something is
not as expected."""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from rsl_rl.hardware.driver import Reading, StoppedError, Watched

UNITS = {"rad": 1.0, "deg": math.pi / 180}
"""Radians in one unit of angles."""
PERIOD = 0.01
"""Time between two targets [s]."""
USED, RESERVE = 0.6, 0.2
"""Parts of the torque share: that which targets ask for, and that which is kept for stronger motors, damping and late
readings while it is not known which motor moves which joint."""
STRONGER = 1.06
"""Largest torque of a motor over the torque that it is asked for."""
LARGEST_ERROR = 4.0
"""Distance of a joint from its target for the whole torque share, until targets are known to move their own reading
[rad]; more where the readings are far from zero."""
WORK_ERROR = 1.0
"""Distance of a joint from its target for the whole torque share, once targets are known to move their own reading
[rad]."""
DAMPED_SPEED = 15.0
"""Speed at which the damping alone has the torque share [rad/s]."""
LATE = 0.08
"""Longest time from a motion to the end of the target that answers it: delays and two control steps [s]."""
SUDDEN, SUDDEN_BY_HAND, SUDDEN_AT_END = 2.0, 100.0, 30.0
"""Speed that a joint may gain in this time [rad/s]: while its motor moves it; while a person moves the limbs and may
let them swing; after a stop, and while no reading is taken."""
UNEXPECTED_SPEED = 6.0
"""Speed of a joint that moves as nothing asks it to [rad/s]."""
UNEXPECTED_STEP = 0.6
"""Change between two readings of a joint that moves as nothing asks it to [rad]."""
SILENCE = 0.1
"""Time without a message after which motors may be damped by a watchdog of their own, and follow no more [s]."""
DAMPING_SECONDS = 1.0
WAIT_SECONDS = 2.0
STOP_TRIES = 100
"""Interrupts after which the motors count as not switched off."""

Gains = Union[float, np.ndarray]
"""One for all motors, or one for each [J]."""


class Request(NamedTuple):
    """What the operator is asked for."""

    text: str
    motion: Dict[str, Any]
    """For simulated robots, see Operator in deploy/wired_robot.py."""


class Recording:
    """Rows of a run, one for each control step."""

    FIELDS = ("time", "stamp", "joint_pos", "joint_vel", "base_quat", "base_ang_vel", "target", "stiffness", "damping")

    def __init__(self) -> None:
        self._rows: List[Sequence[Any]] = []

    def append(self, *row: Any) -> None:
        self._rows.append(row)

    def __len__(self) -> int:
        return len(self._rows)

    def arrays(self, rows: slice = slice(None)) -> Dict[str, np.ndarray]:
        """Return the columns, each [T] or [T, size]."""
        chosen = self._rows[rows]
        return {name: np.array([row[i] for row in chosen], float) for i, name in enumerate(self.FIELDS)}

    def newest(self, field: str, count: int) -> np.ndarray:
        i = self.FIELDS.index(field)
        return np.array([row[i] for row in self._rows[-count:]])


class Session:
    """A robot on a stand, in a loop with a fixed period. Angles are in radians by the unit of the robot's angles."""

    def __init__(
        self,
        driver: Watched,
        torque: float,
        damping: float,
        clock: Callable[[], float],
        sleep: Callable[[float], None],
        unit: float = 1.0,
    ):
        """``torque`` is the largest one that any motor may give [N m], ``damping`` that of the policy [N m s/rad], and
        ``unit`` the radians in one unit of the driver's angles."""
        self.driver, self._clock, self._sleep = driver, clock, sleep
        self.count, self._damping = len(driver.names), damping
        self.set_torques(np.full(self.count, torque))
        self.kp_safe = self.torque / LARGEST_ERROR
        self.unit = unit
        self.recording = Recording()
        self.pos, self._speed = np.zeros(self.count), np.zeros(self.count)
        self.by_hand = False  # a person moves the joints
        self._due = 0.0
        self._since = 0  # row from which on the recording has no gap
        self.num_sent, self._sent_at = 0, math.inf

    def set_torques(self, torques: np.ndarray) -> None:
        """Set the largest torque of each motor [J] [N m]."""
        self.torque, self.kp_work = torques, torques / WORK_ERROR
        self._kd = np.minimum(self._damping, torques / DAMPED_SPEED)

    def _hold(self, targets: np.ndarray, stiffness: Gains, sudden: float) -> Tuple[np.ndarray, np.ndarray]:
        """Send targets [rad] with gains for which no motor gives more than the torque share, and return the gains.

        A joint moves with at most the speed that was read and ``sudden`` more [rad/s], so since its reading it has
        moved by at most that times LATE. Whatever the targets are, the gains are small enough for that.
        """
        speed = self._speed + sudden
        error = np.abs(targets - self.pos) + speed * LATE
        largest = STRONGER * (stiffness * error + self._kd * speed)
        scale = np.minimum(1.0, self.torque / np.maximum(largest, 1e-9))
        gains, self._sent_at = (scale * stiffness, scale * self._kd), self._clock()
        self.driver.hold(targets / self.unit, *gains)
        return gains

    @property
    def _sudden(self) -> float:
        return SUDDEN_BY_HAND if self.by_hand else SUDDEN

    def begin(self) -> None:
        """Wait for the first reading; nothing is sent."""
        end = self._clock() + WAIT_SECONDS
        while self.driver.reading(self._clock()) is None:
            if self._clock() > end:
                raise StoppedError(f"stale reading: none has come in {WAIT_SECONDS:g} s")
            self._sleep(PERIOD)
        self._due = self._clock()
        self._take(self._read(), self.pos, *np.zeros((2, self.count)))

    def listen(self, seconds: float) -> None:
        """Record readings without sending anything."""
        for _ in range(round(seconds / PERIOD)):
            self._wait()
            self._take(self._read(), self.pos, *np.zeros((2, self.count)))

    def damp(self, seconds: float) -> None:
        """Damp the joints."""
        for _ in range(round(seconds / PERIOD)):
            self.send(self.pos, 0.0)

    def damp_without_reading(self) -> None:
        """Damp the joints for a control step; call :meth:`resume` afterwards."""
        self._hold(self.pos, 0.0, SUDDEN_AT_END)
        self._sleep(PERIOD)

    def resume(self) -> None:
        """Go on from a new reading, after a time in which none was taken."""
        end = self._clock() + WAIT_SECONDS
        while True:
            try:
                reading = self._read()
                break
            except StoppedError:
                if self._clock() > end:
                    raise
                self.damp_without_reading()
        self.pos, self._due = reading.joint_pos * self.unit, self._clock()
        self._since = len(self.recording)
        self._speed = np.full(self.count, SUDDEN_AT_END)  # limbs without stiffness fall; until two readings tell more

    def step(self, wanted: np.ndarray, stiffness: np.ndarray) -> None:
        """Send targets [rad] for a control step, as near to the readings as the torque share demands, and read."""
        speed = self._speed + self._sudden
        left = (self.torque / STRONGER - self._kd * speed) / stiffness - speed * LATE
        reach = np.clip(left, 0.0, USED * self.torque / stiffness)
        targets = self.pos + np.clip(wanted - self.pos, -reach, reach)
        self.send(targets, stiffness)

    def send(self, targets: np.ndarray, stiffness: Gains) -> None:
        """Send targets [rad] as they are, with gains within the torque share, and read."""
        self.num_sent += 1
        silence = self._clock() - self._sent_at
        if silence > SILENCE:
            raise StoppedError(
                f"nothing was sent for {1000 * silence:.0f} ms, and the motors may follow no more: use a machine that "
                "is not busy"
            )
        gains = self._hold(targets, stiffness, self._sudden)
        self._wait()
        self._take(self._read(), targets, *gains)

    def _wait(self) -> None:
        self._due = max(self._due + PERIOD, self._clock() - 5 * PERIOD)
        self._sleep(max(0.0, self._due - self._clock()))

    def _read(self) -> Reading:
        reading = self.driver.reading(self._clock())
        if reading is None:
            raise StoppedError("stale reading: the driver has no readings any more")
        return reading

    def _take(self, reading: Reading, targets: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        pos = reading.joint_pos * self.unit
        if len(self.recording):
            jump = np.abs(pos - self.pos)
            if jump.max() > UNEXPECTED_STEP * (2 if self.by_hand else 1):
                name = self.driver.names[int(jump.argmax())]
                raise StoppedError(f"unexpected motion: {name} moved by {jump.max():.2f} rad between two readings")
        count = min(len(self.recording) - self._since, 6)
        if count:
            before = self.recording.newest("joint_pos", count)[0] * self.unit
            self._speed = np.abs(pos - before) / (count * PERIOD)
            if count == 6 and not self.by_hand and self._speed.max() > UNEXPECTED_SPEED:
                name, speed = self.driver.names[int(self._speed.argmax())], self._speed.max()
                raise StoppedError(f"unexpected motion: {name} moves with {speed:.1f} rad/s")
        self.pos = pos
        self.recording.append(
            self._clock(),
            reading.time,
            reading.joint_pos,
            reading.joint_vel,
            reading.base_quat,
            reading.base_ang_vel,
            targets,
            stiffness,
            damping,
        )

    def end(self) -> str:
        """Damp the joints if a target was sent, and switch the motors off; return what failed of it."""
        problem, sudden = "", SUDDEN_BY_HAND if self.by_hand else SUDDEN_AT_END
        for _ in range(math.ceil(DAMPING_SECONDS / PERIOD) if self.num_sent else 0):
            try:
                self._hold(self.pos, 0.0, sudden)
                self._sleep(PERIOD)
            except KeyboardInterrupt:
                problem = "; the damping was interrupted"
                break
            except BaseException as error:  # whatever it is, the motors are switched off
                problem = f"; the damping failed: {error}"
                break
        for _ in range(STOP_TRIES):
            try:
                self.driver.stop()
                return problem
            except KeyboardInterrupt:
                continue
            except StoppedError as error:
                return f"{problem}; the motors could not be switched off: {error}"
        return f"{problem}; the motors could not be switched off: interrupted"


def mean_quat(quats: np.ndarray) -> np.ndarray:
    """Return the mean of similar unit quaternions [T, 4]: the first eigenvector of their products (Markley 2007)."""
    return np.linalg.eigh(quats.T @ quats)[1][:, -1]


def angle_between(a: np.ndarray, b: np.ndarray) -> float:
    """Return the angle between two orientations [rad]; it does not depend on the order of the quaternions."""
    return 2 * math.acos(min(1.0, abs(float(a @ b))))


def moving(recording: Recording, seconds: float) -> Optional[float]:
    """Return the largest angle by which the trunk has turned in the last seconds [rad]; None with fewer rows."""
    count = round(seconds / PERIOD)
    if len(recording) < count:
        return None
    quats = recording.newest("base_quat", count)
    third = max(1, count // 3)
    return angle_between(mean_quat(quats[:third]), mean_quat(quats[-third:]))
