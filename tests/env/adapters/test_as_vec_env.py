from dataclasses import replace

import numpy as np
import pytest
import torch

from rsl_rl.config.task import ToyConfig
from rsl_rl.env import as_vec_env, check_vec_env
from rsl_rl.env.protocols import HasEpisodeLengths, Resettable, supports
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.tasks.toy import PointEnv
from tests.era_clients import LIMIT, A, C, D, N, Point, V1Env, V1PrivilegedEnv, V2Env, V3Env, V5Env


def shapes(env):
    return {name: list(group.shape) for name, group in env.get_observations().items()}


def for_groups(cfg, env):
    """Return a config whose networks read what an environment gives."""
    names = sorted(as_vec_env(env).get_observations().keys())
    actor = next(name for name in ("policy", "actor", "state") if name in names)
    return replace(cfg, policy=replace(cfg.policy, actor_groups=(actor,)))


def test_as_vec_env_of_our_own_environment_returns_it():
    env = PointEnv(ToyConfig(num_envs=4))
    assert as_vec_env(env) is env


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        (V1Env, {"policy": [N, D]}),
        (V1PrivilegedEnv, {"policy": [N, D], "critic": [N, C]}),
        (V2Env, {"policy": [N, D], "critic": [N, C], "rnd_state": [N, A]}),
        (V3Env, {"state": [N, D], "privileged_state": [N, C]}),
        (V5Env, {"actor": [N, D], "critic": [N, C]}),
    ],
)
def test_as_vec_env_of_each_era_gives_its_observations_as_groups(env, expected):
    adapted = as_vec_env(env())
    assert shapes(adapted) == expected
    obs, reward, done, extras = adapted.step(torch.zeros(N, A))
    assert {name: list(group.shape) for name, group in obs.items()} == expected
    assert reward.is_floating_point() and extras.get("time_outs", done).numel() == N


def test_as_vec_env_of_zero_privileged_observations_has_no_critic_group():
    class Env(V1Env):
        num_privileged_obs = 0

        def get_privileged_observations(self):
            return torch.zeros(N, 0)

    assert shapes(as_vec_env(Env())) == {"policy": [N, D]}


def test_as_vec_env_resets_environments_of_single_tensors_once_and_no_others():
    env = V1Env()
    as_vec_env(env)
    assert env.num_resets == 1

    class Extras(V2Env):
        def reset(self):
            raise AssertionError("rsl_rl 2 never resets")

        def get_privileged_observations(self):
            return None

    as_vec_env(Extras())


def test_attributes_that_are_set_on_an_adapter_reach_the_environment():
    env = V1Env()
    adapted = as_vec_env(env)
    ages = torch.arange(N)
    adapted.episode_length_buf = ages
    adapted.curriculum = 3
    assert env.episode_length_buf is ages and env.curriculum == 3 and adapted.curriculum == 3
    assert supports(adapted, HasEpisodeLengths) and not supports(adapted, Resettable)


def test_an_environment_without_cfg_device_and_limit_gets_them_from_its_observations():
    env = V3Env()
    del env.max_episode_length
    adapted = as_vec_env(env)
    assert adapted.cfg == {} and adapted.device == torch.device("cpu") and adapted.max_episode_length > 10**6
    assert not supports(adapted, HasEpisodeLengths)


@pytest.mark.parametrize("limit", [7, 7.0, np.array(7), np.int64(7), torch.tensor(7), torch.full((N,), 7)])
def test_a_limit_of_any_numeric_kind_passes_the_check(limit):
    env = V3Env()
    env.max_episode_length = limit
    adapted = as_vec_env(env)
    check_vec_env(adapted, groups=("state",))
    assert float(torch.as_tensor(adapted.max_episode_length).max()) == 7


@pytest.mark.parametrize("env", [V1Env, V1PrivilegedEnv, V2Env, V3Env, V5Env])
def test_the_runner_trains_in_an_environment_of_each_era_and_keeps_the_clients_object(env, small_cfg):
    client = env()
    runner = OnPolicyRunner(client, for_groups(small_cfg, env()), device=torch.device("cpu"))
    assert runner.env is client
    runner.learn(2, init_at_random_ep_len=env is not V3Env)
    assert runner.tot_timesteps == 2 * 8 * N


