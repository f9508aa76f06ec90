"""A worker: steps of a legged robot's environment, without a learner."""

import time
from dataclasses import replace
from typing import Any, Callable

import torch

from benchmarks.serving import Figures, serve, wait_for
from rsl_rl.cli.experiments import Experiments
from rsl_rl.utils.host import prepare_host
from rsl_rl.utils.seeding import require_device


def build(settings: dict) -> Callable[[], Figures]:
    cfg: Any = Experiments().load(settings["task"])().env
    cfg = replace(cfg, num_envs=settings["num_envs"], sim=replace(cfg.sim, backend=settings["backend"]))
    device, seconds = settings["device"], settings["seconds"]
    require_device("device", device)
    prepare_host()  # as train.py does
    env = cfg.build(device, seed=settings["seed"])
    generator = torch.Generator().manual_seed(settings["seed"])
    actions = torch.randn(settings["different_actions"], env.num_envs, env.num_actions, generator=generator).to(device)
    actions *= settings["action_std"]

    physics, step = [0.0], env.sim.step  # time of the calls of the engine [s]

    def timed(joint_targets: torch.Tensor, num_substeps: int) -> None:
        start = time.perf_counter()
        step(joint_targets, num_substeps)
        physics[0] += time.perf_counter() - start

    env.sim.step = timed

    @torch.no_grad()
    def measure() -> Figures:
        physics[0] = 0.0
        steps, passed, began = 0, 0.0, time.perf_counter()
        while passed < seconds:
            env.step(actions[steps % len(actions)])
            steps += 1
            passed = time.perf_counter() - began
        wait_for(device)
        passed = time.perf_counter() - began
        share = {"beside_physics": 1 - physics[0] / passed} if device == "cpu" else {}  # a GPU runs asynchronously
        return {"env_steps_per_s": steps * env.num_envs / passed, **share}

    return measure


serve(build)
