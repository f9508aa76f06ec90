"""Prepare a URDF or MJCF for training: `rsl-rl adopt robot.urdf`.

Reads a URDF or an MJCF file, finds base, legs, feet and symmetry, chooses a standing pose and gains, and writes a
folder with a prepared model, a config that can be trained, and a report with pictures. Robots on wheels, arms and files
without a robot are refused.
"""

import argparse
import contextlib
import importlib.util
import json
import keyword
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
import unicodedata
from pathlib import Path
from typing import Any, Dict, Iterator, List, Sequence, Tuple

from rsl_rl.cli.audit import audit_package
from rsl_rl.cli.errors import Ended, FlagParser, fail, print_line, program, usage_errors
from rsl_rl.cli.signals import delay_signals, exit_on_signals
from rsl_rl.utils.text import is_utf8

TIME_LIMIT = 600.0
"""Time within which a robot is prepared [s]; most take less than a minute."""


def main(argv: Sequence[str]) -> int:
    parser = FlagParser(prog=program(), description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", help="URDF or MJCF file")
    parser.add_argument("--name", help="name of the robot and of its folder (default: that of the file)")
    parser.add_argument("--folder", default=".", help="where to write the folder (default: here)")
    parser.add_argument("--no-pictures", "--no_pictures", action="store_true", help="write the report without pictures")
    parser.add_argument("--train", action="store_true", help="train it afterwards")
    found = parser.add_argument_group("what is found in the model, where the guess is wrong")
    found.add_argument("--feet", type=_names, default=(), metavar="A,B,...", help="last link of each leg")
    found.add_argument("--legs", type=int, default=0, metavar="N", help="number of legs, those that reach lowest")
    found.add_argument("--base", default="", metavar="LINK", help="link that is the trunk")
    found.add_argument(
        "--lock", type=_angle, action="append", default=[], metavar="JOINT=ANGLE", help="joint that is held [rad]"
    )
    flags = parser.parse_args(argv)
    exit_on_signals(when="before the robot was prepared; nothing is written")
    with usage_errors():
        from rsl_rl.adoption.config_file import class_name

        stem = unicodedata.normalize("NFKC", Path(flags.model).stem)
        name = flags.name or re.sub(r"\W+", "_", stem).lower()
        folder = Path(flags.folder) / name
        require_free(name, folder)
        print_line(f"reading {flags.model}")
        hints = {"feet": flags.feet, "base": flags.base, "legs": flags.legs, "lock": dict(flags.lock)}
        with temporary_folder(folder) as temporary:
            lines = prepare(Path(flags.model), temporary / name, not flags.no_pictures, hints)
            os.replace(temporary / name, folder)
    task = f"{name}.flat:{class_name(name)}"
    audited = audit_package(folder, task)
    for line in (*lines, *audited, f"config: {folder / 'flat.py'}", f"report: {folder / 'report.html'}"):
        print_line(line)
    parent = str(folder.parent.resolve())
    if flags.train:
        from rsl_rl.cli import train

        sys.path.insert(0, parent)
        return train.main(["--task", task])
    away = "" if parent == str(Path.cwd()) else f"PYTHONPATH={shlex.quote(parent)} "
    print_line(f"train it: {away}rsl-rl train --task {task}")
    return 0


def _names(text: str) -> Tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _angle(text: str) -> Tuple[str, float]:
    name, _, angle = text.rpartition("=")
    try:
        number = float(angle)
    except ValueError:
        number = float("nan")
    if not name or not math.isfinite(number):
        raise argparse.ArgumentTypeError(f"{text!r} is not JOINT=ANGLE with an angle in rad, such as left_elbow=0.5")
    return name, number


def require_free(name: str, folder: Path) -> None:
    """Raise a ValueError if the name cannot be that of a new package."""
    fits = name.isidentifier() and name == unicodedata.normalize("NFKC", name)  # Python normalizes names in a program
    if not fits or keyword.iskeyword(name) or name.startswith("__"):
        raise ValueError(f"--name {name} is not a name of a Python package; use letters, digits and underscores")
    if not folder.parent.is_dir():
        raise ValueError(f"--folder {folder.parent} is not a folder; create it, or give another one")
    if not is_utf8(folder.parent.resolve()):
        raise ValueError(f"--folder {folder.parent.resolve()} has a name that is not UTF-8; give another one")
    if os.path.lexists(folder):
        raise ValueError(f"{folder} exists already; remove it, or give another name with --name")
    found = importlib.util.find_spec(name)
    if found is not None:
        raise ValueError(f"--name {name} is the name of an installed package ({found.origin}); give another one")


@contextlib.contextmanager
def temporary_folder(folder: Path) -> Iterator[Path]:
    """Give a temporary folder beside a new one; that of a process which was killed is emptied first.

    While it exists, a second process that wants the same folder is refused.
    """
    from rsl_rl.runners import TrainingError
    from rsl_rl.runners.run_folder import run_lock

    temporary = folder.with_name(f".{folder.name}.part")
    with contextlib.ExitStack() as stack:
        try:
            with delay_signals():  # the lock and the removal of the folder are on the stack together or not at all
                stack.enter_context(run_lock(temporary))
                stack.callback(remove_whole, temporary)
        except TrainingError as error:
            raise ValueError(
                f"another process prepares {folder}; wait for it, or give another name with --name"
            ) from error
        shutil.rmtree(temporary / folder.name, ignore_errors=True)
        remove_former_leftovers(folder)
        yield temporary


def remove_whole(folder: Path) -> None:
    """Remove a folder with all its content, also when a signal comes meanwhile."""
    with delay_signals():
        shutil.rmtree(folder, ignore_errors=True)


def remove_former_leftovers(folder: Path) -> None:
    """Remove the temporary folders that killed commands of earlier versions left beside a new folder: those older than
    a day that hold nothing but the new folder."""
    for left in folder.parent.glob(f".{folder.name}.*"):
        named_by_us = re.fullmatch(r"[a-z0-9_]{8}", left.name[len(folder.name) + 2 :]) and not left.is_symlink()
        with contextlib.suppress(OSError):  # it is somebody else's
            is_old = left.stat().st_mtime < time.time() - 86400
            if named_by_us and is_old and {path.name for path in left.iterdir()} <= {folder.name}:
                shutil.rmtree(left)


def prepare(model: Path, folder: Path, pictures: bool, hints: Dict[str, Any]) -> List[str]:
    """Write the package of a robot in a process of its own, and return the lines that it printed.

    ``hints`` are what the user says of the robot, see ``rsl_rl.adoption.structure.Hints``.
    """
    from rsl_rl.cli.trainings import describe_exit

    module = [sys.executable, "-m", "rsl_rl.cli.adopt_worker"]
    try:
        result = subprocess.run(
            [*module, str(model), str(folder), "pictures" if pictures else "", json.dumps(hints), str(os.getpid())],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIME_LIMIT,  # no preexec_fn: Python would drop the exception of a signal that comes meanwhile
            env={**os.environ, "PYTHONIOENCODING": "utf-8"},
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(
            f"{model} is not prepared after {TIME_LIMIT:g} s, which is the limit; give a model with fewer parts or "
            "smaller meshes"
        ) from error
    errors = result.stderr.decode(errors="replace").strip()
    if result.returncode == 2:
        fail(errors.splitlines()[-1].partition("error: ")[2])
    if result.returncode < 0:
        raise ValueError(
            f"{model} cannot be prepared: the process was {describe_exit(result.returncode)}; the model may be "
            "damaged, or need more memory than it may have (docs/own-robot.md)"
        )
    if result.returncode:
        print(errors, file=sys.stderr)
        raise Ended(1)
    return result.stdout.decode(errors="replace").splitlines()
