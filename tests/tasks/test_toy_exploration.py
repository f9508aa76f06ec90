import pytest
import torch

from rsl_rl.config.task import FarGoalConfig
from rsl_rl.env import check_vec_env
from rsl_rl.env.protocols import Checkpointable, Mirrored, Resettable
from rsl_rl.tasks.toy_exploration import FarGoalEnv


def step_from(position, action, **settings):
    """Put one point at a position, step once and return where it is and its reward."""
    env = FarGoalEnv(FarGoalConfig(num_envs=1, **settings))
    env.x = torch.tensor([position])
    result = env.step(torch.tensor([action]))
    return env.x[0].tolist(), result.reward.item()


@pytest.mark.parametrize(
    ("position", "action", "reached"),
    [
        ((0.0, -0.5), (1.0, -0.5), (0.05, -0.525)),
        ((0.0, -0.5), (9.0, -9.0), (0.05, -0.55)),
        ((-1.49, -0.99), (-1.0, -1.0), (-1.5, -1.0)),
        ((1.49, 0.99), (1.0, 1.0), (1.5, 1.0)),
        ((0.0, -0.01), (1.0, 1.0), (0.05, -0.01)),  # stopped by the wall, from below
        ((0.0, 0.01), (1.0, -1.0), (0.05, 0.01)),  # and from above
        ((0.99, -0.01), (1.0, 1.0), (1.04, -0.01)),  # past the wall's end on one side only
        ((1.04, -0.01), (-1.0, 1.0), (0.99, -0.01)),
        ((1.04, -0.01), (1.0, 1.0), (1.09, 0.04)),  # through the gap
        ((1.04, 0.01), (1.0, -1.0), (1.09, -0.04)),
    ],
)
def test_far_goal_moves_as_commanded_and_stops_at_walls(position, action, reached):
    assert step_from(position, action)[0] == pytest.approx(reached)


@pytest.mark.parametrize(
    ("position", "reward"), [((-1.1, 0.5), 1.0), ((-0.9, 0.5), 0.0), ((-1.1, -0.5), 0.0), ((1.4, 0.5), 0.0)]
)
def test_far_goal_rewards_the_end_of_the_upper_corridor_only(position, reward):
    assert step_from(position, (0.0, 0.0))[1] == reward


def test_far_goal_config_sets_length_and_step_size():
    position, reward = step_from((-4.6, 0.5), (1.0, 0.0), corridor_length=10.0, step_size=0.1)
    assert position == pytest.approx([-4.5, 0.5]) and reward == 0.0
    assert step_from((-4.7, 0.5), (0.0, 0.0), corridor_length=10.0)[1] == 1.0


def test_far_goal_starts_in_the_lower_corridor_and_ends_by_the_clock():
    env = FarGoalEnv(FarGoalConfig(num_envs=50, episode_steps=2))
    assert set(env.get_observations()) == {"policy"} and env.get_observations()["policy"].shape == (50, 2)
    for t in range(4):
        x, y = env.get_observations()["policy"].unbind(dim=1)
        if t % 2 == 0:  # a new episode
            assert ((x >= -1.5) & (x <= -1.25) & (y >= -0.75) & (y <= -0.25)).all() and x.unique().numel() > 40
        _, _, done, extras = env.step(torch.ones(50, 2))
        assert (done == (t % 2 == 1)).all() and torch.equal(extras["time_outs"], done)
    assert not torch.equal(extras["final_obs"]["policy"], env.get_observations()["policy"])


def test_far_goal_is_out_of_reach_of_random_and_constant_actions():
    generator = torch.Generator().manual_seed(0)
    angle = torch.linspace(0.0, 2 * torch.pi, 1000)
    constant = 2.0 * torch.stack((angle.cos(), angle.sin()), dim=1)
    for bias in (torch.zeros(1000, 2), constant):
        env = FarGoalEnv(FarGoalConfig(num_envs=1000))
        furthest = torch.zeros(())
        for _ in range(200):
            reward = env.step(bias + torch.randn(1000, 2, generator=generator)).reward
            furthest = torch.maximum(furthest, reward.max())
        assert furthest == 0.0


def test_far_goal_is_reached_by_the_shortest_way_in_half_an_episode():
    env = FarGoalEnv(FarGoalConfig(num_envs=100))
    total, obs = torch.zeros(100), env.get_observations()["policy"]
    for _ in range(199):
        x, y = obs.unbind(dim=1)
        forth = torch.where(y > 0.0, -1.0, 1.0) * torch.where((y < 0.0) & (x > 1.05), 0.0, 1.0)
        up = torch.where(y < -0.05, 1.0, 0.0) + torch.where(x > 1.0, 1.0, 0.0)
        result = env.step(torch.stack((forth, up), dim=1))
        obs, total = result.obs["policy"], total + result.reward
    assert (total >= 100).all()


def test_far_goal_state_restores_the_next_steps():
    env, other = (FarGoalEnv(FarGoalConfig(num_envs=4, episode_steps=7), seed=seed) for seed in (1, 2))
    generator = torch.Generator().manual_seed(0)
    env.step(torch.ones(4, 2))
    other.load_state_dict(env.state_dict())
    for _ in range(19):  # through resets
        actions = torch.randn(4, 2, generator=generator)
        a, b = env.step(actions), other.step(actions)
        assert torch.equal(a.obs["policy"], b.obs["policy"])
    before = env.x.clone()
    env.reset([1])
    assert env.episode_length_buf.tolist() == [6, 0, 6, 6]
    assert (env.x == before).all(dim=1).tolist() == [True, False, True, True]


def test_far_goal_keeps_the_contract():
    env = FarGoalEnv(FarGoalConfig(num_envs=4, episode_steps=2))
    assert check_vec_env(env, num_steps=5) == []
    assert isinstance(env, Resettable) and isinstance(env, Checkpointable) and not isinstance(env, Mirrored)
