import pytest
import torch
from torch import nn

from rsl_rl.config.policy import ActorCriticConfig
from rsl_rl.distributed import SINGLE_PROCESS
from rsl_rl.modules.networks import init_orthogonal
from rsl_rl.modules.policy import ActorCritic, ActorCriticRecurrent


def test_actor_critic_log_prob_equals_that_of_torch_normal():
    policy = ActorCritic(3, 5, 2, critic_groups=("critic",))
    obs = {"policy": torch.randn(6, 3), "critic": torch.randn(6, 5)}
    actions, ours = policy.act(obs), policy.distribution
    expected = torch.distributions.Normal(ours.mode, policy.noise_std()).log_prob(actions).sum(dim=-1, keepdim=True)
    torch.testing.assert_close(ours.log_prob(actions), expected)
    assert torch.equal(policy.act_inference(obs), ours.mode)
    assert policy.evaluate(obs).shape == (6, 1)


@pytest.mark.parametrize("kind", ["scalar", "log"])
def test_noise_std_starts_at_its_setting_and_stays_above_the_floor(kind):
    policy = ActorCritic(3, 3, 2, noise_std_type=kind, init_noise_std=0.7, min_noise_std=0.05)
    torch.testing.assert_close(policy.noise_std(), torch.full((2,), 0.7))
    parameter = policy.log_std if kind == "log" else policy.std
    with torch.no_grad():
        parameter.fill_(-30.0)
    assert (policy.noise_std() >= 0.05).all()
    assert torch.isfinite(policy.act(torch.randn(4, 3))).all()


def test_orthogonal_initialization_makes_orthogonal_weights():
    policy = ActorCritic(8, 8, 4, initialization="orthogonal", actor_hidden_dims=(8,), critic_hidden_dims=(8,))
    weight = policy.actor[0].weight
    torch.testing.assert_close(weight @ weight.T, 2.0 * torch.eye(8), atol=1e-5, rtol=0)
    assert policy.actor[-1].weight.norm() < 0.1 and (policy.actor[0].bias == 0).all()
    with pytest.raises(ValueError, match="1 scales for 2 linear layers"):
        init_orthogonal(policy.actor, [1.0])


def test_actor_and_critic_concatenate_their_groups_in_order():
    policy = ActorCritic(3, 3, 1, actor_groups=("b", "a"), critic_groups=("a", "b"))
    obs = {"a": torch.ones(2, 1), "b": torch.zeros(2, 2)}
    assert policy.actor_model.vectors(obs)[0].tolist() == [0, 0, 1]
    assert policy.critic_model.vectors(obs)[0].tolist() == [1, 0, 0]
    assert torch.equal(policy.act_inference(obs), policy.act_inference(policy.actor_model.vectors(obs)))
    assert torch.equal(policy.evaluate(obs), policy.critic(torch.tensor([[1.0, 0.0, 0.0]]).expand(2, 3)))


def test_update_normalization_changes_the_normalizer_of_a_network_that_has_one():
    policy = ActorCritic(3, 3, 1, actor_obs_normalization=True)
    assert isinstance(policy.critic_obs_normalizer, nn.Identity) and not policy.critic_model.has_statistics
    assert policy.actor_model.has_statistics
    rollout = {"policy": torch.full((4, 2, 3), 9.0)}
    policy.actor_model.update_normalization(rollout, torch.ones(4, 2, 1), SINGLE_PROCESS)
    torch.testing.assert_close(policy.actor_obs_normalizer.mean, torch.full((3,), 9.0))


def test_policy_without_memory_has_no_hidden_states():
    policy = ActorCritic(3, 3, 1)
    assert policy.get_hidden_states() == policy.current_states(2) == policy.memories == (None, None)
    policy.reset(torch.ones(2))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"activation": "swish"}, "activation='swish'; allowed"),
        ({"noise_std_type": "exp"}, "noise_std_type='exp'; allowed: scalar, log"),
        ({"initialization": "xavier"}, "initialization='xavier'"),
        ({"actor_hidden_dims": (0,)}, "actor_hidden_dims"),
        ({"min_noise_std": 0.0}, "min_noise_std=0.0"),
        ({"init_noise_std": 0.005}, "init_noise_std=0.005 must lie above"),
        ({"actor_groups": ()}, "actor_groups is empty"),
    ],
)
def test_actor_critic_with_invalid_settings_raises(settings, words):
    with pytest.raises(ValueError, match=words):
        ActorCritic(3, 3, 1, **settings)


def test_actor_critic_with_an_unknown_setting_raises():
    with pytest.raises(TypeError, match="actor_hidden_dim"):
        ActorCritic(3, 3, 1, actor_hidden_dim=(8,))


def test_config_builds_its_class():
    assert type(ActorCriticConfig().build(3, 3, 1)) is ActorCritic


@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_recurrent_policy_has_a_state_for_each_network_and_environment(kind):
    policy = ActorCriticRecurrent(
        3, 4, 2, rnn_type=kind, rnn_hidden_size=5, actor_hidden_dims=(8,), critic_hidden_dims=(8,)
    )
    assert policy.get_hidden_states() == (None, None)
    obs, critic_obs = torch.randn(6, 3), torch.randn(6, 4)
    with torch.no_grad():
        first = policy.act_inference(obs)
        policy.evaluate(critic_obs)
        second = policy.act_inference(obs)
        assert not torch.allclose(first, second)  # it remembers
        before = [s.clone() for s in _tensors(policy.get_hidden_states()[1])]
        policy.evaluate(critic_obs, advance=False)
        assert all(torch.equal(a, b) for a, b in zip(before, _tensors(policy.get_hidden_states()[1])))
        policy.reset(torch.tensor([1, 0, 0, 0, 0, 0]))
        third = policy.act_inference(obs)
        assert torch.allclose(third[0], first[0]) and not torch.allclose(third[1], first[1])


def _tensors(state):
    return state if isinstance(state, tuple) else (state,)
