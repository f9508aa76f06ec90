"""Write a web page in which exported policies walk: physics, networks and robots in one file. The same page shows a
training while it runs, or plays a reference motion.

``make page`` builds the page without robots from ``web/``. The dataclasses here are what a page is given. The page's
own types, ``web/src/page_data.ts``, are generated from them.
"""

from __future__ import annotations

import base64
import gzip
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Dict, List, Mapping, Optional, Tuple

from rsl_rl.utils.files import atomic_write, make_folder, read_file

TEMPLATE = Path(__file__).with_name("page.html")
"""The page without robots."""

FORMAT = 1

_BEFORE, _AFTER = b'<script type="application/json" id="page-data">', b"</script>"
_NO_CONNECTION = b"default-src 'none'"  # in the Content-Security-Policy


@dataclass(frozen=True)
class PageStart:
    """A place on the ground at which the robot can start."""

    name: str
    position: Tuple[float, float, float]
    """World coordinates, on the ground [m]."""


@dataclass(frozen=True)
class PageGround:
    """Heights of the ground on a regular grid; each cell is two triangles that meet at its diagonal."""

    heights: str
    """Height of each point [m], [rows, columns] in row-major order: float32, packed."""
    rows: int
    """Points along x."""
    columns: int
    """Points along y."""
    cell: float
    """Distance between neighbouring points [m]."""
    origin: Tuple[float, float]
    """World coordinates of the first point [m]."""
    starts: List[PageStart]


@dataclass(frozen=True)
class PageFact:
    """A line of the card of a policy."""

    name: str
    value: str


@dataclass(frozen=True)
class PageRobot:
    """A robot, its policy and its ground; bytes are packed by :func:`pack`."""

    name: str
    """Shown to the user."""
    model: str
    """MJCF without references to files other than ``assets``."""
    assets: Dict[str, str]
    """Packed files of the model by name."""
    onnx: str
    """The exported policy with its description, packed."""
    timestep: float
    """Of the physics [s]."""
    substeps: int
    """Physics steps in a control step."""
    contact_impedance: float
    """Impedance of all contacts; 0 for that of the model."""
    armature: List[float]
    """Of each joint [kg m^2]; empty for that of the model."""
    joint_friction: List[float]
    """Of each joint [N m]; empty for that of the model."""
    noise: Dict[str, float]
    """Largest noise in training by the name of the observation, in its SI unit."""
    scan_height: Optional[float]
    """Height of the trunk at which the height scan of a plane is zero [m]; None without a height scan."""
    ground: Optional[PageGround]
    """None: a plane."""
    card: List[PageFact]


@dataclass(frozen=True)
class PageTraining:
    """A training that a page shows while it runs."""

    task: str
    run: str
    """Name of the run folder."""
    first: int
    """Iteration from which the training goes on."""
    last: int
    """Iteration with which it ends."""
    gate: Dict[str, float]
    """Largest value of each metric of an evaluation that passes."""
    has_robot: bool
    """Whether its policies can walk in the page."""


@dataclass(frozen=True)
class PageMotion:
    """A reference motion of a robot; bytes are packed by :func:`pack`."""

    name: str
    """Shown to the user."""
    model: str
    """MJCF without references to files other than ``assets``."""
    assets: Dict[str, str]
    """Packed files of the model by name."""
    poses: str
    """Coordinates ``qpos`` of the model in each frame [frames, nq] in row-major order: float32, packed."""
    fps: float
    """Frames per second [Hz]."""
    loop: bool
    """Whether the last frame is the first one, moved over the floor and turned about the vertical."""
    standing_height: float
    """Height of the trunk of the standing robot [m]."""
    card: List[PageFact]


@dataclass(frozen=True)
class PageData:
    """What a page is given."""

    format: int
    robots: List[PageRobot]
    training: Optional[PageTraining]
    """None: a page that is a file of its own."""
    motion: Optional[PageMotion]
    """None: a page of policies. A page with a motion has no robots."""


