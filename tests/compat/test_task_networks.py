"""Networks, distributions and algorithms as tasks of Isaac Lab 3.0 derive them: parts of their own in every place."""

import copy
import math

import pytest
import torch
from rsl_rl.modules.distribution import Distribution, GaussianDistribution
from torch import nn
from torch.distributions import Normal, kl_divergence

from rsl_rl.algorithms import PPO
from rsl_rl.compat.models import CNNModel, MLPModel, RNNModel
from rsl_rl.modules import CNN, MLP
from rsl_rl.runners import OnPolicyRunner
from tests.compat.era_configs import v5
from tests.era_clients import A, D, N, V5Env


class BoundedGaussian(GaussianDistribution):
    """Sets the distribution of torch in ``update``; the deviation is bounded smoothly."""

    def __init__(self, output_dim, init_std=0.6, std_range=(0.2, 0.7), **settings):
        super().__init__(output_dim, init_std=init_std, **settings)
        self.bounds = std_range
        with torch.no_grad():
            self.std_param.fill_(math.log((init_std - std_range[0]) / (std_range[1] - init_std)))

    def update(self, mlp_output):
        low, high = self.bounds
        self._distribution = Normal(mlp_output, low + (high - low) * torch.sigmoid(self.std_param))


class TwoGaussians(Distribution):
    """One action component for each task; those of the other task are zero. ``update`` takes the task too."""

    def __init__(self, output_dim, init_std=1.0):
        super().__init__(output_dim)
        self.std_param = nn.Parameter(torch.full((output_dim,), init_std))
        self.now = self.mask = None

    def update(self, mlp_output, task):
        self.mask = task
        self.now = Normal(mlp_output, self.std_param * task + 1 - task)

    def sample(self):
        return self.now.sample() * self.mask

    def deterministic_output(self, mlp_output):
        return mlp_output

    def as_deterministic_output_module(self):
        return nn.Identity()

    input_dim = property(lambda self: self.output_dim)
    mean = property(lambda self: self.now.mean)
    std = property(lambda self: self.std_param)
    entropy = property(lambda self: (self.now.entropy() * self.mask).sum(-1))
    params = property(lambda self: (self.now.mean, self.now.stddev, self.mask))

    def log_prob(self, outputs):
        return (self.now.log_prob(outputs) * self.mask).sum(-1)

    def kl_divergence(self, old_params, new_params):
        old, new = (Normal(*params[:2]) for params in (old_params, new_params))
        return (kl_divergence(old, new) * old_params[2]).sum(-1)


class ByTask(MLPModel):
    """A trunk with one head for each task, and no ``mlp``; the last two observations say which task it is."""

    def __init__(self, obs, obs_groups, obs_set, output_dim, hidden_dims=(8,), activation="elu",
                 obs_normalization=False, distribution_cfg=None):  # fmt: skip
        super().__init__(obs, obs_groups, obs_set, output_dim, hidden_dims, activation, obs_normalization, None)
        del self.mlp
        self.trunk = MLP(self.obs_dim, hidden_dims[-1], hidden_dims, activation, activation)
        self.heads = nn.ModuleList([nn.Linear(hidden_dims[-1], 1) for _ in range(2)])
        self.distribution = None if distribution_cfg is None else TwoGaussians(output_dim, distribution_cfg["init_std"])

    def task(self, obs):
        return torch.cat([obs[group] for group in self.obs_groups], dim=-1)[..., -2:]

    def forward(self, obs, masks=None, hidden_state=None, stochastic_output=False):
        features, task = self.trunk(self.get_latent(obs)), self.task(obs)
        outputs = torch.cat([head(features) for head in self.heads], dim=-1) * task
        if self.distribution is None:
            return outputs.sum(-1, keepdim=True)
        if stochastic_output:
            self.distribution.update(outputs, task)
            return self.distribution.sample()
        return outputs

    def as_jit(self):
        return OneNetwork(self)

    def as_onnx(self, verbose=False):
        return OneNetwork(self)


class OneNetwork(nn.Module):
    input_names, output_names = ["obs"], ["actions"]

    def __init__(self, model):
        super().__init__()
        self.normalizer, self.trunk, self.heads = (
            copy.deepcopy(part) for part in (model.obs_normalizer, model.trunk, model.heads)
        )
        self.size = model.obs_dim

    def forward(self, obs):
        features = self.trunk(self.normalizer(obs))
        outputs = []
        for head in self.heads:
            outputs.append(head(features))
        return torch.cat(outputs, dim=-1) * obs[..., -2:]

    def get_dummy_inputs(self):
        return (torch.zeros(1, self.size),)


