"""The training loop: collect, learn, log, save."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

import torch

from rsl_rl.algorithms.algorithm import Algorithm
from rsl_rl.algorithms.policy_setup import zero_actions
from rsl_rl.config.learn import LearnConfig
from rsl_rl.env.contract import check_vec_env
from rsl_rl.env.protocols import HasEpisodeLengths
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.exporters import export_torchscript
from rsl_rl.loggers import Record
from rsl_rl.runners.checkpoint_manager import CheckpointManager, load_algorithm, load_episodes, training_state
from rsl_rl.runners.collector import Collector
from rsl_rl.runners.fault_reporter import FaultReporter
from rsl_rl.runners.inference import InferencePolicy
from rsl_rl.runners.rollback import Rollback, TrainingError
from rsl_rl.runners.run_lock import run_lock
from rsl_rl.runners.run_log import RunLog
from rsl_rl.utils.checkpoints import write_checkpoint
from rsl_rl.utils.config_io import from_dict


class OnPolicyRunner:
    """Train a policy in an environment.

    ``train_cfg`` is a :class:`LearnConfig` or a nested dict of its fields, which is not changed. With a ``log_dir``,
    ``learn`` writes config, git state, metrics and checkpoints there; without one it writes no files. The caller seeds
    the random generators of the process.
    """

    def __init__(
        self,
        env: VecEnv,
        train_cfg: Union[LearnConfig, Mapping[str, Any]],
        log_dir: Union[str, Path, None] = None,
        device: Union[str, torch.device] = "cpu",
    ):
        self.train_cfg = train_cfg if isinstance(train_cfg, LearnConfig) else from_dict(LearnConfig, train_cfg)
        self.cfg, self.alg_cfg = self.train_cfg.runner, self.train_cfg.algorithm
        self.num_steps_per_env, self.save_interval = self.cfg.num_steps_per_env, self.cfg.save_interval
        self.env = env
        self.device = torch.device(device)
        self.log_dir = Path(log_dir) if log_dir is not None else None
        self.env_corrections = check_vec_env(env, actions=zero_actions(self.train_cfg.policy, env))
        self.alg: Algorithm = self.alg_cfg.build_for(self.train_cfg, env, self.device)
        self.current_learning_iteration = 0
        self.tot_timesteps = 0  # environment steps so far
        self.tot_time = 0.0  # seconds of collecting and learning so far
        self._collector = Collector(env, self.alg, self.train_cfg.safety, self.num_steps_per_env)
        self._rollback = Rollback(self.alg, self.train_cfg.safety)
        self._run_log = RunLog(self.log_dir, self.train_cfg, getattr(env, "cfg", None))
        self._checkpoints = CheckpointManager(self.log_dir, self.cfg, self.print_line)
        self._faults = FaultReporter(self.log_dir, env, self._collector.validator, self.print_line)
        self.after_update: List[Callable[[int], Mapping[str, float]]] = []  # called with the iteration; return metrics
        self._stop: Optional[str] = None  # reason to stop learn(), "request" or "max_time"
        self.stopped_by: Optional[str] = None  # reason why the last learn() stopped
        self.episodes_restored = False  # load() has restored the environment's episodes

    # Training

    def learn(self, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        """Train for a number of further updates, or until ``request_stop`` or ``max_time``.

        A checkpoint is saved at the start, every ``save_interval`` updates and at the end, also where that is an error
        or a KeyboardInterrupt, which is raised again. A learner that cannot go on, a last checkpoint that cannot be
        saved, or a run folder in which another process trains, is a TrainingError.
        """
        with run_lock(self.log_dir):
            self._learn(num_learning_iterations, init_at_random_ep_len)

    def _learn(self, num_learning_iterations: int, init_at_random_ep_len: bool) -> None:
        first = self.current_learning_iteration
        last = first + num_learning_iterations
        if init_at_random_ep_len:
            self._randomize_episode_lengths()
        self._rollback.start(first)
        self.train_mode()
        obs = self.env.get_observations()
        try:
            self._run_log.start(first, last)
            if self.alg.description:
                self.print_line(self.alg.description)
            self.save_to_log_dir()  # so that a killed run can be resumed
            began, longest = time.monotonic(), 0.0
            while self.current_learning_iteration < last and self._stop is None:
                iteration_began = time.monotonic()
                obs = self._iterate(obs)
                if self._checkpoints.due(self.current_learning_iteration):
                    self.save_to_log_dir()
                now = time.monotonic()
                longest = max(longest, now - iteration_began)  # the next one may have an evaluation
                if 0 < self.cfg.max_time < (now - began) + longest:
                    self._stop = self._stop or "max_time"
            if not self.save_to_log_dir():
                raise TrainingError(f"iteration {self.current_learning_iteration} could not be saved in {self.log_dir}")
        except TrainingError:
            raise
        except BaseException as error:
            self._save_after(error)
            raise
        finally:
            self.stopped_by, self._stop = self._stop, None
            self._run_log.close()

    def _save_after(self, error: BaseException) -> None:
        """Save the learner of the last complete update after an error in the middle of the next one."""
        iteration = self.current_learning_iteration
        try:
            saved = self._checkpoints.save(iteration, lambda: self._state(with_episodes=False))
        except Exception as second:  # the error that ended the training matters more
            self.print_line(f"warning: iteration {iteration} could not be saved ({second})")
            return
        if saved and self.log_dir is not None:
            self.print_line(f"{type(error).__name__} after iteration {iteration}, which is saved")

    def request_stop(self) -> None:
        """Make ``learn``, or its next call, finish the current iteration, save and return."""
        self._stop = "request"

    def print_line(self, text: str) -> None:
        """Print a line for the user while a training runs."""
        self._run_log.print_line(text)

    def _randomize_episode_lengths(self) -> None:
        """Set the current episodes to random lengths, so that they do not time out together."""
        if not isinstance(self.env, HasEpisodeLengths):
            raise ValueError(f"{type(self.env).__name__} has no episode_length_buf; use init_at_random_ep_len=False")
        ages = self.env.episode_length_buf
        limit = torch.as_tensor(self.env.max_episode_length, device=ages.device)
        self.env.episode_length_buf = (torch.rand(ages.shape, device=ages.device) * limit).to(ages.dtype)

    def _iterate(self, obs: Observations) -> Observations:
        """Collect one rollout, learn from it and log it."""
        began = time.perf_counter()
        obs = self._collector.collect(obs)
        collected = time.perf_counter()
        numbers, episodes = self._collector.fetch(self.alg.update())
        learned = time.perf_counter()
        self.current_learning_iteration += 1
        iteration, num_samples = self.current_learning_iteration, self._collector.num_samples
        self.tot_timesteps += num_samples
        self.tot_time += learned - began
        to_reset = numbers.pop("to_reset")
        self._rollback.pop_metrics(numbers)
        record: Record = {
            "iteration": iteration,
            "env_steps": self.tot_timesteps,
            "collect_s": collected - began,
            "learn_s": learned - collected,
            "steps_per_s": num_samples / (learned - began),
            **episodes,
            **numbers,
        }
        for callback in self.after_update:
            record.update(callback(iteration))
        self._run_log.write(record)
        self._faults.report_new(numbers, iteration)
        message = self._rollback.check(iteration, may_keep=iteration % self.save_interval == 0)
        if message:
            self.print_line(message)
        return self._collector.reset_broken() if to_reset else obs

    def train_mode(self) -> None:
        """Put the networks into training mode."""
        self.alg.train_mode()

    def eval_mode(self) -> None:
        """Put the networks into evaluation mode."""
        self.alg.eval_mode()

    # Files of a run

    def add_git_repo_to_log(self, file_in_repo: Union[str, Path]) -> None:
        """Save the state of the repository of a file with the run."""
        self._run_log.add_git_repo(file_in_repo)

    def save_to_log_dir(self) -> bool:
        """Save the checkpoint of the current iteration in the run folder; return whether that worked."""
        self._run_log.sync()
        return self._checkpoints.save(self.current_learning_iteration, self._state)

    def save(self, path: Union[str, Path], infos: Optional[Dict[str, Any]] = None) -> None:
        """Write a checkpoint: learner, random generators, counters, and the environment if it is Checkpointable."""
        write_checkpoint(Path(path), self._state(infos))

    def _state(self, infos: Optional[Dict[str, Any]] = None, with_episodes: bool = True) -> Dict[str, Any]:
        counters = {
            "env_steps": self.tot_timesteps,
            "time_s": self.tot_time,
            "rollbacks": self._rollback.num_rollbacks,
        }
        env = self.env if with_episodes else None
        state = training_state(self.alg, env, self._collector, self.current_learning_iteration, counters, infos)
        return {**state, **self._rollback.state_dict(self.current_learning_iteration)}

    def load(
        self, path: Union[str, Path], load_optimizer: bool = True, load_env: bool = True
    ) -> Optional[Dict[str, Any]]:
        """Load a checkpoint and return its infos.

        With ``load_optimizer=False`` only weights and counters are loaded; with ``load_env=False`` everything except
        the current episodes, so that the number of environments may differ.

        A file that is damaged, has weights that are not finite, or has networks of other sizes is a
        :class:`CheckpointError`.
        """
        state = load_algorithm(self.alg, Path(path), load_optimizer)
        self.current_learning_iteration = state.get("iter", 0)
        counters = state.get("counters", {})
        self.tot_timesteps, self.tot_time = counters.get("env_steps", 0), counters.get("time_s", 0.0)
        self._checkpoints.note_loaded(self.current_learning_iteration, state)
        self.episodes_restored = False
        if load_optimizer:
            self._rollback.num_rollbacks = counters.get("rollbacks", 0)
            self._rollback.load_state_dict(state)
            self.episodes_restored = load_episodes(self.alg, self.env, self._collector, state, load_env)
        return state.get("infos")

    def get_inference_policy(self, device: Union[str, torch.device, None] = None) -> InferencePolicy:
        """Return a copy of the policy as a function from observations to actions without noise; see InferencePolicy."""
        return InferencePolicy(self.alg.inference_policy, device if device is not None else self.device)

    def export_policy_to_jit(self, path: Union[str, Path], filename: str = "policy.pt") -> Path:
        """Write the policy, normaliser included, as TorchScript into the folder ``path``; return the file."""
        return export_torchscript(self.alg.inference_policy, Path(path) / filename)

    def export_policy_to_onnx(
        self,
        path: Union[str, Path],
        filename: str = "policy.onnx",
        metadata: Optional[Mapping[str, Any]] = None,
    ) -> Path:
        """Write the policy, normaliser included, as ONNX into the folder ``path``; return the file.

        Entries of ``metadata`` go into the file as JSON. Without torch 2.6 and the extra ``export`` it
        is an ImportError.
        """
        from rsl_rl.exporters.onnx import export_onnx  # imports an optional package

        return export_onnx(self.alg.inference_policy, Path(path) / filename, metadata)
