"""Worlds of MuJoCo Warp: on a GPU, or on Warp's CPU device, which runs the same code on one thread.

States have float32 and share memory with the engine's arrays. A step is one recorded graph, and nothing waits for the
GPU. It has run on Warp's CPU device only.
"""

# pyright: reportAttributeAccessIssue=false
from __future__ import annotations

import contextlib
import copy
import gc
import itertools
import os
from typing import Any, Callable, ContextManager, Dict, Iterator, Optional, Tuple

import mujoco
import numpy as np
import torch
import warp as wp
from torch import Tensor

wp.config.log_level = wp.LOG_ERROR  # otherwise it prints a line for each kernel
import mujoco_warp as mjw  # noqa: E402

from gymapi_mujoco.worlds import Report, Worlds  # noqa: E402

_DERIVED = ("body_subtreemass", "dof_invweight0", "body_invweight0", "actuator_acc0")
"""Fields of the model that follow from masses, inertias and poses."""

_PLACES = ("body_pos", "body_quat", "geom_pos")

_FULL = int(
    mjw.OverflowType.NEFC
    | mjw.OverflowType.NJMAX_NNZ
    | mjw.OverflowType.BROADPHASE
    | mjw.OverflowType.NARROWPHASE
    | mjw.OverflowType.CCD
)
"""Overflows of the buffers for contacts; others are limits that MuJoCo has on a CPU too, and solvers' last iterations.
"""

_MAX_STATE = 1e10
"""Limit of positions and velocities above which MuJoCo resets a world."""

VARIABLE = "GYMAPI_MUJOCO_CONTACTS"

_ON_PLANE = {int(mujoco.mjtGeom.mjGEOM_SPHERE): 1, int(mujoco.mjtGeom.mjGEOM_CAPSULE): 2}
"""Most contacts of a shape with a plane, by its type; of others it is the eight corners of a box."""

_ON_FIELD, _BETWEEN_TWO = 4, 8
"""Most contacts that MuJoCo Warp keeps of a shape with a height field, and of two shapes."""

_BETWEEN_ALL = 64
"""Room for contacts between all shapes of the actors: far more pairs exist than can touch at once."""

_MOST = 256
"""Room by default, whatever the number of shapes."""


