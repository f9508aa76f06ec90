"""Find how a robot on a stand is wired: `rsl-rl bring-up --driver my_driver --contract policy.json`.

The trunk is on a stand, level, and the legs hang freely. Keep the emergency stop in your hand. The program moves each
joint a little, with targets that ask for at most --torque_share of the torque limits, then all of them slowly while you
turn the trunk as it asks, and then you move each limb by hand. It finds which joint each channel of the driver is, with
sign and zero, how the IMU is mounted, units, delays and rates, and writes robot.yaml:

    python robot_loop.py policy.onnx --driver my_driver --robot robot.yaml

It stops at once, damps the joints and switches the motors off, when a reading is stale, frozen or not finite, when a
joint moves as nothing asks it to, when the driver fails or does not answer, and after Ctrl-C. Nothing that is not
determined is written. The last line is JSON. The exit code is 0 if all is determined, 1 if not or after a stop, 130
after Ctrl-C, and 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import functools
import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Mapping, Sequence, Tuple

from rsl_rl.cli.doctor import read_robot
from rsl_rl.cli.errors import FlagParser, print_line, program, usage_errors
from rsl_rl.cli.evaluate import report_file
from rsl_rl.cli.experiments import import_shipped
from rsl_rl.cli.signals import INTERRUPTED, SIGNALS, handle_signals

if TYPE_CHECKING:
    from rsl_rl.hardware.driver import Watched
    from rsl_rl.hardware.session import Request, Session

LARGEST_SHARE = 0.3
CALL_SECONDS = 1.0
"""Longest time of the last calls of a driver [s]."""


def main(argv: Sequence[str]) -> int:
    parser = FlagParser(prog=program(), description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--driver", required=True, metavar="MODULE[:NAME]", help="module with connect(address), or package.module:Class"
    )
    parser.add_argument("--address", default="", help="for the driver, such as 127.0.0.1:9870")
    parser.add_argument("--contract", type=Path, required=True, help="policy.json, or policy.onnx")
    parser.add_argument("--model", type=Path, help="MJCF file of the robot; the contract's own without it")
    parser.add_argument(
        "--torque_share", "--share", type=float, default=0.15, help="largest part of the torque limits (default: 0.15)"
    )
    parser.add_argument("--unit", choices=("rad", "deg"), default="rad", help="of the driver's joint angles")
    parser.add_argument("--out", default="robot.yaml", help="file to write (default: robot.yaml)")
    parser.add_argument("--report", default="bring_up.html", help="page with plots (default: bring_up.html)")
    flags = parser.parse_args(argv)
    with usage_errors():
        if not 0.01 <= flags.torque_share <= LARGEST_SHARE:
            raise ValueError(f"--torque_share {flags.torque_share:g}: give 0.01 to {LARGEST_SHARE:g}")
        out, report = report_file(flags.out), report_file(flags.report)
        description, model = read_robot(flags.contract, flags.model)
        from rsl_rl.hardware.limbs import read_limbs

        gains = largest_gains(description, flags.torque_share)
        limbs = read_limbs(model, description["joint_names"])
        former = {number: signal.getsignal(number) for number in SIGNALS}
        handle_signals(_interrupt)
        try:
            driver = connect_driver(flags.driver, flags.address)
            return bring_up(driver, description, limbs, flags.torque_share, out, report, gains, flags.unit)
        finally:
            for number, handler in former.items():
                signal.signal(number, handler)


def _interrupt(number: int, frame: Any) -> None:
    ignore_signals()
    raise KeyboardInterrupt


def ignore_signals() -> None:
    """Ignore all signals of a user from now on, as the robot is being damped and switched off."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def connect_driver(name: str, address: str) -> Any:
    """Return the driver of a robot, as deploy/robot_loop.py does; drivers of deploy/ are found too."""
    folder = str(Path(str(import_shipped("rsl_rl_deploy").__file__)).parent)
    if folder not in sys.path:
        sys.path.append(folder)
    return import_shipped("rsl_rl_deploy.robot_loop").connect_driver(name, address)


def largest_gains(description: Mapping[str, Any], share: float) -> Tuple[float, float]:
    """Return the largest torque [N m] and the damping [N m s/rad] of all motors; a contract without them is a
    ValueError."""
    limits = [limit for limit in description["torque_limits"] if limit > 0]
    if not limits:
        raise ValueError("the contract has no torque limit above 0: set torque_limits to those of the motors [N m]")
    torque = share * min(limits)
    return torque, min((damping for damping in description["damping"] if damping > 0), default=torque / 10)


