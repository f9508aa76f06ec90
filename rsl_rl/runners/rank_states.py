"""The part of a checkpoint that differs between ranks: episodes, random generators and what the algorithm names."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Dict, Mapping, Sequence

import torch
from torch import Tensor

from rsl_rl.distributed import Collective
from rsl_rl.runners.rollback import TrainingError
from rsl_rl.utils.checkpoints import write_checkpoint
from rsl_rl.utils.seeding import seed_everything

RANKS = "ranks"
"""Entry of a checkpoint with the parts of the ranks from 1 on; that of rank 0 is the checkpoint itself."""

_EPISODES = ("rng", "env", "memory", "episodes")


def write_ranks(path: Path, state: Dict[str, Any], collective: Collective, of_algorithm: Sequence[str]) -> None:
    """Write the state of rank 0, with the parts of all ranks, as one checkpoint.

    ``of_algorithm`` names the entries of the algorithm that differ between ranks. Other weights on one of them are a
    TrainingError.
    """
    own = {name: state[name] for name in (*_EPISODES, *of_algorithm) if name in state}
    if "rollback" in state:
        own["rollback"] = {name: state["rollback"]["state"][name] for name in of_algorithm}
    digest = weights_digest(state["model_state_dict"]) if collective.size > 1 else ""
    parts = collective.gather_on_first((own, digest))

    def write() -> None:
        for rank, (_, other) in enumerate(parts):
            if other != digest:
                raise TrainingError(
                    f"rank {rank} has other weights than rank 0; a network or an extension of your own learns without "
                    "its collective (docs/distributed.md), or a device computes wrongly"
                )
        others = [part for part, _ in parts[1:]]
        write_checkpoint(path, {**state, RANKS: others} if others else state)

    collective.call_on_first(write)


def state_of_rank(state: Dict[str, Any], collective: Collective) -> Dict[str, Any]:
    """Return the state that a checkpoint has for this rank; without episodes and generators where the number of ranks
    was another one."""
    own = dict(state)
    if num_ranks(state) != collective.size:
        own.update(env=None, rng=None, episodes={"recent": state.get("episodes", {}).get("recent", [])})
        seed_everything((torch.initial_seed() + int(state.get("iter", 0)) + 1) % 2**32)  # numbers not yet drawn
    elif collective.rank > 0:
        part = dict(state[RANKS][collective.rank - 1])
        of_rollback = part.pop("rollback", {})
        own.update(part)
        if "rollback" in own:
            own["rollback"] = {**own["rollback"], "state": {**own["rollback"]["state"], **of_rollback}}
    return own


def num_ranks(state: Mapping[str, Any]) -> int:
    """Return the number of ranks that a checkpoint is of."""
    return 1 + len(state.get(RANKS, []))


def weights_digest(weights: Mapping[str, Any]) -> str:
    """Return the SHA-256 of the tensors of a state dict."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        value = weights[name]
        if isinstance(value, Tensor):
            digest.update(value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
