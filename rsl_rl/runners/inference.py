"""A trained policy as others use it."""

from __future__ import annotations

from typing import Mapping, Optional, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.utils.trajectories import as_states


class InferencePolicy:
    """A policy that acts without noise; call ``reset`` with the dones after each step of the environment.

    It is a copy: training goes on without changing it, and its memory, if it has one, is its own.
    """

    def __init__(self, actor_critic: ActorCritic, device: Union[str, torch.device]):
        self.device = torch.device(device)
        self._actor_critic = actor_critic.snapshot().to(self.device)
        self._actor_critic.hold()

    @torch.no_grad()
    def __call__(self, obs: Union[Tensor, Mapping[str, Tensor]]) -> Tensor:
        """Return the mean actions [N, A] for groups or a tensor [N, D], on the device where these are."""
        actor_obs = self._actor_critic.actor_obs(obs)
        return self._actor_critic.act_inference(actor_obs.to(self.device)).to(actor_obs.device)

    def memories(self) -> Tuple[Tensor, ...]:
        """Return the actor's memories after the last step, each [L, N, H]; none without memory."""
        return as_states(self._actor_critic.get_hidden_states()[0])

    def reset(self, dones: Optional[Tensor] = None) -> None:
        """Forget the past of the environments marked in dones [N]; of all for None."""
        self._actor_critic.reset(dones if dones is None else dones.to(self.device))
