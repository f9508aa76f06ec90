"""Measure a control step of the Isaac Gym interface of gymapi-mujoco, side by side with one of the engine mujoco.

Both step the Go2 on a plane with four physics steps of 5 ms and the same random joint targets. The client of the
interface computes torques in torch between the physics steps and reads the states, as legged_gym does.

    python benchmarks/gym_interface.py --num_envs 512 4096
    python benchmarks/gym_interface.py --cones              # pyramidal beside elliptic friction cones
"""

# pyright: reportMissingModuleSource=false, reportMissingImports=false
from __future__ import annotations

import argparse
import os
import sys
import time
from functools import partial
from pathlib import Path
from typing import Callable, List

import torch

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "gymapi-mujoco"), str(ROOT / "gymapi-mujoco" / "gymapi_mujoco" / "modules")]

import isaacgym.gymtorch as gymtorch  # noqa: E402
from isaacgym import gymapi  # noqa: E402

from rsl_rl.config.sim import SimConfig  # noqa: E402
from rsl_rl.robots.go2 import GO2  # noqa: E402
from rsl_rl.sim.base import RobotPoseVel  # noqa: E402
from rsl_rl.sim.mujoco_cpu import MujocoSim  # noqa: E402

DECIMATION = 4
STIFFNESS, DAMPING = 30.0, 0.75
POSE = torch.tensor(GO2.default_joint_pos)
RESET_EVERY = 100
"""Control steps after which all robots start again, so that both sides have robots on their feet."""


class Interface:
    """legged_gym's control step on gymapi-mujoco."""

    def __init__(self, num_envs: int):
        self.gym, self.num_envs = gymapi.acquire_gym(), num_envs
        params = gymapi.SimParams()
        params.dt, params.substeps, params.up_axis = 0.005, 1, gymapi.UP_AXIS_Z
        params.gravity = gymapi.Vec3(0.0, 0.0, -9.81)
        self.sim = self.gym.create_sim(0, -1, gymapi.SIM_PHYSX, params)
        plane = gymapi.PlaneParams()
        plane.normal = gymapi.Vec3(0.0, 0.0, 1.0)
        self.gym.add_ground(self.sim, plane)
        options = gymapi.AssetOptions()
        options.default_dof_drive_mode, options.angular_damping = 3, 0.0
        options.replace_cylinder_with_capsule = True
        options.armature = 0.01
        urdf = GO2.model_path.with_suffix(".urdf")
        asset = self.gym.load_asset(self.sim, str(urdf.parent), urdf.name, options)
        self.efforts = torch.from_numpy(self.gym.get_asset_dof_properties(asset)["effort"].copy())
        pose = gymapi.Transform(gymapi.Vec3(0.0, 0.0, 0.32))
        for i in range(num_envs):
            env = self.gym.create_env(self.sim, gymapi.Vec3(), gymapi.Vec3(), 1)
            self.gym.create_actor(env, asset, pose, "robot", i, 1)
        self.gym.prepare_sim(self.sim)
        self.root = gymtorch.wrap_tensor(self.gym.acquire_actor_root_state_tensor(self.sim))
        self.dof = gymtorch.wrap_tensor(self.gym.acquire_dof_state_tensor(self.sim))
        gymtorch.wrap_tensor(self.gym.acquire_net_contact_force_tensor(self.sim))
        self.pos, self.vel = self.dof.view(num_envs, 12, 2).unbind(2)
        self.start = self.root.clone()

    def reset(self) -> None:
        self.root.copy_(self.start)
        self.pos.copy_(POSE.expand(self.num_envs, 12))
        self.vel.zero_()
        self.gym.set_actor_root_state_tensor(self.sim, gymtorch.unwrap_tensor(self.root))
        self.gym.set_dof_state_tensor(self.sim, gymtorch.unwrap_tensor(self.dof))

    def step(self, targets: torch.Tensor) -> None:
        for _ in range(DECIMATION):
            torques = STIFFNESS * (targets - self.pos) - DAMPING * self.vel
            torques = torch.clip(torques, -self.efforts, self.efforts)
            self.gym.set_dof_actuation_force_tensor(self.sim, gymtorch.unwrap_tensor(torques))
            self.gym.simulate(self.sim)
            self.gym.fetch_results(self.sim, True)
            self.gym.refresh_dof_state_tensor(self.sim)
        self.gym.refresh_actor_root_state_tensor(self.sim)
        self.gym.refresh_net_contact_force_tensor(self.sim)


class Engine:
    """The control step of --sim mujoco."""

    def __init__(self, num_envs: int):
        self.sim, self.num_envs = MujocoSim(GO2.model_path, num_envs, SimConfig(contact_impedance=0.999)), num_envs

    def reset(self) -> None:
        pos, quat, zero = (torch.zeros(self.num_envs, size) for size in (3, 4, 3))
        pos[:, 2], quat[:, 0] = 0.32, 1.0
        state = RobotPoseVel(pos, quat, zero, zero, POSE.repeat(self.num_envs, 1), torch.zeros(self.num_envs, 12))
        self.sim.reset(torch.ones(self.num_envs, dtype=torch.bool), state)

    def step(self, targets: torch.Tensor) -> None:
        self.sim.step(targets, DECIMATION)


def measure(side: Interface | Engine, seconds: float) -> float:
    """Return milliseconds per control step."""
    torch.manual_seed(0)
    steps, spent = 0, 0.0
    while spent < seconds:
        if steps % RESET_EVERY == 0:
            side.reset()
        targets = POSE + 0.1 * torch.randn(side.num_envs, 12)
        start = time.perf_counter()
        side.step(targets)
        spent += time.perf_counter() - start
        steps += 1
    return 1000 * spent / steps


def with_cone(cone: str, num_envs: int) -> Interface:
    """Return an interface with a friction cone, pyramidal or elliptic."""
    os.environ["GYMAPI_MUJOCO_CONE"] = cone
    return Interface(num_envs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--num_envs", type=int, nargs="+", default=[512, 4096], help="numbers of robots")
    parser.add_argument("--seconds", type=float, default=5.0, help="time of each measurement [s]")
    parser.add_argument("--repeats", type=int, default=3, help="measurements in turn; the best of each side counts")
    parser.add_argument("--cones", action="store_true", help="compare pyramidal and elliptic cones of the interface")
    args = parser.parse_args()
    makers: List[Callable[[int], Interface | Engine]] = [Interface, Engine]
    names = "interface", "mujoco"
    if args.cones:
        names = "elliptic", "pyramidal"
        makers = [partial(with_cone, name) for name in names]
    print(f"| robots | {names[0]} [ms] | {names[1]} [ms] | ratio |\n|---|---|---|---|")
    for num_envs in args.num_envs:
        sides = [make(num_envs) for make in makers]
        times = [[measure(side, args.seconds) for side in sides] for _ in range(args.repeats)]
        one, other = (min(column) for column in zip(*times))
        print(f"| {num_envs} | {one:.1f} | {other:.1f} | {one / other:.2f} |", flush=True)


if __name__ == "__main__":
    main()
