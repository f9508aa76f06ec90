"""Help for the flags of a command and its config: the usual flags and the sections, one section, or all flags."""

from __future__ import annotations

import contextlib
import dataclasses
import difflib
import inspect
import textwrap
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Tuple, Type

import tyro
from typing_extensions import Annotated

from rsl_rl.utils.config_io import declared_types, help_of_field
from rsl_rl.utils.registry import suggest
from rsl_rl.utils.text import one_line

ALL = "all"
"""The argument of --help that prints every flag."""

USUAL_NAMES = {
    "batch_size": "num_mini_batches",
    "clip": "clip_param",
    "clip_coef": "clip_param",
    "clip_range": "clip_param",
    "device": "rl_device",
    "ent_coef": "entropy_coef",
    "epochs": "num_learning_epochs",
    "gae_lambda": "lam",
    "iterations": "max_iterations",
    "lr": "learning_rate",
    "n_envs": "num_envs",
    "n_epochs": "num_learning_epochs",
    "n_steps": "num_steps_per_env",
    "num_steps": "num_steps_per_env",
    "target_kl": "desired_kl",
    "vf_coef": "value_loss_coef",
}
"""Names of settings in other libraries, and the field here."""


def unnamed_fields(flags: Type, cfg: Any) -> List[Tuple[str, Any, Any]]:
    """Return fields of a dataclass that tyro parses: the flags of a command and those of a config, without a prefix."""
    unnamed = tyro.conf.arg(name="")
    return [
        ("flags", Annotated[flags, unnamed], dataclasses.field(default_factory=flags)),  # type: ignore[valid-type]
        ("cfg", Annotated[type(cfg), unnamed], dataclasses.field(default=cfg)),
    ]


def print_help(flags: Type, cfg: Any, shortcuts: Mapping[str, str], description: str, section: str) -> None:
    """Print the help of a command: of one section, of all flags, or the usual flags and the names of the sections."""
    sections = dict(sections_of(cfg))
    if section == ALL:
        short_forms = "\n".join(f"--{name}  for  --{path}" for name, path in shortcuts.items())
        _print_flags(unnamed_fields(flags, cfg), f"{description}\n\nShort forms:\n{short_forms}")
    elif section:
        if value_at(cfg, section) is None:
            known = ", ".join((*sections, ALL))
            raise ValueError(f"--help {section}: no section of flags; known: {known}.{suggest(section, sections)}")
        _print_flags([flag_field("section", cfg, section, name=section)], f"Flags of {section}.")
    else:
        own = [flag_field(field.name, flags(), field.name) for field in dataclasses.fields(flags)]
        _print_flags(_usual_flags(own, cfg, shortcuts), description)
        width = max(map(len, sections)) + 2
        print("\nEvery setting of the config is a flag. `--help SECTION` prints the flags of a section, for example")
        print(f"`--help algorithm`, and `--help {ALL}` prints all.\n")
        for name, what in sections.items():
            print(f"  {name:{width}}{textwrap.shorten(what, 110, placeholder=' ...')}")


def _print_flags(flag_fields: Sequence[Tuple[str, Any, Any]], description: str) -> None:
    with contextlib.suppress(SystemExit):
        combined = dataclasses.make_dataclass("Arguments", flag_fields)
        tyro.cli(combined, args=["--help"], description=description, use_underscores=True)


def _usual_flags(
    own: Sequence[Tuple[str, Any, Any]], cfg: Any, shortcuts: Mapping[str, str]
) -> List[Tuple[str, Any, Any]]:
    """Return --task, the flags of the command, the short forms, and the settings of the config in no section."""
    settings = [f.name for f in dataclasses.fields(cfg) if f.name != "task" and not is_section(getattr(cfg, f.name))]
    paths = {**shortcuts, **{name: name for name in settings}}
    taken = {name for name, *_ in own}
    found = {name: path for name, path in paths.items() if name not in taken and value_at(cfg, path) is not None}
    return [flag_field("task", cfg, "task"), *own, *(flag_field(name, cfg, path) for name, path in found.items())]


def flag_field(field: str, cfg: Any, path: str, name: Optional[str] = None) -> Tuple[str, Any, Any]:
    """Return a field of a dataclass that tyro parses as the setting at a dotted path of a config."""
    section, _, last = path.rpartition(".")
    owner, value = value_at(cfg, section), value_at(cfg, path)
    is_setting = dataclasses.is_dataclass(owner) and not dataclasses.is_dataclass(value)
    declared = declared_types(type(owner))[last] if is_setting else type(value)
    what = tyro.conf.arg(name=name, help=help_of_field(type(owner), last) if is_setting else None)
    return field, Annotated[declared, what], dataclasses.field(default_factory=lambda: value)


