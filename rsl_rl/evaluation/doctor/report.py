"""Show a diagnosis: lines for a terminal, and an HTML page with plots if Matplotlib is installed."""

from __future__ import annotations

from html import escape
from typing import Iterator, List

from rsl_rl.evaluation.doctor.diagnosis import Diagnosis
from rsl_rl.evaluation.doctor.finding import Finding
from rsl_rl.evaluation.report import image_html, page_html, table_html


def lines(diagnosis: Diagnosis) -> List[str]:
    """Return notes, findings and the first boundary as lines."""
    shown = [f"note: {note}" for note in diagnosis.notes]
    for finding in diagnosis.findings:
        shown.append(f"{finding.boundary}: {finding.sentence} (confidence {finding.confidence:.2f})")
        shown.append(f"    {finding.evidence}")
        if finding.others:
            shown.append(f"    the log hardly tells it apart from: {finding.others}")
    if diagnosis.findings:
        return [*shown, f"the first boundary that differs: {diagnosis.boundary}"]
    return [*shown, _nothing(diagnosis)]


def _nothing(diagnosis: Diagnosis) -> str:
    """Return the verdict on a log without findings."""
    is_whole = not any("not judged" in note for note in diagnosis.notes)
    return "nothing wrong is found" + (" in what is judged" if not is_whole else "")


def report_html(title: str, diagnosis: Diagnosis) -> str:
    """Return the page of a diagnosis."""
    parts = [f"<h1>{escape(title)}</h1>"]
    parts += [f'<p class="note">{escape(note)}</p>' for note in diagnosis.notes]
    if not diagnosis.findings:
        return page_html(title, "\n".join([*parts, f"<p>{_nothing(diagnosis).capitalize()}.</p>"]))
    rows = [["boundary", "what is wrong", "confidence"]]
    rows += [
        [one.boundary, escape(one.sentence).replace("|", "&#124;"), f"{one.confidence:.2f}"]
        for one in diagnosis.findings
    ]
    parts += [f"<p>The first boundary that differs: {diagnosis.boundary}.</p>", table_html(rows, "words")]
    for finding in diagnosis.findings:
        parts += [f"<h2>{escape(finding.sentence)}</h2>", f"<p>{escape(finding.evidence)}.</p>"]
        if finding.others:
            parts.append(f"<p>The log hardly tells it apart from: {escape(finding.others)}.</p>")
        parts += _plot(finding)
    return page_html(title, "\n".join(parts))


def _plot(finding: Finding) -> Iterator[str]:
    """Yield the plot of a finding, or a note that says what to install for it."""
    if not finding.traces:
        return
    try:
        from rsl_rl.evaluation.doctor.plots import plot_finding
    except ModuleNotFoundError as error:
        yield f'<p class="note">No plots: {escape(str(error))}; install the extra: pip install "rsl-rl-lib[sim]"</p>'
        return
    yield image_html(finding.sentence, plot_finding(finding))
