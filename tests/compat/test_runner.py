"""What clients of each era touch on the runner, its algorithm and its policy."""

import copy
import math
from dataclasses import dataclass, replace
from typing import ClassVar

import pytest
import torch
from rsl_rl.models import MLPModel

from rsl_rl.compat import convert_checkpoint
from rsl_rl.compat.checkpoints import Version
from rsl_rl.config.extensions import ExtensionConfig
from rsl_rl.extensions import Extension
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.utils.checkpoints import CheckpointError, read_checkpoint
from tests.compat.era_configs import CONFIGS, HIDDEN, v1, v5
from tests.era_clients import A, C, D, N, V1Env, V1PrivilegedEnv, V2Env, V5Env

ENVS = {1: V1PrivilegedEnv, 2: V2Env, 3: V5Env, 4: V5Env, 5: V5Env}


def runner_of(major, log_dir=None, **policy):
    return OnPolicyRunner(ENVS[major](), CONFIGS[major](**policy), log_dir, "cpu")


@pytest.mark.parametrize(("major", "files"), [(1, {0, 2, 3}), (2, {0, 2}), (3, {0, 2}), (5, {0, 2})])
def test_files_and_iterations_are_numbered_as_in_the_era(major, files, tmp_path):
    runner = runner_of(major, str(tmp_path))
    assert runner.current_learning_iteration == 0
    runner.learn(num_learning_iterations=3, init_at_random_ep_len=True)
    last = 3 if major == 1 else 2
    assert runner.current_learning_iteration == last
    assert {int(path.stem.split("_")[1]) for path in tmp_path.glob("model_*.pt")} == files
    again = runner_of(major)
    again.load(str(tmp_path / f"model_{last}.pt"))
    assert again.current_learning_iteration == last
    again.learn(2)
    assert again.current_learning_iteration == last + 2


def test_a_runner_that_overrides_save_is_asked_for_every_file(tmp_path):
    saved = []

    class Runner(OnPolicyRunner):
        def save(self, path, infos=None):
            super().save(path, infos)
            saved.append(path.split("model")[1])
            self.logger.save_model(path, self.current_learning_iteration)

    Runner(V5Env(), v5(), str(tmp_path), "cpu").learn(3)
    assert saved == ["_0.pt", "_0.pt", "_2.pt"]  # the start, and the update with its number


@pytest.mark.parametrize("major", [1, 2, 3, 5])
def test_one_update_is_in_the_last_file(major, tmp_path):
    runner = runner_of(major, str(tmp_path))
    runner.learn(1)
    saved = read_checkpoint(tmp_path / f"model_{1 if major == 1 else 0}.pt")["model_state_dict"]
    assert all(torch.equal(saved[name], value) for name, value in runner.alg.policy.state_dict().items())


def test_a_runner_that_overrides_log_gets_the_numbers_of_each_iteration():
    seen = []

    class Runner(OnPolicyRunner):
        def log(self, locs, width=80, pad=35):
            super().log(locs, width, pad)
            seen.append((locs["it"], locs["mean_value_loss"], locs["collection_time"] + locs["learn_time"]))

    Runner(V1Env(), v1()).learn(2)
    assert [number for number, _, _ in seen] == [1, 2]
    assert all(isinstance(loss, float) and seconds > 0 for _, loss, seconds in seen)


@pytest.mark.parametrize("major", CONFIGS)
def test_the_runner_has_the_attributes_of_every_era(major, tmp_path):
    runner = runner_of(major, str(tmp_path))
    assert runner.alg.actor_critic is runner.alg.policy
    assert runner.obs_normalizer is runner.alg.policy.actor_obs_normalizer
    assert runner.privileged_obs_normalizer is runner.critic_obs_normalizer
    assert runner.logger_type == runner.logger.logger_type == "tensorboard"
    assert runner.cfg["num_steps_per_env"] == 6 and runner.alg_cfg["num_learning_epochs"] == 2
    assert runner.logger.log_dir == str(tmp_path) and not runner.disable_logs
    assert not hasattr(runner.alg.policy, "student") and not hasattr(runner.alg.policy, "memory_a")
    assert runner.alg.rnd is None
    runner.add_git_repo_to_log(__file__)
    runner.git_status_repos.append(__file__)
    runner.learn(1)
    assert runner.logger.tot_timesteps == 6 * N and runner.logger.tot_time > 0