class TaskPPO(PPO):
    """Normalises the advantages of each task by themselves."""

    def __init__(self, actor, critic, storage, names, **settings):
        self.names = tuple(names)
        super().__init__(actor, critic, storage, **settings)

    def compute_returns(self, obs):
        super().compute_returns(obs)
        storage, self.spread = self.storage, {}
        task = storage.observations["task"].argmax(dim=-1)
        for i, name in enumerate(self.names):
            chosen = task == i
            own = (storage.returns - storage.values)[chosen]
            storage.advantages[chosen] = (own - own.mean()) / (own.std(unbiased=False) + 1e-8)
            self.spread[f"{name}_spread"] = own.std(unbiased=False).item()

    def update(self):
        losses = super().update()
        losses.update(self.spread)
        return losses


class TwoTasks(V5Env):
    """Even environments have the first task, an action of 1, odd ones the second, an action of -1."""

    def __init__(self, num_envs=N):
        self.task = torch.zeros(num_envs, 2)
        self.task[0::2, 0] = self.task[1::2, 1] = 1.0
        super().__init__(num_envs)

    def advance(self, actions):
        super().advance(actions)
        self.rew_buf[:] = -(actions * self.task - self.task * torch.tensor([1.0, -1.0])).square().sum(dim=1)

    def groups(self):
        return {**super().groups(), "task": self.task}


def config(actor=None, critic=None, algorithm=None, **settings):
    cfg = v5()
    if actor is not None:
        cfg["actor"]["class_name"] = actor
    if critic is not None:
        cfg["critic"]["class_name"] = critic
    if algorithm is not None:
        cfg["algorithm"]["class_name"] = algorithm
    cfg["algorithm"].update(settings)
    return cfg


def task_config(algorithm=TaskPPO, **settings):
    settings = {"names": ("first", "second"), **settings} if algorithm is TaskPPO else settings
    cfg = config(ByTask, ByTask, algorithm, learning_rate=3e-3, share_cnn_encoders=False, **settings)
    cfg["actor"]["distribution_cfg"] = {"class_name": TwoGaussians, "init_std": 0.5}
    cfg["obs_groups"] = {"actor": ["actor", "task"], "critic": ["critic", "task"]}
    return cfg


def exported(runner, tmp_path, *inputs):
    """Return the actions of both files of a runner."""
    onnxruntime = pytest.importorskip("onnxruntime")
    runner.export_policy_to_jit(path=str(tmp_path), filename="policy.pt")
    runner.export_policy_to_onnx(path=str(tmp_path), filename="policy.onnx")
    session = onnxruntime.InferenceSession(str(tmp_path / "policy.onnx"))
    given = {entry.name: x.numpy() for entry, x in zip(session.get_inputs(), inputs)}
    scripted = torch.jit.load(str(tmp_path / "policy.pt"))
    return scripted, torch.from_numpy(session.run(None, given)[0])


def test_a_gaussian_whose_update_sets_the_distribution_of_torch_is_used():
    cfg = config()
    cfg["actor"]["distribution_cfg"] = {"class_name": BoundedGaussian, "std_range": (0.2, 0.7), "init_std": 0.3}
    runner = OnPolicyRunner(V5Env(64), cfg)
    actor = runner.alg.actor
    actions = actor(runner.env.get_observations(), stochastic_output=True)
    expected = Normal(actor.output_mean, torch.full((A,), 0.3))
    torch.testing.assert_close(actor.get_output_log_prob(actions), expected.log_prob(actions).sum(-1))
    torch.testing.assert_close(actor.output_entropy, expected.entropy().sum(-1))
    before = actor.distribution.std_param.clone()
    runner.learn(20)
    assert not torch.equal(actor.distribution.std_param, before)
    std = 0.2 + 0.5 * torch.sigmoid(actor.distribution.std_param)
    seen = runner.alg.policy.noise_std()  # of the last mini-batch, before its step
    torch.testing.assert_close(seen, std.expand_as(seen), atol=5e-3, rtol=0.0)
    assert runner.collector.recent.means()[0] > -18  # -20 and less untrained
    obs = runner.env.get_observations()
    torch.testing.assert_close(runner.get_inference_policy()(obs), actor(obs))


