"""Errors of a user: one line and exit code 2."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
from pathlib import Path
from typing import Iterator, NoReturn, Optional

from rsl_rl.cli.experiments import FOLDERS
from rsl_rl.utils.host import current_launch
from rsl_rl.utils.text import one_line, printable

MAX_LENGTH = 2000
"""Characters of a message that are printed."""


def program() -> str:
    """Return the name of the program for messages, such as "rsl-rl train" or "train.py"."""
    return Path(sys.argv[0]).name


class Ended(SystemExit):
    """The end of the program by its own decision, such as after --help or a signal; a SystemExit of any other kind is
    one of a task, or of code that it calls."""


class UsageError(Ended):
    """Wrong usage, which ends the program with exit code 2; :func:`rsl_rl.cli.main.main` prints the message."""

    def __init__(self, message: str):
        super().__init__(2)
        self.message = one_line(message)


def is_first_on_machine() -> bool:
    """Return whether this process is the first that torchrun has started on this machine, or the only one."""
    try:
        return current_launch().local_rank == 0
    except ValueError:  # of torchrun's variables
        return True


def print_error(message: str) -> None:
    """Print the line about wrong usage."""
    print(f"{program()}: error: {short_line(message)}", file=sys.stderr)


def explain_exit(stop: SystemExit) -> str:
    """Return a message for a SystemExit that this program has not raised itself."""
    return f"the task, or code that it calls, has ended the process (sys.exit({stop.code!r}))"


def short_line(message: str) -> str:
    """Return a message as one line of printable characters; the middle of a long one, such as of a name, is left
    out."""
    text = one_line(message)
    return text if len(text) <= MAX_LENGTH else f"{text[: MAX_LENGTH // 2]} ... {text[-MAX_LENGTH // 2 :]}"


def fail(message: str) -> NoReturn:
    """End the program with a line and the exit code of wrong usage."""
    raise UsageError(message)


class FlagParser(argparse.ArgumentParser):
    """A parser that reports an error in one line."""

    def error(self, message: str) -> NoReturn:
        fail(message)

    def exit(self, status: int = 0, message: Optional[str] = None) -> NoReturn:
        if message:
            print(message, end="", file=sys.stderr)
        raise Ended(status)


def print_line(text: str) -> None:
    """Print a text as one line; a closed pipe or a full disk is not an error."""
    try:
        print(printable(text), flush=True)
    except OSError:
        discard_output()


def discard_output() -> None:
    """Send what is printed from now on nowhere; a closed pipe makes Python fail again at exit otherwise."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def usage_errors() -> Iterator[None]:
    """Turn errors of a user, raised during the setup, into one line and exit code 2."""
    try:
        yield
    except BrokenPipeError:  # of --help
        raise
    except (ValueError, OSError) as error:
        fail(str(error))
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate" not in str(error):
            raise
        fail(f"this machine has too little memory; use fewer environments or smaller networks ({error})")
    except ModuleNotFoundError as error:
        remedy = "install it with pip, or with an extra of rsl-rl-lib (see README.md)"
        for package, folder in FOLDERS.items():
            if (error.name or "").partition(".")[0] == folder:
                remedy = f"write '{package}' in place of '{folder}'"
        fail(str(error) if "install" in str(error) else f"{error}; {remedy}")


@contextlib.contextmanager
def one_line_errors() -> Iterator[None]:
    """Turn tyro's error messages, which are printed in a box, into a ValueError of one line."""
    messages = io.StringIO()
    try:
        with contextlib.redirect_stderr(messages):
            yield
    except SystemExit as stop:
        if stop.code:
            raise ValueError(_as_one_line(messages.getvalue())) from None
        raise Ended(0) from None


def _as_one_line(box: str) -> str:
    """Return the text of a message in a box of lines or minus signs, without its title."""
    lines = [line.strip("│ ") for line in box.splitlines()[1:] if not set(line) <= set("│╰╯─- ")]
    words = re.sub(r"\s+", " ", " ".join(line for line in lines if not line.startswith("For full helptext")))
    words = re.sub(r" Argument helptext: --\S+ (\S+).*", r"; give \1", words)
    found = re.match(r"Error parsing cfg\.?([\w.]*): (.*)", words)
    if found:  # most configs name the field themselves
        field, words = found.groups()
        words = words if words.startswith(field) else f"{field}.{words}"
    return f"{words} (`--help` lists the flags)"
