"""Collect rollouts: step the environment with the algorithm's actions, and validate the results."""

from __future__ import annotations

from typing import Dict, List, Tuple

import torch
from torch import Tensor

from rsl_rl.algorithms.algorithm import Algorithm
from rsl_rl.config.learn import SafetyConfig
from rsl_rl.env.contract import standardize_step
from rsl_rl.env.protocols import Resettable
from rsl_rl.env.step_validator import StepValidator
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.loggers import EpisodeStats, RecentEpisodes, Record


class Collector:
    """Collect rollouts of ``num_steps`` control steps, with statistics of episodes and faults."""

    def __init__(self, env: VecEnv, alg: Algorithm, cfg: SafetyConfig, num_steps: int):
        self._env, self._alg, self.num_steps = env, alg, num_steps
        self.validator = StepValidator(alg.obs_groups, cfg, env.num_envs, alg.device)
        self.stats = EpisodeStats(env.num_envs, alg.device)
        self.recent = RecentEpisodes()

    @property
    def num_samples(self) -> int:
        """Environment steps of a rollout."""
        return self.num_steps * self._env.num_envs

    @torch.no_grad()
    def collect(self, obs: Observations) -> Observations:
        """Step the environment T times from ``obs`` and return the observations after the last step."""
        env, alg, validator = self._env, self._alg, self.validator
        alg.begin_rollout()
        obs = self._restart() if alg.restarts_episodes else obs
        inputs = validator.validate_obs(obs, alg.observation_bounds(obs))
        for t in range(self.num_steps):
            actions = alg.act(inputs)
            result = standardize_step(env.step(actions.to(env.device)))
            transition = alg.transition
            step = validator.validate_step(result, transition.groups, transition.actions, t)
            alg.process_env_step(step.reward, step.done, step.extras, step.obs)
            log = result.extras.get("log") or result.extras.get("episode") or {}
            self.stats.record(step.reward, step.done, step.extras["valid"], log)
            obs, inputs = result.obs, step.obs
        alg.compute_returns(inputs)
        return obs

    def fetch(self, metrics: Dict[str, Tensor]) -> Tuple[Dict[str, float], Record]:
        """Return the metrics of an iteration on the host, with one synchronisation: metrics with faults, and the record
        of episodes; start the statistics of the next iteration."""
        fault_names, faults = self.validator.pop()
        term_names, sums = self.stats.pop()
        names = [*metrics.keys(), *fault_names]
        on_device = [value.reshape(1).to(faults.dtype) for value in metrics.values()]
        values = torch.cat((*on_device, faults, sums.flatten())).tolist()  # sync: the only one
        pairs = values[len(names) :]
        terms = dict(zip(term_names, map(list, zip(pairs[::2], pairs[1::2]))))
        return dict(zip(names, values)), self._episode_record(terms)

    def _episode_record(self, sums: Dict[str, List[float]]) -> Record:
        """Return means of recent episodes and of the environment's log from [sum, count] of each term."""
        (return_sum, count), (length_sum, _) = sums.pop("return"), sums.pop("length")
        self.recent.add(count, return_sum, length_sum)
        mean_reward, mean_length = self.recent.means()
        record: Record = {"mean_reward": mean_reward, "mean_episode_length": mean_length}
        record.update({name: total / number if number else None for name, (total, number) in sums.items()})
        return record

    def _restart(self) -> Observations:
        """Start new episodes in all environments, and return their observations."""
        env = self._env
        assert isinstance(env, Resettable)  # the algorithm has checked it
        env.reset(torch.arange(env.num_envs, device=env.device))
        self._alg.reset()
        self.stats.discard_episodes(torch.ones(env.num_envs, dtype=torch.bool, device=self._alg.device))
        self.validator.clear_resets()
        return env.get_observations()

    def reset_broken(self, obs: Observations) -> Observations:
        """Reset the environments that broke and did not reset themselves, and return the observations.

        If the environment cannot be reset, they stay masked as long as they are broken, and ``obs`` is returned.
        """
        if not isinstance(self._env, Resettable):
            return obs
        mask = self.validator.to_reset
        self._env.reset(mask.nonzero().squeeze(-1).to(self._env.device))
        self._alg.reset(mask)
        self.stats.discard_episodes(mask)
        self.validator.clear_resets()
        return self._env.get_observations()
