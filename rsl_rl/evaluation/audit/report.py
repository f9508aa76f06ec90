"""Show an audit: tables, and an HTML page with plots if Matplotlib is installed."""

from __future__ import annotations

import math
from typing import Iterator, List, Sequence

from rsl_rl.evaluation.audit.findings import Audit, unit
from rsl_rl.evaluation.audit.incomes import POLICY, SHAMS, WALK, CommandRow
from rsl_rl.evaluation.report import image_html, page_html, table_html, text_table_html
from rsl_rl.utils.text import html_text

_REFERENCE = 0.2
"""Size of the command whose income is shown by term [m/s, rad/s]."""

Cells = List[List[str]]


def reference_row(result: Audit, direction: str = "") -> CommandRow:
    """Return the row whose size is next to the reference, of the first direction or of a given one."""
    rows = [row for row in result.rows if row.direction == (direction or result.rows[0].direction)]
    return min(rows, key=lambda row: abs(row.size - _REFERENCE))


def tables(result: Audit, direction: str = "") -> List[Cells]:
    """Return the income by command and motion, and the income by term and motion under one command."""
    row = reference_row(result, direction)
    names = _motions(result.rows)
    whole = [["", *names]]
    for one in result.rows:
        if direction in ("", one.direction):
            cells = [f"{one.earned[name].total:.2f}" if name in one.earned else "-" for name in names]
            whole.append([f"{one.direction} {one.size:g}", *cells])
    shown = [name for name in names if name in row.earned]
    by_term = [["", *shown]]
    for term in row.earned[shown[0]].terms:
        by_term.append([term, *(f"{row.earned[name].terms[term]:.2f}" for name in shown)])
    by_term.append(["total", *(f"{row.earned[name].total:.2f}" for name in shown)])
    return [whole, by_term]


def _motions(rows: Sequence[CommandRow]) -> List[str]:
    return [name for name in (POLICY, WALK, *SHAMS) if any(name in row.earned for row in rows)]


def report_html(task: str, result: Audit) -> str:
    """Return the page of an audit."""
    title = f"{task}: audit of the rewards"
    found = [f"<li>{html_text(finding.sentence)}</li>" for finding in result.findings]
    zones = [["", "predicted dead zone", "of the policy"]]
    for name, size in result.predicted.items():
        measured = result.measured.get(name)
        zones.append([f"{name} [{unit(name)}]", _size(size), "-" if measured is None else _size(measured)])
    parts = [
        f"<h1>{html_text(title)}</h1>",
        "<p>What a robot earns per second that walks as commanded, and one that does something else.</p>",
        "<h2>Complaints</h2>",
        f"<ul>{''.join(found)}</ul>" if found else "<p>None.</p>",
        "<h2>Dead zones</h2>",
        "<p>A policy is predicted to ignore commands up to this size.</p>",
        table_html(zones),
    ]
    for direction in dict.fromkeys(row.direction for row in result.rows):
        by_command, by_term = tables(result, direction)
        row = reference_row(result, direction)
        parts += [f"<h2>Commands {direction}</h2>", *_plots(result, direction)]
        parts += ["<p>Income per second.</p>", text_table_html(by_command)]
        parts += [f"<p>By term at {row.size:g} {unit(direction)}.</p>", text_table_html(by_term)]
    return page_html(title, "\n".join(parts))


def _size(size: float) -> str:
    return "every command" if math.isinf(size) else f"{size:.2f}"


def _plots(result: Audit, direction: str) -> Iterator[str]:
    """Yield the plot of a direction, or a note that says what to install for it."""
    try:
        from rsl_rl.evaluation.audit.plots import plot_incomes
    except ModuleNotFoundError as error:
        yield f'<p class="note">No plots: {html_text(str(error))}; install the extra: pip install "rsl-rl-lib[sim]"</p>'
        return
    own = [row for row in result.rows if row.direction == direction]
    plot = plot_incomes(own, _motions(own), reference_row(result, direction))
    yield image_html(f"Income of commands {direction}", plot)
