"""What MuJoCo Warp does beside what it shares with the CPU engine (see test_mujoco_robots.py): on Warp's CPU device,
and on a GPU where there is one."""

import mujoco
import mujoco_warp as mjw
import pytest
import torch

from rsl_rl.config.sim import SimConfig
from rsl_rl.robots.go2 import GO2
from rsl_rl.sim.mujoco_cpu import MujocoSim
from rsl_rl.sim.mujoco_robots import NO_MIDPHASE, NO_SENSORS
from rsl_rl.sim.mujoco_warp import MujocoWarpSim
from rsl_rl.sim.warp_contacts import max_constraints, max_contacts
from tests.sim.standing import POSE, stand

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]

TOLERANCES = {
    "root_pos": (5e-7, 5e-5),
    "root_quat": (1e-6, 2e-4),
    "root_lin_vel": (5e-6, 5e-3),
    "root_ang_vel": (1e-4, 3e-2),
    "joint_pos": (5e-6, 1e-3),
    "joint_vel": (3e-4, 5e-2),
    "joint_torque": (3e-4, 1e-1),
    "contact_force": (1e-2, 1.0),
    "foot_pos": (1e-6, 5e-5),
    "foot_vel": (5e-5, 5e-3),
}
"""Largest difference after one control step from the same state, in 99 of 100 steps of a robot and in all. Float32
against float64: ten times what was seen over six seeds. In one step of some thousands a contact begins or the solver
stops one iteration earlier on one side, which moves the state by up to a hundred times as much."""


@pytest.fixture(params=DEVICES)
def device(request):
    if request.param == "cuda" and not torch.cuda.is_available():
        pytest.skip("needs CUDA")
    return request.param


def test_each_control_step_ends_where_the_cpu_engine_ends(device):
    """Sixteen robots that differ, thrown about by random targets for a second, with contacts and resets."""
    n, draw = 16, torch.Generator().manual_seed(0)
    cpu, warp = MujocoSim(GO2.model_path, n, SimConfig()), MujocoWarpSim(GO2.model_path, n, SimConfig(), device)
    friction, payload = 0.3 + torch.rand(n, generator=draw), 2 * torch.rand(n, generator=draw) - 1
    stiffness, damping = 25 + 10 * torch.rand(n, 12, generator=draw), 0.5 + torch.rand(n, 12, generator=draw)
    for sim in (cpu, warp):
        sim.set_friction(friction.to(sim.device))
        sim.set_root_payload(payload.to(sim.device))
        sim.set_gains(stiffness.to(sim.device), damping.to(sim.device))
        stand(sim)
    torch.testing.assert_close(warp.total_mass.cpu(), cpu.total_mass, rtol=1e-6, atol=0)
    torch.testing.assert_close(warp.foot_pos.cpu(), cpu.foot_pos, rtol=0, atol=1e-6)
    touched, differences = 0, {name: [] for name in TOLERANCES}
    for step in range(50):
        if step == 25:
            stand(cpu, height=0.4)
        targets = POSE + 0.3 * torch.randn(n, 12, generator=draw)
        warp.set_physics_state(cpu.physics_state().to(warp.device))
        for sim in (cpu, warp):
            sim.step(targets.to(sim.device), 4)
        for name, rows in differences.items():
            rows.append((getattr(warp, name).cpu() - getattr(cpu, name)).abs().flatten(1).amax(dim=1))
        touched += int((cpu.contact_force[:, :, 2] > 0).sum())
    assert touched > 50 * n  # more than one foot on the ground at a time
    assert not warp.overflowed.any()
    for name, (usual, worst) in TOLERANCES.items():
        rows = torch.cat(differences[name])
        assert rows.quantile(0.99) <= usual and rows.max() <= worst, name


def test_sensors_are_launched_once_in_a_control_step(monkeypatch):
    """And a model that does without midphase, which Warp has none of, is taken as it is."""
    sim = MujocoWarpSim(GO2.model_path, 1, SimConfig(), "cpu")
    always, launched, step = sim._model.opt.disableflags, [], mjw.step
    assert mujoco.MjModel.from_xml_path(str(GO2.model_path)).opt.disableflags == always | NO_MIDPHASE != always
    stand(sim)

    def spy(model, data):
        launched.append(model.opt.disableflags)
        step(model, data)

    monkeypatch.setattr(mjw, "step", spy)
    sim.step(POSE[None], 4)
    assert launched == [always | NO_SENSORS] * 3 + [always]
    sim.step(POSE[None], 4)  # as recorded
    assert len(launched) == 4 and sim._model.opt.disableflags == always


def test_a_recording_that_failed_leaves_sensors_on(monkeypatch):
    sim = MujocoWarpSim(GO2.model_path, 1, SimConfig(), "cpu")
    always = sim._model.opt.disableflags

    def fail(model, data):
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch, pytest.raises(RuntimeError, match="out of memory"):
        patch.setattr(mjw, "step", fail)
        sim.step(POSE[None], 4)
    assert sim._model.opt.disableflags == always


