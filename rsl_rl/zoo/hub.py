"""Exchange of entries with the Hugging Face Hub, by the package huggingface-hub."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, TypeVar

import huggingface_hub
from huggingface_hub.hf_api import RepoFile

from rsl_rl.utils.registry import suggest
from rsl_rl.utils.text import one_line
from rsl_rl.zoo.card import CARD, FILM, Card, check_name
from rsl_rl.zoo.entries import FILES, LARGEST_ENTRY, Entry, Zoo, files_of, read_entry

T = TypeVar("T")

_CODE = re.compile(r"\b[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""A path of code such as package.module:Class, which settings of a command may name."""


def push(entry: Entry, repository: str, private: bool = False) -> str:
    """Upload an entry as a folder of a model repository, which is created if there is none; return its address."""
    api = huggingface_hub.HfApi()
    name = entry.card.name

    def upload() -> Any:
        api.create_repo(repository, private=private, exist_ok=True)
        return api.upload_folder(
            repo_id=repository,
            folder_path=str(entry.folder),
            path_in_repo=name,
            allow_patterns=list(files_of(entry.card)),
            commit_message=f"{name}: {entry.card.sha256[:12]}",
        )

    return str(_ask(repository, upload))


def names_in(repository: str) -> List[str]:
    """Return the names of the entries of a repository."""
    return _names(_sizes(repository))


def _names(paths: Iterable[str]) -> List[str]:
    return sorted(path.partition("/")[0] for path in paths if path.count("/") == 1 and path.endswith(f"/{CARD}"))


def _sizes(repository: str) -> Dict[str, int]:
    """Return the size of each file of a repository by its path [bytes]."""
    found = _ask(repository, lambda: list(huggingface_hub.HfApi().list_repo_tree(repository, recursive=True)))
    return {item.path: item.size for item in found if isinstance(item, RepoFile)}


def pull(repository: str, name: str, zoo: Zoo, replaces: bool = False) -> Card:
    """Download an entry into a zoo, after checking its size, its card and its SHA-256, and return the card.

    An entry whose task or command names code of another package is a ValueError.
    """
    check_name(name)
    zoo.require_free(name, replaces)
    paths, sizes = [f"{name}/{file}" for file in FILES], _sizes(repository)
    missing = [path for path in paths if path not in sizes]
    if len(missing) == len(paths):
        names = _names(sizes)
        raise ValueError(
            f"{repository} has no policy '{name}'; it has {', '.join(names) or 'none'}.{suggest(name, names)}"
        )
    if missing:
        raise ValueError(f"{repository} has no file {missing[0]}, which every entry of a zoo has")
    paths += [path for path in (f"{name}/{FILM}",) if path in sizes]
    size = sum(sizes[path] for path in paths)
    if size > LARGEST_ENTRY:
        raise ValueError(f"{repository}: {name} has {size / 1e6:.1f} MB, and an entry at most {LARGEST_ENTRY / 1e6:g}")
    with zoo.new_entry(name, replaces) as folder:
        for path in paths:
            local = _ask(repository, lambda path=path: huggingface_hub.HfApi().hf_hub_download(repository, path))
            (folder / Path(path).name).write_bytes(Path(local).read_bytes())
        card = read_entry(folder).card
        require_no_code(card)
    return card


def require_no_code(card: Card) -> None:
    """Raise a ValueError if running an entry would import code that it names."""
    found = _CODE.search(f"{card.task} {card.training.command}")
    if found:
        raise ValueError(
            f"the card of {card.name} names code, {found.group()}, which would run with the entry; it is not "
            "downloaded. If you trust it, copy its folder by hand"
        )


def _ask(repository: str, call: Callable[[], T]) -> T:
    """Return what a call gives; an error of the network or of the server is a ValueError of one line."""
    try:
        return call()
    except (KeyboardInterrupt, MemoryError):
        raise
    except huggingface_hub.errors.RepositoryNotFoundError as error:
        raise ValueError(
            f"there is no repository {repository} on {huggingface_hub.constants.ENDPOINT} that you may use; correct "
            "the name, or give your token: hf auth login, or the environment variable HF_TOKEN"
        ) from error
    except Exception as error:  # of the package's, its HTTP client's and the system's kinds
        reason = one_line(str(error))[:300] or type(error).__name__
        raise ValueError(f"{repository} on {huggingface_hub.constants.ENDPOINT}: {reason}") from error
