"""An environment with mirror images, and mirror images to test with."""

import torch

from rsl_rl.config.task import ToyConfig
from rsl_rl.tasks.toy import ToyEnv


def image(index, sign):
    return torch.tensor(index), torch.tensor(sign)


MIRRORS = {
    "policy": image((1, 0, 2), (1.0, 1.0, -1.0)),
    "critic": image((1, 0), (1.0, 1.0)),
    "actions": image((1, 0), (-1.0, -1.0)),
}


class PairEnv(ToyEnv):
    """Points on a left and a right line, to be brought to the origin by actions of opposite sign.

    The group "policy" is (left, right, left - right), the group "critic" (left, right).
    """

    num_actions = 2

    def __init__(self, num_envs=8, episode_steps=7, device="cpu", seed=0):
        self._signs = torch.tensor([1.0, -1.0], device=device)
        super().__init__(ToyConfig(num_envs=num_envs, episode_steps=episode_steps), device, seed)

    def _draw(self):
        return 2.0 * torch.rand(self.num_envs, 2, device=self.device, generator=self._generator) - 1.0

    def _observe(self):
        return torch.cat((self.x, self.x[:, :1] - self.x[:, 1:]), dim=1)

    def _observe_groups(self):
        return {"policy": self._observe(), "critic": self.x}

    def step(self, actions):
        self.x = self.x + 0.2 * actions.clamp(-1.0, 1.0) * self._signs
        return self._finish_step(1.0 - self.x.abs().sum(dim=1), failed=(self.x.abs() > 2.0).any(dim=1))

    def mirrors(self):
        return {name: (index.to(self.device), sign.to(self.device)) for name, (index, sign) in MIRRORS.items()}
