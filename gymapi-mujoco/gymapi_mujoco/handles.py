"""The handles that clients hold, a simulation and its environments, and checks of all handles that they pass."""

from __future__ import annotations

import copy
import time
from typing import Any, Iterable, List, Optional

import numpy as np

from gymapi_mujoco.asset import Asset
from gymapi_mujoco.backends import Backend
from gymapi_mujoco.cameras import Camera, Pictures
from gymapi_mujoco.engine import Engine
from gymapi_mujoco.enums import IndexDomain
from gymapi_mujoco.scene import Actor, Scene
from gymapi_mujoco.structs import AttractorProperties, CameraProperties, SimParams
from gymapi_mujoco.viewer import Viewer


class Sim:
    """A simulation: the scene that a client builds; after ``prepare_sim`` the engine that runs it, and its pictures."""

    def __init__(self, params: SimParams, graphics_device: int, backend: Backend):
        self.scene, self.graphics_device = Scene(params), graphics_device
        self.envs: List[Env] = []
        self.engine: Optional[Engine] = None
        self.pictures: Optional[Pictures] = None
        self.closed = self.prepared_early = False
        self.frames, self.started = 0, time.monotonic()
        self._backend, self._frame_time = backend, self.started
        self._viewer: Optional[Viewer] = None

    def set_params(self, params: SimParams) -> None:
        old = self.scene.params
        if self.engine is not None and (params.dt, params.substeps) != (old.dt, old.substeps):
            raise ValueError("set_sim_params: dt and substeps cannot change after prepare_sim; gravity can")
        self.scene.params = copy.deepcopy(params)
        if self.engine is not None:
            self.engine.properties.apply_gravity()

    def prepare(self) -> None:
        """Compile the model and allocate the tensors."""
        self.engine = Engine(self.scene, self._backend)
        self.pictures = Pictures(self.engine)

    def close(self) -> None:
        self.closed, self.engine, self.pictures = True, None, None

    def create_viewer(self, props: CameraProperties) -> Viewer:
        self._viewer = Viewer(lambda: self.pictures, self.graphics_device, props)
        return self._viewer

    @property
    def is_shown(self) -> bool:
        """Return whether a window is open."""
        return self._viewer is not None and self._viewer.showing

    @property
    def time(self) -> float:
        """Return the simulated time [s]."""
        return self.frames * self.scene.params.dt

    def wait_for_frame(self) -> None:
        """Sleep until as much time has passed as was simulated since the last call."""
        now = time.monotonic()
        self._frame_time = max(now, self._frame_time + self.scene.params.dt)
        time.sleep(max(0.0, self._frame_time - now))


class Env:
    """An environment of a simulation."""

    def __init__(self, sim: Sim, index: int):
        self.sim, self.index = sim, index
        self.origin: np.ndarray = sim.scene.origins[index]
        self.actors: List[Actor] = sim.scene.actors[index]
        self.attractors: List[AttractorProperties] = sim.scene.attractors[index]
        self.cameras: List[Camera] = []

    @property
    def num_bodies(self) -> int:
        return self.sim.scene.num_bodies(self.index)

    @property
    def num_dofs(self) -> int:
        return self.sim.scene.num_dofs(self.index)

    def body_index(self, actor: Actor, index: int, domain: IndexDomain) -> int:
        """Return the index of an actor's body among those of the actor, of the environment or of all; -1 stays."""
        before = (env.num_bodies for env in self.sim.envs[: self.index])
        return _in_domain(index, IndexDomain(domain), actor.body_start, before)

    def dof_index(self, actor: Actor, index: int, domain: IndexDomain) -> int:
        """Return the index of an actor's DoF, as :meth:`body_index` does."""
        before = (env.num_dofs for env in self.sim.envs[: self.index])
        return _in_domain(index, IndexDomain(domain), actor.dof_start, before)


def _in_domain(index: int, domain: IndexDomain, start: int, sizes_before: Iterable[int]) -> int:
    if index < 0 or domain == IndexDomain.DOMAIN_ACTOR:
        return index
    return index + start + (sum(sizes_before) if domain == IndexDomain.DOMAIN_SIM else 0)


# Each check returns the handle; anything else than what is wanted is an error that names the call.


def sim_of(sim: Any, call: str) -> Sim:
    """Return a simulation that is open."""
    if not isinstance(sim, Sim):
        raise TypeError(f"{call}: got {type(sim).__name__}; pass what create_sim returned")
    if sim.closed:
        raise RuntimeError(f"{call}: the simulation was destroyed by destroy_sim")
    return sim


def unprepared(sim: Any, call: str) -> Sim:
    """Return a simulation that can still be built."""
    if sim_of(sim, call).engine is not None:
        raise RuntimeError(f"{call}: prepare_sim was called already; build everything before it")
    return sim


def engine_of(sim: Any, call: str) -> Engine:
    """Return the engine of a simulation that was prepared."""
    engine = sim_of(sim, call).engine
    if engine is None:
        raise RuntimeError(f"{call}: call prepare_sim first")
    return engine


def prepared(sim: Any, call: str) -> Engine:
    """Return the engine of a simulation; one that has environments and was not prepared yet is prepared now."""
    if sim_of(sim, call).engine is None and any(env.actors for env in sim.envs):
        sim.prepare()
        sim.prepared_early = True
    return engine_of(sim, call)


def pictures_of(sim: Any, call: str) -> Pictures:
    """Return the pictures of a simulation that was prepared."""
    engine_of(sim, call)
    assert sim.pictures is not None
    return sim.pictures


def env_of(env: Any, call: str) -> Env:
    if not isinstance(env, Env):
        raise TypeError(f"{call}: got {type(env).__name__}; pass what create_env returned")
    return env


def actor_of(env: Any, handle: int, call: str) -> Actor:
    actors = env_of(env, call).actors
    if not 0 <= int(handle) < len(actors):
        raise IndexError(f"{call}: actor {int(handle)}: environment {env.index} has {len(actors)} actors")
    return actors[int(handle)]


def asset_of(asset: Any, call: str) -> Asset:
    if not isinstance(asset, Asset):
        raise TypeError(f"{call}: got {type(asset).__name__}; pass what load_asset returned")
    return asset


def camera_of(env: Any, handle: int, call: str) -> Camera:
    cameras = env_of(env, call).cameras
    if not 0 <= handle < len(cameras):
        raise IndexError(f"{call}: camera {handle}; environment {env.index} has {len(cameras)} cameras")
    return cameras[handle]


def segmentation_of(env: Any, actor: int, body: int, call: str) -> np.ndarray:
    """Return the segmentation numbers of an actor that has a body."""
    own = actor_of(env, actor, call)
    if not 0 <= body < len(own.segmentation):
        raise IndexError(f"{call}: body {body}; actor '{own.name}' has {len(own.segmentation)} bodies")
    return own.segmentation


def viewer_of(viewer: Any, call: str) -> Viewer:
    if not isinstance(viewer, Viewer):
        raise TypeError(f"{call}: got {type(viewer).__name__}; pass what create_viewer returned")
    return viewer
