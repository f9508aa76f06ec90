"""Physics on a GPU: MuJoCo Warp, with the model file of the CPU engine.

The tensors share memory with the engine's arrays, a control step is one recorded graph, and there is no host
synchronisation after the construction. Warp's CPU device runs the same code on one thread, for tests.
"""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
from __future__ import annotations

import contextlib
import gc
import os
from typing import Any, Callable, ContextManager, Dict, Iterator, Optional, Sequence, Union

import mujoco_warp as mjw  # before warp, so that the error names this package if both are missing
import torch
import warp as wp
from torch import Tensor

from rsl_rl.config.sim import SimConfig
from rsl_rl.sim.base import Drive, RobotPoseVel
from rsl_rl.sim.mujoco_robots import NO_MIDPHASE, NO_SENSORS, MujocoRobots
from rsl_rl.sim.warp_contacts import correct_contacts, max_constraints, max_contacts
from rsl_rl.utils.height_field import HeightField

_RANDOMISED = ("geom_friction", "body_mass", "body_inertia", "actuator_gainprm", "actuator_biasprm")
_DERIVED = ("body_subtreemass", "dof_invweight0", "body_invweight0", "actuator_acc0")
"""Fields of the model with a copy for each world: parameters that are set, and values derived from masses and inertias.
"""

_FULL = int(
    mjw.OverflowType.NEFC
    | mjw.OverflowType.NJMAX_NNZ
    | mjw.OverflowType.BROADPHASE
    | mjw.OverflowType.NARROWPHASE
    | mjw.OverflowType.CCD
    | mjw.OverflowType.CONTACT_MATCH
)
"""Overflows that lose contacts. The engine also counts solvers that stop at their last iteration, and shapes that touch
50 triangles of a height field, from where on MuJoCo on a CPU finds no further contacts either."""

_MAX_STATE = 1e10
"""Limit of positions and velocities above which MuJoCo on a CPU resets a world."""


