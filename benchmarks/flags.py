"""Checks that the benchmarks' flags share; a mistake is a ValueError."""

from pathlib import Path


def require_counts(flags: object, *names: str) -> None:
    """Ask for whole numbers of at least 1, or tuples of one or several of them."""
    for name in names:
        value = getattr(flags, name)
        counts = value if isinstance(value, tuple) else (value,)
        if not counts:
            raise ValueError(f"--{name} is empty; give at least one number")
        for count in counts:
            if count < 1:
                raise ValueError(f"--{name} {count}: give a whole number of at least 1")


def require_picture(flags: object, name: str) -> None:
    """Ask for the name of a PNG file in a folder that exists, or for None."""
    path: Path = getattr(flags, name)
    if path is None:
        return
    if path.suffix != ".png":
        raise ValueError(f"--{name} {path}: give a name that ends in .png")
    if not path.parent.is_dir():
        raise ValueError(f"--{name} {path}: there is no folder {path.parent}; make it first")
