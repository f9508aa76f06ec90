"""The double refuses what Isaac Gym, or its stub, would."""

import pytest
import torch

from rsl_rl.robots.go2 import GO2
from tests.sim.isaac_gym_double import instead_of_isaac_gym


@pytest.fixture
def api():
    for _ in instead_of_isaac_gym():
        from isaacgym import gymapi

        yield gymapi


@pytest.fixture
def world(api):
    """Gym and a simulation of two robots, ready to be prepared."""
    gym, params = api.acquire_gym(), api.SimParams()
    params.dt, params.substeps, params.up_axis = 0.005, 1, api.UP_AXIS_Z
    params.physx.contact_collection = api.CC_LAST_SUBSTEP
    sim = gym.create_sim(0, -1, api.SIM_PHYSX, params)
    plane = api.PlaneParams()
    plane.normal = api.Vec3(0, 0, 1)
    gym.add_ground(sim, plane)
    options = api.AssetOptions()
    options.angular_damping = 0.0
    options.replace_cylinder_with_capsule = options.use_physx_armature = True
    urdf = GO2.model_path.with_suffix(".urdf")
    asset = gym.load_urdf(sim, str(urdf.parent), urdf.name, options)
    drives = gym.get_asset_dof_properties(asset)
    drives["driveMode"] = int(api.DOF_MODE_EFFORT)
    for i in range(2):
        env = gym.create_env(sim, api.Vec3(), api.Vec3(), 2)
        gym.create_actor(env, asset, api.Transform(), "robot", i, 1, 0)
        gym.set_actor_dof_properties(env, 0, drives)
    return gym, sim


def test_what_the_stub_does_not_declare_is_not_there(api):
    gym, params = api.acquire_gym(), api.SimParams()
    with pytest.raises(AttributeError):
        gym.simulat(None)
    with pytest.raises(TypeError, match="missing a required argument"):
        gym.simulate()
    with pytest.raises(TypeError, match="too many positional"):
        gym.simulate(api.Sim(), 1)
    with pytest.raises(TypeError, match="takes Sim, not int"):
        gym.simulate(3)
    with pytest.raises(TypeError, match="takes int, not float"):
        gym.create_sim(0.0, -1, api.SIM_PHYSX, params)
    with pytest.raises(AttributeError, match="SimParams has no attribute 'sub_steps'"):
        params.sub_steps = 1
    with pytest.raises(TypeError, match="takes UpAxis, not int"):
        params.up_axis = 2
    with pytest.raises(AttributeError):
        _ = api.SIM_PHYX
    assert int(api.DOF_MODE_EFFORT) == 3 and int(api.CC_LAST_SUBSTEP) == 1  # as Isaac Gym numbers them


def test_calls_out_of_order_are_refused(world):
    gym, sim = world
    for early in ("simulate", "acquire_dof_state_tensor"):
        with pytest.raises(AssertionError, match="prepare_sim"):
            getattr(gym, early)(sim)
    gym.prepare_sim(sim)
    with pytest.raises(AssertionError, match="comes once"):
        gym.prepare_sim(sim)
    with pytest.raises(AssertionError, match="an effort lasts for one step"):
        gym.simulate(sim)
    with pytest.raises(AssertionError, match="fetch_results"):
        gym.refresh_dof_state_tensor(sim)


def test_tensors_of_another_kind_and_stale_ones_are_refused(world):
    from isaacgym import gymtorch

    gym, sim = world
    gym.prepare_sim(sim)
    dof = gymtorch.wrap_tensor(gym.acquire_dof_state_tensor(sim))
    assert dof.shape == (24, 2) and dof.isnan().all()
    for wrong in (torch.zeros(2, 12), torch.zeros(24, dtype=torch.float64), torch.full((24,), torch.nan)):
        with pytest.raises(AssertionError):
            gym.set_dof_actuation_force_tensor(sim, gymtorch.unwrap_tensor(wrong))
    with pytest.raises(AssertionError, match="contiguous"):
        gymtorch.unwrap_tensor(torch.zeros(4, 4)[:, 0])
    state = gymtorch.unwrap_tensor(torch.zeros(24, 2))
    with pytest.raises(AssertionError):
        gym.set_dof_state_tensor_indexed(sim, state, gymtorch.unwrap_tensor(torch.tensor([0, 1])), 2)  # int64
    gym.set_dof_state_tensor_indexed(sim, state, gymtorch.unwrap_tensor(torch.tensor([0], dtype=torch.int32)), 1)
    with pytest.raises(AssertionError, match="one indexed write per step"):
        gym.set_dof_state_tensor_indexed(sim, state, gymtorch.unwrap_tensor(torch.tensor([1], dtype=torch.int32)), 1)
    gym.set_dof_actuation_force_tensor(sim, gymtorch.unwrap_tensor(torch.zeros(24)))
    with pytest.raises(AssertionError, match="sets root and DoFs"):
        gym.simulate(sim)
