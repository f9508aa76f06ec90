"""The Adder of nerveX and DI-engine: compute training data from the transitions of an episode, as lists of dicts.

The computations are those of :mod:`rsl_rl.storage.returns` and :mod:`rsl_rl.storage.mini_batches`.
"""

from __future__ import annotations

import copy
from typing import Any, Deque, Dict, List, NamedTuple, Optional, Sequence, Tuple, TypeVar, Union

import torch
from torch import Tensor

from rsl_rl.storage import returns
from rsl_rl.storage.mini_batches import plan_chunks

Step = Dict[str, Any]
"""One transition: tensors by name, such as obs, reward [1] and value [1], and done."""
T = TypeVar("T")


class gae_data(NamedTuple):  # noqa: N801 - the name that users know
    """What advantages are computed from."""

    value: Tensor  # [T + 1, ...]; the last one follows the last step
    reward: Tensor  # [T, ...]


def gae(data: gae_data, gamma: float = 0.99, lambda_: float = 0.97) -> Tensor:
    """Return the generalised advantage estimates [T, ...] of the steps of one episode; see ``storage.returns.gae``."""
    dones = torch.zeros_like(data.reward, dtype=torch.bool)
    return returns.gae(data.reward, data.value[:-1], data.value[-1], dones, gamma, lambda_)


class Adder:
    """Take trajectories from a collector's cache, and compute advantages, n-step returns and chunks.

    ``unroll_len`` is the length of a training chunk. ``last_fn_type`` selects what happens to remaining steps: 'last'
    fills the chunk with steps of the chunk before, 'drop' drops them, 'null_padding' appends ``null_transition`` or, if
    it is not given, a copy of their first step with reward 0 and done. With ``use_cuda`` advantages are computed on the
    GPU and returned on the CPU.

    Advantages ignore "done" within the data. N-step returns end at a done, unlike those of nerveX.
    """

    def __init__(
        self,
        use_cuda: bool,
        unroll_len: int,
        last_fn_type: str = "last",
        null_transition: Optional[Step] = None,
    ):
        if use_cuda and not torch.cuda.is_available():
            raise ValueError("use_cuda=True, and there is no CUDA device here; use use_cuda=False")
        plan_chunks(1, unroll_len, last_fn_type)  # checks the arguments
        self._use_cuda = use_cuda
        self._unroll_len = unroll_len
        self._last_fn_type = last_fn_type
        self._null_transition = null_transition

    def _get_null_transition(self, template: Step) -> Step:
        return copy.deepcopy(template if self._null_transition is None else self._null_transition)

    def get_traj(self, data: Deque[Step], traj_len: Union[int, float], return_num: int = 0) -> List[Step]:
        """Remove the first ``traj_len`` steps from ``data`` (all of them for inf) and return them.

        If steps remain, copies of the last ``return_num`` removed steps are put back at the front, so that the next
        trajectory starts with them.
        """
        taken = [data.popleft() for _ in range(int(min(traj_len, len(data))))]
        if return_num > 0 and data:
            repeated = taken[-return_num:][-len(data) :]
            data.extendleft(copy.deepcopy(step) for step in reversed(repeated))
        return taken

    def get_gae(self, data: List[Step], last_value: Tensor, gamma: float, gae_lambda: float) -> List[Step]:
        """Add the advantage "adv" to each step, from its "value" and "reward"; ``last_value`` follows the last step.

        The steps are treated as one episode.
        """
        if not data:
            raise ValueError("there are no transitions to compute advantages of; collect at least one")
        device = torch.device("cuda" if self._use_cuda else "cpu")
        rewards = torch.stack([step["reward"] for step in data]).to(device)
        values = torch.stack([*(step["value"] for step in data), last_value]).to(device)
        if values[:-1].numel() != rewards.numel():
            raise ValueError(
                f"a reward has the shape {list(rewards.shape[1:])} and a value {list(values.shape[1:])}; give both the "
                "same shape"
            )
        advantages = gae(gae_data(values.view(-1, *rewards.shape[1:]), rewards), gamma, gae_lambda).cpu()
        for step, advantage in zip(data, advantages):
            step["adv"] = advantage.clone()  # so that a copy of a step does not copy all advantages
        return data

    def get_gae_with_default_last_value(
        self, data: List[Step], done: bool, gamma: float, gae_lambda: float
    ) -> List[Step]:
        """Call :meth:`get_gae` with the last value 0 if the episode is done, otherwise with the value of the last step,
        which is then not in the returned list."""
        if not data:
            raise ValueError("there are no transitions to compute advantages of; collect at least one")
        last_value = data[-1]["value"]
        if done:
            return self.get_gae(data, torch.zeros_like(last_value), gamma, gae_lambda)
        return self.get_gae(data[:-1], last_value, gamma, gae_lambda)

    def get_nstep_return_data(
        self, data: Sequence[Step], nstep: int, traj_len: Union[int, float] = float("inf")
    ) -> Sequence[Step]:
        """Compute n-step data: "reward" becomes the rewards [nstep] of the next ``nstep`` steps, and "done" and, if it
        exists, "next_obs" become those of the last of these steps.

        Rewards after the end of the data, or after a done, are 0; ``traj_len`` has no effect.
        """
        if nstep < 1:
            raise ValueError(f"nstep={nstep}: give a whole number of at least 1")
        if nstep == 1 or not data:
            return data
        rewards = torch.stack([step["reward"].reshape(()) for step in data])
        dones = torch.tensor([bool(step["done"]) for step in data])
        windows = n_step_rewards(rewards, dones, nstep)
        ends = [data[int(end)] for end in windows.ends]
        next_steps = [data[int(end) + 1] if int(end) + 1 < len(data) else None for end in windows.ends]
        next_obs_at_end = [
            end.get("next_obs") if next_step is None or end["done"] else next_step["obs"]
            for end, next_step in zip(ends, next_steps)
        ]
        done_at_end = [end["done"] for end in ends]
        for step, window, done, next_obs in zip(data, windows.rewards, done_at_end, next_obs_at_end):
            step["reward"], step["done"] = window.clone(), done
            if "next_obs" in step:
                step["next_obs"] = copy.deepcopy(next_obs)
        return data

    def get_train_sample(self, data: List[Step]) -> List[Step]:
        """Split the steps into chunks of ``unroll_len``, each a dict of lists; a length of 1 changes nothing."""
        if self._unroll_len == 1 or not data:
            return data
        plan = plan_chunks(len(data), self._unroll_len, self._last_fn_type)
        used, chunks = set(), []
        for steps, real in zip(plan.steps.t().tolist(), plan.real.t().tolist()):
            chunk = []
            for index, is_real in zip(steps, real):
                if is_real:
                    chunk.append(copy.deepcopy(data[index]) if index in used else data[index])
                else:
                    template = {**data[index], "done": True, "reward": torch.zeros_like(data[index]["reward"])}
                    chunk.append(self._get_null_transition(template))
            used.update(steps)
            chunks.append(lists_to_dicts(chunk, recursive=True))
        return chunks


