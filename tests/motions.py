"""Small clips of the Go2 for tests, and tasks that follow them."""

from dataclasses import replace

import torch

from configs.go2_track import track_task
from rsl_rl.motion.clip import save_clip
from rsl_rl.motion.kinematics import Kinematics, build_clip
from rsl_rl.robots import ROBOTS
from rsl_rl.utils.tensors import from_yaw

FPS = 50.0


def glide(loop=True, speed=0.4, rate=0.5, frames=26, sway=0.2, name="glide"):
    """Return a clip of a trunk that glides on a circle, while the joints sway; a loop closes after its last frame."""
    kinematics = Kinematics(ROBOTS.load("go2"))
    time = torch.arange(frames, dtype=torch.float64) / FPS
    angle = rate * time
    pos = torch.stack((speed / rate * angle.sin(), speed / rate * (1 - angle.cos()), torch.full_like(time, 0.3)), dim=1)
    default = torch.tensor(ROBOTS.load("go2").default_joint_pos, dtype=torch.float64)
    wave = (2 * torch.pi * time / time[-1]).sin().unsqueeze(1) * torch.linspace(-sway, sway, 12, dtype=torch.float64)
    return build_clip(kinematics, pos, from_yaw(angle), default + wave, FPS, name, loop)


def write_clips(folder):
    """Write a loop of 0.5 s and a clip of 0.8 s that ends; return their paths."""
    paths = []
    for clip in (glide(), glide(loop=False, frames=41, speed=0.2, rate=-0.5, name="once")):
        save_clip(clip, folder / f"{clip.name}.npz")
        paths.append(str(folder / f"{clip.name}.npz"))
    return tuple(paths)


def task_of(clips, num_envs=6, steps=(0, 3), start=None, terminations=(), **changes):
    """Return go2_track with other clips, without noise, pushes and randomisation; ``start`` are errors of the start."""
    task = track_task()
    quiet = {
        group: own.with_terms({name: replace(term, noise=0.0) for name, term in own.terms.items()})
        for group, own in task.observations.items()
    }
    params = {"joint_error": 0.0, "turn_error": 0.0, "velocity_error": 0.0, "height": 0.0, **(start or {})}
    randomization = task.randomization.with_terms({"push": replace(task.randomization.terms["push"], period=0.0)})
    bad = ("anchor_height", "anchor_tilt", "anchor_distance")
    off = {name: None for name in bad if name not in terminations}
    return replace(
        task,
        num_envs=num_envs,
        observations=quiet,
        commands=task.commands.with_params("motion", clips=clips, steps=steps),
        randomization=randomization.with_params("start_state", **params),
        terminations=replace(task.terminations, terms={**task.terminations.terms, **off}),
        **changes,
    )
