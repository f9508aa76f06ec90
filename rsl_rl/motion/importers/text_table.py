"""Read tables of numbers from text files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import List, NamedTuple

import numpy as np

from rsl_rl.motion.clip import LARGEST
from rsl_rl.utils.files import read_file


class Table(NamedTuple):
    """A text file with a number in each cell."""

    header: List[str]  # empty without one
    values: np.ndarray  # [rows, columns]


def read_table(path: Path) -> Table:
    """Return a table with commas, semicolons, tabs or spaces between cells; anything else is a ValueError."""
    try:
        text = read_file(path, LARGEST).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a text file ({error.reason} at byte {error.start})") from error
    if not text.strip():
        raise ValueError(f"{path} is empty")
    first = text.partition("\n")[0]
    separator = next((mark for mark in (",", ";", "\t") if mark in first), None)
    cells = [cell.strip().strip('"') for cell in first.strip().split(separator)]
    header = cells if any(not _is_number(cell) for cell in cells) else []
    if header and not text.partition("\n")[2].strip():
        raise ValueError(f"{path} has only one row, which is not of numbers")
    try:
        values = np.loadtxt(io.StringIO(text), delimiter=separator, skiprows=int(bool(header)), ndmin=2, comments=None)
    except ValueError as error:
        raise ValueError(f"{path} is not a table of numbers ({error})") from error
    if not values.size or (header and len(header) != values.shape[1]):
        raise ValueError(
            f"{path} has {len(header)} names and {values.shape[1] if values.size else 0} columns of numbers"
        )
    return Table(header, values)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
