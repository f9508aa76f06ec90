"""torch_utils against rotation matrices, the command line of gymutil, old names, the launcher."""

import math
import os
import subprocess
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

PACKAGE = Path(__file__).resolve().parent.parent


@pytest.fixture
def utils(gymapi):
    from isaacgym import torch_utils

    return torch_utils


def matrix(q):
    """Return rotation matrices of quaternions x y z w, by the sum of powers of the cross product's matrix."""
    axis, w = q[:, :3], q[:, 3]
    cross = torch.zeros(len(q), 3, 3)
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        cross[:, i, j], cross[:, j, i] = -axis[:, k], axis[:, k]
    return torch.eye(3) + 2 * w[:, None, None] * cross + 2 * cross @ cross


def apply(m, v):
    return (m @ v.unsqueeze(-1)).squeeze(-1)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10**6))
def test_quaternion_functions_agree_with_rotation_matrices(utils, seed):
    torch.manual_seed(seed)
    a, b = (torch.nn.functional.normalize(torch.randn(5, 4), dim=1) for _ in "ab")
    v, t, s = torch.randn(5, 3), torch.randn(5, 3), torch.randn(5, 3)
    close = {"atol": 2e-5, "rtol": 1e-4}
    torch.testing.assert_close(utils.quat_rotate(a, v), apply(matrix(a), v), **close)
    torch.testing.assert_close(utils.quat_apply(a, v), apply(matrix(a), v), **close)
    torch.testing.assert_close(utils.quat_rotate_inverse(a, v), apply(matrix(a).transpose(1, 2), v), **close)
    torch.testing.assert_close(matrix(utils.quat_mul(a, b)), matrix(a) @ matrix(b), **close)
    torch.testing.assert_close(matrix(utils.quat_conjugate(a)), matrix(a).transpose(1, 2), **close)
    angles = (torch.rand(3, 5) - 0.5) * torch.tensor([6.2, 3.0, 6.2])[:, None]
    q = utils.quat_from_euler_xyz(*angles)
    turns = [torch.nn.functional.one_hot(torch.tensor(i), 3).float() for i in range(3)]
    parts = [matrix(utils.quat_from_angle_axis(angle, turn.expand(5, 3))) for angle, turn in zip(angles, turns)]
    torch.testing.assert_close(matrix(q), parts[2] @ parts[1] @ parts[0], **close)
    found = torch.stack(utils.get_euler_xyz(q))
    torch.testing.assert_close(utils.normalize_angle(found), angles, atol=2e-3, rtol=1e-3)
    assert (found >= 0).all() and (found <= 2 * math.pi + 1e-6).all()
    qc, tc = utils.tf_combine(a, t, b, s)
    torch.testing.assert_close(utils.tf_apply(qc, tc, v), apply(matrix(a), apply(matrix(b), v) + s) + t, **close)
    torch.testing.assert_close(utils.tf_apply(*utils.tf_inverse(a, t), utils.tf_apply(a, t, v)), v, **close)
    for i in range(3):
        torch.testing.assert_close(utils.quat_axis(a, i), matrix(a)[:, :, i], **close)


def test_functions_can_be_called_from_compiled_ones(utils, tmp_path):
    source = """
def total(q: Tensor, v: Tensor, low: Tensor, high: Tensor, shape: Tuple[int, int], device: str) -> Tensor:
    r, p, y = get_euler_xyz(q)
    turned = quat_rotate_inverse(q, quat_apply(q, quat_rotate(q, v))) + normalize(v)
    q = quat_mul(quat_conjugate(q), quat_from_euler_xyz(r, p, y))
    angle = normalize_angle(r) + scale(p, low, high) + torch_rand_float(0.0, 1.0, shape, device).sum()
    return turned.sum() + quat_from_angle_axis(angle, v).sum() + copysign(1.0, angle).sum() + q.sum()
"""
    path = tmp_path / "compiled.py"  # TorchScript reads the source
    path.write_text("import torch\nfrom isaacgym.torch_utils import *\n@torch.jit.script" + source)
    module = types.ModuleType("compiled")
    exec(compile(path.read_text(), str(path), "exec"), vars(module))
    q = torch.tensor([[0.0, 0, 0, 1]])
    assert torch.isfinite(module.total(q, torch.ones(1, 3), torch.zeros(1), torch.ones(1), (2, 3), "cpu"))


