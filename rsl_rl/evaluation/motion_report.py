"""The part of the HTML report on reference motions."""

from __future__ import annotations

import math
from typing import Iterator, Sequence

from rsl_rl.evaluation.evaluate import EvalResult
from rsl_rl.evaluation.motion_tracking import BIN_TIME, LOOP_TIME, ClipResult, clip_rows
from rsl_rl.evaluation.report import text_table_html
from rsl_rl.utils.text import html_text

NOTE = (
    f"Each robot follows a clip once, from its first frame on, and a loop for {LOOP_TIME:g} s. An episode that a "
    "termination of the task ends before is a failure."
)


def tracking_html(results: Sequence[EvalResult]) -> Iterator[str]:
    """Yield the part of the report on the results of tasks with reference motions; nothing if there are none."""
    for one in results:
        clips = one.clips
        if not clips:
            continue
        yield f"<h2>Reference motions: {html_text(one.name)}</h2><p>{html_text(NOTE)}</p>"
        yield text_table_html(clip_rows(clips))
        for name in clips[0].errors:
            plots = "".join(_plot(clip, name) for clip in clips)
            yield f'<p class="note">{html_text(name)} over the time in each clip</p>{plots}'


def _plot(clip: ClipResult, name: str) -> str:
    """Return a plot, SVG, of a metric over the time in a clip."""
    values = [0.0 if math.isnan(value) else value for value in clip.by_time[name]]
    highest, step = max([*values, 1e-9]), 300 / max(1, len(values) - 1)
    points = " ".join(f"{i * step:.1f},{58 - 50 * value / highest:.1f}" for i, value in enumerate(values))
    label = html_text(f"{clip.name}: 0 to {BIN_TIME * len(values):.1f} s, at most {highest:.3f}")
    return (
        f'<svg width="320" height="76" viewBox="-10 0 320 76" role="img" aria-label="{html_text(name)} of {label}">'
        f'<polyline points="{points}" fill="none" stroke="#2a6fb0" stroke-width="1.5"/>'
        f'<text x="0" y="74" font-size="11" fill="#555">{label}</text></svg>'
    )
