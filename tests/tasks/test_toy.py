import torch

from rsl_rl.config.task import RecallConfig, ToyConfig
from rsl_rl.tasks.toy import PointEnv, RecallEnv


def test_a_point_moves_as_told_and_fails_beyond_three():
    env = PointEnv(ToyConfig(num_envs=3))
    env.x = torch.tensor([0.0, 2.9, -1.0])
    obs, reward, done, extras = env.step(torch.tensor([[0.5], [9.0], [-1.0]]))
    assert torch.allclose(extras["final_obs"]["policy"][:, 0], torch.tensor([0.1, 3.1, -1.2]))
    assert torch.allclose(reward, torch.tensor([0.9, -2.1, -0.2]))
    assert done.tolist() == [False, True, False] and not extras["time_outs"].any()
    assert obs["policy"][1].abs() <= 2.0  # a new episode


def test_the_clock_is_no_failure():
    env = PointEnv(ToyConfig(num_envs=2, episode_steps=2))
    env.step(torch.zeros(2, 1))
    _, _, done, extras = env.step(torch.zeros(2, 1))
    assert done.all() and extras["time_outs"].all() and (env.episode_length_buf == 0).all()


def test_its_state_comes_back():
    env, other = PointEnv(ToyConfig(num_envs=4), seed=1), PointEnv(ToyConfig(num_envs=4), seed=2)
    env.step(torch.ones(4, 1))
    other.load_state_dict(env.state_dict())
    for _ in range(40):  # through resets, whose draws must agree too
        a, b = env.step(torch.ones(4, 1)), other.step(torch.ones(4, 1))
        assert torch.equal(a.obs["policy"], b.obs["policy"])
    env.reset([0])
    assert env.episode_length_buf[0] == 0


def test_a_sign_is_shown_once_and_asked_for_until_the_end():
    env = RecallEnv(RecallConfig(num_envs=50, episode_steps=3))
    sign = env.x.clone()
    assert set(sign.tolist()) == {-1.0, 1.0}
    assert torch.equal(env.get_observations()["policy"], torch.stack((sign, torch.ones(50)), dim=1))
    for t in range(3):
        obs, reward, done, extras = env.step(sign.unsqueeze(1))
        assert (reward == 1).all() and (done == (t == 2)).all() and torch.equal(extras["time_outs"], done)
        assert (extras["final_obs"]["policy"] == 0).all()
    assert torch.equal(obs["policy"][:, 0], env.x) and (obs["policy"][:, 1] == 1).all()  # the next episode's
    assert (env.step(torch.zeros(50, 1)).reward == 0).all()


def test_a_state_holds_what_was_shown_whatever_became_of_the_ages_since():
    env, other = (RecallEnv(RecallConfig(num_envs=4), seed=seed) for seed in (1, 2))
    env.episode_length_buf = torch.tensor([0, 3, 5, 7])
    other.load_state_dict(env.state_dict())
    assert torch.equal(env.get_observations()["policy"], other.get_observations()["policy"])
