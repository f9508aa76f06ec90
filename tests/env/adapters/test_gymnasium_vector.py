from dataclasses import replace

import numpy as np
import pytest
import torch

gymnasium = pytest.importorskip("gymnasium")
from gymnasium import spaces  # noqa: E402
from gymnasium.vector import AutoresetMode, SyncVectorEnv  # noqa: E402

from rsl_rl.env import as_vec_env, check_vec_env  # noqa: E402
from rsl_rl.runners import OnPolicyRunner  # noqa: E402

MODES = [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP, AutoresetMode.DISABLED]


class Counter(gymnasium.Env):
    """Counts its steps from 0; ends at ``limit``, cut off or failed."""

    def __init__(self, limit=3, truncates=True, observation_space=None, action_space=None):
        self.limit, self.truncates, self.taken = limit, truncates, []
        self.observation_space = observation_space or spaces.Box(-100, 100, (1,), np.float32)
        self.action_space = action_space or spaces.Box(np.float32([-2, 0]), np.float32([2, 10]))

    def observe(self):
        if isinstance(self.observation_space, spaces.Dict):
            return {name: np.full(s.shape, self.count, s.dtype) for name, s in self.observation_space.spaces.items()}
        if isinstance(self.observation_space, spaces.Discrete):
            return self.count + int(self.observation_space.start)
        return np.full(self.observation_space.shape, self.count, self.observation_space.dtype)

    def reset(self, seed=None, options=None):
        self.count = 0
        return self.observe(), {}

    def step(self, action):
        self.taken.append(action)
        self.count += 1
        ended = self.count >= self.limit
        return self.observe(), 1.0, ended and not self.truncates, ended and self.truncates, {}


def vector(num_envs=2, mode=AutoresetMode.SAME_STEP, **settings):
    limits = settings.pop("limits", [3] * num_envs)
    return SyncVectorEnv([lambda limit=limit: Counter(limit, **settings) for limit in limits], autoreset_mode=mode)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_every_autoreset_mode_gives_the_same_transitions(mode):
    """Two environments with episodes of 2 and 3 steps; a step that only starts an episode is taken out."""
    env = as_vec_env(vector(mode=mode, limits=[2, 3]))
    seen = {0: [], 1: []}
    for _ in range(12):
        before = env.get_observations()["policy"].clone()
        obs, reward, done, extras = env.step(torch.zeros(2, 2))
        skipped = extras.get("no_transition", torch.zeros(2, dtype=torch.bool))
        for i in (0, 1):
            if not skipped[i]:
                last = extras["final_obs"]["policy"][i].item() if done[i] else obs["policy"][i].item()
                timed_out = bool(extras["time_outs"][i])
                seen[i].append((before[i].item(), reward[i].item(), bool(done[i]), timed_out, last))
    episodes = {
        i: [(float(t), 1.0, t + 1 == n, t + 1 == n, float(t + 1)) for t in range(n)] for i, n in ((0, 2), (1, 3))
    }
    for i in (0, 1):
        assert len(seen[i]) >= 8
        assert seen[i] == (episodes[i] * 12)[: len(seen[i])]


def test_failures_are_no_time_outs():
    env = as_vec_env(vector(truncates=False))
    steps = [env.step(torch.zeros(2, 2)) for _ in range(3)]
    assert steps[-1].done.all() and not steps[-1].extras["time_outs"].any()


@pytest.mark.parametrize(
    ("actions", "given", "taken"),
    [
        ("clip", [0.5, -3.0], [1.0, 0.0]),
        ("tanh", [0.5, 0.0], [2 * np.tanh(0.5), 5.0]),
        ("none", [1.5, 3.0], [1.5, 3.0]),
    ],
)
def test_actions_are_mapped_to_the_box_as_asked(actions, given, taken):
    client = vector()
    as_vec_env(client, actions).step(torch.tensor([given, given]))
    np.testing.assert_allclose(client.envs[0].taken[0], taken, rtol=1e-6)


def test_actions_for_an_unbounded_box_stay_as_they_are():
    client = vector(action_space=spaces.Box(-np.inf, np.inf, (2,)))
    as_vec_env(client).step(torch.full((2, 2), 7.0))
    np.testing.assert_allclose(client.envs[0].taken[0], [7.0, 7.0])


def test_an_unknown_map_of_actions_is_refused():
    with pytest.raises(ValueError, match="allowed: clip, tanh, none"):
        as_vec_env(vector(), "scale")


def test_choices_need_a_categorical_policy(small_cfg):
    space = spaces.Discrete(3, start=5)
    client = vector(action_space=space)
    with pytest.raises(ValueError, match=r"policy.distribution to 'categorical'"):
        OnPolicyRunner(client, small_cfg)
    runner = OnPolicyRunner(client, replace(small_cfg, policy=replace(small_cfg.policy, distribution="categorical")))
    client.envs[0].taken.clear()
    runner.learn(1)
    assert {int(action) for action in client.envs[0].taken} <= {5, 6, 7}


