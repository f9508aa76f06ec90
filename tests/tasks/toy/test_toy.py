import pytest
import torch

from rsl_rl.config.task import CameraConfig, ChoiceConfig, RecallConfig, ToyConfig
from rsl_rl.env import check_vec_env
from rsl_rl.env.protocols import Checkpointable, Mirrored, Resettable, supports
from rsl_rl.tasks.toy import CameraEnv, ChoiceEnv, PointEnv, RecallEnv


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


def test_choice_rewards_the_index_before_the_one_shown():
    env = ChoiceEnv(ChoiceConfig(num_envs=200, num_choices=5, episode_steps=3))
    assert env.num_actions == 5
    for t in range(6):
        obs = env.get_observations()["policy"]
        assert obs.shape == (200, 5) and (obs.sum(dim=1) == 1).all()
        shown = obs.argmax(dim=1)
        assert set(shown.tolist()) == {0, 1, 2, 3, 4}
        right = (shown - 1) % 5
        actions = torch.where(torch.arange(200) < 100, right, shown)  # half of them right
        _, reward, done, extras = env.step(actions.unsqueeze(1))
        assert (reward == (torch.arange(200) < 100).float()).all()
        assert (done == (t % 3 == 2)).all() and torch.equal(extras["time_outs"], done)
        assert not torch.equal(env.get_observations()["policy"], obs)  # a new question


@pytest.mark.parametrize("actions", [torch.zeros(4, 1), torch.zeros(4, 4, dtype=torch.long), torch.zeros(4).long()])
def test_choice_with_actions_that_are_no_indices_raises(actions):
    env = ChoiceEnv(ChoiceConfig(num_envs=4))
    with pytest.raises(ValueError, match=r"give the index of an answer, int64 \[4, 1\]"):
        env.step(actions)


def test_choice_of_one_is_refused():
    with pytest.raises(ValueError, match=r"env.num_choices=1: give a whole number from 2"):
        ChoiceConfig(num_choices=1)


def test_camera_shows_the_position_and_policy_group_the_last_action():
    env = CameraEnv(CameraConfig(num_envs=3))
    assert (env.get_observations()["policy"] == 0).all()
    env.x = torch.tensor([[0.0, 0.0], [2.9, 0.0], [-1.0, 0.0]])
    obs, reward, done, extras = env.step(torch.tensor([[0.5], [9.0], [-1.0]]))
    position = torch.tensor([0.1, 3.1, -1.2])
    final = extras["final_obs"]
    assert torch.allclose(reward, 1.0 - position.abs())
    assert done.tolist() == [False, True, False] and not extras["time_outs"].any()
    assert final["camera"].shape == (3, 1, 8, 16) and final["camera"].dtype == torch.float32
    column = torch.linspace(-3.0, 3.0, 16)
    seen = (final["camera"] * column).sum(dim=(1, 2, 3)) / final["camera"].sum(dim=(1, 2, 3))
    assert torch.allclose(seen[[0, 2]], position[[0, 2]], atol=0.01)
    assert final["camera"][1].argmax(dim=-1).unique().tolist() == [15]  # at the edge
    assert final["policy"].tolist() == [[0.5], [1.0], [-1.0]]
    assert obs["policy"].tolist() == [[0.5], [0.0], [-1.0]]  # the second has a new episode
    assert torch.equal(obs["camera"][[0, 2]], final["camera"][[0, 2]])
    assert not torch.equal(obs["camera"][1], final["camera"][1])


def test_camera_mirrors_commute_with_a_step():
    env, image = (CameraEnv(CameraConfig(num_envs=6, episode_steps=100)) for _ in range(2))
    mirrors = env.mirrors()
    image.x = -env.x
    actions = torch.linspace(-1.5, 1.5, 6).unsqueeze(1)
    index, sign = mirrors["actions"]
    for _ in range(3):
        a, b = env.step(actions), image.step(actions[..., index] * sign)
        assert torch.equal(a.reward, b.reward) and set(mirrors) == {*a.obs, "actions"}
        for group in a.obs:
            index_of, sign_of = mirrors[group]
            torch.testing.assert_close(a.obs[group][..., index_of] * sign_of, b.obs[group])


@pytest.mark.parametrize(
    ("build", "actions"),
    [
        (
            lambda seed: ChoiceEnv(ChoiceConfig(num_envs=4, episode_steps=5), seed=seed),
            torch.tensor([[0], [1], [2], [3]]),
        ),
        (lambda seed: CameraEnv(CameraConfig(num_envs=4, episode_steps=5), seed=seed), torch.full((4, 1), 0.3)),
    ],
    ids=["choice", "camera"],
)
def test_toy_with_new_groups_keeps_the_contract_and_restores_its_state(build, actions):
    env, other = build(1), build(2)
    assert check_vec_env(env, num_steps=7, actions=actions) == []
    other.load_state_dict(env.state_dict())
    for group, x in env.get_observations().items():
        assert torch.equal(x, other.get_observations()[group])
    for _ in range(12):  # through resets
        a, b = env.step(actions), other.step(actions)
        assert torch.equal(a.reward, b.reward)
        assert all(torch.equal(a.obs[group], b.obs[group]) for group in a.obs)
    assert supports(env, Resettable) and supports(env, Checkpointable)
    assert supports(env, Mirrored) == isinstance(env, CameraEnv)
