"""Find environments that give NaN or too large values, and mask their transitions."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from rsl_rl.config.learn import SafetyConfig
from rsl_rl.env.contract import ContractError, four_of, require_column, require_mask
from rsl_rl.env.vec_env import Observations, StepResult
from rsl_rl.utils.config_io import short_repr
from rsl_rl.utils.tensors import FirstOccurrence, describe_unusable

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
        self._broken_obs = self._none
        if self.is_sound_on_cpu(raw.items(), ()):
            return raw
        self._broken_obs = self._find_broken(raw)
        return _clean(raw, self._broken_obs)

    def validate_step(
        self, result: StepResult, acted_on: Mapping[str, Tensor], actions: Tensor, step: int
    ) -> ValidatedStep:
        """Return a step with broken environments masked.

        ``acted_on`` are the groups and ``actions`` [N, A] the actions before the step; ``step`` is its number in the
        rollout. They are recorded for fault reports.
        """
        size = self._all.shape
        obs, reward, done, given = result if isinstance(result, tuple) and len(result) == 4 else four_of(result)
        if not isinstance(given, Mapping):
            raise ContractError(f"extras is a {type(given).__name__} in this step; return a fresh dict every step")
        for name, x in (("reward", reward), ("done", done), ("extras['time_outs']", given.get("time_outs", done))):
            if not _is_plain(x) or x.shape not in (size, (*size, 1)):
                require_column(x, name, len(self._all))
        reward, done = reward.reshape(size).to(self._device, torch.float32), done.reshape(size).to(self._device).bool()
        raw = self._read(obs)
        extras: Dict[str, Any] = {}
        if "time_outs" in given:
            extras["time_outs"] = given["time_outs"]
        if "final_obs" in given:
            extras["final_obs"] = self._read(given["final_obs"], of_finals=True)
        masks: Dict[str, Tensor] = {}
        for cause, mask in _causes(given["invalid"]).items() if "invalid" in given else ():
            require_mask(mask, f"extras['invalid'][{cause!r}]", len(self._all))
            masks[cause] = mask.to(self._device)
        no_transition = self._none
        if "no_transition" in given:
            require_mask(given["no_transition"], "extras['no_transition']", len(self._all))
            no_transition = given["no_transition"].to(self._device)
        causes = tuple(dict.fromkeys((*masks, *OWN_CAUSES)))
        if causes not in self._counts:
            self._counts[causes] = torch.zeros(len(causes), device=self._device)
        numbers = (("", reward), *raw.items(), *extras.get("final_obs", {}).items())
        if self.is_sound_on_cpu(numbers, (self._broken_obs, self.to_reset, *masks.values())):
            if no_transition is self._none:
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

    def _read(self, obs: Observations, of_finals: bool = False) -> PolicyInputs:
        """Return the groups that are read. They must have the same shapes in every step and, unless they are
        ``of_finals``, all be there."""
        groups: PolicyInputs = {}
        where = "extras['final_obs']" if of_finals else "the observations"
        if not hasattr(obs, "keys"):
            raise ContractError(
                f"{where}: a {type(obs).__name__} in this step; give a dict of groups, such as {{'policy': obs}}, in "
                "every step"
            )
        for name in self._groups:
            if name not in obs.keys():  # noqa: SIM118  # a TensorDict has no other test
                if of_finals:
                    continue
                raise ContractError(
                    f"{where} have no group '{name}' in this step, but {', '.join(obs.keys()) or 'none'}; give every "
                    "group in every step"
                )
            if not _is_plain(obs[name]):
                raise ContractError(f"the group '{name}' of {where} {describe_unusable(obs[name])} in every step")
            expected = self._shapes.setdefault(name, obs[name].shape)
            if obs[name].shape != expected:
                raise ContractError(
                    f"the group '{name}' of {where} has the shape {list(obs[name].shape)} in this step; give "
                    f"{list(expected)} as in the first one"
                )
            groups[name] = obs[name].to(self._device)
        return groups

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

    def is_sound_on_cpu(self, numbers: Iterable[Tuple[str, Tensor]], masks: Iterable[Tensor]) -> bool:
        """Return whether observations and rewards, by group or "" for rewards, are within their limits, and masks [N]
        false everywhere; False on a GPU, where the answer would need a host-device synchronisation."""
        if self._device.type != "cpu":
            return False
        for mask in masks:
            if not torch.equal(mask, self._none):
                return False
        for name, x in numbers:
            if x.is_floating_point():
                limit = self._cfg.max_observation if name else self._cfg.max_reward
                extremes, most = torch.stack(x.aminmax()), min(limit, torch.finfo(x.dtype).max)
                if not torch.equal(extremes, extremes.clamp(-most, most)):  # NaN equals nothing
                    return False
            if name in self._bounds and not torch.equal(x.float(), x.float().clamp(*self._bounds[name])):
                return False
        return True

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
        """Return names and, on the device, their values: number of masked steps, and of steps for each cause; start the
        next rollout."""
        totals = {"excluded_steps": self._excluded}
        for causes, counts in self._counts.items():  # an environment may name other causes in other steps
            for name, count in zip((f"faults/{cause}" for cause in causes), counts):
                totals[name] = totals[name] + count if name in totals else count
        self._counts, self._excluded = {}, torch.zeros_like(self._excluded)
        return list(totals), torch.stack(list(totals.values()))

    def clear_resets(self) -> None:
        """Clear ``to_reset``, after these environments have been reset."""
        self.to_reset = torch.zeros_like(self.to_reset)


def _is_plain(x: Any) -> bool:
    """Return whether x is a dense tensor of real numbers; :func:`describe_unusable` says what others are."""
    is_dense = isinstance(x, Tensor) and x.layout == torch.strided and not (x.is_nested or x.is_meta)
    return is_dense and not (x.is_complex() or x.is_quantized)


def _causes(invalid: Any) -> Mapping[str, Any]:
    """Return the masks of the causes of faults if they are a dict from texts."""
    if not isinstance(invalid, Mapping) or not all(isinstance(cause, str) for cause in invalid):
        raise ContractError(
            f"extras['invalid']={short_repr(invalid)} in this step; give a dict from causes, as texts, to [N] bool"
        )
    return invalid


def _clean(groups: PolicyInputs, broken: Tensor) -> PolicyInputs:
    """Return groups with zeros in the rows of broken environments."""
    return {name: group.masked_fill(broken.view(-1, *(1,) * (group.dim() - 1)), 0) for name, group in groups.items()}


def _exceeds(x: Tensor, limit: float) -> Tensor:
    """Return which rows of x [N, ...] hold a number larger than a limit, or NaN, [N] bool."""
    return ~(x.abs().flatten(1).amax(dim=1) <= limit)  # NaN compares as too large
