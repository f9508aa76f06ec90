"""Show a training in the terminal."""

from __future__ import annotations

import time
from typing import Callable, List, Optional, Tuple

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rsl_rl.loggers.logger import Logger, Record

_FAULTS = ("excluded_steps", "skipped_steps")
"""Metrics that are shown if they are not zero."""

_SHOWN_APART = ("iteration", "env_steps", "collect_s", "learn_s", "steps_per_s", "mean_reward", "mean_episode_length")
"""Metrics of the runner, with separate lines; all others are of the algorithm."""


class ConsoleLogger(Logger):
    """A table that is updated in place; if the output is not a terminal, one line per iteration."""

    def __init__(self, title: str, console: Optional[Console] = None):
        self._title = title
        self._console = console or Console()
        self._live: Optional[Live] = None
        self._closed = False  # the output cannot be written: a closed pipe, a full disk

    def start(self, first_iteration: int, last_iteration: int) -> None:
        self._first, self._last, self._began = first_iteration, last_iteration, time.monotonic()
        if self._console.is_terminal:
            self._live = Live(console=self._console, refresh_per_second=4, transient=False)
            self._show(self._live.start)

    def write(self, record: Record) -> None:
        if self._live is not None:
            live, table = self._live, self._table(record)
            self._show(lambda: live.update(table))
        else:
            self.note(self._line(record))

    def note(self, text: str) -> None:
        self._show(lambda: self._console.print(self._text(text), highlight=False, soft_wrap=True))

    def close(self) -> None:
        if self._live is not None:
            self._show(self._live.stop)
            self._live = None

    def _text(self, text: str) -> Text:
        """Return a text without markup, in characters that the terminal has."""
        encoding = self._console.encoding
        return Text(text.encode(encoding, errors="replace").decode(encoding))

    def _show(self, work: Callable[[], None]) -> None:
        """Write to the console; after the first failure nothing is written."""
        if self._closed:
            return
        try:
            work()
        except (OSError, SystemExit):  # rich exits the process if a pipe is closed
            self._closed = True

    def _time_left(self, record: Record) -> float:
        done = (record["iteration"] or 0) - self._first
        return (time.monotonic() - self._began) / max(done, 1) * (self._last - self._first - done)

    def _line(self, record: Record) -> str:
        parts = [
            f"iteration {record['iteration']:.0f}/{self._last}",
            f"{record['env_steps']:,.0f} steps",
            f"{record['steps_per_s']:,.0f}/s",
            f"reward {_number(record['mean_reward'])}",
            f"length {_number(record['mean_episode_length'])}",
            *(f"{_words(name)} {_number(value)}" for name, value in _metrics(record).items()),
            *_faults(record),
            f"left {_clock(self._time_left(record))}",
        ]
        return " | ".join(parts)

    def _table(self, record: Record) -> Table:
        iteration = int(record["iteration"] or 0)
        title = self._text(f"{self._title}   iteration {iteration}/{self._last}")
        table = Table(title=title, show_header=False, min_width=64)
        table.add_column(justify="right", style="cyan")
        table.add_column(min_width=36)
        table.add_row("", ProgressBar(total=self._last - self._first, completed=iteration - self._first, width=36))
        for name, text in self._rows(record):
            table.add_row(self._text(name), self._text(text))
        return table

    def _rows(self, record: Record) -> List[Tuple[str, str]]:
        rows = [
            ("time left", _clock(self._time_left(record))),
            ("environment steps", f"{record['env_steps']:,.0f}"),
            (
                "steps/s",
                f"{record['steps_per_s']:,.0f}   collect {record['collect_s']:.2f} s, learn {record['learn_s']:.2f} s",
            ),
            ("mean reward", _number(record["mean_reward"])),
            ("mean episode length", _number(record["mean_episode_length"])),
        ]
        rows += [(_words(name), _number(value)) for name, value in _metrics(record).items()]
        rows += [(_words(name), f"{record[name]:.0f}") for name in _FAULTS if record.get(name)]
        episode = [(k[len("episode/") :], _number(v)) for k, v in record.items() if k.startswith("episode/")]
        return rows + episode


def _metrics(record: Record) -> Record:
    """Return the metrics of the algorithm."""
    return {k: v for k, v in record.items() if k not in (*_SHOWN_APART, *_FAULTS) and "/" not in k}


def _faults(record: Record) -> List[str]:
    return [f"{_words(name)} {record[name]:.0f}" for name in _FAULTS if record.get(name)]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _number(value: Optional[float]) -> str:
    return "-" if value is None else f"{value:.4g}"


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}"
