"""The training loop: collect, learn, log, save."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

import torch

from rsl_rl.algorithms.algorithm import Algorithm
from rsl_rl.algorithms.build import zero_actions
from rsl_rl.config.learn import LearnConfig
from rsl_rl.distributed import Collective, join_process_group, require_agreement, versions
from rsl_rl.env.adapters import as_vec_env
from rsl_rl.env.contract import check_vec_env, require_attributes
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.exporters import export_torchscript
from rsl_rl.loggers import Record
from rsl_rl.runners.checkpoints import (
    CheckpointManager,
    load_algorithm,
    load_episodes,
    num_ranks,
    training_state,
    write_ranks,
)
from rsl_rl.runners.collector import Collector
from rsl_rl.runners.faults import FaultReporter
from rsl_rl.runners.inference import InferencePolicy
from rsl_rl.runners.iteration_record import IterationClock
from rsl_rl.runners.rollback import Rollback, TrainingError
from rsl_rl.runners.run_folder import RunLog, run_lock
from rsl_rl.utils.checkpoints import read_checkpoint, write_checkpoint
from rsl_rl.utils.config_io import from_dict, to_dict


class Runner:
    """Train a policy in an environment.

    ``train_cfg`` is a :class:`LearnConfig` or a nested dict of its fields; it is not changed. ``env`` may have any
    interface that ``as_vec_env`` knows. With a ``log_dir``, ``learn`` writes config, git state, metrics and checkpoints
    there; without one it writes no files. The caller seeds the random generators of the process. The ranks of a
    ``collective``, by default the processes that torchrun has started, train one policy together, each in its own
    environments; rank 0 alone writes files and prints.
    """

    def __init__(
        self,
        env: VecEnv,
        train_cfg: Union[LearnConfig, Mapping[str, Any]],
        log_dir: Union[str, Path, None] = None,
        device: Union[str, torch.device] = "cpu",
        collective: Optional[Collective] = None,
    ):
        self.env = env
        self._vec_env = env = as_vec_env(env)
        require_attributes(env)
        cfg = train_cfg if isinstance(train_cfg, LearnConfig) else from_dict(LearnConfig, train_cfg)
        self.train_cfg = cfg
        self._settings = cfg.runner
        self.device = torch.device(device)
        self.log_dir = Path(log_dir) if log_dir is not None else None
        self.env_corrections = check_vec_env(env, actions=zero_actions(cfg.policy, env), groups=cfg.policy.actor_groups)
        self.alg = self.build_algorithm(cfg, env)
        self.collective = join_process_group(self.device) if collective is None else collective
        require_agreement(self.collective, {**versions(), **_shared_settings(cfg, env, self.alg)})
        self.alg.join(self.collective)
        self.num_updates = 0
        self.tot_timesteps = 0  # environment steps so far
        self.tot_time = 0.0  # seconds of collecting and learning so far
        self.collector = Collector(env, self.alg, cfg.safety, cfg.runner.num_steps_per_env)
        self._samples_per_update = self.collector.count_samples()
        self._clock = IterationClock(self.collective)
        self._rollback = Rollback(self.alg, cfg.safety)
        rank = self.collective.rank
        self._run_log = RunLog(self.log_dir, cfg, getattr(env, "cfg", None), rank)
        self._checkpoints = CheckpointManager(self.log_dir, cfg.runner, self.print_line, self.collective)
        self._faults = FaultReporter(self.log_dir, env, self.collector.validator, self.print_line, rank)
        self.after_update: List[Callable[[int], Mapping[str, float]]] = []  # called with the iteration; return metrics
        self._stop: Optional[str] = None  # reason to stop learn(): "max_time" or that of request_stop()
        self.stopped_by: Optional[str] = None  # reason why the last learn() stopped
        self.episodes_restored = False  # load() has restored the environment's episodes
        self.ranks_of_checkpoint = 1  # number of ranks that load() has found in the file

    def build_algorithm(self, cfg: LearnConfig, env: VecEnv) -> Algorithm:
        """Return the algorithm of a config for an environment."""
        return cfg.algorithm.build_for(cfg, env, self.device)

    @property
    def current_learning_iteration(self) -> int:
        """Number of the last update, which files are named for; the first one is 1."""
        return self.num_updates

    @current_learning_iteration.setter
    def current_learning_iteration(self, number: int) -> None:
        self.num_updates = number

    # Training

    def learn(self, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        """Train for a number of further updates, or until ``request_stop`` or ``max_time``.

        A checkpoint is saved at the start, every ``save_interval`` updates and at the end, also where that is an error
        or a KeyboardInterrupt, which is raised again. A learner that cannot go on, a last checkpoint that cannot be
        saved, or a run folder in which another process trains, is a TrainingError.
        """
        with run_lock(self.log_dir if self.collective.rank == 0 else None):
            self._learn(num_learning_iterations, init_at_random_ep_len)

    def _learn(self, num_learning_iterations: int, init_at_random_ep_len: bool) -> None:
        last_update = self.num_updates + num_learning_iterations
        first = self.current_learning_iteration
        if init_at_random_ep_len:
            self.collector.randomize_episode_lengths()
        self._rollback.start(first)
        self.train_mode()
        obs = self._vec_env.get_observations()
        try:
            self._run_log.start(first, first + num_learning_iterations)
            if self.alg.description:
                self.print_line(self.alg.description)
            self.save_to_log_dir()  # so that a killed run can be resumed
            began, longest = time.monotonic(), 0.0
            while self.num_updates < last_update and not self._stops():
                iteration_began = time.monotonic()
                self.alg.progress = self.num_updates / last_update
                obs = self._iterate(obs)
                if self._checkpoints.due(self.current_learning_iteration):
                    self.save_to_log_dir()
                now = time.monotonic()
                longest = max(longest, now - iteration_began)  # the next one may have an evaluation
                if 0 < self._settings.max_time < (now - began) + longest:
                    self._stop = self._stop or "max_time"
            if not self.save_to_log_dir():
                raise TrainingError(f"iteration {self.current_learning_iteration} could not be saved in {self.log_dir}")
        except TrainingError:
            raise
        except BaseException as error:
            if self.collective.size == 1:  # others could not save their part
                self._save_after(error)
            raise
        finally:
            self.stopped_by, self._stop = self._stop, None
            self._run_log.close()

    def _save_after(self, error: BaseException) -> None:
        """Save the learner of the last complete update after an error in the middle of the next one."""
        iteration = self.current_learning_iteration
        try:
            state = self._state(with_episodes=False)
            saved = self._checkpoints.save(iteration, lambda path: write_checkpoint(Path(path), state))
        except Exception as second:  # the error that ended the training matters more
            self.print_line(f"warning: iteration {iteration} could not be saved ({second})")
            return
        if saved and self.log_dir is not None:
            self.print_line(f"{type(error).__name__} after iteration {iteration}, which is saved")

    def request_stop(self, reason: str = "request") -> None:
        """Make ``learn``, or its next call, finish its iteration, save and return on all ranks; see ``stopped_by``."""
        self._stop = reason

    def _stops(self) -> bool:
        """Return whether any rank is to stop."""
        reason = self.collective.first_of(self._stop)
        self._stop = self._stop if reason is None else reason
        return reason is not None

    def _iterate(self, obs: Observations) -> Observations:
        """Collect one rollout, learn from it and log it."""
        self._clock.start()
        obs = self.collector.collect(obs)
        self._clock.finish_phase("collect_s")
        numbers = self.collector.fetch(self.alg.update())
        self._clock.finish_phase("learn_s")
        self.num_updates += 1
        self._checkpoints.note_update()
        iteration = self.current_learning_iteration
        self.tot_timesteps += self._samples_per_update
        self.tot_time += self._clock.total
        together = self._clock.share(numbers.faults, numbers.sums)
        record: Record = {
            "iteration": iteration,
            "env_steps": self.tot_timesteps,
            **self._clock.phases,
            "steps_per_s": self._samples_per_update / self._clock.total,
            **self.collector.episode_record(together.sums),
            **numbers.metrics,
            **together.faults,
            **together.times,
        }
        for callback in self.after_update:
            record.update(callback(iteration))
        self.write(record)
        for warning in self.collector.stats.pop_warnings():
            self.print_line(warning)
        self._faults.report_new(numbers.faults, iteration)
        may_keep = iteration % self._settings.save_interval == 0
        message = self._rollback.check(iteration, numbers.steps_taken, numbers.steps_skipped, may_keep)
        if message:
            self.print_line(message)
        return self.collector.reset_broken(obs) if numbers.to_reset else obs

    def write(self, record: Record) -> None:
        """Write the numbers of an iteration with every logger."""
        self._run_log.write(record)

    def print_line(self, text: str) -> None:
        """Print a line for the user."""
        self._run_log.print_line(text)

    def add_git_repo_to_log(self, file_in_repo: Union[str, Path]) -> None:
        """Save the state of the repository of a file with the run."""
        self._run_log.add_git_repo(file_in_repo)

    # Checkpoints

    def save_to_log_dir(self) -> bool:
        """Save the checkpoint of the current iteration in the run folder; return whether that worked."""
        self._run_log.sync()
        return self._checkpoints.save(self.current_learning_iteration, self.save)

    def save(self, path: Union[str, Path], infos: Optional[Dict[str, Any]] = None) -> None:
        """Write a checkpoint: learner, random generators, counters, and the environment if it is Checkpointable. All
        ranks call it together, and rank 0 writes the file."""
        write_ranks(Path(path), self._state(infos), self.collective, self.alg.RANK_STATE)

    def _state(self, infos: Optional[Dict[str, Any]] = None, with_episodes: bool = True) -> Dict[str, Any]:
        rollbacks = self._rollback.num_rollbacks
        counters = {"env_steps": self.tot_timesteps, "time_s": self.tot_time, "rollbacks": rollbacks}
        iteration, env = self.current_learning_iteration, self._vec_env if with_episodes else None
        state = training_state(self.alg, env, self.collector, iteration, counters, infos)
        return {**state, **self._rollback.state_dict(iteration)}

    def load(
        self, path: Union[str, Path], load_optimizer: bool = True, load_env: bool = True
    ) -> Optional[Dict[str, Any]]:
        """Load a checkpoint, and return its infos.

        With ``load_optimizer=False`` only weights and counters are loaded; with ``load_env=False`` everything except
        the current episodes, so that the number of environments may differ. A file that is damaged, or has weights that
        are not finite or of other sizes, is a :class:`CheckpointError`.
        """
        file = read_checkpoint(Path(path), self.alg.device)
        state = load_algorithm(self.alg, Path(path), file, load_optimizer)
        return self.restore(state, load_optimizer, load_env)

    def restore(self, state: Mapping[str, Any], load_optimizer: bool, load_env: bool) -> Optional[Dict[str, Any]]:
        """Load all but the algorithm from a checkpoint's content, and return its infos."""
        if "iter" in state:
            self.current_learning_iteration = state["iter"]
        counters = state.get("counters", {})
        self.tot_timesteps, self.tot_time = counters.get("env_steps", 0), counters.get("time_s", 0.0)
        self._checkpoints.note_loaded(self.current_learning_iteration, state)
        self.episodes_restored, self.ranks_of_checkpoint = False, num_ranks(state)
        if load_optimizer:
            self._rollback.num_rollbacks = counters.get("rollbacks", 0)
            self._rollback.load_state_dict(state)
            self.episodes_restored = load_episodes(self.alg, self._vec_env, self.collector, state, load_env)
        return state.get("infos")

    # The policy, in use and as files

    def train_mode(self) -> None:
        """Put the networks into training mode."""
        self.alg.train_mode()

    def eval_mode(self) -> None:
        """Put the networks into evaluation mode."""
        self.alg.eval_mode()

    def get_inference_policy(self, device: Union[str, torch.device, None] = None) -> InferencePolicy:
        """Return a copy of the policy as a function from observations to actions without noise; see InferencePolicy."""
        return InferencePolicy(self.alg.inference_policy, device if device is not None else self.device)

    def export_policy_to_jit(self, path: Union[str, Path], filename: str = "policy.pt") -> Path:
        """Write the policy, normaliser included, as TorchScript into the folder ``path``; return the file."""
        return export_torchscript(self.alg.inference_policy, Path(path) / filename)

    def export_policy_to_onnx(
        self, path: Union[str, Path], filename: str = "policy.onnx", metadata: Optional[Mapping[str, Any]] = None
    ) -> Path:
        """Write the policy, normaliser included, as ONNX into the folder ``path``; return the file.

        Entries of ``metadata`` go into the file as JSON. Without torch 2.6 and the extra ``export`` it is an
        ImportError.
        """
        from rsl_rl.exporters.onnx import export_onnx  # imports an optional package

        return export_onnx(self.alg.inference_policy, Path(path) / filename, metadata)


def _shared_settings(cfg: LearnConfig, env: VecEnv, alg: Algorithm) -> Dict[str, Any]:
    """Return what must be the same on all ranks: settings besides the seed, sizes of observations and actions."""
    settings, obs = to_dict(cfg), env.get_observations()
    sizes = {f"observations.{name}": list(obs[name].shape[1:]) for name in alg.obs_groups}
    sections = ("policy", "algorithm", "extensions", "runner", "acceleration", "safety")
    return {**{name: settings[name] for name in sections}, **sizes, "num_actions": env.num_actions}