def test_an_algorithm_and_networks_with_a_forward_of_their_own_learn(tmp_path):
    torch.manual_seed(0)
    runner = OnPolicyRunner(TwoTasks(64), task_config(), str(tmp_path))
    alg = runner.alg
    assert isinstance(alg, TaskPPO) and isinstance(alg.actor, ByTask) and isinstance(alg.critic, ByTask)
    metrics, update = [], alg.update
    alg.update = lambda: metrics.append(update()) or metrics[-1]
    runner.learn(40)
    assert metrics[-1].metrics["second_spread"] == pytest.approx(metrics[-1]["second_spread"])  # it is logged too
    obs = runner.env.get_observations()
    acting = runner.get_inference_policy()
    with torch.no_grad():
        expected = alg.actor(obs)
    torch.testing.assert_close(acting(obs), expected)
    assert (expected[0::2, 1] == 0).all() and (expected[1::2, 0] == 0).all()
    assert expected[0::2, 0].mean() > 0.5 and expected[1::2, 1].mean() < -0.5
    whole = torch.cat((obs["actor"], obs["task"]), dim=-1)[:1]
    scripted, onnx = exported(runner, tmp_path, whole)
    torch.testing.assert_close(scripted(whole), expected[:1])
    torch.testing.assert_close(onnx, expected[:1], atol=1e-5, rtol=1e-5)
    other = OnPolicyRunner(TwoTasks(64), task_config())
    other.load(str(tmp_path / "model_39.pt"))
    torch.testing.assert_close(other.get_inference_policy()(obs), expected)


def test_the_parameters_of_a_distribution_are_stored_as_the_network_gives_them():
    runner = OnPolicyRunner(TwoTasks(), task_config("PPO"))
    alg, obs = runner.alg, runner.env.get_observations()
    alg.act(obs)
    mean, std, mask = (alg.storage.columns[f"parameter_{i}"][0] for i in range(3))
    torch.testing.assert_close(mask, obs["task"])
    torch.testing.assert_close(std, 0.5 * mask + 1 - mask)
    with torch.no_grad():
        torch.testing.assert_close(mean, alg.actor(obs))


def test_an_extension_beside_a_forward_of_the_client_is_refused():
    cfg = task_config(rnd_cfg={"weight": 1.0})
    with pytest.raises(ValueError, match=r"forward\(\) of your own goes with PPO without rnd_cfg"):
        OnPolicyRunner(TwoTasks(), cfg)


class Encoded(MLPModel):
    """Encodes some groups before the perceptron."""

    def __init__(self, obs, obs_groups, obs_set, output_dim, *args, encoder_cfg=None, **settings):
        self.encoded = [group for group in obs_groups[obs_set] if group in encoder_cfg]
        self.encoder_size = sum(encoder_cfg[group]["latent_dim"] for group in self.encoded)
        super().__init__(obs, obs_groups, obs_set, output_dim, *args, **settings)
        self.encoders = nn.ModuleDict()
        for group in self.encoded:
            own = encoder_cfg[group]
            self.encoders[group] = MLP(
                input_dim=obs[group].shape[-1], output_dim=own["latent_dim"], hidden_dims=own["hidden_dims"],
                activation="elu", last_activation="elu",
            )  # fmt: skip

    def get_latent(self, obs, masks=None, hidden_state=None):
        return torch.cat([super().get_latent(obs), *(self.encoders[group](obs[group]) for group in self.encoded)], -1)

    def _get_obs_dim(self, obs, obs_groups, obs_set):
        raw = [group for group in obs_groups[obs_set] if group not in self.encoded]
        return raw, sum(obs[group].shape[-1] for group in raw)

    def _get_latent_dim(self):
        return self.obs_dim + self.encoder_size

    def as_onnx(self, verbose=False):
        return EncodedNetwork(self)


class EncodedNetwork(nn.Module):
    output_names = ["actions"]  # noqa: RUF012

    def __init__(self, model):
        super().__init__()
        self.normalizer, self.encoders, self.mlp = (
            copy.deepcopy(part) for part in (model.obs_normalizer, model.encoders, model.mlp)
        )
        self.input_names = ["obs", *model.encoded]
        self.sizes = [model.obs_dim, *(model.encoders[group][0].in_features for group in model.encoded)]

    def forward(self, obs, *others):
        encoded = [encoder(x) for encoder, x in zip(self.encoders.values(), others)]
        return self.mlp(torch.cat((self.normalizer(obs), *encoded), dim=-1))

    def get_dummy_inputs(self):
        return tuple(torch.zeros(1, size) for size in self.sizes)