def test_what_a_client_writes_reaches_tensorboard(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    runner = runner_of(2, str(tmp_path))
    runner.writer.add_scalar("Client/number", 7.0, 1)
    runner.logger.stop_logging_writer()
    events = EventAccumulator(str(tmp_path))
    events.Reload()
    assert [event.value for event in events.Scalars("Client/number")] == [7.0]
    assert runner_of(2).writer is None  # without a folder there is none


def test_the_actor_can_be_scripted_alone(tmp_path):
    runner = runner_of(1)
    obs = torch.randn(4, D)
    actor = copy.deepcopy(runner.alg.actor_critic.actor).to("cpu")
    torch.jit.script(actor).save(str(tmp_path / "policy.pt"))
    expected = runner.alg.actor_critic.act_inference(obs)
    torch.testing.assert_close(torch.jit.load(str(tmp_path / "policy.pt"))(obs), expected)


def test_a_recurrent_actor_can_be_scripted_by_its_parts():
    class Exporter(torch.nn.Module):
        def __init__(self, actor_critic):
            super().__init__()
            self.actor = copy.deepcopy(actor_critic.actor)
            self.memory = copy.deepcopy(actor_critic.memory_a.rnn)

        def forward(self, x, h, c):
            y, _ = self.memory(x.unsqueeze(0), (h, c))
            return self.actor(y.squeeze(0))

    policy = runner_of(1, rnn_type="lstm", rnn_hidden_size=12).alg.actor_critic
    assert policy.is_recurrent and hasattr(policy, "memory_a")
    scripted, obs, zeros = torch.jit.script(Exporter(policy)), torch.randn(1, D), torch.zeros(1, 1, 12)
    policy.reset()
    torch.testing.assert_close(scripted(obs, zeros, zeros), policy.act_inference(obs))


@pytest.mark.parametrize("memory", [{}, {"rnn_type": "gru", "rnn_hidden_dim": 12}, {"rnn_type": "lstm"}])
def test_the_policy_of_version_5_acts_and_exports(memory):
    runner = runner_of(5, **memory)
    runner.learn(1)
    model = runner.alg.get_policy()
    assert model.is_recurrent == bool(memory) and model.mlp[-1].out_features == A and model.output_std.shape == (A,)
    steps = [torch.randn(1, D) for _ in range(3)]
    model.reset()
    expected = [model({"actor": obs}).clone() for obs in steps]
    jit, onnx = torch.jit.script(model.as_jit()), model.as_onnx(verbose=False)
    for _ in range(2):
        jit.reset()
        for obs, action in zip(steps, expected):
            torch.testing.assert_close(jit(obs), action)
    assert onnx.input_size == D and onnx.input_names[0] == "obs" and onnx.output_names[0] == "actions"
    outputs = onnx(*onnx.get_dummy_inputs())
    assert (outputs if isinstance(outputs, torch.Tensor) else outputs[0]).shape == (1, A)
    drawn = model({"actor": steps[0]}, stochastic_output=True)
    assert model.get_output_log_prob(drawn).shape == (1,)
    runner.alg.critic.reset()
    assert runner.alg.critic({"critic": torch.zeros(1, C)}).shape == (1, 1)
    policy = runner.get_inference_policy(device="cpu").to("cpu")
    policy.reset(torch.ones(1))
    torch.testing.assert_close(policy({"actor": steps[0]}), expected[0])
    assert policy.is_recurrent == bool(memory)


def test_the_algorithm_of_version_5_saves_and_loads_by_parts():
    one, other = runner_of(5), runner_of(5)
    one.learn(2)
    saved = {**one.alg.save(), "iter": 7, "infos": None}
    assert {"actor_state_dict", "critic_state_dict", "optimizer_state_dict"} <= set(saved)
    assert {"mlp.0.weight", "distribution.std_param", "obs_normalizer._mean"} <= set(saved["actor_state_dict"])
    critic = copy.deepcopy(other.alg.policy.critic.state_dict())
    assert not other.alg.load(copy.deepcopy(saved), {"actor": True}, True)
    for name, value in one.alg.policy.actor.state_dict().items():
        assert torch.equal(other.alg.policy.actor.state_dict()[name], value)
    assert all(torch.equal(other.alg.policy.critic.state_dict()[name], value) for name, value in critic.items())
    assert other.alg.load(copy.deepcopy(saved), None, True)
    assert torch.equal(other.alg.policy.critic[0].weight, one.alg.policy.critic[0].weight)


def test_loading_by_parts_from_a_file(tmp_path):
    one = runner_of(5)
    one.learn(3)
    one.save(str(tmp_path / "model.pt"))
    other = runner_of(5)
    other.load(str(tmp_path / "model.pt"), load_cfg={"actor": True}, strict=True, map_location="cpu")
    assert torch.equal(other.alg.policy.actor[0].weight, one.alg.policy.actor[0].weight)
    assert not torch.equal(other.alg.policy.critic[0].weight, one.alg.policy.critic[0].weight)
    assert other.current_learning_iteration == 0
    other.load(str(tmp_path / "model.pt"), {"actor": True, "critic": True, "iteration": True})
    assert torch.equal(other.alg.policy.critic[0].weight, one.alg.policy.critic[0].weight)
    assert other.current_learning_iteration == 2
    with pytest.raises(TypeError, match="no argument load_everything"):
        other.load(str(tmp_path / "model.pt"), load_everything=True)


def test_learning_then_loading_in_one_process(tmp_path):
    runner = runner_of(3)
    runner.learn(1)
    runner.save(str(tmp_path / "model.pt"), infos={"note": 1})
    assert runner.load(str(tmp_path / "model.pt")) == {"note": 1}
    runner.learn(1)


def hand_made(recurrent=False, order=()):
    """Return the keys of a file of version 1.0.2, as that version documents them; ``order`` is that of the parts in a
    later version."""
    inputs = 12 if recurrent else D
    sizes = {"actor": [inputs, *HIDDEN, A], "critic": [12 if recurrent else C, *HIDDEN, 1]}
    weights = {"std": torch.full((A,), 0.6)}
    for role, layers in sizes.items():
        for i, (before, after) in enumerate(zip(layers, layers[1:])):
            weights[f"{role}.{2 * i}.weight"] = torch.randn(after, before)
            weights[f"{role}.{2 * i}.bias"] = torch.randn(after)
    for name, size in (("memory_a", D), ("memory_c", C)) if recurrent else ():
        weights.update({f"{name}.rnn.{key}": value for key, value in torch.nn.LSTM(size, 12).state_dict().items()})
    names = sorted(weights, key=lambda name: order.index(name.split(".")[0]) if order else 0)
    weights = {name: weights[name] for name in names}
    moments = {
        i: {"step": 5, "exp_avg": torch.full_like(value, float(i)), "exp_avg_sq": torch.ones_like(value)}
        for i, value in enumerate(weights.values())
    }
    group = {"lr": 3e-4, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0, "amsgrad": False}
    optimizer = {"state": moments, "param_groups": [{**group, "params": list(range(len(weights)))}]}
    return {"model_state_dict": weights, "optimizer_state_dict": optimizer, "iter": 40, "infos": None}


@pytest.mark.parametrize(
    ("recurrent", "order"), [(False, ()), (True, ()), (True, ("std", "memory_a", "actor", "memory_c", "critic"))]
)
def test_a_file_of_version_1_or_3_loads_and_every_moment_finds_its_parameter(recurrent, order, tmp_path):
    state = hand_made(recurrent, order)
    torch.save(state, tmp_path / "model_40.pt")
    runner = runner_of(1, **({"rnn_type": "lstm", "rnn_hidden_size": 12} if recurrent else {}))
    runner.load(str(tmp_path / "model_40.pt"))
    assert runner.current_learning_iteration == 40 and runner.alg.learning_rate == pytest.approx(3e-4)
    names = list(state["model_state_dict"])
    for name, parameter in runner.alg.policy.named_parameters():
        torch.testing.assert_close(parameter.detach(), state["model_state_dict"][name])
        moment = runner.alg.optimizer.state[parameter]["exp_avg"]
        assert moment.unique().tolist() == [names.index(name)]
    runner.learn(1)


def test_state_dependent_deviations_act_as_where_they_were_trained(tmp_path):
    distribution = {"class_name": "HeteroscedasticGaussianDistribution", "init_std": 0.5, "std_type": "log"}
    cfg = v5()
    cfg["actor"]["distribution_cfg"] = distribution
    runner = OnPolicyRunner(V5Env(), cfg)
    state = copy.deepcopy(runner.alg.save())
    bias = state["actor_state_dict"]["mlp.4.bias"]
    assert (bias[A:] - math.log(0.5)).abs().max() < 0.5  # the logarithm itself, in version 5
    bias[A:] = torch.tensor([0.1, -0.2])
    state["actor_state_dict"]["mlp.4.weight"].zero_()
    runner.alg.load({**state, "iter": 0})
    runner.alg.policy.act(torch.zeros(1, D))
    torch.testing.assert_close(runner.alg.policy.action_std[0], bias[A:].exp(), atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(runner.alg.get_policy().state_dict()["mlp.4.bias"], bias)


def test_convert_checkpoint_refuses_what_a_version_does_not_have(tmp_path):
    runner_of(3).save(tmp_path / "ours.pt")
    with pytest.raises(CheckpointError, match="rsl_rl 1 has no running normalisation"):
        convert_checkpoint(tmp_path / "ours.pt", tmp_path / "out.pt", to="1.0.2")
    for text in ("6.0", "newest", "0.9"):
        with pytest.raises(ValueError, match="no version of rsl_rl known here"):
            convert_checkpoint(tmp_path / "ours.pt", tmp_path / "out.pt", to=text)
    assert not (tmp_path / "out.pt").exists()
    assert Version.parse("v5.4.2") == (5, 4) and Version.parse("3") == (3, 0)


@pytest.mark.parametrize("version", ["2.1", "2.3", "3.1", "4.0", "5.4"])
def test_convert_checkpoint_there_and_back_is_the_same(version, tmp_path):
    runner = runner_of(3, rnn_type="gru", rnn_hidden_dim=12)
    runner.learn(2)
    runner.save(tmp_path / "ours.pt", infos={"note": 3})
    convert_checkpoint(tmp_path / "ours.pt", tmp_path / "theirs.pt", to=version)
    convert_checkpoint(tmp_path / "theirs.pt", tmp_path / "again.pt", to="native")
    first, last = (torch.load(tmp_path / name, weights_only=True) for name in ("ours.pt", "again.pt"))
    for name, value in first["model_state_dict"].items():
        if not (name.endswith("count") and version == "2.1"):  # which keeps the count in the process alone
            torch.testing.assert_close(last["model_state_dict"][name], value)
    for i, moment in first["optimizer_state_dict"]["state"].items():
        torch.testing.assert_close(last["optimizer_state_dict"]["state"][i]["exp_avg"], moment["exp_avg"])
    assert last["iter"] == first["iter"] == 1 and last["infos"] == {"note": 3}


class WithParameters(Extension):
    """An extension whose parameters are trained with the policy."""

    @classmethod
    def from_env(cls, cfg, env, policy, device):
        extension = cls()
        extension.parameters = [torch.nn.Parameter(torch.ones(2))]
        return extension


@dataclass(frozen=True)
class WithParametersConfig(ExtensionConfig):
    builds: ClassVar[str] = f"{__name__}:WithParameters"


def test_a_file_of_an_earlier_version_leaves_the_parameters_of_extensions_as_they_are(tmp_path):
    """Also with a configuration in our own format."""
    one = runner_of(3)
    one.learn(1)
    one.save(tmp_path / "ours.pt")
    convert_checkpoint(tmp_path / "ours.pt", tmp_path / "theirs.pt", to="3.1")
    other = OnPolicyRunner(V5Env(), replace(one.train_cfg, extensions=(WithParametersConfig(),)))
    other.load(tmp_path / "theirs.pt")
    assert torch.equal(other.alg.policy.actor[0].weight, one.alg.policy.actor[0].weight)
    assert (other.alg.extensions.parameters[0] == 1).all()
    other.learn(1)


def test_a_policy_takes_a_tensor_or_groups():
    runner = runner_of(2)
    runner.learn(1)
    policy = runner.get_inference_policy(device=torch.device("cpu"))
    obs, _ = runner.env.get_observations()
    torch.testing.assert_close(policy(obs), policy({"policy": obs}))


def test_a_client_of_version_1_runs_its_own_loop():
    runner = runner_of(1)
    env, alg, rewards_seen = runner.env, runner.alg, []
    obs, privileged = env.get_observations(), env.get_privileged_observations()
    for _ in range(3):
        for _ in range(6):
            actions = alg.act(obs, privileged)
            obs, privileged, rewards, dones, infos = env.step(actions)
            alg.process_env_step(rewards, dones, infos)
            rewards_seen.append(rewards.clone())
        alg.compute_returns(privileged)
        mean_value_loss, mean_surrogate_loss = alg.update()
        assert isinstance(mean_value_loss, float) and mean_value_loss > 0 and isinstance(mean_surrogate_loss, float)
    assert len(rewards_seen) == 18


@pytest.mark.parametrize("major", [3, 5])
def test_a_client_of_a_later_version_runs_its_own_loop(major):
    runner = runner_of(major)
    env, alg = runner.env, runner.alg
    before = copy.deepcopy(alg.policy.state_dict())
    obs = env.get_observations()
    for _ in range(6):
        obs, rewards, dones, extras = env.step(alg.act(obs))
        alg.process_env_step(obs, rewards, dones, extras)
    alg.compute_returns(obs)
    losses = alg.update()
    assert losses["value_function"] is losses["value_loss"] and "surrogate_loss" in list(losses)
    with pytest.raises(KeyError):
        losses["nothing"]
    assert not torch.equal(alg.policy.actor[0].weight, before["actor.0.weight"])
    runner.learn(1)


def parted(file):
    """Return the content of a file whose networks a client parts, as mjlab 1.1 does with files of rsl_rl 3."""
    weights, parts = file.pop("model_state_dict"), {}
    for role in ("actor", "critic"):
        names = {f"{role}.": "mlp.", f"{role}_obs_normalizer.": "obs_normalizer."}
        own = {
            new + key[len(old) :]: x for old, new in names.items() for key, x in weights.items() if key.startswith(old)
        }
        parts[f"{role}_state_dict"] = own
    parts["actor_state_dict"].update({key: weights[key] for key in ("std", "log_std") if key in weights})
    return {**file, **parts}


class Plain(MLPModel):
    """A network of a client."""


@pytest.mark.parametrize("network", ["MLPModel", Plain], ids=["ours", "client"])
def test_a_client_that_parts_the_networks_of_a_file_loads_it(network, tmp_path):
    cfg = v5()
    cfg["actor"]["class_name"] = cfg["critic"]["class_name"] = network
    one, other = (OnPolicyRunner(V5Env(), cfg, str(tmp_path / name)) for name in ("one", "other"))
    one.learn(2)
    one.save(str(tmp_path / "model.pt"))
    assert other.alg.load(parted(torch.load(tmp_path / "model.pt", weights_only=True)), None, True)
    for name, value in one.alg.policy.state_dict().items():
        torch.testing.assert_close(other.alg.policy.state_dict()[name], value)
    moments = [runner.alg.optimizer.state_dict()["state"][0]["exp_avg"] for runner in (one, other)]
    torch.testing.assert_close(*moments)
