"""A folder of policies with cards: find an entry, check its files, and write one."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, Mapping, NamedTuple, Sequence

from rsl_rl.utils.config_io import read_yaml, short_repr
from rsl_rl.utils.files import atomic_write, is_regular_file, require_writable
from rsl_rl.utils.registry import suggest
from rsl_rl.zoo.card import CARD, Card, check_name, read_card, write_card
from rsl_rl.zoo.readme import card_markdown

ONNX, CONTRACT, CONFIG, README = "policy.onnx", "policy.json", "config.yaml", "README.md"

FILES = (ONNX, CONTRACT, CONFIG, CARD, README)
"""Files of every entry: policy, contract, all settings of the training, and the card for programs and people."""

LARGEST_ENTRY = 4_000_000
"""Size of an entry above which it is not written [bytes]."""


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Entry(NamedTuple):
    """A policy of a zoo, whose files have been checked."""

    folder: Path
    card: Card

    @property
    def onnx(self) -> Path:
        return self.folder / ONNX

    @property
    def size(self) -> int:
        """Size of its files [bytes]."""
        return sum((self.folder / name).stat().st_size for name in files_of(self.card))


def files_of(card: Card) -> Sequence[str]:
    """Return the names of the files of an entry."""
    return (*FILES, card.film) if card.film else FILES


def read_entry(folder: Path) -> Entry:
    """Read an entry; a missing or damaged file, or a policy that is not that of the card, is an error that says so."""
    card = read_card(folder / CARD)
    if card.name != folder.name:
        raise ValueError(f"{folder / CARD} is the card of {card.name}; rename the folder, or give it its own card")
    for name in files_of(card):
        if not is_regular_file(folder / name):
            raise FileNotFoundError(f"{folder} has no file {name}; get the entry again")
    found = sha256_of(folder / ONNX)
    if found != card.sha256:
        raise ValueError(
            f"{folder / ONNX} is not the policy of its card: its SHA-256 is {found[:12]}... and the card says "
            f"{card.sha256[:12]}...; it is not run. Get the entry again"
        )
    return Entry(folder, card)


class Zoo:
    """The entries in a folder."""

    def __init__(self, folder: Path):
        if folder.exists() and not folder.is_dir():
            raise NotADirectoryError(f"{folder} is not a folder; a zoo is a folder with an entry for each policy")
        self.folder = folder

    def names(self) -> List[str]:
        return sorted(path.parent.name for path in self.folder.glob(f"[!.]*/{CARD}"))

    def find(self, name: str) -> Entry:
        """Return an entry after checking its files; an unknown name is a ValueError."""
        names = self.names()
        if name not in names:
            known = ", ".join(names) or "none"
            raise ValueError(f"{self.folder} has no policy '{name}'; it has {known}.{suggest(name, names)}")
        return read_entry(self.folder / name)

    @contextlib.contextmanager
    def new_entry(self, name: str, replaces: bool) -> Iterator[Path]:
        """Give a folder for the files of an entry; after the block it is in its place, and after an error it is gone.

        An entry of that name is an error without ``replaces``.
        """
        check_name(name)
        require_writable(self.folder)
        self.require_free(name, replaces)
        temporary = Path(tempfile.mkdtemp(prefix=".new_", dir=str(self.folder)))
        try:
            made = temporary / name
            made.mkdir()
            yield made
            size = sum(path.stat().st_size for path in made.iterdir())
            if size > LARGEST_ENTRY:
                limit = LARGEST_ENTRY / 1e6
                raise ValueError(f"{name} has {size / 1e6:.1f} MB, and an entry at most {limit:g} MB; it is not added")
            read_entry(made)
            if (self.folder / name).exists():
                os.replace(self.folder / name, temporary / "former")
            os.replace(made, self.folder / name)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def require_free(self, name: str, replaces: bool) -> None:
        """Raise a ValueError if there is an entry that is not to be replaced, or something else of that name."""
        path = self.folder / name
        if path.is_symlink() or (path.exists() and not path.is_dir()):
            raise ValueError(f"{path} is not a folder; remove it, or give another --name")
        if path.exists() and not replaces:
            raise ValueError(f"{path} exists; give another --name, or --replace")


def write_entry(folder: Path, card: Card, files: Mapping[str, bytes]) -> None:
    """Write the files of an entry and its card, in both forms, into its folder."""
    for name, content in files.items():
        atomic_write(folder / name, content)
    write_card(card, folder / CARD)
    atomic_write(folder / README, card_markdown(card).encode())


NOT_COMPARED = ("sim_device", "rl_device", "runner.experiment_name", "runner.run_name", "runner.logger")
"""Settings that do not change the weights on one machine."""


def setting_differences(first: Path, second: Path) -> List[str]:
    """Return a line for each setting that differs between two config files. They are compared as plain values."""
    before, after = (_leaves(read_yaml(path)) for path in (first, second))
    return [
        f"{name}: {short_repr(before.get(name))} before, {short_repr(after.get(name))} now"
        for name in sorted({*before, *after})
        if name not in NOT_COMPARED and before.get(name) != after.get(name)
    ]


def _leaves(values: Mapping[str, Any], prefix: str = "") -> Dict[str, Any]:
    """Return the values of nested mappings by dotted name."""
    found: Dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            found.update(_leaves(value, f"{prefix}{name}."))
        else:
            found[f"{prefix}{name}"] = value
    return found
