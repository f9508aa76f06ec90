"""Transitions of one episode, as lists of dicts, made into what learners train on: the Adder of nerveX and DI-engine.

It does to lists what :mod:`rsl_rl.storage.returns` and :mod:`rsl_rl.storage.chunking` do to whole rollouts, by calling
them.
"""

from __future__ import annotations

import copy
from typing import Any, Deque, Dict, List, Optional, Sequence, Union

import torch
from torch import Tensor

from rsl_rl.storage.chunking import plan_chunks
from rsl_rl.storage.returns import gae, n_step_rewards

Step = Dict[str, Any]
"""One transition: tensors by name, such as obs, reward [1] and value [1], and done."""


class Adder:
    """Cut trajectories out of a collector's cache and add advantages, n-step returns and chunks to them.

    ``unroll_len`` is the length of a training chunk; ``last_fn_type`` says what becomes of the steps that it leaves
    over: 'last' takes steps of the chunk before to fill up, 'drop' leaves them out, 'null_padding' puts
    ``null_transition`` behind them, or, where none is given, their first step with reward 0 and done. With ``use_cuda``
    advantages are computed on the GPU; they come back on the CPU.

    Advantages are of steps that follow each other, whatever their "done" says; n-step returns, unlike nerveX's, do not
    look beyond a done in the middle of the data.
    """

    def __init__(
        self,
        use_cuda: bool,
        unroll_len: int,
        last_fn_type: str = "last",
        null_transition: Optional[Step] = None,
    ):
        if use_cuda and not torch.cuda.is_available():
            raise ValueError("use_cuda=True, and there is no CUDA device here; take use_cuda=False")
        plan_chunks(1, unroll_len, last_fn_type)  # refuses what cannot work
        self._device = torch.device("cuda" if use_cuda else "cpu")
        self._unroll_len = unroll_len
        self._last_fn_type = last_fn_type
        self._null_transition = null_transition

    def _get_null_transition(self, template: Step) -> Step:
        return copy.deepcopy(template if self._null_transition is None else self._null_transition)

    def get_traj(self, data: Deque[Step], traj_len: Union[int, float], return_num: int = 0) -> List[Step]:
        """Take the first ``traj_len`` steps out of ``data`` (all of them for inf).

        Where steps remain behind them, copies of the last ``return_num`` steps taken go back to the front, so that the
        next trajectory begins with them.
        """
        taken = [data.popleft() for _ in range(int(min(traj_len, len(data))))]
        if return_num > 0 and data:
            again = taken[-return_num:][-len(data) :]
            data.extendleft(copy.deepcopy(step) for step in reversed(again))
        return taken

    def get_gae(self, data: List[Step], last_value: Tensor, gamma: float, gae_lambda: float) -> List[Step]:
        """Add to each step its advantage, "adv", from its "value" and "reward"; ``last_value`` follows the last step.

        The steps are taken as one episode that goes on between them.
        """
        if not data:
            raise ValueError("there are no transitions to estimate advantages of; collect at least one")
        rewards = torch.stack([step["reward"] for step in data]).to(self._device)
        values = torch.stack([*(step["value"] for step in data), last_value]).to(self._device)
        if values[:-1].numel() != rewards.numel():
            raise ValueError(
                f"a reward has the shape {list(rewards.shape[1:])} and a value {list(values.shape[1:])}; give both one"
            )
        values = values.view(-1, *rewards.shape[1:])
        goes_on = torch.zeros_like(rewards, dtype=torch.bool)
        advantages = gae(rewards, values[:-1], values[-1], goes_on, gamma, gae_lambda).cpu()
        for step, advantage in zip(data, advantages):
            step["adv"] = advantage.clone()  # of its own, so that copies of a step are no copies of all
        return data

    def get_gae_with_default_last_value(
        self, data: List[Step], done: bool, gamma: float, gae_lambda: float
    ) -> List[Step]:
        """Do as :meth:`get_gae` without being told the last value: 0 where the episode is done, else that of the last
        step, which is then left out of the list returned."""
        if not data:
            raise ValueError("there are no transitions to estimate advantages of; collect at least one")
        last_value = data[-1]["value"]
        if done:
            return self.get_gae(data, torch.zeros_like(last_value), gamma, gae_lambda)
        return self.get_gae(data[:-1], last_value, gamma, gae_lambda)

    def get_nstep_return_data(
        self, data: Sequence[Step], nstep: int, traj_len: Union[int, float] = float("inf")
    ) -> Sequence[Step]:
        """Let each step look ``nstep`` steps ahead: its "reward" becomes those of the steps [nstep], "done" and, where
        there is one, "next_obs" those at the end of them.

        Rewards beyond the end of the data, or of an episode within it, are 0, whatever ``traj_len`` the data were cut
        to.
        """
        if nstep < 1:
            raise ValueError(f"nstep={nstep}: give a whole number of at least 1")
        if nstep == 1 or not data:
            return data
        rewards = torch.stack([step["reward"].reshape(()) for step in data])
        dones = torch.tensor([bool(step["done"]) for step in data])
        looks = n_step_rewards(rewards, dones, nstep)
        ends = [data[int(end)] for end in looks.ends]
        followers = [data[int(end) + 1] if int(end) + 1 < len(data) else None for end in looks.ends]
        seen = [
            end.get("next_obs") if follower is None or end["done"] else follower["obs"]
            for end, follower in zip(ends, followers)
        ]
        done_at_end = [end["done"] for end in ends]
        for step, window, done, next_obs in zip(data, looks.rewards, done_at_end, seen):
            step["reward"], step["done"] = window.clone(), done
            if "next_obs" in step:
                step["next_obs"] = copy.deepcopy(next_obs)
        return data

    def get_train_sample(self, data: List[Step]) -> List[Step]:
        """Cut the steps into chunks of ``unroll_len``, each a dict of lists; with a length of 1 return them as they
        are."""
        if self._unroll_len == 1 or not data:
            return data
        plan = plan_chunks(len(data), self._unroll_len, self._last_fn_type)
        seen, chunks = set(), []
        for steps, real in zip(plan.steps.t().tolist(), plan.real.t().tolist()):
            chunk = []
            for index, is_real in zip(steps, real):
                if is_real:
                    chunk.append(copy.deepcopy(data[index]) if index in seen else data[index])
                else:
                    template = {**data[index], "done": True, "reward": torch.zeros_like(data[index]["reward"])}
                    chunk.append(self._get_null_transition(template))
            seen.update(steps)
            chunks.append(_collate(chunk))
        return chunks


def _collate(steps: Sequence[Step]) -> Step:
    """Turn dicts of one structure into a dict of lists, nested dicts too."""
    for step in steps:
        if set(step) != set(steps[0]):
            raise ValueError(
                f"transitions hold {', '.join(sorted(steps[0]))} and one of them {', '.join(sorted(step))}; give all, "
                "null_transition too, the same"
            )
    return {
        name: _collate([step[name] for step in steps]) if isinstance(value, dict) else [step[name] for step in steps]
        for name, value in steps[0].items()
    }
