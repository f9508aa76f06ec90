"""Parameters and physics steps of every engine: what is set is what the physics does."""

import importlib

import pytest
import torch

from rsl_rl.config.sim import SimConfig
from rsl_rl.robots.go2 import GO2
from rsl_rl.sim.base import PARAMETERS, RobotPoseVel
from tests.sim.isaac_gym.isaac_gym_package import instead_of_isaac_gym

N = 4
POSE = torch.tensor(GO2.default_joint_pos).expand(N, -1)
EVERYONE = torch.ones(N, dtype=torch.bool)


@pytest.fixture
def isaacgym(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)  # MuJoCo would log here
    for _ in instead_of_isaac_gym(monkeypatch):
        yield importlib.import_module("rsl_rl.sim.isaacgym.engine").IsaacGymSim


@pytest.fixture(params=["mujoco", "isaacgym", pytest.param("mujoco_warp", marks=pytest.mark.slow)])
def make(request):
    """Build a simulation of an engine with robots high in the air, or at another height."""
    if request.param == "isaacgym":
        kind = request.getfixturevalue("isaacgym")
    else:
        pytest.importorskip("mujoco_warp" if request.param == "mujoco_warp" else "mujoco")
        file, name = {"mujoco": ("cpu", "MujocoSim"), "mujoco_warp": ("warp", "MujocoWarpSim")}[request.param]
        kind = getattr(importlib.import_module(f"rsl_rl.sim.mujoco_{file}"), name)

    def build(height=2.0):
        sim = kind(GO2.model_path, N, SimConfig(num_threads=1), "cpu")
        if request.param == "isaacgym":
            sim._scene.__class__._open = False  # the package has no limit of one
        start(sim, height)
        return sim

    return build


def start(sim, height=2.0):
    zeros = torch.zeros(N, 3)
    upright = torch.tensor([1.0, 0.0, 0.0, 0.0]).expand(N, 4)
    pos = torch.tensor([0.0, 0.0, height]).expand(N, 3)
    sim.reset(EVERYONE, RobotPoseVel(pos, upright, zeros, zeros, POSE, torch.zeros(N, 12)))


def random_values(sim, name):
    """Return values of a parameter near its nominal one, different for each robot."""
    shape = (N, *sim.shape_of_parameter(name))
    nominal = sim.nominal_parameter(name).expand(shape)
    spread = 0.2 + 0.2 * torch.rand(shape, generator=torch.Generator().manual_seed(0))
    return nominal * (1 + 0.5 * spread) if bool((nominal != 0).any()) else 0.1 * spread


@pytest.mark.filterwarnings("ignore:restitution of shapes is not used")  # by gymapi-mujoco
def test_every_engine_takes_every_parameter_and_restores_it(make):
    sim, other = make(), make()
    values = {name: random_values(sim, name) for name in PARAMETERS}
    sim.set_parameters(values)
    for name, value in values.items():
        torch.testing.assert_close(sim.parameters()[name], value)
    sim.step(POSE, 2)
    other.load_state_dict(sim.state_dict())
    for each in (sim, other):
        each.step(POSE, 2)
    for name in RobotPoseVel._fields:
        torch.testing.assert_close(getattr(other, name), getattr(sim, name), rtol=0, atol=2e-5)
    with pytest.raises(ValueError, match="cannot set 'wind'; it sets armature, "):
        sim.set_parameters({"wind": torch.zeros(N)})
    with pytest.raises(ValueError, match=r"'gravity' has the shape \[4\]; give \[4, 3\]"):
        sim.set_parameters({"gravity": torch.zeros(N)})


def test_gravity_force_and_mass_give_the_acceleration_of_newton(make):
    sim = make()
    gravity = torch.tensor([[0.0, 0.0, -9.81], [0.0, 0.0, -5.0], [1.0, 0.0, -9.81], [0.0, 0.0, 0.0]])
    factor = torch.tensor([1.0, 1.5, 1.0, 2.0])
    force = torch.tensor([[0.0, 0.0, 0.0], [20.0, 0.0, 0.0], [0.0, 10.0, 0.0], [0.0, 0.0, 30.0]])
    model_mass = sim.total_mass.clone()
    sim.set_parameters({
        "gravity": gravity, "trunk_force": force, "link_mass": factor.unsqueeze(1).expand(N, len(sim.body_names)),
    })  # fmt: skip
    torch.testing.assert_close(sim.total_mass, factor * model_mass, rtol=1e-5, atol=0)
    sim.step(POSE, 4)
    gained = sim.root_lin_vel / (4 * sim.dt)  # of the trunk, from rest; the legs follow it in the air
    expected = gravity + force / sim.total_mass.unsqueeze(1)
    torch.testing.assert_close(gained, expected, rtol=0.02, atol=0.25)


def test_torques_by_physics_step_equal_the_targets_of_the_engine(make):
    engine, ours = make(), make()
    gains = torch.full((N, 12), 25.0), torch.full((N, 12), 0.6)
    for sim in (engine, ours):
        sim.set_gains(*gains)
        sim.set_parameters({"motor_strength": torch.full((N, 12), 0.9), "torque_limit": torch.full((N, 12), 15.0)})
    ours.use_torques()
    target = POSE + 0.2
    for _ in range(5):
        engine.step(target, 4)
        ours.step_each(lambda _: gains[0] * (target - ours.joint_pos) - gains[1] * ours.joint_vel, 4)
    torch.testing.assert_close(ours.joint_pos, engine.joint_pos, rtol=0, atol=1e-4)
    torch.testing.assert_close(ours.joint_torque, engine.joint_torque, rtol=0, atol=2e-2)


def test_targets_by_physics_step_equal_one_call(make):
    whole, each = make(0.34), make(0.34)
    for step in range(10):
        target = POSE + 0.02 * step
        whole.step(target, 4)
        each.step_each(lambda _, target=target: target, 4)
    for name in (*RobotPoseVel._fields, "foot_pos", "contact_force"):
        torch.testing.assert_close(getattr(each, name), getattr(whole, name), rtol=0, atol=1e-6)


def test_joint_friction_slows_a_swinging_joint(make):
    free, rubbing = make(), make()
    rubbing.set_parameters({"joint_friction": torch.full((N, 12), 1.0)})
    for sim in (free, rubbing):
        sim.use_torques()
        for _ in range(5):
            sim.step_each(lambda _: torch.full((N, 12), 1.5), 4)
    assert (rubbing.joint_vel.abs() < free.joint_vel.abs()).float().mean() > 0.9