class SharedPPO(PPO):
    """Gives the critic the actor's encoders."""

    def __init__(self, actor, critic, storage, **settings):
        del critic.encoders
        object.__setattr__(critic, "encoders", actor.encoders)
        super().__init__(actor, critic, storage, **settings)


def test_an_algorithm_shares_encoders_between_its_networks_and_they_are_exported(tmp_path):
    cfg = config(Encoded, Encoded, SharedPPO)
    encoder = {"encoder_cfg": {"actor": {"hidden_dims": [8], "latent_dim": 4}}}
    for role in ("actor", "critic"):
        cfg[role].update(encoder)
    cfg["obs_groups"] = {"actor": ["actor", "task"], "critic": ["actor", "critic"]}
    runner = OnPolicyRunner(TwoTasks(64), cfg, str(tmp_path))
    alg = runner.alg
    assert isinstance(alg, SharedPPO) and alg.critic.encoders is alg.actor.encoders
    before = copy.deepcopy(alg.actor.encoders.state_dict())
    runner.learn(30)
    assert not torch.equal(alg.actor.encoders.state_dict()["actor.0.weight"], before["actor.0.weight"])
    assert not any("encoders" in name for name in alg.save()["critic_state_dict"])
    obs = runner.env.get_observations()
    with torch.no_grad():
        expected = alg.actor(obs)
    torch.testing.assert_close(runner.get_inference_policy()(obs), expected)
    pytest.importorskip("onnxruntime")
    _, onnx = exported_onnx(runner, tmp_path, obs["task"][:1], obs["actor"][:1])
    torch.testing.assert_close(onnx, expected[:1], atol=1e-5, rtol=1e-5)
    other = OnPolicyRunner(TwoTasks(64), cfg)
    other.load(str(tmp_path / "model_29.pt"))
    torch.testing.assert_close(other.get_inference_policy()(obs), expected)


def exported_onnx(runner, tmp_path, *inputs):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(runner.export_policy_to_onnx(str(tmp_path))))
    names = [entry.name for entry in session.get_inputs()]
    return names, torch.from_numpy(session.run(None, {name: x.numpy() for name, x in zip(names, inputs)})[0])


class Camera(V5Env):
    """Has pictures of eight bits."""

    def groups(self):
        ones = torch.ones(self.num_envs, 3, 8, 8)
        return {**super().groups(), "camera": (100 + 50 * ones * self.obs_buf[:, :1, None, None]).byte()}


class Means(MLPModel):
    """Borrows how CNNModel tells pictures from vectors, and is none."""

    _get_obs_dim = CNNModel._get_obs_dim

    def __init__(self, obs, obs_groups, obs_set, output_dim, *args, cnn_cfg=None, **settings):
        self._get_obs_dim(obs, obs_groups, obs_set)
        sizes = zip(self.obs_groups_2d, self.obs_dims_2d, self.obs_channels_2d)
        cnns = {
            group: CNN(input_dim=size, input_channels=channels, **{**cnn_cfg, "flatten": False, "global_pool": "none"})
            for group, size, channels in sizes
        }
        self.num_features = sum(cnn.output_channels for cnn in cnns.values())
        super().__init__(obs, obs_groups, obs_set, output_dim, *args, **settings)
        self.cnns = nn.ModuleDict(cnns)

    def get_latent(self, obs, masks=None, hidden_state=None):
        means = [cnn(obs[group].float() / 255).mean(dim=(2, 3)) for group, cnn in self.cnns.items()]
        return torch.cat([super().get_latent(obs), *means], dim=-1)

    def _get_latent_dim(self):
        return self.obs_dim + self.num_features


def test_a_network_that_borrows_from_cnn_model_learns_from_pictures_of_eight_bits():
    cfg = config(Means)
    cfg["actor"]["cnn_cfg"] = {
        "output_channels": [4, 4], "kernel_size": [4, 3], "stride": [2, 1], "dilation": 1, "padding": "none",
        "norm": "none", "activation": "elu", "max_pool": False, "global_pool": "none", "flatten": True,
    }  # fmt: skip
    cfg["obs_groups"]["actor"] = ["actor", "camera"]
    runner = OnPolicyRunner(Camera(), cfg)
    actor, obs = runner.alg.actor, runner.env.get_observations()
    assert isinstance(actor, Means) and actor.obs_groups == ["actor"] and actor.obs_dim == D
    before = actor.cnns["camera"][0].weight.clone()
    runner.learn(2)
    assert not torch.equal(actor.cnns["camera"][0].weight, before)
    with torch.no_grad():
        torch.testing.assert_close(runner.get_inference_policy()(obs), actor(obs))


