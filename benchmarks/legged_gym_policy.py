"""Evaluate and film a policy that legged_gym, or a repository with its task registry, trained on gymapi-mujoco.

All robots get one velocity command for 20 s. A robot passes if it does not fall and the mean of
|commanded - measured velocity| along x, in its own frame, is at most the tolerance. The task keeps its noise and
its random friction; its pushes are off. Run it in the repository, whose own flags follow this script's:

    python -m gymapi_mujoco RSL_RL/benchmarks/legged_gym_policy.py --film walk.webp --task anymal_c_flat --headless

It takes the newest checkpoint of the task, or with --policy a TorchScript file, such as one that was trained with
Isaac Gym.
"""

# pyright: reportMissingImports=false, reportMissingModuleSource=false
from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Callable, List, Optional

import numpy as np
import torch
from PIL import Image

sys.path.append(str(Path.cwd()))  # the client's repository
try:
    from isaacgym import gymapi  # before the client, as it demands
    from legged_gym import envs  # noqa: F401  # registers the tasks
    from legged_gym.utils import get_args, task_registry
except ModuleNotFoundError as error:
    sys.exit(f"{error}; run this by python -m gymapi_mujoco, in the folder of a repository with the package legged_gym")

SECONDS = 20.0
FRAME_SECONDS = 0.08
WIDTH, HEIGHT = 480, 320

Policy = Callable[[torch.Tensor], torch.Tensor]


class Camera:
    """A camera beside the first robot; it keeps the pictures of a film."""

    def __init__(self, env, path: Path) -> None:
        self.env, self.path = env, path
        self.frames: List[Image.Image] = []
        props = gymapi.CameraProperties()
        props.width, props.height, props.horizontal_fov = WIDTH, HEIGHT, 50.0
        self.handle = env.gym.create_camera_sensor(env.envs[0], props)

    def shoot(self) -> None:
        """Take a picture."""
        gym, first = self.env.gym, self.env.envs[0]
        origin, root = gym.get_env_origin(first), self.env.root_states[0]
        x, y, z = float(root[0] - origin.x), float(root[1] - origin.y), float(root[2] - origin.z)
        place = gymapi.Vec3(x + 0.9, y - 1.7, z + 0.5)
        gym.set_camera_location(self.handle, first, place, gymapi.Vec3(x, y, z - 0.1))
        image = gym.get_camera_image(self.env.sim, first, self.handle, gymapi.IMAGE_COLOR)
        self.frames.append(Image.fromarray(np.asarray(image).reshape(HEIGHT, WIDTH, 4)[:, :, :3]))

    def write(self) -> None:
        """Write the film."""
        first, *rest = self.frames
        first.save(
            self.path, save_all=True, append_images=rest, duration=round(1000 * FRAME_SECONDS), loop=0, quality=70
        )


def make_env(args, num_envs: int, seconds: float):
    """Return the client's environment and the config of its training, as its play.py makes them."""
    env_cfg, train_cfg = task_registry.get_cfgs(name=args.task)
    args.num_envs = env_cfg.env.num_envs = num_envs
    env_cfg.env.episode_length_s = seconds + 5.0
    env_cfg.env.test = False
    env_cfg.commands.heading_command = False
    env_cfg.commands.resampling_time = 10 * seconds
    env_cfg.domain_rand.push_robots = False
    env, _ = task_registry.make_env(name=args.task, args=args, env_cfg=env_cfg)
    return env, train_cfg


def newest_policy(args, env, train_cfg) -> Policy:
    train_cfg.runner.resume = True
    runner, _ = task_registry.make_alg_runner(env=env, name=args.task, args=args, train_cfg=train_cfg)
    return runner.get_inference_policy(device=env.device)


def policy_from_file(path: Path, env) -> Policy:
    """Load a TorchScript policy; a memory of one robot, as legged_gym exports it, becomes one of all."""
    policy = torch.jit.load(path, map_location=env.device)
    for name, state in dict(policy.named_buffers()).items():
        if name in ("hidden_state", "cell_state"):
            setattr(policy, name, state.new_zeros(state.shape[0], env.num_envs, state.shape[2]))
    return policy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robots", type=int, default=64, help="number of robots")
    parser.add_argument("--command", type=float, nargs=3, default=[0.5, 0.0, 0.0], help="x [m/s], y [m/s], yaw [rad/s]")
    parser.add_argument("--tolerance", type=float, default=0.15, help="allowed mean error along x [m/s]")
    parser.add_argument("--policy", type=Path, default=None, help="TorchScript file; default: the newest checkpoint")
    parser.add_argument("--film", type=Path, default=None, help="animated picture to write, name.webp")
    own, others = parser.parse_known_args()
    if own.robots < 1:
        parser.error(f"--robots {own.robots}: give a whole number of at least 1")
    if own.film is not None and own.film.suffix != ".webp":
        parser.error(f"--film {own.film}: give a name that ends in .webp")
    if own.policy is not None and not own.policy.is_file():
        parser.error(f"--policy {own.policy}: there is no such file")
    sys.argv = [sys.argv[0], *others]
    args = get_args()
    env, train_cfg = make_env(args, own.robots, SECONDS)
    policy = newest_policy(args, env, train_cfg) if own.policy is None else policy_from_file(own.policy, env)
    camera: Optional[Camera] = None if own.film is None else Camera(env, own.film)
    command = torch.tensor(own.command, device=env.device)
    env.reset()
    fallen = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
    errors: List[torch.Tensor] = []
    velocities: List[torch.Tensor] = []
    every = max(1, round(FRAME_SECONDS / env.dt))
    with torch.inference_mode():
        env.commands[:, :3] = command
        env.compute_observations()
        obs = env.get_observations()
        for step in range(round(SECONDS / env.dt)):
            obs, _, _, dones, _ = env.step(policy(obs.detach()))
            env.commands[:, :3] = command
            fallen |= dones.bool()
            velocities.append(torch.cat([env.base_lin_vel[:, :2], env.base_ang_vel[:, 2:]], dim=1).clone())
            errors.append((velocities[-1] - command).abs())
            if camera is not None and step % every == 0:
                camera.shoot()
    error, velocity = torch.stack(errors).mean(dim=0), torch.stack(velocities).mean(dim=0)
    passed = ~fallen & (error[:, 0] <= own.tolerance)
    x, y, yaw = (float(v) for v in velocity.mean(dim=0))
    height = float(env.root_states[:, 2].mean())
    tilt = torch.rad2deg(torch.acos(-env.projected_gravity[:, 2].clamp(-1.0, 1.0)))
    print(f"robots {env.num_envs}, command {own.command}, {SECONDS:g} s")
    print(f"fallen: {int(fallen.sum())}")
    print(f"mean velocity: {x:.3f} m/s forward, {y:.3f} m/s sideways, {yaw:.3f} rad/s")
    print(f"at the end: height {height:.3f} m, tilt {float(tilt.mean()):.0f} degrees")
    print(f"mean error along x: {float(error[:, 0].mean()):.3f} m/s, worst robot {float(error[:, 0].max()):.3f} m/s")
    print(f"passed: {int(passed.sum())} of {env.num_envs} ({100 * float(passed.float().mean()):.0f} %)")
    if camera is not None:
        camera.write()
        print(f"film: {camera.path}")


if __name__ == "__main__":
    main()
