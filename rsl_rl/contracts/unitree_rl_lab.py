"""deploy.yaml of Unitree's unitree_rl_lab, which unitree_rl_mjlab has too.

Gains are in the order of the robot's motors, all else in the policy's; joint_ids_map gives the motor of each joint.
Scales and histories are those of Isaac Lab. The file has no names of joints, which follow from the robot.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from rsl_rl.contracts.contract import Contract
from rsl_rl.contracts.draft import UNITREE_MOTORS, Draft, lost, numbers, other_name, per_joint, plain_draft, section
from rsl_rl.contracts.isaac_terms import TERMS as COMMON_TERMS
from rsl_rl.contracts.isaac_terms import clip_of, limits_of, ranges_of, read_ranges, read_term
from rsl_rl.utils.config_io import read_yaml, short_repr, write_yaml

KIND = "unitree_rl_lab"
TERMS = {**COMMON_TERMS, "velocity_commands": "command", "gait_phase": "gait_clock"}
"""Their names of observation terms, and ours."""
CONVENTION = "convention of unitree_rl_lab"


def recognises(path: Path) -> bool:
    """Return whether a file is of this format."""
    return path.suffix in (".yaml", ".yml") and "joint_ids_map" in read_yaml(path, skip_objects=True)


def read(path: Path, given: Mapping[str, Any]) -> Draft:
    """Read deploy.yaml; ``given`` may have the robot's name, or joint_names."""
    file = read_yaml(path, skip_objects=True)
    motors = file.get("joint_ids_map")
    if not isinstance(motors, list) or not motors or not all(isinstance(i, int) and 0 <= i < 1000 for i in motors):
        raise ValueError(f"joint_ids_map={short_repr(motors)}; give the motor of each joint")
    if len(set(motors)) != len(motors):
        raise ValueError(f"joint_ids_map={short_repr(motors)}; name each motor once")
    joints, place = len(motors), "deploy.yaml: {}".format
    values: Dict[str, Any] = {"control_period": numbers(file, "step_dt")}
    sources = {"control_period": place("step_dt")}
    for name in ("stiffness", "damping"):
        values[name], sources[name] = _in_policy_order(file, name, motors), place(f"{name}, of motor joint_ids_map")
    action = section(section(file, "actions", ""), "JointPositionAction", "actions.")
    values["default_joint_pos"] = numbers(action, "offset", joints)
    sources["default_joint_pos"] = place("actions.JointPositionAction.offset")
    if numbers(file, "default_joint_pos", joints) != values["default_joint_pos"]:
        raise ValueError("default_joint_pos is not actions.JointPositionAction.offset; joint_pos has one zero")
    values["action_scale"] = numbers(action, "scale", joints)
    sources["action_scale"] = place("actions.JointPositionAction.scale")
    values["action_clip"], sources["action_clip"] = None, f"{CONVENTION}: actions are not clipped"
    if action.get("clip") is not None:  # of targets
        values["target_limits"], sources["target_limits"] = action["clip"], place("actions.JointPositionAction.clip")
    values["observations"], sources["observations"] = _terms(file, joints), place("observations")
    values["history_order"], sources["history_order"] = "term", CONVENTION
    ranges = read_ranges(section(file, "commands", ""))
    if ranges is not None:
        values["command_ranges"], sources["command_ranges"] = ranges, place("commands.base_velocity.ranges")
    phase = section(file, "observations", "").get("gait_phase")
    if isinstance(phase, Mapping):
        period = numbers(section(phase, "params", "observations.gait_phase."), "period")
        values["commands"] = {"gait_clock": {"period": period, "dead_zone": None}}
        sources["commands"] = place("observations.gait_phase.params")
    names = UNITREE_MOTORS.get(str(given.get("robot")))
    if names is not None and max(motors) < len(names):
        values["joint_names"] = [names[motor] for motor in motors]
        sources["joint_names"] = f"joint_ids_map and the order of the motors of {given['robot']}"
    if "joint_names" in given:
        values["joint_names"], sources["joint_names"] = given["joint_names"], "--set"
    return plain_draft(KIND, values, sources, CONVENTION)


def _in_policy_order(file: Mapping[str, Any], name: str, motors: List[int]) -> List[float]:
    """Return a list of the motors in the policy's order; files of robots that lack motors have one entry a joint."""
    given = file.get(name)
    count = len(given) if isinstance(given, list) else 0
    order = motors if max(motors) < count else [sorted(motors).index(motor) for motor in motors]
    if count < len(motors):
        raise ValueError(f"{name}={short_repr(given)}; give a number for each motor")
    listed = numbers(file, name, count)
    return [listed[i] for i in order]


def _terms(file: Mapping[str, Any], joints: int) -> List[Dict[str, Any]]:
    listed = section(file, "observations", "")
    return [read_term(name, TERMS, joints, section(listed, name, "observations."), "observations") for name in listed]


def write(contract: Contract, path: Path, network: Optional[Path] = None) -> List[str]:
    """Write deploy.yaml; return the names of the fields that it cannot carry."""
    if contract.command_ranges is None:
        raise ValueError(f"{KIND} needs command_ranges")
    names, joints = list(contract.joint_names), len(contract.joint_names)
    order = UNITREE_MOTORS.get(contract.robot, ())
    motors = [list(order).index(name) for name in names] if set(names) <= set(order) else list(range(joints))
    by_motor = [0.0] * (max(motors) + 1)
    gains = {name: list(by_motor) for name in ("stiffness", "damping")}
    for name, listed in gains.items():
        for motor, gain in zip(motors, getattr(contract, name)):
            listed[motor] = gain
    terms = {}
    for own in contract.observations:
        params: Dict[str, Any] = {"command_name": "base_velocity"} if own.name == "command" else {}
        if own.name == "gait_clock":
            params = {"period": contract.commands["gait_clock"]["period"]}
        terms[other_name(own.name, TERMS, KIND)] = {
            "params": params,
            "clip": clip_of(own),
            "scale": per_joint(own.scale, own.size),
            "history_length": own.history,
        }
    default = list(contract.default_joint_pos)
    content = {
        "joint_ids_map": motors,
        "step_dt": contract.control_period,
        **gains,
        "default_joint_pos": default,
        "commands": {"base_velocity": {"ranges": {**ranges_of(contract), "heading": None}}},
        "actions": {
            "JointPositionAction": {
                "clip": limits_of(contract),
                "joint_names": [".*"],
                "scale": per_joint(contract.action_scale, joints),
                "offset": default,
                "joint_ids": None,
            }
        },
        "observations": terms,
    }
    write_yaml(content, path)
    kept = ["control_period", "stiffness", "damping", "default_joint_pos", "action_scale", "observations"]
    kept += ["command_ranges", "target_limits"]
    clock = contract.commands.get("gait_clock", {})
    if set(contract.commands) <= {"gait_clock"} and clock.get("dead_zone") is None:
        kept.append("commands")
    return lost(contract, kept)