class MujocoWarpSim(MujocoRobots):
    """N worlds on a GPU, or on Warp's CPU device.

    A world that diverges is in its default state when ``step`` returns. The worlds share a contact buffer; when it is
    full, the world of a lost contact is unknown, and ``overflowed`` marks all worlds. The constructor limits Warp's log
    messages in this process to errors.
    """

    engine = "mujoco_warp"

    def __init__(
        self,
        model_path: Union[str, os.PathLike],
        num_envs: int,
        cfg: SimConfig,
        device: str = "cuda",
        ground: Optional[HeightField] = None,
    ):
        wp.config.log_level = wp.LOG_ERROR  # otherwise it prints a line for each kernel
        wp.init()
        super().__init__(model_path, num_envs, cfg, _usable_device(device), ground)
        self._warp_device = wp.device_from_torch(self.device)
        self.model.opt.disableflags &= ~NO_MIDPHASE  # Warp does not support the flag
        contacts = cfg.max_contacts or max_contacts(self.model)
        try:
            with wp.ScopedDevice(self._warp_device):
                own_fields = _RANDOMISED + _DERIVED + (("pair_friction",) if self.model.npair else ())
                self._model = mjw.put_model(self.model, dict.fromkeys(own_fields, num_envs))
                self._set_options()
                if ground is not None:
                    correct_contacts(self._model, self.model, ground)
                self._data = mjw.make_data(
                    self.model, num_envs, nconmax=contacts, njmax=max_constraints(self.model, contacts)
                )
        except NotImplementedError as error:
            raise ValueError(
                f"MuJoCo Warp cannot simulate {model_path}: {error} Use --sim mujoco, or a model without that"
            ) from error
        self._qpos, self._qvel = wp.to_torch(self._data.qpos), wp.to_torch(self._data.qvel)
        self._ctrl, self._warmstart = wp.to_torch(self._data.ctrl), wp.to_torch(self._data.qacc_warmstart)
        self._sensors, self._torque = wp.to_torch(self._data.sensordata), wp.to_torch(self._data.actuator_force)
        self._overflow = wp.to_torch(self._data.overflow)
        self._applied_force = wp.to_torch(self._data.xfrc_applied).view(num_envs, self.model.nbody, 6)
        for name, view in self._engine_pose_vel()._asdict().items():
            setattr(self, name, view)  # without a copy
        self._default_qpos = torch.as_tensor(self.model.qpos0, dtype=self._qpos.dtype, device=self.device)
        self._graphs: Dict[str, Any] = {}
        self._fields: Dict[str, Tensor] = {}
        self._compile()

    def _set_options(self) -> None:
        option = self._model.opt
        option.warn_overflow = 0  # it would print from a kernel; see ``overflowed``
        fixed_order = torch.are_deterministic_algorithms_enabled()
        option.deterministic = int(mjw.DeterminismType.ALL if fixed_order else mjw.DeterminismType.NONE)
        if self.device.type == "cuda":
            option.graph_conditional = wp.is_conditional_graph_supported()  # by the driver

    def _compile(self) -> None:
        """Compile all kernels, which is not possible while a graph is recorded, and restore the state."""
        with self._torch_stream():
            mjw.step(self._model, self._data)
            self._sense_feet()
        self._restore(torch.ones_like(self.diverged))

    def step(self, joint_targets: Tensor, num_substeps: int) -> None:
        self._ctrl.copy_(joint_targets)
        self._write_force()
        self._overflow.zero_()
        self._launch(f"{num_substeps} steps", lambda: self._advance(num_substeps))
        self._end_step()

    def step_each(self, drive: Drive, num_substeps: int) -> None:
        self._write_force()
        self._overflow.zero_()
        for i in range(num_substeps):
            self._ctrl.copy_(drive(i))
            if i < num_substeps - 1:
                self._launch("a step without sensors", self._advance_without_sensors)
            else:
                self._launch("1 steps", lambda: self._advance(1))
        self._end_step()

    def _end_step(self) -> None:
        self.overflowed.copy_((self._overflow & _FULL) != 0)
        valid = (self._qpos.abs() <= _MAX_STATE).all(dim=1) & (self._qvel.abs() <= _MAX_STATE).all(dim=1)
        self.diverged.copy_(~valid)  # comparisons with NaN are false
        self._restore(self.diverged)
        self._refresh()
        self._clear_outputs(self.diverged)

    def _advance(self, num_substeps: int) -> None:
        for _ in range(num_substeps - 1):
            self._advance_without_sensors()
        mjw.step(self._model, self._data)

    def _advance_without_sensors(self) -> None:
        with self._without_sensors():
            mjw.step(self._model, self._data)

    @contextlib.contextmanager
    def _without_sensors(self) -> Iterator[None]:
        """Skip the sensors, also in a graph that is recorded now."""
        self._model.opt.disableflags |= NO_SENSORS
        try:
            yield
        finally:
            self._model.opt.disableflags = self.model.opt.disableflags

    def _sense_feet(self) -> None:
        """Compute foot positions and velocities, and their sensors, for the current state."""
        for compute in (mjw.kinematics, mjw.com_pos, mjw.sensor_pos, mjw.com_vel, mjw.sensor_vel):
            compute(self._model, self._data)

    def _restore(self, mask: Tensor) -> None:
        """Reset the worlds marked in mask [N] to the model's default state."""
        rows = mask.unsqueeze(1)
        self._qpos.copy_(torch.where(rows, self._default_qpos, self._qpos))
        self._qvel.masked_fill_(rows, 0.0)
        self._warmstart.masked_fill_(rows, 0.0)

    def _clear_outputs(self, mask: Tensor) -> None:
        rows = mask.unsqueeze(1)
        self.joint_torque.masked_fill_(rows, 0.0)
        for output in (self.contact_force, self.foot_pos, self.foot_vel, self.foot_up):
            output.masked_fill_(rows.unsqueeze(1), 0.0)

    def reset(self, mask: Tensor, pose_vel: RobotPoseVel) -> None:
        rows = mask.unsqueeze(1)
        qpos, qvel = self._in_engine_terms(pose_vel)
        self._qpos.copy_(torch.where(rows, qpos, self._qpos))
        self._qvel.copy_(torch.where(rows, qvel, self._qvel))
        self._warmstart.masked_fill_(rows, 0.0)
        self._launch("feet", self._sense_feet)
        self._clear_outputs(mask)
        for feet, kind in ((self.foot_pos, "_pos"), (self.foot_vel, "_vel"), (self.foot_up, "_up")):
            feet.copy_(torch.where(rows.unsqueeze(1), self._sensed(kind), feet))

    def set_root_velocity(self, mask: Tensor, lin_vel: Tensor, ang_vel: Tensor) -> None:
        twist = torch.cat((lin_vel, ang_vel), dim=1)
        self._qvel[:, :6] = torch.where(mask.unsqueeze(1), twist, self._qvel[:, :6])

    def state_buffers(self) -> Sequence[Tensor]:
        return self._qpos, self._qvel

    def _refresh_state(self) -> None:
        """Do nothing: the state tensors share memory with the engine."""

    def _field(self, name: str) -> Tensor:
        if name not in self._fields:
            self._fields[name] = self._own_field(name)
        return self._fields[name]

    def _own_field(self, name: str) -> Tensor:
        """Return a field of the model; one that all worlds share is first copied for each."""
        owner, attribute = (self._model.opt, name[4:]) if name.startswith("opt.") else (self._model, name)
        array = getattr(owner, attribute)
        if array.shape[0] == self.num_envs:
            return wp.to_torch(array)
        own = wp.to_torch(array).repeat_interleave(self.num_envs, dim=0).contiguous()
        setattr(owner, attribute, wp.from_torch(own, dtype=array.dtype))
        self._graphs.clear()  # they read the shared array
        return own

    def _update_constants(self) -> None:
        with self._torch_stream():
            mjw.set_const(self._model, self._data)

    def _launch(self, name: str, work: Callable[[], None]) -> None:
        """Run a function of the engine in torch's stream, as a graph that is recorded at the first call."""
        if name not in self._graphs:
            self._graphs[name] = self._record(work)
        on_gpu = self.device.type == "cuda"
        wp.capture_launch(self._graphs[name], stream=wp.stream_from_torch(self.device) if on_gpu else None)

    def _record(self, work: Callable[[], None]) -> Any:
        collecting = gc.isenabled()
        gc.disable()  # freeing an array during the recording would invalidate it
        try:
            with wp.ScopedDevice(self._warp_device), wp.ScopedCapture() as capture:
                work()
        finally:
            if collecting:
                gc.enable()
        return capture.graph

    def _torch_stream(self) -> ContextManager[Any]:
        """Run the engine in torch's stream."""
        if self.device.type == "cpu":
            return wp.ScopedDevice(self._warp_device)
        return wp.ScopedStream(wp.stream_from_torch(self.device))


def _usable_device(device: str) -> torch.device:
    """Return a device that both torch and Warp can use."""
    wanted = torch.device(device)
    if wanted.type not in ("cpu", "cuda"):
        raise ValueError(f"sim_device={device}: the backend 'mujoco_warp' runs on cuda, or on cpu for tests")
    if wanted.type == "cuda" and not (torch.cuda.is_available() and wp.is_cuda_available()):
        raise ValueError(
            f"sim_device={device}: there is no GPU that torch and Warp can use; take --sim mujoco --sim_device cpu"
        )
    return torch.device("cuda", torch.cuda.current_device()) if str(wanted) == "cuda" else wanted
