"""What stands between an environment that may break and a learner that must not notice."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from rsl_rl.config.learn import SafetyConfig
from rsl_rl.env.vec_env import Observations, StepResult
from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.storage.rollout_storage import RolloutStorage
from rsl_rl.utils.first_events import FirstEvents
from rsl_rl.utils.looking import surely_none, surely_within


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


_OWN_CAUSES = ("reward", "observation", "final_observation")
"""What the guard finds by itself; an environment may name more."""


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
        self._blind = torch.zeros(num_envs, dtype=torch.bool, device=device)  # acts on a broken observation
        self._all = ~self._blind
        self.to_reset = torch.zeros_like(self._blind)  # [N] bool
        self._excluded = torch.zeros((), device=device)
        self._counts: Dict[Tuple[str, ...], Tensor] = {}  # causes -> [len(causes)] steps in this rollout
        self._first: Dict[Tuple[str, ...], FirstEvents] = {}

    def look(self, obs: Observations) -> Inputs:
        """Return what the networks read of an observation that no transition led to."""
        raw = self._read(obs)
        self._blind = self._broken(raw)
        return self._clean(raw)

    def _read(self, obs: Observations) -> Inputs:
        actor_obs = self._policy.actor_obs(obs).to(self._device)
        return Inputs(actor_obs, actor_obs if self._one_input else self._policy.critic_obs(obs).to(self._device))

    def _broken(self, raw: Inputs) -> Tensor:
        """Tell which environments' observations cannot be used, [N] bool."""
        broken = _exceeds(raw.actor_obs, self._cfg.max_observation)
        return broken if self._one_input else broken | _exceeds(raw.critic_obs, self._cfg.max_observation)

    def _clean(self, raw: Inputs) -> Inputs:
        rows = self._blind.unsqueeze(1)
        actor_obs = raw.actor_obs.masked_fill(rows, 0.0)
        return Inputs(actor_obs, actor_obs if self._one_input else raw.critic_obs.masked_fill(rows, 0.0))

    def judge(self, result: StepResult, acted_on: RolloutStorage.Transition, step: int) -> Outcome:
        """Take in what an environment made of a transition's actions; ``step`` is a number for the records."""
        reward, done = result.reward.to(self._device), result.done.to(self._device)
        raw = self._read(result.obs)
        infos = {name: result.extras[name] for name in ("time_outs", "final_obs") if name in result.extras}
        if "final_obs" in infos:
            infos["final_obs"] = self._policy.critic_obs(infos["final_obs"]).to(self._device)
        masks = {cause: mask.to(self._device) for cause, mask in result.extras.get("invalid", {}).items()}
        causes = tuple(dict.fromkeys((*masks, *_OWN_CAUSES)))
        if causes not in self._counts:
            self._counts[causes] = torch.zeros(len(causes), device=self._device)
        if self._surely_sound(raw, reward, infos.get("final_obs"), masks):
            infos["valid"] = self._all
            return Outcome(raw, reward, done, infos)
        acted_blind, self._blind = self._blind, self._broken(raw)
        broken = self._find(masks, reward, done, infos)
        self._count(masks, step, acted_on, reward, raw)
        invalid = broken | acted_blind
        self.to_reset = (self.to_reset | broken) & ~done
        self._excluded = self._excluded + invalid.sum()
        infos["valid"] = ~invalid
        return Outcome(self._clean(raw), reward.masked_fill(invalid, 0.0), done | invalid, infos)

    def _surely_sound(
        self, raw: Inputs, reward: Tensor, final_obs: Optional[Tensor], masks: Mapping[str, Tensor]
    ) -> bool:
        """Tell whether nothing is known to be broken, nor was; on a GPU, which would have to be waited for, nobody
        knows."""
        limit = self._cfg.max_observation
        return (
            all(surely_none(mask) for mask in (self._blind, self.to_reset, *masks.values()))
            and surely_within(reward, self._cfg.max_reward)
            and surely_within(raw.actor_obs, limit)
            and (self._one_input or surely_within(raw.critic_obs, limit))
            and (final_obs is None or surely_within(final_obs, limit))
        )

    def _find(self, masks: Dict[str, Tensor], reward: Tensor, done: Tensor, infos: Dict[str, Any]) -> Tensor:
        """Add the own causes to the environment's masks, and return where any holds; put zeros into broken final
        observations."""
        admitted = torch.stack([torch.zeros_like(done), *masks.values()]).any(dim=0)
        found = {"reward": _exceeds(reward.unsqueeze(1), self._cfg.max_reward) & ~admitted, "observation": self._blind}
        found["final_observation"] = torch.zeros_like(done)
        if "final_obs" in infos:
            broken = _exceeds(infos["final_obs"], self._cfg.max_observation)
            found["final_observation"] = broken & done & ~admitted
            infos["final_obs"] = infos["final_obs"].masked_fill(broken.unsqueeze(1), 0.0)
        for cause, mask in found.items():
            masks[cause] = masks[cause] | mask if cause in masks else mask
        return torch.stack(list(masks.values())).any(dim=0)

    def _count(
        self,
        masks: Mapping[str, Tensor],
        step: int,
        acted_on: RolloutStorage.Transition,
        reward: Tensor,
        raw: Inputs,
    ) -> None:
        causes, stacked = tuple(masks), torch.stack(list(masks.values()))
        self._counts[causes] = self._counts[causes] + stacked.sum(dim=1)
        if causes not in self._first:
            self._first[causes] = FirstEvents(causes, self._device)
        rows = {"actor_obs": acted_on.observations, "action": acted_on.actions, "reward": reward}
        self._first[causes].record(
            stacked, step, {**rows, "next_actor_obs": raw.actor_obs, "next_critic_obs": raw.critic_obs}
        )

    def first_event(self, cause: str) -> Optional[Dict[str, Tensor]]:
        """Return what the first environment that broke for a cause had seen, done and become, raw; see FirstEvents."""
        return next(filter(None, (events.read(cause) for events in self._first.values())), None)

    def pop(self) -> Tuple[List[str], Tensor]:
        """Return names, and on the device a number each: steps left out of the rollout, environments that wait for a
        reset, and steps for each cause; start the next rollout."""
        totals = {"excluded_steps": self._excluded, "to_reset": self.to_reset.sum().float()}
        for causes, counts in self._counts.items():  # an environment may name other causes in other steps
            for name, count in zip((f"faults/{cause}" for cause in causes), counts):
                totals[name] = totals[name] + count if name in totals else count
        self._counts, self._excluded = {}, torch.zeros_like(self._excluded)
        return list(totals), torch.stack(list(totals.values()))

    def forget_resets(self) -> None:
        """Take note that the environments in ``to_reset`` have been reset."""
        self.to_reset = torch.zeros_like(self.to_reset)


def _exceeds(x: Tensor, limit: float) -> Tensor:
    """Tell which rows of x [N, D] hold a number larger than a limit, or none, [N] bool."""
    return ~(x.abs().amax(dim=1) <= limit)  # NaN compares as too large