def test_small_helpers_give_their_numbers(utils):
    assert utils.get_axis_params(-1.0, 2) == [0.0, 0.0, -1.0]
    assert utils.get_axis_params(0.5, 1, x_value=2.0) == [2.0, 0.5, 0.0]
    assert utils.scale(torch.tensor(0.0), torch.tensor(1.0), torch.tensor(3.0)) == 2.0
    assert utils.unscale(torch.tensor(2.5), torch.tensor(1.0), torch.tensor(3.0)) == 0.5
    assert utils.to_torch([1, 2]).dtype == torch.float32 and utils.to_torch([1, 2]).device.type == "cpu"
    numbers = utils.torch_rand_float(2.0, 3.0, (100, 2), "cpu")
    assert numbers.shape == (100, 2) and numbers.min() >= 2 and numbers.max() <= 3
    assert utils.copysign(2.0, torch.tensor([-0.5, 3.0])).tolist() == [-2.0, 2.0]
    assert utils.normalize(torch.zeros(1, 3)).tolist() == [[0, 0, 0]]
    assert utils.torch is torch and utils.np is np  # clients import them by *


def test_command_line_uses_the_cpu_where_there_is_no_cuda(gymapi, monkeypatch, capsys):
    from isaacgym import gymutil

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["x", "--sim_device", "cuda:1", "--headless", "--seed", "3", "--num_threads", "2"])
    own = [
        {"name": "--headless", "action": "store_true", "default": False},
        {"name": "--rl_device", "type": str, "default": "cuda:0"},
        {"name": "--seed", "type": int},
    ]
    args = gymutil.parse_arguments(custom_parameters=own)
    assert (args.sim_device_type, args.compute_device_id, args.rl_device) == ("cpu", 0, "cpu")
    assert args.headless and args.seed == 3 and args.num_threads == 2 and args.physics_engine == gymapi.SIM_PHYSX
    assert not args.use_gpu and not args.use_gpu_pipeline and args.device == "cpu"
    assert "cpu instead of sim_device=cuda:1, rl_device=cuda:0" in capsys.readouterr().err
    assert gymutil.parse_device_str("cuda:2") == ("cuda", 2) and gymutil.parse_device_str("cpu") == ("cpu", 0)
    with pytest.raises(ValueError, match="device 'tpu'"):
        gymutil.parse_device_str("tpu")


def test_settings_are_written_to_sim_params(gymapi, capsys):
    from isaacgym import gymutil

    params = gymapi.SimParams()
    settings_ = {"dt": 0.002, "gravity": [0, 0, -3], "up_axis": 1, "physx": {"num_threads": 3}, "colour": 1}
    gymutil.parse_sim_config(settings_, params)
    assert params.gravity.z == -3 and params.physx.num_threads == 3 and params.up_axis is gymapi.UP_AXIS_Z
    assert "'colour' is not known" in capsys.readouterr().err


def run(code, **environment):
    env = {**os.environ, "PYTHONPATH": str(PACKAGE), **environment}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, check=False)


OLD = """
import sys, warnings
{torch}
sys.path.insert(0, {modules!r})
{first}
import numpy as np, collections, inspect
import imp, distutils.util
assert np.zeros(2, dtype=np.float).dtype == np.float64 and np.int is int and np.Inf == np.inf
assert np.product([2, 3]) == 6 and np.in1d([1, 2], [2]).tolist() == [False, True]
assert issubclass(dict, collections.Mapping) and inspect.getargspec(lambda a, b=1: 0).args == ["a", "b"]
"""

TWICE = """
import importlib.util
find_spec = importlib.util.find_spec  # the module imp is missing since Python 3.12
importlib.util.find_spec = lambda name: None if name == "imp" and name not in sys.modules else find_spec(name)
from gymapi_mujoco import legacy
legacy.apply()  # as the launcher does, before the script imports isaacgym
import isaacgym
"""


def test_old_names_are_there_after_the_import_and_not_without_it():
    import gymapi_mujoco

    names = {"modules": str(gymapi_mujoco.MODULES), "first": "import isaacgym"}
    done = run(OLD.format(torch="import torch  # which NVIDIA's module forbids before isaacgym", **names))
    assert done.returncode == 0, done.stderr
    off = run(OLD.format(torch="", **names), GYMAPI_MUJOCO_LEGACY="0")
    assert off.returncode != 0 and "np.float" in off.stderr
    twice = run(OLD.format(torch="", modules=names["modules"], first=TWICE))
    assert twice.returncode == 0, twice.stderr
    plain = run(
        "import gymapi_mujoco, numpy as np, sys; assert not hasattr(np, 'product'); assert 'torch' not in sys.modules"
    )
    assert plain.returncode == 0, plain.stderr


