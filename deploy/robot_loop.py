"""Walk with an exported policy: the control loop on the robot's computer, with a watchdog.

    python robot_loop.py policy.onnx --driver udp_driver --address 127.0.0.1:9870 --command 0.5 0 0 --seconds 10

Needs onnx_policy.py beside it, with --log policy_records.py too, and styles.py for a policy with several styles. It
also needs a driver for the robot: a module with a function ``connect(address)`` that returns an object with the five
methods of :class:`Driver`, or such a class itself, named as "package.module:Class".

The robot goes to the policy's pose, walks, and ends as every run ends: damping, then motors off, and the reason in one
line. A run ends at once when a reading is too old, a control step is not ready at its deadline, a target is beyond its
limits, or the policy or the driver fails; no target is sent after that. The exit code is 0 if the time was over, 130
after Ctrl-C or another signal, such as that of a closed terminal, 1 for all other reasons, and 2 for wrong usage.

The loop cannot stop a robot when its own process is paused, or the connection lost: the motors need a watchdog of
their own, which damps when no target comes.
"""

import argparse
import contextlib
import importlib
import math
import signal
import sys
import time
from typing import Any, Callable, Dict, Mapping, Optional, Protocol, Sequence, Tuple

import numpy as np
from onnx_policy import OnnxPolicy

TIME_OVER, INTERRUPTED = "the time is over", "interrupted"
NOT_DAMPED = "; the damping was interrupted"
MAX_READING_AGE = 0.05
"""Age from which a reading is too old [s]."""
DAMPING_SECONDS = 1.0
"""Time for which the joints are damped before the motors are switched off [s]."""
WAIT_SECONDS = 2.0
"""Longest time until the first reading [s]."""
SIGNALS = tuple(
    getattr(signal, name)
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM")
    if hasattr(signal, name)
)
"""Signals that end a run; a terminal or an SSH connection that closes sends SIGHUP."""
_ROUNDING = 1e-4  # of target limits [rad]


class Driver(Protocol):
    """What the loop needs of a robot."""

    def joint_names(self) -> Sequence[str]:
        """Return the names of the joints, in the order of the robot's readings and targets."""
        ...

    def readings(self) -> Optional[Mapping[str, Any]]:
        """Return the newest readings without waiting: arguments of OnnxPolicy by name, and as "time" when they were
        measured, in seconds of ``time.monotonic()``. None if none has come yet."""
        ...

    def hold(self, targets: np.ndarray, stiffness: np.ndarray, damping: np.ndarray) -> None:
        """Send joint targets, and gains [N m/rad], [N m s/rad] of the PD loops. Stiffness zero is damping."""
        ...

    def stop(self) -> None:
        """Switch the motors off."""
        ...

    def close(self) -> None:
        """End the connection."""
        ...


class StoppedError(Exception):
    """A reason to end the run at once."""


