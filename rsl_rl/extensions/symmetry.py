"""Left-right symmetry by mirrored samples."""

from __future__ import annotations

from typing import Any, Callable, Dict, Mapping, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.algorithms.extension import Extension
from rsl_rl.config.extensions import SymmetryConfig
from rsl_rl.env.protocols import Mirror, Mirrored, supports
from rsl_rl.env.vec_env import VecEnv
from rsl_rl.modules.memory import reset_states
from rsl_rl.modules.model import Model
from rsl_rl.modules.policy import ActorCritic
from rsl_rl.modules.symmetry import mirror
from rsl_rl.storage.mini_batches import LazyGroups, MiniBatch, chunk_states, weighted_mean
from rsl_rl.storage.rollout import RolloutStorage
from rsl_rl.utils.public_names import FormerCalls
from rsl_rl.utils.trajectories import HiddenState, ResetMasks, as_states


class Symmetry(Extension, metaclass=FormerCalls):
    """Learn from the mirror image of each sample too, or penalise actions that are not mirrored with the observation
    (Mittal et al. 2024, https://arxiv.org/abs/2403.04359).

    ``mirrors`` are the images of the observation groups that the policy reads, and of "actions". With
    ``use_data_augmentation`` the image of each sample is appended to every mini-batch, with the log-probability, value,
    advantage and return of the sample. With ``use_mirror_loss`` the mean squared difference between the action for the
    mirrored observation and the mirrored action, times ``mirror_loss_coeff``, is added to the loss. It is the metric
    ``symmetry_loss``; without ``use_mirror_loss`` it is reported only, times 1.

    Unlike in rsl_rl, the policy may have memories: see :class:`MirroredMemory`.
    """

    def __init__(
        self,
        mirrors: Mapping[str, Mirror],
        policy: ActorCritic,
        use_data_augmentation: bool = True,
        use_mirror_loss: bool = False,
        mirror_loss_coeff: float = 0.0,
    ):
        models, family = (policy.actor_model, policy.critic_model), policy.family
        needed = dict.fromkeys((*models[0].groups, *models[1].groups, "actions"))
        missing = [name for name in needed if name not in mirrors]
        if missing:
            raise ValueError(
                f"mirrors has no image of {', '.join(missing)}; give a pair of tensors (index, sign) for each group "
                "that the policy reads, and for 'actions'"
            )
        if use_mirror_loss and not family.action_dtype.is_floating_point:
            raise ValueError("use_mirror_loss compares actions as numbers; set it to False for discrete actions")
        device = next(policy.parameters()).device
        self._mirrors = {name: _checked(name, image, device) for name, image in mirrors.items()}
        size = len(self._mirrors["actions"][0])
        if size != family.num_actions:
            raise ValueError(f"mirrors['actions'] has {size} entries, and there are {family.num_actions} actions")
        self.use_data_augmentation, self.use_mirror_loss = use_data_augmentation, use_mirror_loss
        self.mirror_loss_coeff = mirror_loss_coeff
        self._family = family
        self._memories = [MirroredMemory(model, self._mirror_group) for model in models]
        self._num_before = 0  # samples that the images of the present mini-batch stand behind

    @classmethod
    def from_env(
        cls, cfg: SymmetryConfig, env: VecEnv, policy: ActorCritic, device: Union[str, torch.device]
    ) -> Symmetry:
        name = type(env).__name__
        if not supports(env, Mirrored):
            raise ValueError(f"{name} has no mirrors(), which SymmetryConfig needs; add the method or leave it out")
        try:
            symmetry = cls(env.mirrors(), policy, cfg.use_data_augmentation, cfg.use_mirror_loss, cfg.mirror_loss_coeff)
        except ValueError as error:
            raise ValueError(f"SymmetryConfig and {name}.mirrors(): {error}") from error
        for group, obs in env.get_observations().items():
            if group in symmetry._mirrors and len(symmetry._mirrors[group][0]) != obs.shape[-1]:
                raise ValueError(f"{name}.mirrors()['{group}'] does not fit the group's shape {list(obs.shape)}")
        return symmetry

    # Memories

    def finish_rollout(self, storage: RolloutStorage) -> None:
        for memory, saved in zip(self._memories, storage.saved_states):
            memory.run(storage, saved)

    def state_dict(self) -> Dict[str, Any]:
        return {"hidden_states": [memory.states for memory in self._memories]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for memory, states in zip(self._memories, state["hidden_states"]):
            memory.states = tuple(states)

    # Mini-batches

    def transform(self, batch: MiniBatch) -> MiniBatch:
        if not self.use_data_augmentation:
            return batch
        self._num_before = batch.sample_mask.shape[-2]
        images, dim = self.image(batch), 0 if batch.masks is None else 1
        return batch.replace(
            groups=LazyGroups(batch.groups, lambda name, group: torch.cat((group, images.groups[name]), dim)),
            columns={
                name: torch.cat([_of_each_sample(x, batch) for x in (column, images.columns[name])], dim=-2)
                for name, column in batch.columns.items()
            },
            masks=None if batch.masks is None else ResetMasks(*(torch.cat((mask, mask), 1) for mask in batch.masks)),
            hidden_states=tuple(map(_joined, batch.hidden_states, images.hidden_states)),
            num_original=self._num_before if batch.num_original is None else batch.num_original,
        )

    def image(self, batch: MiniBatch) -> MiniBatch:
        """Return the mirror images of the samples of a mini-batch as one of the same size."""
        mirrored, columns = self._mirrors["actions"], batch.columns
        parameters = {name: columns[name] for name in self._family.parameter_shapes if name in columns}
        return batch.replace(
            groups=LazyGroups(batch.groups, self._mirror_group),
            columns={
                **columns,
                **(self._family.mirror_parameters(parameters, *mirrored) if parameters else {}),
                "actions": self._family.mirror_actions(columns["actions"], *mirrored),
            },
            hidden_states=self._hidden_states(batch),
        )

    def losses(self, policy: ActorCritic, batch: MiniBatch) -> Dict[str, Tensor]:
        if not self._family.action_dtype.is_floating_point:
            return {}
        means = policy.distribution.mode  # [..., B, A]
        collected = batch.original(means)
        if self.use_data_augmentation:
            of_images = means.narrow(-2, self._num_before, collected.shape[-2])
        else:
            of_images = batch.original(self._means_of_images(policy, batch))
        targets = mirror(collected.detach(), *self._mirrors["actions"])
        errors = (of_images - targets).square().mean(dim=-1, keepdim=True)
        loss = weighted_mean(errors, batch.original(batch.sample_mask))
        return {"symmetry_loss": self.mirror_loss_coeff * loss if self.use_mirror_loss else loss.detach()}

    def _means_of_images(self, policy: ActorCritic, batch: MiniBatch) -> Tensor:
        groups = LazyGroups(batch.groups, self._mirror_group)
        with torch.set_grad_enabled(self.use_mirror_loss):
            states = self._hidden_states(batch)[0]
            return policy.family.mode(policy.actor_model(groups, batch.masks, states))

    def _mirror_group(self, name: str, group: Tensor) -> Tensor:
        if name not in self._mirrors:
            raise ValueError(f"the group '{name}' is read from mirrored samples, and mirrors has no image of it")
        index, sign = self._mirrors[name]
        return mirror(group, index, sign.to(group.dtype))

    def _hidden_states(self, batch: MiniBatch) -> Tuple[HiddenState, HiddenState]:
        """Return the states of actor and critic before the mirror images of the sequences of a mini-batch."""
        if batch.envs is None:
            return batch.hidden_states
        actor, critic = (memory.before_chunks(batch.envs) for memory in self._memories)
        return actor, critic


class MirroredMemory:
    """The recurrent states of a network for the mirror images of all observations.

    They are computed at the end of each rollout, with the weights of the rollout. ``states`` are those after the last
    rollout, each [L, N, H]; () stands for zeros, and is used for a network without memory. If the real state of an
    environment is zero at the start of a rollout, the mirrored one is set to zero too; this covers resets between
    rollouts. Steps of a discarded rollout are missing.
    """

    def __init__(self, model: Model, mirror_group: Callable[[str, Tensor], Tensor]):
        self._model, self._mirror_group = model, mirror_group
        self.states: Tuple[Tensor, ...] = ()
        self._saved: Tuple[Tensor, ...] = ()  # where chunks begin, each [K, L, N, H], allocated once

    def before_chunks(self, envs: Tensor) -> Tuple[Tensor, ...]:
        """Return the states [L, K*n, H] before the chunks of the environments ``envs`` [n]."""
        return chunk_states(self._saved, envs)

    @torch.no_grad()
    def run(self, storage: RolloutStorage, real: Tuple[Tensor, ...]) -> None:
        """Run the memory over a full rollout; ``real`` are the states [K, L, N, H] that the storage has saved."""
        model, memory = self._model, self._model.memory
        if memory is None:
            return
        zeros, begins = memory.zero_states(storage.num_envs), storage.plan.begins
        state: HiddenState = self._without_reset(self.states or zeros, zeros, real)
        if not self._saved or self._saved[0].shape[2] != storage.num_envs:
            self._saved = tuple(s.new_zeros(len(begins), *s.shape) for s in zeros)
        memory.cache_weights()
        for t, dones in enumerate(storage.columns["dones"]):
            for chunk in (chunk for chunk, begin in enumerate(begins) if begin == t):
                for place, value in zip(self._saved, as_states(state)):
                    place[chunk].copy_(value)
            groups = {name: self._mirror_group(name, storage.groups[name][t]) for name in model.groups}
            _, state = memory.advance(model.encode(groups), state)
            state = reset_states(state, dones)
        memory.clear_cache()
        self.states = as_states(state)

    @staticmethod
    def _without_reset(
        states: Tuple[Tensor, ...], zeros: Tuple[Tensor, ...], real: Tuple[Tensor, ...]
    ) -> Tuple[Tensor, ...]:
        """Return the states with zeros where the real ones at the start of the rollout are zero."""
        if states[0].shape != zeros[0].shape:  # of a checkpoint with another number of environments
            return zeros
        no_past = torch.ones_like(states[0][0, :, 0], dtype=torch.bool)  # [N]
        for saved in real:
            no_past = no_past & (saved[0] == 0).all(dim=2).all(dim=0)
        return as_states(reset_states(states, no_past))


def _of_each_sample(column: Tensor, batch: MiniBatch) -> Tensor:
    """Return a column as [..., B, size], also where it is [size] because all samples share it."""
    return column.expand(*batch.sample_mask.shape[:-1], -1)


def _joined(states: HiddenState, images: HiddenState) -> HiddenState:
    """Put the states [L, n, H] of one network side by side with those for the images."""
    if states is None:
        return None
    return tuple(torch.cat(pair, dim=1) for pair in zip(states, images))  # type: ignore[arg-type]


def _checked(name: str, image: Mirror, device: torch.device) -> Mirror:
    """Return a pair (index, sign) on a device; one that is not a mirror image is a ValueError."""
    try:
        index, sign = image[0].to(device, torch.long), image[1].to(device, torch.float32)
        places = torch.arange(len(index), device=device)
        is_mirror = index.shape == sign.shape == places.shape and bool(
            (index[index] == places).all() and (sign.abs() == 1).all() and (sign[index] == sign).all()
        )
    except (TypeError, AttributeError, IndexError, ValueError):
        is_mirror = False
    if not is_mirror:
        raise ValueError(
            f"mirrors['{name}'] is not a mirror image; give a pair of tensors (index, sign) with a place and a sign (1 "
            "or -1) for each entry of the last axis, such that the image of the image is the vector again"
        )
    return index, sign
