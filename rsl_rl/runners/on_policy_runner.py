"""The training loop: collect, learn, log, save."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.algorithms.ppo import PPO
from rsl_rl.config.learn import LearnConfig
from rsl_rl.env.contract import can_reset_some, check_vec_env, standardize_step
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.exporters import export_torchscript
from rsl_rl.loggers import EpisodeStats, RecentEpisodes, Record
from rsl_rl.runners.acceleration import accelerate
from rsl_rl.runners.checkpoint import FORMAT, CheckpointError, read_checkpoint, write_checkpoint
from rsl_rl.runners.guard import Guard
from rsl_rl.runners.inference import InferencePolicy
from rsl_rl.runners.policy_setup import resolve_groups, resolve_mirrors
from rsl_rl.runners.postmortem import Coroner
from rsl_rl.runners.recovery import Recovery, TrainingError
from rsl_rl.runners.run_log import RunLog
from rsl_rl.runners.saving import CheckpointSaver
from rsl_rl.utils.config_io import from_dict
from rsl_rl.utils.seeding import random_states, restore_random_states


class OnPolicyRunner:
    """Train a policy in an environment.

    ``train_cfg`` is a :class:`LearnConfig` or a nested dict of its fields; the caller's object is left as it was. With
    a ``log_dir`` the run leaves its config, git state, metrics, curves and checkpoints there, from the first ``learn``
    on; without one it only trains. The process's random generators are the caller's to seed.
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
        self._num_gradient_steps = self.alg_cfg.num_learning_epochs * self.alg_cfg.num_mini_batches  # of an update
        self.env = env
        self.device = torch.device(device)
        self.log_dir = Path(log_dir) if log_dir is not None else None
        self.env_corrections = check_vec_env(env)
        self.policy_cfg = resolve_mirrors(resolve_groups(self.train_cfg.policy, env.get_observations()), env)
        self.alg = self._build_algorithm()
        self.current_learning_iteration = 0
        self.tot_timesteps = 0  # environment steps so far
        self.tot_time = 0.0  # seconds of collecting and learning so far
        self._num_rollbacks = 0
        self._guard = Guard(self.alg.actor_critic, self.train_cfg.safety, env.num_envs, self.device)
        self._stats = EpisodeStats(env.num_envs, self.device)
        self._recent = RecentEpisodes()
        self._run_log = RunLog(self.log_dir, self.train_cfg, getattr(env, "cfg", None))
        self._saver = CheckpointSaver(self.log_dir, self.cfg, self._run_log.tell)
        self._coroner = Coroner(self.log_dir, env, self._guard, self._run_log.tell)
        self.after_update: List[Callable[[int], Mapping[str, float]]] = []  # given the iteration; their numbers join it
        self._stop: Optional[str] = None  # what is to end learn(), "request" or "max_time"
        self.stopped_by: Optional[str] = None  # what of these ended the last learn()
        self.episodes_restored = False  # load() has found the environment's episodes, and it took them over

    def _build_algorithm(self) -> PPO:
        env, obs, policy_cfg = self.env, self.env.get_observations(), self.policy_cfg
        num_actor_obs = sum(obs[group].shape[-1] for group in policy_cfg.actor_groups)
        num_critic_obs = sum(obs[group].shape[-1] for group in policy_cfg.critic_groups)
        actor_critic = policy_cfg.build(num_actor_obs, num_critic_obs, env.num_actions)
        alg: PPO = self.alg_cfg.build(actor_critic, device=self.device)
        privileged_shape = [num_critic_obs] if policy_cfg.critic_groups != policy_cfg.actor_groups else None
        alg.init_storage(env.num_envs, self.num_steps_per_env, [num_actor_obs], privileged_shape, [env.num_actions])
        accelerate(alg, self.train_cfg.acceleration)
        return alg

    # Training

    def learn(self, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        """Train for a number of updates more, or until ``request_stop`` or ``max_time``.

        A checkpoint is saved at the start, every ``save_interval`` updates and at the end. A learner that cannot go on,
        or a last checkpoint that cannot be saved, is a TrainingError.
        """
        first = self.current_learning_iteration
        last = first + num_learning_iterations
        if init_at_random_ep_len:
            self._randomize_episode_lengths()
        self._recovery = Recovery(self.alg, self.train_cfg.safety, first, self._num_rollbacks)
        self.train_mode()
        obs = self.env.get_observations()
        try:
            self._run_log.start(first, last)
            self.save_to_log_dir()  # from here on a killed run can be resumed
            began, longest = time.monotonic(), 0.0
            while self.current_learning_iteration < last and self._stop is None:
                iteration_began = time.monotonic()
                obs = self._iterate(obs)
                if self._saver.due(self.current_learning_iteration):
                    self.save_to_log_dir()
                now = time.monotonic()
                longest = max(longest, now - iteration_began)  # one with an evaluation may come next
                if 0 < self.cfg.max_time < (now - began) + longest:
                    self._stop = self._stop or "max_time"
            if not self.save_to_log_dir():
                raise TrainingError(f"iteration {self.current_learning_iteration} could not be saved in {self.log_dir}")
        finally:
            self.stopped_by, self._stop = self._stop, None
            self._run_log.close()

    def request_stop(self) -> None:
        """Have ``learn`` finish the iteration at hand, save and return; the next one, where none is running."""
        self._stop = "request"

    def tell(self, text: str) -> None:
        """Tell the user of an event, in one line."""
        self._run_log.tell(text)

    def _randomize_episode_lengths(self) -> None:
        """Set the running episodes to random ages, so that not all of them time out at once."""
        if not hasattr(self.env, "episode_length_buf"):
            raise ValueError(f"{type(self.env).__name__} has no episode_length_buf; take init_at_random_ep_len=False")
        ages = self.env.episode_length_buf
        limit = torch.as_tensor(self.env.max_episode_length, device=ages.device)
        self.env.episode_length_buf = (torch.rand(ages.shape, device=ages.device) * limit).to(ages.dtype)

    def _iterate(self, obs: Observations) -> Observations:
        """Collect one rollout, learn from it and log it."""
        began = time.perf_counter()
        obs = self._collect(obs)
        collected = time.perf_counter()
        metrics = self.alg.update()
        metrics["noise_std"] = self.alg.actor_critic.noise_std().detach().mean()
        numbers, episode_sums = self._fetch(metrics)
        learned = time.perf_counter()
        self.current_learning_iteration += 1
        num_steps = self.num_steps_per_env * self.env.num_envs
        self.tot_timesteps += num_steps
        self.tot_time += learned - began
        skipped_in_row, to_reset = numbers.pop("skipped_in_row"), numbers.pop("to_reset")
        record: Record = {
            "iteration": self.current_learning_iteration,
            "env_steps": self.tot_timesteps,
            "collect_s": collected - began,
            "learn_s": learned - collected,
            "steps_per_s": num_steps / (learned - began),
        }
        record.update(self._episode_record(episode_sums))
        record.update(numbers)
        for watch in self.after_update:
            record.update(watch(self.current_learning_iteration))
        self._run_log.write(record)
        self._coroner.look(numbers, self.current_learning_iteration)
        if self._recovery.needed(skipped_in_row):
            self._run_log.tell(self._recovery.roll_back())
            self._num_rollbacks = self._recovery.num_rollbacks
        elif (
            numbers["skipped_steps"] < self._num_gradient_steps
            and self.current_learning_iteration % self.save_interval == 0
        ):
            self._recovery.keep(self.current_learning_iteration)
        return self._reset_broken() if to_reset else obs

    def _fetch(self, metrics: Dict[str, Tensor]) -> Tuple[Dict[str, float], Dict[str, List[float]]]:
        """Bring an iteration's numbers to the host: metrics and faults, and each episode term's sum and count."""
        fault_names, faults = self._guard.pop()
        term_names, sums = self._stats.pop()
        names = [*metrics, *fault_names]
        values = torch.cat((torch.stack(list(metrics.values())), faults, sums.flatten())).tolist()  # sync: the only one
        pairs = values[len(names) :]
        return dict(zip(names, values)), dict(zip(term_names, map(list, zip(pairs[::2], pairs[1::2]))))

    @torch.no_grad()
    def _collect(self, obs: Observations) -> Observations:
        """Step the environment T times and return the observations after the last step."""
        self.alg.storage.clear()  # an interrupted rollout may have left rows
        inputs = self._guard.look(obs)
        for t in range(self.num_steps_per_env):
            actions = self.alg.act(*inputs)
            result = standardize_step(self.env.step(actions.to(self.env.device)))
            outcome = self._guard.judge(result, self.alg.transition, t)
            self.alg.process_env_step(outcome.reward, outcome.done, outcome.infos)
            log = result.extras.get("log") or result.extras.get("episode") or {}
            self._stats.record(outcome.reward, outcome.done, outcome.infos["valid"], log)
            obs, inputs = result.obs, outcome.inputs
        self.alg.compute_returns(inputs.critic_obs)
        return obs

    def _reset_broken(self) -> Observations:
        """Start the environments anew that broke and did not do so by themselves; where the environment cannot, they
        are left out for as long as they are broken."""
        if can_reset_some(self.env):
            mask = self._guard.to_reset
            self.env.reset(mask.nonzero().squeeze(-1).to(self.env.device))
            self.alg.actor_critic.reset(mask)
            self._stats.forget(mask)
            self._guard.forget_resets()
        return self.env.get_observations()

    def _episode_record(self, sums: Dict[str, List[float]]) -> Record:
        (return_sum, count), (length_sum, _) = sums.pop("return"), sums.pop("length")
        self._recent.add(count, return_sum, length_sum)
        mean_reward, mean_length = self._recent.means()
        record: Record = {"mean_reward": mean_reward, "mean_episode_length": mean_length}
        record.update({name: total / number if number else None for name, (total, number) in sums.items()})
        return record

    def train_mode(self) -> None:
        """Put the networks into training mode."""
        self.alg.train_mode()

    def eval_mode(self) -> None:
        """Put the networks into evaluation mode."""
        self.alg.test_mode()

    # What a run leaves behind

    def add_git_repo_to_log(self, file_in_repo: Union[str, Path]) -> None:
        """Have the state of the repository around a file kept with the run."""
        self._run_log.add_git_repo(file_in_repo)

    def save_to_log_dir(self) -> bool:
        """Save the checkpoint of the current iteration in the run folder, if there is one and it is not there yet;
        return whether that worked."""
        self._run_log.sync()
        return self._saver.save(self.current_learning_iteration, self._state)

    def save(self, path: Union[str, Path], infos: Optional[Dict[str, Any]] = None) -> None:
        """Write a checkpoint: the learner, the random generators, the counters, and the environment where it can."""
        write_checkpoint(Path(path), self._state(infos))

    def _state(self, infos: Optional[Dict[str, Any]] = None) -> Dict[str, Any]:
        """Return all that a run needs to go on as if it had never stopped."""
        state_of_env = getattr(self.env, "state_dict", None)
        return {
            "format": FORMAT,
            **self.alg.state_dict(),
            "iter": self.current_learning_iteration,
            "infos": infos,
            "rng": random_states(),
            "env": state_of_env() if state_of_env is not None else None,
            "memory": self.alg.actor_critic.get_hidden_states(),  # of the episodes in "env"
            "episodes": {"running": self._stats.state_dict(), "recent": self._recent.state_dict()},
            "counters": {
                "env_steps": self.tot_timesteps,
                "time_s": self.tot_time,
                "rollbacks": self._num_rollbacks,
            },
        }

    def load(
        self, path: Union[str, Path], load_optimizer: bool = True, load_env: bool = True
    ) -> Optional[Dict[str, Any]]:
        """Take over a checkpoint and return its infos.

        With ``load_optimizer=False`` it is only the weights and counters; with ``load_env=False`` all but the running
        episodes, so that there may be more or fewer environments.

        A file that is damaged, whose weights are not finite, or whose networks are of other sizes than this runner's,
        is a :class:`CheckpointError`.
        """
        state = read_checkpoint(Path(path), self.device)
        for name, value in state["model_state_dict"].items():
            if isinstance(value, Tensor) and not torch.isfinite(value).all():
                raise CheckpointError(f"{path} holds weights that are not finite, in {name}; take an earlier one")
        try:
            self.alg.load_state_dict(state, load_optimizer)
        except (RuntimeError, KeyError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise CheckpointError(f"{path} does not fit the policy as configured: {reason}") from error
        self.current_learning_iteration = state.get("iter", 0)
        counters = state.get("counters", {})
        self.tot_timesteps, self.tot_time = counters.get("env_steps", 0), counters.get("time_s", 0.0)
        self._saver.take_note(self.current_learning_iteration)
        self.alg.actor_critic.reset()
        self.episodes_restored = False
        if load_optimizer:
            self._num_rollbacks = counters.get("rollbacks", 0)
            self._load_episodes(state, load_env)
            restore_random_states(state.get("rng"))
        return state.get("infos")

    def _load_episodes(self, state: Mapping[str, Any], load_env: bool) -> None:
        """Have the environment, the memories and the statistics go on with the episodes of a checkpoint, if the
        environment can."""
        episodes = state.get("episodes", {})
        self._recent.load_state_dict(episodes.get("recent", []))
        restore_env = getattr(self.env, "load_state_dict", None)
        if not load_env or state.get("env") is None or restore_env is None:
            return
        restore_env(state["env"])
        self.episodes_restored = True
        self.alg.actor_critic.set_hidden_states(state.get("memory", (None, None)))
        if "running" in episodes:
            self._stats.load_state_dict(episodes["running"])

    def get_inference_policy(self, device: Union[str, torch.device, None] = None) -> InferencePolicy:
        """Return the policy of this moment as a function from observations to mean actions; see InferencePolicy."""
        return InferencePolicy(self.alg.actor_critic, device if device is not None else self.device)

    def export_policy_to_jit(self, path: Union[str, Path], filename: str = "policy.pt") -> Path:
        """Write the policy, normaliser included, as TorchScript into the folder ``path``; return the file."""
        return export_torchscript(self.alg.actor_critic, Path(path) / filename)

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

        return export_onnx(self.alg.actor_critic, Path(path) / filename, metadata)
