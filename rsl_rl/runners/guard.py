"""What stands between an environment that may break and a learner that must not notice."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from rsl_rl.config.learn import SafetyConfig
from rsl_rl.env.vec_env import Observations, StepResult
from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.utils.first_events import FirstEvents


class Inputs(NamedTuple):
    """What the networks read, with zeros in the rows of broken environments."""

    actor_obs: Tensor  # [N, D]
    critic_obs: Tensor  # [N, C]


class Outcome(NamedTuple):
    """What a step of the environments means to the learner."""

    inputs: Inputs  # to act on next
    reward: Tensor  # [N]; 0 where not valid
    done: Tensor  # [N] bool; true where not valid
    infos: Dict[str, Any]  # for PPO.process_env_step: time_outs, final_obs, and valid [N] bool


class Guard:
    """Finds environments whose observation or reward is not finite or larger than ``cfg`` allows, or which say
    themselves that they broke, and takes their transitions out of what is learned from.

    Such a transition is not valid, and ends an episode for the learner; so does the next one where its observation was
    broken. Nothing here waits for the device. Every environment that broke and did not start anew by itself is marked
    in ``to_reset``.
    """

    def __init__(self, policy: ActorCritic, cfg: SafetyConfig, num_envs: int, device: torch.device):
        self._policy, self._cfg, self._device = policy, cfg, device
        self._one_input = policy.cfg.critic_groups in ((), policy.cfg.actor_groups)
        self._inputs = Inputs(torch.empty(0), torch.empty(0))  # acted on last, clean
        self._blind = torch.zeros(num_envs, dtype=torch.bool, device=device)  # for want of an observation
        self.to_reset = torch.zeros_like(self._blind)  # [N] bool
        self._excluded = torch.zeros((), device=device)
        self._counts: Dict[Tuple[str, ...], Tensor] = {}  # causes -> [len(causes)] steps in this rollout
        self._first: Optional[FirstEvents] = None

    def look(self, obs: Observations) -> Inputs:
        """Return what the networks read of an observation that no transition led to."""
        raw, self._blind = self._read(obs)
        self._inputs = self._clean(raw)
        return self._inputs

    def _read(self, obs: Observations) -> Tuple[Inputs, Tensor]:
        """Pick out of an observation what the networks read, and tell where it is broken [N]."""
        actor_obs = self._policy.actor_obs(obs).to(self._device)
        broken = self._too_large(actor_obs)
        if self._one_input:
            return Inputs(actor_obs, actor_obs), broken
        critic_obs = self._policy.critic_obs(obs).to(self._device)
        return Inputs(actor_obs, critic_obs), broken | self._too_large(critic_obs)

    def _too_large(self, obs: Tensor) -> Tensor:
        return ~(obs.abs().amax(dim=1) <= self._cfg.max_observation)  # NaN compares as too large

    def _clean(self, raw: Inputs) -> Inputs:
        rows = self._blind.unsqueeze(1)
        actor_obs = raw.actor_obs.masked_fill(rows, 0.0)
        return Inputs(actor_obs, actor_obs if self._one_input else raw.critic_obs.masked_fill(rows, 0.0))

    def judge(self, result: StepResult, actions: Tensor, step: int) -> Outcome:
        """Take in what an environment made of actions [N, A]; ``step`` is a number for the records."""
        acted_on, acted_blind = self._inputs, self._blind
        reward, done = result.reward.to(self._device), result.done.to(self._device)
        raw, self._blind = self._read(result.obs)
        self._inputs = self._clean(raw)
        masks = {cause: mask.to(self._device) for cause, mask in result.extras.get("invalid", {}).items()}
        admitted = torch.stack(list(masks.values())).any(dim=0) if masks else torch.zeros_like(done)
        infos = {name: result.extras[name] for name in ("time_outs", "final_obs") if name in result.extras}
        found = {"reward": ~(reward.abs() <= self._cfg.max_reward) & ~admitted, "observation": self._blind}
        if "final_obs" in infos:
            infos["final_obs"], broken = self._final_obs(infos["final_obs"])
            found["final_observation"] = broken & done & ~admitted
        masks.update((cause, masks[cause] | mask if cause in masks else mask) for cause, mask in found.items())
        causes, stacked = tuple(masks), torch.stack(list(masks.values()))
        broken = stacked.any(dim=0)
        invalid = broken | acted_blind
        self.to_reset = (self.to_reset | broken) & ~done
        self._excluded = self._excluded + invalid.sum()
        self._counts[causes] = self._counts.get(causes, 0) + stacked.sum(dim=1)
        if self._first is None or self._first.kinds != causes:
            self._first = FirstEvents(causes, self._device)
        rows = {"actor_obs": acted_on.actor_obs, "action": actions.to(self._device), "reward": reward}
        rows.update(next_actor_obs=raw.actor_obs, next_critic_obs=raw.critic_obs)
        self._first.record(stacked, step, rows)
        infos["valid"] = ~invalid
        return Outcome(self._inputs, reward.masked_fill(invalid, 0.0), done | invalid, infos)

    def _final_obs(self, final_obs: Any) -> Tuple[Tensor, Tensor]:
        """Return what the critic reads of the last observations, zero where broken, and where that is."""
        x = self._policy.critic_obs(final_obs).to(self._device)
        broken = self._too_large(x)
        return x.masked_fill(broken.unsqueeze(1), 0.0), broken

    def first_event(self, cause: str) -> Optional[Dict[str, Tensor]]:
        """Return what the first environment that broke for a cause had seen, done and become, raw; see FirstEvents."""
        return self._first.read(cause) if self._first is not None else None

    def pop(self) -> Tuple[List[str], Tensor]:
        """Return names, and on the device a number each: steps left out of the rollout, environments that wait for a
        reset, and steps for each cause; start the next rollout."""
        names, numbers = ["excluded_steps", "to_reset"], [self._excluded.view(1), self.to_reset.sum().float().view(1)]
        for causes, counts in self._counts.items():
            names += [f"faults/{cause}" for cause in causes]
            numbers.append(counts.float())
        self._counts, self._excluded = {}, torch.zeros_like(self._excluded)
        return names, torch.cat(numbers)

    def forget_resets(self) -> None:
        """Take note that the environments in ``to_reset`` have been reset."""
        self.to_reset = torch.zeros_like(self.to_reset)
