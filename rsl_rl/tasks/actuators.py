"""Actuators: joint targets of a control step become joint targets or torques of its physics steps.

An actuator with a delay, or whose torque the engine cannot compute, runs before each physics step. The ideal PD loop
without delay is computed by the engine for all physics steps at once.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import torch
from torch import Tensor

from rsl_rl.config.sim import ActuatorConfig, ActuatorNetworkConfig, DCMotorConfig
from rsl_rl.sim.base import Sim
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.registry import values_by_name
from rsl_rl.utils.tensors import Stored
from rsl_rl.utils.text import one_line

_OF_ENGINE = {"torque_limit": "torque_limit", "armature": "armature", "friction": "joint_friction"}
"""Settings that are parameters of the engine, and their names there."""


class Actuator(Stored):
    """Ideal PD loops of the engine, the base class of actuators.

    Parameters of the robots: ``action_delay`` [N, 1] in physics steps, and ``encoder_offset`` [N, J], which the joint
    encoders add to the positions [rad]. They are in ``state.parameters``.
    """

    stored = ("_past_targets",)

    def __init__(self, cfg: ActuatorConfig, sim: Sim, state: RobotState, decimation: int):
        self.cfg, self._sim, self._state, self._decimation = cfg, sim, state, decimation
        for setting, parameter in _OF_ENGINE.items():
            if getattr(cfg, setting) is not None:
                sim.require_parameter(parameter, f"{cfg.section}.{setting}")
                value = self._per_joint(setting).expand(sim.num_envs, -1)
                sim.set_parameters({parameter: value})
        if cfg.torque_limit is not None:
            sim.torque_limits = self._per_joint("torque_limit")
        self._past_targets: Optional[Tensor] = None  # [control steps, N, J] the newest first, if there are delays
        self.delay_steps = (0, 0)  # fewest and most physics steps between a target and its torque
        # what the engine got in the last control step: one tensor for all physics steps, or one for each
        self.inputs: List[Tensor] = []

    def _per_joint(self, setting: str) -> Tensor:
        values = values_by_name(getattr(self.cfg, setting), self._sim.joint_names, f"{self.cfg.section}.{setting}")
        return torch.tensor(values, device=self._sim.device)

    @property
    def inputs_per_step(self) -> int:
        """Number of inputs of the engine in a control step: 1, or one for each physics step."""
        return 1 if self._past_targets is None else self._decimation

    def allow_delay(self, least: int, largest: int) -> None:
        """Make room for delays of ``least`` to ``largest`` physics steps."""
        self.delay_steps = least, largest
        control_steps = 1 + math.ceil(largest / self._decimation)
        if largest and (self._past_targets is None or len(self._past_targets) < control_steps):
            default = self._state.default_joint_pos.expand(self._sim.num_envs, -1)
            self._past_targets = default.repeat(control_steps, 1, 1)
            self._robots = torch.arange(self._sim.num_envs, device=self._sim.device)

    def step(self, targets: Tensor) -> None:
        """Simulate one control step with joint targets [N, J]."""
        offset = self._state.parameters.get("encoder_offset")
        targets = targets if offset is None else targets - offset
        if self._past_targets is None:
            self._simulate(targets)
            return
        self._past_targets = torch.cat((targets.unsqueeze(0), self._past_targets[:-1]))
        self._simulate_each([self._delayed(i) for i in range(self._decimation)])

    def _delayed(self, substep: int) -> Tensor:
        """Return the targets that arrive at a physics step [N, J]."""
        assert self._past_targets is not None
        delay = self._state.parameters["action_delay"][:, 0]
        ago = ((delay - substep) / self._decimation).ceil().clamp(min=0).long()
        return self._past_targets[ago, self._robots]

    def _simulate(self, targets: Tensor) -> None:
        self.inputs = [targets]
        self._sim.step(targets, self._decimation)

    def _simulate_each(self, targets: Sequence[Tensor]) -> None:
        """Simulate one control step with targets of each physics step."""
        self.inputs = list(targets)
        self._sim.step_each(lambda i: targets[i], self._decimation)

    def reset(self, mask: Tensor) -> None:
        """Forget what is before the start of an episode, for the robots marked in mask [N]."""
        if self._past_targets is not None:
            self._past_targets = torch.where(mask.view(1, -1, 1), self._state.default_joint_pos, self._past_targets)

    def describe(self) -> Dict[str, Any]:
        """Return type and numbers of the actuator for deployment, lists in the order of the joints."""
        return {"type": "pd"}


class ExplicitActuator(Actuator):
    """Base class of actuators whose torque is computed in torch before each physics step."""

    def __init__(self, cfg: ActuatorConfig, sim: Sim, state: RobotState, decimation: int):
        super().__init__(cfg, sim, state, decimation)
        sim.use_torques()

    @property
    def inputs_per_step(self) -> int:
        return self._decimation

    def torque(self, targets: Tensor) -> Tensor:
        """Return the torques [N, J] at the present state, before the engine's limit."""
        raise NotImplementedError

    def _simulate(self, targets: Tensor) -> None:
        self._simulate_each([targets] * self._decimation)

    def _simulate_each(self, targets: Sequence[Tensor]) -> None:
        self.inputs = []

        def drive(substep: int) -> Tensor:
            self.inputs.append(self.torque(targets[substep]))
            return self.inputs[-1]

        self._sim.step_each(drive, self._decimation)

    def _pd(self, targets: Tensor) -> Tensor:
        """Return the torque of the PD loop [N, J]."""
        sim = self._sim
        own = sim.parameters()
        stiffness, damping = (own.get(name, sim.nominal_parameter(name)) for name in ("stiffness", "damping"))
        return stiffness * (targets - sim.joint_pos) - damping * sim.joint_vel