def test_random_changes_of_properties_follow_their_description(gymapi, tmp_path):
    from isaacgym import gymutil
    from robots import ARM, World

    (tmp_path / "arm.urdf").write_text(ARM)
    gym, env = (world := World(gymapi, tmp_path / "arm.urdf", 1)).gym, world.envs[0]
    getters, setters = gymutil.get_property_getter_map(gym), gymutil.get_property_setter_map(gym)
    arguments = gymutil.get_default_setter_args(gym)
    assert set(getters) == set(setters) == set(arguments)
    times = {"operation": "scaling", "distribution": "uniform", "range": [2.0, 2.0]}
    for name, attribute in (("rigid_body_properties", "mass"), ("rigid_shape_properties", "friction")):
        before, after = getters[name](env, 0), getters[name](env, 0)
        for old, new in zip(before, after):
            gymutil.apply_random_samples(new, old, attribute, times, 0)
        setters[name](env, 0, after, *arguments[name])
        for old, new in zip(before, getters[name](env, 0)):
            assert getattr(new, attribute) == pytest.approx(2 * getattr(old, attribute))
    dofs, original = gym.get_actor_dof_properties(env, 0), gym.get_actor_dof_properties(env, 0)
    plus = {"operation": "additive", "distribution": "gaussian", "range": [3.0, 0.0]}
    gymutil.apply_random_samples(dofs, original, "damping", plus, 0)
    np.testing.assert_allclose(dofs["damping"], original["damping"] + 3)
    params = gymapi.SimParams()
    later = {**plus, "schedule": "linear", "schedule_steps": 100}
    for step, change in ((0, 0.0), (50, 1.5), (200, 3.0)):
        gymutil.apply_random_samples(params, gymapi.SimParams(), "gravity", later, step)
        assert params.gravity.x == pytest.approx(change) and params.gravity.y == pytest.approx(-9.8 + change, abs=0.02)
    shape = gym.get_actor_rigid_shape_properties(env, 0)[0]
    steps = {"operation": "scaling", "distribution": "loguniform", "range": [0.5, 1.5], "num_buckets": 3}
    seen = set()
    for _ in range(40):
        gymutil.apply_random_samples(shape, gymapi.RigidShapeProperties(), "friction", steps, 0)
        seen.add(round(shape.friction, 5))
    assert seen == {0.5, 1.0, 1.5}
    held = {**times, "schedule": "constant", "schedule_steps": 10}
    assert [float(gymutil.generate_random_samples(held, (), step)) for step in (9, 10)] == [1.0, 2.0]
    assert gymutil.generate_random_samples(times, 2, 0, extern_sample=[4.0, 5.0]).tolist() == [4.0, 5.0]
    gymutil.check_buckets(gym, world.envs, {"actor_params": {"robot": {"rigid_shape_properties": {"friction": steps}}}})
    with pytest.raises(ValueError, match="the distribution 'normal'; it can be uniform, loguniform, gaussian"):
        gymutil.generate_random_samples({**times, "distribution": "normal"}, (), 0)


@pytest.mark.parametrize("variables", [{}, {"GOMP_SPINCOUNT": "7"}, {"OMP_WAIT_POLICY": "active"}])
def test_spin_count_is_set_unless_the_user_sets_it(monkeypatch, tmp_path, variables):
    import gymapi_mujoco

    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    show = "import os; print(os.environ.get('GOMP_SPINCOUNT'))"
    expected = variables.get("GOMP_SPINCOUNT", "None") if variables else "50000"
    code = f"import sys; sys.path.insert(0, {str(gymapi_mujoco.MODULES)!r}); import isaacgym; {show}"
    assert run(code, **variables).stdout == f"{expected}\n"
    (tmp_path / "client.py").write_text(show)  # the launcher sets it before a client imports torch
    env = {**os.environ, "PYTHONPATH": str(PACKAGE), **variables}
    command = [sys.executable, "-m", "gymapi_mujoco", str(tmp_path / "client.py")]
    done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    assert done.stdout == f"{expected}\n", done.stderr


