"""Prepare a robot model for the command adopt, in a process of its own.

MuJoCo may need any time and memory for a file, or end the process; the command keeps a limit and cleans up.
"""

import importlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, List, Sequence, Tuple

from rsl_rl.adoption.adopt import AdoptedRobot, adopt_model
from rsl_rl.adoption.config_file import class_name, write_config
from rsl_rl.adoption.standing import SECONDS
from rsl_rl.adoption.structure import Hints
from rsl_rl.adoption.track_file import track_clips, write_track_config
from rsl_rl.adoption.visuals import find_meshes, write_visuals
from rsl_rl.cli.errors import UsageError, print_error, print_line, usage_errors
from rsl_rl.cli.experiments import import_shipped
from rsl_rl.evaluation.adoption_report import write_report
from rsl_rl.motion.library import find_clip
from rsl_rl.utils.host import end_with_parent, limit_memory

MEMORY_LIMIT = 8e9
"""Memory of the process [bytes]; most robots need less than 1 GB."""


def write_package(model: Path, folder: Path, pictures: bool, hints: Hints) -> Sequence[str]:
    """Write the package of a robot into a new folder, whose name is that of the robot; return lines on it."""
    name = folder.name
    robot = adopt_model(model, name, hints)
    folder.mkdir()
    (folder / "__init__.py").write_text(f'"""The robot {name}; see flat.py."""\n', encoding="utf-8")
    (folder / "flat.py").write_text(write_config(robot), encoding="utf-8")
    (folder / f"{name}.xml").write_text(robot.mjcf, encoding="utf-8")
    meshes = find_meshes(robot.source, robot.skeleton)
    if meshes:
        write_visuals(robot.mjcf, meshes, folder / f"{name}.xml")
    require_task(folder)
    return [*summary(robot), *write_track_task(robot, folder), *write_report(robot, folder, pictures)]


def write_track_task(robot: AdoptedRobot, folder: Path) -> Sequence[str]:
    """Write the task of reference motions beside the task on flat ground, which :func:`require_task` has imported;
    return lines on it. Without a motion that the joints of the robot allow, and if the task does not run, there is no
    such file."""
    clips, notes = possible_clips(track_clips(robot), f"{robot.name}.flat:ROBOT")
    if not clips:
        return [*notes, "motions: none, so track.py is not written"]
    (folder / "track.py").write_text(write_track_config(robot, clips), encoding="utf-8")
    import_shipped("rsl_rl_configs")
    try:
        require_task(folder, "Track")
    except ValueError as error:  # the robot can walk all the same
        (folder / "track.py").unlink()
        return [*notes, f"motions: none, so track.py is not written: {error.__cause__ or error}"]
    task = f"{robot.name}.track:{class_name(robot.name, 'Track')}"
    return [*notes, f"motions: {', '.join(clips)}, for the task {task}"]


def possible_clips(names: Sequence[str], robot: str) -> Tuple[List[str], List[str]]:
    """Return the motions that can be generated for a robot, and a line on each of the others."""
    clips, notes = [], []
    for name in names:
        try:
            find_clip(name, robot)
            clips.append(name)
        except ValueError as error:
            notes.append(f"note: no motion {name}: {error}")
    return clips, notes


def require_task(folder: Path, kind: str = "Flat") -> None:
    """Import the package in a folder, build one of its tasks and let two robots make a step; otherwise raise a
    ValueError."""
    import torch

    sys.path.insert(0, str(folder.parent))
    sys.dont_write_bytecode = True
    try:
        module = importlib.import_module(f"{folder.name}.{kind.lower()}")
        task = getattr(module, class_name(folder.name, kind))()
        env = replace(task.env, num_envs=2).build()
        step = env.step(torch.zeros(2, env.num_actions))
        numbers = [step.reward, *step.obs.values()]
        if not all(bool(values.isfinite().all()) for values in numbers):
            raise ValueError("a reward or an observation is not finite")
    except Exception as error:  # whatever is wrong with the model or with the text
        raise ValueError(
            f"the task that adopt made of {folder.name} does not work ({type(error).__name__}: {error}); nothing is "
            "written. Look for unusual names or numbers in the model"
        ) from error


def summary(robot: Any) -> Sequence[str]:
    """Return lines on what was found."""
    tree, settled = robot.tree, robot.settled
    stands = "yes" if robot.stands else f"no, {'; '.join(robot.faults)}"
    lines = [f"note: {note}" for note in robot.notes]
    lines += [f"warning: {warning}" for warning in robot.warnings]
    symmetric = f"largest error {1000 * robot.symmetry.error:.1f} mm" if robot.symmetry.holds else "no"
    lines += [
        f"robot: {tree.mass:.1f} kg, base {tree.links[0].name}, legs {', '.join(leg.name for leg in tree.legs)} with "
        f"{', '.join(str(len(leg.joints)) for leg in tree.legs)} joints, {len(tree.locked)} joints locked",
        f"left-right symmetry: {symmetric}",
        f"standing: {stands}; after {SECONDS:g} s height {settled.height:.3f} m, tilt "
        f"{settled.tilt:.3f} rad, drift {settled.drift:.3f} m",
    ]
    return lines


if __name__ == "__main__":
    sys.argv[0] = "rsl-rl adopt"  # for messages
    end_with_parent()
    limit_memory(int(MEMORY_LIMIT))
    if os.getppid() != int(sys.argv[5]):  # the command has ended before
        raise SystemExit(1)
    try:
        with usage_errors():
            given = Hints(**json.loads(sys.argv[4]))
            try:
                lines = write_package(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3] == "pictures", given)
            except MemoryError as error:
                raise ValueError(
                    f"{sys.argv[1]} needs more memory than the {MEMORY_LIMIT / 1e9:g} GB that are allowed; give a "
                    "model with fewer parts, or smaller meshes and height fields"
                ) from error
            for line in lines:
                print_line(line)
    except UsageError as error:
        print_error(error.message)  # the command repeats it
        raise
