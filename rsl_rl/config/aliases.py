"""Former names of settings, which files, flags and Python programs may use. They stay for one release.

No other file knows them: configs are read and constructed with :func:`with_current_names`, their attributes with
:func:`former_setting`, and flags with :func:`current_paths`.
"""

from __future__ import annotations

import contextlib
import inspect
import re
from dataclasses import fields, is_dataclass
from typing import Any, Callable, Collection, Dict, Iterator, List, Mapping, Sequence, Tuple

from rsl_rl.utils.registry import import_object

FLAGS: Mapping[str, str] = {"postmortem": "fault_dump"}
"""Former flags of the commands, and the present ones."""

RENAMED: Mapping[str, Mapping[str, str]] = {
    "": {
        "env.terminations.max_reward": "safety.max_reward",
        "env.terminations.max_observation": "safety.max_observation",
    },
    "algorithm": {"bptt_length": "unroll_len"},
    "env": {
        "policy_observations": "observations.policy.terms",
        "critic_observations": "observations.critic.terms",
        "more_observations.*": "observations.*.terms",
        "observation_history.*": "observations.*.history",
    },
    "env.rewards": {"weights.*": "terms.*"},
    "env.randomization": {"push_interval": "terms.push.period"},
}
"""Former names of settings and the present ones, by the section that has both; * is any name."""

SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "env.rewards": {
        "tracking_sigma": 0.25,
        "base_height_target": 0.3,
        "foot_clearance_target": 0.08,
        "air_time_target": 0.3,
        "soft_joint_limit": 0.9,
        "collision_links": (),
    },
    "env.randomization": {
        "friction": (0.4, 1.25),
        "payload": (-1.0, 2.0),
        "stiffness_scale": (0.9, 1.1),
        "damping_scale": (0.9, 1.1),
        "push_velocity": 0.6,
        "push_turning": 0.0,
        "initial_joint_scale": (0.7, 1.3),
        "initial_velocity": 0.4,
    },
}
"""Former settings of sections that are parameters of their terms, with the defaults that they had."""

_TAKEN: Mapping[str, Collection[str]] = {
    "track_lin_vel": ("tracking_sigma",),
    "track_yaw_rate": ("tracking_sigma",),
    "base_height": ("base_height_target",),
    "foot_clearance": ("foot_clearance_target",),
    "feet_air_time": ("air_time_target",),
    "single_stance": ("air_time_target",),
    "joint_limits": ("soft_joint_limit",),
    "collision": ("collision_links",),
    "model_parameters": ("friction", "payload", "stiffness_scale", "damping_scale"),
    "start_state": ("initial_joint_scale", "initial_velocity"),
    "push": ("push_velocity", "push_turning"),
}
"""The settings that each shipped function takes; the functions themselves need torch, which is slow for --help."""

_MISSING = object()

_OWN_GROUPS = ("policy", "critic")


def current_paths(path: str, cfg: Any) -> List[str]:
    """Return the present paths of a field of a complete config; a field with a present name is its own.

    A former setting of a section is a parameter of each of its terms that takes it, which may be none.
    """
    section, _, name = path.rpartition(".")
    terms = _find(cfg, f"{section}.terms".split("."))
    if name in SETTINGS.get(section, {}) and terms is not _MISSING:
        shared = _settings_of(section, terms)[name]
        takers = [key for key, term in terms.items() if name in _taken(key, term.func)]
        takers = [key for key in takers if terms[key].params.get(name, shared) == shared]
        return [f"{section}.terms.{key}.params.{name}" for key in takers]
    for section, names in RENAMED.items():
        start = f"{section}." if section else ""
        for old, new in names.items():
            head = start + old.rstrip("*")
            if old.endswith("*") and path.startswith(head):
                return [start + _below(new, path[len(head) :])]
            if path == head or path.startswith(f"{head}."):
                return [start + new + path[len(head) :]]
    return [path]


def is_former_name(name: str, path: str) -> bool:
    """Return whether a field has, or had, this name."""
    section, _, setting = name.rpartition(".")
    if setting in SETTINGS.get(section, {}):
        return path.startswith(f"{section}.terms.") and path.endswith(f".params.{setting}")
    return path in current_paths(name, None)


