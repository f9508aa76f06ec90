"""Environments as repositories for each era of rsl_rl write them: plain classes, without our base class.

All are the same task: a point that is pushed to the origin. Buffers are reused in place, as simulators do.
"""

import torch

N, D, C, A, LIMIT = 8, 3, 5, 2, 10


class Point:
    """What the environments have in common: state, dynamics and the buffers that steps write into."""

    def __init__(self, num_envs=N):
        self.num_envs, self.num_actions, self.max_episode_length = num_envs, A, LIMIT
        self.device = "cpu"
        self.state = torch.ones(num_envs, A)
        self.episode_length_buf = torch.zeros(num_envs, dtype=torch.long)
        self.obs_buf = torch.zeros(num_envs, D)
        self.privileged_obs_buf = torch.zeros(num_envs, C)
        self.rew_buf = torch.zeros(num_envs)
        self.reset_buf = torch.zeros(num_envs, dtype=torch.long)
        self.time_out_buf = torch.zeros(num_envs, dtype=torch.bool)
        self.extras = {}

    def advance(self, actions):
        """Move on by one step, in the buffers."""
        self.state += 0.1 * actions.clamp(-1, 1)
        self.episode_length_buf += 1
        self.time_out_buf[:] = self.episode_length_buf >= LIMIT
        self.reset_buf[:] = self.time_out_buf | (self.state.abs().amax(dim=1) > 3)
        self.rew_buf[:] = -self.state.square().sum(dim=1)
        self.reset_done(self.reset_buf.nonzero().flatten())
        self.observe()

    def reset_done(self, ids):
        self.state[ids] = 1.0
        self.episode_length_buf[ids] = 0

    def observe(self):
        self.obs_buf[:, :A] = self.state
        self.privileged_obs_buf[:, :A] = self.state


class V1Env(Point):
    """legged_gym's form: five results, no cfg, long dones, time_outs that go stale on steps without a reset."""

    num_obs, num_privileged_obs = D, None

    def __init__(self, num_envs=N):
        super().__init__(num_envs)
        self.num_resets = 0

    def reset(self):
        self.num_resets += 1
        self.reset_done(torch.arange(self.num_envs))
        self.observe()
        return self.obs_buf, None

    def reset_done(self, ids):
        if len(ids) == 0:
            return
        super().reset_done(ids)
        self.extras["episode"] = {"rew_distance": self.rew_buf.mean()}
        self.extras["time_outs"] = self.time_out_buf.clone()

    def get_observations(self):
        return self.obs_buf

    def get_privileged_observations(self):
        return None if not self.num_privileged_obs else self.privileged_obs_buf

    def step(self, actions):
        self.advance(actions)
        return self.obs_buf, self.get_privileged_observations(), self.rew_buf, self.reset_buf, self.extras


class V1PrivilegedEnv(V1Env):
    """With privileged observations, and buffers that only the first reset makes."""

    num_privileged_obs = C

    def __init__(self, num_envs=N):
        super().__init__(num_envs)
        del self.obs_buf

    def reset(self):
        self.obs_buf = torch.zeros(self.num_envs, D)
        return super().reset()


class V2Env(Point):
    """Isaac Lab's form for rsl_rl 2: groups in the extras, num_privileged_obs 0."""

    num_obs, num_privileged_obs = D, 0

    def __init__(self, num_envs=N):
        super().__init__(num_envs)
        self.cfg = {"task": "point"}
        self.step_dt = 0.02
        self.unwrapped = self

    def observations(self):
        return {"policy": self.obs_buf, "critic": self.privileged_obs_buf, "rnd_state": self.obs_buf[:, :A]}

    def get_observations(self):
        self.observe()
        return self.obs_buf, {"observations": self.observations()}

    def step(self, actions):
        self.advance(actions)
        extras = {"observations": self.observations(), "log": {"Metrics/distance": self.rew_buf.mean().item()}}
        extras["time_outs"] = self.time_out_buf
        return self.obs_buf, self.rew_buf, self.reset_buf, extras


class V3Env(Point):
    """playground's form for rsl_rl 3: no cfg, no device, no episode_length_buf, float dones [N, 1], resets when asked
    for observations; the groups are named for the task."""

    def __init__(self, num_envs=N, wrap=dict):
        super().__init__(num_envs)
        self.ages, self.wrap = self.episode_length_buf, wrap
        del self.device, self.episode_length_buf

    def advance(self, actions):
        self.episode_length_buf = self.ages
        super().advance(actions)
        del self.episode_length_buf

    def get_observations(self):
        self.state[:], self.ages[:] = 1.0, 0
        self.observe()
        return self.groups()

    def groups(self):
        return self.wrap({"state": self.obs_buf, "privileged_state": self.privileged_obs_buf})

    def step(self, actions):
        self.advance(actions)
        extras = {"time_outs": self.time_out_buf.float(), "observations": {}, "log": {}}
        return self.groups(), self.rew_buf.unsqueeze(1), self.reset_buf.float().unsqueeze(1), extras


class V5Env(Point):
    """mjlab's form for rsl_rl 4 and 5: everything is there; the limit is a tensor, the buffers are properties."""

    def __init__(self, num_envs=N, wrap=dict):
        self._ages = torch.zeros(num_envs, dtype=torch.long)
        super().__init__(num_envs)
        self.wrap = wrap
        self.max_episode_length = torch.tensor(LIMIT)
        self.device = torch.device("cpu")
        self.unwrapped, self.step_dt = self, 0.02

    @property
    def cfg(self):
        return {"task": "point"}

    @property
    def episode_length_buf(self):
        return self._ages

    @episode_length_buf.setter
    def episode_length_buf(self, value):
        self._ages = value

    def groups(self):
        return self.wrap({"actor": self.obs_buf, "critic": self.privileged_obs_buf})

    def get_observations(self):
        self.observe()
        return self.groups()

    def step(self, actions):
        self.advance(actions)
        return self.groups(), self.rew_buf, self.reset_buf.bool(), {"time_outs": self.time_out_buf, "log": {"a/b": 1}}