class DCMotor(ExplicitActuator):
    """PD loops whose torque is limited by the speed of the joint, see :class:`DCMotorConfig`."""

    def __init__(self, cfg: DCMotorConfig, sim: Sim, state: RobotState, decimation: int):
        super().__init__(cfg, sim, state, decimation)
        self._stall, self._no_load = self._per_joint("stall_torque"), self._per_joint("no_load_speed")
        self._limit = sim.torque_limits

    def torque(self, targets: Tensor) -> Tensor:
        return self.saturate(self._pd(targets), self._sim.joint_vel)

    def saturate(self, torque: Tensor, velocity: Tensor) -> Tensor:
        """Limit torques [N, J] to what the voltage allows at velocities [N, J], and to the torque limit."""
        share = velocity / self._no_load
        largest = torch.minimum(self._stall * (1 - share), self._limit)
        smallest = torch.maximum(self._stall * (-1 - share), -self._limit)
        return torch.maximum(torch.minimum(torque, largest), smallest)

    def describe(self) -> Dict[str, Any]:
        return {"type": "dc_motor", "stall_torque": self._stall.tolist(), "no_load_speed": self._no_load.tolist()}


class ActuatorNetwork(ExplicitActuator):
    """A TorchScript network, see :class:`ActuatorNetworkConfig`."""

    stored = ("_past_targets", "_history")

    def __init__(self, cfg: ActuatorNetworkConfig, sim: Sim, state: RobotState, decimation: int):
        super().__init__(cfg, sim, state, decimation)
        self._cfg = cfg
        self._network = load_network(cfg.path, sim.device)
        rows, columns = sim.joint_pos.numel(), 2 * len(cfg.history)
        try:
            shape = list(self._network(torch.zeros(rows, columns, device=sim.device)).shape)
        except Exception as error:  # of any kind, from the network's own code
            reason = one_line(str(error))[-200:]
            raise ValueError(f"{cfg.section}.path={cfg.path} fails on inputs [{rows}, {columns}]: {reason}") from error
        if shape != [rows, 1]:
            raise ValueError(f"{cfg.section}.path={cfg.path} returns {shape}; it must return [{rows}, 1]")
        length = 1 + max(cfg.history)
        self._history = torch.zeros(
            2, length, *sim.joint_pos.shape, device=sim.device
        )  # errors, velocities; newest first
        self._times = torch.tensor(cfg.history, device=sim.device)

    @torch.no_grad()
    def torque(self, targets: Tensor) -> Tensor:
        sim, cfg = self._sim, self._cfg
        scaled = torch.stack(((targets - sim.joint_pos) * cfg.error_scale, sim.joint_vel * cfg.velocity_scale))
        self._history = torch.cat((scaled.unsqueeze(1), self._history[:, :-1]), dim=1)
        inputs = self._history.index_select(1, self._times).flatten(0, 1).flatten(1)  # [2 * history, N * J]
        return self._network(inputs.t()).view_as(targets) * cfg.torque_scale

    def reset(self, mask: Tensor) -> None:
        super().reset(mask)
        self._history.masked_fill_(mask.view(1, 1, -1, 1), 0.0)

    def describe(self) -> Dict[str, Any]:
        return {"type": "network", "path": self._cfg.path, "history": list(self._cfg.history)}


def load_network(path: str, device: torch.device) -> Any:
    """Load a TorchScript network; another file is a ValueError."""
    if not Path(path).is_file():
        raise ValueError(f"env.control.actuator.path={path}: there is no such file; give a TorchScript network")
    try:
        return torch.jit.load(path, map_location=device).eval()
    except Exception as error:  # a damaged file can cause any error
        reason = one_line(str(error))[:160]
        raise ValueError(f"env.control.actuator.path={path} is not a TorchScript network: {reason}") from error
