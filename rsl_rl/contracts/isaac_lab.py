"""IO_descriptors.yaml of Isaac Lab, with the env.yaml of the same training.

Observations are clipped and then scaled, each term with its own history. env.yaml, beside the file or in params/, gives
the ranges of the commands and the largest torques.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from rsl_rl.contracts.contract import Contract
from rsl_rl.contracts.draft import Draft, lost, numbers, other_name, per_joint, plain_draft, section
from rsl_rl.contracts.isaac_terms import TERMS as COMMON_TERMS
from rsl_rl.contracts.isaac_terms import clip_of, limits_of, ranges_of, read_ranges, read_term
from rsl_rl.utils.config_io import read_yaml, short_repr, write_yaml
from rsl_rl.utils.registry import values_by_name

KIND = "isaac_lab"
CONVENTION = "convention of Isaac Lab"
TERMS = {**COMMON_TERMS, "generated_commands": "command"}
"""Their names of observation terms, and ours."""
_ACTION = "joint_position_action"


def recognises(path: Path) -> bool:
    """Return whether a file is of this format."""
    return path.suffix in (".yaml", ".yml") and "articulations" in read_yaml(path, skip_objects=True)


def read(path: Path, given: Mapping[str, Any]) -> Draft:
    """Read IO_descriptors.yaml, and env.yaml if there is one."""
    file, place = read_yaml(path, skip_objects=True), f"{path.name}: {{}}".format
    actions = file.get("actions")
    if not isinstance(actions, list) or len(actions) != 1 or not isinstance(actions[0], Mapping):
        raise ValueError(f"actions={short_repr(actions)}; give one action, {_ACTION}")
    action = actions[0]
    if action.get("name") != _ACTION:
        raise ValueError(f"actions: {short_repr(action.get('name'))}; the contract has joint targets, {_ACTION}")
    names = action.get("joint_names")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError(f"actions: joint_names={short_repr(names)}; give names")
    robot = section(section(file, "articulations", ""), "robot", "articulations.")
    if robot.get("joint_names") != names:
        raise ValueError("actions: joint_names are not those of articulations.robot in the same order")
    joints = len(names)
    values: Dict[str, Any] = {
        "joint_names": names,
        "control_period": numbers(section(file, "scene", ""), "dt"),
        "default_joint_pos": numbers(robot, "default_joint_pos", joints),
        "stiffness": numbers(robot, "default_joint_stiffness", joints),
        "damping": numbers(robot, "default_joint_damping", joints),
        "action_scale": numbers(action, "scale", joints if isinstance(action.get("scale"), list) else None),
        "observations": _terms(file, joints),
        "action_clip": None,
        "history_order": "term",
    }
    offset = action.get("offset")
    if per_joint(offset, joints) != values["default_joint_pos"]:
        raise ValueError(f"actions: offset={short_repr(offset)} is not default_joint_pos; joint_pos has one zero")
    sources = {name: place(f"articulations.robot.default_joint_{name}") for name in ("stiffness", "damping")}
    sources.update(
        joint_names=place("actions joint_names"),
        control_period=place("scene.dt"),
        default_joint_pos=place("articulations.robot.default_joint_pos"),
        action_scale=place("actions scale"),
        observations=place("observations.policy"),
        action_clip=f"{CONVENTION}: actions are not clipped",
        history_order=CONVENTION,
    )
    for ours, owner, theirs in (
        ("target_limits", action, "clip"),
        ("joint_limits", robot, "default_joint_pos_limits"),
    ):
        if owner.get(theirs) is not None:
            values[ours], sources[ours] = owner[theirs], place(theirs)
    draft = plain_draft(KIND, values, sources, CONVENTION)
    for env in (
        path.with_name("env.yaml"),
        path.parent / "params" / "env.yaml",
        path.parent.parent / "params" / "env.yaml",
    ):
        if env.is_file():
            return draft.with_values(
                _of_env(read_yaml(env, skip_objects=True), names), f"{env.name}: scene.robot.actuators, commands"
            )
    return draft


def _terms(file: Mapping[str, Any], joints: int) -> List[Dict[str, Any]]:
    listed = section(file, "observations", "").get("policy")
    if not isinstance(listed, list) or not listed:
        raise ValueError(f"observations.policy={short_repr(listed)}; give a list of terms")
    found = []
    for entry in listed:
        if not isinstance(entry, Mapping):
            raise ValueError(f"observations.policy: {short_repr(entry)}; give a term")
        name, where = str(entry.get("name")), "observations.policy"
        found.append(read_term(name, TERMS, joints, section(entry, "overloads", f"{where}.{name}."), where))
    return found


def _of_env(env: Mapping[str, Any], names: List[str]) -> Dict[str, Any]:
    """Return the fields that env.yaml gives: ranges of the commands, and torques where all joints have them."""
    found: Dict[str, Any] = {}
    ranges = read_ranges(env.get("commands"))
    if ranges is not None:
        found["command_ranges"] = ranges
    scene = env.get("scene")
    robot = scene.get("robot") if isinstance(scene, Mapping) else None
    actuators = robot.get("actuators") if isinstance(robot, Mapping) else None
    limits: Dict[str, float] = {}
    for group in actuators.values() if isinstance(actuators, Mapping) else ():
        limit = group.get("effort_limit_sim") or group.get("effort_limit") if isinstance(group, Mapping) else None
        patterns = group.get("joint_names_expr") if isinstance(group, Mapping) else None
        if isinstance(limit, Mapping):
            limits.update({str(name): value for name, value in limit.items() if isinstance(value, (int, float))})
        elif isinstance(limit, (int, float)) and isinstance(patterns, list):
            limits.update({str(name): float(limit) for name in patterns})
    if limits:
        found["torque_limits"] = list(values_by_name(limits, names, "env.yaml: effort_limit"))
    return found


def write(contract: Contract, path: Path, network: Optional[Path] = None) -> List[str]:
    """Write IO_descriptors.yaml, and env.yaml beside it; return the names of the fields that they cannot carry."""
    env_file = path.with_name("env.yaml")
    if env_file.exists() or env_file.is_symlink():
        raise ValueError(f"{env_file} exists, and {KIND} writes it too; name a file in another folder")
    joints, names = len(contract.joint_names), list(contract.joint_names)
    terms = [
        {
            "name": other_name(own.name, TERMS, KIND),
            "mdp_type": "Observation",
            "overloads": {
                "clip": clip_of(own),
                "flatten_history_dim": True,
                "history_length": own.history if own.history > 1 else 0,
                "scale": list(own.scale) if isinstance(own.scale, tuple) else own.scale,
            },
            "shape": [own.size],
        }
        for own in contract.observations
    ]
    scale, default = contract.action_scale, list(contract.default_joint_pos)
    limits = contract.joint_limits
    robot = {
        "default_joint_damping": list(contract.damping),
        "default_joint_pos": default,
        "default_joint_stiffness": list(contract.stiffness),
        "joint_names": names,
    }
    if limits is not None:
        robot["default_joint_pos_limits"] = [list(pair) for pair in limits]
    action = {
        "action_type": "JointAction",
        "clip": limits_of(contract),
        "joint_names": names,
        "mdp_type": "Action",
        "name": _ACTION,
        "offset": default,
        "scale": list(scale) if isinstance(scale, tuple) else scale,
        "shape": [joints],
    }
    content = {
        "actions": [action],
        "articulations": {"robot": robot},
        "observations": {"policy": terms},
        "scene": {"dt": contract.control_period},
    }
    actuators = {
        name: {"joint_names_expr": [re.escape(name)], "effort_limit_sim": limit}
        for name, limit in zip(names, contract.torque_limits)
    }
    env: Dict[str, Any] = {"scene": {"robot": {"actuators": actuators}}}
    kept = ["joint_names", "control_period", "default_joint_pos", "stiffness", "damping", "action_scale"]
    kept += ["observations", "target_limits", "joint_limits", "torque_limits"]
    if contract.command_ranges is not None:
        env["commands"] = {"base_velocity": {"ranges": ranges_of(contract)}}
        kept.append("command_ranges")
    write_yaml(content, path)
    write_yaml(env, env_file)
    return lost(contract, kept)