TIMERS = """
import sys
sys.path.insert(0, {modules!r})
import ctypes, time, mujoco
from isaacgym import gymapi
from robots import ARM, World
from pathlib import Path
clock = ctypes.CFUNCTYPE(ctypes.c_double)(time.perf_counter)
if {own_clock}:
    mujoco.set_mjcb_time(clock)
path = Path({folder!r}) / "arm.urdf"
path.write_text(ARM)
World(gymapi, path, 1).prepare().step(1)
model = mujoco.MjModel.from_xml_string("<mujoco><worldbody><geom size='1'/></worldbody></mujoco>")
data = mujoco.MjData(model)
mujoco.mj_step(model, data)
timer = data.timer[int(mujoco.mjtTimer.mjTIMER_FORWARD)]
print(timer.number, timer.duration > 0)
"""


@pytest.mark.parametrize("own_clock", [False, True])
def test_mujoco_reads_no_clock_unless_the_user_sets_one(tmp_path, own_clock):
    import gymapi_mujoco

    code = TIMERS.format(modules=str(gymapi_mujoco.MODULES), own_clock=own_clock, folder=str(tmp_path))
    done = run(code, PYTHONPATH=os.pathsep.join((str(PACKAGE), str(Path(__file__).parent))))
    assert done.stdout == f"1 {own_clock}\n", done.stderr


def test_launcher_refuses_a_missing_script_and_explains_itself(tmp_path):
    command = [sys.executable, "-m", "gymapi_mujoco"]
    env = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    missing = subprocess.run([*command, "no.py"], capture_output=True, text=True, env=env, cwd=tmp_path, check=False)
    assert missing.returncode == 1 and "there is no file" in missing.stderr and "Traceback" not in missing.stderr
    usage = subprocess.run([*command, "--help"], capture_output=True, text=True, env=env, check=False)
    assert usage.returncode == 0 and "--cuda-as-cpu" in usage.stdout


def test_launcher_takes_cuda_names_as_the_cpu_on_request_and_finds_the_repository(tmp_path):
    project = tmp_path / "clone" / "robots"
    (project / "scripts").mkdir(parents=True)
    (project / "walker").mkdir()
    (tmp_path / "clone" / ".git").mkdir()
    for folder, module in ((tmp_path / "clone" / "learner", "learner"), (tmp_path / "other", "foreign")):
        folder.mkdir()
        (folder / "setup.py").write_text("")
        (folder / f"{module}.py").write_text("NAME = 'learner'\n")
    (project / "setup.py").write_text("")
    (project / "walker" / "__init__.py").write_text("NAME = 'walker'\n")
    (project / "scripts" / "train.py").write_text(
        "import isaacgym, torch, sys, importlib.util\nfrom walker import NAME\nimport learner\n"
        "assert importlib.util.find_spec('foreign') is None\n"
        "x = torch.zeros(2, device='cuda:0'); y = torch.ones(2).cuda().to('cuda')\n"
        "m = torch.nn.Linear(2, 2).to(torch.device('cuda:0')).cuda()\n"
        "assert torch.abs(x < 1).all() and (x < 1).abs().dtype is torch.bool and not (x > 1).abs().any()\n"
        "free, total = torch.cuda.mem_get_info('cuda:0')\nassert 0 < free <= total\n"
        "print(NAME, (m(x) + y).device, isaacgym.__engine__, sys.argv[1:])\n"
    )
    env = {**os.environ, "PYTHONPATH": str(PACKAGE)}
    command = [
        sys.executable,
        "-m",
        "gymapi_mujoco",
        "--cuda-as-cpu",
        str(project / "scripts" / "train.py"),
        "--a",
        "1",
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "walker cpu gymapi-mujoco 0.1.0 ['--a', '1']\n"


def test_install_writes_a_path_file_that_uninstall_removes(tmp_path, monkeypatch):
    import gymapi_mujoco
    from gymapi_mujoco import __main__ as launcher

    monkeypatch.setattr(launcher, "_path_file", lambda: tmp_path / "gymapi_mujoco_modules.pth")
    assert launcher.uninstall().startswith("nothing to remove")
    assert "--uninstall removes it" in launcher.install()
    (line,) = (tmp_path / "gymapi_mujoco_modules.pth").read_text().splitlines()
    assert (Path(line) / "isaacgym" / "gymapi.py").is_file() and Path(line) == gymapi_mujoco.MODULES
    assert launcher.uninstall().startswith("removed") and not list(tmp_path.iterdir())
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "isaacgym.py").write_text("")
    with pytest.raises(SystemExit, match="there is an isaacgym already"):
        launcher.install()
