"""Plots of a diagnosis; they need Matplotlib, which is in an extra."""

from __future__ import annotations

import io

from matplotlib.figure import Figure

from rsl_rl.evaluation.doctor.finding import Finding


def plot_finding(finding: Finding) -> bytes:
    """Draw what was logged, and what was expected if that is known."""
    figure = Figure(figsize=(11, 3), layout="constrained")
    axis = figure.subplots()
    traces = finding.traces
    axis.plot(traces["time"], traces["logged"], color="#d62728", linewidth=1, label="logged")
    if "expected" in traces:
        axis.plot(traces["time"], traces["expected"], color="#1f77b4", linewidth=1, label="expected")
    axis.set_title(str(traces["label"]).replace("$", r"\$"), fontsize=10)
    axis.set_xlabel(traces.get("axis", "time [s]"))
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=110)
    return buffer.getvalue()
