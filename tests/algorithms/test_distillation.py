"""What distillation collects and learns, against loops over single steps."""

import pytest
import torch

from rsl_rl.algorithms.build import build_storage
from rsl_rl.algorithms.distillation import TEACHER_ACTIONS, Distillation, teacher_columns
from rsl_rl.algorithms.teacher import actor_state, load_actor
from rsl_rl.config.algorithm import DistillationConfig
from rsl_rl.extensions import Symmetry
from rsl_rl.modules.policy import ActorCritic, ActorCriticRecurrent
from rsl_rl.storage.rollout import GroupSpec

T, N, D, E, A, H = 6, 4, 3, 5, 2, 8
GROUPS = {"policy": GroupSpec((D,)), "teacher": GroupSpec((E,))}


def network(kind, size, groups, num_actions=A, **settings):
    settings = {"actor_hidden_dims": (6,), "critic_hidden_dims": (6,), "actor_groups": groups, **settings}
    settings["critic_groups"] = groups
    if kind == "mlp":
        return ActorCritic(size, size, num_actions, **settings)
    return ActorCriticRecurrent(size, size, num_actions, rnn_type=kind, rnn_hidden_size=H, **settings)


def make(student="mlp", teacher="mlp", num_envs=N, extensions=(), **settings):
    if isinstance(student, str):
        student = network(student, D, ("policy",))
    if isinstance(teacher, str):
        teacher = network(teacher, E, ("teacher",))
    cfg = DistillationConfig(**{"num_mini_batches": 1, "num_learning_epochs": 1, "max_grad_norm": 1e9, **settings})
    storage = build_storage(student, cfg, num_envs, T, GROUPS, teacher_columns(teacher))
    return Distillation(student, teacher, storage, cfg, extensions)


def observations(num_envs=N):
    return {"policy": torch.randn(num_envs, D), "teacher": torch.randn(num_envs, E)}


def collect(alg, dones, valid, num_envs=N):
    for t in range(T):
        alg.act(observations(num_envs))
        alg.process_env_step(torch.randn(num_envs), dones[t], {"valid": valid[t]})
    alg.compute_returns(observations(num_envs))


def some_dones():
    dones = torch.zeros(T, N, dtype=torch.bool)
    dones[1, 0] = dones[3, 2] = dones[3, 1] = dones[5, 0] = True
    return dones


def features(model, obs, dones, begin):
    """Outputs of the memory of a network at each step of a rollout [T, N, D], by torch's own cell; the observations
    themselves without memory."""
    memory = model.memory
    if memory is None:
        return list(obs)
    cell = torch.gru_cell if memory.rnn.mode == "GRU" else torch.lstm_cell
    states, outputs = [s[0] for s in begin], []
    for t in range(T):
        before = states[0] if len(states) == 1 else states
        after = cell(obs[t], before, *memory.layer_weights(0))
        after = after if isinstance(after, tuple) else (after,)
        outputs.append(after[0])
        states = [s * (~dones[t]).float().unsqueeze(1) for s in after]
    return outputs


def begin_states(model):
    return [torch.zeros(1, N, H)] * (1 if model.memory is not None and model.memory.rnn.mode == "GRU" else 2)


@pytest.mark.parametrize("loss_type", ["mse", "huber"])
@pytest.mark.parametrize(("student", "teacher"), [("mlp", "gru"), ("gru", "mlp"), ("lstm", "lstm")])
def test_gradient_of_a_rollout_equals_that_of_a_loop_over_its_unmasked_steps(student, teacher, loss_type):
    alg = make(student, teacher, loss_type=loss_type, value_loss_coef=0.5)
    dones, valid = some_dones(), torch.ones(T, N, dtype=torch.bool)
    valid[1, 0] = valid[3, 2] = False
    collect(alg, dones, valid)
    storage, policy = alg.storage, alg.policy
    with torch.no_grad():  # the update meets other weights than those that acted
        for parameter in policy.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    found = {}

    def remember(usable):
        found.update({name: parameter.grad.clone() for name, parameter in policy.named_parameters()})
        return usable

    alg.learner.optimizer.step_where_finite = remember
    wanted = storage.columns[TEACHER_ACTIONS].clone()
    metrics = alg.update().metrics

    function = torch.nn.functional.huber_loss if loss_type == "huber" else torch.nn.functional.mse_loss
    obs, count = storage.groups["policy"], valid.sum()
    behavior, value = torch.zeros(()), torch.zeros(())
    models = policy.actor_model, policy.critic_model
    seen = [features(model, obs, dones, begin_states(model)) for model in models]
    for t in range(T):
        for n in range(N):
            if valid[t, n]:
                behavior = behavior + function(policy.actor(seen[0][t])[n], wanted[t, n]) / count
                value = value + (policy.critic(seen[1][t])[n] - storage.columns["returns"][t, n]).square().sum() / count
    named = [(name, p) for name, p in policy.named_parameters() if name != "std"]
    expected = torch.autograd.grad(behavior + 0.5 * value, [parameter for _, parameter in named])
    for (name, _), gradient in zip(named, expected):
        assert gradient.abs().max() > 0
        torch.testing.assert_close(found[name], gradient, rtol=1e-4, atol=1e-6, msg=name)
    assert (found["std"] == 0).all()
    assert metrics["behavior_loss"].item() == pytest.approx(behavior.item(), rel=1e-5)
    assert metrics["value_loss"].item() == pytest.approx(value.item(), rel=1e-5)