def own_torques(description: Mapping[str, Any], share: float) -> Dict[str, float]:
    """Return the share of each joint's own torque limit [N m]."""
    limits = zip(description["joint_names"], description["torque_limits"])
    return {name: share * limit for name, limit in limits if limit > 0}


def bring_up(
    driver: Any,
    description: Mapping[str, Any],
    limbs: Any,
    share: float,
    out: Path,
    report: Path,
    gains: Tuple[float, float],
    unit: str = "rad",
) -> int:
    """Do the bring-up, and return the exit code; whatever happens, the robot is damped at the end."""
    from rsl_rl.hardware.bring_up import BringUp
    from rsl_rl.hardware.bring_up_report import lines, report_html, robot_yaml
    from rsl_rl.hardware.driver import StoppedError, Watched
    from rsl_rl.hardware.session import UNITS, Session
    from rsl_rl.utils.files import atomic_write

    session, run, reason, code = None, None, "", 1
    try:
        try:
            watched, torque = Watched(driver), gains[0]
            session = Session(watched, *gains, time.monotonic, time.sleep, UNITS[unit])
            percent = f"{100 * share:g} % of the smallest torque limit, until it is clear which joint is which"
            print_line(f"targets ask for at most {torque:.2f} N m of each motor: {percent}")
            torques = own_torques(description, share)
            run = BringUp(session, limbs, _Operator(driver, watched), print_line, _damped(session), torques)
            run.run()
        except StoppedError as error:
            reason = str(error)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # whatever it is, the robot must stop
            reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        ignore_signals()
    except KeyboardInterrupt:  # also while another reason is handled
        reason, code = "interrupted", INTERRUPTED
        ignore_signals()
    ended = session.end() if session is not None else _in_time(driver.stop, "; the motors could not be switched off")
    if ended and not reason:
        ended = ended[2:]  # without the separator
    older = f"; the older {out} is left as it was" if out.exists() else ""
    if reason or ended or run is None:
        damped = "the joints were damped and " if session is not None and session.num_sent else ""
        print_line(f"stopped: {reason}{ended or f'; {damped}the motors were switched off'}; nothing is written{older}")
        print(json.dumps({"determined": False, "stopped": f"{reason}{ended}"}), flush=True)
        _in_time(driver.close)
        return code
    _in_time(driver.close)
    found = run.found
    for line in lines(found):
        print_line(line)
    name = str(description.get("robot") or "")
    atomic_write(report, report_html(f"Bring-up of {name or 'a robot'}", found).encode())
    print_line(f"report: {report}")
    if found.is_complete:
        atomic_write(out, robot_yaml(found, name))
        print_line(f"wiring: {out}; walk with python robot_loop.py policy.onnx --robot {out} ...")
    else:
        print_line(f"no wiring is written{older}")
    told = {"determined": found.is_complete, "problems": found.problems, "seconds": round(found.seconds, 1)}
    print(json.dumps({**told, "file": str(out) if found.is_complete else None}))
    return 0 if found.is_complete else 1


def _in_time(function: Callable[[], Any], problem: str = "") -> str:
    """Call a function of a driver that may fail or not return; return what has failed, empty if nothing has."""
    failed = [f"{problem}: no answer in {CALL_SECONDS:g} s"]

    def call() -> None:
        try:
            function()
            failed[0] = ""
        except BaseException as error:  # whatever it is, nothing more can be done
            failed[0] = f"{problem}: {type(error).__name__}: {' '.join(str(error).split())}"

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(CALL_SECONDS)
    return failed[0]


class _Operator:
    """Prints what the operator is asked for; the operator of a simulated robot gets it from the driver."""

    def __init__(self, driver: Any, watched: Watched):
        self._ask: Callable[[Mapping[str, Any]], Any] = getattr(driver, "ask", lambda motion: None)
        self._watched = watched

    def __call__(self, request: Request) -> None:
        print_line(f">>> {request.text}")
        self._watched.call("ask", functools.partial(self._ask, request.motion))


def _damped(session: Session) -> Callable[[Callable[[], Any]], Any]:
    """Return a function that calls another in a thread, and damps the joints until it has returned."""

    def compute(function: Callable[[], Any]) -> Any:
        results: List[Callable[[], Any]] = []

        def work() -> None:
            try:
                result = function()
                results.append(lambda: result)
            except BaseException as error:  # is raised again where the result is asked for
                results.append(functools.partial(_raise, error))

        threading.Thread(target=work, daemon=True).start()  # Ctrl-C does not wait for it
        while not results:
            session.damp_without_reading()  # which is safe without one, and a busy computer may have old ones
        session.resume()
        return results[0]()

    return compute


def _raise(error: BaseException) -> None:
    raise error