class ControlLoop:
    """A driver and a policy in a loop with the policy's control period."""

    def __init__(
        self,
        driver: Driver,
        policy: Any,
        max_reading_age: float = MAX_READING_AGE,
        damping_seconds: float = DAMPING_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ):
        self._driver, self._policy, self._clock, self._sleep = driver, policy, clock, sleep
        self._max_reading_age, self._damping_seconds = max_reading_age, damping_seconds
        self.num_sent = 0
        """Joint targets that were sent, without those of the damping."""

    def run(self, command: Sequence[float], seconds: float, stand_seconds: float = 2.0) -> str:
        """Go to the pose, walk with a command, then damp and stop; return the reason for the end."""
        try:
            return self._walk(command, seconds, stand_seconds) + self._damp_and_stop()
        except BaseException as error:  # where no part of the loop could take it
            reason = INTERRUPTED if isinstance(error, KeyboardInterrupt) else type(error).__name__
            return reason + self._damp_and_stop()

    def _walk(self, command: Sequence[float], seconds: float, stand_seconds: float) -> str:
        """Go to the pose and walk; return the reason for the end."""
        try:
            self._prepare(command)
            self._stand(stand_seconds)
            self._policy.reset()
            self._steps(seconds, lambda readings: self._policy(command=command, **readings))
        except StoppedError as error:
            return str(error)
        except KeyboardInterrupt:
            return INTERRUPTED
        except BaseException as error:  # of any kind, such as asyncio.CancelledError: the robot must stop
            return _one_line(error)
        return TIME_OVER

    def _prepare(self, command: Sequence[float]) -> None:
        """Wait for readings, and try the policy, whose first call takes longer; the robot does not move."""
        end = self._clock() + WAIT_SECONDS
        while self._driver.readings() is None and self._clock() < end:
            self._sleep(self._policy.control_period)
        self._policy.reset()
        self._check(self._policy(command=command, **self._fresh_readings()))

    def _stand(self, seconds: float) -> None:
        """Move the joints from where they are to the policy's default pose."""
        pose, steps, step = self._fresh_readings()["joint_pos"], max(1, round(seconds / self._policy.control_period)), 0

        def next_pose(_: Mapping[str, Any]) -> np.ndarray:
            nonlocal step
            step += 1
            share = min(1.0, step / steps)
            targets = (1 - share) * np.asarray(pose, np.float32) + share * self._policy.default_joint_pos
            return np.clip(targets, *self._policy.target_limits.T)

        self._steps(seconds, next_pose)

    def _steps(self, seconds: float, targets_of: Callable[[Mapping[str, Any]], np.ndarray]) -> None:
        """Send the targets for the newest readings once in each control period; each has to be sent within its own."""
        period, start = self._policy.control_period, self._clock()
        for step in range(round(seconds / period)):
            began = start + step * period
            self._sleep(max(0.0, began - self._clock()))
            targets = self._check(targets_of(self._fresh_readings()))
            late = self._clock() - (began + period)
            if late > 0.0:
                raise StoppedError(f"missed deadline: a control step was ready {1000 * late:.1f} ms too late")
            self.num_sent += 1
            self._driver.hold(targets, self._policy.stiffness, self._policy.damping)

    def _fresh_readings(self) -> Dict[str, Any]:
        """Return the newest readings, which must not be too old."""
        newest = self._driver.readings()
        if newest is None:
            raise StoppedError(f"stale reading: none has come in {WAIT_SECONDS:g} s")
        age = self._clock() - newest["time"]
        if not abs(age) <= self._max_reading_age:  # true for NaN
            allowed = f"at most {1000 * self._max_reading_age:.0f} ms are allowed"
            raise StoppedError(f"stale reading: the newest is {1000 * age:.1f} ms old; {allowed}")
        return {name: value for name, value in newest.items() if name != "time"}

    def _check(self, targets: np.ndarray) -> np.ndarray:
        """Return joint targets that are finite and within their limits."""
        low, high = self._policy.target_limits.T
        if np.shape(targets) != low.shape or not np.isfinite(targets).all():
            raise StoppedError(f"target beyond limits: {targets} are not {len(low)} finite numbers")
        beyond = np.maximum(low - targets, targets - high)
        joint = int(beyond.argmax())
        if beyond[joint] > _ROUNDING:
            name, limits = self._policy.joint_names[joint], f"[{low[joint]:.3f}, {high[joint]:.3f}]"
            raise StoppedError(f"target beyond limits: {targets[joint]:.3f} of {name} is not in {limits}")
        return targets

    def _damp_and_stop(self) -> str:
        """Damp the joints for a while if they were moved, then switch the motors off; return what failed of it."""
        problem = ""
        try:
            steps = math.ceil(self._damping_seconds / self._policy.control_period) if self.num_sent else 0
            for _ in range(steps):
                self._driver.hold(self._policy.default_joint_pos, 0 * self._policy.stiffness, self._policy.damping)
                self._sleep(self._policy.control_period)
        except KeyboardInterrupt:
            problem = NOT_DAMPED
        except BaseException as error:
            problem = f"; the damping failed: {_one_line(error)}"
        while True:
            try:
                self._driver.stop()
                return problem
            except KeyboardInterrupt:  # Ctrl-C does not keep the motors on, however often it comes
                continue
            except BaseException as error:
                return f"{problem}; the motors could not be switched off: {_one_line(error)}"


