"""Find environments that give NaN or too large values, and mask their transitions."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from rsl_rl.config.learn import SafetyConfig
from rsl_rl.env.vec_env import Observations, StepResult
from rsl_rl.utils.cpu_checks import all_between_on_cpu, all_within_on_cpu, none_on_cpu
from rsl_rl.utils.first_occurrence import FirstOccurrence

PolicyInputs = Dict[str, Tensor]
"""Observation groups on the learner's device, with zeros in the rows of broken environments."""

Bounds = Tuple[Tensor, Tensor]
"""Lowest and highest values of an observation group, each [D]."""

OWN_CAUSES = ("reward", "observation", "final_observation")
"""Causes of faults that the validator finds; an environment may name more."""


class ValidatedStep(NamedTuple):
    """A step of the environments for the learner."""

    obs: PolicyInputs  # to act on next
    reward: Tensor  # [N]; 0 where not valid
    done: Tensor  # [N] bool; true where not valid
    extras: Dict[str, Any]  # time_outs and final_obs as in StepResult, and valid [N] bool


class StepValidator:
    """Find environments whose observation or reward is not finite or larger than ``cfg`` allows, or which report faults
    themselves, and mask their transitions.

    A masked transition ends an episode for the learner; so does the next one where its observation was broken.
    ``groups`` are the observation groups that are read. Nothing here synchronises with the device. ``to_reset`` [N]
    marks every environment that broke and did not reset itself.
    """

    def __init__(self, groups: Sequence[str], cfg: SafetyConfig, num_envs: int, device: torch.device):
        self._groups, self._cfg, self._device = tuple(groups), cfg, device
        self._broken_obs = torch.zeros(num_envs, dtype=torch.bool, device=device)  # the observation to act on is broken
        self._all, self._none = ~self._broken_obs, self._broken_obs
        self.to_reset = torch.zeros_like(self._broken_obs)
        self._bounds: Mapping[str, Bounds] = {}
        self._shapes: Dict[str, torch.Size] = {}  # of the groups in the first step
        self._excluded = torch.zeros((), device=device)
        self._counts: Dict[Tuple[str, ...], Tensor] = {}  # causes -> [len(causes)] steps in this rollout
        self._first: Dict[Tuple[str, ...], FirstOccurrence] = {}

    def validate_obs(self, obs: Observations, bounds: Mapping[str, Bounds] = MappingProxyType({})) -> PolicyInputs:
        """Return the first observation of a rollout with broken environments masked.

        ``bounds`` are those of groups [N, D] in the rollout. An environment with values outside them is broken, unless
        half of the environments have such values: then the task has changed.
        """
        self._bounds = bounds
        raw = self._read(obs)
        self._broken_obs = self._find_broken(raw)
        return _clean(raw, self._broken_obs)

    def validate_step(
        self, result: StepResult, acted_on: Mapping[str, Tensor], actions: Tensor, step: int
    ) -> ValidatedStep:
        """Return a step with broken environments masked.

        ``acted_on`` are the groups and ``actions`` [N, A] the actions before the step; ``step`` is its number in the
        rollout. They are recorded for fault reports.
        """
        self._check_rows(result)
        reward, done = result.reward.to(self._device), result.done.to(self._device)
        raw = self._read(result.obs)
        extras = {name: result.extras[name] for name in ("time_outs",) if name in result.extras}
        if "final_obs" in result.extras:
            extras["final_obs"] = self._read_final(result.extras["final_obs"], raw)
        masks = {cause: mask.to(self._device) for cause, mask in result.extras.get("invalid", {}).items()}
        no_transition = self._no_transition(result.extras)
        causes = tuple(dict.fromkeys((*masks, *OWN_CAUSES)))
        if causes not in self._counts:
            self._counts[causes] = torch.zeros(len(causes), device=self._device)
        if self._nothing_broken_on_cpu(raw, reward, extras.get("final_obs", {}), masks):
            if none_on_cpu(no_transition):
                extras["valid"] = self._all
                return ValidatedStep(raw, reward, done, extras)
            extras["valid"] = ~no_transition
            return ValidatedStep(raw, reward.masked_fill(no_transition, 0.0), done | no_transition, extras)
        acted_on_broken, self._broken_obs = self._broken_obs, self._find_broken(raw)
        broken = self._find(masks, reward, done, extras)
        rows = {f"obs/{name}": group for name, group in acted_on.items()}
        rows.update(action=actions, reward=reward, **{f"next_obs/{name}": group for name, group in raw.items()})
        self._count(masks, step, rows)
        invalid = broken | acted_on_broken
        self.to_reset = (self.to_reset | broken) & ~done
        self._excluded = self._excluded + invalid.sum()
        invalid = invalid | no_transition
        extras["valid"] = ~invalid
        return ValidatedStep(_clean(raw, self._broken_obs), reward.masked_fill(invalid, 0.0), done | invalid, extras)

    def _no_transition(self, extras: Mapping[str, Any]) -> Tensor:
        """Return which environments only started an episode, [N] bool."""
        mask = extras.get("no_transition")
        return self._none if mask is None else mask.to(self._device)

    def _check_rows(self, result: StepResult) -> None:
        """Raise a ValueError if a part of a step has another number of environments."""
        expected, extras = self._all.shape, result.extras
        parts = {"reward": result.reward, "done": result.done}
        parts.update({f"extras['{name}']": extras[name] for name in ("time_outs",) if name in extras})
        parts.update({f"extras['invalid']['{cause}']": mask for cause, mask in extras.get("invalid", {}).items()})
        for name, x in parts.items():
            if x.shape != expected and x.shape != (*expected, 1):
                raise ValueError(
                    f"{name} has the shape {list(x.shape)} in this step; give {list(expected)} in every step"
                )

    def _read(self, obs: Observations) -> PolicyInputs:
        """Return the groups that are read; they must be the same in every step, and of the same shapes."""
        for name in self._groups:
            if name not in obs.keys():  # noqa: SIM118  # a TensorDict has no other test
                raise ValueError(
                    f"the observations have no group '{name}' in this step, but {', '.join(obs.keys()) or 'none'}; "
                    "give every group in every step"
                )
            expected = self._shapes.setdefault(name, obs[name].shape)
            if obs[name].shape != expected:
                raise ValueError(
                    f"the observation group '{name}' has the shape {list(obs[name].shape)} in this step; give "
                    f"{list(expected)} as in the first one"
                )
        return {name: obs[name].to(self._device) for name in self._groups}

    def _read_final(self, final: Any, obs: PolicyInputs) -> PolicyInputs:
        """Return the groups of final observations; a tensor is the critic's only group."""
        groups = {"critic" if "critic" in obs else "policy": final} if isinstance(final, Tensor) else final
        read = {name: groups[name].to(self._device) for name in self._groups if name in groups.keys()}  # noqa: SIM118
        for name, group in read.items():
            if group.shape != obs[name].shape:
                raise ValueError(
                    f"extras['final_obs']['{name}'] has the shape {list(group.shape)}; give {list(obs[name].shape)}"
                )
        return read

    def _find_broken(self, groups: PolicyInputs) -> Tensor:
        """Return the environments with broken observations, [N] bool."""
        broken = torch.zeros_like(self._all)
        for name, group in groups.items():
            if group.is_floating_point():
                broken = broken | _exceeds(group, self._cfg.max_observation)
            if name in self._bounds:
                low, high = self._bounds[name]
                outside = ~((group >= low) & (group <= high)).all(dim=1)
                broken = broken | (outside & (outside.float().mean() < 0.5))
        return broken

    def _nothing_broken_on_cpu(
        self, raw: PolicyInputs, reward: Tensor, final_obs: PolicyInputs, masks: Mapping[str, Tensor]
    ) -> bool:
        """Return whether the tensors are on a CPU and nothing is broken now or before; False on a GPU."""
        floating = [group for group in (*raw.values(), *final_obs.values()) if group.is_floating_point()]
        return (
            all(none_on_cpu(mask) for mask in (self._broken_obs, self.to_reset, *masks.values()))
            and all_within_on_cpu(reward, self._cfg.max_reward)
            and all(all_within_on_cpu(group, self._cfg.max_observation) for group in floating)
            and all(
                all_between_on_cpu(groups[name], *self._bounds[name])
                for groups in (raw, final_obs)
                for name in self._bounds
                if name in groups
            )
        )

    def _find(self, masks: Dict[str, Tensor], reward: Tensor, done: Tensor, extras: Dict[str, Any]) -> Tensor:
        """Add the masks of OWN_CAUSES to those of the environment, and return their union; zero broken final
        observations."""
        reported = torch.stack([torch.zeros_like(done), *masks.values()]).any(dim=0)
        found = {
            "reward": _exceeds(reward.unsqueeze(1), self._cfg.max_reward) & ~reported,
            "observation": self._broken_obs,
            "final_observation": torch.zeros_like(done),
        }
        if "final_obs" in extras:
            broken = self._find_broken(extras["final_obs"])
            found["final_observation"] = broken & done & ~reported
            extras["final_obs"] = _clean(extras["final_obs"], broken)
        for cause, mask in found.items():
            masks[cause] = masks[cause] | mask if cause in masks else mask
        return torch.stack(list(masks.values())).any(dim=0)

    def _count(self, masks: Mapping[str, Tensor], step: int, rows: Mapping[str, Tensor]) -> None:
        causes, stacked = tuple(masks), torch.stack(list(masks.values()))
        self._counts[causes] = self._counts[causes] + stacked.sum(dim=1)
        if causes not in self._first:
            self._first[causes] = FirstOccurrence(causes, self._device)
        self._first[causes].record(stacked, step, rows)

    def first_event(self, cause: str) -> Optional[Dict[str, Tensor]]:
        """Return observation, action, reward and next observation of the first environment that broke for a cause,
        unmasked; see FirstOccurrence."""
        return next(filter(None, (events.read(cause) for events in self._first.values())), None)

    def pop(self) -> Tuple[List[str], Tensor]:
        """Return names and, on the device, their values: number of masked steps, of environments to reset, and of steps
        for each cause; start the next rollout."""
        totals = {"excluded_steps": self._excluded, "to_reset": self.to_reset.sum().float()}
        for causes, counts in self._counts.items():  # an environment may name other causes in other steps
            for name, count in zip((f"faults/{cause}" for cause in causes), counts):
                totals[name] = totals[name] + count if name in totals else count
        self._counts, self._excluded = {}, torch.zeros_like(self._excluded)
        return list(totals), torch.stack(list(totals.values()))

    def clear_resets(self) -> None:
        """Clear ``to_reset``, after these environments have been reset."""
        self.to_reset = torch.zeros_like(self.to_reset)


def _clean(groups: PolicyInputs, broken: Tensor) -> PolicyInputs:
    """Return groups with zeros in the rows of broken environments."""
    return {name: group.masked_fill(broken.view(-1, *(1,) * (group.dim() - 1)), 0) for name, group in groups.items()}


def _exceeds(x: Tensor, limit: float) -> Tensor:
    """Return which rows of x [N, ...] hold a number larger than a limit, or NaN, [N] bool."""
    return ~(x.abs().flatten(1).amax(dim=1) <= limit)  # NaN compares as too large
