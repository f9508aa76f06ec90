"""Find how a robot on a stand is wired: `rsl-rl bring-up --driver my_driver --contract policy.json`.

The trunk is on a stand, level, and the legs hang freely. Keep the emergency stop in your hand. The program moves each
joint a little, with at most --torque_share of the torque limits, then all of them slowly while you turn the trunk as it
asks, and then you move each limb by hand. It finds which joint each channel of the driver is, with sign and zero, how
the IMU is mounted, units, delays and rates, and writes robot.yaml:

    python robot_loop.py policy.onnx --driver my_driver --robot robot.yaml

It stops at once, damps the joints and switches the motors off, when a reading is stale, frozen or not finite, when a
joint moves as nothing asks it to, when the driver fails or does not answer, and after Ctrl-C. Nothing that is not
determined is written. The last line is JSON. The exit code is 0 if all is determined, 1 if not or after a stop, 130
after Ctrl-C, and 2 for wrong usage.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import importlib
import json
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, List, Mapping, Sequence

from rsl_rl.cli.doctor import read_robot
from rsl_rl.cli.errors import FlagParser, print_line, program, usage_errors
from rsl_rl.cli.evaluate import report_file
from rsl_rl.cli.experiments import import_shipped
from rsl_rl.cli.signals import INTERRUPTED, SIGNALS, handle_signals

if TYPE_CHECKING:
    from rsl_rl.hardware.session import Request, Session

LARGEST_SHARE = 0.3


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
    parser.add_argument("--out", default="robot.yaml", help="file to write (default: robot.yaml)")
    parser.add_argument("--report", default="bring_up.html", help="page with plots (default: bring_up.html)")
    flags = parser.parse_args(argv)
    with usage_errors():
        if not 0.01 <= flags.torque_share <= LARGEST_SHARE:
            raise ValueError(f"--torque_share {flags.torque_share:g}: give 0.01 to {LARGEST_SHARE:g}")
        out, report = report_file(flags.out), report_file(flags.report)
        description, model = read_robot(flags.contract, flags.model)
        from rsl_rl.hardware.limbs import read_limbs

        limbs = read_limbs(model, description["joint_names"])
        former = {number: signal.getsignal(number) for number in SIGNALS}
        handle_signals(_interrupt)
        try:
            driver = connect(flags.driver, flags.address)
            return bring_up(driver, description, limbs, flags.torque_share, out, report)
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


def connect(name: str, address: str) -> Any:
    """Return the driver of a robot: that of a function connect(address) in a module, or of a class.

    A class is made with the address, if one is given. Drivers of deploy/ are found too.
    """
    module_name, _, attribute = name.partition(":")
    sys.path.append(str(Path(str(import_shipped("rsl_rl_deploy").__file__)).parent))
    try:
        module = importlib.import_module(module_name)
    except ImportError as error:
        raise ValueError(f"--driver {name}: {error}; give a module of the current folder, or a package") from error
    function = getattr(module, attribute or "connect", None)
    if not callable(function):
        raise ValueError(f"--driver {name}: {module.__file__} has no {attribute or 'function connect(address)'}")
    try:
        driver = function(address) if address or not attribute else function()
    except Exception as error:  # of the driver's own, of any kind
        raise ValueError(f"--driver {name}: {type(error).__name__}: {error}") from error
    missing = [one for one in ("joint_names", "readings", "hold", "stop", "close") if not hasattr(driver, one)]
    if missing:
        raise ValueError(f"--driver {name}: it has no {missing[0]}(); docs/deploy.md lists the five methods")
    return driver


def bring_up(driver: Any, description: Mapping[str, Any], limbs: Any, share: float, out: Path, report: Path) -> int:
    """Do the bring-up, and return the exit code; whatever happens, the robot is damped at the end."""
    from rsl_rl.hardware.bring_up import BringUp
    from rsl_rl.hardware.bring_up_report import lines, report_html, robot_yaml
    from rsl_rl.hardware.driver import StoppedError, Watched
    from rsl_rl.hardware.session import Session
    from rsl_rl.utils.files import atomic_write

    session, run, reason, code = None, None, "", 1
    try:
        watched = Watched(driver)
        torque = share * min(limit for limit in description["torque_limits"] if limit > 0)
        session = Session(watched, torque, min(description["damping"]), time.monotonic, time.sleep)
        print_line(f"at most {torque:.2f} N m in each motor: {100 * share:g} % of the smallest torque limit")
        run = BringUp(session, limbs, _Operator(driver), print_line, _damped(session))
        run.run()
    except StoppedError as error:
        reason = str(error)
    except KeyboardInterrupt:
        reason, code = "interrupted", INTERRUPTED
    except Exception as error:  # whatever it is, the robot must stop
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    ignore_signals()
    ended = session.end() if session is not None else _switched_off(driver)
    with contextlib.suppress(Exception):  # whatever it is, the motors are off
        driver.close()
    if reason or ended or run is None:
        safe = "; the joints were damped and the motors switched off" if session is not None else ""
        print_line(f"stopped: {reason}{ended or safe}; nothing is written")
        print(json.dumps({"determined": False, "stopped": f"{reason}{ended}"}))
        return code
    found = run.found
    for line in lines(found):
        print_line(line)
    name = str(description.get("robot") or "robot")
    atomic_write(report, report_html(f"Bring-up of {name}", found).encode())
    print_line(f"report: {report}")
    if found.is_complete:
        atomic_write(out, robot_yaml(found, name))
        print_line(f"wiring: {out}; walk with python robot_loop.py policy.onnx --robot {out} ...")
    told = {"determined": found.is_complete, "problems": found.problems, "seconds": round(found.seconds, 1)}
    print(json.dumps({**told, "file": str(out) if found.is_complete else None}))
    return 0 if found.is_complete else 1


def _switched_off(driver: Any) -> str:
    """Switch the motors off; nothing was sent before."""
    with contextlib.suppress(Exception):
        driver.stop()
    return ""


class _Operator:
    """Prints what the operator is asked for; the operator of a simulated robot gets it from the driver."""

    def __init__(self, driver: Any):
        self._ask: Callable[[Mapping[str, Any]], Any] = getattr(driver, "ask", lambda motion: None)

    def __call__(self, request: Request) -> None:
        print_line(f">>> {request.text}")
        self._ask(request.motion)


def _damped(session: Session) -> Callable[[Callable[[], Any]], Any]:
    """Return a function that calls another in a thread, and damps the joints until it has returned."""

    def compute(function: Callable[[], Any]) -> Any:
        results: List[Callable[[], Any]] = []

        def work() -> None:
            try:
                result = function()
                results.append(lambda: result)
            except Exception as error:  # is raised again where the result is asked for
                results.append(functools.partial(_raise, error))

        threading.Thread(target=work, daemon=True).start()  # Ctrl-C does not wait for it
        while not results:
            session.step(session.pos, 0.0)
        return results[0]()

    return compute


def _raise(error: Exception) -> None:
    raise error