def _one_line(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {' '.join(str(error).split())}"
    except Exception:  # of the error's own text
        return type(error).__name__


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("policy", help="policy.onnx")
    parser.add_argument("--driver", required=True, help="module with connect(address), or package.module:Class")
    parser.add_argument("--address", default="", help="for the driver, such as 192.168.123.10:8007")
    parser.add_argument("--robot", help="robot.yaml of rsl-rl bring-up, if the wiring is not that of the policy")
    parser.add_argument("--command", type=float, nargs=3, default=(0.0, 0.0, 0.0), metavar=("VX", "VY", "YAW_RATE"))
    parser.add_argument("--style", default="", help="of a policy with several styles; its first one without it")
    parser.add_argument("--seconds", type=float, default=10.0, help="time to walk [s]")
    parser.add_argument("--stand_seconds", type=float, default=2.0, help="time to reach the policy's pose [s]")
    parser.add_argument("--log", help="CSV file to write while walking, for `rsl-rl doctor`; a file there is replaced")
    parser.add_argument("--description", help="policy.json to use, such as `rsl-rl doctor --fix` writes")
    return parser.parse_args()


class Interrupts:
    """Handler of Ctrl-C and other signals. A second one within half a second would interrupt the handling of the first,
    and is ignored."""

    def __init__(self) -> None:
        self._last = -math.inf

    def __call__(self, *_: Any) -> None:
        now = time.monotonic()
        if now - self._last > 0.5:
            self._last = now
            raise KeyboardInterrupt


def connect(args: argparse.Namespace) -> Tuple[Driver, Any]:
    """Return driver and policy; what is wrong with the arguments is an Exception, as of the driver's own module."""
    for name in ("seconds", "stand_seconds"):
        if not 0 <= getattr(args, name) < math.inf:
            raise ValueError(f"--{name} {getattr(args, name):g}: give a time from 0 s")
    driver = connect_driver(args.driver, args.address)
    try:
        names, files = driver.joint_names(), {"description": args.description, "robot": args.robot, "log": args.log}
        policy = OnnxPolicy(args.policy, names, **files)
        if args.style or "style" in getattr(policy, "description", {}).get("commands", {}):
            return driver, importlib.import_module("styles").StyledPolicy(policy, args.style)
        return driver, policy
    except BaseException:
        with contextlib.suppress(BaseException):  # the first error is told
            driver.close()
        raise


def connect_driver(name: str, address: str) -> Driver:
    """Return the driver of a function connect(address) in a module, or of a class "package.module:Class", which is made
    with the address if one is given. The module may be in the current folder.

    Errors of any kind, but for Ctrl-C, are a ValueError.
    """
    module_name, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        module = importlib.import_module(module_name)
        make = getattr(module, attribute or "connect", None)
        if not callable(make):
            file = getattr(module, "__file__", module_name)
            raise ValueError(f"{file} has no {attribute or 'function connect(address)'}")
        driver: Any = make(address) if address or not attribute else make()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # of the driver's own, of any kind
        told = isinstance(error, (ValueError, OSError, ImportError)) and str(error)
        raise ValueError(f"--driver {name}: {' '.join(str(error).split()) if told else _one_line(error)}") from error
    missing = [one for one in ("joint_names", "readings", "hold", "stop", "close") if not hasattr(driver, one)]
    if missing:
        raise ValueError(f"--driver {name}: it has no {missing[0]}(); docs/deploy.md lists the five methods")
    return driver


def take_signals() -> None:
    """Make Ctrl-C and other signals a KeyboardInterrupt, but not those that nohup ignores."""
    interrupts = Interrupts()
    for number in SIGNALS:
        under_nohup = number.name == "SIGHUP" and signal.getsignal(number) == signal.SIG_IGN
        if not under_nohup:
            signal.signal(number, interrupts)


def drive(driver: Driver, policy: Any, command: Sequence[float], seconds: float, stand_seconds: float) -> str:
    """Run the loop and close the connection; return the reason for the end."""
    try:
        reason = ControlLoop(driver, policy).run(command, seconds, stand_seconds)
    finally:  # the motors are off
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
    try:
        driver.close()
    except BaseException as error:
        reason += f"; the connection could not be closed: {_one_line(error)}"
    return reason


def tell_end(reason: str, counts: str) -> int:
    """Print how a run ended, and return the exit code."""
    with contextlib.suppress(OSError):  # of a terminal that was closed
        print(f"stopped: {reason}")
        print(counts, flush=True)
    return {TIME_OVER: 0, INTERRUPTED: 130, INTERRUPTED + NOT_DAMPED: 130}.get(reason, 1)


def run_program(name: str, connect: Callable[[], Tuple[Driver, Any]], play: Callable[[Driver, Any], int]) -> int:
    """Connect a robot and play what it is to do; return the exit code. What goes wrong before is one line."""
    take_signals()
    try:
        driver, played = connect()
    except KeyboardInterrupt:
        print(f"{name}: interrupted before the robot was connected; nothing was sent", file=sys.stderr)
        return 130
    except BaseException as error:  # of any kind, from the driver
        told = isinstance(error, (ValueError, OSError, ImportError))
        print(f"{name}: {' '.join(str(error).split()) if told else _one_line(error)}", file=sys.stderr)
        return 2
    return play(driver, played)


def main() -> int:
    args = parse()

    def walk(driver: Driver, policy: OnnxPolicy) -> int:
        reason = drive(driver, policy, args.command, args.seconds, args.stand_seconds)
        return tell_end(reason, f"policy: {policy.counts}")

    return run_program("robot_loop.py", lambda: connect(args), walk)


if __name__ == "__main__":
    sys.exit(main())
