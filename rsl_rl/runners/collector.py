"""Collect rollouts: step the environment with the algorithm's actions, and validate the results."""

from __future__ import annotations

from itertools import islice
from typing import Dict, NamedTuple

import torch

from rsl_rl.algorithms.algorithm import Algorithm, UpdateResult
from rsl_rl.config.learn import SafetyConfig
from rsl_rl.env.protocols import HasEpisodeLengths, Resettable, supports
from rsl_rl.env.step_validator import StepValidator
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.loggers import EpisodeStats, RecentEpisodes, Record
from rsl_rl.runners.iteration_record import Sums


class IterationNumbers(NamedTuple):
    """Numbers of an iteration on the host."""

    metrics: Dict[str, float]  # of the update
    steps_taken: float
    steps_skipped: float
    faults: Dict[str, float]  # counts
    to_reset: float  # number of environments that broke and did not reset themselves
    sums: Sums  # of episodes


class Collector:
    """Collect rollouts of ``num_steps`` control steps, with statistics of episodes and faults."""

    def __init__(self, env: VecEnv, alg: Algorithm, cfg: SafetyConfig, num_steps: int):
        self._env, self._alg, self.num_steps = env, alg, num_steps
        self.validator = StepValidator(alg.obs_groups, cfg, env.num_envs, alg.device)
        self.stats = EpisodeStats(env.num_envs, alg.device)
        self.recent = RecentEpisodes()

    def count_samples(self) -> int:
        """Return the environment steps of the rollouts of all ranks together."""
        return self.num_steps * sum(self._alg.collective.gather(self._env.num_envs))

    def randomize_episode_lengths(self) -> None:
        """Set the current episodes to random lengths, so that they do not time out together."""
        env = self._env
        if not supports(env, HasEpisodeLengths):
            name = type(getattr(env, "client", env)).__name__
            raise ValueError(f"{name} has no episode_length_buf; use init_at_random_ep_len=False")
        ages = env.episode_length_buf
        limit = torch.as_tensor(env.max_episode_length, device=ages.device)
        env.episode_length_buf = (torch.rand(ages.shape, device=ages.device) * limit).to(ages.dtype)

    @torch.no_grad()
    def collect(self, obs: Observations) -> Observations:
        """Step the environment T times from ``obs`` and return the observations after the last step."""
        env, alg, validator = self._env, self._alg, self.validator
        alg.begin_rollout()
        obs = self._restart() if alg.restarts_episodes else obs
        inputs = validator.validate_obs(obs, alg.policy.observation_bounds(obs))
        for t in range(self.num_steps):
            actions = alg.act(inputs)
            result = env.step(actions.to(env.device))
            groups, columns = alg.transition
            step = validator.validate_step(result, groups, columns["actions"], t)
            alg.process_env_step(step.reward, step.done, step.extras, step.obs)
            self.stats.record(step.reward, step.done, step.extras["valid"], result[3])
            obs, inputs = result[0], step.obs
        alg.compute_returns(inputs)
        return obs

    def fetch(self, result: UpdateResult) -> IterationNumbers:
        """Return the numbers of an iteration on the host, with one synchronisation; start the statistics of the next
        iteration."""
        fault_names, faults = self.validator.pop()
        term_names, sums = self.stats.pop()
        steps = result.steps_taken, result.steps_skipped, self.validator.to_reset.sum()
        on_device = [value.reshape(1).to(faults.dtype) for value in (*result.metrics.values(), *steps)]
        on_host = self._alg.collective.to_host(torch.cat((*on_device, faults, sums.flatten())))  # sync: the only one
        values = iter(on_host)
        metrics = dict(zip(result.metrics, values))
        taken, skipped, to_reset = islice(values, 3)
        counts = dict(zip(fault_names, values))
        terms = dict(zip(term_names, map(list, zip(values, values))))
        return IterationNumbers(metrics, taken, skipped, counts, to_reset, terms)

    def episode_record(self, sums: Sums) -> Record:
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
        assert supports(env, Resettable)  # the algorithm has checked it
        env.reset(torch.arange(env.num_envs, device=env.device))
        self._alg.reset()
        self.stats.discard_episodes(torch.ones(env.num_envs, dtype=torch.bool, device=self._alg.device))
        self.validator.clear_resets()
        return env.get_observations()

    def reset_broken(self, obs: Observations) -> Observations:
        """Reset the environments that broke and did not reset themselves, and return the observations.

        If the environment cannot be reset, they stay masked as long as they are broken, and ``obs`` is returned.
        """
        if not supports(self._env, Resettable):
            return obs
        mask = self.validator.to_reset
        self._env.reset(mask.nonzero().squeeze(-1).to(self._env.device))
        self._alg.reset(mask)
        self.stats.discard_episodes(mask)
        self.validator.clear_resets()
        return self._env.get_observations()
