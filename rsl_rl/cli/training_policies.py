"""The newest policy of a training, for the page of the training."""

from __future__ import annotations

import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Optional, Tuple

from rsl_rl.cli.experiments import Experiments
from rsl_rl.cli.export import describe_policy
from rsl_rl.evaluation.page_robot import describe_training, gather_robot
from rsl_rl.evaluation.playback import for_playback
from rsl_rl.exporters.quick_onnx import quick_onnx
from rsl_rl.runners.loading import load_policy
from rsl_rl.utils.checkpoints import config_of, find_checkpoint, iteration_of
from rsl_rl.utils.config_io import from_dict, read_yaml
from rsl_rl.utils.text import one_line
from rsl_rl.viz.page import PageFact, PagePolicy, PageRobot, pack

_PAUSE, _LONGEST_PAUSE = 200.0, 30.0
"""Pause after a policy as a multiple of the processor time that it took, and the longest one [s]: other programs slow
a training down, also those of a low priority."""


class PolicySource:
    """Export the newest policy of a run for its page; all errors are texts for the page."""

    def __init__(self, run: Path):
        self._run, self._lock = run, threading.Lock()
        self._newest, self._until = PagePolicy(-1, None, "", 0.0), 0.0  # the end of the pause [s]
        self._robot: Optional[PageRobot] = None  # of the first policy; model and ground are the same for all
        self._task: Optional[Tuple[Any, Any]] = None  # config of the run, and an environment of its task

    def newest(self) -> PagePolicy:
        """Return the policy of the newest undamaged checkpoint, or in the pause after an export the policy before."""
        with self._lock:
            left, started = self._until - time.monotonic(), time.process_time()
            if left > 0:
                return replace(self._newest, pause=left)
            try:
                self._newest = self._load()
            except Exception as error:  # of any kind: no error of the page may end it
                self._newest = PagePolicy(-1, None, one_line(str(error) or repr(error))[:500], 0.0)
            pause = min(_PAUSE * (time.process_time() - started), _LONGEST_PAUSE)
            self._until = time.monotonic() + pause
            return replace(self._newest, pause=pause)

    def _load(self) -> PagePolicy:
        iteration = iteration_of(find_checkpoint(self._run))
        if self._newest.checkpoint == iteration:
            return self._newest
        self._task = self._task or self._build()
        cfg, env = self._task
        loaded = load_policy(cfg, env, self._run, iteration)
        policy = loaded.runner.alg.inference_policy
        facts = describe_training(self._run, loaded.checkpoint, cfg, loaded.env_steps, "")
        description = describe_policy(loaded, cfg, env)
        onnx = quick_onnx(policy, description)
        if self._robot is None:
            self._robot = gather_robot(env, cfg.env, onnx, description, policy.actor_model.groups, {})
        card = [PageFact(name, value) for name, value in facts.items() if name != "Licence"]
        robot = replace(self._robot, onnx=pack(onnx), card=card)
        return PagePolicy(iteration, robot, "", 0.0)

    def _build(self) -> Tuple[Any, Any]:
        """Read the config of the run, and build a robot on this computer's CPU; return both."""
        values = read_yaml(config_of(self._run))
        cfg: Any = from_dict(Experiments().load(str(values["task"])), values)
        sim = replace(cfg.env.sim, backend="mujoco")
        env = for_playback(replace(cfg.env, sim=sim), 1, 20.0, None).build("cpu", seed=cfg.seed)
        return replace(cfg, rl_device="cpu", sim_device="cpu"), env
