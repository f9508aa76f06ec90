"""The training loop: collect, learn, log, save."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Union

import torch

from rsl_rl.algorithms.algorithm import Algorithm
from rsl_rl.algorithms.policy_setup import zero_actions
from rsl_rl.compat import client_of
from rsl_rl.config.learn import LearnConfig
from rsl_rl.distributed import Collective, join_process_group
from rsl_rl.env.adapters import as_vec_env
from rsl_rl.env.contract import check_vec_env
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.loggers import Record
from rsl_rl.runners.checkpoint_manager import CheckpointManager, load_algorithm, load_episodes, training_state
from rsl_rl.runners.collector import Collector
from rsl_rl.runners.fault_reporter import FaultReporter
from rsl_rl.runners.iteration_record import IterationClock
from rsl_rl.runners.policy_access import PolicyAccess
from rsl_rl.runners.rank_states import num_ranks, write_ranks
from rsl_rl.runners.rollback import Rollback, TrainingError
from rsl_rl.runners.run_lock import run_lock
from rsl_rl.runners.run_log import RunLog
from rsl_rl.utils.checkpoints import write_checkpoint


class OnPolicyRunner(PolicyAccess):
    """Train a policy in an environment.

    ``train_cfg`` is a :class:`LearnConfig`, a nested dict of its fields, or a configuration of an earlier version of
    rsl_rl; it is not changed. ``env`` may have any interface that ``as_vec_env`` knows. With a ``log_dir``, ``learn``
    writes config, git state, metrics and checkpoints there; without one it writes no files. The caller seeds the random
    generators of the process. The ranks of a ``collective``, by default the processes that torchrun has started, train
    one policy together, each in its own environments; rank 0 alone writes files and prints.
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
        self._client = client_of(train_cfg, env, self)
        self.train_cfg = self._client.settings
        self.cfg, self.alg_cfg = self._client.cfg, self._client.alg_cfg
        self._settings = self.train_cfg.runner
        self.num_steps_per_env, self.save_interval = self._settings.num_steps_per_env, self._settings.save_interval
        self.device = torch.device(device)
        self.log_dir = Path(log_dir) if log_dir is not None else None
        policy = self.train_cfg.policy
        self.env_corrections = check_vec_env(env, actions=zero_actions(policy, env), groups=policy.actor_groups)
        self.alg: Algorithm = self.train_cfg.algorithm.build_for(self.train_cfg, env, self.device)
        self.collective = join_process_group(self.device) if collective is None else collective
        self.alg.join(self.collective)
        self._num_updates = 0
        self.tot_timesteps = 0  # environment steps so far
        self.tot_time = 0.0  # seconds of collecting and learning so far
        self._collector = Collector(env, self.alg, self.train_cfg.safety, self.num_steps_per_env)
        self._samples_per_update = self._collector.count_samples()
        self._clock = IterationClock(self.collective)
        self._rollback = Rollback(self.alg, self.train_cfg.safety)
        rank = self.collective.rank
        self._run_log = RunLog(self.log_dir, self.train_cfg, getattr(env, "cfg", None), rank)
        self._checkpoints = CheckpointManager(self.log_dir, self._settings, self.print_line, self.collective)
        self._faults = FaultReporter(self.log_dir, env, self._collector.validator, self.print_line, rank)
        self.after_update: List[Callable[[int], Mapping[str, float]]] = []  # called with the iteration; return metrics
        self._stop: Optional[str] = None  # reason to stop learn(): "max_time" or that of request_stop()
        self.stopped_by: Optional[str] = None  # reason why the last learn() stopped
        self.episodes_restored = False  # load() has restored the environment's episodes
        self.ranks_of_checkpoint = 1  # number of ranks that load() has found in the file
        self._client.add_names(self)

    @property
    def current_learning_iteration(self) -> int:
        """Number of the last update, which files are named for. The first one is 1, but 0 for clients who count so."""
        return max(0, self._num_updates - 1 + self._client.first_iteration)

    @current_learning_iteration.setter
    def current_learning_iteration(self, number: int) -> None:
        self._num_updates = number + 1 - self._client.first_iteration

    def learn(self, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        """Train for a number of further updates, or until ``request_stop`` or ``max_time``.

        A checkpoint is saved at the start, every ``save_interval`` updates and at the end, also where that is an error
        or a KeyboardInterrupt, which is raised again. A learner that cannot go on, a last checkpoint that cannot be
        saved, or a run folder in which another process trains, is a TrainingError.
        """
        with run_lock(self.log_dir if self.collective.rank == 0 else None):
            self._learn(num_learning_iterations, init_at_random_ep_len)

    def _learn(self, num_learning_iterations: int, init_at_random_ep_len: bool) -> None:
        last_update = self._num_updates + num_learning_iterations
        first, last = self.current_learning_iteration, last_update - 1 + self._client.first_iteration
        if init_at_random_ep_len:
            self._collector.randomize_episode_lengths()
        self._rollback.start(first)
        self.train_mode()
        obs = self._vec_env.get_observations()
        try:
            self._run_log.start(first, last)
            if self.alg.description:
                self.print_line(self.alg.description)
            self.save_to_log_dir()  # so that a killed run can be resumed
            began, longest = time.monotonic(), 0.0
            while self._num_updates < last_update and not self._stops():
                iteration_began = time.monotonic()
                self.alg.progress = self._num_updates / last_update
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

    def print_line(self, text: str) -> None:
        """Print a line for the user."""
        self._run_log.print_line(text)

    def _iterate(self, obs: Observations) -> Observations:
        """Collect one rollout, learn from it and log it."""
        self._clock.start()
        obs = self._collector.collect(obs)
        self._clock.finish_phase("collect_s")
        numbers, faults, sums = self._collector.fetch(self.alg.update())
        self._clock.finish_phase("learn_s")
        self._num_updates += 1
        self._checkpoints.note_update()
        iteration = self.current_learning_iteration
        self.tot_timesteps += self._samples_per_update
        self.tot_time += self._clock.total
        to_reset = faults.pop("to_reset")
        self._rollback.pop_metrics(numbers)
        together = self._clock.share(faults, sums)
        record: Record = {
            "iteration": iteration,
            "env_steps": self.tot_timesteps,
            **self._clock.phases,
            "steps_per_s": self._samples_per_update / self._clock.total,
            **self._collector.episode_record(together.sums),
            **numbers,
            **together.faults,
            **together.times,
        }
        for callback in self.after_update:
            record.update(callback(iteration))
        self._run_log.write(record)
        if type(self).log is not OnPolicyRunner.log and self.collective.rank == 0:
            self.log(self._client.iteration_locals(record))
        self._faults.report_new(faults, iteration)
        message = self._rollback.check(iteration, may_keep=iteration % self.save_interval == 0)
        if message:
            self.print_line(message)
        return self._collector.reset_broken(obs) if to_reset else obs

    def log(self, locs: Dict[str, Any], *layout: int) -> None:
        """Do nothing; a subclass may log more after each iteration. ``locs`` are the numbers by rsl_rl's names."""

    def add_git_repo_to_log(self, file_in_repo: Union[str, Path]) -> None:
        """Save the state of the repository of a file with the run."""
        self._run_log.add_git_repo(file_in_repo)

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
        state = training_state(self.alg, env, self._collector, iteration, counters, infos)
        return {**state, **self._rollback.state_dict(iteration)}

    def load(
        self,
        path: Union[str, Path],
        load_optimizer: bool = True,
        load_env: bool = True,
        map_location: Any = None,
        **options: Any,
    ) -> Optional[Dict[str, Any]]:
        """Load a checkpoint, also one of rsl_rl 1 to 5, and return its infos.

        With ``load_optimizer=False`` only weights and counters are loaded; with ``load_env=False`` everything except
        the current episodes, so that the number of environments may differ. ``load_cfg``, ``strict`` and
        ``map_location`` have the meaning of rsl_rl 5, also in this order. A file that is damaged, or has weights that
        are not finite or of other sizes, is a :class:`CheckpointError`.
        """
        request = self._client.load_request(self.alg, load_optimizer, load_env, options)
        state = load_algorithm(self.alg, Path(path), request.optimizer, request.convert)
        if request.iteration and "iter" in state:
            self.current_learning_iteration = state["iter"]
        counters = state.get("counters", {})
        self.tot_timesteps, self.tot_time = counters.get("env_steps", 0), counters.get("time_s", 0.0)
        self._checkpoints.note_loaded(self.current_learning_iteration, state)
        self.episodes_restored, self.ranks_of_checkpoint = False, num_ranks(state)
        if request.optimizer:
            self._rollback.num_rollbacks = counters.get("rollbacks", 0)
            self._rollback.load_state_dict(state)
            self.episodes_restored = load_episodes(self.alg, self._vec_env, self._collector, state, request.env)
        return state.get("infos")
