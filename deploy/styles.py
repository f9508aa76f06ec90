"""What a policy that walks in several styles is told in each control step: the style, and the clocks of the feet.

Needs numpy.

    policy = OnnxPolicy("policy.onnx", joint_names)
    styles = Styles(policy)
    while True:  # once in policy.control_period seconds
        targets = policy(**styles.next("pace", command), command=command, base_quat=..., joint_pos=..., ...)
"""

from typing import Any, Dict, List, Sequence

import numpy as np


class Styles:
    """The styles of a policy with a ``description``; ``names`` are theirs."""

    def __init__(self, policy: Any):
        commands = policy.description.get("commands", {})
        self.names: List[str] = list(commands.get("style", {}).get("styles", ()))
        if not self.names:
            raise ValueError("the policy has no styles: commands.style.styles of its description is empty")
        clock = commands.get("foot_clock", {})
        self._rhythms, self._dead_zone = clock.get("rhythms", ()), clock.get("dead_zone", 0.0)
        self._control_period = policy.control_period
        self.phase = 0.0
        """Phase of the gait [cycles]."""

    def next(self, name: str, command: Sequence[float]) -> Dict[str, np.ndarray]:
        """Return the arguments of the policy for the next control step by name, for a style and a velocity command."""
        if name not in self.names:
            raise ValueError(f"style={name}; the policy has {', '.join(self.names)}")
        chosen = self.names.index(name)
        told = {"style": np.eye(len(self.names), dtype=np.float32)[chosen]}
        if not self._rhythms:
            return told
        rhythm = self._rhythms[chosen]
        self.phase = (self.phase + self._control_period / rhythm["period"]) % 1.0
        moves = np.square(np.asarray(command, np.float32)).sum() > self._dead_zone**2
        return {**told, "foot_clock": moves * _clock(self.phase, rhythm["touchdown"], rhythm["duty"])}


def _clock(phase: float, touchdown: Sequence[float], duty: Sequence[float]) -> np.ndarray:
    """Return sines and then cosines of the clocks [2 F]; half a turn is the time of a foot on the floor."""
    since, stance = (phase - np.asarray(touchdown)) % 1.0, np.asarray(duty)
    turns = np.where(since < stance, 0.5 * since / stance, 0.5 + 0.5 * (since - stance) / (1 - stance))
    angle = 2 * np.pi * turns
    return np.concatenate((np.sin(angle), np.cos(angle))).astype(np.float32)