@dataclass(frozen=True)
class TrainingNews:
    """What is new in a training that a page shows; metrics have their names in metrics.jsonl."""

    replaces: bool
    """Whether ``records`` are all there are; otherwise they follow those of the news before."""
    records: List[Dict[str, float]]
    """Metrics of iterations, the oldest first; in long trainings means of some iterations."""
    newest: Dict[str, float]
    """Metrics of the newest iteration."""
    evaluation: Dict[str, float]
    """Metrics of the newest iteration with an evaluation."""
    faults: Dict[str, float]
    """How often each kind of fault has occurred in the run."""
    damaged: int
    """Lines of metrics.jsonl that cannot be read."""
    seconds_left: Optional[float]
    checkpoint: int
    """Iteration of the newest checkpoint; -1 without one."""
    ending: str
    """How the training has ended; empty while it runs."""


@dataclass(frozen=True)
class PagePolicy:
    """The policy of a checkpoint."""

    checkpoint: int
    """Its iteration."""
    robot: Optional[PageRobot]
    problem: str
    """Why there is no robot; empty if there is one."""
    pause: float
    """Time until there can be a newer one [s]."""


def pack(content: bytes) -> str:
    """Return bytes compressed with gzip as base64; equal bytes give equal texts."""
    return base64.b64encode(gzip.compress(content, mtime=0)).decode()


def write_page(path: Path, robot: PageRobot, added: bool = False) -> int:
    """Write a page with a robot, or add it to the robots of an existing page; return the size of the file [bytes].

    A robot of the same name in the page is replaced.
    """
    others = [other for other in (read_robots(path) if added else []) if other.get("name") != robot.name]
    return _write(path, {**asdict(PageData(FORMAT, [], None, None)), "robots": [*others, asdict(robot)]})


def write_motion_page(path: Path, motion: PageMotion) -> int:
    """Write a page that plays a motion; return the size of the file [bytes]."""
    return _write(path, asdict(PageData(FORMAT, [], None, motion)))


def page_of_training(training: PageTraining) -> bytes:
    """Return the page of a training; it may connect to the server that it is from, and to nothing else."""
    before, _, after = _split(read_template())
    if before.count(_NO_CONNECTION) != 1:
        raise ValueError(f"{TEMPLATE.name} is of another version; build it again with: make page (needs Node.js)")
    before = before.replace(_NO_CONNECTION, _NO_CONNECTION + b"; connect-src 'self'")
    return before + _to_script(asdict(PageData(FORMAT, [], training, None))) + after


def read_robots(path: Path) -> List[Mapping[str, object]]:
    """Return the robots of a page; another file, or a page of a motion, is a ValueError."""
    content = read_file(path)
    try:
        data = json.loads(_split(content)[1])
        robots = data["robots"] if data["format"] == FORMAT and not data.get("motion") else None
    except (ValueError, KeyError, TypeError, RecursionError):
        robots = None
    if not isinstance(robots, list) or not all(isinstance(robot, dict) for robot in robots):
        raise ValueError(
            f"{path} is not a page of policies of this version of rsl_rl; write a new one without --page_add"
        )
    return robots


def read_template() -> bytes:
    """Return the page without robots; a checkout in which it is not built is a ValueError."""
    if not TEMPLATE.is_file():
        raise ValueError(f"this checkout has no {TEMPLATE.name} of the page; build it with: make page (needs Node.js)")
    return TEMPLATE.read_bytes()


def _write(path: Path, data: Mapping[str, object]) -> int:
    """Write a page with data; return the size of the file [bytes]."""
    before, _, after = _split(read_template())
    make_folder(path.parent)
    content = before + _to_script(data) + after
    atomic_write(path, content)
    return len(content)


def _split(page: bytes) -> Tuple[bytes, bytes, bytes]:
    """Return a page as what is before its data, the data, and what is after."""
    before, tag, rest = page.rpartition(_BEFORE)
    content, end, after = rest.partition(_AFTER)
    if not tag or not end:
        raise ValueError("the page has no place for its data")
    return before + tag, content, end + after


def _to_script(data: Mapping[str, object]) -> bytes:
    """Return data as JSON that cannot end the script element in which it is; a number that is not finite is a
    ValueError."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e").encode()
