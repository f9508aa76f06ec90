"""Tables on the console."""

from typing import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text


def print_table(title: str, rows: Sequence[Sequence[str]]) -> None:
    """Print a title, if it is not empty, and rows of texts, the first of which is the head, as a table.

    Nothing in them is markup. The title is one line. A table that is wider than the terminal has no lines between its
    columns.
    """
    console = Console()
    if title:
        print(title)  # not broken into several lines, so that a path in it can be copied
    table = _table(rows)
    if _width(console, table) > console.width:
        _narrow(table)
    console.print(table)


def fits_terminal(rows: Sequence[Sequence[str]]) -> bool:
    """Return whether :func:`print_table` prints these rows without breaking a line."""
    console = Console()
    table = _table(rows)
    _narrow(table)
    return _width(console, table) <= console.width


def _table(rows: Sequence[Sequence[str]]) -> Table:
    table = Table()
    for i, head in enumerate(rows[0]):
        table.add_column(Text(head), justify="right" if i else "left", overflow="fold", no_wrap=not i)
    for row in rows[1:]:
        table.add_row(*map(Text, row))
    return table


def _narrow(table: Table) -> None:
    """Remove the lines between columns and the space beside them."""
    table.box, table.padding, table.pad_edge = box.SIMPLE, (0, 0), False


def _width(console: Console, table: Table) -> int:
    """Return the width of a table without broken lines, in characters."""
    return console.measure(table, options=console.options.update(max_width=10_000)).maximum
