import pytest
import torch

from rsl_rl.config.policy import SymmetricActorCriticConfig
from rsl_rl.modules.symmetric import SymmetricActorCritic

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


def test_a_mirrored_robot_gets_the_mirrored_action_and_the_same_value(policy):
    obs, critic_obs = torch.randn(10, 4), torch.randn(10, 3)
    torch.testing.assert_close(policy.act_inference(mirrored(obs, ACTOR)), mirrored(policy.act_inference(obs), ACTION))
    torch.testing.assert_close(policy.evaluate(mirrored(critic_obs, CRITIC)), policy.evaluate(critic_obs))
    assert policy.act_inference(obs).std() > 0.1  # and it is not symmetric by being constant


def test_both_sides_explore_alike(policy):
    std = policy.noise_std()
    assert std[0] == std[1]


def test_the_spread_of_a_fresh_network_is_that_of_a_plain_one():
    from rsl_rl.modules.mlp import mlp
    from rsl_rl.modules.symmetric import symmetric_mlp

    identity = (tuple(range(64)), (1.0,) * 32 + (-1.0,) * 32)
    x = torch.randn(500, 64)
    ratio = symmetric_mlp(identity, (256, 256), identity, "elu")(x).std() / mlp(64, (256, 256), 64, "elu")(x).std()
    assert 0.7 < ratio < 1.4


def test_mirrors_of_another_size_are_refused():
    with pytest.raises(ValueError, match="actor_mirror has 4 entries and the vector 5"):
        SymmetricActorCritic(5, 3, 2, actor_mirror=ACTOR, critic_mirror=CRITIC, action_mirror=ACTION)


def test_odd_layers_are_refused():
    with pytest.raises(ValueError, match="even"):
        SymmetricActorCriticConfig(actor_hidden_dims=(7,))
