"""Write an evaluation as one self-contained HTML file: tables, and plots if matplotlib is installed."""

from __future__ import annotations

import base64
import io
import math
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Iterable, Iterator, List, Sequence

import numpy as np

from rsl_rl.evaluation.conditions import JOYSTICK_METRICS, TRACKING_METRICS
from rsl_rl.evaluation.curriculum import LEVEL_METRICS
from rsl_rl.evaluation.evaluate import RESAMPLES, STANDING_METRICS, EvalResult, differences, metric_names
from rsl_rl.evaluation.gait_metrics import AXES, GaitMetrics
from rsl_rl.robots import ROBOTS
from rsl_rl.terrain import build_terrain
from rsl_rl.utils.text import html_text
from rsl_rl.viz.video import Picture, VideoError, write_pictures

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #222; max-width: 1080px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; } h2 { font-size: 1.2em; margin-top: 2em; }
table { border-collapse: collapse; margin: 0.8em 0; }
th, td { padding: 0.25em 0.8em; border-bottom: 1px solid #ddd; text-align: right; vertical-align: top; }
th:first-child, td:first-child, .words th, .words td { text-align: left; }
td small { color: #777; display: block; }
code { overflow-wrap: anywhere; font-size: 0.85em; }
td.miss { background: #fbdcdc; white-space: nowrap; } td.pass { background: #dff3df; }
td.warn, p.warn { background: #fdf0cf; } p.warn { padding: 0.5em 0.8em; }
img { max-width: 100%; } p.note { color: #555; } summary { cursor: pointer; color: #555; }
"""

DIFFERENT = "The runs differ in {}; each is evaluated with the config that it was trained with."

_FRAMES, _FRAME_COLUMNS = 6, 3  # of the film

_DESCRIPTIONS = {
    **GaitMetrics.DESCRIPTIONS,
    **STANDING_METRICS,
    **LEVEL_METRICS,
    **JOYSTICK_METRICS,
    **TRACKING_METRICS,
}

_CAUSES = {
    "engine": "the physics diverged, or its contact buffer overflowed",
    "state": "a state that is not finite, or too fast",
    "tilt": "the tilt of the trunk is too large",
    "other": "a reward or an observation that is not finite",
}


def report_html(title: str, conditions: str, eval_results: Sequence[EvalResult], more: Iterable[str] = ()) -> str:
    """Return the page; tables have one column for each result, in the given order. ``more`` is HTML that goes before
    the falls by cause. Plots are drawn in another thread, while this one renders robots."""
    with ThreadPoolExecutor(1, "plots") as executor:
        plots = executor.submit(lambda: list(_plots(eval_results)))
        frames, added = list(map(_frames, eval_results)), list(more)
    parts = [
        f"<h1>{html_text(title)}</h1>",
        "<h2>Gate</h2>",
        _gate(eval_results),
        *(
            f'<p class="warn">Warning: {html_text(f"{one.name}: {text}")}</p>'
            for one in eval_results
            for text in one.warnings
        ),
        *frames,
        "<h2>Numbers</h2>",
        f"<p>{html_text(conditions)} {_on_intervals(eval_results)}</p>",
        _numbers(eval_results),
        *added,
        "<h2>Falls by cause</h2>",
        _falls(eval_results),
        *_tracking(eval_results),
        *plots.result(),
    ]
    return page_html(title, "\n".join(parts))


def page_html(title: str, body: str) -> str:
    """Return a page with the style of the reports."""
    head = f'<meta charset="utf-8"><title>{html_text(title)}</title><style>{_STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _on_intervals(eval_results: Sequence[EvalResult]) -> str:
    count = len(eval_results[0].seed_results)
    if count < 2:
        return "One seed, so there are no confidence intervals; use --num_seeds 5."
    few = "; with so few seeds they are too narrow" if count < 10 else ""
    return f"In brackets: 95 % bootstrap intervals of the mean over {count} seeds, {RESAMPLES:,} resamples{few}."


def table_html(rows: Sequence[Sequence[str]], kind: str = "figures") -> str:
    """Return a table. Cells are HTML; a cell with a CSS class starts with it, such as "miss|0.2"."""
    head, *body = rows
    lines = ["<tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(map(_cell, row)) + "</tr>" for row in body]
    return f'<table class="{kind}">\n' + "\n".join(lines) + "\n</table>"


def text_table_html(rows: Sequence[Sequence[str]]) -> str:
    """Return a table of cells that are texts."""
    return table_html([[html_text(cell) for cell in row] for row in rows])


def _cell(content: str) -> str:
    kind, bar, rest = content.partition("|")
    return f'<td class="{kind}">{rest}</td>' if bar else f"<td>{content}</td>"


def _names(eval_results: Sequence[EvalResult]) -> List[str]:
    return [html_text(one.name) for one in eval_results]


def _gate(eval_results: Sequence[EvalResult]) -> str:
    """Return the success criteria, and for each checkpoint its file and whether it meets them."""
    if not any(one.env_cfg.gate for one in eval_results):
        return "<p>The task sets no limits (env.gate).</p>"
    rows = [["checkpoint", "gate", "environment steps of training", "file"]]
    for one in eval_results:
        rows.append(
            [html_text(one.name), _gate_cell(one), f"{one.env_steps:,}", f"<code>{html_text(one.checkpoint)}</code>"]
        )
    limits = ", ".join(f"{html_text(name)} &le; {limit:g}" for name, limit in eval_results[0].env_cfg.gate.items())
    differing = differences(eval_results)
    note = f'<p class="note">{html_text(DIFFERENT.format(", ".join(differing)))}</p>' if differing else ""
    return f"<p>Limits, for every seed: {limits}.</p>{note}" + table_html(rows, "words")


def _gate_cell(eval_result: EvalResult) -> str:
    """Return "passed", or the worst seed's value of each metric that exceeds its limit."""
    if not eval_result.unmet:
        unknown = html_text(", ".join(eval_result.not_measured))
        return f"pass|passed<small>not measured: {unknown} (--joystick)</small>" if unknown else "pass|passed"
    lines = []
    for name, limit in eval_result.env_cfg.gate.items():
        measured = [one.metrics[name] for one in eval_result.seed_results if name in one.metrics]
        missed = [value for value in measured if not value <= limit]
        if missed:
            seeds = (
                f" ({len(missed)} of {len(eval_result.seed_results)} seeds)"
                if len(eval_result.seed_results) > 1
                else ""
            )
            lines.append(f"{html_text(name)} {max(missed):.4f} &gt; {limit:g}{seeds}")
    return "miss|missed: " + "<br>".join(lines)


def _numbers(eval_results: Sequence[EvalResult]) -> str:
    rows = [["", *_names(eval_results)]]
    for name in metric_names(eval_results):
        description = _DESCRIPTIONS.get(name, "metric of the task")
        meaning = f"{html_text(name)}<small>{html_text(description)}</small>"
        rows.append([meaning, *(_number(one, name) for one in eval_results)])
    return table_html(rows)


def _number(eval_result: EvalResult, name: str) -> str:
    if name not in eval_result.metrics:
        return "-"
    value, limit = eval_result.metrics[name], eval_result.env_cfg.gate.get(name)
    interval = "<small>[{:.4f}, {:.4f}]</small>".format(*eval_result.intervals[name]) if eval_result.intervals else ""
    text = f"{value:.4f}{interval}"
    if limit is None:
        return f"warn|{text}" if name == "torque_saturation" and eval_result.warnings else text
    missed = any(not one.metrics[name] <= limit for one in eval_result.seed_results)
    return f"{'miss' if missed else 'pass'}|{text}"


def _tracking(eval_results: Sequence[EvalResult]) -> Iterator[str]:
    """Yield the mean length of v_xy - command [m/s] and the mean error of the yaw rate [rad/s] of every bin."""
    if not eval_results[0].tracking:
        return
    rows = [["commanded", *(f"{name}<br>v error, yaw error" for name in _names(eval_results))]]
    units = {"lin_vel_x": "m/s forward", "lin_vel_y": "m/s to the left", "yaw_rate": "rad/s turning"}
    tracking = [one.tracking for one in eval_results]
    for axis in AXES:
        columns = [[b for b in bins if b.axis == axis] for bins in tracking]
        for i, first in enumerate(columns[0]):
            cells = [
                f"{bins[i].lin_vel_error:.3f}, {bins[i].yaw_rate_error:.3f}" if i < len(bins) else ""
                for bins in columns
            ]
            rows.append([f"{first.low:+.2f} to {first.high:+.2f} {units[axis]}", *cells])
    yield "<details><summary>Tracking errors by command, as a table</summary>"
    yield table_html(rows)
    yield "</details>"


def _falls(eval_results: Sequence[EvalResult]) -> str:
    causes = dict.fromkeys(cause for one in eval_results for cause in one.falls)
    rows = [["falls per robot", *_names(eval_results)]]
    for cause in causes:
        is_contact = cause.endswith("_contact")
        meaning = f"the {cause[: -len('_contact')]} touches the floor" if is_contact else _CAUSES.get(cause, cause)
        rows.append([html_text(meaning), *(f"{one.falls.get(cause, math.nan):.4f}" for one in eval_results)])
    return table_html(rows) + '<p class="note">A fall is counted under the first matching cause.</p>'


def _plots(eval_results: Sequence[EvalResult]) -> Iterator[str]:
    """Yield the plots, or a note that says what to install for them."""
    try:
        from rsl_rl.evaluation import plots
    except ModuleNotFoundError as error:
        remedy = 'install the extra: pip install "rsl-rl-lib[sim]"'
        yield f'<p class="note">No plots: {html_text(f"{error}; {remedy}")}</p>'
        return
    if len(eval_results) > 1 or len(eval_results[0].seed_results) > 1:
        yield _image("Side by side", plots.plot_comparison(eval_results), "Dots: seeds. Dashed: the gate's limit.")
    moving = [one for one in eval_results if one.tracking]
    if moving:
        yield _image("Commanded against measured velocity", plots.plot_velocities(moving), "Means by command.")
        yield _image("Tracking error by command", plots.plot_tracking_errors(moving), "")
    if any(one.metrics["fall_rate"] > 0 for one in eval_results):
        yield _image("Falls", plots.plot_falls(eval_results), "")
    for one in eval_results:
        yield _image(f"One robot of {one.name}", plots.plot_walk(one), "The first robot of the first seed.")


def _frames(eval_result: EvalResult) -> str:
    """Return frames of the first robot of the first seed, or a note on why there are none."""
    recording, dt = eval_result.seed_results[0].recording, eval_result.env_cfg.sim.control_dt
    steps = np.linspace(0, len(recording["pose"]) - 1, _FRAMES).astype(int)
    captions = [
        "{:.1f} s: vx {:+.2f}, commanded {:+.2f} m/s".format(
            step * dt, float(recording["velocity"][step, 0, 0]), float(recording["command"][step, 0, 0])
        )
        for step in steps
    ]
    poses = recording["pose"][steps, 0].double().numpy()
    ghosts = recording["reference"][steps, 0].double().numpy() if "reference" in recording else [None] * len(poses)
    pictures = [Picture(pose, caption, ghost=ghost) for pose, caption, ghost in zip(poses, captions, ghosts)]
    terrain = build_terrain(eval_result.env_cfg.terrain)
    model_path = ROBOTS.load(eval_result.env_cfg.robot).model_path
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "frames.png"
        try:
            write_pictures(path, model_path, pictures, _FRAME_COLUMNS, None if terrain is None else terrain.ground)
        except VideoError as error:
            return f'<p class="note">No frames of {html_text(eval_result.name)}: {html_text(str(error))}</p>'
        note = "The first robot of the first seed, through the whole evaluation."
        return _image(f"Film of {eval_result.name}", path.read_bytes(), note)


def data_address(kind: str, content: bytes) -> str:
    """Return an address of HTML that holds the content of a file, such as of the kind image/png."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def image_html(description: str, png: bytes) -> str:
    """Return a picture."""
    return f'<img src="{data_address("image/png", png)}" alt="{html_text(description)}">'


def figure_html(description: str, figure: Any, dpi: int = 90) -> str:
    """Return a figure of Matplotlib as a picture."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=dpi)
    return image_html(description, buffer.getvalue())


def _image(title: str, png: bytes, note: str) -> str:
    image = image_html(title, png)
    return f'<h2>{html_text(title)}</h2>\n<p class="note">{html_text(note)}</p>\n{image}'
