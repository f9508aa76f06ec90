"""What a client builds before ``prepare_sim``: the simulation, its environments, its actors."""

from __future__ import annotations

import itertools
import math
import os
import time
from typing import Any, List, Optional, Tuple

import numpy as np

from gymapi_mujoco.asset import Asset
from gymapi_mujoco.backends import Backend
from gymapi_mujoco.ground import Ground
from gymapi_mujoco.params import SimParams
from gymapi_mujoco.vectors import Transform, Vec3, as_array, multiply, rotation_matrix, to_wxyz


class Actor:
    """One copy of an asset, with parameters of its own."""

    def __init__(self, env: Env, asset: Asset, pose: Transform, name: str, group: int, mask: int, segmentation: int):
        self.env, self.asset, self.name, self.group = env, asset, name, group
        self.segmentation = np.full(len(asset.bodies), segmentation, dtype=np.uint32)
        self.index = len(env.actors)
        self.quat = to_wxyz(pose.r) / np.linalg.norm(to_wxyz(pose.r))
        self.pos = as_array(pose.p) + env.origin
        props = asset.shape_properties
        self.friction = asset.frictions()
        self.restitution = np.array([shape.restitution for shape in props])
        self.filters = np.array([shape.filter if mask == -1 else mask for shape in props], dtype=np.int64)
        self.dof_properties = asset.dof_properties.copy()
        self.mass, self.com, self.inertia = asset.masses.copy(), asset.coms.copy(), asset.inertias.copy()
        self.body_start = sum(len(other.asset.bodies) for other in env.actors)
        self.dof_start = sum(len(other.asset.joints) for other in env.actors)

    def start_poses(self) -> np.ndarray:
        """Return position and quaternion x y z w of each body [B, 7] with DoFs at zero or the nearest limit."""
        places: List[Tuple[np.ndarray, np.ndarray]] = []
        values = iter(np.clip(0.0, self.dof_properties["lower"], self.dof_properties["upper"]))
        for body in self.asset.bodies:
            pos, quat = (self.pos, self.quat) if body.parent < 0 else places[body.parent]
            pos, quat = pos + rotation_matrix(quat) @ body.pos, multiply(quat, body.quat)
            for joint in body.joints:
                value, held = float(next(values)), pos + rotation_matrix(quat) @ joint.anchor
                if joint.sliding:
                    pos = pos + rotation_matrix(quat) @ joint.axis * value
                    continue
                quat = multiply(quat, np.array([math.cos(value / 2), *(math.sin(value / 2) * joint.axis)]))
                pos = held - rotation_matrix(quat) @ joint.anchor
            places.append((pos, quat))
        return np.stack([np.concatenate([pos, np.roll(quat, -1)]) for pos, quat in places])


class Env:
    """One environment; it is a world of its own, so environments never touch each other."""

    def __init__(self, sim: Sim, lower: Vec3, upper: Vec3, per_row: int):
        self.sim, self.index = sim, len(sim.envs)
        row, column = divmod(self.index, max(1, per_row))
        size = as_array(upper) - as_array(lower)
        if sim.up == 2:
            self.origin = np.array([column * size[0], row * size[1], 0.0])
        else:
            self.origin = np.array([column * size[0], 0.0, row * size[2]])
        self.actors: List[Actor] = []
        self.cameras: List[Any] = []

    def actor(self, handle: int) -> Actor:
        """Return an actor by its handle; an unknown one is an IndexError."""
        if not 0 <= handle < len(self.actors):
            raise IndexError(f"actor {handle}: environment {self.index} has {len(self.actors)} actors")
        return self.actors[handle]

    def locate(self, body: int) -> Actor:
        """Return the actor that a body of the environment belongs to."""
        for actor in self.actors:
            if actor.body_start <= body < actor.body_start + len(actor.asset.bodies):
                return actor
        raise IndexError(f"body {body}: environment {self.index} has {self.num_bodies} bodies")

    @property
    def num_bodies(self) -> int:
        return sum(len(actor.asset.bodies) for actor in self.actors)

    @property
    def num_dofs(self) -> int:
        return sum(len(actor.asset.joints) for actor in self.actors)


class Sim:
    """A simulation; ``engine`` is there after ``prepare_sim``."""

    def __init__(self, params: SimParams, graphics_device: int, backend: Backend):
        if params.dt <= 0 or params.substeps < 1:
            raise ValueError(f"dt={params.dt:g} s in {params.substeps} substeps; both must be positive")
        self.params, self.graphics_device, self.backend = params, graphics_device, backend
        self.grounds: List[Ground] = []
        self.envs: List[Env] = []
        self.engine: Optional[Any] = None
        self.closed = False
        self.viewer: Optional[Any] = None
        self.frames, self.started = 0, time.monotonic()
        self._frame_time = self.started

    @property
    def up(self) -> int:
        """Index of the axis that points up."""
        return 2 if int(self.params.up_axis) else 1

    @property
    def time(self) -> float:
        """Return the simulated time [s]."""
        return self.frames * self.params.dt

    def wait_for_frame(self) -> None:
        """Sleep until as much time has passed as was simulated since the last call."""
        now = time.monotonic()
        self._frame_time = max(now, self._frame_time + self.params.dt)
        time.sleep(max(0.0, self._frame_time - now))

    def check_layout(self) -> None:
        """Refuse environments whose assets differ: all environments share one model."""
        if not self.envs or not self.envs[0].actors:
            raise ValueError("prepare_sim: there is no actor; call create_env and create_actor first")
        layout = [actor.asset for actor in self.envs[0].actors]
        for env in itertools.islice(self.envs, 1, None):
            if [actor.asset for actor in env.actors] != layout:
                raise NotImplementedError(
                    f"environment {env.index} has other assets than environment 0; all environments must have the same "
                    "assets in the same order"
                )


def usable_threads(wanted: int) -> int:
    """Return the number of threads: ``GYMAPI_MUJOCO_THREADS``, or the wanted number, at most the CPUs of the process.

    Zero stands for all of them. A container's quota (cgroups version 2) limits the CPUs.
    """
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        with open("/sys/fs/cgroup/cpu.max") as file:
            quota, period = file.read().split()
        cpus = max(1, min(cpus, math.floor(int(quota) / int(period))))
    except (OSError, ValueError):
        pass
    given = os.environ.get("GYMAPI_MUJOCO_THREADS", "")
    if given and not given.isdecimal():
        raise ValueError(f"GYMAPI_MUJOCO_THREADS={given}: give a number of threads")
    wanted = int(given or wanted)
    return min(cpus, wanted) if wanted > 0 else cpus
