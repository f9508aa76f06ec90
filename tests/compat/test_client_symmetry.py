"""``data_augmentation_func`` of a client's symmetry_cfg, with the signature of each version."""

import pytest
import torch

from rsl_rl.compat.client_symmetry import ClientSymmetry
from rsl_rl.extensions import Symmetry
from rsl_rl.runners import OnPolicyRunner
from tests.compat.era_configs import v2, v3, v5
from tests.era_clients import A, C, D, V2Env, V5Env

CALLS = []


def both(x):
    return None if x is None else torch.cat((x, -x))


def of_groups(env, obs, actions):
    """Version 3 and later: all groups at once."""
    CALLS.append((env, type(obs)))
    if obs is not None:
        images = {name: both(group) for name, group in obs.items()}
        obs = images if type(obs) is dict else type(obs)(images, batch_size=[2 * obs.batch_size[0]])
    return obs, both(actions)


def by_obs_type(obs, actions, env, obs_type="policy"):
    """Version 2.3: the tensor of one network."""
    assert obs is None or obs.shape[1] == {"policy": D, "critic": C}[obs_type]
    CALLS.append((env, obs_type))
    return both(obs), both(actions)


def by_is_critic(obs, actions, env, is_critic=False):
    """Version 2.2."""
    assert obs is None or obs.shape[1] == (C if is_critic else D)
    CALLS.append((env, is_critic))
    return both(obs), both(actions)


class Batch(dict):
    """Groups with a batch size, as a TensorDict has it."""

    def __init__(self, groups, batch_size):
        super().__init__(groups)
        self.batch_size = torch.Size(batch_size)


class WithMirrors:
    """The same images as pairs of index and sign."""

    def mirrors(self):
        def negated(size):
            return torch.arange(size), -torch.ones(size)

        sizes = {"policy": D, "actor": D, "critic": C, "rnd_state": A, "actions": A}
        return {name: negated(size) for name, size in sizes.items()}


class MirroredV2(WithMirrors, V2Env):
    pass


class MirroredV5(WithMirrors, V5Env):
    pass


def trained(cfg, env, **symmetry):
    cfg["algorithm"]["symmetry_cfg"] = symmetry
    torch.manual_seed(1)
    runner = OnPolicyRunner(env, cfg)
    runner.learn(3)
    return runner


USES = [
    {"use_data_augmentation": True},
    {"use_mirror_loss": True, "mirror_loss_coeff": 0.5},
    {"use_data_augmentation": True, "use_mirror_loss": True, "mirror_loss_coeff": 0.5},
]


@pytest.mark.parametrize(
    ("config", "env", "function", "use"),
    [
        (v2, MirroredV2, by_is_critic, USES[2]),
        (v2, MirroredV2, f"{__name__}:by_obs_type", USES[2]),
        (v3, MirroredV5, f"{__name__}.of_groups", USES[2]),
        *((v5, MirroredV5, of_groups, use) for use in USES),
    ],
    ids=["2.2", "2.3", "3", "5 augmentation", "5 loss", "5"],
)
def test_a_function_of_the_client_learns_what_the_same_mirrors_learn(config, env, function, use):
    CALLS.clear()
    by_function = trained(config(), env(), data_augmentation_func=function, **use)
    by_mirrors = trained(config(), env(), **use)
    assert type(by_function.alg.extensions.all[0]) is ClientSymmetry
    assert type(by_mirrors.alg.extensions.all[0]) is Symmetry
    for name, value in by_mirrors.alg.policy.state_dict().items():
        torch.testing.assert_close(by_function.alg.policy.state_dict()[name], value, atol=1e-4, rtol=1e-3)
    assert CALLS and all(env is by_function.env for env, _ in CALLS)
    plain = trained(config(), env(), data_augmentation_func=function)
    assert not torch.equal(plain.alg.policy.actor[0].weight, by_function.alg.policy.actor[0].weight)


def test_groups_are_given_as_the_environment_gives_them():
    CALLS.clear()
    env = V5Env(wrap=lambda groups: Batch(groups, [8]))
    trained(v5(), env, data_augmentation_func=of_groups, use_data_augmentation=True)
    assert {kind for _, kind in CALLS} == {Batch, type(None)}


def test_a_function_with_a_recurrent_policy_or_without_a_place_is_refused():
    with pytest.raises(ValueError, match="data_augmentation_func has no images of recurrent states"):
        trained(v5(rnn_type="gru"), V5Env(), data_augmentation_func=of_groups)
    with pytest.raises(ValueError, match="class_name='nowhere' is unknown"):
        trained(v5(), V5Env(), data_augmentation_func="nowhere")


def test_symmetry_without_function_and_mirrors_is_named_as_without_effect(capsys):
    trained(v5(), V5Env(), use_data_augmentation=True)
    assert "symmetry_cfg, it needs data_augmentation_func" in capsys.readouterr().err
