"""MuJoCo Warp underneath: the same results as on the CPU, what stays on the device, which engine is chosen."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from robots import GO2, STANDING, World

HERE = Path(__file__).resolve().parent

TOLERANCE = {"root": 1e-4, "dof": 1e-3, "body": 1e-3, "jacobian": 1e-5, "mass": 1e-4, "force": 0.01, "sensor": 0.01}
"""Between the engines, one with float64 and one with float32, after 40 steps on the ground. Forces are in N."""


def varied(gymapi):
    """Change friction, masses, centres of mass and damping of each robot."""

    def change(world, env, i):
        shapes = world.gym.get_actor_rigid_shape_properties(env, 0)
        for shape in shapes:
            shape.friction = 0.4 + 0.3 * i
        world.gym.set_actor_rigid_shape_properties(env, 0, shapes)
        bodies = world.gym.get_actor_rigid_body_properties(env, 0)
        bodies[0].mass += i
        bodies[0].com = bodies[0].com + gymapi.Vec3(0.01 * i, 0.0, 0.0)
        world.gym.set_actor_rigid_body_properties(env, 0, bodies, recomputeInertia=True)
        props = world.gym.get_actor_dof_properties(env, 0)
        props["damping"] += 0.1 * i
        world.gym.set_actor_dof_properties(env, 0, props)

    return change


def walk(gymapi, steps=40):
    """Let two Go2 stand, push one of them by an indexed write, and pull at the other; return what a client sees."""
    world = World(gymapi, GO2, 2, height=0.33, change=varied(gymapi), replace_cylinder_with_capsule=True)
    world.gym.create_asset_force_sensor(world.asset, world.asset.body_names.index("FL_foot"), gymapi.Transform())
    wrap, gym, sim = world.torch.wrap_tensor, world.prepare().gym, world.sim
    seen = {"jacobian": wrap(gym.acquire_jacobian_tensor(sim, "robot"))}
    seen["mass"] = wrap(gym.acquire_mass_matrix_tensor(sim, "robot"))
    seen["sensor"] = wrap(gym.acquire_force_sensor_tensor(sim))
    pose = torch.tensor(STANDING)
    world.dof[..., 0] = pose
    gym.set_dof_state_tensor(sim, world.unwrap(world.dof.view(-1, 2)))
    pull = torch.zeros(*world.body.shape[:2], 3)
    pull[0, 0, 0] = 20.0
    for i in range(steps):
        if i == steps // 2:
            state = world.root.clone()
            state[:, 7] += 0.3
            rows = torch.tensor([1], dtype=torch.int32)
            gym.set_actor_root_state_tensor_indexed(sim, world.unwrap(state), world.unwrap(rows), 1)
        gym.apply_rigid_body_force_tensors(sim, world.unwrap(pull), None, gymapi.ENV_SPACE)
        world.step(1, 40 * (pose - world.dof[..., 0]) - world.dof[..., 1])
    for name in ("jacobian_tensors", "mass_matrix_tensors", "force_sensor_tensor"):
        getattr(gym, f"refresh_{name}")(sim)
    return {**seen, "root": world.root, "dof": world.dof, "force": world.force, "body": world.body}


@pytest.fixture
def warp(monkeypatch):
    """Simulations of the test are MuJoCo Warp's."""
    pytest.importorskip("mujoco_warp")
    monkeypatch.setenv("GYMAPI_MUJOCO_ENGINE", "warp")


def test_states_forces_writes_and_matrices_are_those_of_the_cpu(gymapi, warp, monkeypatch):
    ours = walk(gymapi)
    monkeypatch.setenv("GYMAPI_MUJOCO_ENGINE", "cpu")
    theirs = walk(gymapi)
    assert ours["force"].norm(dim=-1).max() > 20.0 and ours["root"][1, 7] > ours["root"][0, 7]
    for name, expected in theirs.items():
        error = (ours[name] - expected).abs().max()
        assert error < TOLERANCE[name], (name, float(error))


