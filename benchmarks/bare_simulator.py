"""A worker: the physics of a legged robot's control steps and nothing else, by a loop over mujoco.batch."""

# pyright: reportAttributeAccessIssue=false
# (the package mujoco fills its namespace at run time)
import time
from dataclasses import replace
from typing import Callable

import numpy as np

from benchmarks.serving import Figures, serve
from configs import EXPERIMENTS
from rsl_rl.utils.host import available_cpus


def build(settings: dict) -> Callable[[], Figures]:
    import mujoco
    from mujoco import batch

    cfg, num_envs, seconds = EXPERIMENTS.load(settings["task"])().env, settings["num_envs"], settings["seconds"]
    env = replace(cfg, num_envs=1, sim=replace(cfg.sim, backend="mujoco")).build("cpu")
    model = mujoco.MjModel.from_xml_path(str(env.robot.model_path))
    model.opt.timestep = cfg.sim.dt
    model.actuator_gainprm[:, 0] = cfg.control.stiffness
    model.actuator_biasprm[:, 1], model.actuator_biasprm[:, 2] = -cfg.control.stiffness, -cfg.control.damping
    worlds = batch.Batch(model, num_envs, available_cpus())
    qpos, ctrl = worlds.bind("qpos"), worlds.bind("ctrl")
    qpos[:, 2], qpos[:, 7:] = env.robot.standing_height, env.robot.default_joint_pos
    shape = (settings["different_actions"], num_envs, model.nu)
    noise = np.random.default_rng(settings["seed"]).normal(scale=settings["action_std"], size=shape)
    targets = np.asarray(env.robot.default_joint_pos) + cfg.control.action_scale * noise

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
