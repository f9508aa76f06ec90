"""Networks that clients derive from those of rsl_rl 4 and 5."""

import copy

import pytest
import torch
from rsl_rl.models.cnn_model import CNNModel as SameCNNModel
from rsl_rl.models.mlp_model import MLPModel as SameMLPModel
from rsl_rl.models.rnn_model import RNNModel as SameRNNModel
from torch import nn

from rsl_rl.compat.model_policy import ModelPolicy
from rsl_rl.compat.models import CNNModel, MLPModel, RNNModel
from rsl_rl.modules import CNN
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.utils.trajectories import ResetMasks
from tests.compat.era_configs import HIDDEN, v5
from tests.era_clients import A, C, D, N, V5Env


class Camera(V5Env):
    def groups(self):
        ones = torch.ones(self.num_envs, 1, 6, 6)
        return {**super().groups(), "camera": ones * self.obs_buf[:, :1, None, None]}


class Doubled(MLPModel):
    """Reads the observation twice."""

    def get_latent(self, obs, masks=None, hidden_state=None):
        latent = super().get_latent(obs, masks, hidden_state)
        return torch.cat((latent, latent), dim=-1)

    def _get_latent_dim(self):
        return 2 * self.obs_dim


class PooledCNN(nn.Module):
    """An encoder of the client's own."""

    output_channels = None

    def __init__(self, **settings):
        super().__init__()
        self.cnn = CNN(**settings, flatten=False, global_pool="none")
        self.output_dim = self.cnn.output_channels

    def forward(self, x):
        return self.cnn(x).mean(dim=(2, 3))


class PooledModel(CNNModel):
    """Replaces the encoders, as mjlab does for a spatial softmax."""

    def __init__(self, obs, obs_groups, obs_set, output_dim, cnn_cfg, cnns=None, **settings):
        self._get_obs_dim(obs, obs_groups, obs_set)
        sizes = zip(self.obs_groups_2d, self.obs_dims_2d, self.obs_channels_2d)
        cnns = {group: PooledCNN(input_dim=size, input_channels=c, **cnn_cfg) for group, size, c in sizes}
        self.cnn_latent_dim = sum(int(cnn.output_dim) for cnn in cnns.values())
        MLPModel.__init__(self, obs=obs, obs_groups=obs_groups, obs_set=obs_set, output_dim=output_dim, **settings)
        self.cnns = nn.ModuleDict(cnns)


def config(actor, critic="MLPModel", **settings):
    cfg = v5()
    cfg["actor"]["class_name"], cfg["critic"]["class_name"] = actor, critic
    cfg["actor"].update(settings)
    return cfg


def image_config():
    cfg = config(PooledModel, cnn_cfg={"output_channels": [4], "kernel_size": 3, "activation": "relu"})
    cfg["obs_groups"]["actor"] = ["actor", "camera"]
    return cfg


def test_the_models_are_where_earlier_versions_have_them():
    assert (SameMLPModel, SameRNNModel, SameCNNModel) == (MLPModel, RNNModel, CNNModel)


@pytest.mark.parametrize("name", [Doubled, f"{__name__}:Doubled"], ids=["class", "name"])
def test_a_network_of_the_client_learns(name):
    runner = OnPolicyRunner(V5Env(), config(name, critic=Doubled))
    policy = runner.alg.policy
    assert isinstance(policy, ModelPolicy) and isinstance(policy.actor, Doubled)
    assert policy.actor.mlp[0].in_features == 2 * D and policy.actor.mlp[0].out_features == HIDDEN[0]
    before = copy.deepcopy(policy.state_dict())
    runner.learn(30)
    changed = [name for name, value in policy.state_dict().items() if not torch.equal(value, before[name])]
    assert {"actor.mlp.0.weight", "critic.mlp.0.weight", "actor.distribution.std_param"} <= set(changed)
    assert policy.actor.obs_normalizer.count == 30 * 6 * N
    records = runner.collector.recent.means()
    assert records[0] is not None