def test_views_share_memory_with_the_engine(gymapi, warp):
    import warp as wp

    world = World(gymapi, GO2, 2, replace_cylinder_with_capsule=True).prepare()
    worlds = world.sim.engine.worlds
    assert world.sim.engine.coordinates.qpos.data_ptr() == worlds._data.qpos.ptr
    masses = worlds.field("body_mass")
    masses[1] *= 2.0
    torch.testing.assert_close(wp.to_torch(worlds._model.body_mass)[:, 1], worlds.values("body_mass")[:, 1])
    assert worlds._model.body_mass.ptr == masses.data_ptr() and masses[1, 1] == 2 * masses[0, 1]


@pytest.mark.filterwarnings("ignore")
def test_client_in_the_way_of_legged_gym_steps_and_resets(gymapi, warp, monkeypatch):
    monkeypatch.syspath_prepend(str(HERE / "client"))
    monkeypatch.setattr(sys, "argv", ["train.py", "--task", "walk", "--headless", "--num_envs", "3"])
    import legged_task

    try:
        env = legged_task.task_registry.make_env("walk", legged_task.get_args())
    finally:
        sys.modules.pop("legged_task")
    env.reset()
    for _ in range(12):
        obs, _, reward, reset, _ = env.step(0.5 * torch.randn(3, 12))
    assert torch.isfinite(obs).all() and torch.isfinite(reward).all() and reset.shape == (3,)
    assert env.contact_forces[:, env.feet, 2].max() > 5.0
    env.reset_idx(torch.tensor([1], device=env.device))
    env._refresh()
    torch.testing.assert_close(env.root_states[1], env.start[1], atol=1e-6, rtol=0)


