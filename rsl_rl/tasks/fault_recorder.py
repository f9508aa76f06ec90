"""The last steps of every robot, from which a broken one is explained."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence

import torch
from torch import Tensor

from rsl_rl.sim.base import Sim
from rsl_rl.utils.first_events import FirstEvents

NUM_STEPS = 8
"""Control steps that are remembered."""


class FlightRecorder:
    """Remembers state and joint targets of the last control steps of N robots, and keeps those of the first robot that
    breaks for each cause."""

    def __init__(self, sim: Sim, causes: Sequence[str]):
        self._sim = sim
        self._step = 0
        self._first = FirstEvents(causes, sim.device)
        states = sim.physics_state()
        self._states = states.new_zeros(NUM_STEPS, *states.shape)
        self._targets = torch.zeros(NUM_STEPS, len(states), len(sim.joint_names), device=sim.device)

    def before_step(self, joint_targets: Tensor) -> None:
        """Remember where a control step with joint targets [N, J] begins."""
        slot = self._step % NUM_STEPS
        self._sim.physics_state(out=self._states[slot])
        self._targets[slot] = joint_targets
        self._step += 1

    def after_step(self, broken: Tensor, rows: Mapping[str, Tensor]) -> None:
        """Keep what led to the step just taken where broken [causes, N] says so for the first time, and what came of
        it, ``rows`` of tensors [N, ...]."""
        past = {"states": self._states.transpose(0, 1), "targets": self._targets.transpose(0, 1)}
        self._first.record(broken, self._step, {**past, **rows})

    def read(self, cause: str) -> Optional[Dict[str, Tensor]]:
        """Return the robot's number ("environment"), "states" [steps, S] before each of its last steps, the oldest
        first, "targets" [steps, J] and the rows; None where nothing broke for that cause."""
        event = self._first.read(cause)
        if event is None:
            return None
        step = int(event.pop("step"))
        order = [slot % NUM_STEPS for slot in range(max(0, step - NUM_STEPS), step)]
        return {**event, "states": event["states"][order], "targets": event["targets"][order]}
