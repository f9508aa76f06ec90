"""A worker: whole iterations of a legged robot's training, and the time of the physics in them."""

import time
import warnings
from dataclasses import replace
from typing import Any, Callable

import torch

from benchmarks.serving import Figures, serve, wait_for
from rsl_rl.algorithms import PPO
from rsl_rl.cli.experiments import Experiments
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.utils.host import prepare_host
from rsl_rl.utils.seeding import require_device


def build(settings: dict) -> Callable[[], Figures]:
    device, on_gpu = settings["device"], settings["device"] != "cpu"
    require_device("device", device)
    prepare_host()
    cfg: Any = Experiments().load(settings["task"])()
    cfg = replace(
        cfg,
        env=replace(cfg.env, num_envs=settings["num_envs"], sim=replace(cfg.env.sim, backend="mujoco_warp")),
        acceleration=replace(cfg.acceleration, cuda_graphs=on_gpu),
    )
    env = cfg.env.build(device, seed=settings["seed"])
    runner = OnPolicyRunner(env, cfg, device=device)
    alg = runner.alg
    assert isinstance(alg, PPO)
    runner.train_mode()
    obs = env.get_observations()

    def timed(work: Callable[[], object]) -> float:
        wait_for(device)
        began = time.perf_counter()
        work()
        wait_for(device)
        return time.perf_counter() - began

    def collect() -> None:
        nonlocal obs
        obs = runner.collector.collect(obs)

    def learn() -> None:
        torch.stack(list(alg.update().metrics.values())).tolist()

    def physics() -> None:
        """Simulate the rollout's joint targets again, without task and policy."""
        for actions in alg.storage.columns["actions"]:
            targets = env.state.default_joint_pos + env.action_scale * actions
            env.sim.step(targets, cfg.env.sim.decimation)

    def measure() -> Figures:
        before = env.sim.physics_state()
        collected, learned = timed(collect), timed(learn)
        after = env.sim.physics_state()
        env.sim.set_physics_state(before)
        stepped = timed(physics)
        env.sim.set_physics_state(after)
        figures: Figures = {
            "collect": collected,
            "learn": learned,
            "physics": stepped,
            "outside_physics": 1 - stepped / (collected + learned),
            "steps_per_s": runner.num_steps_per_env * env.num_envs / (collected + learned),
        }
        if on_gpu:
            figures["waits"] = _waits(collect) + _waits(learn) - 1.0  # the one that reads the metrics
        return figures

    return measure


def _waits(work: Callable[[], None]) -> int:
    """Count host-device synchronisations."""
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            work()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchronizing" in str(warning.message) for warning in caught)


serve(build)
