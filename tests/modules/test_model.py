"""Networks over observation groups: vectors, images and height maps, with and without memory and symmetry."""

import pytest
import torch
from torch import nn

from configs.toy import Recall
from rsl_rl.algorithms.ppo import PPO
from rsl_rl.config.policy import (
    ActorCriticConfig,
    ActorCriticRecurrentConfig,
    CNNConfig,
    SymmetricActorCriticConfig,
    SymmetricActorCriticRecurrentConfig,
)
from rsl_rl.distributed import SINGLE_PROCESS
from rsl_rl.modules.cnn import CNN
from rsl_rl.modules.memory import Memory
from rsl_rl.modules.mlp import mlp
from rsl_rl.modules.model import Model
from rsl_rl.modules.normalizer import RunningNorm
from rsl_rl.modules.policy import (
    ActorCritic,
    ActorCriticRecurrent,
    SymmetricActorCritic,
    SymmetricActorCriticRecurrent,
)
from rsl_rl.modules.symmetry import mirror
from rsl_rl.storage.rollout import GroupSpec
from rsl_rl.utils.trajectories import ResetMasks
from tests.learners import ppo_of

T, N, A = 6, 5, 2
CAMERA, HEIGHTS = (2, 8, 12), (6, 10)  # [C, H, W] and [H, W]
SMALL_CNN = CNNConfig(channels=(3, 4), num_features=6)
CNNS = {"camera": SMALL_CNN, "heights": SMALL_CNN}
NETS = {"actor_hidden_dims": (8,), "critic_hidden_dims": (8,)}
GRU = {"rnn_type": "gru", "rnn_hidden_size": 6}


def observe(*leading, dtype=torch.float32):
    """Draw groups [..., size] of vectors, an image and a height map."""
    camera = torch.rand(*leading, *CAMERA) if dtype == torch.float32 else torch.randint(256, (*leading, *CAMERA))
    return {
        "policy": torch.randn(*leading, 3),
        "goal": torch.randn(*leading, 2),
        "camera": camera.to(dtype),
        "heights": torch.randn(*leading, *HEIGHTS),
    }


def randomize(policy):
    """Add noise to all parameters, biases too."""
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return policy


# Reading groups


def test_model_of_vector_groups_concatenates_them_in_order():
    obs = observe(N)
    head = mlp(5, (4,), 1, "elu")
    model = Model(("goal", "policy"), nn.Identity(), {}, None, head)
    vectors = torch.cat((obs["goal"], obs["policy"]), dim=1)
    assert torch.equal(model.vectors(obs), vectors) and torch.equal(model(obs), head(vectors))
    assert torch.equal(model(vectors), head(vectors))  # vectors alone may be given joined
    other_types = {"goal": obs["goal"].long(), "policy": obs["policy"].double()}
    assert model.vectors(other_types).dtype == model(other_types).dtype == torch.float32
    model.set_groups(("policy",))
    assert model.encode(obs) is obs["policy"]


def test_model_of_vectors_and_images_normalizes_vectors_and_appends_features():
    encoders = {"camera": CNN(CAMERA, SMALL_CNN), "heights": CNN(HEIGHTS, SMALL_CNN)}
    norm, head = RunningNorm(5), mlp(5 + 6 + 6, (4,), 1, "elu")
    model = Model(("policy", "camera", "goal", "heights"), norm, encoders, None, head)
    rollout = observe(T, N)
    model.update_normalization(rollout, torch.ones(T, N, 1), SINGLE_PROCESS)
    vectors = torch.cat((rollout["policy"], rollout["goal"]), dim=-1)
    torch.testing.assert_close(norm.mean, vectors.flatten(0, 1).mean(dim=0))
    features = torch.cat((norm(vectors), *(encoder(rollout[name]) for name, encoder in encoders.items())), dim=-1)
    assert torch.equal(model(rollout), head(features))
    assert set(model.vector_groups) == {"policy", "goal"}


