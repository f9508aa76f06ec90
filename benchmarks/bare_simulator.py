"""A worker: only the physics of a legged robot's control steps, by a loop over mujoco.batch."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
import time
from dataclasses import replace
from typing import Any, Callable

import numpy as np

from benchmarks.serving import Figures, serve
from rsl_rl.cli.experiments import Experiments
from rsl_rl.utils.host import available_cpus
from rsl_rl.utils.mujoco_model import load_model

RANDOMISED = ("geom_friction", "pair_friction", "body_mass", "body_inertia", "actuator_gainprm", "actuator_biasprm")


def build(settings: dict) -> Callable[[], Figures]:
    import mujoco
    from mujoco import batch

    cfg: Any = Experiments().load(settings["task"])().env
    num_envs, seconds = settings["num_envs"], settings["seconds"]
    env = replace(cfg, num_envs=num_envs, sim=replace(cfg.sim, backend="mujoco")).build("cpu", seed=settings["seed"])
    model = load_model(env.robot.model_path, env.sim.ground)
    model.opt.timestep = cfg.sim.dt
    if settings["bare_clock"]:
        mujoco.set_mjcb_time(None)  # restore the clock of the package, which building the robots has removed
    worlds = batch.Batch(model, num_envs, available_cpus())
    for name in RANDOMISED:  # the same robots
        worlds.expand(name)[:] = env.sim._field(name).numpy()
    worlds.set_const()
    qpos, ctrl = worlds.bind("qpos"), worlds.bind("ctrl")
    qpos[:, :3], qpos[:, 7:] = env.sim.root_pos.numpy(), env.robot.default_joint_pos
    shape = (settings["different_actions"], num_envs, model.nu)
    noise = np.random.default_rng(settings["seed"]).normal(scale=settings["action_std"], size=shape)
    targets = np.asarray(env.robot.default_joint_pos) + env.action_scale.numpy() * noise

    def measure() -> Figures:
        steps, passed, began = 0, 0.0, time.perf_counter()
        while passed < seconds:
            ctrl[:] = targets[steps % len(targets)]
            worlds.step(nstep=cfg.sim.decimation)
            steps += 1
            passed = time.perf_counter() - began
        return {"env_steps_per_s": steps * num_envs / passed}

    return measure


serve(build)
