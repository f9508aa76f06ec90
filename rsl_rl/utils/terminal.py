"""Settings of the terminal for programs; the library does not change them."""

from __future__ import annotations

import io
import sys


def replace_unencodable_output() -> None:
    """Print "?" for characters that the terminal's encoding does not have, instead of raising an error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
