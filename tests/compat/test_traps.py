"""What clients do that is easily broken and that no other file tests."""

import copy
from importlib.metadata import PackageNotFoundError, version

import pytest
import torch

from rsl_rl.env import StepResult, VecEnv, as_vec_env
from rsl_rl.runners import OnPolicyRunner
from tests.compat.era_configs import v1, v2, v3, v5
from tests.compat.test_client_symmetry import Batch
from tests.era_clients import A, C, D, N, V1Env, V1PrivilegedEnv, V2Env, V3Env, V5Env


def for_v3_env():
    return {**v3(), "obs_groups": {"policy": ("state",), "critic": ["privileged_state"]}}


def test_the_distribution_has_the_name_and_version_that_clients_ask_for():
    assert int(version("rsl-rl-lib").split(".")[0]) >= 5
    with pytest.raises(PackageNotFoundError):
        version("rsl-rl")  # Genesis refuses to run beside it


def test_a_folder_in_front_names_the_version_that_a_script_asks_for(tmp_path, monkeypatch):
    """As docs/migrating.md says for Genesis 0.3."""
    folder = tmp_path / "rsl_rl_lib-2.2.4.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: rsl-rl-lib\nVersion: 2.2.4\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert version("rsl-rl-lib") == "2.2.4"


def test_learning_asks_for_observations_once():
    """playground resets its environments when it is asked for observations."""
    env = V3Env()
    runner = OnPolicyRunner(env, for_v3_env())
    asked = []
    get_observations = env.get_observations
    env.get_observations = lambda: asked.append(1) or get_observations()
    runner.learn(3)
    assert len(asked) == 1


@pytest.mark.parametrize("random_ages", [True, False])
def test_episode_lengths_are_written_where_random_ages_are_asked_for_alone(random_ages):
    written = []

    class Counting(V5Env):
        @property
        def episode_length_buf(self):
            return self._ages

        @episode_length_buf.setter
        def episode_length_buf(self, value):
            written.append(value)
            self._ages = value

    runner = OnPolicyRunner(Counting(), v5())
    written.clear()
    runner.learn(1, init_at_random_ep_len=random_ages)
    ours = [value for value in written if len(value.unique()) > 2]
    assert bool(ours) == random_ages


@pytest.mark.parametrize(
    ("dtype", "column", "time_outs"),
    [
        (torch.bool, True, torch.bool),
        (torch.long, False, torch.bool),
        (torch.long, True, torch.float),
        (torch.float, False, None),
        (torch.float, True, torch.uint8),
        (torch.uint8, False, torch.long),
    ],
)
def test_dones_and_time_outs_of_any_type_and_shape_mean_the_same(dtype, column, time_outs):
    class Typed(V5Env):
        def step(self, actions):
            obs, reward, done, extras = super().step(actions)
            shape = (N, 1) if column else (N,)
            flags = {} if time_outs is None else {"time_outs": extras["time_outs"].to(time_outs)}
            return obs, reward, done.to(dtype).reshape(shape), flags

    class Plain(V5Env):
        def step(self, actions):
            obs, reward, done, extras = super().step(actions)
            return obs, reward, done, {} if time_outs is None else {"time_outs": extras["time_outs"]}

    stored = []
    for env in (Typed(), Plain()):
        torch.manual_seed(0)
        env._ages[:] = torch.arange(N)
        alg = OnPolicyRunner(env, v5()).alg
        client = as_vec_env(env)
        obs = client.get_observations()
        for _ in range(6):
            obs, reward, done, extras = client.step(alg.act(obs))
            alg.process_env_step(obs, reward, done, extras)
        alg.compute_returns(obs)
        stored.append({name: alg.storage.columns[name].clone() for name in ("dones", "rewards")})
    assert stored[1]["dones"].any()
    assert all(torch.equal(stored[0][name], stored[1][name]) for name in stored[0])


