"""Inference with a trained policy."""

from __future__ import annotations

from typing import Any, Mapping, Optional, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.modules.policy import ActorCritic
from rsl_rl.utils.trajectories import as_states


class InferencePolicy:
    """A policy that acts without exploration; call ``reset`` with the dones after each step of the environment.

    It is a copy with its own recurrent state; further training does not change it.
    """

    def __init__(self, actor_critic: ActorCritic, device: Union[str, torch.device]):
        self.device = torch.device(device)
        self._actor_critic = actor_critic.snapshot().to(self.device)
        self._actor_critic.cache_weights()

    @torch.no_grad()
    def __call__(self, obs: Union[Tensor, Mapping[str, Tensor]]) -> Tensor:
        """Return the actions [N, A] for groups or a tensor [N, D], on the device of these."""
        if isinstance(obs, Tensor):
            return self._actor_critic.act_inference(obs.to(self.device)).to(obs.device)
        groups = {name: obs[name] for name in self._actor_critic.actor_model.groups}
        on_device = {name: group.to(self.device) for name, group in groups.items()}
        return self._actor_critic.act_inference(on_device).to(next(iter(groups.values())).device)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the policy itself."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._actor_critic, name)

    def to(self, device: Union[str, torch.device, None]) -> InferencePolicy:
        """Move the policy to a device, and return it."""
        self.device = torch.device(device) if device is not None else self.device
        self._actor_critic.to(self.device)
        self._actor_critic.cache_weights()
        return self

    def memories(self) -> Tuple[Tensor, ...]:
        """Return the actor's recurrent states after the last step, each [L, N, H]; none without memory."""
        return as_states(self._actor_critic.get_hidden_states()[0])

    def reset(self, dones: Optional[Tensor] = None) -> None:
        """Zero the recurrent states of the environments marked in dones [N]; of all for None."""
        self._actor_critic.reset(dones if dones is None else dones.to(self.device))