@pytest.mark.parametrize("teacher", ["mlp", "gru", "lstm"])
def test_stored_teacher_actions_are_its_means_with_a_memory_of_its_own(teacher):
    alg = make("gru", teacher)
    dones = some_dones()
    collect(alg, dones, torch.ones(T, N, dtype=torch.bool))
    model = alg.teacher.actor_model
    outputs = features(model, alg.storage.groups["teacher"], dones, begin_states(model))
    for t in range(T):
        torch.testing.assert_close(alg.storage.columns[TEACHER_ACTIONS][t], alg.teacher.actor(outputs[t]))


def test_teacher_share_has_the_teacher_act_with_the_students_noise_and_falls():
    alg = make(num_envs=10, teacher_share=0.6, teacher_updates=3)
    for expected in (0.6, 0.4, 0.2, 0.0, 0.0):
        by_teacher = round(10 * expected)
        alg.begin_rollout()
        torch.manual_seed(3)
        actions = alg.act(observations(10))
        columns = alg.transition.columns
        torch.manual_seed(3)
        observations(10)
        noise = torch.randn(10, A) * alg.policy.noise_std().detach()
        wanted = torch.cat((columns[TEACHER_ACTIONS][:by_teacher], columns["action_mean"][by_teacher:]))
        torch.testing.assert_close(actions, wanted + noise)
        assert torch.equal(actions, columns["actions"])
        alg.begin_rollout()
        collect(alg, torch.zeros(T, 10, dtype=torch.bool), torch.ones(T, 10, dtype=torch.bool), 10)
        assert alg.update().metrics["teacher_share"].item() == pytest.approx(expected)


def test_update_with_teacher_actions_that_are_not_finite_is_skipped():
    alg = make("gru")
    collect(alg, some_dones(), torch.ones(T, N, dtype=torch.bool))
    alg.storage.columns[TEACHER_ACTIONS][2, 1, 0] = float("nan")
    before = {name: value.clone() for name, value in alg.policy.state_dict().items()}
    metrics, steps_taken, steps_skipped = alg.update()
    assert metrics["skipped_steps"] == 1 and steps_taken == 0 and steps_skipped == 1
    assert all(torch.equal(value, before[name]) for name, value in alg.policy.state_dict().items())


@pytest.mark.parametrize("distribution", ["gaussian", "beta", "gaussian with std of state"])
@pytest.mark.parametrize("kind", ["mlp", "gru"])
def test_update_brings_the_student_to_its_teacher_and_leaves_the_teacher_alone(kind, distribution):
    settings = {"distribution": distribution.split()[0], "state_dependent_std": "state" in distribution}
    policy = network(kind, D, ("policy",), actor_obs_normalization=True, value_normalization=True, **settings)
    alg = make(policy, num_envs=32, num_learning_epochs=4, num_mini_batches=2, learning_rate=1e-2)
    teacher = {name: value.clone() for name, value in alg.teacher.state_dict().items()}
    losses = []
    for _ in range(15):
        alg.begin_rollout()
        for t in range(T):
            obs = observations(32)
            obs["policy"][:] = obs["teacher"][:, :D]
            obs["teacher"][:, D:] = 0.0
            alg.act(obs)
            alg.process_env_step(torch.ones(32), torch.full((32,), t == T - 1), {})
        alg.compute_returns(obs)
        metrics = alg.update().metrics
        losses.append([metrics[name].item() for name in ("behavior_loss", "value_loss")])
    assert losses[-1][0] < 0.1 * losses[0][0] and losses[-1][1] < losses[0][1]
    assert all(torch.equal(value, teacher[name]) for name, value in alg.teacher.state_dict().items())


