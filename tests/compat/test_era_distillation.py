"""Distillation as clients of rsl_rl 2.3 to 5 use it."""

import copy

import pytest
import torch

from rsl_rl.algorithms import Distillation
from rsl_rl.runners import DistillationRunner, OnPolicyRunner
from tests.compat.era_configs import HIDDEN, v3, v5
from tests.era_clients import A, V5Env


def distil_v3(**policy):
    cfg = v3()
    cfg["algorithm"] = {"class_name": "Distillation", "num_learning_epochs": 2, "gradient_length": 3}
    cfg["policy"] = {
        "class_name": "StudentTeacher", "student_hidden_dims": [12], "teacher_hidden_dims": HIDDEN, "activation": "elu",
        "init_noise_std": 0.1, "student_obs_normalization": True, "teacher_obs_normalization": True, **policy,
    }  # fmt: skip
    cfg["obs_groups"] = {"policy": ["critic"], "teacher": ["actor"]}
    return cfg


def distil_v5(**student):
    cfg = v5()
    cfg["algorithm"] = {
        "class_name": "Distillation",
        "num_learning_epochs": 2,
        "gradient_length": 3,
        "loss_type": "huber",
    }
    cfg["student"], cfg["teacher"] = cfg.pop("actor"), cfg.pop("critic")
    cfg["student"].update(hidden_dims=[12], **student)
    cfg["obs_groups"] = {"student": ["critic"], "teacher": ["actor"]}
    return cfg


CONFIGS = [(distil_v3, v3), (distil_v5, v5)]


@pytest.fixture(params=CONFIGS, ids=["3", "5"])
def configs(request):
    return request.param


def teacher_file(cfg, path, as_client):
    """Train a teacher a little, and save it as this package or as a client of version 5 does."""
    runner = OnPolicyRunner(V5Env(), cfg())
    runner.learn(2)
    if as_client:
        torch.save({**runner.alg.save(), "iter": 1, "infos": None}, path)
    else:
        runner.save(str(path))
    return runner


def losses(runner, iterations):
    seen = []
    update = runner.alg.update
    runner.alg.update = lambda: seen.append(update()) or seen[-1]
    runner.learn(iterations)
    return [float(metrics["behavior_loss"]) for metrics in seen]


@pytest.mark.parametrize("as_client", [False, True], ids=["ours", "theirs"])
@pytest.mark.parametrize("cls", [DistillationRunner, OnPolicyRunner])
def test_a_teacher_is_loaded_after_construction_and_taught_from(configs, as_client, cls, tmp_path):
    distil, train = configs
    teacher = teacher_file(train, tmp_path / "teacher.pt", as_client)
    cfg = distil()
    before = copy.deepcopy(cfg)
    runner = cls(V5Env(), cfg, None, "cpu")
    assert isinstance(runner.alg, Distillation) and cfg == before
    with pytest.raises(ValueError, match="the teacher has not been loaded"):
        runner.learn(1)
    runner.load(str(tmp_path / "teacher.pt"))
    assert runner.current_learning_iteration == 0
    groups = runner.env.get_observations()
    expected = teacher.alg.policy.act_inference(groups)
    torch.testing.assert_close(runner.alg.teacher.act_inference(groups), expected)
    seen = losses(runner, 60)
    assert seen[-1] < 0.5 * seen[0]
    assert runner.alg.policy.student is runner.alg.policy.actor and runner.alg.get_policy().mlp[0].out_features == 12


def test_a_distillation_is_resumed_with_student_and_teacher(configs, tmp_path):
    distil, train = configs
    teacher_file(train, tmp_path / "teacher.pt", True)
    one, other = (DistillationRunner(V5Env(), distil()) for _ in range(2))
    one.load(str(tmp_path / "teacher.pt"))
    one.learn(2)
    one.save(str(tmp_path / "ours.pt"))
    torch.save({**one.alg.save(), "iter": 1, "infos": None}, tmp_path / "theirs.pt")
    groups = one.env.get_observations()
    for name in ("ours.pt", "theirs.pt"):
        other.load(str(tmp_path / name))
        assert other.current_learning_iteration == 1
        for own, its in ((other.alg.policy, one.alg.policy), (other.alg.teacher, one.alg.teacher)):
            torch.testing.assert_close(own.act_inference(groups), its.act_inference(groups))
    other.learn(1)


def test_a_distillation_file_of_version_3_is_loaded(tmp_path):
    runner = DistillationRunner(V5Env(), distil_v3())
    sizes = {"student": [5, 12, A], "teacher": [3, *HIDDEN, A]}
    weights = {"std": torch.full((A,), 0.2)}
    for role, layers in sizes.items():
        for i, (before, after) in enumerate(zip(layers, layers[1:])):
            weights[f"{role}.{2 * i}.weight"], weights[f"{role}.{2 * i}.bias"] = (
                torch.randn(after, before),
                torch.randn(after),
            )
        for name, value in (("_mean", 0.5), ("_var", 4.0), ("_std", 2.0)):
            weights[f"{role}_obs_normalizer.{name}"] = torch.full((1, layers[0]), value)
        weights[f"{role}_obs_normalizer.count"] = torch.tensor(100)
    state = {"model_state_dict": weights, "optimizer_state_dict": {}, "iter": 9, "infos": None}
    torch.save(state, tmp_path / "model_9.pt")
    runner.load(str(tmp_path / "model_9.pt"))
    assert runner.current_learning_iteration == 9
    assert torch.equal(runner.alg.policy.actor[0].weight, weights["student.0.weight"])
    assert torch.equal(runner.alg.teacher.actor[0].weight, weights["teacher.0.weight"])
    assert runner.alg.policy.actor_obs_normalizer.var.unique().tolist() == [4.0]
    assert runner.alg.teacher.actor_obs_normalizer.count == 100
    runner.learn(1)


@pytest.mark.parametrize(
    ("cfg", "recurrent"),
    [
        (distil_v3(class_name="StudentTeacherRecurrent", rnn_type="gru", rnn_hidden_dim=9), True),
        (distil_v5(class_name="RNNModel", rnn_type="lstm", rnn_hidden_dim=9), True),
        (distil_v5(), False),
    ],
)
def test_a_student_may_be_recurrent(cfg, recurrent):
    runner = DistillationRunner(V5Env(), cfg)
    policy = runner.alg.policy
    assert policy.is_recurrent == recurrent and not runner.alg.teacher.is_recurrent
    assert hasattr(policy, "memory_s") == recurrent
    assert (runner.alg.num_mini_batches, runner.alg.num_learning_epochs) == (2, 2)
    assert policy.actor_model.groups == ("critic",) and runner.alg.teacher.actor_model.groups == ("actor",)


def test_a_distillation_runner_with_another_algorithm_is_refused():
    with pytest.raises(ValueError, match="DistillationRunner got algorithm"):
        DistillationRunner(V5Env(), v5())


def test_a_teacher_whose_deviation_is_zero_is_distilled(tmp_path):
    """As tasks of Isaac Lab configure it."""
    teacher = teacher_file(v5, tmp_path / "teacher.pt", as_client=True)
    cfg = distil_v5()
    cfg["teacher"]["distribution_cfg"] = {"class_name": "GaussianDistribution", "init_std": 0.0}
    runner = DistillationRunner(V5Env(), cfg)
    runner.load(str(tmp_path / "teacher.pt"))
    obs = runner.env.get_observations()
    torch.testing.assert_close(runner.alg.teacher.act_inference(obs), teacher.alg.policy.act_inference(obs))
    runner.learn(2)
