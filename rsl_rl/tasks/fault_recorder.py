"""Record the last control steps of every robot, for fault dumps."""

from __future__ import annotations

from typing import Dict, Mapping, Optional, Sequence

import torch
from torch import Tensor

from rsl_rl.sim.base import Sim
from rsl_rl.utils.tensors import FirstOccurrence

NUM_STEPS = 8
"""Number of control steps that are recorded."""


class FaultRecorder:
    """Record states of N robots and inputs of the engine in the last control steps, and save those of the first robot
    that breaks for each cause."""

    def __init__(self, sim: Sim, causes: Sequence[str], inputs_per_step: int = 1):
        self._sim = sim
        self._step = 0
        self._first = FirstOccurrence(causes, sim.device)
        states = sim.physics_state()
        self._states = states.new_zeros(NUM_STEPS, *states.shape)
        shape = (NUM_STEPS, inputs_per_step, len(states), len(sim.joint_names))
        self._inputs = torch.zeros(shape, device=sim.device)

    def before_step(self) -> None:
        """Record the state before a control step."""
        self._sim.physics_state(out=self._states[self._step % NUM_STEPS])
        self._step += 1

    def record_inputs(self, inputs: Sequence[Tensor]) -> None:
        """Record what the engine got in the control step: joint targets or torques [N, J], of all physics steps or of
        each."""
        slot = self._inputs[(self._step - 1) % NUM_STEPS]
        for own, given in zip(slot, inputs):
            own.copy_(given)

    def after_step(self, broken: Tensor, rows: Mapping[str, Tensor]) -> None:
        """Save the record of the first robot that breaks for each cause, broken [causes, N], with its ``rows`` of
        tensors [N, ...]."""
        past = {"states": self._states.transpose(0, 1), "targets": self._inputs.permute(2, 0, 1, 3)}
        self._first.record(broken, self._step, {**past, **rows})

    def read(self, cause: str) -> Optional[Dict[str, Tensor]]:
        """Return the index of the robot ("environment"), the "states" [steps, S] before its last steps, the oldest
        first, the "targets" [steps, J], or [steps, physics steps, J], and the rows; None if no robot broke for that
        cause."""
        event = self._first.read(cause)
        if event is None:
            return None
        step = int(event.pop("step"))
        order = [slot % NUM_STEPS for slot in range(max(0, step - NUM_STEPS), step)]
        targets = event["targets"][order]
        return {**event, "states": event["states"][order], "targets": targets.squeeze(1)}