def test_a_client_network_learns_what_ours_learns():
    """A derived class that changes nothing starts with other random weights, and reaches a similar return."""

    class Plain(MLPModel):
        pass

    rewards = []
    for actor in (Plain, "MLPModel"):
        torch.manual_seed(0)
        runner = OnPolicyRunner(V5Env(64), config(actor))
        runner.learn(40)
        rewards.append(runner.collector.recent.means()[0])
    assert rewards[0] == pytest.approx(rewards[1], rel=0.2) and min(rewards) > -18  # -20 and less untrained


def test_a_client_network_with_its_own_encoder_learns_and_exports(tmp_path):
    runner = OnPolicyRunner(Camera(), image_config(), str(tmp_path))
    runner.learn(2)
    actor = runner.alg.get_policy()
    assert isinstance(actor, PooledModel) and isinstance(actor.cnns["camera"], PooledCNN)
    onnx = copy.deepcopy(actor).as_onnx(verbose=False).eval()
    assert onnx.input_names == ["obs", "camera"] and onnx(*onnx.get_dummy_inputs()).shape == (1, A)
    groups = runner.env.get_observations()
    with torch.no_grad():
        expected = actor(groups)
        torch.testing.assert_close(onnx(groups["actor"], groups["camera"]), expected)
    torch.testing.assert_close(runner.get_inference_policy()(groups), expected)
    drawn = actor(groups, stochastic_output=True)
    assert actor.get_output_log_prob(drawn).shape == actor.output_entropy.shape[:1] or drawn.shape == (N, A)


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_a_recurrent_client_network_exports_with_its_state(kind, tmp_path):
    runner = OnPolicyRunner(V5Env(), recurrent_config(kind))
    model, steps = runner.alg.get_policy(), [torch.randn(1, D) for _ in range(3)]
    model.reset()
    with torch.no_grad():
        expected = [model({"actor": obs}).clone() for obs in steps]
    torch.jit.script(model.as_jit()).save(str(tmp_path / "own.pt"))
    own = torch.jit.load(str(tmp_path / "own.pt"))
    for _ in range(2):
        own.reset()
        for obs, action in zip(steps, expected):
            torch.testing.assert_close(own(obs), action)
    names = ["h", "c"][: 1 if kind == "gru" else 2]
    onnx = model.as_onnx(verbose=False)
    assert onnx.input_names == ["obs", *(f"{name}_in" for name in names)] and onnx.output_names[0] == "actions"
    ours = torch.jit.load(str(runner.export_policy_to_jit(tmp_path)))
    states = onnx.get_dummy_inputs()[1:]
    for obs, action in zip(steps, expected):
        out, *states = ours(obs, *states)
        torch.testing.assert_close(out, action)


