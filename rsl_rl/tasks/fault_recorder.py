"""Record the last control steps of every robot, for fault dumps."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence

import torch
from torch import Tensor

from rsl_rl.sim.base import Sim
from rsl_rl.utils.first_occurrence import FirstOccurrence

NUM_STEPS = 8
"""Number of control steps that are recorded."""


class FaultRecorder:
    """Record states and joint targets of the last control steps of N robots, and save those of the first robot that
    breaks for each cause."""

    def __init__(self, sim: Sim, causes: Sequence[str]):
        self._sim = sim
        self._step = 0
        self._first = FirstOccurrence(causes, sim.device)
        states = sim.physics_state()
        self._states = states.new_zeros(NUM_STEPS, *states.shape)
        self._targets = torch.zeros(NUM_STEPS, len(states), len(sim.joint_names), device=sim.device)

    def before_step(self, joint_targets: Tensor) -> None:
        """Record the state before a control step and its joint targets [N, J]."""
        slot = self._step % NUM_STEPS
        self._sim.physics_state(out=self._states[slot])
        self._targets[slot] = joint_targets
        self._step += 1

    def after_step(self, broken: Tensor, rows: Mapping[str, Tensor]) -> None:
        """Save the record of the first robot that breaks for each cause, broken [causes, N], with its ``rows`` of
        tensors [N, ...]."""
        past = {"states": self._states.transpose(0, 1), "targets": self._targets.transpose(0, 1)}
        self._first.record(broken, self._step, {**past, **rows})

    def read(self, cause: str) -> Optional[Dict[str, Tensor]]:
        """Return the index of the robot ("environment"), the "states" [steps, S] before its last steps, the oldest
        first, the "targets" [steps, J] and the rows; None if no robot broke for that cause."""
        event = self._first.read(cause)
        if event is None:
            return None
        step = int(event.pop("step"))
        order = [slot % NUM_STEPS for slot in range(max(0, step - NUM_STEPS), step)]
        return {**event, "states": event["states"][order], "targets": event["targets"][order]}
