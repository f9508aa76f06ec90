"""Named disturbances: conditions of an evaluation that are equal for all policies, whatever they were trained with."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, Mapping

from rsl_rl.config.mdp import EventTerm, RandomizationConfig, Range
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.utils.registry import suggest

DESCRIPTIONS: Dict[str, str] = {
    "none": "the robot of the model file",
    "heavy_trunk": "5 kg on the trunk",
    "slippery": "friction 0.15",
    "delay": "20 ms between an action and its torque",
    "weak_motors": "0.6 of the torque",
    "pushes": "changes of the horizontal velocity by up to 1.5 m/s in x and in y, every 4 s",
}
"""What each disturbance is."""

_DELAY = 0.02  # [s]


def disturbed(cfg: LeggedRobotConfig, names: str) -> LeggedRobotConfig:
    """Return the task of an evaluation without its randomisation, with the contacts of the model file and with
    disturbances, joined by "+"."""
    randomization = RandomizationConfig.none().with_terms({"start_state": cfg.randomization.terms["start_state"]})
    for name in names.split("+"):
        if name not in DESCRIPTIONS:
            raise ValueError(f"--disturbance {name}: known: {', '.join(DESCRIPTIONS)}.{suggest(name, DESCRIPTIONS)}")
        randomization = _with(randomization, name, cfg.sim.dt)
    return replace(cfg, randomization=randomization, sim=replace(cfg.sim, contact_impedance=0.0))


def _with(randomization: RandomizationConfig, name: str, dt: float) -> RandomizationConfig:
    """Return the settings with a disturbance; ``dt`` is the physics step [s]."""
    steps = round(_DELAY / dt)
    if name in _MODEL_PARAMETERS:
        return randomization.with_params("model_parameters", **_MODEL_PARAMETERS[name])
    events = {
        "pushes": {"push": EventTerm("interval", 4.0, params={"push_velocity": 1.5})},
        "delay": {"action_delay": EventTerm("startup", params={"range": (steps, steps)})},
        "weak_motors": {"motor_strength": EventTerm("startup", params={"range": (0.6, 0.6)})},
    }
    return randomization.with_terms(events.get(name, {}))


_MODEL_PARAMETERS: Mapping[str, Mapping[str, Range]] = {
    "heavy_trunk": {"payload": (5.0, 5.0)},
    "slippery": {"friction": (0.15, 0.15)},
}
