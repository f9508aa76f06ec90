"""What a terminal shows of names that are no plain words."""

import io

import pytest
from rich.console import Console

from rsl_rl.loggers import ConsoleLogger

RECORD = {
    "iteration": 1,
    "env_steps": 10,
    "collect_s": 1.0,
    "learn_s": 1.0,
    "steps_per_s": 5.0,
    "mean_reward": 1.0,
    "mean_episode_length": 1.0,
    "episode/term [m/s]": 2.0,
}


@pytest.mark.parametrize("encoding", ["utf-8", "ascii"])
@pytest.mark.parametrize("terminal", [True, False])
def test_console_of_names_with_brackets_and_foreign_letters_shows_them(terminal, encoding):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    logger = ConsoleLogger("größe [seed=3] x[/]", Console(file=stream, force_terminal=terminal, width=100))
    logger.start(0, 1)
    logger.write(RECORD)
    logger.note("größe [bold] x[/]")
    logger.close()
    shown = raw.getvalue().decode(encoding)
    word = "größe" if encoding == "utf-8" else "gr??e"
    assert f"{word} [bold] x[/]" in shown
    if terminal:
        assert f"{word} [seed=3] x[/]" in shown and "term [m/s]" in shown
