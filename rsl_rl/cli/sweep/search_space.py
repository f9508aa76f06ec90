"""Search spaces on the command line: `--space algorithm.learning_rate=log:1e-4..1e-2`."""

from __future__ import annotations

import math
import shlex
from dataclasses import fields, is_dataclass
from typing import Any, Callable, List, Mapping, NamedTuple, Sequence, Tuple, Union

from rsl_rl.cli.config_flags import SHORTCUTS
from rsl_rl.cli.errors import print_line
from rsl_rl.config import aliases
from rsl_rl.utils.registry import suggest

EXAMPLES = "algorithm.learning_rate=log:1e-4..1e-2 (a range) or algorithm.entropy_coef=0.0,0.003,0.01 (choices)"

RESERVED = {
    "task": "a sweep has one task",
    "seed": "use --seeds",
    "runner.experiment_name": "all runs of a sweep are in one folder",
    "runner.run_name": "a sweep names its runs itself",
    "runner.max_time": "every training must reach max_iterations",
    "progress.until_gate": "every training must reach max_iterations",
}
"""Fields that cannot be searched, and why."""

Value = Union[int, float, str]
"""A value of a parameter: a number of a range, or the text of a choice."""


class Choices(NamedTuple):
    """A parameter with a few values, as texts of the command line."""

    field: str
    values: Tuple[str, ...]
    is_switch: bool  # the field is a bool
    paths: Tuple[str, ...] = ()  # of several fields that have the value; empty: of ``field`` only


class Interval(NamedTuple):
    """A parameter with the numbers of a range, both ends included."""

    field: str
    low: float
    high: float
    is_integer: bool
    is_log: bool  # sampled uniformly in the logarithm
    is_switch: bool = False
    paths: Tuple[str, ...] = ()


Parameter = Union[Choices, Interval]

ParseConfig = Callable[[Sequence[str]], Any]
"""A function that returns the config of further flags; it ends the program where they are wrong."""


def parse_space(texts: Sequence[str], parse_config: ParseConfig) -> List[Parameter]:
    """Return the parameters of FIELD=VALUES texts; a wrong one is a ValueError.

    Every choice and both ends of each range are checked by the config.
    """
    default = parse_config(())
    space = [_parse_parameter(text, default, parse_config) for text in texts]
    names = [path for parameter in space for path in paths_of(parameter)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise ValueError(f"--space names '{twice}' twice; write all of its values in one --space")
    return space


def paths_of(parameter: Parameter) -> Tuple[str, ...]:
    """Return the paths of the fields that have the value of a parameter."""
    return parameter.paths or (parameter.field,)


def flags_of(parameter: Parameter, value: Value) -> List[str]:
    """Return the flags of a training that set a parameter."""
    flags: List[str] = []
    for path in paths_of(parameter):
        section, dot, last = path.rpartition(".")
        if parameter.is_switch:
            flags.append(f"--{path}" if _is_true(str(value)) else f"--{section}{dot}no_{last}")
        else:
            flags += [f"--{path}", *(shlex.split(value) if isinstance(value, str) else [repr(value)])]
    return flags


def field_value(cfg: Any, path: str) -> Any:
    """Return the value of a field by its dotted path; an unknown one is a ValueError."""
    value, parts = cfg, path.split(".")
    for i, part in enumerate(parts):
        known = _names(value)
        if part not in known:
            where = ".".join(parts[:i])
            place = f"'{where}' has {', '.join(known)}" if known else f"'{where}' has no fields"
            raise ValueError(f"there is no field '{path}'; {place}.{suggest(part, known)}")
        value = getattr(value, part) if is_dataclass(value) else value[int(part) if isinstance(value, tuple) else part]
    return value


def _names(value: Any) -> List[str]:
    if is_dataclass(value):
        return [f.name for f in fields(value)]
    if isinstance(value, Mapping):
        return [str(key) for key in value]
    is_nested = isinstance(value, tuple) and any(is_dataclass(item) for item in value)
    return [str(i) for i in range(len(value))] if is_nested else []


def _parse_parameter(text: str, default: Any, parse_config: ParseConfig) -> Parameter:
    name, equals, values = text.partition("=")
    field = name.strip().replace("-", "_")
    field = SHORTCUTS.get(field, field)
    if not (field and equals and values.strip()):
        raise ValueError(f"--space {text}: write FIELD=VALUES, such as {EXAMPLES}")
    if field in RESERVED:
        raise ValueError(f"--space {text}: {field} cannot be searched; {RESERVED[field]}")
    try:
        paths = tuple(aliases.current_paths(field, default))
        if not paths:
            raise ValueError("no term of the task takes it; leave it out")
        present = field_value(default, paths[0])
        if _names(present):
            raise ValueError(f"'{paths[0]}' is not one setting; name one of its fields: {', '.join(_names(present))}")
        if paths != (field,):
            print_line(f"note: --space {field} is deprecated; it sets {', '.join(paths)}")
        if len(paths) == 1:
            field, paths = paths[0], ()
        is_range = ".." in values or values.strip().startswith("log:")
        if is_range:
            return _parse_interval(field, paths, values.strip(), parse_config)
        return _parse_choices(field, paths, values, isinstance(present, bool), parse_config)
    except ValueError as error:
        raise ValueError(f"--space {text}: {error}") from None


def _parse_choices(
    field: str, paths: Tuple[str, ...], values: str, is_switch: bool, parse_config: ParseConfig
) -> Choices:
    texts = tuple(" ".join(value.split()) for value in values.split(","))
    if "" in texts:
        raise ValueError("one of the choices is empty; separate them by single commas")
    if len(set(texts)) < len(texts):
        raise ValueError("a choice is named twice; name each once")
    if is_switch:
        for text in texts:
            _is_true(text)
    parameter = Choices(field, texts, is_switch, paths)
    parsed = [field_value(parse_config(flags_of(parameter, text)), paths_of(parameter)[0]) for text in texts]
    same = next((text for i, text in enumerate(texts) if parsed[i] in parsed[:i]), None)
    if same is not None:
        raise ValueError(f"the choice {same} has the same value as another one; name each once")
    return parameter


def _parse_interval(field: str, paths: Tuple[str, ...], values: str, parse_config: ParseConfig) -> Interval:
    is_log = values.startswith("log:")
    ends = [end.strip() for end in values[len("log:") * is_log :].partition("..")[::2]]
    try:
        low, high = map(float, ends)
    except ValueError:
        raise ValueError("a range is LOW..HIGH or log:LOW..HIGH, with two numbers") from None
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise ValueError(f"the range needs finite numbers and a lower one first; got {ends[0]} and {ends[1]}")
    if is_log and low <= 0:
        raise ValueError(f"a logarithmic range must be above 0, and starts at {ends[0]}; write it without log:")
    parameter = Interval(field, low, high, is_integer=False, is_log=is_log, paths=paths)
    first = paths_of(parameter)[0]
    found = [field_value(parse_config((f"--{first}", end)), first) for end in ends]
    if any(isinstance(value, bool) or not isinstance(value, (int, float)) for value in found):
        raise ValueError("a range needs a field with one number; write its values as choices, separated by commas")
    return parameter._replace(is_integer=isinstance(found[0], int))


def _is_true(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"'{text}' is neither true nor false")
    return text.lower() == "true"
