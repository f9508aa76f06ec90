"""Names and signatures against isaacgym-stubs; wrong calls are one clear error each."""

import ast
import re
import shutil
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest
import torch
from robots import ARM, World


@pytest.fixture(scope="module")
def stub():
    path = distribution("isaacgym-stubs").locate_file("isaacgym-stubs/gymapi.pyi")
    return ast.parse(re.sub(r"def lambda\(", "def lambda_(", path.read_text(encoding="utf-8")))


@pytest.fixture
def world(gymapi, tmp_path):
    (tmp_path / "arm.urdf").write_text(ARM)
    return World(gymapi, tmp_path / "arm.urdf", 2)


def test_every_constant_of_the_stubs_is_there(gymapi, stub):
    names = [node.target.id for node in stub.body if isinstance(node, ast.AnnAssign)]
    assert len(names) > 190
    for node in stub.body:
        if isinstance(node, ast.AnnAssign):
            value = getattr(gymapi, node.target.id)
            if node.value is not None:
                assert value == ast.literal_eval(node.value), node.target.id
            kind = ast.unparse(node.annotation)
            assert kind == "int" or isinstance(value, getattr(gymapi, kind)), node.target.id
    assert [int(getattr(gymapi, f"DOF_MODE_{name}")) for name in ("NONE", "POS", "VEL", "EFFORT")] == [0, 1, 2, 3]
    assert gymapi.DofDriveMode.DOF_MODE_POS is gymapi.DOF_MODE_POS and gymapi.DOF_MODE_POS.name == "DOF_MODE_POS"


def test_fields_of_every_class_are_those_of_the_stubs(gymapi, stub):
    checked = 0
    for node in stub.body:
        if not isinstance(node, ast.ClassDef) or node.name == "Gym" or node.name not in gymapi.__all__:
            continue
        fields = {n.target.id for n in node.body if isinstance(n, ast.AnnAssign) and "ClassVar" not in ast.unparse(n)}
        kind = getattr(gymapi, node.name)
        if node.name in ("Asset", "Env", "Sim", "Viewer") or hasattr(kind, "__members__"):
            continue
        checked += 1
        assert [name for name in sorted(fields) if not hasattr(kind(), name)] == [], node.name
    assert checked > 20


def test_parameters_of_every_call_have_the_names_of_the_stubs(gymapi, stub):
    import inspect

    (gym,) = [node for node in stub.body if isinstance(node, ast.ClassDef) and node.name == "Gym"]
    wanted = {n.name: n.args for n in gym.body if isinstance(n, ast.FunctionDef)}
    own = [name for name in dir(gymapi.Gym) if not name.startswith("_") and name != "diverged_count"]
    assert len(own) > 140
    for name in own:
        assert name in wanted, f"{name} is no call of Isaac Gym"
        names = [argument.arg for argument in wanted[name].args[1:]]
        if wanted[name].vararg:
            continue
        have = [p for p in inspect.signature(getattr(gymapi.Gym, name)).parameters if p != "self"]
        assert len(have) == len(names), name
        assert all(a == b for a, b in zip(have, names) if not b.startswith("arg")), (name, have, names)


def test_what_is_not_provided_is_named(gymapi, world):
    with pytest.raises(AttributeError, match=r"Gym\.create_tet_grid is not provided by gymapi-mujoco"):
        world.gym.create_tet_grid(world.sim)
    with pytest.raises(AttributeError, match=r"gymapi\.SoftMaterial is not provided"):
        gymapi.SoftMaterial()
    from isaacgym import rlgpu

    with pytest.raises(AttributeError, match=r"rlgpu\.PPO is not provided"):
        rlgpu.PPO()
    with pytest.raises(AttributeError, match=r"gymapi\.SimParams has no attribute 'sub_steps'; it has dt"):
        gymapi.SimParams().sub_steps = 1
    with pytest.raises(NotImplementedError, match="SIM_FLEX is not provided"):
        world.gym.create_sim(0, 0, gymapi.SIM_FLEX, gymapi.SimParams())


def test_fields_are_float32_and_take_tensors_and_numbers_of_enumerations(gymapi):
    params = gymapi.SimParams()
    params.dt = 0.005
    assert params.dt == float(np.float32(0.005)) != 0.005
    params.dt = np.array([0.01])
    params.physx.contact_collection = 2
    params.up_axis = 1
    assert params.physx.contact_collection is gymapi.CC_ALL_SUBSTEPS and params.up_axis is gymapi.UP_AXIS_Z
    shape = gymapi.RigidShapeProperties()
    shape.friction = torch.tensor([0.5])
    assert shape.friction == 0.5
    for wrong in ("high", None, torch.zeros(2)):
        with pytest.raises(TypeError, match=r"gymapi\.RigidShapeProperties\.friction"):
            shape.friction = wrong
    with pytest.raises(TypeError, match=r"SimParams\.gravity: got list, and it takes a gymapi\.Vec3"):
        params.gravity = [0, 0, -9.81]
    with pytest.raises(TypeError, match=r"up_axis: 7 is not one of UP_AXIS_Y, UP_AXIS_Z"):
        params.up_axis = 7


