"""The interface of extensions of an algorithm."""

from __future__ import annotations

from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, nn

from rsl_rl.config.extensions import ExtensionConfig
from rsl_rl.distributed import SINGLE_PROCESS, Collective
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.modules.policy import ActorCritic
from rsl_rl.storage.mini_batches import MiniBatch
from rsl_rl.storage.rollout import Column, RolloutStorage, Transition, standard_columns


class Extension:
    """Do nothing; a subclass overrides the methods that it needs.

    Each method is called by the algorithm, for several extensions in their order. Nothing in them may wait for the
    device.
    """

    groups: Tuple[str, ...] = ()
    """Observation groups to be stored, beside those of the policy."""
    columns: Mapping[str, Column] = {}
    """Numbers to be stored with each step; ``reward`` writes them into ``transition.columns``, and mini-batches hold
    them."""

    collective: Collective = SINGLE_PROCESS
    """The processes that learn together; the algorithm sets it. What an extension learns itself must be computed with
    it, so that all ranks learn the same: gradients by ``weighted_mean``, statistics by ``sum``."""
    parameters: Sequence[nn.Parameter] = ()
    """Parameters that are trained with the policy, by the loss that ``losses`` adds; ``state_dict`` must hold them."""

    @classmethod
    def from_env(
        cls, cfg: ExtensionConfig, env: VecEnv, policy: ActorCritic, device: Union[str, torch.device]
    ) -> Extension:
        """Return the extension that a config describes."""
        raise NotImplementedError(f"{cls.__name__} has no from_env(cfg, env, policy, device); define it")

    def reward(self, transition: Transition, next_obs: Observations, dones: Tensor) -> Optional[Tensor]:
        """Return what is added to the reward [N, 1] of a step with ``dones`` [N, 1] bool, or None.

        ``next_obs`` are the groups [N, ...] that the step led to; where done, those of the next episode.
        """
        return None

    def finish_rollout(self, storage: RolloutStorage) -> None:
        """Prepare for mini-batches of a full rollout, before the weights change."""

    def transform(self, batch: MiniBatch) -> MiniBatch:
        """Return the mini-batch to compute the loss of; samples that are added come after the collected ones."""
        return batch

    def losses(self, policy: ActorCritic, batch: MiniBatch) -> Dict[str, Tensor]:
        """Return scalars that are added to the loss, by name, with their weights; they become metrics."""
        return {}

    def learn(self, batch: MiniBatch) -> Dict[str, Tensor]:
        """Take a step of an optimiser of its own on the collected samples of a mini-batch; return metrics, scalars."""
        return {}

    def update(self, storage: RolloutStorage) -> Dict[str, Tensor]:
        """Finish an update, before the rollout is cleared; return metrics, scalars."""
        return {}

    def reset(self, dones: Optional[Tensor] = None) -> None:
        """Reset the state of the environments marked in dones [N]; of all for None."""

    def state_dict(self) -> Dict[str, Any]:
        """Return the state that a checkpoint needs, in plain values."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load what :meth:`state_dict` returned."""


class Extensions:
    """Several extensions in order; ``rewarding``, ``transforming``, ``with_losses`` and ``learning`` are those that
    override the method."""

    def __init__(self, extensions: Sequence[Extension]):
        self.all = tuple(extensions)
        self.groups = tuple(dict.fromkeys(group for extension in self.all for group in extension.groups))
        self.columns = _joined_columns(self.all)
        self.parameters = [parameter for extension in self.all for parameter in extension.parameters]
        self._suffixes = _suffixes(self.all)
        self.rewarding, self.transforming, self.with_losses, self.learning = (
            [extension for extension in self.all if getattr(type(extension), name) is not getattr(Extension, name)]
            for name in ("reward", "transform", "losses", "learn")
        )

    @property
    def change_loss(self) -> bool:
        """Whether one of them changes mini-batches or adds to the loss."""
        return bool(self.transforming or self.with_losses)

    def add_metrics(self, metrics: Dict[str, Tensor], extension: Extension, added: Mapping[str, Tensor]) -> None:
        """Add the metrics of an extension; a name that is taken is a ValueError."""
        for name, value in added.items():
            name += self._suffixes[extension]
            if name in metrics:
                raise ValueError(f"{type(extension).__name__} gives the metric '{name}', which is taken; rename it")
            metrics[name] = value

    def join(self, collective: Collective) -> None:
        """Learn together with the other ranks of a collective."""
        for extension in self.all:
            extension.collective = collective

    def state_dict(self) -> Dict[str, Any]:
        """Return the states of all, by position and class."""
        return {f"{i}_{type(extension).__name__}": extension.state_dict() for i, extension in enumerate(self.all)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Load the states that exist; other extensions keep their initial state, if they have no ``parameters``."""
        for i, extension in enumerate(self.all):
            own = state.get(f"{i}_{type(extension).__name__}")
            if own is not None:
                extension.load_state_dict(own)


def _suffixes(extensions: Sequence[Extension]) -> Dict[Extension, str]:
    """Return the suffix of the metrics of each extension: "_2" for the second of a class, and so on."""
    suffixes: Dict[Extension, str] = {}
    for extension in extensions:
        earlier = sum(type(other) is type(extension) for other in suffixes)
        suffixes[extension] = f"_{earlier + 1}" if earlier else ""
    return suffixes


def _joined_columns(extensions: Sequence[Extension]) -> Dict[str, Column]:
    """Return the columns of all extensions; a name that is taken is a ValueError."""
    columns: Dict[str, Column] = {}
    for extension in extensions:
        for name, column in extension.columns.items():
            if name in columns or name in standard_columns(1):
                raise ValueError(f"{type(extension).__name__} declares the column '{name}', which is taken; rename it")
            columns[name] = column
    return columns