def lists_to_dicts(data: Sequence[Step], recursive: bool = False) -> Step:
    """Convert a list of dicts with the same keys to a dict of lists; with ``recursive`` dicts in them too."""
    if not data:
        raise ValueError("there are no dicts in the list; give at least one")
    for step in data:
        if set(step) != set(data[0]):
            raise ValueError(
                f"transitions have the keys {', '.join(sorted(data[0]))}, and one has {', '.join(sorted(step))}; give "
                "all of them, and null_transition, the same keys"
            )
    columns = {name: [step[name] for step in data] for name in data[0]}
    if not recursive:
        return columns
    return {
        name: lists_to_dicts(column, recursive=True) if isinstance(column[0], dict) else column
        for name, column in columns.items()
    }


def list_split(data: Sequence[T], step: int) -> Tuple[List[List[T]], Optional[List[T]]]:
    """Split a list into lists of ``step`` entries; return them, and the entries that remain or None."""
    if step < 1:
        raise ValueError(f"step={step}: give a whole number of at least 1")
    entries = list(data)
    parts = [entries[i : i + step] for i in range(0, len(entries), step)]
    residual = parts.pop() if len(entries) % step else None
    return parts, residual


def n_step_returns(rewards: Tensor, values: Tensor, last_values: Tensor, dones: Tensor, gamma: float, n: int) -> Tensor:
    """Return the discounted n-step returns [T, N, ...] of each step (Sutton and Barto 2018, eq. 7.1).

    The shapes are those of :func:`gae`. The return of a step is the discounted sum of the rewards of this step and the
    n - 1 after it, and the discounted value of the observation after these. It ends without a value at a step that is
    done; at the end of the rollout it has fewer rewards, and the value ``last_values``. For time-outs, call
    ``bootstrap_timeouts`` before. n < 1 is a ValueError.
    """
    if n < 1:
        raise ValueError(f"n={n}: give a whole number of at least 1")
    windows = n_step_rewards(rewards, dones, n)
    powers = gamma ** torch.arange(n + 1, dtype=rewards.dtype, device=rewards.device)
    num_rewards = windows.ends - _first_steps(rewards) + 1
    next_values = torch.cat((values[1:], last_values.unsqueeze(0))).gather(0, windows.ends)
    not_done = dones.gather(0, windows.ends).logical_not()
    return (windows.rewards * powers[:-1]).sum(dim=-1) + not_done * powers[num_rewards] * next_values


class NStep(NamedTuple):
    """Windows of n steps, one for each step as the first."""

    rewards: Tensor  # [T, ..., n]; 0 after the end of the data or of the episode
    ends: Tensor  # [T, ...] index of the last step of the window


def n_step_rewards(rewards: Tensor, dones: Tensor, n: int) -> NStep:
    """Return the rewards of the n steps that start at each step of rewards and dones [T, ...], within its episode."""
    num_steps = len(rewards)
    ahead = torch.arange(num_steps, device=rewards.device).unsqueeze(1) + torch.arange(n, device=rewards.device)
    inside = ahead < num_steps  # [T, n]
    windows, ended = (x[ahead.clamp(max=num_steps - 1)].movedim(1, -1) for x in (rewards, dones.bool()))
    inside = inside.view(num_steps, *(1,) * (rewards.dim() - 1), n).expand_as(windows)
    done_before = torch.zeros_like(inside)
    done_before[..., 1:] = ended[..., :-1].cumsum(dim=-1) > 0
    valid = inside & ~done_before
    return NStep(torch.where(valid, windows, torch.zeros_like(windows)), _first_steps(rewards) + valid.sum(dim=-1) - 1)


def _first_steps(x: Tensor) -> Tensor:
    """Return the index of each step of x [T, ...] as [T, 1, ...]."""
    return torch.arange(len(x), device=x.device).view(-1, *(1,) * (x.dim() - 1))
