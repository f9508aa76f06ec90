"""Config classes of legged_gym and of repositories made from it, for their exported TorchScript policies.

The file is read and never run: class attributes are literal values, and base classes are found in the files that it
imports them from. The order of the joints is that of Isaac Gym and not in the file.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from rsl_rl.contracts.contract import Contract
from rsl_rl.contracts.draft import Draft, lost, numbers, per_joint, plain_draft, section
from rsl_rl.contracts.gym_layout import scales_of, terms_of_size
from rsl_rl.contracts.unitree_rl_gym import PERIOD
from rsl_rl.utils.config_io import short_repr
from rsl_rl.utils.files import atomic_write, read_file
from rsl_rl.utils.text import is_utf8

KIND = "legged_gym"
CONVENTION = "convention of legged_gym"
MAX_SIZE = 1_000_000
"""Largest config file [bytes]."""
_SCALES = {"base_lin_vel": "lin_vel", "base_ang_vel": "ang_vel", "joint_pos": "dof_pos", "joint_vel": "dof_vel"}
_RANGES = ("lin_vel_x", "lin_vel_y", "ang_vel_yaw")


def recognises(path: Path) -> bool:
    """Return whether a file is of this format."""
    return path.suffix == ".py"


def read(path: Path, given: Mapping[str, Any]) -> Draft:
    """Read a config class; ``given`` needs joint_names, and may have observations."""
    cfg = _config_of(path)
    place = f"{path.name}: {{}}".format
    control, env = section(cfg, "control", ""), section(cfg, "env", "")
    values: Dict[str, Any] = {}
    sources: Dict[str, str] = {}

    def keep(name: str, value: Any, source: str) -> None:
        values[name], sources[name] = value, source

    if control.get("control_type") not in (None, "P"):
        raise ValueError(
            f"control.control_type={short_repr(control['control_type'])}; the contract has P, joint targets"
        )
    period = numbers(section(cfg, "sim", ""), "dt") * numbers(control, "decimation")
    keep("control_period", round(period, 9), place("sim.dt * control.decimation"))
    keep("action_scale", numbers(control, "action_scale"), place("control.action_scale"))
    normalization = section(cfg, "normalization", "")
    keep("action_clip", numbers(normalization, "clip_actions"), place("normalization.clip_actions"))
    keep("observation_clip", numbers(normalization, "clip_observations"), place("normalization.clip_observations"))
    ranges = section(section(cfg, "commands", ""), "ranges", "commands.")
    keep("command_ranges", [numbers(ranges, name, 2) for name in _RANGES], place("commands.ranges"))
    angles = section(section(cfg, "init_state", ""), "default_joint_angles", "init_state.")
    names = given.get("joint_names")
    if names is not None:
        keep("joint_names", names, "--set")
        if sorted(map(str, names)) != sorted(map(str, angles)):
            raise ValueError(
                f"joint_names={short_repr(names)}; init_state.default_joint_angles has {', '.join(angles)}"
            )
        keep("default_joint_pos", [numbers(angles, name) for name in names], place("init_state.default_joint_angles"))
        for gain in ("stiffness", "damping"):
            keep(gain, [_gain(control, gain, name) for name in names], place(f"control.{gain}, by part of the name"))
    if "observations" in given:
        keep("observations", given["observations"], "--set")
    else:
        scales = section(normalization, "obs_scales", "normalization.")
        known: Dict[str, Any] = {ours: numbers(scales, theirs) for ours, theirs in _SCALES.items()}
        known["command"] = [known["base_lin_vel"], known["base_lin_vel"], known["base_ang_vel"]]
        terms = terms_of_size(numbers(env, "num_observations"), len(angles), known, "env.num_observations")
        keep(
            "observations", terms, place("env.num_observations gives the terms, normalization.obs_scales their scales")
        )
        if terms[-1]["name"] == "gait_clock":
            keep(
                "commands", {"gait_clock": {"period": PERIOD, "dead_zone": None}}, "convention of unitree_rl_gym: 0.8 s"
            )
    return plain_draft(KIND, values, sources, CONVENTION)


def _gain(control: Mapping[str, Any], gain: str, joint: str) -> float:
    """Return the gain of a joint: of the last entry whose name is a part of the joint's, else 0."""
    found = 0.0
    entries = section(control, gain, "control.")
    for part in entries:
        if str(part) in joint:
            found = numbers(entries, part)
    return found


def _config_of(path: Path) -> Mapping[str, Any]:
    """Return the settings of the last class of a file that is a robot's config and not an algorithm's."""
    classes = _classes(path, depth=0, read={})
    own = [name for name, cfg in classes.items() if "control" in cfg and "init_state" in cfg]
    if not own:
        raise ValueError("there is no config class with control and init_state, nor a base class of one beside it")
    return classes[own[-1]]


