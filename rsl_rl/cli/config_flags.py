"""Parse the settings of a config as flags, one flag for each."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Type

import tyro

from rsl_rl.cli.errors import one_line_errors
from rsl_rl.cli.flag_help import explain_unknown_flag, flag_field, is_section, unnamed_fields, value_at

SHORTCUTS = {
    "num_envs": "env.num_envs",
    "sim": "env.sim.backend",
    "max_iterations": "runner.max_iterations",
    "max_time": "runner.max_time",
    "experiment_name": "runner.experiment_name",
    "run_name": "runner.run_name",
    "save_interval": "runner.save_interval",
    "evaluate_interval": "progress.evaluate_interval",
    "until_gate": "progress.until_gate",
    "video_interval": "progress.video_interval",
    "logger": "runner.logger",
}
"""Short names of flags, and the config field of each."""


def parse_config(flags: Type, cfg: Any, argv: Sequence[str]) -> Tuple[Any, Any]:
    """Return the flags of a command and the config with what the words set; a mistake is a ValueError of one line."""
    paths = _named_settings(flags, cfg, argv)
    if paths is not None:
        with contextlib.suppress(ValueError):  # the message for the whole config names the place
            return parse_settings(flags, cfg, argv, paths)
    return parse_whole(flags, cfg, argv)


def parse_whole(flags: Type, cfg: Any, argv: Sequence[str]) -> Tuple[Any, Any]:
    """Do what :func:`parse_config` does with a parser of every setting of the config."""
    try:
        parsed = _parse(unnamed_fields(flags, cfg), argv)
    except ValueError as error:
        is_unknown = str(error).startswith("Unrecognized options")
        raise ValueError((is_unknown and explain_unknown_flag(argv, flags, cfg, SHORTCUTS)) or str(error)) from None
    return parsed.flags, parsed.cfg


def parse_settings(flags: Type, cfg: Any, argv: Sequence[str], paths: Sequence[str]) -> Tuple[Any, Any]:
    """Do what :func:`parse_config` does with a parser of the settings at dotted paths, which is ready sooner."""
    names = [f"setting_{i}" for i in range(len(paths))]
    own = unnamed_fields(flags, cfg)[:1]
    parsed = _parse([*own, *(flag_field(name, cfg, path, name=path) for name, path in zip(names, paths))], argv)
    return parsed.flags, _with_settings(cfg, {path: getattr(parsed, name) for name, path in zip(names, paths)})


def _parse(fields: Sequence[Tuple[str, Any, Any]], argv: Sequence[str]) -> Any:
    with one_line_errors():
        return tyro.cli(dataclasses.make_dataclass("Arguments", fields), args=argv, use_underscores=True)


def _named_settings(flags: Type, cfg: Any, argv: Sequence[str]) -> Optional[List[str]]:
    """Return the dotted paths of the settings that the words name, without flags of the command. None: a word names a
    section, a switch to turn off, a setting without a value, or nothing."""
    own = {field.name for field in dataclasses.fields(flags)}
    words = dict.fromkeys(word[2:].partition("=")[0] for word in argv if word.startswith("--"))
    paths = [word for word in words if word not in own]
    values = [value_at(cfg, path) for path in paths]
    return None if any(value is None or is_section(value) for value in values) else paths


def _with_settings(node: Any, values: Mapping[str, Any]) -> Any:
    """Return a config, or a part of it, with other values at dotted paths."""
    parts: Dict[str, Dict[str, Any]] = {}
    for path, value in values.items():
        name, _, rest = path.partition(".")
        parts.setdefault(name, {})[rest] = value
    new = {name: x[""] if "" in x else _with_settings(value_at(node, name), x) for name, x in parts.items()}
    return {**node, **new} if isinstance(node, Mapping) else dataclasses.replace(node, **new)
