"""The pages of the documentation and the code blocks in them."""

import re
from pathlib import Path
from textwrap import dedent
from typing import List, NamedTuple

BLOCK = re.compile(r'^( *)```(\w+)(?: title="([^"]+)")?\n(.*?)^\1```', flags=re.M | re.S)


class Block(NamedTuple):
    """A code block of a page."""

    language: str
    title: str  # name of the file in which a reader saves it, or empty
    code: str


def pages(root: Path) -> List[Path]:
    """Return README.md, CONTRIBUTING.md and the pages of the site."""
    return [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").glob("*.md"))]


def blocks(page: Path, language: str) -> List[Block]:
    """Return the code blocks of a page in one language."""
    found = [Block(kind, title, dedent(code)) for _, kind, title, code in BLOCK.findall(page.read_text())]
    return [block for block in found if block.language == language]


def commands(page: Path) -> List[str]:
    """Return the lines of the shell blocks of a page."""
    return [line for block in blocks(page, "bash") for line in block.code.splitlines() if line.strip()]


def without_code(page: Path) -> str:
    """Return the text of a page without its code blocks."""
    return re.sub(r"^( *)```.*?^\1```", "", page.read_text(), flags=re.M | re.S)
