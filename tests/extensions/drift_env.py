"""A point that moves as its action says, without a reward: what it does is left to an adversarial motion prior."""

import torch

from rsl_rl.env.vec_env import StepResult, VecEnv

STYLES = ("east", "west")


class DriftEnv(VecEnv):
    """The action is the displacement of a step along x and y, and one of two styles is asked for."""

    num_actions, max_episode_length = 2, 20

    def __init__(self, num_envs=32, seed=0):
        self.num_envs, self.device, self.cfg = num_envs, torch.device("cpu"), {}
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)
        self._generator = torch.Generator().manual_seed(seed)
        self.asked = torch.nn.functional.one_hot(torch.arange(num_envs) % len(STYLES), len(STYLES)).float()
        self.moved = torch.zeros(num_envs, 2)

    def get_observations(self):
        state = torch.cat((self.moved, self.asked), dim=1)
        return {"policy": state, "style": state}

    def step(self, actions):
        self.episode_length_buf += 1
        done = self.episode_length_buf >= self.max_episode_length
        self.moved = torch.where(done.unsqueeze(1), 0.0, actions.clamp(-2.0, 2.0))
        self.episode_length_buf.masked_fill_(done, 0)
        reward = torch.zeros(self.num_envs)
        return StepResult(self.get_observations(), reward, done, {"time_outs": done.clone(), "log": {}})


def drifts(env, group, motions):
    """Return 30 states of a point that moves by about 1 along x, or against it."""
    found, generator = {}, torch.Generator().manual_seed(1)
    for style in motions:
        moved = torch.randn(30, 2, generator=generator) * 0.05
        moved[:, 0] += 1.0 if style == "east" else -1.0
        found[style] = [torch.cat((moved, torch.eye(2)[STYLES.index(style)].expand(30, 2)), dim=1)]
    return found


def one_frame(env, group, motions):
    return {"east": [torch.zeros(1, 4)]}