def test_calls_in_the_wrong_order_are_refused(gymapi, world):
    gym, sim = world.gym, world.sim
    for early in ("simulate", "refresh_actor_root_state_tensor"):
        with pytest.raises(RuntimeError, match=f"{early}: call prepare_sim first"):
            getattr(gym, early)(sim)
    world.prepare()
    with pytest.raises(RuntimeError, match="prepare_sim: prepare_sim was called already"):
        gym.prepare_sim(sim)
    with pytest.raises(RuntimeError, match="create_env: prepare_sim was called already"):
        gym.create_env(sim, gymapi.Vec3(), gymapi.Vec3(), 1)
    with pytest.raises(RuntimeError, match="add_ground: prepare_sim was called already"):
        gym.add_ground(sim, gymapi.PlaneParams())
    gym.destroy_sim(sim)
    with pytest.raises(RuntimeError, match="simulate: the simulation was destroyed"):
        gym.simulate(sim)


def test_simulation_without_actors_and_different_environments_are_refused(gymapi, world):
    empty = world.gym.create_sim(0, -1, gymapi.SIM_PHYSX, gymapi.SimParams())
    with pytest.raises(ValueError, match="there is no actor"):
        world.gym.prepare_sim(empty)
    world.gym.create_env(world.sim, gymapi.Vec3(), gymapi.Vec3(), 1)
    with pytest.raises(NotImplementedError, match="environment 2 has other assets than environment 0"):
        world.gym.prepare_sim(world.sim)


def test_wrong_handles_are_refused(gymapi, world):
    with pytest.raises(TypeError, match="simulate: got int; pass what create_sim returned"):
        world.gym.simulate(3)
    with pytest.raises(TypeError, match="get_actor_dof_properties: got NoneType; pass what create_env returned"):
        world.gym.get_actor_dof_properties(None, 0)
    with pytest.raises(IndexError, match="get_actor_dof_properties: actor 1: environment 0 has 1 actors"):
        world.gym.get_actor_dof_properties(world.envs[0], 1)
    with pytest.raises(ValueError, match="properties of 2 DoFs for 'robot', which has 3"):
        props = world.gym.get_asset_dof_properties(world.asset)
        world.gym.set_actor_dof_properties(world.envs[0], 0, props[:2])


@pytest.mark.parametrize(
    ("call", "arguments"),
    [
        ("get_actor_rigid_body_index", (0, 0, 0)),
        ("get_actor_rigid_body_handle", (0, 0)),
        ("get_actor_root_rigid_body_handle", (0,)),
        ("find_actor_rigid_body_index", (0, "foot", 0)),
        ("get_actor_dof_index", (0, 0, 0)),
        ("get_actor_dof_handle", (0, 0)),
        ("find_actor_dof_index", (0, "foot", 0)),
    ],
)
def test_index_in_what_is_not_an_environment_is_refused(world, call, arguments):
    with pytest.raises(TypeError, match=f"{call}: got NoneType; pass what create_env returned"):
        getattr(world.gym, call)(None, *arguments)


def test_tensors_of_wrong_shape_dtype_or_kind_are_refused(gymapi, world):
    from isaacgym import gymtorch

    world.prepare()
    gym, sim, unwrap = world.gym, world.sim, gymtorch.unwrap_tensor
    with pytest.raises(ValueError, match=r"the tensor of forces has the shape \[5\], 5 numbers; 6 are needed"):
        gym.set_dof_actuation_force_tensor(sim, unwrap(torch.zeros(5)))
    with pytest.raises(TypeError, match=r"is torch\.float64; use \.float\(\)"):
        gym.set_dof_actuation_force_tensor(sim, unwrap(torch.zeros(6, dtype=torch.float64)))
    with pytest.raises(TypeError, match=r"pass gymtorch\.unwrap_tensor"):
        gym.set_dof_actuation_force_tensor(sim, torch.zeros(6))
    state = unwrap(torch.zeros(6, 2))
    with pytest.raises(TypeError, match=r"actor indices are torch\.int64; they must be torch\.int32"):
        gym.set_dof_state_tensor_indexed(sim, state, unwrap(torch.tensor([0])), 1)
    with pytest.raises(ValueError, match="actor indices from 0 to 2; there are 2 actors"):
        gym.set_dof_state_tensor_indexed(sim, state, unwrap(torch.tensor([0, 2], dtype=torch.int32)), 2)
    with pytest.raises(ValueError, match="1 actor indices, and the count is 2"):
        gym.set_dof_state_tensor_indexed(sim, state, unwrap(torch.tensor([0], dtype=torch.int32)), 2)
    with pytest.raises(ValueError, match="not contiguous"):
        unwrap(torch.zeros(4, 4)[:, 0])
    with pytest.raises(ValueError, match="the tensor is on meta"):
        unwrap(torch.zeros(3, device="meta"))
    with pytest.raises(ValueError, match="there is no actor 'dog'; the actors are robot"):
        gym.acquire_jacobian_tensor(sim, "dog")


