"""Runs the tensor code on a device that is not the CPU and computes nothing: tensors of torch's FakeTensorMode.

A tensor of another device, a value that is read on the host, and a shape that depends on values are errors there. So a
run to the end proves that no call waits for a GPU, and that nothing is left on the CPU. It needs a process of its own.
"""

import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch._subclasses import fake_tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import gymapi_mujoco  # noqa: E402

gymapi_mujoco.activate()

from gymapi_mujoco import gym as calls  # noqa: E402
from gymapi_mujoco import states  # noqa: E402
from gymapi_mujoco.backends import Backend  # noqa: E402
from gymapi_mujoco.worlds import Worlds  # noqa: E402
from isaacgym import gymapi, gymtorch  # noqa: E402
from robots import ARM, World  # noqa: E402

SIZES = {
    "cfrc_ext": ("nbody", 6), "xfrc_applied": ("nbody", 6), "xpos": ("nbody", 3), "xipos": ("nbody", 3),
    "xquat": ("nbody", 4), "cvel": ("nbody", 6), "subtree_com": ("nbody", 3), "cdof": ("nv", 6), "M": ("nC",),
    "qpos": ("nq",), "ctrl": ("nu",),
}  # fmt: skip
"""Shapes of arrays of MjData; those left out have nv numbers."""


class FakeWorlds(Worlds):
    """Worlds whose tensors have a shape and a device, and no values."""

    dtype = torch.float32

    def state(self, name):
        shape = [getattr(self.model, size) if isinstance(size, str) else size for size in SIZES.get(name, ("nv",))]
        return torch.zeros(self.num, *shape, device=self.device)

    result = state

    def values(self, name):
        field = self.model.opt.gravity if name == "opt.gravity" else getattr(self.model, name)
        return torch.zeros(1, *field.shape, device=self.device)

    def field(self, name):
        return self.values(name).repeat_interleave(self.num, dim=0)

    def update_constants(self):
        pass

    def step(self, substeps):
        return torch.zeros(self.num, dtype=torch.bool, device=self.device)

    def forward(self):
        pass

    get_data = get_model = ray = None


class SameDevice(TorchDispatchMode):
    """Refuses indices on the CPU, which torch would copy to the device, waiting for it."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.__name__.startswith("index"):
            devices = {x.device for x in (args[0], *args[1]) if isinstance(x, torch.Tensor)}
            assert len(devices) == 1, f"{func} with {devices}"
        return func(*args, **(kwargs or {}))


class NoReport:
    """In place of a Report, which reads a copy on the host that nothing waits for."""

    count = 0

    def __init__(self, message, device):
        pass

    def add(self, mask):
        assert mask.device.type == "fakegpu"


FakeWorlds.__abstractmethods__ = frozenset()


def run(world):
    """Call everything that a control step may call, and what it may refresh."""
    gym, sim, wrap = world.gym, world.sim, gymtorch.wrap_tensor
    given = [wrap(gym.acquire_jacobian_tensor(sim, "robot")), wrap(gym.acquire_mass_matrix_tensor(sim, "robot"))]
    given += [wrap(gym.acquire_dof_force_tensor(sim)), wrap(gym.acquire_force_sensor_tensor(sim))]
    numbers = world.dof[..., 0] * 2.0
    handles = [gymapi.Tensor(x) for x in (world.root, world.dof, numbers, world.force)]
    ids = gymapi.Tensor(torch.zeros(1, dtype=torch.int32, device=world.root.device))
    root, dof, target, force = handles
    for _ in range(2):
        gym.set_actor_root_state_tensor(sim, root)
        gym.set_actor_root_state_tensor_indexed(sim, root, ids, 1)
        gym.set_dof_state_tensor(sim, dof)
        gym.set_dof_state_tensor_indexed(sim, dof, ids, 1)
        for call in ("actuation_force", "position_target", "velocity_target"):
            getattr(gym, f"set_dof_{call}_tensor")(sim, target)
            getattr(gym, f"set_dof_{call}_tensor_indexed")(sim, target, ids, 1)
        for space in (gymapi.ENV_SPACE, gymapi.GLOBAL_SPACE, gymapi.LOCAL_SPACE):
            gym.apply_rigid_body_force_tensors(sim, force, None, space)
            gym.apply_rigid_body_force_at_pos_tensors(sim, force, force, space)
        gym.simulate(sim)
        world.refresh()
        for name in ("jacobian_tensors", "mass_matrix_tensors", "dof_force_tensor", "force_sensor_tensor"):
            getattr(gym, f"refresh_{name}")(sim)
    for tensor in (*given, world.root, world.dof, world.force, world.body):
        assert tensor.device.type == "fakegpu" and tensor.dtype == torch.float32


def main():
    _setup_privateuseone_for_python_backend("fakegpu")
    fake_tensor.CONSTANT_NUMEL_LIMIT = -1  # single numbers have no value either
    states.Report = NoReport
    calls.indices = lambda value, count, *rest: value.torch[:count].long()  # the check reads the indices
    torch.equal = lambda *tensors: False  # asked where a client sets properties, which is no part of a step
    Backend.make = lambda backend, model, num: FakeWorlds(model, num, torch.device("fakegpu:0"))
    path = Path(tempfile.mkdtemp()) / "arm.urdf"
    path.write_text(ARM)

    def drive(world, env, i):
        props = world.gym.get_actor_dof_properties(env, 0)
        props["driveMode"] = int(gymapi.DOF_MODE_POS)
        world.gym.set_actor_dof_properties(env, 0, props)

    with FakeTensorMode(), SameDevice():
        for options in ({}, {"fix_base_link": True}):
            world = World(gymapi, path, 2, change=drive, **options)
            world.gym.create_asset_force_sensor(world.asset, 0, gymapi.Transform())
            run(world.prepare())
    print("on", world.root.device, np.prod(world.body.shape))


if __name__ == "__main__":
    main()
