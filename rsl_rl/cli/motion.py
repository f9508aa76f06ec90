"""Make, read, look at and convert reference motions: clips that a robot is to follow.

    rsl-rl motion generate --robot go2 --gait trot --speed 0.8
    rsl-rl motion import walk.csv --robot g1 --joints model --fps 30
    rsl-rl motion show trot.npz --robot go2 --output trot.html
    rsl-rl motion check walk.npz --robot g1 --mend floor,skating
    rsl-rl motion retarget trot.npz --from go2 --to anymal_c
    rsl-rl motion export trot.npz --format mjlab_npz

A clip is a .npz file with the poses and velocities of all bodies. --robot is the name of a robot, of a task, or
"package.module:object" of an adopted robot.
"""

import argparse
import math
from pathlib import Path
from typing import TYPE_CHECKING, Optional, Sequence

from rsl_rl.cli.errors import FlagParser, program, usage_errors
from rsl_rl.cli.experiments import Experiments

if TYPE_CHECKING:
    from rsl_rl.motion import Clip
    from rsl_rl.robots import Robot

SECONDS = 6.0
"""Length of a film of a loop [s]."""


def main(argv: Sequence[str]) -> int:
    flags = _parser().parse_args(argv)
    with usage_errors():
        return flags.run(flags)


def _parser() -> FlagParser:
    parser = FlagParser(prog=program(), description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="generate|import|show|check|retarget|export"
    )

    own = commands.add_parser("generate", help="compute a gait or a motion on the spot from the robot's model")
    _robot(own)
    own.add_argument("--gait", "--motion", dest="motion", help="such as trot or sit; without it they are listed")
    own.add_argument("--speed", type=float, metavar="V", help="forward [m/s] (default: the gait's own)")
    own.add_argument("--side", type=float, metavar="V", help="to the left [m/s]")
    own.add_argument("--turn", type=float, metavar="W", help="yaw rate [rad/s]")
    own.add_argument("--seconds", type=float, default=0.0, help="length of a gait [s] (default: one cycle)")
    own.add_argument("--fps", type=float, default=50.0, help="frames per second (default: 50)")
    _output(own)
    own.set_defaults(run=_generate)

    own = commands.add_parser("import", help="read a motion that another program has written")
    own.add_argument("file", type=Path)
    _robot(own)
    own.add_argument("--format", default="", help="format of the file (default: what it shows)")
    own.add_argument("--fps", type=float, help="frames per second")
    own.add_argument("--joints", default="", help="joints in the order of the file; see docs/motion.md")
    own.add_argument("--quaternion", default="", metavar="wxyz|xyzw", help="order of the numbers of quaternions")
    own.add_argument("--euler", default="", metavar="xyz|...", help="order of turns about fixed axes")
    own.add_argument("--length", default="", metavar="m|cm|mm", help="unit of lengths")
    own.add_argument("--angles", default="", metavar="rad|deg", help="unit of angles")
    own.add_argument("--up", default="", metavar="z|y|...", help="axis of the file's world that points up")
    own.add_argument("--motion", default="", metavar="NAME", help="motion in a file with several")
    _mend(own)
    _output(own)
    own.set_defaults(run=_import)

    own = commands.add_parser("show", help="render a clip to a film, or write a web page that plays it")
    own.add_argument("clip", type=Path)
    _robot(own)
    own.add_argument("--seconds", type=float, help=f"length of the film (default: the clip; {SECONDS:g} s of a loop)")
    help_text = "film .mp4 or .webp, or web page .html (default: the clip's name with .mp4)"
    own.add_argument("--output", type=Path, metavar="FILE", help=help_text)
    own.set_defaults(run=_show)

    own = commands.add_parser("check", help="report frames with faults; exit code 1 if there are any")
    own.add_argument("clip", type=Path)
    _robot(own)
    _mend(own)
    _output(own)
    own.set_defaults(run=_check)

    own = commands.add_parser("retarget", help="bring a clip to another robot of the same kind")
    own.add_argument("clip", type=Path)
    own.add_argument("--from", dest="source", required=True, metavar="ROBOT", help="robot of the clip")
    own.add_argument("--to", dest="target", required=True, metavar="ROBOT", help="robot of the new clip")
    _output(own)
    own.set_defaults(run=_retarget)

    own = commands.add_parser("export", help="write a clip in the format of another program")
    own.add_argument("clip", type=Path)
    own.add_argument("--format", default="mjlab_npz", metavar="mjlab_npz", help="format (default: mjlab_npz)")
    own.add_argument("--seconds", type=float, help="length of a loop, which is repeated (default: one round) [s]")
    own.add_argument("--model", type=Path, metavar="FILE.xml", help="MJCF whose joints and bodies the file is to have")
    _output(own)
    own.set_defaults(run=_export)
    return parser