@pytest.mark.parametrize(
    ("space", "shape", "last"),
    [
        (spaces.Discrete(9, start=4), [2, 9], 1.0),
        (spaces.Box(0, 255, (6, 4, 3), np.uint8), [2, 3, 6, 4], 1 / 255),
        (spaces.Box(-9, 9, (6, 4), np.float64), [2, 6, 4], 1.0),
        (spaces.Box(-9, 9, (), np.float32), [2, 1], 1.0),
        (spaces.MultiBinary(3), [2, 3], 1.0),
    ],
)
def test_observations_become_numbers(space, shape, last):
    env = as_vec_env(vector(observation_space=space))
    obs = env.step(torch.zeros(2, 2)).obs["policy"]
    assert list(obs.shape) == shape and obs.dtype == torch.float32
    assert obs.max().item() == pytest.approx(last)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.name)
def test_dicts_of_observations_are_groups(mode, small_cfg):
    space = spaces.Dict({"pose": spaces.Box(-99, 99, (2,)), "goal": spaces.Box(-99, 99, (1,))})
    client = vector(mode=mode, observation_space=space)
    policy = replace(small_cfg.policy, actor_groups=("pose", "goal"))
    runner = OnPolicyRunner(client, replace(small_cfg, policy=policy))
    runner.learn(1)
    assert runner.env is client and runner.alg.policy.actor[0].in_features == 3


def test_unsupported_spaces_are_refused():
    with pytest.raises(TypeError, match="action space"):
        as_vec_env(vector(action_space=spaces.MultiBinary(2)))
    client = TensorVectorEnv()
    client.single_observation_space = spaces.Tuple([client.single_observation_space])
    with pytest.raises(TypeError, match="observation space"):
        as_vec_env(client)


def test_a_reset_step_is_not_learned_from_and_ends_no_episode(small_cfg, monkeypatch):
    runner = OnPolicyRunner(vector(mode=AutoresetMode.NEXT_STEP), small_cfg)
    columns, metrics = {}, {}
    update = runner.alg.update

    def spy():
        columns.update({name: column.clone() for name, column in runner.alg.storage.columns.items()})
        return update()

    monkeypatch.setattr(runner.alg, "update", spy)
    fetch = runner.collector.fetch

    def spy_on_numbers(given):
        numbers = fetch(given)
        metrics.update(numbers.faults)
        return numbers

    monkeypatch.setattr(runner.collector, "fetch", spy_on_numbers)
    runner.learn(1)
    mask, dones = columns["sample_mask"].squeeze(-1), columns["dones"].squeeze(-1)
    assert 0 < mask.sum() < mask.numel()
    assert (mask[1:][dones[:-1] & (mask[:-1] > 0)] == 0).all()  # the step after each end of an episode
    assert metrics["excluded_steps"] == 0


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_the_runner_trains_in_gymnasiums_own_environments(name, vectorization, small_cfg):
    client = gymnasium.make_vec(name, num_envs=2, vectorization_mode=vectorization)
    distribution = "categorical" if name.startswith("CartPole") else "gaussian"
    cfg = replace(small_cfg, policy=replace(small_cfg.policy, distribution=distribution))
    runner = OnPolicyRunner(client, cfg)
    runner.learn(2)
    assert runner.tot_timesteps == 2 * 8 * 2
    client.close()


def test_an_adapted_environment_keeps_the_contract():
    env = as_vec_env(gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode="sync"))
    assert env.cfg == {"id": "CartPole-v1"} and env.max_episode_length == 500
    assert check_vec_env(env, actions=torch.zeros(2, 1, dtype=torch.int64)) == []
    assert as_vec_env(env) is env


class TensorVectorEnv(gymnasium.vector.VectorEnv):
    """An environment of tensors, as simulators on a GPU have them."""

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self):
        self.num_envs = 2
        self.single_observation_space = spaces.Box(-9, 9, (3,))
        self.single_action_space = spaces.Box(-1, 1, (1,))

    def reset(self, *, seed=None, options=None):
        return torch.zeros(2, 3), {}

    def step(self, actions):
        assert isinstance(actions, torch.Tensor)
        done = torch.tensor([True, False])
        return torch.zeros(2, 3), torch.ones(2), ~done & False, done, {"final_obs": torch.ones(2, 3)}


def test_environments_of_tensors_get_tensors(small_cfg):
    env = as_vec_env(TensorVectorEnv())
    extras = env.step(torch.zeros(2, 1)).extras
    assert extras["time_outs"].tolist() == [True, False]
    assert extras["final_obs"]["policy"].tolist() == [[1.0] * 3, [0.0] * 3]
    OnPolicyRunner(TensorVectorEnv(), small_cfg).learn(1)
