from dataclasses import replace

import pytest
import torch

from configs import EXPERIMENTS
from rsl_rl.config.task import FarGoalConfig
from rsl_rl.env import check_vec_env
from rsl_rl.env.protocols import Checkpointable, Mirrored, Resettable, supports
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.tasks.toy import FarGoalEnv


def far_goal(**settings) -> FarGoalEnv:
    return FarGoalEnv(FarGoalConfig(**{"num_envs": 4, **settings}))


def doors(env, right):
    """The right door of each walker's room, or the one after it."""
    return (env.right_doors[env.x] + (0 if right else 1)).remainder(env.num_actions).unsqueeze(1)


def test_far_goal_right_doors_lead_to_the_reward_one_room_a_step():
    env = far_goal()
    rewards = []
    for t in range(30):
        assert env.get_observations()["policy"].argmax(dim=1).tolist() == [min(t, 23)] * 4
        rewards.append(env.step(doors(env, right=True)).reward.tolist())
    assert rewards == [[0.0] * 4] * 22 + [[1.0] * 4] * 8


def test_far_goal_wrong_door_leads_back_except_from_the_last_room():
    env = far_goal()
    env.x = torch.tensor([0, 1, 22, 23])
    result = env.step(doors(env, right=False))
    assert env.x.tolist() == [0, 0, 0, 23] and result.reward.tolist() == [0, 0, 0, 1]
    assert torch.equal(result.obs["policy"], torch.eye(24)[env.x])


def test_far_goal_layout_depends_on_layout_seed_only():
    first, second = (FarGoalEnv(FarGoalConfig(num_envs=n), seed=n) for n in (2, 5))
    assert torch.equal(first.right_doors, second.right_doors)
    assert not torch.equal(first.right_doors, far_goal(layout_seed=1).right_doors)
    assert set(far_goal(num_rooms=100, episode_steps=100).right_doors.tolist()) == {0, 1, 2, 3}


def test_far_goal_random_doors_do_not_reach_the_last_room():
    env = far_goal(num_envs=1000)
    furthest = 0
    for _ in range(320):
        env.step(torch.randint(4, (1000, 1)))
        furthest = max(furthest, env.x.max().item())
    assert furthest < 13  # with the probability 4**-13 a step


def test_far_goal_episodes_end_by_the_clock_in_the_first_room():
    env = far_goal(episode_steps=24)
    for t in range(48):
        _, _, done, extras = env.step(doors(env, right=True))
        assert (done == (t % 24 == 23)).all() and torch.equal(extras["time_outs"], done)
    assert env.x.tolist() == [0] * 4 and extras["final_obs"]["policy"].argmax(dim=1).tolist() == [23] * 4


def test_far_goal_state_restores_the_next_steps():
    env, other = far_goal(episode_steps=27), far_goal(episode_steps=27)
    for _ in range(5):
        env.step(doors(env, right=True))
    other.load_state_dict(env.state_dict())
    generator = torch.Generator().manual_seed(0)
    for _ in range(29):  # through resets
        actions = torch.randint(4, (4, 1), generator=generator)
        a, b = env.step(actions), other.step(actions)
        assert torch.equal(a.obs["policy"], b.obs["policy"]) and torch.equal(a.done, b.done)


@pytest.mark.parametrize("actions", [torch.zeros(4, 1), torch.zeros(4, dtype=torch.int64)])
def test_far_goal_actions_of_another_kind_raise(actions):
    with pytest.raises(ValueError, match=r"give the index of a door, int64 \[4, 1\]"):
        far_goal().step(actions)


def test_far_goal_config_of_too_short_episodes_raises():
    with pytest.raises(ValueError, match="episode_steps=23 ends an episode before room 24; raise it"):
        FarGoalConfig(episode_steps=23)


def test_far_goal_keeps_the_contract():
    env = far_goal()
    assert check_vec_env(env, num_steps=5, actions=torch.zeros(4, 1, dtype=torch.int64)) == []
    assert supports(env, Resettable) and supports(env, Checkpointable) and not supports(env, Mirrored)


def rewards_of_training(name, seed):
    """The mean reward of the last step of each rollout."""
    cfg = EXPERIMENTS.load(name)()
    cfg = replace(cfg, runner=replace(cfg.runner, logger="none"))
    torch.manual_seed(seed)
    env = cfg.env.build(seed=seed)
    step, results, rewards = env.step, [], []
    env.step = lambda actions: results.append(step(actions)) or results[-1]
    runner = OnPolicyRunner(env, cfg)
    runner.after_update.append(lambda iteration: rewards.append(results[-1].reward.mean().item()) or {})
    runner.learn(cfg.runner.max_iterations, init_at_random_ep_len=True)
    return rewards


@pytest.mark.slow
@pytest.mark.parametrize("seed", [31, 32, 33, 34, 35])
def test_far_goal_is_reached_with_random_network_distillation_and_missed_without(seed):
    """Seeds 1 to 15 served to choose the settings. A walker that knows the way spends half of its time in the room."""
    assert max(rewards_of_training("far_goal", seed)) == 0.0
    assert sum(rewards_of_training("far_goal_rnd", seed)[-20:]) / 20 > 0.4
