"""YAML of plain values, of a bounded size."""

from __future__ import annotations

from typing import Any, Dict

import yaml


class _Loader(yaml.SafeLoader):
    """Load plain values only; a repeated key and a merge key (<<) are errors.

    The time for nested merge keys grows exponentially with the size of the file.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> Dict[Any, Any]:
        seen = set()
        for key, _ in node.value:
            if key.tag == "tag:yaml.org,2002:merge":
                raise yaml.constructor.ConstructorError(
                    None, None, "merge keys (<<) are not supported; write the settings out", key.start_mark
                )
            if isinstance(key, yaml.ScalarNode):
                if (key.tag, key.value) in seen:
                    raise yaml.constructor.ConstructorError(None, None, f"the key '{key.value}' twice", key.start_mark)
                seen.add((key.tag, key.value))
        return super().construct_mapping(node, deep)


_MOST_VALUES = 1_000_000


def _num_values(node: yaml.Node, counted: Dict[int, int]) -> int:
    """Return the number of values of a node with its aliases written out; a node inside itself has infinitely many."""
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) not in counted:
        counted[id(node)] = _MOST_VALUES + 1  # while it is being counted
        inside = [part for pair in node.value for part in (pair if isinstance(pair, tuple) else (pair,))]
        counted[id(node)] = 1 + sum(_num_values(part, counted) for part in inside)
    return counted[id(node)]


def load_yaml(content: bytes) -> Any:
    """Return the values of a YAML text without executing code; merge keys, repeated keys and aliases that stand for too
    many values are errors."""
    values = yaml.load(content, _Loader)
    node = yaml.compose(content, _Loader)
    if node is not None and _num_values(node, {}) > _MOST_VALUES:
        raise ValueError(f"its aliases (*) stand for more than {_MOST_VALUES} values; write the settings out")
    return values