def test_wrapped_tensor_is_the_memory_that_refreshes_write_to(gymapi, world):
    world.prepare()
    twin = world.torch.wrap_tensor(world.gym.acquire_actor_root_state_tensor(world.sim))
    assert twin.data_ptr() == world.root.data_ptr()
    address = world.root.data_ptr()
    world.step(3)
    assert world.root.data_ptr() == address and float(world.root[0, 2]) < 1.0
    policy_output = torch.zeros(6, requires_grad=True) * 2
    world.gym.set_dof_actuation_force_tensor(world.sim, world.unwrap(policy_output))  # with a gradient


def test_tensor_without_values_is_none(gymapi, box):
    world = World(gymapi, box, 2)
    world.gym.prepare_sim(world.sim)
    assert world.torch.wrap_tensor(world.gym.acquire_dof_state_tensor(world.sim)) is None
    assert world.torch.wrap_tensor(world.gym.acquire_force_sensor_tensor(world.sim)) is None
    world.gym.refresh_dof_state_tensor(world.sim)
    world.gym.simulate(world.sim)


def test_viewer_draws_the_moving_bodies_of_other_environments(gymapi, box):
    import mujoco
    from gymapi_mujoco.viewer import add_others

    world = World(gymapi, box, 3, height=0.5).prepare()
    state = world.root.clone()
    state[:, :2] = torch.tensor([[0.0, 0.0], [3.0, 0.0], [0.0, -2.0]])
    world.gym.set_actor_root_state_tensor(world.sim, world.unwrap(state))
    engine = world.sim.engine
    scene = mujoco.MjvScene(engine.model, maxgeom=10)
    option = mujoco.MjvOption()
    option.sitegroup[:] = 0
    add_others(scene, engine, 1, mujoco.MjData(engine.model), option)
    places = [geom.pos.tolist() for geom in scene.geoms[: scene.ngeom]]
    np.testing.assert_allclose(places, [[0.0, 0.0, 0.5], [0.0, -2.0, 0.5]], atol=1e-6)  # without the ground


WINDOW = """
import sys
sys.path[:0] = sys.argv[1:3]
import gymapi_mujoco
gymapi_mujoco.activate()
from isaacgym import gymapi
from robots import World
from pathlib import Path

world = World(gymapi, Path(sys.argv[3]), 2, height=0.5).prepare()
gym, sim = world.gym, world.sim
sim.graphics_device = 0
viewer = gym.create_viewer(sim, gymapi.CameraProperties())
gym.viewer_camera_look_at(viewer, None, gymapi.Vec3(2, 2, 1), gymapi.Vec3(0, 0, 0.5))
for _ in range(5):
    world.step(1)
    gym.draw_viewer(viewer, sim, True)
assert viewer.showing and not gym.query_viewer_has_closed(viewer)
assert viewer._window.user_scn.ngeom == 1 and abs(viewer._window.cam.distance - 8.25**0.5) < 1e-6
if sys.argv[4] == "destroy":
    gym.destroy_viewer(viewer)
print("closed", gym.query_viewer_has_closed(viewer))
"""


@pytest.mark.skipif(shutil.which("xvfb-run") is None, reason="needs xvfb-run, a display without a screen")
@pytest.mark.parametrize("ending", ["destroy", "leave"])
def test_window_opens_shows_and_closes(box, ending):
    here = Path(__file__).parent
    arguments = [sys.executable, "-c", WINDOW, str(here.parent), str(here), str(box), ending]
    done = subprocess.run(["xvfb-run", "-a", *arguments], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert done.stdout.split() == ["closed", str(ending == "destroy")]


def test_viewer_without_a_display_takes_all_calls(gymapi, world, monkeypatch, capsys):
    from isaacgym import gymutil

    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    world.prepare()
    gym, sim = world.gym, world.sim
    viewer = gym.create_viewer(sim, gymapi.CameraProperties())
    gym.subscribe_viewer_keyboard_event(viewer, gymapi.KEY_V, "toggle")
    gym.viewer_camera_look_at(viewer, None, gymapi.Vec3(2, 0, 1), gymapi.Vec3(0, 0, 1))
    forward = gym.get_viewer_camera_transform(viewer, None).r.rotate(gymapi.Vec3(1, 0, 0))
    np.testing.assert_allclose([forward.x, forward.y, forward.z], [-1, 0, 0], atol=1e-6)
    ball = gymutil.WireframeSphereGeometry(0.1, 4, 4, None, color=(1, 1, 0))
    gymutil.draw_lines(ball, gym, viewer, world.envs[0], gymapi.Transform(gymapi.Vec3(1, 2, 3), r=None))
    ends = viewer.lines[0][0]
    np.testing.assert_allclose(np.linalg.norm(ends - [1, 2, 3], axis=-1), 0.1, atol=1e-6)
    for _ in range(2):
        gym.step_graphics(sim)
        gym.draw_viewer(viewer, sim, True)
        gym.sync_frame_time(sim)
    viewer.press(ord("V"))
    events = gym.query_viewer_action_events(viewer)
    assert [(event.action, event.value) for event in events] == [("toggle", 1.0)]
    assert gym.query_viewer_action_events(viewer) == [] and not gym.query_viewer_has_closed(viewer)
    assert capsys.readouterr().err.count("there is no display") == 1