def _robot(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--robot", required=True, help="robot, task, or package.module:object")


def _output(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--output", type=Path, metavar="FILE", help="file to write (default: named for the motion)")


def _mend(parser: argparse.ArgumentParser) -> None:
    help_text = "faults to mend, with commas: nan,jump,limits,floor,floating,skating,loop"
    parser.add_argument("--mend", default="", metavar="KINDS", help=help_text)


def find_robot(name: str) -> "Robot":
    """Return a robot by its name, by that of a task, or by "package.module:object"."""
    from rsl_rl.robots import ROBOTS

    experiments = Experiments()
    if ":" not in name and name not in ROBOTS.names() and name in experiments.names():
        name = getattr(experiments.load(name)().env, "robot", name)
    return ROBOTS.load(name)


def _generate(flags: argparse.Namespace) -> int:
    from rsl_rl.motion.generate import generate, motion_names

    robot = find_robot(flags.robot)
    if flags.motion is None:
        for name, kind in motion_names(robot).items():
            print(f"{name:12} {kind}")
        return 0
    clip = generate(robot, flags.motion, flags.speed, flags.side, flags.turn, flags.seconds, flags.fps)
    return _finish(clip, robot, flags.output or Path(f"{_plain(flags.robot)}_{clip.name.replace(' ', '_')}.npz"), "")


def _import(flags: argparse.Namespace) -> int:
    from rsl_rl.motion.importers import read_motion
    from rsl_rl.motion.importers.source import Given

    names = ("fps", "joints", "quaternion", "euler", "length", "angles", "up", "motion")
    robot, given = find_robot(flags.robot), Given(**{name: getattr(flags, name) for name in names})
    clip, notes = read_motion(flags.file, robot, given, flags.format)
    for note in notes:
        print(f"found: {note}")
    output = flags.output or Path(f"{_plain(flags.robot)}_{_plain(clip.name)}.npz")
    return _finish(clip, robot, output, flags.mend)


def _check(flags: argparse.Namespace) -> int:
    robot = find_robot(flags.robot)
    clip = _clip_of(flags.clip, robot)
    if not flags.mend:
        if flags.output:
            raise ValueError("--output is the file for the mended clip; add --mend, or leave it out")
        return int(_report(clip, robot))
    return _finish(clip, robot, flags.output or flags.clip.with_name(f"{flags.clip.stem}_mended.npz"), flags.mend)


def _retarget(flags: argparse.Namespace) -> int:
    from rsl_rl.motion.retarget import retarget

    source, target = find_robot(flags.source), find_robot(flags.target)
    made = retarget(_clip_of(flags.clip, source), source, target)
    for note in made.notes:
        print(f"note: {note}")
    output = flags.output or flags.clip.with_name(f"{flags.clip.stem}_{_plain(flags.target)}.npz")
    return _finish(made.clip, target, output, "")


def _export(flags: argparse.Namespace) -> int:
    from rsl_rl.motion import load_clip
    from rsl_rl.motion.edit import on_model, repeated
    from rsl_rl.motion.importers import mjlab_npz
    from rsl_rl.motion.kinematics import Kinematics

    if flags.format != "mjlab_npz":
        raise ValueError(f"clips are not written as '{flags.format}'; known: mjlab_npz")
    clip = load_clip(flags.clip)
    if flags.seconds is not None:
        if not clip.loop:
            raise ValueError(f"the clip '{clip.name}' does not loop; leave out --seconds")
        clip = repeated(clip, flags.seconds)
    if flags.model is not None:
        if not flags.model.is_file():
            raise FileNotFoundError(f"no file {flags.model}")
        clip = on_model(clip, Kinematics(flags.model))
    output = _writable(flags.output or flags.clip.with_name(f"{flags.clip.stem}_mjlab.npz"))
    mjlab_npz.write(clip, output)
    print(f"{output}: {clip.num_frames} frames, {len(clip.joint_names)} joints, {len(clip.link_names)} bodies")
    return 0


def _show(flags: argparse.Namespace) -> int:
    robot = find_robot(flags.robot)
    clip = _clip_of(flags.clip, robot)
    output = _writable(flags.output or flags.clip.with_suffix(".mp4"))
    if output.suffix not in (".mp4", ".webp", ".html"):
        raise ValueError(f"{output} has the suffix '{output.suffix}'; give .mp4, .webp or .html")
    if output.suffix != ".html":
        return _write_film(output, clip, robot, flags.seconds)
    if flags.seconds is not None:
        raise ValueError("--seconds is the length of a film; leave it out for a web page, which plays the whole clip")
    return _write_page(output, clip, robot, flags.robot)


def _write_page(output: Path, clip: "Clip", robot: "Robot", robot_name: str) -> int:
    from rsl_rl.motion.page import gather_motion
    from rsl_rl.viz.page import write_motion_page

    size = write_motion_page(output, gather_motion(clip, robot, robot_name))
    print(f"page: {output} ({size / 1e6:.1f} MB; open it in a browser)")
    return 0


def _write_film(output: Path, clip: "Clip", robot: "Robot", seconds: Optional[float]) -> int:
    import numpy as np
    import torch

    from rsl_rl.motion import ClipSet
    from rsl_rl.viz.video import VideoClip, VideoError, contact_sheet_path, write_film, write_video

    if seconds is None:
        seconds = SECONDS if clip.loop else clip.length
    if not 0 < seconds <= 600:
        raise ValueError(f"--seconds is {seconds:g}; give up to 600")
    fps = min(25.0, clip.fps)
    time = torch.arange(max(2, math.floor(seconds * fps))) / fps
    frame = ClipSet([clip], "cpu").at(torch.zeros(len(time), dtype=torch.long), time)
    poses = torch.cat((frame.link_pos[:, 0], frame.link_quat[:, 0], frame.joint_pos), dim=1).unsqueeze(1)
    speed = frame.link_vel[:, 0, :2].norm(dim=1)
    captions = [f"{clip.name}   {t:.1f} s   {v:.2f} m/s" for t, v in zip(time.tolist(), speed.tolist())]
    film = VideoClip(robot.model_path, np.asarray(poses.double()), captions, fps)
    try:
        if output.suffix == ".webp":
            write_film(output, film, (480, 320))
            print(f"film: {output}")
        else:
            write_video(output, film)
            print(f"film: {output} (contact sheet: {contact_sheet_path(output).name})")
    except VideoError as error:
        print(error)
        return 1
    return 0


def _clip_of(path: Path, robot: "Robot") -> "Clip":
    """Return a clip from a file; one of another robot is a ValueError."""
    from rsl_rl.motion import load_clip
    from rsl_rl.motion.kinematics import Kinematics

    clip = load_clip(path)
    Kinematics(robot).require(clip)
    return clip


def _finish(clip: "Clip", robot: "Robot", output: Path, kinds: str) -> int:
    """Report the faults of a clip, mend those of some kinds, and write it; return 1 if faults are left."""
    from rsl_rl.motion import save_clip
    from rsl_rl.motion.checks import mend
    from rsl_rl.motion.kinematics import Kinematics
    from rsl_rl.motion.legs import legs_of

    output = _writable(output)
    if kinds:
        clip = mend(clip, Kinematics(robot), legs_of(robot), [kind.strip() for kind in kinds.split(",")])
    left = _report(clip, robot)
    save_clip(clip, output)
    kind = "loop" if clip.loop else "clip"
    print(f"{output}: {kind} '{clip.name}', {clip.num_frames} frames, {clip.length:.2f} s at {clip.fps:g} fps")
    return int(left)


def _report(clip: "Clip", robot: "Robot") -> bool:
    """Print the faults of a clip; return whether there are any."""
    from rsl_rl.motion.checks import check
    from rsl_rl.motion.kinematics import Kinematics
    from rsl_rl.motion.legs import legs_of

    found = check(clip, Kinematics(robot), legs_of(robot))
    for finding in found:
        print(f"{finding.kind}: {finding.sentence} (--mend {finding.kind})")
    if not found:
        print("no fault found")
    return bool(found)


def _writable(path: Path) -> Path:
    if not path.parent.is_dir():
        raise ValueError(f"there is no folder {path.parent}")
    if path.is_symlink() or (path.exists() and not path.is_file()):
        raise ValueError(f"{path} exists and is not a file; name another one")
    return path


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "_-." else "_" for letter in name)
