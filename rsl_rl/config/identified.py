"""Parameters that `rsl-rl identify` has found, and the task of a robot that has them.

A task gets them before anything else reads it: :func:`with_identified` is a function from config to config.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Dict, Iterable, Mapping, Tuple

from rsl_rl.config.base import Settings, require, require_field
from rsl_rl.config.mdp import EventTerm, RandomizationConfig
from rsl_rl.config.sim import ActuatorConfig, ActuatorNetworkConfig
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.utils.config_io import from_dict, read_yaml
from rsl_rl.utils.registry import values_by_name

FORMAT = 1

ROBOT = "robot"
"""Name of a parameter that is one number for the robot."""

Triple = Tuple[float, float, float]
"""Value, and lowest and highest value of its interval."""

_PER_JOINT = ("armature", "motor_strength", "viscous_friction", "joint_friction", "torque_limit", "encoder_offset")
_OF_ROBOT = {"action_delay": (ROBOT,), "payload": (ROBOT,), "friction": (ROBOT,), "trunk_com": ("x", "y", "z")}
"""Parameters with a value for each joint, and the names of the values of the others."""

_OF_ACTUATOR = {"armature": "armature", "joint_friction": "friction", "torque_limit": "torque_limit"}
"""Parameters that are settings of the actuator, and the names of the settings."""


@dataclass(frozen=True)
class Identified(Settings):
    """Content of a file of `rsl-rl identify` or `rsl-rl train-actuator`."""

    format: int = FORMAT
    """Version of the file."""
    robot: str = ""
    """Name of the robot in the contract."""
    joint_names: Tuple[str, ...] = ()
    """Joints in the policy's order."""
    logs: Tuple[str, ...] = ()
    """Names of the logs."""
    parameters: Dict[str, Dict[str, Triple]] = field(default_factory=dict)
    """Parameters that the logs determine: value, lowest and highest value of the 90 % interval, by the name of a joint,
    by x, y, z, or by "robot"."""
    model: Dict[str, Dict[str, float]] = field(default_factory=dict)
    """Values of the model file by joint: of parameters of the actuator, and of the viscous friction."""
    undetermined: Dict[str, str] = field(default_factory=dict)
    """Parameters that the logs do not determine, and why."""
    actuator: Dict[str, Any] = field(default_factory=dict)
    """Settings of a network that replaces the actuator, as of ActuatorNetworkConfig."""

    section: ClassVar[str] = ""

    def __post_init__(self):
        super().__post_init__()
        require_field(self, "format", self.format == FORMAT, f"; this program reads {FORMAT}")
        for where in ("parameters", "model"):
            for kind, values in getattr(self, where).items():
                own = self.joint_names if kind in _PER_JOINT else _OF_ROBOT.get(kind, ())
                known = (*_PER_JOINT, *_OF_ROBOT)
                require(kind in known, f"{where}.{kind}: there is no such parameter; give {', '.join(known)}")
                require(
                    bool(own),
                    f"joint_names is empty; give the joints of the robot, as {where}.{kind} has a value of each",
                )
                require(bool(values), f"{where}.{kind} has no value; give {', '.join(own)}")
                unknown = [name for name in values if name not in own]
                require(not unknown, f"{where}.{kind} has {', '.join(unknown)}; give {', '.join(own)}")
        for kind, values in self.parameters.items():
            for name, (value, low, high) in values.items():
                fits = low <= value <= high
                require(fits, f"parameters.{kind}.{name}: give a value between its lowest and highest value")
                require(kind != "motor_strength" or low > 0.0, f"parameters.{kind}.{name}: give values above 0")


def read_identified(path: Path) -> Identified:
    """Read a file of `rsl-rl identify` or `rsl-rl train-actuator`; what does not fit is a ValueError."""
    if not path.is_file():
        raise FileNotFoundError(f"no file {path}; rsl-rl identify LOG --contract policy.json writes identified.yaml")
    try:
        found = from_dict(Identified, read_yaml(path))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if not found.parameters and not found.actuator:
        raise ValueError(f"{path} has no parameters and no actuator; give a file of rsl-rl identify")
    if found.actuator and not Path(str(found.actuator.get("path", ""))).is_absolute():
        network = (path.parent / str(found.actuator.get("path", ""))).resolve()
        found = replace(found, actuator={**found.actuator, "path": str(network)})
    return found