def is_section(value: Any) -> bool:
    """Return whether a value of a config has settings of its own."""
    return dataclasses.is_dataclass(value) or isinstance(value, Mapping)


def sections_of(cfg: Any, prefix: str = "") -> Iterator[Tuple[str, str]]:
    """Yield the name of each section of a config, and of each section of its environment, with a description."""
    for name in (field.name for field in dataclasses.fields(cfg)):
        part = getattr(cfg, name)
        if is_section(part):
            what = help_of_field(type(cfg), name).partition(". ")[0].rstrip(".")
            yield prefix + name, first_sentence(type(part)) if dataclasses.is_dataclass(part) else what
            if name == "env" and not prefix:
                yield from sections_of(part, "env.")


def first_sentence(cls: Type) -> str:
    """Return the first sentence of a class's docstring in one line; empty without a docstring."""
    text = one_line((inspect.getdoc(cls) or "").partition("\n\n")[0])
    return "" if text.startswith(f"{cls.__name__}(") else text.partition(". ")[0].rstrip(".")


def value_at(cfg: Any, path: str) -> Any:
    """Return the value at a dotted path of a config, the config itself for an empty path, or None."""
    for name in path.split(".") if path else ():
        cfg = cfg.get(name) if isinstance(cfg, Mapping) else getattr(cfg, name, None)
    return cfg


def setting_names(cfg: Any, prefix: str = "") -> Iterator[str]:
    """Yield the dotted name of each setting and section of a config."""
    names = [*cfg] if isinstance(cfg, Mapping) else [field.name for field in dataclasses.fields(cfg)]
    for name in names:
        yield prefix + name
        value = value_at(cfg, name)
        if is_section(value):
            yield from setting_names(value, f"{prefix}{name}.")


def explain_unknown_flag(argv: Sequence[str], flags: Type, cfg: Any, shortcuts: Mapping[str, str]) -> str:
    """Return a message on the first word that is no flag or follows a switch; empty if there is none."""
    known = dict.fromkeys([*(f.name for f in dataclasses.fields(flags)), *setting_names(cfg), *shortcuts])
    help_flags = f"`--help` prints the usual flags, `--help {ALL}` prints all"
    for word, following in zip(argv, [*argv[1:], "--"]):
        flag, equals, _ = word.partition("=")
        name = flag[2:]
        section, dot, field = name.rpartition(".")
        positive = field[3:] if field.startswith("no_") else field
        switch = f"{section}{dot}{positive}"
        if not flag.startswith("--"):
            continue
        if name not in known and switch not in known:
            similar = similar_names(name, known, shortcuts)
            meant = f"; did you mean {' or '.join(f'--{path}' for path in similar)}?" if similar else ";"
            return f"unknown flag {flag}{meant} {help_flags}"
        value = getattr(flags, switch) if hasattr(flags, switch) else value_at(cfg, switch)
        if isinstance(value, bool) and (equals or not following.startswith("-")):
            wrong = word if equals else f"{flag} {following}"
            return f"{wrong}: a switch takes no value; write --{switch} or --{section}{dot}no_{positive}"
    return ""


def similar_names(name: str, known: Iterable[str], shortcuts: Mapping[str, str]) -> List[str]:
    """Return up to three of the known dotted names: those with the same last part, else those spelled alike.

    A name of another library counts as ours. A setting with a short form is named by it.
    """
    last = USUAL_NAMES.get(name.rpartition(".")[2], name.rpartition(".")[2])
    by_last: Dict[str, List[str]] = {}
    for path in sorted(known, key=lambda path: path.count(".")):
        by_last.setdefault(path.rpartition(".")[2], []).append(path)
    spelled_alike = difflib.get_close_matches(name, [*known], n=1, cutoff=0.75)
    if "." in name and spelled_alike:
        found = spelled_alike
    else:
        lasts = [last] if last in by_last else difflib.get_close_matches(last, by_last, n=1, cutoff=0.7)
        found = [path for one in lasts for path in by_last[one]] or spelled_alike
    short = {path: form for form, path in shortcuts.items()}
    return list(dict.fromkeys(short.get(path, path) for path in found))[:3]
