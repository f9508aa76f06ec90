import copy
from dataclasses import replace

import pytest
import torch

from rsl_rl.algorithms import PPO
from rsl_rl.compat.config import client_of
from rsl_rl.compat.eras import era_of
from rsl_rl.config.learn import LearnConfig
from rsl_rl.config.policy import ActorCriticRecurrentConfig
from rsl_rl.env import as_vec_env
from rsl_rl.modules import ActorCritic
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.utils.config_io import to_dict
from tests.compat.era_configs import CONFIGS, HIDDEN, v1, v2, v3, v4, v5
from tests.era_clients import A, D, V1Env, V1PrivilegedEnv, V2Env, V3Env, V5Env

ENVS = {1: V1PrivilegedEnv, 2: V2Env, 3: V5Env, 4: V5Env, 5: V5Env}


def client(cfg, env=None):
    env = as_vec_env(env or ENVS[era_of(cfg).major]())
    return client_of(cfg, env, env)


def settings(cfg, env=None):
    return client(cfg, env).settings


def changed(cfg, **sections):
    """Return a configuration with other values; a section is merged."""
    for name, value in sections.items():
        cfg[name] = {**cfg[name], **value} if isinstance(value, dict) and value and name in cfg else value
    return cfg


@pytest.mark.parametrize("major", CONFIGS)
def test_era_of_a_configuration_is_told_by_its_content(major):
    assert era_of(CONFIGS[major]()).major == major


@pytest.mark.parametrize(
    ("cfg", "major"),
    [
        ({**v2(), "runner": {"policy_class_name": "ActorCritic"}}, 2),  # Genesis keeps a section "runner"
        ({**v3(), "obs_groups": {}}, 3),
        ({**v5(), "policy": {}, "obs_groups": {}, "empirical_normalization": {}}, 5),  # Isaac Lab: {} for unset
        ({**v3(), "actor": {}, "critic": {}}, 3),
        (to_dict(LearnConfig()), None),
        ({"algorithm": {"gama": 0.9}}, None),
        ({"runner": {"num_steps_per_env": 8}, "policy": {"init_noise_std": 0.5}, "algorithm": {"gamma": 0.9}}, None),
        ({}, None),
    ],
)
def test_era_of_ambiguous_configurations(cfg, major):
    era = era_of(cfg)
    assert (era.major if era else None) == major


@pytest.mark.parametrize("major", CONFIGS)
def test_a_configuration_of_each_era_trains_and_is_left_as_it_was(major):
    cfg = CONFIGS[major]()
    before = copy.deepcopy(cfg)
    runner = OnPolicyRunner(ENVS[major](), cfg)
    runner.learn(2)
    assert cfg == before
    assert runner.tot_timesteps == 2 * 6 * 8
    assert runner.alg.policy.actor[0].out_features == HIDDEN[0]


@pytest.mark.parametrize(
    ("major", "epochs", "gamma", "entropy", "schedule", "joint"),
    [
        (1, 1, 0.998, 0.0, "fixed", True),
        (2, 1, 0.998, 0.0, "fixed", True),
        (3, 5, 0.99, 0.01, "adaptive", True),
        (4, 5, 0.99, 0.01, "adaptive", False),
        (5, 5, 0.99, 0.01, "adaptive", False),
    ],
)
def test_what_a_configuration_leaves_out_has_the_default_of_its_era(major, epochs, gamma, entropy, schedule, joint):
    cfg = CONFIGS[major]()
    cfg["algorithm"] = {"class_name": "PPO"}
    algorithm = settings(cfg).algorithm
    assert (algorithm.num_learning_epochs, algorithm.gamma, algorithm.entropy_coef) == (epochs, gamma, entropy)
    assert (algorithm.schedule, algorithm.joint_grad_norm) == (schedule, joint)


