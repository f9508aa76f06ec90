"""Values by name pattern, such as the gains of joints."""

from __future__ import annotations

import re
from typing import Any, Mapping, Sequence, Tuple


def require_patterns(value: Any, where: str) -> None:
    """Raise a ValueError unless the keys of ``value``, if it is a mapping, are regular expressions."""
    if not isinstance(value, Mapping):
        return
    if not value:
        raise ValueError(f"{where} is empty; give a number, or numbers by pattern of names")
    for pattern in value:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"{where}: '{pattern}' is not a regular expression ({error}); correct it") from error


def names_of_pattern(pattern: str, names: Sequence[str]) -> Tuple[str, ...]:
    """Return the names that a regular expression matches as a whole."""
    return tuple(name for name in names if re.fullmatch(pattern, name))


_NONE = object()


def values_by_name(value: Any, names: Sequence[str], where: str, others: Any = _NONE) -> Tuple[Any, ...]:
    """Return the value of each name.

    ``value`` is one value for all names, or a mapping from regular expressions to values, of which each name matches
    exactly one as a whole, and each matches a name. With ``others`` a name may match none, and has that value.
    ``where`` is the path in the config, for messages.
    """
    if not isinstance(value, Mapping):
        return (value,) * len(names)
    require_patterns(value, where)
    own = {pattern: names_of_pattern(pattern, names) for pattern in value}
    for pattern, matching in own.items():
        if not matching:
            raise ValueError(f"{where}: '{pattern}' matches none of {', '.join(names)}; correct the pattern")
    values = []
    for name in names:
        patterns = [pattern for pattern, matching in own.items() if name in matching]
        if not patterns and others is not _NONE:
            values.append(others)
            continue
        if len(patterns) != 1:
            several = " and ".join(f"'{pattern}'" for pattern in patterns) or f"none of {', '.join(map(repr, value))}"
            raise ValueError(f"{where}: the name {name} matches {several}; give each name exactly one pattern")
        values.append(value[patterns[0]])
    return tuple(values)
