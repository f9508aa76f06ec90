"""A worker: steps of a legged robot's environment, without a learner."""

import time
from dataclasses import replace
from typing import Callable

import torch

from benchmarks.serving import Figures, serve, wait_for
from rsl_rl.cli.experiments import Experiments
from rsl_rl.utils.host import prepare_host
from rsl_rl.utils.seeding import require_device


def build(settings: dict) -> Callable[[], Figures]:
    cfg = Experiments().load(settings["task"])().env
    cfg = replace(cfg, num_envs=settings["num_envs"], sim=replace(cfg.sim, backend=settings["backend"]))
    device, seconds = settings["device"], settings["seconds"]
    require_device("device", device)
    prepare_host()  # as train.py does
    env = cfg.build(device, seed=settings["seed"])
    generator = torch.Generator().manual_seed(settings["seed"])
    actions = torch.randn(settings["different_actions"], env.num_envs, env.num_actions, generator=generator).to(device)
    actions *= settings["action_std"]

    @torch.no_grad()
    def measure() -> Figures:
        steps, passed, began = 0, 0.0, time.perf_counter()
        while passed < seconds:
            env.step(actions[steps % len(actions)])
            steps += 1
            passed = time.perf_counter() - began
        wait_for(device)
        return {"env_steps_per_s": steps * env.num_envs / (time.perf_counter() - began)}

    return measure


serve(build)