def test_the_whole_of_a_first_configuration_is_taken_over():
    cfg = changed(v1(init_noise_std=0.7), algorithm={"schedule": "adaptive", "desired_kl": 0.02, "max_grad_norm": 0.5})
    ours = settings(cfg)
    assert ours.algorithm.desired_kl == 0.02 and ours.algorithm.max_grad_norm == 0.5
    assert ours.policy.init_noise_std == 0.7 and ours.policy.actor_hidden_dims == tuple(HIDDEN)
    assert ours.runner.num_steps_per_env == 6 and ours.runner.experiment_name == "point_flat"


@pytest.mark.parametrize("flag", [True, False, None, {}])
def test_empirical_normalization_normalizes_both_networks(flag):
    policy = settings({**v2(), "empirical_normalization": flag}).policy
    assert (policy.actor_obs_normalization, policy.critic_obs_normalization) == (flag is True,) * 2


def test_normalization_of_a_network_wins_over_the_old_flag():
    cfg = changed({**v3(), "empirical_normalization": True}, policy={"critic_obs_normalization": False})
    assert not settings(cfg).policy.critic_obs_normalization


@pytest.mark.parametrize(
    ("cfg", "env", "actor", "critic"),
    [
        (v1(), V1Env, ("policy",), ("policy",)),
        (v1(), V1PrivilegedEnv, ("policy",), ("critic",)),
        (v2(), V2Env, ("policy",), ("critic",)),
        ({**v3(), "obs_groups": {"policy": ("state",), "critic": ["privileged_state"]}}, V3Env, ("state",),
         ("privileged_state",)),
        ({**v5(), "obs_groups": {}}, V5Env, ("actor",), ("critic",)),
        ({**v5(), "obs_groups": {"actor": ["actor"]}}, V5Env, ("actor",), ("critic",)),
        ({**v5(), "obs_groups": {"policy": ["actor"], "critic": ["critic", "actor"]}}, V5Env, ("actor",),
         ("critic", "actor")),
        ({**v4(), "obs_groups": {}}, V2Env, ("policy",), ("critic",)),
    ],
)  # fmt: skip
def test_observation_groups_are_found(cfg, env, actor, critic):
    policy = settings(cfg, env()).policy
    assert (policy.actor_groups, policy.critic_groups) == (actor, critic)


@pytest.mark.parametrize(
    ("cfg", "size"),
    [
        (v1(rnn_type="lstm", rnn_hidden_size=12, rnn_num_layers=2), 12),
        (v2(rnn_type="GRU", rnn_hidden_dim=11), 11),
        (v5(rnn_type="gru", rnn_hidden_dim=10), 10),
    ],
)
def test_recurrent_networks_keep_type_and_size(cfg, size):
    policy = settings(cfg).policy
    assert isinstance(policy, ActorCriticRecurrentConfig) and policy.memory_of == ("actor", "critic")
    assert policy.rnn_hidden_size == size and policy.rnn_type in ("lstm", "gru")


def test_one_of_two_networks_may_be_recurrent():
    cfg = v5()
    cfg["actor"].update(class_name="RNNModel", rnn_type="gru", rnn_hidden_dim=7)
    policy = settings(cfg).policy
    assert policy.memory_of == ("actor",) and policy.rnn_hidden_size == 7


@pytest.mark.parametrize(
    ("distribution", "expected"),
    [
        ({"class_name": "GaussianDistribution", "init_std": 0.3, "std_type": "log"}, ("gaussian", False, 0.3, "log")),
        ({"class_name": "HeteroscedasticGaussianDistribution", "init_std": 1.0}, ("gaussian", True, 1.0, "scalar")),
        ({"class_name": "rsl_rl.modules:BetaDistribution"}, ("beta", False, 1.0, "scalar")),
        ({"class_name": "GaussianDistribution", "std_range": (0.05, 1.0)}, ("gaussian", False, 1.0, "scalar")),
    ],
)
def test_distributions_of_version_5_are_taken_over(distribution, expected):
    cfg = v5()
    cfg["actor"]["distribution_cfg"] = distribution
    policy = settings(cfg).policy
    kind = policy.distribution, policy.state_dependent_std, policy.init_noise_std, policy.noise_std_type
    assert kind == expected
    assert policy.min_noise_std == distribution.get("std_range", (0.01,))[0]


