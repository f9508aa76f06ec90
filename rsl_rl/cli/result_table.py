"""Tables of several trainings: on the console, as CSV and as Markdown."""

from __future__ import annotations

import csv
import io
import statistics
from pathlib import Path
from typing import Any, List, NamedTuple, Optional, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rsl_rl.utils.files import atomic_write


class Summary(NamedTuple):
    """Mean over seeds with its 95 % bootstrap interval, which needs two values."""

    mean: Optional[float]
    low: Optional[float] = None
    high: Optional[float] = None


def summarize(values: Sequence[float]) -> Summary:
    """Return the mean of values and its interval, see :func:`rsl_rl.evaluation.evaluate.bootstrap_interval`."""
    from rsl_rl.evaluation.evaluate import bootstrap_interval

    if not values:
        return Summary(None)
    return Summary(statistics.fmean(values), *(bootstrap_interval(values) if len(values) > 1 else ()))


class ResultTable(NamedTuple):
    """Rows of cells; None is an empty cell."""

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]

    def print(self, title: str) -> None:
        """Show the table on the console, with four digits of each number."""
        table = Table(title=Text(title))
        for i, column in enumerate(self.columns):
            table.add_column(Text(column), justify="right" if i else "left", overflow="fold")
        for row in self._texts():
            table.add_row(*map(Text, row))
        Console().print(table)

    def write(self, path: Path) -> None:
        """Write ``path`` with the ending .csv, with all digits, and with the ending .md."""
        buffer = io.StringIO()
        csv.writer(buffer, lineterminator="\n").writerows([self.columns, *self.rows])
        atomic_write(path.with_suffix(".csv"), buffer.getvalue().encode())
        lines = [list(self.columns), ["---"] * len(self.columns), *self._texts()]
        escaped = ("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        atomic_write(path.with_suffix(".md"), ("\n".join(escaped) + "\n").encode())

    def _texts(self) -> List[List[str]]:
        return [[_text(cell) for cell in row] for row in self.rows]


def _text(cell: Any) -> str:
    return "" if cell is None else f"{cell:.4g}" if isinstance(cell, float) else str(cell)