def _classes(path: Path, depth: int, read: Dict[Path, Dict[str, Dict[str, Any]]]) -> Dict[str, Dict[str, Any]]:
    """Return the settings of each class of a file by its name, those of its base classes included.

    ``read`` has the classes of the files that were read before, and gets those of this one.
    """
    if path in read:
        return read[path]
    if depth > 10:
        raise ValueError(f"{path}: the base classes are more than 10 files away")
    if path.stat().st_size > MAX_SIZE or not is_utf8(path):
        raise ValueError(f"{path} is not a Python file of at most {MAX_SIZE // 1_000_000} MB")
    try:
        tree = ast.parse(read_file(path).decode())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise ValueError(f"{path} is not Python: {' '.join(str(error).split())[:200]}") from error
    found = read[path] = {}  # before those that it imports, which may import it
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            source = _file_of(node.module, path)
            if source is not None:
                imported = _classes(source, depth + 1, read)
                found.update({a.asname or a.name: imported[a.name] for a in node.names if a.name in imported})
        elif isinstance(node, ast.ClassDef):
            found[node.name] = _settings(node, found)
    return found


def _file_of(module: str, path: Path) -> Optional[Path]:
    """Return the file of a module in one of the folders around a file."""
    for folder in path.resolve().parents:
        candidate = folder.joinpath(*module.split(".")).with_suffix(".py")
        if candidate.is_file() and candidate != path.resolve():
            return candidate
    return None


def _settings(node: ast.ClassDef, outer: Mapping[str, Dict[str, Any]]) -> Dict[str, Any]:
    """Return the literal attributes and inner classes of a class, and of its bases."""
    settings: Dict[str, Any] = {}
    for base in node.bases:
        value: Any = outer
        for name in _dotted(base):
            value = value.get(name, {}) if isinstance(value, Mapping) else {}
        settings.update(value if isinstance(value, Mapping) else {})
    for item in node.body:
        if isinstance(item, ast.ClassDef):
            settings[item.name] = _settings(item, {**outer, **settings})
        elif isinstance(item, ast.Assign) and isinstance(item.targets[0], ast.Name):
            try:
                settings[item.targets[0].id] = ast.literal_eval(item.value)
            except (ValueError, TypeError, RecursionError, MemoryError):  # computed, so not read
                settings.pop(item.targets[0].id, None)
    return settings


def _dotted(node: ast.AST) -> List[str]:
    """Return the names of a dotted expression; empty for another one."""
    if isinstance(node, ast.Attribute):
        return [*_dotted(node.value), node.attr]
    return [node.id] if isinstance(node, ast.Name) else []


def write(contract: Contract, path: Path, network: Optional[Path] = None) -> List[str]:
    """Write a config class; return the names of the fields that it cannot carry."""
    scales = scales_of(contract, KIND)
    if isinstance(contract.action_scale, tuple) or contract.command_ranges is None:
        raise ValueError(f"{KIND} needs one action_scale for all joints, and command_ranges")
    lin, yaw = scales.get("base_lin_vel", 2.0), scales["base_ang_vel"]
    command = per_joint(scales["command"], 3)
    if "base_lin_vel" not in scales:
        lin = command[0]
    if command != [lin, lin, yaw]:
        raise ValueError(
            f"observations: {KIND} scales a command by those of the velocities; {short_repr(command)} is not"
        )
    names = contract.joint_names
    if any(own != other and own in other for own in names for other in names):
        raise ValueError(f"joint_names: {KIND} finds gains by a part of the name, and some names are a part of others")
    clip = contract.observation_clip, contract.action_clip
    lines = [
        '"""Config of an exported policy, written by rsl-rl contract convert."""',
        "",
        "",
        "class ExportedCfg:",
        *_section(
            "env", {"num_observations": sum(own.size for own in contract.observations), "num_actions": len(names)}
        ),
        *_section("init_state", {"default_joint_angles": dict(zip(names, contract.default_joint_pos))}),
        *_section(
            "control",
            {
                "control_type": "P",
                "stiffness": dict(zip(names, contract.stiffness)),
                "damping": dict(zip(names, contract.damping)),
                "action_scale": contract.action_scale,
                "decimation": 1,
            },
        ),
        *_section("sim", {"dt": contract.control_period}),
        "",
        "    class normalization:",
        f"        clip_observations = {1e9 if clip[0] is None else clip[0]!r}",
        f"        clip_actions = {1e9 if clip[1] is None else clip[1]!r}",
        "",
        "        class obs_scales:",
        *(f"            {theirs} = {({'base_lin_vel': lin, **scales})[ours]!r}" for ours, theirs in _SCALES.items()),
        "",
        "    class commands:",
        "        class ranges:",
        *(f"            {name} = {list(pair)!r}" for name, pair in zip(_RANGES, contract.command_ranges)),
    ]
    atomic_write(path, ("\n".join(lines) + "\n").encode())
    kept = ["control_period", "action_scale", "action_clip", "observation_clip", "command_ranges", "default_joint_pos"]
    kept += ["stiffness", "damping", "observations"]
    if contract.commands in ({}, {"gait_clock": {"period": PERIOD, "dead_zone": None}}):
        kept.append("commands")
    return lost(contract, kept)


def _section(name: str, settings: Mapping[str, Any]) -> List[str]:
    """Return the lines of an inner class."""
    return ["", f"    class {name}:", *(f"        {key} = {value!r}" for key, value in settings.items())]
