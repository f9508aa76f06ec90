"""The page of a training: `rsl-rl train --page PORT`. A process of its own serves it, and reads only the run folder.

`python -m rsl_rl.cli.training_page` is that process. Its first argument is the number of a listening socket, the first
line of its input is what it serves, and the second one how the training has ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Optional, Tuple

from rsl_rl.utils.text import one_line
from rsl_rl.viz.page import PageFact, PagePolicy, PageRobot, PageTraining, pack, page_of_training, read_template
from rsl_rl.viz.page_server import PageServer
from rsl_rl.viz.request_guard import HOST, RequestGuard
from rsl_rl.viz.training_news import TrainingWatch

_NICENESS = 10  # so that the first policy comes within a minute also where the training takes all processors
_PAUSE, _LONGEST_PAUSE = 100.0, 30.0
"""Pause after an export as a multiple of the processor time that it took, and the longest one [s]: other programs slow
a training down, also those of a low priority. Only the first export, which imports PyTorch, takes more than the
hundredth of the longest pause."""

_FAREWELL = 3.0  # longest time for the last news [s]


class TrainingPage:
    """A port at which the page of a training is served, from :meth:`start` to :meth:`end`.

    A port that cannot be used, and a checkout in which the page is not built, are a ValueError.
    """

    def __init__(self, port: int):
        read_template()
        if not 0 <= port <= 65535:
            raise ValueError(f"--page {port}: give a number from 1 to 65535, or 0 for a free port")
        try:
            self._socket = socket.create_server((HOST, port))
        except OSError as error:
            raise ValueError(
                f"--page {port}: {os.strerror(error.errno or 0)}; give another port, or 0 for a free one"
            ) from error
        self._guard = RequestGuard()
        self.address = f"http://{HOST}:{self._socket.getsockname()[1]}/?token={self._guard.token}"
        self._process: Optional[subprocess.Popen] = None

    def start(self, run: Path, training: PageTraining) -> None:
        """Start the process that serves the page; an OSError says why that is not possible."""
        number = self._socket.fileno()
        threads = {name: "1" for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rsl_rl.cli.training_page", str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            pass_fds=(number,),
            preexec_fn=os.setpgrp,  # Ctrl-C is for the training; a session of its own would have a priority of its own
            env={**os.environ, **threads, "CUDA_VISIBLE_DEVICES": "", "PYTHONWARNINGS": "ignore"},
        )
        self._socket.close()
        self._tell(json.dumps({"run": str(run), "token": self._guard.token, "training": asdict(training)}))

    def _tell(self, line: str) -> None:
        assert self._process is not None and self._process.stdin is not None  # start() comes first
        with contextlib.suppress(OSError):  # the process has ended; the training goes on
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()

    def end(self, text: str) -> None:
        """Tell the browsers how the training has ended, and end the process."""
        if self._process is None:
            return
        self._tell(one_line(text))
        try:
            self._process.wait(_FAREWELL)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class PolicySource:
    """Export the newest policy of a run for its page; all errors are texts for the page."""

    def __init__(self, run: Path):
        self._run, self._lock = run, threading.Lock()
        self._newest, self._until = PagePolicy(-1, None, "", 0.0), 0.0  # the end of the pause [s]
        self._robot: Optional[PageRobot] = None  # of the first policy; model and ground are the same for all
        self._task: Optional[Tuple[Any, Any]] = None  # config of the run, and an environment of its task
        self._graph: Any = None  # OnnxGraph of the first policy

    def newest(self) -> PagePolicy:
        """Return the policy of the newest undamaged checkpoint, or in the pause after an export the policy before."""
        with self._lock:
            left, started = self._until - time.monotonic(), time.process_time()
            if left > 0:
                return replace(self._newest, pause=left)
            try:
                self._newest = self._load()
            except ImportError as error:
                problem = f"{one_line(str(error))}; install the extra: pip install 'rsl-rl-lib[export]'"
                self._newest = PagePolicy(-1, None, problem, 0.0)
            except Exception as error:  # of any kind: no error of the page may end it
                self._newest = PagePolicy(-1, None, one_line(str(error) or repr(error))[:500], 0.0)
            pause = min(_PAUSE * (time.process_time() - started), _LONGEST_PAUSE)
            self._until = time.monotonic() + pause
            return replace(self._newest, pause=pause)

    def _load(self) -> PagePolicy:
        from rsl_rl.cli.export import describe_policy
        from rsl_rl.evaluation.page_robot import describe_training, gather_robot
        from rsl_rl.exporters.onnx import OnnxGraph
        from rsl_rl.runners.loading import load_policy
        from rsl_rl.utils.checkpoints import find_checkpoint, iteration_of

        iteration = iteration_of(find_checkpoint(self._run))
        if self._newest.checkpoint == iteration:
            return self._newest
        self._task = self._task or self._build()
        cfg, env = self._task
        loaded = load_policy(cfg, env, self._run, iteration)
        policy = loaded.runner.alg.inference_policy
        self._graph = self._graph or OnnxGraph(policy)
        facts = describe_training(self._run, loaded.checkpoint, cfg, loaded.env_steps, "")
        with tempfile.TemporaryDirectory() as folder:
            content = describe_policy(loaded, cfg, env)
            onnx = self._graph.write(policy, Path(folder) / "policy.onnx", content)
            if self._robot is None:
                self._robot = gather_robot(env, cfg.env, onnx, content, policy.actor_model.groups, {})
            card = [PageFact(name, value) for name, value in facts.items() if name != "Licence"]
            robot = replace(self._robot, onnx=pack(onnx.read_bytes()), card=card)
        return PagePolicy(iteration, robot, "", 0.0)

    def _build(self) -> Tuple[Any, Any]:
        """Read the config of the run, and build a robot on this computer's CPU; return both."""
        from rsl_rl.cli.experiments import Experiments
        from rsl_rl.evaluation.playback import for_playback
        from rsl_rl.utils.checkpoints import config_of
        from rsl_rl.utils.config_io import from_dict, read_yaml

        values = read_yaml(config_of(self._run))
        cfg: Any = from_dict(Experiments().load(str(values["task"])), values)
        sim = replace(cfg.env.sim, backend="mujoco")
        env = for_playback(replace(cfg.env, sim=sim), 1, 20.0, None).build("cpu", seed=cfg.seed)
        return replace(cfg, rl_device="cpu", sim_device="cpu"), env


def main() -> None:
    os.nice(_NICENESS)
    started = time.time()
    settings = json.loads(sys.stdin.readline())
    run, training = Path(settings["run"]), PageTraining(**settings["training"])
    server = PageServer(
        socket.socket(fileno=int(sys.argv[1])),
        RequestGuard(settings["token"]),
        page_of_training(training),
        lambda: TrainingWatch(run, training.first, training.last, started),
        PolicySource(run).newest,
    )
    threading.Thread(target=server.serve_forever, args=(0.1,), daemon=True).start()
    server.end(
        sys.stdin.readline().strip() or "the training was stopped"
    )  # the line is empty if its process was killed
    os._exit(0)  # without waiting for a policy that is being exported


if __name__ == "__main__":
    main()