def with_identified_files(task: Any, paths: Iterable[Path]) -> Any:
    """Return a task with what some files have found; a network first, which has the motors in itself."""
    for found in sorted(map(read_identified, paths), key=lambda one: not one.actuator):
        task = with_identified(task, found)
    return task


def with_identified(task: Any, found: Identified) -> Any:
    """Return a task whose robots have the parameters that were found.

    Armature, dry friction and limits of the torque become settings of the actuator. All parameters are drawn for each
    robot within their intervals, by events in place of the task's own. What was not determined stays as in the task,
    and so does the friction of the floor: a robot walks on many floors.
    """
    if not isinstance(task, LeggedRobotConfig):
        raise ValueError(f"--env.identified is for tasks with a legged robot; {type(task).__name__} has none")
    if found.robot and task.robot != found.robot:
        raise ValueError(f"--env.identified: the file is of the robot '{found.robot}', the task has '{task.robot}'")
    if found.actuator:
        own = {name: value for name, value in vars(task.control.actuator).items() if name == "torque_limit"}
        actuator = from_dict(ActuatorNetworkConfig, {**own, **found.actuator}, "actuator")
        task = replace(task, control=replace(task.control, actuator=actuator))
    if not found.parameters:
        return task
    has_network = isinstance(task.control.actuator, ActuatorNetworkConfig)
    if not has_network:
        task = replace(task, control=replace(task.control, actuator=_actuator(task.control.actuator, found)))
    return replace(task, randomization=_randomization(task, found, has_network))


def _actuator(actuator: ActuatorConfig, found: Identified) -> ActuatorConfig:
    """Return the actuator with the values that were found, and those of the model for other joints."""
    settings: Dict[str, Any] = {}
    for kind, setting in _OF_ACTUATOR.items():
        values = found.parameters.get(kind, {})
        if values:
            every = {**found.model.get(kind, {}), **{name: triple[0] for name, triple in values.items()}}
            settings[setting] = {re.escape(name): value for name, value in every.items()}
    return replace(actuator, **settings)


def _randomization(task: LeggedRobotConfig, found: Identified, has_network: bool) -> RandomizationConfig:
    """Return the randomisation within the intervals. A network has the properties of the motors in itself."""
    randomization, model = task.randomization, {}
    for kind, values in found.parameters.items():
        if kind == "payload":
            model["payload"] = values[ROBOT][1:]
        elif kind == "action_delay" and not has_network:
            _, low, high = values[ROBOT]
            steps = (math.floor(low / task.sim.dt + 1e-6), math.ceil(high / task.sim.dt - 1e-6))
            randomization = randomization.with_terms({kind: _event(steps)})
        elif kind == "viscous_friction" and not has_network:
            randomization = randomization.with_terms({"damping": _event(_damping(task, found))})
            model["damping_scale"] = (1.0, 1.0)
        elif kind in ("encoder_offset", "trunk_com") or (
            kind in ("armature", "joint_friction", "motor_strength") and not has_network
        ):
            ranges = {re.escape(name): triple[1:] for name, triple in values.items()}
            randomization = randomization.with_terms({kind: _event(ranges)})
            if kind == "motor_strength":
                model["stiffness_scale"] = (1.0, 1.0)
    return randomization.with_params("model_parameters", **model) if model else randomization


def _event(numbers: Any) -> EventTerm:
    return EventTerm("startup", params={"range": numbers})


def _damping(task: LeggedRobotConfig, found: Identified) -> Mapping[str, Tuple[float, float]]:
    """Return ranges of the factor of each joint's damping gain that has the effect of the viscous friction found,
    beyond that of the model."""
    gains = values_by_name(task.control.damping, found.joint_names, "env.control.damping")
    own, strength = found.model.get("viscous_friction", {}), found.parameters.get("motor_strength", {})
    ranges = {}
    for name, gain in zip(found.joint_names, gains):
        if name in found.parameters["viscous_friction"]:
            _, *ends = found.parameters["viscous_friction"][name]
            scale = gain * strength.get(name, (1.0,))[0]
            low, high = (max(0.01, 1.0 + (end - own.get(name, 0.0)) / scale) for end in ends)
            ranges[re.escape(name)] = (low, high)
    return ranges
