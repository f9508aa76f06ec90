"""Save and load checkpoints of a training, and the parts of them that differ between ranks."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Callable, Dict, Mapping, Optional, Sequence

import torch
from torch import Tensor

from rsl_rl.algorithms.algorithm import Algorithm
from rsl_rl.config.learn import RunnerConfig
from rsl_rl.distributed import SINGLE_PROCESS, Collective
from rsl_rl.env.protocols import Checkpointable, supports
from rsl_rl.env.vec_env import VecEnv
from rsl_rl.runners.collector import Collector
from rsl_rl.runners.rollback import TrainingError
from rsl_rl.utils.checkpoints import (
    FORMAT,
    CheckpointError,
    first_unusable,
    prune_checkpoints,
    write_checkpoint,
)
from rsl_rl.utils.config_io import short_repr
from rsl_rl.utils.seeding import random_states, restore_random_states, seed_everything
from rsl_rl.utils.text import one_line

_LARGEST_COUNT = 10**15
_LARGEST_BETA = 1.0 - 1e-7
_MALFORMED = (RuntimeError, KeyError, TypeError, AttributeError, IndexError)
"""Errors of missing entries and of entries of other types or shapes."""


class CheckpointManager:
    """Write ``model_<iteration>.pt`` into a run folder every few iterations.

    After an error of the disk it prints a warning and retries later. Without a folder nothing is saved. The ranks of a
    collective call it together; rank 0 alone uses the disk.
    """

    def __init__(
        self,
        folder: Optional[Path],
        cfg: RunnerConfig,
        print_line: Callable[[str], None],
        collective: Collective = SINGLE_PROCESS,
    ):
        self._folder, self._cfg, self._print_line, self._collective = folder, cfg, print_line, collective
        self._is_saved = False  # the present state is on the disk
        self._note = ""  # line to print in the next call of save
        self._retry_at: Optional[int] = None
        self._pause = 1  # iterations between attempts

    def note_loaded(self, iteration: int, state: Mapping[str, Any]) -> None:
        """Do not write the checkpoint of an iteration again if it exists, and note what differs from its training."""
        before, now = state.get("threads"), torch.get_num_threads()
        if before not in (None, now):
            self._note = (
                f"note: the checkpoint is of a process with {before} threads and this one has {now}; bits may differ"
            )
        folder = self._folder
        self._is_saved = folder is not None and self._collective.call_on_first(
            (folder / f"model_{iteration}.pt").exists
        )

    def note_update(self) -> None:
        """Note that there is something new to save."""
        self._is_saved = False

    def due(self, iteration: int) -> bool:
        """Return whether it is time for a checkpoint."""
        retry = self._retry_at is not None and iteration >= self._retry_at
        return retry or iteration % self._cfg.save_interval == 0

    def save(self, iteration: int, write: Callable[[str], None]) -> bool:
        """Save the checkpoint of an iteration unless that was done since the last update, delete old ones, and return
        whether it exists. ``write`` writes a checkpoint to a path.
        """
        note, self._note = self._note, ""
        if note:
            self._print_line(note)
        folder, cfg = self._folder, self._cfg
        if folder is None or self._is_saved:
            return True
        path = folder / f"model_{iteration}.pt"
        try:
            write(str(path))
        except OSError as error:
            self._retry_at = iteration + self._pause
            self._pause = min(2 * self._pause, cfg.save_interval)
            self._print_line(
                f"warning: {path.name} could not be saved ({error}); training continues, next attempt after iteration "
                f"{self._retry_at}"
            )
            return False
        self._is_saved, self._retry_at, self._pause = True, None, 1
        try:
            self._collective.call_on_first(lambda: prune_checkpoints(folder, cfg.keep_last, cfg.keep_every))
        except OSError as error:
            self._print_line(f"warning: old checkpoints could not be deleted ({error})")
        return True


def training_state(
    alg: Algorithm,
    env: Optional[VecEnv],
    collector: Collector,
    iteration: int,
    counters: Mapping[str, float],
    infos: Optional[Dict[str, Any]],
) -> Dict[str, Any]:
    """Return everything that is needed to resume a run exactly; without ``env``, with new episodes."""
    return {
        "format": FORMAT,
        **alg.state_dict(),
        "iter": iteration,
        "infos": infos,
        "rng": random_states(),
        "env": env.state_dict() if supports(env, Checkpointable) else None,
        "memory": alg.get_hidden_states(),  # of the episodes in "env"
        "episodes": {"running": collector.stats.state_dict(), "recent": collector.recent.state_dict()},
        "counters": dict(counters),
        "threads": torch.get_num_threads(),
    }


def load_algorithm(alg: Algorithm, path: Path, file: Dict[str, Any], load_optimizer: bool) -> Dict[str, Any]:
    """Load the algorithm from the content of a checkpoint file, and return what the content has for this rank.

    Weights that are not finite or do not fit, and with ``load_optimizer`` no iteration, are a :class:`CheckpointError`,
    which names ``path``.
    """
    _check_counts(path, file)
    if load_optimizer and "iter" not in file:
        raise CheckpointError(
            f"{path} has no iteration (iter), from which a training goes on; use another checkpoint, or load only its "
            "weights, with load_optimizer=False (--init_from)"
        )
    state = state_of_rank(file, alg.collective)
    learned = ("rollback", *alg.state_dict())
    is_complex = any(isinstance(x, Tensor) and x.is_complex() for x in alg.policy.state_dict().values())
    for part in learned if load_optimizer else ("model_state_dict", "average"):
        unusable = first_unusable(state.get(part), part, is_complex)
        if unusable:
            raise CheckpointError(f"{path} holds {unusable}; use an earlier one")
    alg.reset()  # before loading, because extensions load recurrent states
    try:
        if load_optimizer:
            _check_optimizer(path, state)
        alg.load_state_dict(state, load_optimizer)
    except CheckpointError:
        raise
    except (ValueError, *_MALFORMED) as error:
        raise CheckpointError(f"{path} does not fit the policy as configured: {_reason(error)}") from error
    return state


def _check_counts(path: Path, state: Mapping[str, Any]) -> None:
    """Raise a CheckpointError for an iteration or a counter that no training has."""
    rollback = state.get("rollback", {"iteration": 0, "learning_rate": 0.0, "state": {}})
    kinds = {"iteration": int, "learning_rate": float, "state": dict}
    if not isinstance(rollback, dict) or not all(isinstance(rollback.get(name), kinds[name]) for name in kinds):
        raise CheckpointError(f"{path} has no {', '.join(kinds)} for a roll-back; use another checkpoint")
    counters = state.get("counters", {})
    if not isinstance(counters, Mapping):
        raise CheckpointError(f"{path} has counters={short_repr(counters)} and not a dict; use another checkpoint")
    for name, value in {"iter": state.get("iter", 0), **counters}.items():
        kinds = int if name == "iter" else (int, float)
        if isinstance(value, bool) or not isinstance(value, kinds) or not 0 <= value <= _LARGEST_COUNT:
            raise CheckpointError(
                f"{path} has {name}={short_repr(value)}; a training has a number from 0 to {_LARGEST_COUNT:.0e}; use "
                "another checkpoint"
            )


def _check_optimizer(path: Path, state: Mapping[str, Any]) -> None:
    """Raise a CheckpointError for settings or moments of Adam with which it does not minimise the loss."""
    optimizer = state.get("optimizer_state_dict")
    found = [("learning_rate", state.get("learning_rate", 0.0), 1.0)]
    if isinstance(optimizer, Mapping):  # what has another structure does not load
        for group in filter(_is_mapping, optimizer.get("param_groups", ())):
            betas = group.get("betas", ())
            found += [("betas", beta, _LARGEST_BETA) for beta in (betas if isinstance(betas, Sequence) else (betas,))]
            found += [(name, group.get(name, 0.0), 1.0) for name in ("lr", "eps", "weight_decay")]
            found.append(("maximize", group.get("maximize", False), 0.0))
        for moments in filter(_is_mapping, optimizer.get("state", {}).values()):
            second = moments.get("exp_avg_sq", 0.0)
            smallest = second.min() if isinstance(second, Tensor) and second.numel() else 0.0
            found += [("step", moments.get("step", 0), _LARGEST_COUNT), ("exp_avg_sq", smallest, float("inf"))]
    for name, value, high in found:
        if not 0 <= float(value) <= high:
            raise CheckpointError(
                f"{path} has {name}={short_repr(float(value))} of the optimiser; Adam needs a number from 0 to "
                f"{high:g}; use another checkpoint, or load only its weights, with load_optimizer=False (--init_from)"
            )


def _is_mapping(value: Any) -> bool:
    return isinstance(value, Mapping)


def _reason(error: Exception) -> str:
    missing = "the entry is missing: " if isinstance(error, KeyError) else ""
    return f"{missing}{one_line(str(error))[:300]}"


def load_episodes(alg: Algorithm, env: VecEnv, collector: Collector, state: Mapping[str, Any], load_env: bool) -> bool:
    """Load random generators, episode statistics and, with ``load_env``, the current episodes of a checkpoint; return
    whether the environment has loaded them. Missing or wrong entries are a :class:`CheckpointError`."""
    try:
        return _load_episodes(alg, env, collector, state, load_env)
    except (ValueError, *_MALFORMED) as error:
        remedy = "; use another one, or load it with load_env=False (--fresh_episodes)"
        raise CheckpointError(
            "the checkpoint's episodes or random generators cannot be loaded: "
            f"{_reason(error)}{'' if isinstance(error, ValueError) else remedy}"
        ) from error


def _load_episodes(alg: Algorithm, env: VecEnv, collector: Collector, state: Mapping[str, Any], load_env: bool) -> bool:
    episodes = state.get("episodes", {})
    collector.recent.load_state_dict(episodes.get("recent", []))
    restored = load_env and state.get("env") is not None and supports(env, Checkpointable)
    if restored and supports(env, Checkpointable):
        env.load_state_dict(state["env"])
        alg.set_hidden_states(state.get("memory", (None, None)))
        if "running" in episodes:
            collector.stats.load_state_dict(episodes["running"])
    restore_random_states(state.get("rng"))
    return restored


# Ranks

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