def test_values_of_the_log_of_any_shape_keep_their_names(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    class Logging(V5Env):
        steps, own = 0, {}

        def step(self, actions):
            obs, reward, done, extras = super().step(actions)
            type(self).steps += 1
            log = {"scalar": 1.5, "zero_d": torch.tensor(2.0), "one_d": torch.tensor([3.0, 5.0]), "Metrics/height": 4}
            self.own = {**log, **({"sometimes": 7.0} if self.steps % 2 else {})}
            before = copy.copy(self.own)
            self.logged = (self.own, before)
            return (
                obs,
                reward,
                done,
                {"time_outs": extras["time_outs"], "episode" if self.steps < 9 else "log": self.own},
            )

    env = Logging()
    OnPolicyRunner(env, v5(), str(tmp_path)).learn(2)
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    values = {tag: events.Scalars(tag)[-1].value for tag in events.Tags()["scalars"]}
    found = {tag: values[f"Episode/{tag}"] for tag in ("scalar", "zero_d", "one_d", "sometimes")}
    assert found == {"scalar": 1.5, "zero_d": 2.0, "one_d": 4.0, "sometimes": 7.0}
    assert values["Metrics/height"] == 4.0 and "Episode/Metrics/height" not in values
    assert env.logged[0] == env.logged[1]  # the environment's own dict is as it was


@pytest.mark.parametrize("device", ["cpu", torch.device("cpu")], ids=["text", "device"])
def test_groups_without_a_batch_size_are_read_by_name_on_a_device_of_either_kind(device):
    runner = OnPolicyRunner(V5Env(wrap=lambda groups: Batch(groups, [])), v5(), None, device)
    runner.learn(1)
    assert torch.device(runner.device) == torch.device("cpu")


@pytest.mark.parametrize("config", [v1, v2, v3, v5])
def test_the_inference_policy_takes_what_its_version_gives(config):
    env = {v1: V1Env, v2: V2Env, v3: V5Env, v5: V5Env}[config]()
    runner = OnPolicyRunner(env, config())
    policy, obs = runner.get_inference_policy(device="cpu"), torch.randn(N, D)
    group = runner.alg.policy.actor_model.groups[0]
    for groups in ({group: obs, "other": torch.zeros(N, 9)}, Batch({group: obs}, [N]), Batch({group: obs}, [])):
        torch.testing.assert_close(policy(groups), policy(obs))
    policy.reset(torch.ones(N, dtype=torch.long))


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_the_inference_policy_has_the_names_of_a_network_of_version_5(kind):
    runner = OnPolicyRunner(V5Env(), v5(rnn_type=kind, rnn_hidden_dim=12))
    policy = runner.get_inference_policy(device="cpu")
    obs = {"actor": torch.randn(N, D)}
    policy(obs)
    state = policy.get_hidden_state()
    assert (state if kind == "gru" else state[0]).shape == (1, N, 12) and policy.rnn.rnn.hidden_size == 12
    assert policy.as_onnx(verbose=False).input_names[0] == "obs" and policy.mlp[-1].out_features == A
    policy.reset(torch.ones(N))
    assert not torch.stack(list(policy.get_hidden_state())).any()


def test_a_runner_that_overrides_load_and_the_exports_is_asked(tmp_path):
    called = []

    class Runner(OnPolicyRunner):
        def load(self, path, load_cfg=None, strict=True, map_location=None):
            called.append("load")
            return super().load(path, load_cfg, strict, map_location)

        def export_policy_to_jit(self, path, filename="policy.pt"):
            called.append("jit")
            return super().export_policy_to_jit(path, filename)

        def export_policy_to_onnx(self, path, filename="policy.onnx", verbose=False):
            called.append("onnx")
            super().export_policy_to_onnx(path, filename, verbose)
            super().export_policy_to_onnx(path, "other.onnx", verbose=True)

    pytest.importorskip("onnxscript")
    runner = Runner(V5Env(), v5())
    runner.save(str(tmp_path / "model.pt"), {"note": 1})
    assert runner.load(str(tmp_path / "model.pt"), {"actor": True}, True, "cpu") == {"note": 1}
    runner.export_policy_to_jit(str(tmp_path))
    runner.export_policy_to_onnx(str(tmp_path), verbose=True)
    assert called == ["load", "jit", "onnx"]
    assert all((tmp_path / name).exists() for name in ("policy.pt", "policy.onnx", "other.onnx"))


def test_an_environment_may_have_its_attributes_as_properties_and_no_constructor_of_ours():
    class Properties(VecEnv):
        num_envs, num_actions, device = N, A, "cpu"

        def __init__(self):
            self.inner = V5Env()

        @property
        def cfg(self):
            return {"task": "point"}

        @property
        def max_episode_length(self):
            return 10

        @property
        def episode_length_buf(self):
            return self.inner.episode_length_buf

        @episode_length_buf.setter
        def episode_length_buf(self, value):
            self.inner.episode_length_buf = value

        def get_observations(self):
            return self.inner.get_observations()

        def step(self, actions):
            return StepResult(*self.inner.step(actions))

    env = Properties()
    OnPolicyRunner(env, v5()).learn(1, init_at_random_ep_len=True)
    assert len(env.inner.episode_length_buf.unique()) > 1


def test_reused_rewards_and_observations_are_those_of_their_step():
    """Version 1: the buffers are written in place, and the client's own loop keeps references."""
    env = V1PrivilegedEnv()
    alg = OnPolicyRunner(env, v1()).alg
    obs, critic_obs, seen = env.get_observations(), env.get_privileged_observations(), []
    for _ in range(6):
        seen.append((obs.clone(), critic_obs.clone()))
        obs, critic_obs, rewards, dones, _ = env.step(alg.act(obs, critic_obs))
        seen[-1] += (rewards.clone(),)
        alg.process_env_step(rewards, dones, {})
    stored = alg.storage
    for i, (policy, critic, reward) in enumerate(seen):
        assert torch.equal(stored.groups["policy"][i], policy) and torch.equal(stored.groups["critic"][i], critic)
        assert torch.equal(stored.rewards[i].squeeze(-1), reward)
    assert stored.groups["critic"].shape == (6, N, C)