@pytest.mark.slow
def test_no_call_of_a_step_waits_for_the_device_or_leaves_it():
    command = [sys.executable, "-W", "ignore", str(HERE / "fake_gpu.py")]
    environment = {**os.environ, "GYMAPI_MUJOCO_ENGINE": "cpu"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert done.returncode == 0 and done.stdout == "on fakegpu:0 130\n", done.stderr[-3000:]


def test_full_contact_buffer_is_reported(gymapi, warp, monkeypatch):
    monkeypatch.setenv("GYMAPI_MUJOCO_CONTACTS", "2")
    world = World(gymapi, GO2, 1, height=0.1, replace_cylinder_with_capsule=True).prepare()
    with pytest.warns(UserWarning, match="environment 0 has lost contacts: there is room for 2"):
        world.step(2)
    monkeypatch.setenv("GYMAPI_MUJOCO_CONTACTS", "few")
    with pytest.raises(ValueError, match="GYMAPI_MUJOCO_CONTACTS=few: give the number"):
        World(gymapi, GO2, 1).prepare()


def test_room_is_for_all_contacts_with_the_ground_and_some_between_shapes(gymapi, arm):
    pytest.importorskip("mujoco_warp")
    from gymapi_mujoco.model import build_model
    from gymapi_mujoco.worlds_warp import room

    model = build_model(World(gymapi, arm, 1).sim.scene)
    types = sorted(np.delete(model.geom_type, 0).tolist())
    assert types == [2, 5, 6] and model.geom_type[0] == 0  # sphere, cylinder, box; a plane
    assert room(model) == (1 + 8 + 8, 4 * 17 + 2 * 2)
    assert room(build_model(World(gymapi, GO2, 1).sim.scene))[0] <= 256


def test_model_that_warp_cannot_simulate_is_refused(gymapi, warp, arm, monkeypatch):
    import mujoco_warp

    def refuse(*_):
        raise NotImplementedError("mjINT_RK9 is unsupported.")

    monkeypatch.setattr(mujoco_warp, "put_model", refuse)
    with pytest.raises(NotImplementedError, match="prepare_sim: MuJoCo Warp cannot simulate this"):
        World(gymapi, arm, 1).prepare()


@pytest.fixture
def a_gpu(monkeypatch):
    """A machine on which torch and Warp see two GPUs."""
    from gymapi_mujoco import backends

    monkeypatch.setattr(backends.torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(backends.torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(backends.torch.cuda, "get_device_name", lambda device: "a GPU")
    monkeypatch.setattr(backends, "_warp_sees_a_gpu", lambda: True)
    monkeypatch.delenv("GYMAPI_MUJOCO_ENGINE", raising=False)
    return backends


def test_gpu_is_chosen_where_a_client_asks_for_it(gymapi, a_gpu, monkeypatch):
    assert a_gpu.choose(1, True, 4) == ("warp", "cuda:1", 4)
    assert "on cuda:1 (a GPU), through gymapi-mujoco" in str(a_gpu.choose(1, True, 4))
    assert a_gpu.choose(0, False, 4) == ("cpu", "cpu", 4) == a_gpu.choose(-1, True, 4)
    with pytest.raises(ValueError, match="create_sim: compute device 2; torch sees 2 CUDA devices"):
        a_gpu.choose(2, True, 4)
    monkeypatch.setenv("GYMAPI_MUJOCO_ENGINE", "cpu")
    assert a_gpu.choose(0, True, 1) == ("cpu", "cpu", 1)
    monkeypatch.setenv("GYMAPI_MUJOCO_ENGINE", "warp")
    assert a_gpu.choose(0, True, 1) == ("warp", "cuda:0", 1) and a_gpu.choose(0, False, 1) == ("warp", "cpu", 1)
    monkeypatch.setattr(a_gpu.cuda_names, "_entered", True)  # --cuda-as-cpu
    assert a_gpu.choose(0, True, 1) == ("warp", "cpu", 1)
    monkeypatch.setenv("GYMAPI_MUJOCO_ENGINE", "gpu")
    with pytest.raises(ValueError, match="GYMAPI_MUJOCO_ENGINE=gpu: give one of auto, cpu, warp"):
        a_gpu.choose(0, True, 1)


def test_without_the_package_warp_is_refused_and_a_gpu_is_not_used(gymapi, a_gpu, monkeypatch):
    monkeypatch.setattr(a_gpu, "warp_is_installed", lambda: False)
    assert a_gpu.choose(0, True, 1).engine == "cpu"
    monkeypatch.setenv("GYMAPI_MUJOCO_ENGINE", "warp")
    with pytest.raises(ModuleNotFoundError, match="GYMAPI_MUJOCO_ENGINE=warp needs MuJoCo Warp; pip install"):
        a_gpu.choose(0, True, 1)


def test_command_line_keeps_a_gpu_that_the_simulation_can_use(gymapi, a_gpu, monkeypatch, capsys):
    from isaacgym import gymutil

    def parse(*args):
        monkeypatch.setattr(sys, "argv", ["x", *args])
        args = gymutil.parse_arguments()
        return args.sim_device_type, args.compute_device_id, args.use_gpu, args.use_gpu_pipeline

    assert parse() == ("cuda", 0, True, True) == parse("--sim_device", "cuda:0", "--pipeline", "gpu")
    assert parse("--sim_device", "cuda:1") == ("cuda", 1, True, True)
    assert parse("--pipeline", "cpu") == ("cuda", 0, True, False) and parse("--sim_device", "cpu")[2:] == (False,) * 2
    assert capsys.readouterr().err == ""
    monkeypatch.setattr(gymutil, "warp_is_installed", lambda: False)
    monkeypatch.setattr(a_gpu, "warp_is_installed", lambda: False)
    assert parse("--sim_device", "cuda:0") == ("cpu", 0, False, False)
    assert "cpu instead of sim_device=cuda:0; for a simulation on a GPU pip install" in capsys.readouterr().err


def test_tensor_of_another_device_is_refused(gymapi, arm):
    world = World(gymapi, arm, 2).prepare()
    other = gymapi.Tensor(torch.zeros(6, device="meta"))
    with pytest.raises(ValueError, match=r"the tensor of forces is on meta, and this simulation's tensors are on cpu"):
        world.gym.set_dof_actuation_force_tensor(world.sim, other)


def test_launcher_refuses_an_unknown_engine():
    command = [sys.executable, "-m", "gymapi_mujoco", "--engine", "physx", "train.py"]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1 and "--engine 'physx'; give one of auto, cpu, warp" in done.stderr
    assert "Traceback" not in done.stderr