def _below(place: str, tail: str) -> str:
    """Return the place of what is below a mapping; the name of a reward may have dots."""
    if place == "terms.*":
        return f"terms.{tail}" if re.search(r"\.(weight|func|params\..*)$", tail) else f"terms.{tail}.weight"
    name, _, rest = tail.partition(".")
    return f"{place.replace('*', name)}.{rest}".rstrip(".")


def with_current_names(cls: Any, values: Mapping[str, Any], are_keywords: bool = False) -> Mapping[str, Any]:
    """Return the settings of a section, whose class is ``cls``, under their present names.

    In a file a setting that is given by both names is a ValueError; parameters and periods of terms take precedence
    over former settings. Former keywords replace what the present ones say, as in ``dataclasses.replace``.
    """
    section = cls.section
    elsewhere = [name for name in values if f"{section}.{name}" in RENAMED[""]]
    if elsewhere and are_keywords:
        raise TypeError(_is_elsewhere(f"{section}.{elsewhere[0]}"))
    settings = {name: values[name] for name in SETTINGS.get(section, {}) if name in values}
    former = {old: _find(values, _parts(old)) for old in RENAMED.get(section, {})}
    former = {old: value for old, value in former.items() if value is not _MISSING}
    if not (elsewhere or settings or former):
        return values
    current = _as_mappings({name: x for name, x in values.items() if name not in (*elsewhere, *settings)})
    for *above, last in map(_parts, former):
        del _find(current, above)[last]
    given = [] if are_keywords else list(_leaves(current))
    items = list(_items(section, former))
    if section in SETTINGS:
        settings = {**_separate_settings(cls, current, are_keywords), **settings}
    if are_keywords and "weights.*" in former:
        current["terms"] = {name: current["terms"].get(name, {}) for name in former["weights.*"]}
    for old, name, item in items:
        _move(current, section, old, name, item, given)
    if section in SETTINGS:
        current["terms"] = _with_params(current["terms"], lambda name, term: _filled(name, term, settings))
    return current


def _move(
    current: Dict[str, Any], section: str, old: str, name: str, item: Any, given: Sequence[Sequence[str]]
) -> None:
    """Put a former setting, and the name at its *, in its present place; ``given`` are the paths that have a value."""
    new = RENAMED[section][old]
    path = [name if part == "*" else part for part in new.split(".")]
    if new == "terms.*" and not isinstance(item, Mapping):
        path.append("weight")
    if path[-1] == "terms" and item == {}:  # a group that the task does not have
        return
    whole = path[:-1] if path[-1] == "period" else path  # an event of a file has its own period, or none
    if not any(leaf[: len(whole)] == whole for leaf in given):
        _put(current, path, item)
    elif not section:  # both limits held
        _put(current, path, min((x for x in (item, _find(current, path)) if isinstance(x, (int, float))), default=item))
    elif whole is path:
        names = [f"{section}.{x.replace('*', name)}" for x in (old, new)]
        raise ValueError(f"{names[0]} is another name of {names[1]}, and both are given; leave out one")


def _is_elsewhere(setting: str) -> str:
    return f"{setting} is {RENAMED[''][setting]} now; set it in the config of the experiment"


def _parts(old: str) -> List[str]:
    """Return the keys, below the section, of a setting, or of the mapping whose items are settings."""
    return [part for part in old.split(".") if part != "*"]


def _items(section: str, former: Mapping[str, Any]) -> Iterator[Tuple[str, str, Any]]:
    """Return for each setting its former name, the name at the *, and its value."""
    for old, value in former.items():
        if old.endswith("*") and not isinstance(value, Mapping):
            raise ValueError(f"{section}.{old[:-2]}={value!r}; give a mapping")
        items = _as_mappings(value)
        yield from ((old, name, item) for name, item in (items.items() if old.endswith("*") else [("", items)]))


