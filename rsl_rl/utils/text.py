"""Write foreign names, such as those of links, files and reward terms, so that no name becomes code or markup."""

from __future__ import annotations

import html
import os
import re
from typing import Sequence, Union
from urllib.parse import quote


def printable(text: str) -> str:
    """Return a text in which characters that control a terminal, lines or the direction are escaped as in Python."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def one_line(text: str) -> str:
    """Return a text as one line of printable characters, with one space between words."""
    return printable(" ".join(text.split()))


def listed(names: Sequence[str], most: int = 6) -> str:
    """Return names with commas between them, and the number of those that are left out."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def python_text(text: str) -> str:
    """Return a text as a literal of Python in double quotes."""
    escaped = repr('"' + text)[2:-1]  # with a double quote inside, repr chooses single quotes
    return '"' + escaped.replace("\\'", "'").replace('"', '\\"') + '"'


def xml_comment(text: str) -> str:
    """Return lines as a comment of XML, in which "--" is not allowed."""
    lines = [re.sub("-(?=-)", "- ", one_line(line)) for line in text.splitlines()]
    return "\n".join(["<!--", *lines, "-->"])


def html_text(text: str) -> str:
    """Return a text for HTML, also within an attribute in quotes. There is no "|", which ends the class of a cell."""
    return html.escape(one_line(text)).replace("|", "&#124;")


def markdown_cell(text: str) -> str:
    """Return a text for a cell of a table in Markdown. An underscore within a word stays as it is."""
    marked = re.sub(r"(?<![^\W_])_|_(?![^\W_])|[\\`*\[\]~]", r"\\\g<0>", html.escape(one_line(text), quote=False))
    return marked.replace("|", "&#124;")


def file_name(text: str) -> str:
    """Return a text as the first part of a file name, of at most 150 characters."""
    return quote(text, safe=" ", errors="surrogatepass")[:150]


def is_utf8(path: Union[str, os.PathLike]) -> bool:
    """Return whether the name of a file is UTF-8; others cannot be opened by MuJoCo, or written into a text file."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True
