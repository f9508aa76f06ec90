"""The training loop: collect, learn, log, save."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Dict, List, Mapping, Optional, Sequence, Union

import torch
from torch import Tensor

from rsl_rl.algorithms.ppo import PPO
from rsl_rl.config.learn import LearnConfig
from rsl_rl.config.policy import ActorCriticConfig, MirrorTuple, SymmetricActorCriticConfig
from rsl_rl.env.contract import check_vec_env, standardize_step
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.exporters import export_torchscript
from rsl_rl.loggers import LOGGERS, ConsoleLogger, EpisodeStats, JsonlLogger, Logger, RecentEpisodes, Record
from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.runners.checkpoint import FORMAT, random_states, read_checkpoint, restore_random_states, write_checkpoint
from rsl_rl.utils.config_io import from_dict, to_dict, write_yaml
from rsl_rl.utils.git_state import write_git_state
from rsl_rl.utils.registry import suggest


class InferencePolicy:
    """A policy that acts without noise; call ``reset`` with the dones after each step of the environment."""

    def __init__(self, actor_critic: ActorCritic):
        self._actor_critic = actor_critic

    @torch.no_grad()
    def __call__(self, obs: Union[Tensor, Observations]) -> Tensor:
        return self._actor_critic.act_inference(obs)

    def reset(self, dones: Optional[Tensor] = None) -> None:
        """Forget the past of the environments marked in dones [N]; of all for None."""
        self._actor_critic.reset(dones)


class OnPolicyRunner:
    """Train a policy in an environment.

    ``train_cfg`` is a :class:`LearnConfig` or a nested dict of its fields; the caller's object is left as it was. With
    a ``log_dir`` the run leaves its config, git state, metrics, curves and checkpoints there; without one it only
    trains.
    """

    def __init__(
        self,
        env: VecEnv,
        train_cfg: Union[LearnConfig, Mapping[str, Any]],
        log_dir: Union[str, Path, None] = None,
        device: Union[str, torch.device] = "cpu",
    ):
        self.cfg: LearnConfig = train_cfg if isinstance(train_cfg, LearnConfig) else from_dict(LearnConfig, train_cfg)
        self.env = env
        self.device = torch.device(device)
        self.log_dir = Path(log_dir) if log_dir is not None else None
        self.env_corrections = check_vec_env(env)
        self.alg = self._build(env)
        self.current_learning_iteration = 0
        self.tot_timesteps = 0  # environment steps so far
        self.tot_time = 0.0  # seconds of collecting and learning so far
        self._stats = EpisodeStats(env.num_envs, self.device)
        self._recent = RecentEpisodes()
        self._git_files: List[Path] = [Path(__file__)]
        self._logger_class = LOGGERS.load(self.cfg.runner.logger)
        self._loggers: List[Logger] = []

    def _build(self, env: VecEnv) -> PPO:
        obs = env.get_observations()
        policy_cfg = resolve_mirrors(resolve_groups(self.cfg.policy, obs), env)
        num_actor_obs, num_critic_obs = (
            sum(obs[group].shape[-1] for group in groups)
            for groups in (policy_cfg.actor_groups, policy_cfg.critic_groups)
        )
        actor_critic = policy_cfg.build(num_actor_obs, num_critic_obs, env.num_actions)
        alg: PPO = self.cfg.algorithm.build(actor_critic, device=self.device)
        alg.init_storage(
            env.num_envs, self.cfg.runner.num_steps_per_env, [num_actor_obs], [num_critic_obs], [env.num_actions]
        )
        return alg

    # Training

    def learn(self, num_learning_iterations: int, init_at_random_ep_len: bool = False) -> None:
        """Train for a number of updates more; a checkpoint is saved every ``save_interval`` of them and at the end."""
        env, first = self.env, self.current_learning_iteration
        last = first + num_learning_iterations
        if init_at_random_ep_len:
            limit = int(torch.as_tensor(env.max_episode_length).max())
            env.episode_length_buf = torch.randint_like(env.episode_length_buf, high=limit)
        if self.log_dir is not None:
            self._write_provenance(self.log_dir)
        self._loggers = self._loggers or self._make_loggers()
        self.train_mode()
        obs = env.get_observations()
        for logger in self._loggers:
            logger.start(first, last)
        try:
            while self.current_learning_iteration < last:
                obs = self._iterate(obs)
                if self.current_learning_iteration % self.cfg.runner.save_interval == 0:
                    self.save_to_log_dir()
            if last % self.cfg.runner.save_interval != 0:
                self.save_to_log_dir()
        finally:
            for logger in self._loggers:
                logger.close()

    def _iterate(self, obs: Observations) -> Observations:
        """Collect one rollout, learn from it and log it."""
        began = time.perf_counter()
        obs = self._collect(obs)
        collected = time.perf_counter()
        metrics = self.alg.update()
        metrics["noise_std"] = self.alg.actor_critic.noise_std().detach().mean()
        names, sums = self._stats.pop()
        scalars, episode_sums = (
            torch.stack(list(metrics.values())).tolist(),
            sums.tolist(),
        )  # sync: all numbers of the iteration
        learned = time.perf_counter()
        self.current_learning_iteration += 1
        num_steps = self.cfg.runner.num_steps_per_env * self.env.num_envs
        self.tot_timesteps += num_steps
        self.tot_time += learned - began
        record: Record = {
            "iteration": self.current_learning_iteration,
            "env_steps": self.tot_timesteps,
            "collect_s": collected - began,
            "learn_s": learned - collected,
            "steps_per_s": num_steps / (learned - began),
        }
        record.update(self._episode_record(dict(zip(names, episode_sums))))
        record.update(zip(metrics, scalars))
        for logger in self._loggers:
            logger.write(record)
        return obs

    @torch.no_grad()
    def _collect(self, obs: Observations) -> Observations:
        """Step the environment T times and return the observations after the last step."""
        policy, device = self.alg.actor_critic, self.device
        for _ in range(self.cfg.runner.num_steps_per_env):
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
        log_dir.mkdir(parents=True, exist_ok=True)
        config = to_dict(self.cfg)
        config.setdefault("env", to_dict(getattr(self.env, "cfg", None)))
        write_yaml(config, log_dir / "config.yaml")
        write_git_state(self._git_files, log_dir / "git")

    def _make_loggers(self) -> List[Logger]:
        loggers: List[Logger] = [ConsoleLogger(self.cfg.runner.experiment_name)]
        if self.log_dir is not None:
            loggers.append(JsonlLogger(self.log_dir / "metrics.jsonl"))
            loggers.append(self._logger_class(self.log_dir, to_dict(self.cfg)))
        return loggers

    def save_to_log_dir(self) -> Optional[Path]:
        """Save the checkpoint of the current iteration in the run folder, if there is one, and return its path."""
        if self.log_dir is None:
            return None
        path = self.log_dir / f"model_{self.current_learning_iteration}.pt"
        self.save(path)
        return path

    def save(self, path: Union[str, Path], infos: Optional[Dict[str, Any]] = None) -> None:
        """Write a checkpoint of everything that training goes on from."""
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
                "counters": {"env_steps": self.tot_timesteps, "time_s": self.tot_time},
            },
        )

    def load(self, path: Union[str, Path], load_optimizer: bool = True) -> Optional[Dict[str, Any]]:
        """Take over a checkpoint and return its infos; with ``load_optimizer=False`` only the weights and counters."""
        state = read_checkpoint(Path(path), self.device)
        self.alg.actor_critic.load_state_dict(state["model_state_dict"])
        self.current_learning_iteration = state.get("iter", 0)
        counters = state.get("counters", {})
        self.tot_timesteps, self.tot_time = counters.get("env_steps", 0), counters.get("time_s", 0.0)
        if load_optimizer:
            self.alg.load_optimizer_state(state["optimizer_state_dict"], state.get("learning_rate"))
            restore_env = getattr(self.env, "load_state_dict", None)
            if state.get("env") is not None and restore_env is not None:
                restore_env(state["env"])
            restore_random_states(state.get("rng"))
        return state.get("infos")

    def get_inference_policy(self, device: Union[str, torch.device, None] = None) -> InferencePolicy:
        """Return the policy as a function from an observation (groups or a tensor [N, D]) to the mean action [N, A]."""
        self.eval_mode()
        return InferencePolicy(self.alg.actor_critic.to(device if device is not None else self.device))

    def export_policy_to_jit(self, path: Union[str, Path], filename: str = "policy.pt") -> Path:
        """Write the policy, normaliser included, as TorchScript into the folder ``path``; return the file."""
        return export_torchscript(self.alg.actor_critic, Path(path) / filename)


def resolve_groups(cfg: ActorCriticConfig, obs: Observations) -> ActorCriticConfig:
    """Settle which observation groups actor and critic read; a group that the environment lacks is a ValueError."""
    critic_groups = cfg.critic_groups or (("critic",) if "critic" in obs.keys() else cfg.actor_groups)  # noqa: SIM118
    for role, groups in (("actor", cfg.actor_groups), ("critic", critic_groups)):
        for group in groups:
            if group not in obs.keys():  # noqa: SIM118
                known = sorted(obs.keys())
                raise ValueError(
                    f"{role}_groups names '{group}', and the environment gives {', '.join(known)}."
                    f"{suggest(group, known)}"
                )
    return replace(cfg, critic_groups=critic_groups)


def resolve_mirrors(cfg: ActorCriticConfig, env: VecEnv) -> ActorCriticConfig:
    """Ask the environment how a symmetric policy's inputs and outputs look in a mirror; other policies stay as they
    are."""
    if not isinstance(cfg, SymmetricActorCriticConfig):
        return cfg
    ask_mirrors = getattr(env, "mirrors", None)
    if ask_mirrors is None:
        raise ValueError(
            f"{type(env).__name__} has no mirrors(), which a symmetric policy needs; add the method or take "
            "ActorCriticConfig"
        )
    mirrors = ask_mirrors()

    def joined(groups: Sequence[str]) -> MirrorTuple:
        index: List[int] = []
        sign: List[float] = []
        for group in groups:
            index += [len(sign) + i for i in mirrors[group][0].tolist()]
            sign += mirrors[group][1].tolist()
        return tuple(index), tuple(sign)

    return replace(
        cfg,
        actor_mirror=joined(cfg.actor_groups),
        critic_mirror=joined(cfg.critic_groups),
        action_mirror=joined(("actions",)),
    )
