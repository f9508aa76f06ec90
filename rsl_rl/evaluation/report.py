"""An evaluation as one HTML file that needs nothing else: tables, and plots where matplotlib is installed."""

from __future__ import annotations

import base64
import math
from html import escape
from typing import Iterator, List, Sequence

from rsl_rl.evaluation.evaluate import RESAMPLES, Judgement, differences
from rsl_rl.evaluation.gait_metrics import AXES, GaitMeter

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; color: #222; max-width: 1080px; margin: 2em auto; padding: 0 1em; }
h1 { font-size: 1.6em; } h2 { font-size: 1.2em; margin-top: 2em; }
table { border-collapse: collapse; margin: 0.8em 0; }
th, td { padding: 0.25em 0.8em; border-bottom: 1px solid #ddd; text-align: right; vertical-align: top; }
th:first-child, td:first-child, .words th, .words td { text-align: left; }
td small { color: #777; display: block; }
code { overflow-wrap: anywhere; font-size: 0.85em; }
td.miss { background: #fbdcdc; white-space: nowrap; } td.pass { background: #dff3df; }
img { max-width: 100%; } p.note { color: #555; } summary { cursor: pointer; color: #555; }
"""

DIFFERENT = "The runs differ in {}; each is judged with the config that it was trained with."

_CAUSES = {
    "engine": "the physics engine gave up",
    "state": "an absurd state: not finite, or faster than a robot ever is",
    "tilt": "the trunk leans too far",
    "other": "a reward or an observation that is not finite or absurdly large",
}


def report_html(title: str, conditions: str, judgements: Sequence[Judgement]) -> str:
    """Return the page; the judgements stand side by side in the order given."""
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(conditions)} {_on_intervals(judgements)}</p>",
        "<h2>Gate</h2>",
        _gate(judgements),
        "<h2>Numbers</h2>",
        _numbers(judgements),
        "<h2>Falls by cause</h2>",
        _falls(judgements),
        "<details><summary>Tracking errors by command, as a table</summary>",
        _tracking(judgements),
        "</details>",
        *_plots(judgements),
    ]
    body = "\n".join(parts)
    head = f'<meta charset="utf-8"><title>{escape(title)}</title><style>{_STYLE}</style>'
    return f'<!DOCTYPE html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _on_intervals(judgements: Sequence[Judgement]) -> str:
    count = len(judgements[0].repetitions)
    if count < 2:
        return "One seed, hence no confidence intervals; --num_seeds 5 gives some."
    few = "; of so few seeds, a rough guide that is rather too narrow" if count < 10 else ""
    return f"In brackets: 95 % bootstrap intervals of the mean over {count} seeds, {RESAMPLES:,} resamples{few}."


def _table(rows: Sequence[Sequence[str]], kind: str = "figures") -> str:
    """Return a table; cells are HTML already, and those with a class begin with it: "miss|0.2"."""
    head, *body = rows
    lines = ["<tr>" + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(map(_cell, row)) + "</tr>" for row in body]
    return f'<table class="{kind}">\n' + "\n".join(lines) + "\n</table>"


def _cell(content: str) -> str:
    kind, bar, rest = content.partition("|")
    return f'<td class="{kind}">{rest}</td>' if bar else f"<td>{content}</td>"


def _names(judgements: Sequence[Judgement]) -> List[str]:
    return [escape(one.name) for one in judgements]


def _gate(judgements: Sequence[Judgement]) -> str:
    """Say who passed, what the limits are, and what each checkpoint is."""
    if not any(one.env_cfg.gate for one in judgements):
        return "<p>The task sets no limits (env.gate).</p>"
    rows = [["checkpoint", "gate", "environment steps of training", "file"]]
    for one in judgements:
        rows.append([escape(one.name), _verdict(one), f"{one.env_steps:,}", f"<code>{escape(one.checkpoint)}</code>"])
    limits = ", ".join(f"{escape(name)} &le; {limit:g}" for name, limit in judgements[0].env_cfg.gate.items())
    differing = differences(judgements)
    note = f'<p class="note">{DIFFERENT.format(", ".join(differing))}</p>' if differing else ""
    return f"<p>Every seed has to keep {limits}.</p>{note}" + _table(rows, "words")


def _verdict(judgement: Judgement) -> str:
    """Say by how much the worst seed misses each limit that is missed."""
    if not judgement.misses:
        return "pass|passed"
    lines = []
    for name, limit in judgement.env_cfg.gate.items():
        missed = [one.numbers[name] for one in judgement.repetitions if not one.numbers[name] <= limit]
        if missed:
            seeds = f" ({len(missed)} of {len(judgement.repetitions)} seeds)" if len(judgement.repetitions) > 1 else ""
            lines.append(f"{escape(name)} {max(missed):.4f} &gt; {limit:g}{seeds}")
    return "miss|missed: " + "<br>".join(lines)


def _numbers(judgements: Sequence[Judgement]) -> str:
    rows = [["", *_names(judgements)]]
    for name in judgements[0].numbers:
        meaning = f"{escape(name)}<small>{escape(GaitMeter.MEANINGS[name])}</small>"
        rows.append([meaning, *(_number(one, name) for one in judgements)])
    return _table(rows)


def _number(judgement: Judgement, name: str) -> str:
    value, limit = judgement.numbers[name], judgement.env_cfg.gate.get(name)
    interval = "<small>[{:.4f}, {:.4f}]</small>".format(*judgement.intervals[name]) if judgement.intervals else ""
    text = f"{value:.4f}{interval}"
    if limit is None:
        return text
    missed = any(not one.numbers[name] <= limit for one in judgement.repetitions)
    return f"{'miss' if missed else 'pass'}|{text}"


def _tracking(judgements: Sequence[Judgement]) -> str:
    """List the mean length of v_xy - command [m/s] and the mean error of the yaw rate [rad/s] of every bin."""
    rows = [["commanded", *(f"{name}<br>v error, yaw error" for name in _names(judgements))]]
    units = {"lin_vel_x": "m/s forward", "lin_vel_y": "m/s to the left", "yaw_rate": "rad/s turning"}
    tracking = [one.tracking for one in judgements]
    for axis in AXES:
        columns = [[b for b in bins if b.axis == axis] for bins in tracking]
        for i, first in enumerate(columns[0]):
            cells = [
                f"{bins[i].lin_vel_error:.3f}, {bins[i].yaw_rate_error:.3f}" if i < len(bins) else ""
                for bins in columns
            ]
            rows.append([f"{first.low:+.2f} to {first.high:+.2f} {units[axis]}", *cells])
    return _table(rows)


def _falls(judgements: Sequence[Judgement]) -> str:
    causes = dict.fromkeys(cause for one in judgements for cause in one.falls)
    rows = [["falls per robot", *_names(judgements)]]
    for cause in causes:
        link, is_contact, _ = cause.partition("_contact")
        meaning = f"the {link} touches the floor" if is_contact else _CAUSES[cause]
        rows.append([escape(meaning), *(f"{one.falls.get(cause, math.nan):.4f}" for one in judgements)])
    return _table(rows) + '<p class="note">A fall has one cause: the first of these that holds.</p>'


def _plots(judgements: Sequence[Judgement]) -> Iterator[str]:
    """Yield the plots, each under its title, or a note on what to install for them."""
    try:
        from rsl_rl.evaluation import report_plots as plots
    except ModuleNotFoundError as error:
        remedy = 'install the extra: pip install "rsl-rl-lib[sim]"'
        yield f'<p class="note">No plots: {escape(f"{error}; {remedy}")}</p>'
        return
    if len(judgements) > 1 or len(judgements[0].repetitions) > 1:
        yield _image("Side by side", plots.plot_comparison(judgements), "Dots: seeds. Dashed: the gate's limit.")
    yield _image("Commanded against measured velocity", plots.plot_velocities(judgements), "Means by command.")
    yield _image("Tracking error by command", plots.plot_tracking_errors(judgements), "")
    if any(one.numbers["fall_rate"] > 0 for one in judgements):
        yield _image("Falls", plots.plot_falls(judgements), "")
    for one in judgements:
        yield _image(f"One robot of {one.name}", plots.plot_walk(one), "The first robot of the first seed.")


def _image(title: str, png: bytes, note: str) -> str:
    data = base64.b64encode(png).decode()
    image = f'<img alt="{escape(title)}" src="data:image/png;base64,{data}">'
    return f'<h2>{escape(title)}</h2>\n<p class="note">{escape(note)}</p>\n{image}'
