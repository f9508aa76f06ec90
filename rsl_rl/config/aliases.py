"""Former names of settings, which files, flags and Python programs may use. They stay for one release.

No other file knows them: configs are read with :func:`with_current_names`, flags with :func:`current_paths`, and
:func:`accepts_former_names` is for the constructors.
"""

from __future__ import annotations

import functools
import re
from dataclasses import fields, is_dataclass
from typing import Any, Dict, Iterator, List, Mapping, Sequence, Tuple, Type, TypeVar

FLAGS: Mapping[str, str] = {"postmortem": "fault_dump"}
"""Former flags of the commands, and the present ones."""

_MODEL = "env.randomization.terms.model_parameters"
_START = "env.randomization.terms.start_state"
_PUSH = "env.randomization.terms.push"
_REWARDS = "env.rewards.terms"

PATHS: Mapping[str, Tuple[str, ...]] = {
    "algorithm.bptt_length": ("algorithm.unroll_len",),
    "env.policy_observations": ("env.observations.policy.terms",),
    "env.critic_observations": ("env.observations.critic.terms",),
    "env.more_observations.*": ("env.observations.*.terms",),
    "env.observation_history.*": ("env.observations.*.history",),
    "env.rewards.weights.*": (f"{_REWARDS}.*",),
    "env.rewards.tracking_sigma": (
        f"{_REWARDS}.track_lin_vel.params.tracking_sigma",
        f"{_REWARDS}.track_yaw_rate.params.tracking_sigma",
    ),
    "env.rewards.base_height_target": (f"{_REWARDS}.base_height.params.base_height_target",),
    "env.rewards.foot_clearance_target": (f"{_REWARDS}.foot_clearance.params.foot_clearance_target",),
    "env.rewards.air_time_target": (
        f"{_REWARDS}.feet_air_time.params.air_time_target",
        f"{_REWARDS}.single_stance.params.air_time_target",
    ),
    "env.rewards.soft_joint_limit": (f"{_REWARDS}.joint_limits.params.soft_joint_limit",),
    "env.rewards.collision_links": (f"{_REWARDS}.collision.params.collision_links",),
    "env.terminations.max_reward": ("safety.max_reward",),
    "env.terminations.max_observation": ("safety.max_observation",),
    "env.randomization.friction": (f"{_MODEL}.params.friction",),
    "env.randomization.payload": (f"{_MODEL}.params.payload",),
    "env.randomization.stiffness_scale": (f"{_MODEL}.params.stiffness_scale",),
    "env.randomization.damping_scale": (f"{_MODEL}.params.damping_scale",),
    "env.randomization.initial_joint_scale": (f"{_START}.params.initial_joint_scale",),
    "env.randomization.initial_velocity": (f"{_START}.params.initial_velocity",),
    "env.randomization.push_interval": (f"{_PUSH}.period",),
    "env.randomization.push_velocity": (f"{_PUSH}.params.push_velocity",),
    "env.randomization.push_turning": (f"{_PUSH}.params.push_turning",),
}
"""Former paths of settings in the complete config, and the present ones; * is any name."""

_EVENTS: Mapping[str, Mapping[str, Any]] = {
    "model_parameters": {"mode": "startup"},
    "start_state": {"mode": "reset"},
    "push": {"mode": "interval", "period": 8.0},
}
"""The events that all tasks had, without the parameters that were settings of randomization."""

_MISSING = object()

T = TypeVar("T")


def current_paths(path: str) -> List[str]:
    """Return the present paths of a field; a field with a present name is its own."""
    for old, places in PATHS.items():
        head = old.rstrip("*")
        if head != old and path.startswith(head):
            return [_below(place, path[len(head) :]) for place in places]
        if path == old or path.startswith(f"{old}."):
            return [place + path[len(old) :] for place in places]
    return [path]


def _below(place: str, tail: str) -> str:
    """Return the place of what is below a mapping; the name of a reward may have dots."""
    if place == f"{_REWARDS}.*":
        return f"{_REWARDS}.{tail}" if re.search(r"\.(weight|func|params\..*)$", tail) else f"{_REWARDS}.{tail}.weight"
    name, _, rest = tail.partition(".")
    return f"{place.replace('*', name)}.{rest}".rstrip(".")


