"""What the CPU engine does beside what it shares with MuJoCo Warp (see test_mujoco_robots.py): what it saves, and that
nothing but time is saved."""

import ctypes
import time
from typing import Optional

import mujoco
import numpy as np
import pytest
import torch

from rsl_rl.config.sim import SimConfig
from rsl_rl.robots.go2 import GO2
from rsl_rl.sim.mujoco_cpu import MujocoSim
from rsl_rl.sim.mujoco_robots import NO_MIDPHASE, NO_SENSORS
from rsl_rl.utils.mujoco_model import load_model
from tests.sim.standing import PLANE, POSE, TILE, stand
from tests.sim.thorough_model import thorough_spec

FORWARD = int(mujoco.mjtTimer.mjTIMER_FORWARD)


@pytest.fixture
def own_clock():
    """Leave MuJoCo with the clock of its package, whatever a test does to it."""
    yield
    mujoco.set_mjcb_time(None)


def plain_world(model: Optional[mujoco.MjModel] = None) -> mujoco.MjData:
    """Build a world of MuJoCo's own, of the robot or of another model, that treats one robot as the simulation does."""
    model = model or load_model(GO2.model_path)
    model.opt.timestep = SimConfig().dt
    model.actuator_gainprm[:, 0], model.actuator_biasprm[:, 1], model.actuator_biasprm[:, 2] = 30, -30, -0.75
    return mujoco.MjData(model)


def sensed(world: mujoco.MjData, kind: str) -> np.ndarray:
    sensors = (world.model.sensor(i) for i in range(world.model.nsensor))
    return np.array([world.sensor(s.name).data for s in sensors if s.name.endswith(kind)], dtype=np.float32)


@pytest.mark.parametrize("place", [PLANE, TILE], ids=["plane", "tile"])
def test_sensors_say_what_they_say_when_they_are_read_in_every_step(place):
    """One robot thrown about for four seconds against mj_step with all sensors on in each of its steps: bit by bit."""
    sim, draw = MujocoSim(GO2.model_path, 1, SimConfig(), "cpu", place.ground), torch.Generator().manual_seed(0)
    world = plain_world(load_model(GO2.model_path, place.ground))
    stand(sim, place=place)
    # the double precision numbers of MuJoCo: the interface has float32
    world.qpos[:], world.qvel[:] = sim._qpos[0], sim._qvel[0]
    touched = set()
    for _ in range(200):
        targets = POSE + torch.randn(1, 12, generator=draw)
        sim.step(targets, 4)
        world.ctrl[:] = targets[0].double()
        mujoco.mj_step(world.model, world, 4)
        assert np.array_equal(sim._qpos[0], world.qpos) and np.array_equal(sim._qvel[0], world.qvel)
        assert np.array_equal(sim.contact_force[0], -sensed(world, "_contact"))
        assert np.array_equal(sim.foot_pos[0], sensed(world, "_pos"))
        assert np.array_equal(sim.foot_vel[0], sensed(world, "_vel"))
        assert np.array_equal(sim.joint_torque[0], world.actuator_force.astype(np.float32))
        touched.update(np.flatnonzero(sensed(world, "_contact").any(axis=1)))
    assert len(touched) > 6  # not only feet


class Spy:
    """A batch that notes how many steps it is asked for and what is disabled in them; where told to, it fails.

    It takes the place of the private batch: only there can one see which steps compute sensors.
    """

    def __init__(self, sim: MujocoSim):
        self._sim, self._batch = sim, sim._batch
        self.steps, self.error = [], None

    def step(self, nstep: int) -> None:
        self.steps.append((nstep, self._sim._disabled.unique().tolist()))
        if self.error is not None:
            raise self.error
        self._batch.step(nstep=nstep)

    def __getattr__(self, name: str):
        return getattr(self._batch, name)


def test_sensors_are_worked_out_once_in_a_control_step():
    sim = MujocoSim(GO2.model_path, 3, SimConfig())
    sim._batch = spy = Spy(sim)
    stand(sim)
    always = sim.model.opt.disableflags  # what the model itself says
    sim.step(POSE.repeat(3, 1), 4)
    sim.step(POSE.repeat(3, 1), 1)
    assert always != 0
    assert spy.steps == [(3, [always | NO_SENSORS]), (1, [always]), (1, [always])]


def test_after_a_step_that_failed_a_reset_senses():
    sim = MujocoSim(GO2.model_path, 2, SimConfig())
    stand(sim)
    sim._batch = spy = Spy(sim)
    spy.error = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        sim.step(POSE.repeat(2, 1), 4)
    stand(sim, height=1.0)
    assert (sim.foot_pos[:, :, 2] > 0.5).all()


def test_one_robot_on_a_floor_needs_no_search_for_contacts_and_no_islands():
    """With them every robot falls, lies and kicks the same way, bit by bit."""
    fast, thorough = plain_world(), plain_world(thorough_spec().compile())
    flags = int(mujoco.mjtDisableBit.mjDSBL_ISLAND) | NO_MIDPHASE
    assert fast.model.opt.disableflags == flags and thorough.model.opt.disableflags == 0
    assert (fast.model.npair, thorough.model.npair) == (14, 0)
    draw, touched = np.random.default_rng(0), set()
    for _ in range(300):
        start = np.concatenate(([0, 0, 0.4], draw.normal(size=4), draw.uniform(-1, 1, 12)))
        targets = draw.uniform(-1, 1, (20, 12))
        for world in (fast, thorough):
            mujoco.mj_resetData(world.model, world)
            world.qpos[:] = start
            for target in targets:
                world.ctrl[:] = target
                mujoco.mj_step(world.model, world, 4)
                touched.update(np.flatnonzero(sensed(world, "_contact").any(axis=1)))
        for name in ("qpos", "qvel", "sensordata"):
            assert np.array_equal(getattr(fast, name), getattr(thorough, name)), name
    assert len(touched) == len(sensed(fast, "_contact"))  # every part has lain on the floor


def test_no_clock_is_read(own_clock):
    mujoco.set_mjcb_time(None)
    world = plain_world()
    mujoco.mj_step(world.model, world)
    assert world.timer[FORWARD].duration > 0  # the package's clock
    MujocoSim(GO2.model_path, 1, SimConfig())
    world = plain_world()
    mujoco.mj_step(world.model, world)
    assert world.timer[FORWARD].number == 1 and world.timer[FORWARD].duration == 0


def test_a_clock_that_somebody_set_goes_on(own_clock):
    clock = ctypes.CFUNCTYPE(ctypes.c_double)(time.perf_counter)
    mujoco.set_mjcb_time(clock)
    sim = MujocoSim(GO2.model_path, 1, SimConfig())
    stand(sim)
    sim.step(POSE[None], 4)
    world = plain_world()
    mujoco.mj_step(world.model, world)
    assert world.timer[FORWARD].duration > 0


def test_solver_of_a_model_of_any_size_is_dense():
    assert load_model(GO2.model_path).opt.jacobian == mujoco.mjtJacobian.mjJAC_AUTO  # sparse for large models
    assert MujocoSim(GO2.model_path, 1, SimConfig()).model.opt.jacobian == mujoco.mjtJacobian.mjJAC_DENSE