@pytest.mark.parametrize("name", ["elu", "ReLU", "crelu", "swish", "mish", "softplus", "identity"])
def test_every_activation_of_earlier_versions_is_there(name):
    runner = OnPolicyRunner(V2Env(), v2(activation=name))
    runner.learn(1)
    module = {"crelu": "CELU", "swish": "SiLU"}.get(name, name)  # crelu as version 2 and later have it
    assert type(runner.alg.policy.actor[1]).__name__.lower() == module.lower()


def test_hidden_layers_of_the_inputs_size():
    assert settings(v3(actor_hidden_dims=[-1, 4])).policy.actor_hidden_dims == (D, 4)


def test_random_network_distillation_is_taken_over_with_the_weight_of_a_step():
    rnd = {
        "weight": 5.0, "weight_schedule": {"mode": "step", "final_step": 100, "final_value": 0.5},
        "reward_normalization": True, "num_outputs": 3, "predictor_hidden_dims": [-1, 8], "target_hidden_dims": [8],
    }  # fmt: skip
    (extension,) = settings(changed(v2(), algorithm={"rnd_cfg": rnd})).extensions
    assert extension.weight == pytest.approx(5.0 * 0.02) and extension.groups == ("rnd_state",)
    assert extension.predictor_hidden_dims == (A, 8) and extension.reward_normalization
    assert (extension.weight_schedule, extension.final_step, extension.final_weight) == ("step", 100, 0.5)
    OnPolicyRunner(V2Env(), changed(v2(), algorithm={"rnd_cfg": rnd})).learn(1)


@pytest.mark.parametrize("logger", ["tensorboard", {"class_name": "WandbLogWriter"}, "neptune", None, {}])
def test_loggers_are_found_by_either_form(logger, capsys):
    found = settings({**v5(), "logger": logger}).runner.logger
    assert found == ("wandb" if isinstance(logger, dict) and logger else "tensorboard")
    assert ("neptune" in capsys.readouterr().err) == (logger == "neptune")


def test_settings_without_effect_are_named_in_one_line_and_kept(capsys):
    cfg = changed({**v5(), "my_flag": 3}, algorithm={"optimizer": "adamw", "beta_schedule": 1}, actor={"skip": True})
    seen = client(cfg)
    (line,) = capsys.readouterr().err.splitlines()
    for name in ("my_flag", "algorithm.optimizer=adamw", "algorithm.beta_schedule", "actor.skip"):
        assert name in line
    assert seen.cfg["my_flag"] == 3 and seen.cfg["upload_model"]


@pytest.mark.parametrize("major", CONFIGS)
def test_usual_configurations_are_silent(major, capsys):
    client(CONFIGS[major]())
    assert capsys.readouterr().err == ""


def test_what_is_written_to_the_runners_configuration_does_not_reach_the_callers():
    cfg = v5()
    seen = client(cfg)
    seen.cfg["algorithm"]["gamma"], seen.cfg["obs_groups"]["critic"] = 0.5, []
    assert cfg == v5()


def test_a_wrong_name_in_our_own_format_is_an_error():
    with pytest.raises(ValueError, match=r"unknown setting 'algorithm.gama'.*'gamma'"):
        OnPolicyRunner(V1Env(), {"algorithm": {"gama": 0.9}, "runner": {"num_steps_per_env": 8}})


def test_networks_that_ours_cannot_be_are_refused():
    cfg = v5()
    cfg["critic"]["activation"] = "tanh"
    with pytest.raises(ValueError, match="activation is 'elu' for the actor and 'tanh' for the critic"):
        settings(cfg)
    cfg = v5()
    cfg["actor"]["class_name"] = "TransformerModel"
    with pytest.raises(ValueError, match="class_name='TransformerModel' is unknown"):
        settings(cfg)


