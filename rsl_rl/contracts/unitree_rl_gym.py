"""Deploy configurations of Unitree's unitree_rl_gym (deploy/deploy_mujoco/configs), for TorchScript policies.

Joints are in the order of the robot's model. The order of the observations is in their program: it follows from
num_obs. Humanoids have the sine and cosine of a phase of 0.8 s. The policies of the humanoids keep their memory.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional

from rsl_rl.contracts.contract import Contract
from rsl_rl.contracts.draft import Draft, lost, numbers, per_joint, plain_draft
from rsl_rl.contracts.gym_layout import scales_of, terms_of_size
from rsl_rl.utils.config_io import read_yaml, short_repr, write_yaml

KIND = "unitree_rl_gym"
CONVENTION = "convention of unitree_rl_gym"
PERIOD = 0.8
"""Period of the phase [s], a constant of their program."""
_SCALES = {
    "base_lin_vel": "lin_vel_scale",
    "base_ang_vel": "ang_vel_scale",
    "joint_pos": "dof_pos_scale",
    "joint_vel": "dof_vel_scale",
}


def recognises(path: Path) -> bool:
    """Return whether a file is of this format."""
    return path.suffix in (".yaml", ".yml") and {"kps", "default_angles"} <= set(read_yaml(path, skip_objects=True))


def read(path: Path, given: Mapping[str, Any]) -> Draft:
    """Read a configuration; ``given`` may have joint_names and observations."""
    file = read_yaml(path, skip_objects=True)
    joints, place = numbers(file, "num_actions"), f"{path.name}: {{}}".format
    if not isinstance(joints, int) or not 1 <= joints <= 1000:
        raise ValueError(f"num_actions={short_repr(joints)}; give the number of joints")
    values: Dict[str, Any] = {}
    sources: Dict[str, str] = {}

    def keep(name: str, value: Any, source: str) -> None:
        values[name], sources[name] = value, source

    if "control_dt" in file:
        keep("control_period", numbers(file, "control_dt"), place("control_dt"))
    else:
        period = numbers(file, "simulation_dt") * numbers(file, "control_decimation")
        keep("control_period", round(period, 9), place("simulation_dt * control_decimation"))
    for ours, theirs in (("stiffness", "kps"), ("damping", "kds"), ("default_joint_pos", "default_angles")):
        keep(ours, numbers(file, theirs, joints), place(theirs))
    keep("action_scale", numbers(file, "action_scale"), place("action_scale"))
    keep("action_clip", None, f"{CONVENTION}: actions are not clipped")
    scales = {ours: numbers(file, theirs) for ours, theirs in _SCALES.items() if theirs in file}
    scales["command"] = numbers(file, "cmd_scale", 3)
    if "observations" not in given:
        terms = terms_of_size(numbers(file, "num_obs"), joints, scales, "num_obs")
        unscaled = [own["name"] for own in terms if own["name"] in _SCALES and own["name"] not in scales]
        if unscaled:
            raise ValueError(f"{_SCALES[unscaled[0]]} is missing; give the scale of {unscaled[0]}")
        keep("observations", terms, place("num_obs gives the terms, *_scale their scales"))
        if terms[-1]["name"] == "gait_clock":
            keep("commands", {"gait_clock": {"period": PERIOD, "dead_zone": None}}, f"{CONVENTION}: 0.8 s")
    if isinstance(file.get("max_cmd"), list):
        keep("command_ranges", [[-x, x] for x in numbers(file, "max_cmd", 3)], place("max_cmd"))
    for name in ("joint_names", "observations"):
        if name in given:
            keep(name, given[name], "--set")
    return plain_draft(KIND, values, sources, CONVENTION)


def write(contract: Contract, path: Path, network: Optional[Path] = None) -> List[str]:
    """Write a configuration; return the names of the fields that it cannot carry."""
    scales = scales_of(contract, KIND)
    if isinstance(contract.action_scale, tuple):
        raise ValueError(f"action_scale={short_repr(contract.action_scale)}; {KIND} has one for all joints")
    joints = len(contract.joint_names)
    content = {
        "policy_path": "" if network is None else str(network),
        "simulation_dt": contract.control_period / 10,
        "control_decimation": 10,
        "kps": list(contract.stiffness),
        "kds": list(contract.damping),
        "default_angles": list(contract.default_joint_pos),
        **{theirs: scales[ours] for ours, theirs in _SCALES.items() if ours in scales},
        "action_scale": contract.action_scale,
        "cmd_scale": per_joint(scales["command"], 3),
        "num_actions": joints,
        "num_obs": sum(own.size for own in contract.observations),
        "cmd_init": [0.0, 0.0, 0.0],
    }
    ranges = contract.command_ranges
    kept = ["control_period", "stiffness", "damping", "default_joint_pos", "action_scale", "observations"]
    if ranges is not None and all(low == -high for low, high in ranges):
        content["max_cmd"] = [high for _, high in ranges]
        kept.append("command_ranges")
    if contract.commands in ({}, {"gait_clock": {"period": PERIOD, "dead_zone": None}}):
        kept.append("commands")
    write_yaml(content, path)
    return lost(contract, kept)
