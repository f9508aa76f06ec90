"""Show an identification: a table for a terminal, a file for trainings, and a page (HTML) with plots."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Mapping, Tuple

import numpy as np

from rsl_rl.config.identified import ROBOT, Identified
from rsl_rl.evaluation.report import figure_html, page_html, table_html
from rsl_rl.hardware.identification.identify import Estimate, Identification, Trace, told_alike
from rsl_rl.hardware.identification.parameters import KINDS
from rsl_rl.utils.text import html_text, listed

_HEADER = ["parameter", "value", "90 % interval", "model", "unit"]


def _row(one: Estimate) -> List[str]:
    interval = f"{one.low:.4g} to {one.high:.4g}"
    unit = KINDS[one.parameter.kind].unit
    return [one.parameter.label, f"{one.value:.4g}", interval, f"{one.parameter.nominal:.4g}", unit]


def lines(found: Identification) -> List[str]:
    """Return notes, what is determined, and what is not, as lines."""
    shown = [f"note: {note}" for note in found.notes]
    rows = [_HEADER, *(_row(one) for one in found.estimates if one.is_determined)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(_HEADER))]
    shown += ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    shown += [f"not determined: {what}: {why}; it takes {excite}" for what, why, excite in _undetermined(found)]
    shown += [f"not told apart: {first} and {second}" for first, second in _pairs(found)]
    shown += [f"in every log: {sentence}" for sentence in told_alike()]
    before, after = found.error_before, found.error_after
    return [*shown, f"joint positions, measured and simulated: {before:.4f} rad apart before, {after:.4f} rad after"]


def _undetermined(found: Identification) -> Iterator[Tuple[str, str, str]]:
    """Yield parameters that are not determined, joined where the reason is one, why, and what it takes."""
    for kind, (_, _, _, _, excite) in KINDS.items():
        by_reason: Dict[str, List[str]] = {}
        for one in found.of(kind):
            if not one.is_determined:
                by_reason.setdefault(one.why, []).append(one.parameter.name)
        for why, names in by_reason.items():
            whole = len(names) == len(found.of(kind)) or not names[0]
            yield (kind if whole else f"{kind} of {listed(names, 12)}"), why, excite


def _pairs(found: Identification) -> Iterator[Tuple[str, str]]:
    """Yield pairs of parameters that the logs hardly tell apart."""
    seen = set()
    for one in found.estimates:
        for other in one.alike:
            pair = tuple(sorted((one.parameter.label, other)))
            if pair not in seen:
                seen.add(pair)
                yield one.parameter.label, other


def identified_of(found: Identification, description: Mapping[str, Any]) -> Identified:
    """Return the content of identified.yaml; a group of joints is told joint by joint."""
    parameters: Dict[str, Dict[str, Tuple[float, float, float]]] = {}
    model: Dict[str, Dict[str, float]] = {}
    for one in found.estimates:
        kind, size = one.parameter.kind, KINDS[one.parameter.kind].size
        own = {"joints": found.joint_names, "xyz": "xyz", "": (ROBOT,)}[size]
        for place in one.parameter.places:
            if one.is_determined:
                parameters.setdefault(kind, {})[own[place]] = (one.value, one.low, one.high)
            if kind in ("armature", "joint_friction", "torque_limit", "viscous_friction"):
                model.setdefault(kind, {})[own[place]] = one.parameter.nominal
    return Identified(
        robot=str(description.get("robot", "")),
        joint_names=found.joint_names,
        logs=found.logs,
        parameters=parameters,
        model=model,
        undetermined={what: f"{why}; it takes {excite}" for what, why, excite in _undetermined(found)},
    )


def report_html(title: str, found: Identification) -> str:
    """Return the page of an identification."""
    logs = ", ".join(f"{name} ({support})" for name, support in zip(found.logs, found.supports))
    parts = [f"<h1>{html_text(title)}</h1>", f"<p>Logs: {html_text(logs)}.</p>"]
    parts += [f'<p class="note">{html_text(note)}</p>' for note in found.notes]
    before, after = found.error_before, found.error_after
    parts.append(
        f"<p>Joint positions, measured and simulated, are {before:.4f} rad apart with the model's numbers and "
        f"{after:.4f} rad with those found (root mean square).</p>"
    )
    rows = [_HEADER, *(list(map(html_text, _row(one))) for one in found.estimates if one.is_determined)]
    parts += ["<h2>Determined</h2>", table_html(rows)]
    rows = [["parameter", "why", "what it takes"], *(list(map(html_text, row)) for row in _undetermined(found))]
    parts += ["<h2>Not determined</h2>", table_html(rows, "words")]
    pairs = [["parameter", "hardly told apart from"], *(list(map(html_text, pair)) for pair in _pairs(found))]
    parts += ["<h2>Not told apart</h2>", table_html(pairs, "words")] if len(pairs) > 1 else []
    parts.append("<p>In every log: " + html_text("; ".join(told_alike())) + ".</p>")
    parts.append("<h2>Measured and simulated motion</h2>")
    try:
        parts += [_plot(trace, found.joint_names) for trace in found.traces]
    except ModuleNotFoundError as error:
        note = f'No plots: {error}; install the extra: pip install "rsl-rl-lib[identify]"'
        parts.append(f'<p class="note">{html_text(note)}</p>')
    return page_html(title, "\n".join(parts))


def _plot(trace: Trace, joint_names: Tuple[str, ...]) -> str:
    """Return the plot of a piece of a log."""
    from matplotlib.figure import Figure

    columns = 3
    rows = -(-len(joint_names) // columns)
    figure = Figure(figsize=(12, 1.9 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False, sharex=True)
    for axis in axes.flat[len(joint_names) :]:
        axis.set_visible(False)
    shown = trace.time <= trace.time[0] + 4.0
    for axis, name, *values in zip(axes.flat, joint_names, trace.measured.T, trace.before.T, trace.after.T):
        for value, label, color in zip(values, ("measured", "before", "after"), ("#222222", "#d62728", "#1f77b4")):
            style = {"linewidth": 1.6 if label == "measured" else 1.0, "linestyle": "-" if label != "after" else "--"}
            axis.plot(trace.time[shown], np.asarray(value)[shown], color=color, label=label, **style)
        axis.set_title(name.replace("$", r"\$"), fontsize=9)
        axis.grid(alpha=0.3)
    for axis in axes[-1]:
        axis.set_xlabel("time [s]")
    axes[0, 0].legend(fontsize=8)
    figure.supylabel("position [rad]", fontsize=9)
    title = f"{trace.name}: measured joints, and simulated ones before and after"
    return f"<p>{html_text(title)}</p>{figure_html(title, figure)}"