class ClientPPO(PPO):
    def __init__(self, *args, bonus=0.0, **kwargs):
        super().__init__(*args, **kwargs)
        self.bonus = bonus


class ClientPolicy(ActorCritic):
    def __init__(self, *args, depth=1, **kwargs):
        super().__init__(*args, **kwargs)
        self.depth = depth


NAMES = [ClientPPO, f"{__name__}:ClientPPO", f"{__name__}.ClientPPO", "ClientPPO"]


class HomeEnv(V2Env):
    """An environment in the module of the client's classes."""


@pytest.mark.parametrize("name", NAMES, ids=str)
def test_an_algorithm_of_the_client_is_found_and_gets_its_own_settings(name):
    cfg = changed(v2(), algorithm={"class_name": name, "bonus": 2.5})
    runner = OnPolicyRunner(HomeEnv(), cfg)
    assert isinstance(runner.alg, ClientPPO) and runner.alg.bonus == 2.5 and runner.alg.cfg.learning_rate == 5e-4
    runner.learn(1)


@pytest.mark.parametrize("name", [ClientPolicy, f"{__name__}:ClientPolicy", "ClientPolicy"], ids=str)
def test_a_policy_of_the_client_is_found_and_gets_its_own_settings(name):
    runner = OnPolicyRunner(HomeEnv(), v2(class_name=name, depth=4))
    assert isinstance(runner.alg.policy, ClientPolicy) and runner.alg.policy.depth == 4
    runner.learn(1)


@pytest.mark.parametrize("name", [ActorCritic, "rsl_rl.modules.ActorCritic", "rsl_rl.modules:ActorCriticRecurrent"])
def test_our_policy_by_its_place_takes_a_configuration_with_unknown_settings(name, capsys):
    policy = settings(v2(class_name=name, dropout=0.1)).policy
    assert type(policy).__name__ in ("ActorCriticConfig", "ActorCriticRecurrentConfig")
    assert "policy.dropout" in capsys.readouterr().err


def test_a_class_that_a_client_puts_into_the_runners_module_is_found(monkeypatch):
    import rsl_rl.runners.on_policy_runner as module

    monkeypatch.setattr(module, "Injected", type("Injected", (ClientPPO,), {}), raising=False)
    cfg = changed(v1(), runner={"algorithm_class_name": "Injected"})
    assert type(OnPolicyRunner(V1Env(), cfg).alg).__name__ == "Injected"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("PPOO", "class_name='PPOO' is unknown.*'PPO'"),
        ("no_such_package.mod:Cls", "no_such_package"),
        ("rsl_rl.algorithms:PPOO", "has no 'PPOO'.*'PPO'"),
        ("VecEnvironment", "class_name='VecEnvironment' is unknown"),
        ("RolloutStorage.Transition", "there is no module"),
        ("rsl_rl.env:VecEnv", "can name PPO, a subclass"),
    ],
)
def test_a_class_name_that_leads_nowhere_is_an_error(name, words):
    with pytest.raises((ValueError, ModuleNotFoundError), match=words):
        settings(changed(v2(), algorithm={"class_name": name}))


def test_a_configuration_for_images_gets_encoders():
    class Camera(V5Env):
        def groups(self):
            return {**super().groups(), "camera": torch.zeros(self.num_envs, 1, 8, 8)}

    cfg = v5()
    cnn = {"output_channels": [4, 8], "kernel_size": [3, 3], "stride": 2, "activation": "relu"}
    cfg["actor"].update(class_name="CNNModel", cnn_cfg=cnn)
    cfg["obs_groups"] = {"actor": ["actor", "camera"], "critic": ["critic"]}
    runner = OnPolicyRunner(Camera(), cfg)
    assert runner.train_cfg.policy.cnn["camera"].channels == (4, 8)
    runner.learn(1)


def test_our_own_config_objects_are_taken_as_they_are(small_cfg):
    cfg = replace(small_cfg, seed=5)
    assert client_of(cfg, as_vec_env(V1Env()), None).settings is cfg