def test_state_tensors_are_the_engines_own_memory(device):
    sim = MujocoWarpSim(GO2.model_path, 3, SimConfig(), device)
    for name, array, column in (("root_pos", "qpos", 0), ("joint_pos", "qpos", 7), ("root_ang_vel", "qvel", 3)):
        own = getattr(sim, name)
        assert own.data_ptr() == getattr(sim._data, array).ptr + column * own.element_size()


def test_a_run_saved_on_one_engine_goes_on_on_the_other():
    cpu, warp = (engine(GO2.model_path, 4, SimConfig(), "cpu") for engine in (MujocoSim, MujocoWarpSim))
    cpu.set_friction(torch.tensor([0.2, 0.4, 0.6, 0.8]))
    stand(cpu)
    for _ in range(10):
        cpu.step(POSE.repeat(4, 1) + 0.1, 4)
    warp.load_state_dict(cpu.state_dict())
    torch.testing.assert_close(warp.joint_pos, cpu.joint_pos)
    assert torch.equal(warp.contact_force, cpu.contact_force) and torch.equal(
        warp.parameters_of(2)["friction"], torch.tensor(0.6)
    )
    with pytest.raises(ValueError, match=r"has the shape \[4, 55\] and this simulation needs \[5, 55\]"):
        MujocoWarpSim(GO2.model_path, 5, SimConfig(), "cpu").load_state_dict(cpu.state_dict())


def test_contacts_that_find_no_room_are_told_of(device):
    """Four robots share room for eight contacts: one on its feet finds it; four do not, and then all are marked."""
    sim = MujocoWarpSim(GO2.model_path, 4, SimConfig(max_contacts=2), device)
    stand(sim, height=2.0)
    sim.step(POSE.repeat(4, 1).to(sim.device), 4)
    assert not sim.overflowed.any()
    for standing, overflowed in ((1, False), (4, True)):
        stand(sim, height=2.0)
        stand(sim, height=0.29, mask=torch.arange(4) < standing)
        sim.step(POSE.repeat(4, 1).to(sim.device), 4)
        assert sim.overflowed.tolist() == [overflowed] * 4


def test_there_is_room_for_every_contact_that_a_model_can_have():
    """A robot that lies flat with everything on the floor fits into the buffers derived from its model."""
    model = mujoco.MjModel.from_xml_path(str(GO2.model_path))
    assert max_contacts(model) == 8 + 2 + 4 * (2 + 2 + 1)  # box, head, thighs, calves, feet against the floor
    assert max_constraints(model, 30) == 30 * 4 + 2 * 12  # four edges of a friction pyramid each; joint limits
    sim = MujocoWarpSim(GO2.model_path, 2, SimConfig(), "cpu")
    stand(sim, height=-0.3)
    sim.step(POSE.repeat(2, 1), 1)
    assert not sim.overflowed.any() and ((sim.contact_force[:, :, 2] > 0).sum(dim=1) == 12).all()  # of 14 links


BOUNDS = {
    "a sphere": ('<geom size=".1"/>', 1),
    "a box": ('<geom type="box" size=".1 .1 .1"/>', 8),
    "a capsule": ('<geom type="capsule" size=".1 .1"/>', 2),
    "what touches nothing": ('<geom size=".1" contype="0" conaffinity="0"/>', 1),  # buffers have at least one place
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_of_single_shapes(name):
    geom, contacts = BOUNDS[name]
    xml = f'<mujoco><worldbody><geom type="plane" size="1 1 1"/><body><freejoint/>{geom}</body></worldbody></mujoco>'
    assert max_contacts(mujoco.MjModel.from_xml_string(xml)) == contacts


def test_a_model_that_warp_cannot_simulate_is_refused_in_one_line(tmp_path):
    xml = GO2.model_path.read_text().replace('solver="Newton"', 'solver="PGS"')
    path = tmp_path / "robot.xml"
    path.write_text(xml)
    with pytest.raises(ValueError, match=r"MuJoCo Warp cannot simulate .*robot.xml: .*PGS.* Use --sim mujoco") as error:
        MujocoWarpSim(path, 1, SimConfig(), "cpu")
    assert "\n" not in str(error.value)


def test_devices_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="sim_device=mps: the backend 'mujoco_warp' runs on cuda, or on cpu"):
        MujocoWarpSim(GO2.model_path, 1, SimConfig(), "mps")
    with pytest.raises(ValueError, match="sim_device=cuda: the backend 'mujoco' runs on the CPU"):
        MujocoSim(GO2.model_path, 1, SimConfig(), "cuda")
    if not torch.cuda.is_available():
        with pytest.raises(ValueError, match="sim_device=cuda: there is no GPU that torch and Warp can use"):
            MujocoWarpSim(GO2.model_path, 1, SimConfig(), "cuda")
