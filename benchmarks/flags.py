"""Checks of the benchmarks' flags; an invalid value is a ValueError."""

from pathlib import Path


def require_counts(flags: object, *names: str) -> None:
    """Require integers of at least 1, or non-empty tuples of them."""
    for name in names:
        value = getattr(flags, name)
        counts = value if isinstance(value, tuple) else (value,)
        if not counts:
            raise ValueError(f"--{name} is empty; give at least one number")
        for count in counts:
            if count < 1:
                raise ValueError(f"--{name} {count}: give a whole number of at least 1")


def require_picture(flags: object, name: str) -> None:
    """Require None or the name of a PNG file in an existing folder."""
    path: Path = getattr(flags, name)
    if path is None:
        return
    if path.suffix != ".png":
        raise ValueError(f"--{name} {path}: give a name that ends in .png")
    if not path.parent.is_dir():
        raise ValueError(f"--{name} {path}: there is no folder {path.parent}; make it first")
