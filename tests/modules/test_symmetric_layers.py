import pytest
import torch

from rsl_rl.config.policy import SymmetricActorCriticConfig, SymmetricActorCriticRecurrentConfig
from rsl_rl.modules.mlp import mlp
from rsl_rl.modules.policy import SymmetricActorCritic, SymmetricActorCriticRecurrent
from rsl_rl.modules.symmetry import symmetric_mlp
from rsl_rl.utils.trajectories import ResetMasks

ACTOR = ((1, 0, 2, 3), (1.0, 1.0, -1.0, 1.0))
CRITIC = ((0, 2, 1), (-1.0, 1.0, 1.0))
ACTION = ((1, 0), (-1.0, -1.0))


def mirrored(x, mirror):
    return x[:, list(mirror[0])] * torch.tensor(mirror[1])


@pytest.fixture
def policy():
    policy = SymmetricActorCritic(
        4, 3, 2, actor_hidden_dims=(8, 6), critic_hidden_dims=(8, 6),
        actor_mirror=ACTOR, critic_mirror=CRITIC, action_mirror=ACTION,
    )  # fmt: skip
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(torch.randn_like(parameter))  # biases too
    return policy


def test_symmetric_policy_for_mirrored_observations_gives_the_mirrored_action_and_equal_value(policy):
    obs, critic_obs = torch.randn(10, 4), torch.randn(10, 3)
    torch.testing.assert_close(policy.act_inference(mirrored(obs, ACTOR)), mirrored(policy.act_inference(obs), ACTION))
    torch.testing.assert_close(policy.evaluate(mirrored(critic_obs, CRITIC)), policy.evaluate(critic_obs))
    assert policy.act_inference(obs).std() > 0.1  # and it is not symmetric by being constant


def test_symmetric_policy_noise_std_is_equal_on_both_sides(policy):
    std = policy.noise_std()
    assert std[0] == std[1]


def test_symmetric_mlp_when_new_has_the_output_scale_of_a_plain_one():
    identity = (tuple(range(64)), (1.0,) * 32 + (-1.0,) * 32)
    x = torch.randn(500, 64)
    ratio = symmetric_mlp(identity, (256, 256), identity, "elu")(x).std() / mlp(64, (256, 256), 64, "elu")(x).std()
    assert 0.7 < ratio < 1.4


def test_symmetric_policy_with_mirrors_of_another_size_raises():
    with pytest.raises(ValueError, match="actor_mirror has 4 entries and the vector 5"):
        SymmetricActorCritic(5, 3, 2, actor_mirror=ACTOR, critic_mirror=CRITIC, action_mirror=ACTION)


def test_symmetric_config_with_odd_layers_raises():
    with pytest.raises(ValueError, match="even"):
        SymmetricActorCriticConfig(actor_hidden_dims=(7,))


@pytest.fixture(params=["gru", "lstm"])
def recurrent(request):
    policy = SymmetricActorCriticRecurrent(
        4, 3, 2, actor_hidden_dims=(8,), critic_hidden_dims=(8,),
        rnn_type=request.param, rnn_hidden_size=6, rnn_num_layers=2,
        actor_mirror=ACTOR, critic_mirror=CRITIC, action_mirror=ACTION,
    )  # fmt: skip
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(torch.randn_like(parameter))
    return policy


def test_symmetric_recurrent_policy_with_a_mirrored_past_gives_the_mirrored_action_and_equal_value(recurrent):
    steps, critic_steps = torch.randn(5, 10, 4), torch.randn(5, 10, 3)

    def walk(image):
        recurrent.reset()
        for obs, critic_obs in zip(steps, critic_steps):
            if image:
                obs, critic_obs = mirrored(obs, ACTOR), mirrored(critic_obs, CRITIC)
            action, value = recurrent.act_inference(obs), recurrent.evaluate(critic_obs)
        return action, value

    (action, value), (image, same_value) = walk(False), walk(True)
    torch.testing.assert_close(image, mirrored(action, ACTION))
    torch.testing.assert_close(same_value, value)
    assert action.std() > 0.1
    assert recurrent.noise_std()[0] == recurrent.noise_std()[1]


def test_symmetric_memory_as_a_torch_layer_computes_the_same(recurrent):
    x = torch.randn(5, 10, 4)
    expected = recurrent.memory_a.sequence(x, ResetMasks.none((5, 10)), None)
    torch.testing.assert_close(recurrent.memory_a.as_layer()(x)[0], expected, atol=1e-5, rtol=1e-4)


def test_symmetric_recurrent_config_with_odd_hidden_size_raises():
    with pytest.raises(ValueError, match="rnn_hidden_size=7: symmetric memories have two halves"):
        SymmetricActorCriticRecurrentConfig(rnn_hidden_size=7)