def with_current_names(section: str, values: Mapping[str, Any], are_keywords: bool = False) -> Mapping[str, Any]:
    """Return the settings of a section under their present names.

    In a file a setting that is given by both names is a ValueError; parameters and periods of terms go before former
    settings. Former keywords replace what the present ones say, as in ``dataclasses.replace``.
    """
    start = f"{section}." if section else ""
    below = [old for old in PATHS if old.startswith(start)]
    former = {old: _find(values, _parts(old, start)) for old in below}
    former = {old: value for old, value in former.items() if value is not _MISSING}
    if not former:
        return values
    current = _as_mappings(values)
    for old in former:
        *above, last = _parts(old, start)
        del _find(current, above)[last]
    given = [] if are_keywords else list(_leaves(current))
    if are_keywords and section == "env.rewards" and "weights" in values:
        current["terms"] = {name: current.get("terms", {}).get(name, {}) for name in values["weights"]}
    if any(old.startswith("env.randomization.") for old in former):
        events = _find(current, _parts("env.randomization.*", start))
        own = events.get("terms", {})
        if isinstance(own, Mapping):
            events["terms"] = {**{name: dict(event) for name, event in _EVENTS.items()}, **own}
    for old, name, item, place in _moves(former, start):
        path = [name if part == "*" else part for part in place[len(start) :].split(".")]
        if place == f"{_REWARDS}.*" and not isinstance(item, Mapping):
            path.append("weight")
        if _is_dropped(current, path, item, place):
            continue
        is_given = any(leaf[: len(path)] == path for leaf in given)
        if place.startswith("safety."):  # both limits held
            item = min((x for x in (item, _find(current, path)) if isinstance(x, (int, float))), default=item)
        elif "params" in path or path[-1] == "period":
            if not are_keywords and (is_given or ("params" in path and _find(current, path) is not _MISSING)):
                continue
        elif is_given:
            message = f"{old.replace('*', str(name))} is another name of {place.replace('*', str(name))}"
            raise ValueError(f"{message}, and both are given; leave out one")
        _put(current, path, item)
    return current


def _parts(old: str, start: str) -> List[str]:
    """Return the keys, below the section, of a setting, or of the mapping whose items are settings."""
    return [part for part in f"{old}."[len(start) :].split(".") if part not in ("", "*")]


def _moves(former: Mapping[str, Any], start: str) -> Iterator[Tuple[str, str, Any, str]]:
    """Return for each setting its former path, the name at the *, its value, and its present path.

    A present path outside of the section is left out: limits of the learner in a config of the task alone.
    """
    for old, value in former.items():
        if old.endswith("*") and not isinstance(value, Mapping):
            raise ValueError(f"{old[:-2]}={value!r}; give a mapping")
        items = _as_mappings(value).items() if old.endswith("*") else [("", value)]
        for name, item in items:
            yield from ((old, name, item, place) for place in PATHS[old] if place.startswith(start))


def _is_dropped(current: Mapping[str, Any], path: Sequence[str], item: Any, place: str) -> bool:
    """Return whether a setting is one of a reward term that the task does not have, or a group without terms."""
    of_reward = place.startswith(_REWARDS) and "params" in path
    return (of_reward and _find(current, path[:-2]) is _MISSING) or (path[-1] == "terms" and item == {})


def _put(values: Dict[str, Any], path: Sequence[str], item: Any) -> None:
    for part in path[:-1]:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise ValueError(f"{'.'.join(path)}: {part}={values!r}; give a mapping")
    values[path[-1]] = item


def _find(values: Any, path: Sequence[str]) -> Any:
    """Return what is at a path in nested mappings, or _MISSING."""
    for part in path:
        values = values.get(part, _MISSING) if isinstance(values, Mapping) else _MISSING
    return values


def _as_mappings(value: Any) -> Any:
    """Return a copy in which terms and observation groups are mappings too."""
    if is_dataclass(value) and (hasattr(value, "params") or hasattr(value, "history")):
        value = {f.name: getattr(value, f.name) for f in fields(value)}
    return {key: _as_mappings(item) for key, item in value.items()} if isinstance(value, Mapping) else value


def _leaves(values: Mapping[str, Any]) -> Iterator[List[str]]:
    """Return the paths of all values in nested mappings."""
    for key, item in values.items():
        below = list(_leaves(item)) if isinstance(item, Mapping) else []
        yield from ([key, *path] for path in below or [[]])


def accepts_former_names(cls: Type[T]) -> Type[T]:
    """Let the constructor of a config, ``dataclasses.replace`` and readers use former names of its settings."""
    init, section = cls.__init__, cls.section  # type: ignore[attr-defined]

    @functools.wraps(init)
    def with_former_keywords(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **with_current_names(section, kwargs, are_keywords=True))

    def former_attribute(self: Any, name: str) -> Any:
        old = f"{section}.{name}"
        if old not in PATHS and f"{old}.*" not in PATHS:
            raise AttributeError(f"{type(self).__name__} has no setting '{name}'")
        place = PATHS.get(old, PATHS.get(f"{old}.*", ()))[0][len(section) + 1 :]
        head, star, tail = place.partition(".*")
        found = _read(self, head.split("."))
        if found is _MISSING and not name.endswith("_observations"):
            raise AttributeError(f"{type(self).__name__} has no '{name}': it has no term with this parameter")
        if not star:
            return {} if found is _MISSING else found
        own = {key: item for key, item in found.items() if name != "more_observations" or key not in _OWN_GROUPS}
        return {key: getattr(item, tail[1:]) if tail else item for key, item in own.items()}

    cls.__init__ = with_former_keywords  # type: ignore[method-assign]
    cls.__getattr__ = former_attribute  # type: ignore[attr-defined]
    return cls


_OWN_GROUPS = ("policy", "critic")


def _read(value: Any, path: Sequence[str]) -> Any:
    """Return what is at a path of a config, or _MISSING."""
    for part in path:
        value = value.get(part, _MISSING) if isinstance(value, Mapping) else getattr(value, part, _MISSING)
    return value
