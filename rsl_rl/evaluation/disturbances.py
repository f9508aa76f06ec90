"""Named disturbances: conditions of an evaluation that are equal for all policies, whatever they were trained with."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, Mapping

from rsl_rl.config.mdp import EventTerm, RandomizationConfig
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
    terms: Dict[str, EventTerm] = {}
    settings: Dict[str, object] = {}
    for name in names.split("+"):
        if name not in DESCRIPTIONS:
            raise ValueError(f"--disturbance {name}: known: {', '.join(DESCRIPTIONS)}.{suggest(name, DESCRIPTIONS)}")
        terms.update(_terms(cfg).get(name, {}))
        settings.update(_SETTINGS.get(name, {}))
    own = cfg.randomization
    randomization = replace(
        RandomizationConfig.none(),
        initial_joint_scale=own.initial_joint_scale,
        initial_velocity=own.initial_velocity,
        terms=terms,
        **settings,  # type: ignore[arg-type]
    )
    return replace(cfg, randomization=randomization, sim=replace(cfg.sim, contact_impedance=0.0))


_SETTINGS: Mapping[str, Mapping[str, object]] = {
    "heavy_trunk": {"payload": (5.0, 5.0)},
    "slippery": {"friction": (0.15, 0.15)},
    "pushes": {"push_interval": 4.0, "push_velocity": 1.5},
}


def _terms(cfg: LeggedRobotConfig) -> Mapping[str, Mapping[str, EventTerm]]:
    steps = round(_DELAY / cfg.sim.dt)
    return {
        "delay": {"action_delay": EventTerm("startup", params={"range": (steps, steps)})},
        "weak_motors": {"motor_strength": EventTerm("startup", params={"range": (0.6, 0.6)})},
    }
