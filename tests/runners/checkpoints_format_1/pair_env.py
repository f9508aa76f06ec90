"""The environment in which the checkpoints of this folder were made; it must stay as it is."""

import torch

from rsl_rl.env import VecEnv


class PairEnv(VecEnv):
    """N pairs of points (x, y), each moved by its own action and rewarded by 1 - (|x| + |y|) / 2.

    The group "policy" is (x, y, x - y), the group "critic" also has the velocity of the centre. A mirror swaps x and y.
    Episodes end after 7 steps, or beyond |x| or |y| = 3. All draws come from the environment's own generator.
    """

    def __init__(self, num_envs=8, seed=0):
        self.num_envs, self.num_actions, self.num_obs, self.num_privileged_obs = num_envs, 2, 3, 4
        self.max_episode_length, self.device, self.cfg = 7, torch.device("cpu"), {"num_envs": num_envs}
        self.generator = torch.Generator().manual_seed(seed)
        self.x, self.velocity = self.draw(), torch.zeros(num_envs, 1)
        self.episode_length_buf = torch.arange(num_envs) % self.max_episode_length

    def draw(self):
        return 4.0 * torch.rand(self.num_envs, 2, generator=self.generator) - 2.0

    def get_observations(self):
        policy = torch.cat((self.x, self.x[:, :1] - self.x[:, 1:]), dim=1)
        return {"policy": policy, "critic": torch.cat((policy, self.velocity), dim=1)}

    def step(self, actions):
        moved = self.x + 0.2 * actions.clamp(-1.0, 1.0)
        self.velocity, self.x = (moved - self.x).mean(dim=1, keepdim=True), moved
        reward = 1.0 - moved.abs().mean(dim=1)
        self.episode_length_buf += 1
        failed = (moved.abs() > 3.0).any(dim=1)
        time_outs = (self.episode_length_buf >= self.max_episode_length) & ~failed
        done = failed | time_outs
        extras = {"time_outs": time_outs, "final_obs": self.get_observations()}
        self.x = torch.where(done[:, None], self.draw(), self.x)
        self.velocity = self.velocity.masked_fill(done[:, None], 0.0)
        self.episode_length_buf = self.episode_length_buf.masked_fill(done, 0)
        return self.get_observations(), reward, done, extras

    def mirrors(self):
        index, sign = torch.tensor([1, 0, 2]), torch.tensor([1.0, 1.0, -1.0])
        return {
            "policy": (index, sign),
            "critic": (torch.tensor([1, 0, 2, 3]), torch.tensor([1.0, 1.0, -1.0, 1.0])),
            "actions": (index[:2], sign[:2]),
        }

    def state_dict(self):
        return {
            "x": self.x.clone(),
            "velocity": self.velocity.clone(),
            "ages": self.episode_length_buf.clone(),
            "generator": self.generator.get_state(),
        }

    def load_state_dict(self, state):
        self.x, self.velocity = state["x"].clone(), state["velocity"].clone()
        self.episode_length_buf = state["ages"].clone()
        self.generator.set_state(state["generator"])