@pytest.mark.parametrize("kind", ["flat", "images", "gru"])
def test_the_runner_exports_a_client_network_to_onnx(kind, tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    env, cfg = (Camera(), image_config()) if kind == "images" else (V5Env(), config(Doubled, critic=Doubled))
    runner = OnPolicyRunner(env, recurrent_config() if kind == "gru" else cfg)
    runner.learn(1)
    session = onnxruntime.InferenceSession(str(runner.export_policy_to_onnx(tmp_path)))
    groups = {name: group[:1].clone() for name, group in env.get_observations().items()}
    model = runner.alg.get_policy()
    model.reset()
    with torch.no_grad():
        expected = model(groups)
    inputs = dict(zip(model.as_onnx().input_names, model.as_onnx().get_dummy_inputs()))
    inputs.update({"obs": groups["actor"], **{name: groups[name] for name in inputs if name in groups}})
    given = {entry.name: inputs[entry.name].numpy() for entry in session.get_inputs()}
    torch.testing.assert_close(torch.from_numpy(session.run(None, given)[0]), expected, atol=1e-5, rtol=1e-5)


def test_a_client_network_is_saved_and_loaded(tmp_path):
    one, other = (OnPolicyRunner(V5Env(), config(Doubled, critic=Doubled)) for _ in range(2))
    one.learn(2)
    one.save(str(tmp_path / "ours.pt"))
    torch.save({**one.alg.save(), "iter": 1, "infos": None}, tmp_path / "theirs.pt")
    obs = one.env.get_observations()
    for name in ("ours.pt", "theirs.pt"):
        other.load(str(tmp_path / name))
        torch.testing.assert_close(other.get_inference_policy()(obs), one.get_inference_policy()(obs))
        assert other.current_learning_iteration == 1
    assert "mlp.0.weight" in one.alg.save()["actor_state_dict"]
    other.learn(1)


class Recurrent(RNNModel):
    """Reads the observation twice, behind the state."""

    def get_latent(self, obs, masks=None, hidden_state=None):
        latent = super().get_latent(obs, masks, hidden_state)
        return torch.cat((latent, latent), dim=-1)

    def _get_latent_dim(self):
        return 2 * self.latent_dim


def recurrent_config(kind="gru", critic=Recurrent):
    memory = {"rnn_type": kind, "rnn_hidden_dim": 6, "rnn_num_layers": 2}
    cfg = config(Recurrent, critic, **memory)
    cfg["critic"].update(memory if critic is Recurrent else {})
    return cfg


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_trajectories_of_a_recurrent_client_network_equal_its_steps(kind):
    """Outputs of the mini-batch are those of a loop over the steps, whatever ends an episode."""
    runner = OnPolicyRunner(V5Env(), recurrent_config(kind))
    policy = runner.alg.policy
    groups = {"actor": torch.randn(7, 4, D), "critic": torch.randn(7, 4, C)}
    dones = torch.rand(7, 4) < 0.3
    assert dones.any()
    policy.actor_model.memory.hidden_states = None
    with torch.no_grad():
        policy.act({name: group[0] for name, group in groups.items()})
        state = policy.actor_model.memory.current_state(4)
        steps = []
        for t in range(7):
            steps.append(policy.actor_model({name: group[t] for name, group in groups.items()}))
            policy.reset(dones[t])
        together = policy.actor_model(groups, ResetMasks.of_dones(dones), state)
    torch.testing.assert_close(together, torch.stack(steps))


@pytest.mark.parametrize(("kind", "critic"), [("gru", Recurrent), ("lstm", "MLPModel")], ids=["both", "actor"])
def test_a_recurrent_network_of_the_client_learns(kind, critic, tmp_path):
    one = OnPolicyRunner(V5Env(64), recurrent_config(kind, critic), str(tmp_path))
    policy = one.alg.policy
    assert policy.is_recurrent and isinstance(policy.actor, Recurrent)
    before = copy.deepcopy(policy.state_dict())
    one.learn(30)
    assert not torch.equal(policy.state_dict()["actor.rnn.rnn.weight_hh_l1"], before["actor.rnn.rnn.weight_hh_l1"])
    assert one.collector.recent.means()[0] > -18  # -20 and less untrained
    one.save(str(tmp_path / "model.pt"))
    other = OnPolicyRunner(V5Env(64), recurrent_config(kind, critic))
    other.load(str(tmp_path / "model.pt"))
    obs = one.env.get_observations()
    acting = [runner.get_inference_policy() for runner in (one, other)]
    for _ in range(3):
        torch.testing.assert_close(acting[1](obs), acting[0](obs))
    for a in acting:
        a.reset(torch.ones(64))
    torch.testing.assert_close(acting[1](obs), acting[0](obs))


def test_a_class_that_is_no_network_is_refused():
    with pytest.raises(ValueError, match="give a subclass of rsl_rl"):
        OnPolicyRunner(V5Env(), config(nn.Linear))


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_the_recurrent_model_steps_with_a_state_of_its_own(kind):
    obs = {"actor": torch.randn(3, D)}
    model = RNNModel(obs, {"actor": ["actor"]}, "actor", A, [8], rnn_type=kind, rnn_hidden_dim=5)
    first, second = model(obs), model(obs)
    assert first.shape == (3, A) and not torch.equal(first, second)
    model.reset(torch.tensor([1, 0, 0]))
    third = model(obs)
    torch.testing.assert_close(third[0], first[0])
    assert not torch.equal(third[1], first[1])
    model.reset()
    torch.testing.assert_close(model(obs), first)
