"""An environment with intentional faults, and the measurements of a training in it.

Only torch is imported here, because it is also used in processes with another rsl_rl.
"""

from __future__ import annotations

import math
from typing import Any, Callable, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, nn

LARGEST = 1e6
"""Limit of values; larger ones, and those that are not finite, count as broken."""


class Fault(NamedTuple):
    """The part that breaks, and its value."""

    part: str  # "observation", "reward", "state", or "" for nothing
    value: float = math.nan
    for_good: bool = False  # one environment, permanently from the first fault on, also after resets


KINDS: Dict[str, Fault] = {
    "none": Fault(""),
    "obs nan": Fault("observation"),
    "obs inf": Fault("observation", math.inf),
    "reward nan": Fault("reward"),
    "reward inf": Fault("reward", math.inf),
    "reward 1e30": Fault("reward", 1e30),
    "physics nan": Fault("state"),
    "broken for good": Fault("observation", for_good=True),
}
"""Faults by name. A broken state shows in observations and rewards, does not count as a failure, and stays until the
environment is reset."""


class FaultyPoint:
    """N points on a line, each moved by up to 0.2 a step and paid one less its distance from the origin; one that
    strays further than 3 has failed.

    Faults strike each environment with probability ``rate`` in every step after the first ``quiet_steps``, in which a
    trainer may try the environment out. They are drawn by a generator of their own. ``wrap`` makes of a dict of groups
    what the trainer takes for observations.
    """

    num_obs, num_privileged_obs, num_actions = 1, None, 1
    max_episode_length = 32
    device = "cpu"

    def __init__(
        self,
        num_envs: int,
        seed: int,
        kind: str = "none",
        rate: float = 0.0,
        quiet_steps: int = 8,
        wrap: Callable[[Dict[str, Tensor]], Any] = dict,
    ):
        self.num_envs, self.cfg = num_envs, {"kind": kind, "rate": rate}
        self._fault, self._rate, self._quiet_steps, self._wrap = KINDS[kind], rate, quiet_steps, wrap
        self._points, self._strikes = (torch.Generator().manual_seed(number) for number in (2 * seed, 2 * seed + 1))
        self._num_steps = 0
        self._dead = torch.zeros(num_envs, dtype=torch.bool)  # broken for good
        self.x = self._seen = torch.zeros(num_envs)  # [N] state, and what is observed of it
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)
        self.num_events = 0
        self.broken: Dict[str, int] = dict.fromkeys(("observation", "reward", "final_observation"), 0)  # handed over
        self.num_unusable = 0  # steps that began or ended with something broken
        self.reset()

    def get_observations(self) -> Any:
        return self._wrap({"policy": self._seen.unsqueeze(1)})

    def reset(self, env_ids: Union[Sequence[int], Tensor, None] = None) -> Any:
        """Start new episodes in the given environments, or in all, and return the observations of all."""
        mask = torch.zeros(self.num_envs, dtype=torch.bool)
        mask[slice(None) if env_ids is None else torch.as_tensor(env_ids)] = True
        self._start(mask)
        self._seen = torch.where(mask, self._observed(self.x, self._dead), self._seen)
        return self.get_observations()

    def step(self, actions: Tensor) -> Tuple[Any, Tensor, Tensor, Dict[str, Any]]:
        """Return observations, rewards [N], dones [N] bool, and extras with time_outs and final_obs."""
        acted_on, struck = self._seen, self._strike()
        self.x = self.x + 0.2 * actions[:, 0].clamp(-1.0, 1.0)
        if self._fault.part == "state":
            self.x = self.x.masked_fill(struck, self._fault.value)
        reward = 1.0 - self.x.abs()
        if self._fault.part == "reward":
            reward = reward.masked_fill(struck, self._fault.value)
        self.episode_length_buf = self.episode_length_buf + 1
        failed = self.x.abs() > 3.0
        time_outs = (self.episode_length_buf >= self.max_episode_length) & ~failed
        done = failed | time_outs
        last = self._observed(self.x, self._dead)
        self._start(done)
        self._seen = self._observed(self.x, struck)
        self._count(acted_on, reward, done, last)
        extras = {"time_outs": time_outs, "final_obs": self._wrap({"policy": last.unsqueeze(1)})}
        return self.get_observations(), reward, done, extras

    def _strike(self) -> Tensor:
        """Draw where a fault is [N] bool, and count those that are new."""
        self._num_steps += 1
        struck = torch.rand(self.num_envs, generator=self._strikes) < self._rate
        if self._num_steps <= self._quiet_steps or not self._fault.part:
            return torch.zeros_like(struck)
        if self._fault.for_good:
            struck = torch.arange(self.num_envs) == 0
        new = struck & ~self._dead & self.x.isfinite()
        self.num_events += int(new.sum())
        if self._fault.for_good:
            self._dead = struck
        return struck

    def _observed(self, x: Tensor, struck: Tensor) -> Tensor:
        return x.masked_fill(struck, self._fault.value) if self._fault.part == "observation" else x

    def _start(self, mask: Tensor) -> None:
        drawn = 4.0 * torch.rand(self.num_envs, generator=self._points) - 2.0
        self.x = torch.where(mask, drawn, self.x)
        self.episode_length_buf = self.episode_length_buf.masked_fill(mask, 0)

    def _count(self, acted_on: Tensor, reward: Tensor, done: Tensor, last: Tensor) -> None:
        """Count what is broken among the things that a step hands over."""
        found = {
            "observation": _is_broken(self._seen),
            "reward": _is_broken(reward),
            "final_observation": _is_broken(last) & done,
        }
        for name, mask in found.items():
            self.broken[name] += int(mask.sum())
        self.num_unusable += int(torch.stack((_is_broken(acted_on), *found.values())).any(dim=0).sum())


def _is_broken(x: Tensor) -> Tensor:
    return ~(x.abs() <= LARGEST)  # NaN compares as too large


@torch.no_grad()
def mean_reward(policy: Callable[[Any], Tensor], wrap: Callable[[Dict[str, Tensor]], Any] = dict) -> float:
    """Return what a policy earns per step of the first episodes in an environment without faults, the same for all."""
    env = FaultyPoint(512, seed=1_000_000, wrap=wrap)
    rewards = [env.step(policy(env.get_observations()))[1].mean() for _ in range(env.max_episode_length)]
    return float(torch.stack(rewards).mean())


def watch(alg: Any, networks: Sequence[nn.Module], learn: Callable[[], None]) -> Dict[str, Any]:
    """Run ``learn`` and look at the networks' weights and statistics after each ``alg.update``, and at the end.

    Returns "iterations", how many updates were finished; "not_finite", the first iteration after which a number was not
    finite, or None; and "error", the exception that ended it, or None.
    """
    update, iterations, not_finite = alg.update, 0, None

    def look(iteration: int) -> None:
        nonlocal not_finite
        numbers = [x for network in networks for x in network.state_dict().values()]
        if not_finite is None and not all(bool(x.isfinite().all()) for x in numbers):
            not_finite = iteration

    def watched_update() -> Mapping[str, Any]:
        nonlocal iterations
        result = update()
        iterations += 1
        look(iterations)
        return result

    alg.update = watched_update
    error: Optional[str] = None
    try:
        learn()
    except Exception as end:
        error = f"{type(end).__name__}: {' '.join(str(end).split())}"
        look(iterations + 1)
    return {"iterations": iterations, "not_finite": not_finite, "error": error}
