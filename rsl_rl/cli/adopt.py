"""Prepare a URDF or MJCF for training: `rsl-rl adopt robot.urdf`.

Reads a URDF or an MJCF file, finds base, legs, feet and symmetry, chooses a standing pose and gains, and writes a
folder with a prepared model, a config that can be trained, and a report with pictures. Robots on wheels, arms and files
without a robot are refused.
"""

import argparse
import importlib.util
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any, Sequence

from rsl_rl.cli.audit import audit_package
from rsl_rl.cli.errors import FlagParser, print_line, program, usage_errors


def main(argv: Sequence[str]) -> int:
    parser = FlagParser(prog=program(), description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("model", help="URDF or MJCF file")
    parser.add_argument("--name", help="name of the robot and of its folder (default: that of the file)")
    parser.add_argument("--folder", default=".", help="where to write the folder (default: here)")
    parser.add_argument("--no-pictures", "--no_pictures", action="store_true", help="write the report without pictures")
    parser.add_argument("--train", action="store_true", help="train it afterwards")
    flags = parser.parse_args(argv)
    with usage_errors():
        from rsl_rl.adoption.adopt import adopt_model
        from rsl_rl.adoption.config_file import class_name, write_config
        from rsl_rl.evaluation.adoption_report import write_report

        name = flags.name or re.sub(r"\W+", "_", Path(flags.model).stem).lower()
        folder = Path(flags.folder) / name
        require_free(name, folder)
        print_line(f"reading {flags.model}")
        robot = adopt_model(Path(flags.model), name)
        with tempfile.TemporaryDirectory(prefix=f".{name}.", dir=flags.folder) as temporary:
            part = Path(temporary) / name
            part.mkdir()
            (part / "__init__.py").write_text(f'"""The robot {name}; see flat.py."""\n')
            (part / "flat.py").write_text(write_config(robot))
            (part / f"{name}.xml").write_text(robot.mjcf)
            remarks = write_report(robot, part, pictures=not flags.no_pictures)
            os.replace(part, folder)
    task = f"{name}.flat:{class_name(name)}"
    for line in (
        *summary(robot),
        *remarks,
        *audit_package(folder, task),
        f"config: {folder / 'flat.py'}",
        f"report: {folder / 'report.html'}",
    ):
        print_line(line)
    if flags.train:
        from rsl_rl.cli import train

        sys.path.insert(0, str(Path(flags.folder).resolve()))
        return train.main(["--task", task])
    away = "" if Path(flags.folder).resolve() == Path.cwd() else f"PYTHONPATH={Path(flags.folder).resolve()} "
    print_line(f"train it: {away}rsl-rl train --task {task}")
    return 0


def require_free(name: str, folder: Path) -> None:
    """Raise a ValueError if the name cannot be that of a new package."""
    if not name.isidentifier():
        raise ValueError(f"--name {name} is not a name of a Python package; use letters, digits and underscores")
    if not folder.parent.is_dir():
        raise ValueError(f"--folder {folder.parent} is not a folder; create it, or give another one")
    if folder.exists():
        raise ValueError(f"{folder} exists already; remove it, or give another name with --name")
    found = importlib.util.find_spec(name)
    if found is not None:
        raise ValueError(f"--name {name} is the name of an installed package ({found.origin}); give another one")


def summary(robot: Any) -> Sequence[str]:
    """Return lines on what was found."""
    tree, settled = robot.tree, robot.settled
    lines = [f"note: {note}" for note in robot.notes]
    symmetric = f"largest error {1000 * robot.symmetry.error:.1f} mm" if robot.symmetry.holds else "no"
    lines += [
        f"robot: {tree.mass:.1f} kg, base {tree.links[0].name}, legs {', '.join(leg.name for leg in tree.legs)} with "
        f"{', '.join(str(len(leg.joints)) for leg in tree.legs)} joints, {len(tree.locked)} joints locked",
        f"left-right symmetry: {symmetric}",
        f"standing: {'yes' if robot.stands else 'no'}; after 5 s height {settled.height:.3f} m, tilt "
        f"{settled.tilt:.3f} rad, drift {settled.drift:.3f} m",
    ]
    return lines