def test_random_episode_ages_reach_the_environment(small_cfg):
    client = V1Env()
    seen = []
    advance = client.advance
    client.advance = lambda actions: (seen.append(client.episode_length_buf.clone()), advance(actions))
    runner = OnPolicyRunner(client, small_cfg)
    seen.clear()
    runner.learn(1, init_at_random_ep_len=True)
    assert len(seen[0].unique()) > 2 and seen[0].max() < LIMIT


def test_stale_time_outs_add_no_value_to_the_reward(small_cfg, monkeypatch):
    """legged_gym leaves the time_outs of the last reset in its extras."""
    client = V1Env()
    runner = OnPolicyRunner(client, small_cfg)
    collected = {}
    update = runner.alg.update

    def spy():
        collected.update({name: column.clone() for name, column in runner.alg.storage.columns.items()})
        return update()

    rewards, dones = [], []
    step = client.step
    client.step = lambda a: [rewards.append(client.rew_buf.clone()), dones.append(client.reset_buf.clone())] and step(a)
    monkeypatch.setattr(runner.alg, "update", spy)
    client.extras["time_outs"] = torch.ones(N, dtype=torch.bool)
    runner.learn(1)
    rewards, dones = torch.stack([*rewards[1:], client.rew_buf]), torch.stack([*dones[1:], client.reset_buf]).bool()
    assert dones.any() and not dones.all()
    torch.testing.assert_close(collected["rewards"].squeeze(-1)[~dones], rewards[~dones])
    assert (collected["rewards"].squeeze(-1)[dones] != rewards[dones]).any()


def test_a_reused_observation_buffer_is_stored_as_it_was_acted_on(small_cfg, monkeypatch):
    client = V1Env()
    runner = OnPolicyRunner(client, small_cfg)
    acted_on = []
    policy_step = runner.alg._policy_step
    stored = {}
    update = runner.alg.update
    monkeypatch.setattr(
        runner.alg, "_policy_step", lambda *given: (acted_on.append(client.obs_buf.clone()), policy_step(*given))[1]
    )
    monkeypatch.setattr(
        runner.alg, "update", lambda: (stored.update(obs=runner.alg.storage.groups["policy"].clone()), update())[1]
    )
    runner.learn(1)
    torch.testing.assert_close(stored["obs"], torch.stack(acted_on))


def test_the_environments_own_extras_are_not_written_to(small_cfg):
    class Env(V1Env):
        def step(self, actions):
            self.extras = Frozen(time_outs=self.time_out_buf, episode=Frozen(rew=1.0))
            return super().step(actions)

        def reset_done(self, ids):
            Point.reset_done(self, ids)

    class Frozen(dict):
        def __setitem__(self, key, value):
            raise AssertionError(f"{key} is written")

    OnPolicyRunner(Env(), small_cfg).learn(1)


def test_tensordicts_without_batch_size_are_read_by_name(small_cfg):
    tensordict = pytest.importorskip("tensordict")
    client = V5Env(wrap=lambda groups: tensordict.TensorDict(groups, batch_size=[]))
    runner = OnPolicyRunner(client, replace(small_cfg, policy=replace(small_cfg.policy, actor_groups=("actor",))))
    runner.learn(1)
    policy = runner.get_inference_policy()
    assert policy(client.get_observations()).shape == (N, A)
    assert policy({"actor": client.obs_buf}).shape == policy(client.obs_buf).shape == (N, A)


@pytest.mark.parametrize(
    ("methods", "words"),
    [
        ({}, "no get_observations"),
        ({"get_observations": lambda self: 3}, "returns a int"),
        ({"get_observations": lambda self: (1, 2, 3)}, "returns a tuple"),
    ],
)
def test_as_vec_env_of_something_else_says_what_it_looked_for(methods, words):
    with pytest.raises(TypeError, match=f"{words}.*Looked for.*gymnasium"):
        as_vec_env(type("Thing", (), methods)())


def test_a_step_of_six_results_is_refused():
    class Env(V1Env):
        def step(self, actions):
            return (*super().step(actions), None)

    with pytest.raises(TypeError, match="gives 6 values"):
        as_vec_env(Env()).step(torch.zeros(N, A))