class WarpWorlds(Worlds):
    """All worlds in one ``mujoco_warp.Data``."""

    dtype = torch.float32

    def __init__(self, model: mujoco.MjModel, num: int, device: torch.device):
        super().__init__(model, num, device)
        wp.init()
        self._warp_device = wp.device_from_torch(device)
        contacts, constraints = room(model)
        derived = [name for name in _DERIVED if model.nu or name != "actuator_acc0"]
        try:
            with wp.ScopedDevice(self._warp_device):
                self._model = mjw.put_model(model, dict.fromkeys(derived, num))
                self._data = mjw.make_data(model, num, nconmax=contacts, njmax=constraints)
        except (NotImplementedError, ValueError) as error:
            raise NotImplementedError(
                f"prepare_sim: MuJoCo Warp cannot simulate this ({error}); use --sim_device cpu without "
                "GYMAPI_MUJOCO_ENGINE=warp"
            ) from error
        self._set_options()
        self._fields: Dict[str, Tensor] = {}
        self._results: Dict[str, Tensor] = {}
        self._graphs: Dict[str, Any] = {}
        self._scratch: Any = None
        self._moved = False
        self._qpos, self._qvel, self._overflow = (self.state(name) for name in ("qpos", "qvel", "overflow"))
        self._lost = Report(
            f"environment {{}} has lost contacts: there is room for {contacts} per environment on average; set "
            f"{VARIABLE} to a larger number",
            device,
        )
        self._compile()

    def _set_options(self) -> None:
        option = self._model.opt
        option.warn_overflow = 0  # it would print from a kernel
        fixed_order = torch.are_deterministic_algorithms_enabled()
        option.deterministic = int(mjw.DeterminismType.ALL if fixed_order else mjw.DeterminismType.NONE)
        if self.device.type == "cuda":
            option.graph_conditional = wp.is_conditional_graph_supported()  # by the driver

    def _compile(self) -> None:
        """Compile the kernels, which is not possible while a graph is recorded, and restore the state."""
        wp.synchronize_device(self._warp_device)  # the arrays were made in a stream of Warp's own
        kept = [self.state(name) for name in ("qpos", "qvel", "qacc_warmstart", "time")]
        before = [state.clone() for state in kept]
        with self._stream():
            mjw.step(self._model, self._data)
        for state, value in zip(kept, before):
            state.copy_(value)

    def state(self, name: str) -> Tensor:
        return wp.to_torch(getattr(self._data, name))

    def result(self, name: str) -> Tensor:
        if name not in self._results:
            self._results[name] = self.state(name)
        return self._results[name]

    def values(self, name: str) -> Tensor:
        return wp.to_torch(getattr(*self._owner(name)))

    def _owner(self, name: str) -> Tuple[Any, str]:
        return (self._model.opt, name[4:]) if name.startswith("opt.") else (self._model, name)

    def field(self, name: str) -> Tensor:
        self._moved |= name in _PLACES
        if name not in self._fields:
            owner, attribute = self._owner(name)
            array = getattr(owner, attribute)
            own = wp.to_torch(array).repeat_interleave(self.num, dim=0).contiguous()
            setattr(owner, attribute, wp.from_torch(own, dtype=array.dtype))
            self._graphs.clear()  # they read the array that the worlds shared
            self._fields[name] = own
        return self._fields[name]

    def update_constants(self) -> None:
        with self._stream():
            mjw.set_const(self._model, self._data)
            if self._moved:
                self._move_static_geoms()
        self._moved = False

    def _move_static_geoms(self) -> None:
        """Compute the poses of geoms on fixed bases, which a step leaves out."""
        welds = self._model.body_weldid
        self._model.body_weldid = wp.ones_like(welds)
        try:
            mjw.kinematics(self._model, self._data)
        finally:
            self._model.body_weldid = welds

    def step(self, substeps: int) -> Optional[Tensor]:
        self._overflow.zero_()
        self._launch(f"{substeps} steps", lambda: self._advance(substeps))
        self._lost.add((self._overflow & _FULL) != 0)
        valid = (self._qpos.abs() <= _MAX_STATE).all(dim=1) & (self._qvel.abs() <= _MAX_STATE).all(dim=1)
        broken = ~valid  # comparisons with NaN are false
        for result in self._results.values():
            result.masked_fill_(broken.view(-1, *[1] * (result.dim() - 1)), 0.0)
        return broken

    def _advance(self, substeps: int) -> None:
        with self._without_sensors():
            for _ in range(substeps - 1):
                mjw.step(self._model, self._data)
        mjw.step(self._model, self._data)

    @contextlib.contextmanager
    def _without_sensors(self) -> Iterator[None]:
        """Leave out the forces on bodies, which a sensor asks for: they are those of the last substep."""
        flags = self._model.opt.disableflags
        self._model.opt.disableflags = flags | int(mujoco.mjtDisableBit.mjDSBL_SENSOR)
        try:
            yield
        finally:
            self._model.opt.disableflags = flags

    def forward(self) -> None:
        self._launch("forward", self._compute)

    def _compute(self) -> None:
        for compute in (mjw.kinematics, mjw.com_pos, mjw.crb, mjw.com_vel):
            compute(self._model, self._data)

    def ray(self, start: np.ndarray, direction: np.ndarray, worlds: np.ndarray) -> Tuple[np.ndarray, np.ndarray]:
        self.forward()
        rays, rows = start.shape[1], torch.from_numpy(worlds).to(self.device)

        def points(given: np.ndarray) -> Any:
            """Return Warp's array of vectors for all worlds; those of worlds that were not asked for do not matter."""
            values = torch.ones(self.num, rays, 3, device=self.device)
            values[rows] = torch.from_numpy(given).float().to(self.device)
            return wp.from_torch(values, dtype=wp.vec3)

        distance = torch.empty(self.num, rays, device=self.device)
        geom, normal = torch.empty_like(distance, dtype=torch.int32), torch.empty(*distance.shape, 3).to(distance)
        out: Any = (wp.from_torch(distance), wp.from_torch(geom), wp.from_torch(normal, dtype=wp.vec3))
        every_group: Any = wp.types.vector(6, int)(*[-1] * 6)
        with self._stream():
            no_body = wp.full(rays, -1, dtype=int)
            mjw.rays(self._model, self._data, points(start), points(direction), every_group, True, no_body, *out)
        return distance[rows].cpu().numpy(), geom[rows].cpu().numpy()

    def get_data(self, world: int, data: Any) -> None:
        data.qpos[:], data.qvel[:] = self._qpos[world].cpu().numpy(), self._qvel[world].cpu().numpy()

    def get_model(self, world: int) -> Any:
        self._scratch = self._scratch or copy.copy(self.model)
        for name, field in self._fields.items():
            owner, attribute = (self._scratch.opt, name[4:]) if name.startswith("opt.") else (self._scratch, name)
            getattr(owner, attribute)[:] = field[world].cpu().numpy()
        return self._scratch

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

    def _stream(self) -> ContextManager[Any]:
        """Run the engine in torch's stream."""
        if self.device.type == "cpu":
            return wp.ScopedDevice(self._warp_device)
        return wp.ScopedStream(wp.stream_from_torch(self.device))


def room(model: Any) -> Tuple[int, int]:
    """Return the numbers of contacts and of constraint rows of a world; ``GYMAPI_MUJOCO_CONTACTS`` sets the first."""
    given = os.environ.get(VARIABLE, "")
    if given and (not given.isdecimal() or int(given) < 1):
        raise ValueError(f"{VARIABLE}={given}: give the number of contacts that an environment has room for")
    contacts = int(given) if given else min(_MOST, max(1, _contacts(model)))
    others = 2 * int(model.jnt_limited.sum()) + int((model.dof_frictionloss > 0).sum()) + 6 * int(model.neq)
    return contacts, 4 * contacts + others  # a contact's cone has four edges


def _contacts(model: Any) -> int:
    """Return how many contacts are possible, those between actors' shapes up to a limit."""
    ground = between = 0
    for a, b in itertools.combinations(range(model.ngeom), 2):
        if not _may_touch(model, a, b):
            continue
        if model.geom_bodyid[a]:
            between += _BETWEEN_TWO
        elif model.geom_type[a] == mujoco.mjtGeom.mjGEOM_PLANE:
            ground += _ON_PLANE.get(int(model.geom_type[b]), 8)
        else:
            ground += _ON_FIELD
    return ground + min(between, _BETWEEN_ALL)


def _may_touch(model: Any, a: int, b: int) -> bool:
    """Return whether two geoms of different bodies collide; those of the ground come first."""
    bits = (model.geom_contype[a] & model.geom_conaffinity[b]) | (model.geom_contype[b] & model.geom_conaffinity[a])
    return bool(bits) and model.geom_bodyid[a] != model.geom_bodyid[b]