def _separate_settings(cls: Any, current: Dict[str, Any], are_keywords: bool) -> Mapping[str, Any]:
    """Add the terms that a section has by default, and return the settings of the section.

    Terms lose the parameters that are those of the section: in a file the ones by default, and in Python, where
    ``dataclasses.replace`` gives all terms of the config before, each that equals the section's.
    """
    terms = current.get("terms", {})
    if not isinstance(terms, Mapping):
        raise ValueError(f"{cls.section}.terms={terms!r}; give a mapping")
    factory: Any = next(f.default_factory for f in fields(cls) if f.name == "terms")
    default = _as_mappings(factory())
    settings = _settings_of(cls.section, {**default, **terms} if are_keywords else default)

    def own(name: str, term: Mapping[str, Any]) -> Dict[str, Any]:
        return {key: x for key, x in term.get("params", {}).items() if key not in settings or x != settings[key]}

    current["terms"] = {**_with_params(default, own), **(_with_params(terms, own) if are_keywords else terms)}
    return settings


def _settings_of(section: str, terms: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the former settings of a section: what the first of its terms has, or the former default."""
    settings = dict(SETTINGS[section])
    for term in reversed(list(terms.values())):
        params = _find(term, ["params"])
        settings.update({key: params[key] for key in settings if key in params} if isinstance(params, Mapping) else {})
    return settings


def _taken(name: str, func: Any) -> Collection[str]:
    """Return the parameters for which the function of a term got the settings of the section."""
    func = str(func or name)
    if ":" not in func:
        return _TAKEN.get(func, ())
    with contextlib.suppress(Exception):  # which the construction of the environment reports
        return [p.name for p in inspect.signature(import_object(func)).parameters.values() if p.default is p.empty]
    return ()


def _filled(name: str, term: Mapping[str, Any], settings: Mapping[str, Any]) -> Dict[str, Any]:
    """Return the parameters of a term, and the settings of the section for those that it takes and does not name."""
    taken = _taken(name, term.get("func"))
    return {**{key: x for key, x in settings.items() if key in taken}, **term.get("params", {})}


def _with_params(
    terms: Mapping[str, Any], params_of: Callable[[str, Mapping[str, Any]], Dict[str, Any]]
) -> Dict[str, Any]:
    """Return terms with other parameters; what has no parameters by name is left to the checks of the config."""
    return {
        name: {**term, "params": params_of(name, term)}
        if isinstance(term, Mapping) and isinstance(term.get("params", {}), Mapping)
        else term
        for name, term in terms.items()
    }


def _put(values: Dict[str, Any], path: Sequence[str], item: Any) -> None:
    for part in path[:-1]:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise ValueError(f"{'.'.join(path)}: {part}={values!r}; give a mapping")
    values[path[-1]] = item


def _find(value: Any, path: Sequence[str]) -> Any:
    """Return what is at a path of a config, or of nested mappings, or _MISSING."""
    for part in path:
        value = value.get(part, _MISSING) if isinstance(value, Mapping) else getattr(value, part, _MISSING)
    return value


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


def former_setting(cfg: Any, name: str) -> Any:
    """Return a setting of a config by its former name; another name is an AttributeError."""
    section = type(cfg).section
    if f"{section}.{name}" in RENAMED[""]:
        raise AttributeError(_is_elsewhere(f"{section}.{name}"))
    if name in SETTINGS.get(section, {}):
        return _settings_of(section, cfg.terms)[name]
    if (section, name) == ("env.rewards", "weights"):
        own = {key: term.func or not SETTINGS[section].keys() >= term.params.keys() for key, term in cfg.terms.items()}
        return {key: term if own[key] else term.weight for key, term in cfg.terms.items()}
    new = next((new for old, new in RENAMED.get(section, {}).items() if old in (name, f"{name}.*")), None)
    if new is None:
        raise AttributeError(f"{type(cfg).__name__} has no setting '{name}'")
    head, star, tail = new.partition(".*")
    found = _find(cfg, head.split("."))
    if not star:
        return {} if found is _MISSING else found
    own = {key: item for key, item in found.items() if name != "more_observations" or key not in _OWN_GROUPS}
    return {key: getattr(item, tail[1:]) if tail else item for key, item in own.items()}
