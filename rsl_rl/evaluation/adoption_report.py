"""Write the report of an adopted robot: what was found, with pictures to check it by, in one file."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Dict, List, Sequence, Tuple

import mujoco
import numpy as np

from rsl_rl.adoption.adopt import AdoptedRobot
from rsl_rl.adoption.geometry import geoms_of
from rsl_rl.adoption.links import locked_pose
from rsl_rl.adoption.standing import SECONDS
from rsl_rl.adoption.structure import posed
from rsl_rl.evaluation.report import image_html, page_html, text_table_html
from rsl_rl.utils.text import html_text
from rsl_rl.viz.video import Picture, VideoError, write_pictures

_VIEWS = ((125.0, "from the front left"), (90.0, "from the right"), (180.0, "from the front"))

_FAR = 1.5
"""Largest angle from the standing pose in the pictures of the ranges [rad]."""

_PAIRS = 3
"""Random poses with their mirror images."""

_BLUE, _RED = "#1f77b4", "#d62728"


def write_report(robot: AdoptedRobot, folder: Path, pictures: bool = True) -> List[str]:
    """Write report.html, which holds its pictures, and return remarks, such as that no picture could be rendered."""
    made: Dict[str, bytes] = {}
    remarks = set()
    with tempfile.TemporaryDirectory() as temporary:
        (Path(temporary) / f"{robot.name}.xml").write_text(robot.mjcf, encoding="utf-8")
        for name, draw in _DRAWINGS.items() if pictures else ():
            path = Path(temporary) / f"{name}.png"
            try:
                draw(robot, path)
                made[name] = path.read_bytes()
            except (VideoError, ModuleNotFoundError) as error:
                remarks.add(f"pictures are missing from the report: {error}")
    source = html_text(str(robot.source.path))
    parts = [f"<h1>{html_text(robot.name)}</h1>", f"<p>Prepared from <code>{source}</code>.</p>"]
    for title, texts in (("Warnings", robot.warnings), ("Notes", robot.notes)):
        if texts:
            parts += [f"<h2>{title}</h2>", "<ul>", *(f"<li>{html_text(text)}</li>" for text in texts), "</ul>"]
    for title, text, names in _sections(robot):
        parts += [f"<h2>{title}</h2>", text]
        parts += [f"<p>{image_html(name, made[name])}</p>" for name in names if name in made]
    (folder / "report.html").write_text(page_html(robot.name, "\n".join(parts)), encoding="utf-8")
    return sorted(remarks)


def _sections(robot: AdoptedRobot) -> List[Tuple[str, str, Sequence[str]]]:
    tree, settled, stance = robot.tree, robot.settled, robot.stance
    legs = [["leg", "joints", "links", "foot"]]
    for leg in tree.legs:
        foot = next(link.foot for link in tree.links if link.name == leg.links[-1])
        kind = "flat" if foot and foot.is_flat else "ball"
        legs.append([leg.name, ", ".join(leg.joints), ", ".join(leg.links), kind])
    stands = "It keeps standing"
    if not robot.stands:
        stands = f"<b>It does not keep standing</b> ({html_text('; '.join(robot.faults))})"
    axes = "<p>Red points forward, green to the left, blue up. Below it the source in the same pose.</p>"
    standing = (
        f"<p>{stands} for {SECONDS:g} s with constant joint targets: height {settled.height:.3f} m (wanted "
        f"{stance.height:.3f} m), tilt {np.degrees(settled.tilt):.1f} deg, drift {settled.drift:.3f} m.</p>"
    )
    error = f"The largest error is {1000 * robot.symmetry.error:.1f} mm."
    mirror = f"Each row is a random pose and its mirror image. {error}" if robot.symmetry.holds else "None was found."
    motor = next(iter(robot.choice.motors.values()))
    gains = (
        f"<p>Stiffness {motor.stiffness:g} N m/rad, damping {motor.damping:g} N m s/rad; the weight on one leg times "
        f"its length is {robot.choice.torque_scale:.1f} N m. Poses below: all joints of one kind at their limits, or "
        f"{_FAR} rad from standing.</p>"
    )
    return [
        ("Parts", f"<p>{tree.mass:.2f} kg, base {html_text(tree.links[0].name)}.</p>{text_table_html(legs)}", ()),
        ("Standing", standing + axes, ("standing", "source", "settling")),
        ("Joints", gains, ("joints", "ranges")),
        ("Left-right symmetry", f"<p>{mirror}</p>", ("symmetry",)),
    ]


def _pose(angles: np.ndarray, height: float) -> np.ndarray:
    return np.array([0, 0, height, 1, 0, 0, 0, *angles])


def draw_standing(robot: AdoptedRobot, path: Path) -> None:
    """Draw the standing robot; the folder of the picture holds its model."""
    pose = _pose(robot.settled.angles, robot.stance.height)
    pictures = [Picture(pose, f"standing, {where}", azimuth) for azimuth, where in _VIEWS]
    write_pictures(path, path.parent / f"{robot.name}.xml", pictures, len(_VIEWS), axes=True)


def draw_source(robot: AdoptedRobot, path: Path) -> None:
    """Draw the source with its own shapes in the pose of the standing robot."""
    model = copy.copy(robot.source.model)
    model.vis.headlight.ambient[:], model.vis.headlight.diffuse[:] = 0.5, 0.5  # the source's lights are left out
    model.geom_rgba[:, :3] = 0.5 + 0.5 * model.geom_rgba[:, :3]
    for body in range(1, model.nbody):
        first, count = int(model.body_geomadr[body]), int(model.body_geomnum[body])
        colliding = set(geoms_of(model, body))
        if 0 < len(colliding) < count and model.geom_contype[list(colliding)].any():  # the others are seen
            model.geom_rgba[list(colliding), 3] = 0.0
        elif count:
            model.geom_group[first : first + count] = 0
    mujoco.mj_saveModel(model, str(path.with_suffix(".mjb")), None)
    pose = source_pose(robot)
    pictures = [Picture(pose, f"source, {where}", azimuth) for azimuth, where in _VIEWS]
    write_pictures(path, path.with_suffix(".mjb"), pictures, len(_VIEWS))


def source_pose(robot: AdoptedRobot) -> np.ndarray:
    """Return the pose [nq] of the source in which it stands as the adopted robot does, at the same place."""
    model, skeleton = robot.source.model, robot.skeleton
    qpos = locked_pose(robot.source, skeleton)
    for i in range(1, robot.model.njnt):
        qpos[model.joint(robot.model.joint(i).name).qposadr[0]] = robot.settled.angles[i - 1]
    data = posed(model, qpos)
    to_level = (data.xmat[skeleton.base].reshape(3, 3) @ skeleton.frame).T
    free, root = int(model.jnt_qposadr[model.body_jntadr[robot.source.base]]), robot.source.base
    place = to_level @ (data.xpos[root] - data.xpos[skeleton.base]) + [0.0, 0.0, robot.stance.height]
    turn = np.ascontiguousarray(to_level @ data.xmat[root].reshape(3, 3)).reshape(9)
    qpos[free : free + 3] = place
    mujoco.mju_mat2Quat(qpos[free + 3 : free + 7], turn)
    return qpos


def _draw_ranges(robot: AdoptedRobot, path: Path) -> None:
    """Draw the robot in the air with the joints of one kind at each end of their ranges, or far from standing."""
    pictures: List[Picture] = []
    ranges = robot.model.jnt_range[1:]
    for k in range(len(robot.tree.legs[0].joints)):
        columns = [robot.model.joint(leg.joints[k]).id - 1 for leg in robot.tree.legs if k < len(leg.joints)]
        for end, word in enumerate(("lowest", "highest")):
            angles = robot.stance.angles.copy()
            away = robot.stance.angles[columns] + (_FAR if end else -_FAR)
            angles[columns] = np.clip(away, *ranges[columns].T)
            caption = f"{robot.tree.legs[0].joints[k]} and alike: {word}"
            pictures.append(Picture(_pose(angles, 2 * robot.reach), caption))
    write_pictures(path, path.parent / f"{robot.name}.xml", pictures, 4)


def _draw_symmetry(robot: AdoptedRobot, path: Path) -> None:
    random, symmetry = np.random.default_rng(0), robot.symmetry
    low, high = robot.model.jnt_range[1:].T
    pictures: List[Picture] = []
    for i in range(_PAIRS):
        angles = np.clip(robot.stance.angles + random.uniform(-0.5, 0.5, len(low)), low, high)
        mirrored = np.array(symmetry.signs) * angles[list(symmetry.joints)]
        for values, word in ((angles, "pose"), (mirrored, "mirror image of pose")):
            pictures.append(Picture(_pose(values, 2 * robot.reach), f"{word} {i + 1}", 180.0))
    write_pictures(path, path.parent / f"{robot.name}.xml", pictures, 2)


def _draw_joints(robot: AdoptedRobot, path: Path) -> None:
    """Draw the range of each joint with its standing angle, and its torque against its limit."""
    from matplotlib.figure import Figure

    model, settled = robot.model, robot.settled
    low, high = model.jnt_range[1:].T
    figure = Figure(figsize=(11, 1.2 + 0.28 * len(low)), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    rows = np.arange(len(low))[::-1]
    left.barh(rows, high - low, left=low, color="#c9d8ea", height=0.6)
    left.plot(settled.angles, rows, "o", color=_BLUE)
    left.set_yticks(rows, [model.joint(i).name for i in range(1, model.njnt)])
    left.set_xlabel("range and standing angle [rad]")
    right.barh(rows, model.actuator_forcerange[:, 1], color="#e6e6e6", height=0.6)
    right.barh(rows, np.abs(settled.torques), color=_BLUE, height=0.3)
    right.set_xlabel("torque limit and torque while standing [N m]")
    figure.savefig(path, dpi=100)


def _draw_settling(robot: AdoptedRobot, path: Path) -> None:
    """Draw height and tilt of the trunk over time, and the forces on the feet at the end."""
    from matplotlib.figure import Figure

    legs, settled, height = robot.tree.legs, robot.settled, robot.stance.height
    weight = robot.tree.mass * float(-robot.model.opt.gravity[2])
    figure = Figure(figsize=(11, 3.2), layout="constrained")
    first, second, third = figure.subplots(1, 3)
    seconds, tilts = settled.history[:, 0], np.degrees(settled.history[:, 2])
    first.plot(seconds, settled.history[:, 1], color=_BLUE)
    first.axhline(height, color=_RED, linestyle="--", linewidth=1)
    first.set_ylabel("height of the trunk [m]")
    first.set_ylim(0, 1.2 * height)
    second.plot(seconds, tilts, color=_BLUE)
    second.set_ylabel("tilt of the trunk [deg]")
    second.set_ylim(bottom=0, top=max(5.0, 1.1 * float(tilts.max())))
    for axis in (first, second):
        axis.set_xlabel("time [s]")
    third.bar([leg.foot for leg in legs], settled.forces, color=_BLUE)
    third.axhline(weight / len(legs), color=_RED, linestyle="--", linewidth=1)
    third.set_ylabel(f"vertical force after {SECONDS:g} s [N]")
    figure.savefig(path, dpi=100)


_DRAWINGS = {
    "standing": draw_standing,
    "source": draw_source,
    "settling": _draw_settling,
    "joints": _draw_joints,
    "ranges": _draw_ranges,
    "symmetry": _draw_symmetry,
}
"""Drawings of the report by name."""