@pytest.mark.parametrize("unrolling", [{"unroll_len": 2}, {"unroll_len": 4, "burn_in": 1}])
def test_chunks_of_a_rollout_are_learned_from(unrolling):
    alg = make("gru", **unrolling)
    collect(alg, some_dones(), torch.ones(T, N, dtype=torch.bool))
    assert alg.update().steps_taken == 1


def test_state_dict_holds_the_teachers_actor_and_the_count_of_updates():
    alg, other = make("gru", "gru", teacher_share=1.0, teacher_updates=4), make("gru", "gru")
    other.cfg = alg.cfg
    collect(alg, some_dones(), torch.ones(T, N, dtype=torch.bool))
    alg.update()
    state = alg.state_dict()
    assert not [name for name in state["teacher_state_dict"] if name.startswith(("critic", "memory_c"))]
    other.load_state_dict(state)
    obs = observations()
    for one in (alg, other):
        one.begin_rollout()
        one.reset()
        torch.manual_seed(1)
        one.act(obs)
    for name in ("actions", "action_mean", TEACHER_ACTIONS):
        assert torch.equal(alg.transition.columns[name], other.transition.columns[name])
    assert other.num_updates == 1
    other.load_state_dict({"model_state_dict": alg.policy.state_dict()}, load_optimizer=False)


def test_hidden_states_are_those_of_student_and_teacher():
    alg = make("gru", "lstm")
    alg.act(observations())
    states = alg.get_hidden_states()
    assert [type(state) for state in states] == [torch.Tensor, torch.Tensor, tuple]
    alg.reset(torch.tensor([True, False, False, True]))
    assert (alg.get_hidden_states()[2][0][:, [0, 3]] == 0).all() and (alg.get_hidden_states()[2][0][:, 1] != 0).any()
    alg.set_hidden_states(states)
    assert all(torch.equal(a, b) for a, b in zip(alg.get_hidden_states()[2], states[2]))
    alg.set_hidden_states((None, None))  # of a checkpoint of PPO
    assert alg.get_hidden_states() == (None, None, None)


def mirrored():
    mirrors = {"policy": (torch.arange(D), torch.ones(D)), "actions": (torch.arange(A), torch.ones(A))}
    return Symmetry(mirrors, network("mlp", D, ("policy",)))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: make(teacher=network("mlp", E, ("teacher",), num_actions=3)),
            "the student has 2 actions and the teacher 3; take a teacher of this robot",
        ),
        (
            lambda: make(network("mlp", D, ("policy",), distribution="categorical")),
            "the student has distribution='categorical', .*; take 'gaussian' or 'beta'",
        ),
        (lambda: make(extensions=(mirrored(),)), "Symmetry adds samples for which the teacher has no actions; leave"),
        (lambda: DistillationConfig(loss_type="l1"), "algorithm.loss_type='l1'; allowed: mse, huber"),
        (lambda: DistillationConfig(teacher_share=1.5), r"algorithm.teacher_share=1.5 must lie in \[0, 1\]"),
        (lambda: DistillationConfig(teacher_updates=9), "algorithm.teacher_updates=9 lowers teacher_share; set it"),
    ],
)
def test_what_cannot_work_is_one_clear_error(build, message):
    with pytest.raises(ValueError, match=message):
        build()


def test_load_actor_with_weights_missing_or_of_other_sizes_raises():
    policy = network("gru", D, ("policy",))
    state = actor_state(policy.state_dict())
    with pytest.raises(ValueError, match=r"there are no weights of std"):
        load_actor(policy, {name: value for name, value in state.items() if name != "std"})
    with pytest.raises(ValueError, match=r"size mismatch for actor.0.weight"):
        load_actor(policy, {**state, "actor.0.weight": torch.zeros(6, 99)})
    with pytest.raises(ValueError, match=r"Unexpected key.*encoder_a"):
        load_actor(policy, {**state, "encoder_a.camera.weight": torch.zeros(6)})