@pytest.mark.parametrize("leading", [(N,), (T, N)])
@pytest.mark.parametrize("memory", [None, "gru"])
def test_model_of_images_only_reads_them(leading, memory):
    masks = ResetMasks.none(leading) if memory and len(leading) == 2 else None
    encoder = CNN(HEIGHTS, SMALL_CNN)
    rnn = Memory(6, memory, 1, 7) if memory else None
    model = Model(("heights",), nn.Identity(), {"heights": encoder}, rnn, mlp(7 if memory else 6, (4,), 1, "elu"))
    obs = observe(*leading)
    y = model(obs, masks)
    assert y.shape == (*leading, 1)
    if memory is None:
        torch.testing.assert_close(y, model.head(encoder(obs["heights"])))


# Images


@pytest.mark.parametrize("shape", [CAMERA, HEIGHTS])
def test_cnn_of_any_leading_dimensions_equals_that_of_single_images(shape):
    cnn, images = CNN(shape, SMALL_CNN), torch.randn(T, N, *shape)
    features = cnn(images)
    assert features.shape == (T, N, SMALL_CNN.num_features)
    for t in range(T):
        for n in range(N):
            torch.testing.assert_close(cnn(images[t, n]), features[t, n], atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("shape", [CAMERA, HEIGHTS])
def test_cnn_of_integer_images_equals_that_of_scaled_ones(shape):
    cnn, images = CNN(shape, SMALL_CNN), torch.randint(256, (N, *shape), dtype=torch.uint8)
    assert torch.equal(cnn(images), cnn(images.float() / 255.0))
    assert not torch.allclose(cnn(images.float()), cnn(images))  # floating-point images are used as they are


def test_cnn_sees_where_a_pixel_is():
    cnn, images = CNN(HEIGHTS, SMALL_CNN), torch.zeros(2, *HEIGHTS)
    images[0, 2, 3] = images[1, 3, 6] = 1.0
    assert not torch.allclose(*cnn(images))


def test_cnn_of_an_empty_image_raises():
    with pytest.raises(ValueError, match=r"an image \[0, 3\] is too small for 2 convolutions"):
        CNN((0, 3), CNNConfig())


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_actor_critic_with_images_has_encoders_of_its_own_for_actor_and_critic(dtype):
    shapes = {"camera": CAMERA, "heights": HEIGHTS}
    groups = {"actor_groups": ("policy", "camera"), "critic_groups": ("goal", "heights", "policy")}
    policy = ActorCritic(3, 5, A, image_shapes=shapes, cnn=CNNS, **groups, **NETS)
    obs = observe(N, dtype=dtype)
    assert policy.act_inference(obs).shape == (N, A)
    value = policy.evaluate(obs)
    assert value.shape == (N, 1)
    other = {**obs, "camera": observe(N, dtype=dtype)["camera"]}
    assert not torch.equal(policy.act_inference(other), policy.act_inference(obs))
    assert torch.equal(policy.evaluate(other), value)
    actor, critic = ({id(p) for p in group} for group in policy.parameter_groups())
    assert {id(p) for p in policy.encoder_a.parameters()} <= actor
    assert {id(p) for p in policy.encoder_c.parameters()} <= critic and not actor & critic
    assert {name.split(".")[0] for name in policy.state_dict()} == {"std", "actor", "critic", "encoder_a", "encoder_c"}


def make_ppo(policy, obs, **settings):
    settings = {"num_mini_batches": 2, "num_learning_epochs": 2, **settings}
    return ppo_of(policy, N, T, {name: GroupSpec.of(group) for name, group in obs.items()}, **settings)


def collect(ppo, dtype=torch.float32):
    for _ in range(T):
        ppo.act(observe(N, dtype=dtype))
        ppo.process_env_step(torch.randn(N), torch.rand(N) < 0.2, {"time_outs": torch.rand(N) < 0.5})
    ppo.compute_returns(observe(N, dtype=dtype))


def assert_replayed_equals_acted(ppo):
    """The policy gives its mini-batches the log-probabilities and values of the rollout: the first ratio is 1."""
    policy, storage = ppo.policy, ppo.storage
    for indices in storage.batches.shuffled(2, 1):
        batch = storage.batches.gather(indices)
        columns, (actor_state, critic_state) = batch.columns, batch.hidden_states
        log_prob = policy.update_distribution(batch.groups, batch.masks, actor_state).log_prob(columns["actions"])
        torch.testing.assert_close(log_prob, columns["actions_log_prob"], atol=1e-5, rtol=1e-5)
        values = policy.evaluate(batch.groups, batch.masks, critic_state)
        torch.testing.assert_close(values, columns["values"], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("memory", [None, "gru", "lstm"])
@pytest.mark.parametrize("settings", [{}, {"unroll_len": 4, "burn_in": 1}], ids=["whole", "chunks"])
def test_policy_with_images_acts_and_learns_through_ppo(memory, settings):
    if settings and memory is None:
        pytest.skip("chunks are for policies with memory")
    images = {"image_shapes": {"camera": CAMERA, "heights": HEIGHTS}, "cnn": CNNS}
    groups = {"actor_groups": ("policy", "camera"), "critic_groups": ("heights",)}  # a critic of images only
    if memory:
        policy = ActorCriticRecurrent(3, 0, A, **groups, **images, **NETS, **{**GRU, "rnn_type": memory})
    else:
        policy = ActorCritic(3, 0, A, **groups, **images, **NETS)
    ppo = make_ppo(policy, observe(N, dtype=torch.uint8), **settings)
    for _ in range(2):
        collect(ppo, dtype=torch.uint8)
        assert ppo.storage.groups["camera"].dtype == torch.uint8
        if not settings:
            assert_replayed_equals_acted(ppo)
        before = {name: p.clone() for name, p in policy.named_parameters()}
        metrics = ppo.update().metrics
        assert all(torch.isfinite(value) for value in metrics.values()) and metrics["skipped_steps"] == 0
        assert not any(torch.equal(p, before[name]) for name, p in policy.named_parameters())


@pytest.mark.parametrize("memory", ["gru", "lstm"])
def test_cnn_with_memory_step_by_step_equals_its_sequence(memory):
    images = {"image_shapes": {"camera": CAMERA}, "cnn": CNNS}
    settings = {**GRU, "rnn_type": memory, "actor_groups": ("camera", "policy")}
    policy = ActorCriticRecurrent(3, 3, A, **images, **settings, **NETS)
    obs, dones = observe(T, N), torch.rand(T, N) < 0.3
    with torch.no_grad():
        stepped = []
        for t in range(T):
            stepped.append(policy.act_inference({name: group[t] for name, group in obs.items()}))
            policy.reset(dones[t])
        sequence = policy.actor_model(obs, ResetMasks.of_dones(dones))
    torch.testing.assert_close(torch.stack(stepped), sequence, atol=1e-6, rtol=1e-5)


# Symmetry of images

ACTOR_MIRROR = ((0, 2, 1), (-1.0, 1.0, 1.0))  # of "policy"
ACTION_MIRROR = ((1, 0), (-1.0, -1.0))
WIDTHS = {"camera": CAMERA[-1], "heights": HEIGHTS[-1]}
IMAGE_MIRRORS = {name: (tuple(reversed(range(width))), (1.0,) * width) for name, width in WIDTHS.items()}
SYMMETRY = {
    "actor_mirror": ACTOR_MIRROR,
    "critic_mirror": ACTOR_MIRROR,
    "action_mirror": ACTION_MIRROR,
    "image_mirrors": IMAGE_MIRRORS,
    "image_shapes": {"camera": CAMERA, "heights": HEIGHTS},
    "cnn": CNNS,
    "actor_groups": ("policy", "camera", "heights"),
}


def mirrored(x, image):
    return mirror(x, torch.tensor(image[0]), torch.tensor(image[1]).to(x.dtype))


def mirrored_obs(obs):
    return {name: mirrored(obs[name], image) for name, image in {"policy": ACTOR_MIRROR, **IMAGE_MIRRORS}.items()}


@pytest.mark.parametrize("dtype", [torch.float32, torch.uint8])
def test_symmetric_policy_with_images_commutes_with_the_mirror(dtype):
    policy = randomize(SymmetricActorCritic(3, 3, A, **SYMMETRY, **NETS))
    obs = observe(10, dtype=dtype)
    image = mirrored_obs(obs)
    assert torch.equal(mirrored_obs(image)["camera"], obs["camera"])
    action = policy.act_inference(obs)
    torch.testing.assert_close(policy.act_inference(image), mirrored(action, ACTION_MIRROR), atol=1e-5, rtol=1e-5)
    assert not torch.allclose(action, mirrored(action, ACTION_MIRROR), atol=0.01)
    value = policy.evaluate(obs)
    torch.testing.assert_close(policy.evaluate(image), value, atol=1e-5, rtol=1e-5)
    assert value.std() > 0.01
    blind = policy.act_inference({**obs, "camera": torch.zeros_like(obs["camera"])})
    assert not torch.allclose(blind, action, atol=0.01)  # it sees the image


@pytest.mark.parametrize("memory", ["gru", "lstm"])
def test_symmetric_recurrent_policy_with_images_commutes_with_the_mirror_at_each_step(memory):
    settings = {**SYMMETRY, **NETS, **GRU, "rnn_type": memory, "rnn_num_layers": 2}
    policy = randomize(SymmetricActorCriticRecurrent(3, 3, A, **settings))
    steps = [observe(10) for _ in range(T)]

    def walk(steps):
        policy.reset()
        return [(policy.act_inference(obs), policy.evaluate(obs)) for obs in steps]

    for (action, value), (image, same) in zip(walk(steps), walk([mirrored_obs(obs) for obs in steps])):
        torch.testing.assert_close(image, mirrored(action, ACTION_MIRROR), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(same, value, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(walk(steps)[-1][0], walk([steps[-1]])[0][0], atol=1e-3)  # the past matters


def test_symmetric_policy_with_images_stays_symmetric_while_it_learns():
    policy = SymmetricActorCritic(3, 3, A, **SYMMETRY, **NETS)
    ppo = make_ppo(policy, {name: group for name, group in observe(N).items() if name != "goal"})
    for _ in range(2):
        collect(ppo)
        ppo.update()
    obs = observe(10)
    action = policy.act_inference(obs)
    image = policy.act_inference(mirrored_obs(obs))
    torch.testing.assert_close(image, mirrored(action, ACTION_MIRROR), atol=1e-5, rtol=1e-5)


def test_symmetric_policy_without_the_mirror_of_an_image_raises():
    with pytest.raises(ValueError, match="image_mirrors has no 'camera'"):
        SymmetricActorCritic(3, 3, A, **{**SYMMETRY, "image_mirrors": {}}, **NETS)


# Memories of one network


@pytest.mark.parametrize("memory", ["gru", "lstm"])
@pytest.mark.parametrize("role", ["actor", "critic"])
@pytest.mark.parametrize("settings", [{}, {"unroll_len": 4, "burn_in": 1}], ids=["whole", "chunks"])
def test_policy_with_one_memory_acts_and_learns_through_ppo(memory, role, settings):
    policy = ActorCriticRecurrent(3, 3, A, **{**GRU, "rnn_type": memory}, memory_of=(role,), **NETS)
    assert [part is not None for part in policy.memories] == [role == "actor", role == "critic"]
    ppo = make_ppo(policy, {"policy": torch.zeros(N, 3)}, **settings)
    for _ in range(2):
        collect(ppo)
        states = policy.get_hidden_states()
        assert [state is not None for state in states] == [role == "actor", role == "critic"]
        assert [len(saved) > 0 for saved in ppo.storage.saved_states] == [role == "actor", role == "critic"]
        if not settings:
            assert_replayed_equals_acted(ppo)
        before = {name: p.clone() for name, p in policy.named_parameters()}
        metrics = ppo.update().metrics
        assert metrics["skipped_steps"] == 0 and all(torch.isfinite(value) for value in metrics.values())
        assert not any(torch.equal(p, before[name]) for name, p in policy.named_parameters())


def test_policy_with_a_memory_of_the_actor_alone_solves_recall():
    cfg = Recall()
    policy = ActorCriticRecurrentConfig(
        **{**GRU, "rnn_hidden_size": 16}, memory_of=("actor",), actor_hidden_dims=(16,), critic_hidden_dims=(16,)
    )
    env = cfg.env.build(seed=1)
    cfg = type(cfg)(policy=policy, algorithm=cfg.algorithm)
    ppo = PPO.from_env(cfg, env, "cpu")
    obs = env.get_observations()
    for _ in range(20):
        rewards = []
        for _ in range(cfg.runner.num_steps_per_env):
            obs, reward, done, extras = env.step(ppo.act(obs))
            ppo.process_env_step(reward, done, extras)
            rewards.append(reward)
        ppo.compute_returns(obs)
        ppo.update()
    assert torch.stack(rewards).mean() > 0.6  # 1 / 12 is the most without memory; 0.76 to 0.80 over seeds


# Names

HEADS = [f"{net}.{i}.{part}" for net in ("actor", "critic") for i in (0, 2, 4) for part in ("weight", "bias")]
RNN = [f"rnn.{part}_{gate}_l0" for part in ("weight", "bias") for gate in ("ih", "hh")]
MEMORIES = [f"{memory}.{name}" for memory in ("memory_a", "memory_c") for name in RNN]
MIRRORED_HEADS = [
    f"{net}.{i}.{part}"
    for net in ("actor", "critic")
    for i in (0, 2, 4)
    for part in ("weight", "bias", "input_index", "input_sign", "output_index", "output_sign")
]
MIRRORED_MEMORIES = [
    f"{memory}.{name}"
    for memory in ("memory_a", "memory_c")
    for name in ("input_index", "input_sign", "unit_index", "unit_sign", "gate_index", "gate_sign", *RNN)
]
NORMALIZERS = [f"{net}_obs_normalizer.{name}" for net in ("actor", "critic") for name in ("mean", "var", "count")]
PAIR = ((1, 0), (1.0, 1.0))
PAIRS = {"actor_mirror": PAIR, "critic_mirror": PAIR, "action_mirror": PAIR}
NORMALIZED = {"actor_obs_normalization": True, "critic_obs_normalization": True}


@pytest.mark.parametrize(
    ("config", "settings", "names"),
    [
        (ActorCriticConfig, NORMALIZED, ["std", *HEADS, *NORMALIZERS]),
        (ActorCriticRecurrentConfig, {**GRU, "noise_std_type": "log"}, ["log_std", *HEADS, *MEMORIES]),
        (SymmetricActorCriticConfig, PAIRS, ["std", *MIRRORED_HEADS]),
        (SymmetricActorCriticRecurrentConfig, {**PAIRS, **GRU}, ["std", *MIRRORED_HEADS, *MIRRORED_MEMORIES]),
    ],
)
def test_state_dict_of_known_policies_has_the_names_of_format_1_checkpoints(config, settings, names):
    policy = config(actor_hidden_dims=(8, 6), critic_hidden_dims=(8, 6), **settings).build(2, 2, 2)
    assert set(policy.state_dict()) == set(names)
    # The optimiser's state counts parameters in this order.
    learned = [name for name in names if name.split(".")[-1].startswith(("std", "log_std", "weight", "bias"))]
    assert [name for name, _ in policy.named_parameters()] == learned


@pytest.mark.parametrize(("name", "layer"), [("GRU", nn.GRU), ("Gru", nn.GRU), ("LSTM", nn.LSTM), ("lStm", nn.LSTM)])
def test_rnn_type_in_any_case_of_letters_is_known(name, layer):
    assert type(Memory(3, name).rnn) is layer
    policy = ActorCriticRecurrent(3, 3, A, rnn_type=name, rnn_hidden_size=4, **NETS)
    assert type(policy.memory_a.rnn) is type(policy.memory_c.rnn) is layer


# Normalised values


VALUE_POLICIES = {
    "mlp": lambda: ActorCritic(3, 3, A, value_normalization=True, **NETS),
    "gru": lambda: ActorCriticRecurrent(3, 3, A, value_normalization=True, **GRU, **NETS),
    "symmetric": lambda: SymmetricActorCritic(
        3, 3, A, value_normalization=True, actor_mirror=ACTOR_MIRROR, critic_mirror=ACTOR_MIRROR,
        action_mirror=ACTION_MIRROR, **NETS,
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", VALUE_POLICIES)
def test_value_normalization_with_changed_statistics_keeps_the_values(kind):
    policy = VALUE_POLICIES[kind]()
    obs = torch.randn(20, 3)
    for scale, shift in ((1.0, 0.0), (50.0, 300.0), (0.1, -20.0)):
        before = policy.evaluate(obs, advance=False).detach()
        returns = scale * torch.randn(T, N, 1) + shift
        outputs = policy.critic_model(obs, advance=False).detach()
        policy.value_normalizer.update(returns, torch.ones(T, N, 1))
        statistics = policy.value_normalizer.statistics
        size = (statistics.mean.abs() + statistics.var.sqrt()).item() + 1.0  # of what is added up in float32
        torch.testing.assert_close(policy.evaluate(obs, advance=False), before, atol=1e-6 * size, rtol=1e-5)
        assert not torch.allclose(policy.critic_model(obs, advance=False), outputs)
    assert statistics.count == 3 * T * N and statistics.mean.item() > 50


def test_value_normalization_of_masked_returns_ignores_them():
    policy = VALUE_POLICIES["mlp"]()
    returns, mask = torch.randn(T, N, 1), (torch.rand(T, N, 1) < 0.5).float()
    policy.value_normalizer.update(torch.where(mask > 0, returns, 1e5), mask)
    torch.testing.assert_close(policy.value_normalizer.statistics.mean, returns[mask > 0].mean().view(1))


@pytest.mark.parametrize("kind", VALUE_POLICIES)
def test_value_normalization_learns_large_returns(kind):
    """Returns of 1000 +- 100, of which a constant explains all but 80; Adam's steps of 0.01 would need thousands of
    them to get there without normalisation."""
    ppo = make_ppo(
        VALUE_POLICIES[kind](), {"policy": torch.zeros(N, 3)}, gamma=0.0, learning_rate=1e-2, schedule="fixed"
    )
    errors = []
    for _ in range(60):
        for _ in range(T):
            obs = {"policy": torch.randn(N, 3)}
            ppo.act(obs)
            ppo.process_env_step(1000.0 + 100.0 * 0.5**0.5 * obs["policy"][:, 1:].sum(dim=1), torch.rand(N) < 0.2, {})
        ppo.compute_returns(obs)
        columns = ppo.storage.columns
        errors.append((columns["returns"] - columns["values"]).abs().mean().item())
        metrics = ppo.update().metrics
        assert metrics["skipped_steps"] == 0 and metrics["value_loss"] < 1e9
    assert errors[0] > 500 and sum(errors[-10:]) / 10 < 30
    assert "value_normalizer.statistics.mean" in ppo.policy.state_dict()
