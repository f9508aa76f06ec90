"""Endurance under a joystick as tables, and as a part of the HTML report with clips of the first failures."""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Iterator, List, Sequence

import numpy as np

from rsl_rl.evaluation.endurance import SIZES, Failure
from rsl_rl.evaluation.evaluate import EvalResult
from rsl_rl.evaluation.report import data_address, text_table_html
from rsl_rl.robots import ROBOTS
from rsl_rl.utils.text import html_text
from rsl_rl.viz.video import VideoClip, VideoError, write_video

CLIPS = 3
"""Failures of which the report has a clip."""

CLIP_SIZE = (640, 368)
"""Width and height of a clip [pixels]."""

NOTE = (
    "A failure is a fall, a freeze or a command that is not followed. Freeze: slower than 0.1 m/s in four fifths of "
    "the time from 1.25 s after a command of more than 0.3 m/s on. Not followed: errors above 0.3 m/s or 0.4 rad/s for "
    "3 s. Robots that fail are restarted. Intervals are exact for a constant rate of failures."
)


def failure_rows(result: EvalResult) -> List[List[str]]:
    """Return the table of the failures of a result with a joystick evaluation: a head and rows of text."""
    tests = list(result.joystick.values())
    rows = [
        ["", *result.joystick],
        ["robot-hours", *(f"{test.robot_hours:.2f}" for test in tests)],
        ["hours between failures", *(f"{test.hours_between_failures:.2f}" for test in tests)],
        ["95 % interval [h]", *("{:.2f} to {:.2f}".format(*test.interval) for test in tests)],
        ["error of velocity [m/s]", *(f"{test.lin_vel_error:.3f}" for test in tests)],
        ["error of yaw rate [rad/s]", *(f"{test.yaw_rate_error:.3f}" for test in tests)],
    ]
    for kind, commands in tests[0].failures.items():
        for command in commands:
            counts = [test.failures[kind][command] for test in tests]
            if any(counts):
                rows.append([f"{kind} after a command of the kind {command}", *map(str, counts)])
    return rows


def small_command_rows(result: EvalResult) -> List[List[str]]:
    """Return the table of dead zones, the largest of all seeds: a head and one row."""
    small = [one.joystick.small for one in result.seed_results if one.joystick is not None]
    worst = [max(one.dead_zone[direction] for one in small) for direction in small[0].dead_zone]
    return [
        list(small[0].dead_zone),
        [f"{size:.3g}" if size < math.inf else f"more than {max(SIZES):g}" for size in worst],
    ]


def endurance_html(results: Sequence[EvalResult]) -> Iterator[str]:
    """Yield the part of the report on the results that have a joystick evaluation; nothing if there are none."""
    tested = [one for one in results if one.joystick]
    if not tested:
        return
    yield "<h2>Endurance under a joystick</h2>"
    yield f'<p class="note">{html_text(NOTE)}</p>'
    for one in tested:
        if len(results) > 1:
            yield f"<h3>{html_text(one.name)}</h3>"
        yield text_table_html(failure_rows(one))
        yield "<p>Smallest command that is followed [m/s, rad/s]:</p>"
        yield text_table_html(small_command_rows(one))
        failures = next(iter(one.joystick.values())).recorded
        yield from _clips(failures[:CLIPS], one)


def _clips(failures: Sequence[Failure], result: EvalResult) -> Iterator[str]:
    """Yield the clips of failures, or why there are none."""
    for failure in failures:
        title = f"{failure.kind} after a command of the kind {failure.command}, at {failure.seconds:.1f} s"
        try:
            address = data_address("video/mp4", _film(failure, result))
        except VideoError as error:
            yield f'<p class="note">No clips of failures: {html_text(str(error))}</p>'
            return
        video = f'<video controls muted loop width="{CLIP_SIZE[0]}" src="{address}"></video>'
        yield f"<figure>{video}<figcaption>{html_text(title)}</figcaption></figure>"


def _film(failure: Failure, result: EvalResult) -> bytes:
    """Return the clip of a failure, an MP4 file."""
    control_dt = result.env_cfg.sim.control_dt
    stride = max(1, round(1 / (25.0 * control_dt)))
    captions = [
        "{:.1f} s before    commanded {:+.2f} {:+.2f} m/s, {:+.2f} rad/s    measured {:+.2f} {:+.2f}, {:+.2f}".format(
            (len(failure.pose) - i) * control_dt, *failure.requested[i].tolist(), *failure.measured[i].tolist()
        )
        for i in range(0, len(failure.pose), stride)
    ]
    poses = np.asarray(failure.pose[::stride, None].double())
    model_path = ROBOTS.load(result.env_cfg.robot).model_path
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "failure.mp4"
        write_video(path, VideoClip(model_path, poses, captions, 1 / (stride * control_dt)), size=CLIP_SIZE)
        return path.read_bytes()
