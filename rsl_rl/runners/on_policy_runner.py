"""The training loop: collect, learn, log, save."""

from __future__ import annotations

import contextlib
import math
import time
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Union

import torch

from rsl_rl.algorithms.ppo import PPO
from rsl_rl.config.learn import LearnConfig
from rsl_rl.env.contract import check_vec_env, standardize_step
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.exporters import export_torchscript
from rsl_rl.loggers import LOGGERS, ConsoleLogger, EpisodeStats, JsonlLogger, Logger, RecentEpisodes, Record
from rsl_rl.runners.acceleration import accelerate
from rsl_rl.runners.checkpoint import (
    FORMAT,
    CheckpointError,
    random_states,
    read_checkpoint,
    restore_random_states,
    write_checkpoint,
)
from rsl_rl.runners.inference import InferencePolicy
from rsl_rl.runners.policy_setup import resolve_groups, resolve_mirrors
from rsl_rl.utils.config_io import from_dict, to_dict, write_yaml
from rsl_rl.utils.git_state import write_git_state


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
        self.env = env
        self.device = torch.device(device)
        self.log_dir = Path(log_dir) if log_dir is not None else None
        self.env_corrections = check_vec_env(env)
        self.policy_cfg = resolve_mirrors(resolve_groups(self.train_cfg.policy, env.get_observations()), env)
        self.alg = self._build_algorithm()
        self.current_learning_iteration = 0
        self.tot_timesteps = 0  # environment steps so far
        self.tot_time = 0.0  # seconds of collecting and learning so far
        self._stats = EpisodeStats(env.num_envs, self.device)
        self._recent = RecentEpisodes()
        self._git_files: List[Path] = [Path(__file__)]
        self._logger_class = LOGGERS.load(self.cfg.logger) if self.log_dir is not None else None
        self._loggers: List[Logger] = []
        self.stop_requested = False

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
        """Train for a number of updates more; a checkpoint is saved every ``save_interval`` of them and at the end."""
        first = self.current_learning_iteration
        last = first + num_learning_iterations
        self.stop_requested = False
        if init_at_random_ep_len:
            self._randomize_episode_lengths()
        if self.log_dir is not None:
            self._write_provenance(self.log_dir)
        self._loggers = self._loggers or self._make_loggers()
        self.train_mode()
        obs = self.env.get_observations()
        with contextlib.ExitStack() as open_loggers:
            for logger in self._loggers:
                open_loggers.callback(logger.close)
                logger.start(first, last)
            while self.current_learning_iteration < last and not self.stop_requested:
                obs = self._iterate(obs)
                if self.current_learning_iteration % self.save_interval == 0:
                    self.save_to_log_dir()
            if self.current_learning_iteration % self.save_interval != 0:
                self.save_to_log_dir()

    def request_stop(self) -> None:
        """Have ``learn`` finish the iteration at hand, save and return."""
        self.stop_requested = True

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
        names, sums = self._stats.pop()
        numbers = torch.cat((torch.stack(list(metrics.values())), sums.flatten())).tolist()  # sync: the only one
        scalars, pairs = numbers[: len(metrics)], numbers[len(metrics) :]
        episode_sums = dict(zip(names, map(list, zip(pairs[::2], pairs[1::2]))))
        learned = time.perf_counter()
        self.current_learning_iteration += 1
        num_steps = self.num_steps_per_env * self.env.num_envs
        self.tot_timesteps += num_steps
        self.tot_time += learned - began
        record: Record = {
            "iteration": self.current_learning_iteration,
            "env_steps": self.tot_timesteps,
            "collect_s": collected - began,
            "learn_s": learned - collected,
            "steps_per_s": num_steps / (learned - began),
        }
        record.update(self._episode_record(episode_sums))
        record.update(zip(metrics, scalars))
        self.log(record)
        broken = [name for name, value in zip(metrics, scalars) if not math.isfinite(value)]
        if broken:
            raise FloatingPointError(
                f"{', '.join(broken)} not finite in iteration {self.current_learning_iteration}, which is not saved: "
                "go on from the last checkpoint with a lower learning rate, and look for the cause in the environment"
            )
        return obs

    @torch.no_grad()
    def _collect(self, obs: Observations) -> Observations:
        """Step the environment T times and return the observations after the last step."""
        policy, device = self.alg.actor_critic, self.device
        self.alg.storage.clear()  # an interrupted rollout may have left rows
        for _ in range(self.num_steps_per_env):
            actions = self.alg.act(policy.actor_obs(obs).to(device), policy.critic_obs(obs).to(device))
            obs, reward, done, extras = standardize_step(self.env.step(actions.to(self.env.device)))
            reward, done = reward.to(device), done.to(device)
            self.alg.process_env_step(reward, done, extras)
            self._stats.record(reward, done, extras.get("log") or extras.get("episode") or {})
        self.alg.compute_returns(policy.critic_obs(obs).to(device))
        return obs

    def _episode_record(self, sums: Dict[str, List[float]]) -> Record:
        (return_sum, count), (length_sum, _) = sums.pop("return"), sums.pop("length")
        self._recent.add(count, return_sum, length_sum)
        mean_reward, mean_length = self._recent.means()
        record: Record = {"mean_reward": mean_reward, "mean_episode_length": mean_length}
        record.update({name: total / number if number else None for name, (total, number) in sums.items()})
        return record

    def log(self, record: Record) -> None:
        """Send one iteration's numbers to every logger."""
        for logger in self._loggers:
            logger.write(record)

    def train_mode(self) -> None:
        """Put the networks into training mode."""
        self.alg.train_mode()

    def eval_mode(self) -> None:
        """Put the networks into evaluation mode."""
        self.alg.test_mode()

    # What a run leaves behind

    def add_git_repo_to_log(self, file_in_repo: Union[str, Path]) -> None:
        """Have the state of the repository around a file kept with the run."""
        self._git_files.append(Path(file_in_repo))

    def _write_provenance(self, log_dir: Path) -> None:
        """Keep what this training is made of; going on with a run leaves the first account as it was."""
        ending = f"_from_{self.current_learning_iteration}" if (log_dir / "config.yaml").exists() else ""
        log_dir.mkdir(parents=True, exist_ok=True)
        config = to_dict(self.train_cfg)
        config.setdefault("env", to_dict(getattr(self.env, "cfg", None)))
        write_yaml(config, log_dir / f"config{ending}.yaml")
        write_git_state(self._git_files, log_dir / f"git{ending}")

    def _make_loggers(self) -> List[Logger]:
        loggers: List[Logger] = [ConsoleLogger(self.cfg.experiment_name)]
        if self.log_dir is not None and self._logger_class is not None:
            loggers.append(JsonlLogger(self.log_dir / "metrics.jsonl"))
            loggers.append(self._logger_class(self.log_dir, to_dict(self.train_cfg)))
        return loggers

    def save_to_log_dir(self) -> Optional[Path]:
        """Save the checkpoint of the current iteration in the run folder, if there is one, and return its path."""
        if self.log_dir is None:
            return None
        path = self.log_dir / f"model_{self.current_learning_iteration}.pt"
        self.save(path)
        return path

    def save(self, path: Union[str, Path], infos: Optional[Dict[str, Any]] = None) -> None:
        """Write a checkpoint: the learner, the random generators, the counters, and the environment where it can."""
        state_of_env = getattr(self.env, "state_dict", None)
        write_checkpoint(
            Path(path),
            {
                "format": FORMAT,
                "model_state_dict": self.alg.actor_critic.state_dict(),
                "optimizer_state_dict": self.alg.optimizer.state_dict(),
                "iter": self.current_learning_iteration,
                "infos": infos,
                "learning_rate": self.alg.learning_rate,
                "rng": random_states(),
                "env": state_of_env() if state_of_env is not None else None,
                "memory": self.alg.actor_critic.get_hidden_states(),  # of the episodes in "env"
                "counters": {"env_steps": self.tot_timesteps, "time_s": self.tot_time},
            },
        )

    def load(self, path: Union[str, Path], load_optimizer: bool = True) -> Optional[Dict[str, Any]]:
        """Take over a checkpoint and return its infos; with ``load_optimizer=False`` only the weights and counters.

        A file that is damaged, or whose networks are of other sizes than this runner's, is a :class:`CheckpointError`.
        """
        state = read_checkpoint(Path(path), self.device)
        try:
            self.alg.actor_critic.load_state_dict(state["model_state_dict"])
            if load_optimizer:
                self.alg.optimizer.load_state_dict(state["optimizer_state_dict"])
        except (RuntimeError, KeyError, ValueError) as error:
            reason = " ".join(str(error).split())
            raise CheckpointError(f"{path} does not fit the policy as configured: {reason}") from error
        self.current_learning_iteration = state.get("iter", 0)
        counters = state.get("counters", {})
        self.tot_timesteps, self.tot_time = counters.get("env_steps", 0), counters.get("time_s", 0.0)
        self.alg.actor_critic.reset()
        if load_optimizer:
            restore_env = getattr(self.env, "load_state_dict", None)
            if state.get("env") is not None and restore_env is not None:
                restore_env(state["env"])
                self.alg.actor_critic.set_hidden_states(state.get("memory", (None, None)))
            restore_random_states(state.get("rng"))
        return state.get("infos")

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