@pytest.mark.parametrize(
    ("settings", "shape"),
    [
        ({"kernel_size": 3}, (8, 14, 19)),
        ({"kernel_size": [5, 3], "stride": 2, "padding": "zeros"}, (8, 4, 5)),  # 16 and 21 halved twice
        ({"kernel_size": 8, "stride": 4, "padding": "zeros"}, (8, 1, 1)),
        ({"kernel_size": 3, "dilation": [1, 2], "padding": "circular"}, (8, 16, 21)),
        ({"kernel_size": 3, "max_pool": [True, False], "padding": "zeros"}, (8, 8, 11)),
        ({"kernel_size": 3, "norm": ["layer", "batch"], "global_pool": "avg"}, (8, 1, 1)),
        ({"kernel_size": 3, "global_pool": "max"}, (8, 1, 1)),
    ],
)
def test_a_cnn_has_the_sizes_of_version_5(settings, shape):
    cnn = CNN(input_dim=(16, 21), input_channels=2, output_channels=[4, 8], flatten=False, **settings)
    images = torch.randn(3, 2, 16, 21)
    if settings["kernel_size"] == 3 and len(settings) == 1:
        shape = (8, 12, 17)
    assert cnn(images).shape[1:] == shape and (cnn.output_channels, *cnn.output_dim) == shape
    flat = CNN((16, 21), 2, [4, 8], **settings)
    assert flat.output_channels is None and flat(images).shape == (3, flat.output_dim) == (3, math.prod(shape))


def test_an_unknown_layer_of_a_cnn_is_refused():
    for settings, message in (
        ({"norm": "group"}, "unknown norm 'group'"),
        ({"global_pool": "sum"}, "unknown global_p"),
    ):
        with pytest.raises(ValueError, match=message):
            CNN((8, 8), 1, [4], 3, **settings)


@pytest.mark.parametrize("own", [False, True], ids=["ours", "client"])
def test_an_exporter_reads_and_sets_the_state_of_a_recurrent_policy(own):
    """As a tracer of the policy does: the state is named, replaced by tensors of its own, and read after a step."""

    class Own(RNNModel):
        pass

    cfg = v5(rnn_type="lstm", rnn_hidden_dim=5, rnn_num_layers=2)
    cfg["actor"]["class_name"] = Own if own else "RNNModel"
    runner = OnPolicyRunner(V5Env(), cfg)
    policy, obs = runner.get_inference_policy(), runner.env.get_observations()
    memory, dtype = policy.rnn, next(policy.parameters()).dtype
    assert policy.is_recurrent and policy.get_hidden_state() is None
    zeros = torch.zeros(memory.rnn.num_layers, N, memory.rnn.hidden_size, dtype=dtype)
    assert isinstance(memory.rnn, nn.LSTM)
    first = policy(obs)
    after = policy.get_hidden_state()
    memory.hidden_state = (zeros, zeros.clone())
    assert all(torch.equal(x, zeros) for x in policy.get_hidden_state())
    torch.testing.assert_close(policy(obs), first)
    torch.testing.assert_close(policy.get_hidden_state(), after)


def test_a_recurrent_network_names_its_settings_in_its_signature():
    """A runner of a client's keeps the settings that the signature names."""
    import inspect

    names = set(inspect.signature(RNNModel.__init__).parameters)
    assert {"hidden_dims", "distribution_cfg", "obs_normalization", "rnn_type", "rnn_hidden_dim"} <= names


def test_settings_that_a_client_reads_itself_are_not_named(capsys):
    cfg = {**config("CNNModel"), "init_at_random_ep_len": True, "torch_compile_mode": None}
    defaults = {"dilation": 1, "padding": "none", "norm": "none", "max_pool": False, "global_pool": "none"}
    cfg["actor"]["cnn_cfg"] = {"output_channels": [4], "kernel_size": 3, "flatten": True, **defaults}
    cfg["obs_groups"]["actor"] = ["actor", "camera"]
    OnPolicyRunner(Camera(), cfg)
    assert "without effect" not in capsys.readouterr().err
