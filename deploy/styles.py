"""Run a policy that walks in several styles: tell it the style, and the clocks of the feet.

Needs numpy, and onnx_policy.py for the policy.

    policy = StyledPolicy(OnnxPolicy("policy.onnx", joint_names), "pace")
    targets = policy(command=command, base_quat=..., joint_pos=..., ...)  # once in policy.control_period seconds
    policy.style = "bound"  # from the next call on
"""

from typing import Any, Dict, List

import numpy as np


class StyledPolicy:
    """A policy in one of its styles; all else is that of the policy. An empty style is the first one.

    ``phase`` is that of the gait in cycles; it goes on when the style changes.
    """

    def __init__(self, policy: Any, style: str = ""):
        commands = policy.description.get("commands", {})
        self._policy, self._styles = policy, Styles(commands.get("style", {}), commands.get("foot_clock", {}))
        self.style, self.phase = style or self._styles.names[0], 0.0
        self._styles.number_of(self.style)

    def __call__(self, **readings: Any) -> np.ndarray:
        """Return the joint targets of the policy for readings, which are those of its own call."""
        return np.asarray(self._policy(**self.told(), **readings))

    def told(self) -> Dict[str, np.ndarray]:
        """Return the style and the clocks of the next control step, as arguments of the policy."""
        chosen = self._styles.number_of(self.style)
        self.phase = (self.phase + self._policy.control_period / self._styles.periods[chosen]) % 1.0
        return self._styles.told(chosen, self.phase)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._policy, name)


class Styles:
    """The styles of a policy's description, and the rhythm of each: ``commands.style`` and ``commands.foot_clock``."""

    def __init__(self, style: Any, foot_clock: Any):
        self.names: List[str] = list(style.get("styles", ()))
        rhythms = foot_clock.get("rhythms", ())
        if not self.names or len(rhythms) not in (0, len(self.names)):
            have = f"{len(self.names)} styles and {len(rhythms)} rhythms"
            raise ValueError(f"the policy has {have}; give the description of a policy with a rhythm for each style")
        self.periods = [one.get("period", 0.0) for one in rhythms] or [1.0] * len(self.names)
        self._feet = [(np.array(one.get("touchdown", ())), np.array(one.get("duty", ()))) for one in rhythms]
        for name, period, (touchdown, duty) in zip(self.names, self.periods, self._feet):
            if not period > 0 or touchdown.shape != duty.shape or not ((duty > 0) & (duty < 1)).all():
                what = "a period above 0, and touchdown and duty of each foot, the latter from 0 to 1"
                raise ValueError(f"the rhythm of the style {name} is unusable; give {what}")

    def number_of(self, name: str) -> int:
        """Return the number of a style."""
        if name not in self.names:
            raise ValueError(f"style={name}; the policy has {', '.join(self.names)}")
        return self.names.index(name)

    def told(self, number: int, phase: float) -> Dict[str, np.ndarray]:
        """Return 1 for a style and 0 for the others, and sines and then cosines of the clocks of the feet [2 F]."""
        told = {"style": np.eye(len(self.names), dtype=np.float32)[number]}
        if not self._feet:
            return told
        touchdown, duty = self._feet[number]
        since = (phase - touchdown) % 1.0  # half a turn of a clock is the time of the foot on the floor
        turns = np.where(since < duty, 0.5 * since / duty, 0.5 + 0.5 * (since - duty) / (1 - duty))
        angle = 2 * np.pi * turns
        return {**told, "foot_clock": np.concatenate((np.sin(angle), np.cos(angle))).astype(np.float32)}
