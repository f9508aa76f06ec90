import copy
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pair_env import MIRRORS, PairEnv, image

from rsl_rl.algorithms.losses import ppo_terms
from rsl_rl.algorithms.ppo import PPO
from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.extensions import SymmetryConfig
from rsl_rl.config.learn import LearnConfig, RunnerConfig
from rsl_rl.config.policy import ActorCriticConfig, SymmetricActorCriticConfig
from rsl_rl.config.task import CameraConfig, ToyConfig
from rsl_rl.extensions import Symmetry
from rsl_rl.modules.memory import reset_states
from rsl_rl.modules.policy import (
    ActorCritic,
    ActorCriticRecurrent,
    SymmetricActorCritic,
    SymmetricActorCriticRecurrent,
)
from rsl_rl.modules.symmetry import mirror, swapped_halves
from rsl_rl.storage.mini_batches import MiniBatch
from rsl_rl.tasks.toy import CameraEnv, PointEnv
from rsl_rl.utils.trajectories import as_states
from tests.learners import ppo_of

N, T, D, C, A, H = 5, 6, 3, 2, 2, 4
SIZES = {"policy": D, "critic": C}
NETS = {"actor_hidden_dims": (8,), "critic_hidden_dims": (8,), "critic_groups": ("critic",)}
EXACT = {"atol": 2e-6, "rtol": 1e-5}  # float32 rounding
AS_TUPLES = {
    f"{name}_mirror": tuple(tuple(part.tolist()) for part in MIRRORS[group])
    for name, group in (("actor", "policy"), ("critic", "critic"), ("action", "actions"))
}


def make_policy(kind, **settings):
    """A policy by the name of its memory, or None, and by whether it is symmetric."""
    memory, symmetric = kind
    settings = {**NETS, **settings, **(AS_TUPLES if symmetric else {})}
    if memory is None:
        return (SymmetricActorCritic if symmetric else ActorCritic)(D, C, A, **settings)
    settings.update(rnn_type=memory, rnn_hidden_size=H, rnn_num_layers=2)
    return (SymmetricActorCriticRecurrent if symmetric else ActorCriticRecurrent)(D, C, A, **settings)


def make(kind, use_mirror_loss=False, coeff=0.0, augment=True, nets=None, **settings):
    policy = make_policy(kind, **(nets or {}))
    symmetry = Symmetry(MIRRORS, policy, augment, use_mirror_loss, coeff)
    settings = {"num_mini_batches": 1, "num_learning_epochs": 1, **settings}
    return ppo_of(policy, N, T, SIZES, [symmetry], **settings), symmetry


def collect(ppo, dones, valid=None):
    """Collect a rollout with dones [T, N] and return its observations."""
    rows = []
    for t in range(T):
        rows.append({"policy": torch.randn(N, D), "critic": torch.randn(N, C)})
        ppo.act(rows[-1])
        ppo.process_env_step(torch.randn(N), dones[t], {} if valid is None else {"valid": valid[t]})
    ppo.compute_returns({"policy": torch.randn(N, D), "critic": torch.randn(N, C)})
    return rows


def everything(ppo):
    """Gather the whole rollout as one mini-batch."""
    batches = ppo.storage.batches
    return batches.gather(next(iter(batches.shuffled(1, 1))))


def evaluate(policy, batch):
    policy.update_distribution(batch.groups, batch.masks, batch.hidden_states[0])
    values = policy.evaluate(batch.groups, batch.masks, batch.hidden_states[1])
    return policy.distribution, values


def no_dones():
    return torch.zeros(T, N, dtype=torch.bool)


flags = st.lists(st.lists(st.booleans(), min_size=N, max_size=N), min_size=T, max_size=T)
MEMORIES = [
    ("gru", {}),
    ("lstm", {"unroll_len": 4, "burn_in": 1}),
    ("gru", {"unroll_len": 4, "last_fn_type": "null_padding"}),
]


@pytest.mark.parametrize(("memory", "chunks"), MEMORIES)
@settings(max_examples=10)
@given(flags, flags, st.lists(st.booleans(), min_size=N, max_size=N))
@example([[False] * N] * T, [[False] * N] * T, [False] * N)
def test_transform_of_symmetric_memories_gives_images_the_same_ratio_and_value(memory, chunks, first, second, between):
    torch.manual_seed(0)
    ppo, symmetry = make((memory, True), **chunks)
    for dones in (first, second):
        collect(ppo, torch.tensor(dones))
        batch = everything(ppo)
        doubled = symmetry.transform(batch)
        with torch.no_grad():
            distribution, values = evaluate(ppo.policy, doubled)
        log_probs, half = distribution.log_prob(doubled.columns["actions"]), batch.sample_mask.shape[-2]
        real = batch.sample_mask > 0  # the rows of padding show other steps
        for x in (log_probs, values):
            a, b = x.split(half, dim=1)
            torch.testing.assert_close(b[real], a[real], **EXACT)
        ratio = (log_probs - doubled.columns["actions_log_prob"]).exp()[real.repeat(1, 2, 1)]
        torch.testing.assert_close(ratio, torch.ones_like(ratio), atol=1e-5, rtol=0.0)
        swapped = torch.tensor(swapped_halves(H)[0])
        for state in doubled.hidden_states:
            for s in state:
                torch.testing.assert_close(s[:, half:], s[:, :half, swapped], **EXACT)
        ppo.update()
        ppo.reset(torch.tensor(between))  # as the runner resets environments that broke


@pytest.mark.parametrize(("memory", "chunks"), MEMORIES)
@settings(max_examples=10)
@given(flags, flags)
@example([[False] * N] * T, [[False] * N] * T)
def test_finish_rollout_of_plain_memories_gives_states_of_a_loop_over_the_mirrored_past(memory, chunks, first, second):
    torch.manual_seed(0)
    ppo, symmetry = make((memory, False), nets={"actor_obs_normalization": True}, **chunks)
    states = [None, None]
    for dones in map(torch.tensor, (first, second)):
        rows, expected = collect(ppo, dones), {}
        with torch.no_grad():
            for t, row in enumerate(rows):
                for i, model in enumerate((ppo.policy.actor_model, ppo.policy.critic_model)):
                    states[i] = states[i] or model.memory.zero_states(N)
                    expected[t, i] = as_states(states[i])
                    groups = {name: mirror(group, *MIRRORS[name]) for name, group in row.items()}
                    _, states[i] = model.memory.advance(model.encode(groups), states[i])
                    states[i] = as_states(reset_states(states[i], dones[t]))
        envs = torch.tensor([3, 0, 4])
        images = symmetry.image(ppo.storage.batches.gather(envs))
        for i in (0, 1):
            for chunk, begin in enumerate(ppo.storage.plan.begins):
                for s, e in zip(images.hidden_states[i], expected[begin, i]):
                    torch.testing.assert_close(s[:, 3 * chunk : 3 * chunk + 3], e[:, envs], **EXACT)
        ppo.update()


def test_finish_rollout_after_a_full_reset_starts_from_zeros():
    ppo, symmetry = make(("gru", False))
    collect(ppo, no_dones())
    ppo.update()
    ppo.reset()
    collect(ppo, no_dones())
    assert all((s == 0).all() for state in symmetry.image(everything(ppo)).hidden_states for s in state)


def test_state_dict_of_symmetry_restores_the_mirrored_past():
    ppo, _symmetry = make(("lstm", False))
    collect(ppo, no_dones())
    ppo.update()
    other, _its_symmetry = make(("lstm", False))
    other.load_state_dict(copy.deepcopy(ppo.state_dict()))
    other.reset()  # as the runner does
    other.set_hidden_states(ppo.get_hidden_states())
    images = []
    for alg in (ppo, other):
        torch.manual_seed(3)
        collect(alg, no_dones())
        images.append(alg.extensions.all[0].image(everything_in_order(alg)).hidden_states)
    for ours, theirs in zip(*images):
        assert len(ours) == 2 and all(torch.equal(a, b) and (a != 0).any() for a, b in zip(ours, theirs))


def everything_in_order(ppo):
    return ppo.storage.batches.gather(torch.arange(N))


def test_load_state_dict_of_symmetry_for_fewer_environments_starts_anew():
    ppo, symmetry = make(("gru", False))
    collect(ppo, no_dones())
    state = symmetry.state_dict()
    state["hidden_states"] = [tuple(torch.ones(2, 9, H) for _ in states) for states in state["hidden_states"]]
    symmetry.load_state_dict(state)
    ppo.update()
    collect(ppo, no_dones())
    assert all((s == 0).all() for state in symmetry.image(everything(ppo)).hidden_states for s in state)


FAMILIES = [{}, {"state_dependent_std": True}, {"distribution": "beta"}, {"distribution": "categorical"}]


def assert_equal_batches(a, b, but=()):
    assert list(a.groups) == list(b.groups) and list(a.columns) == list(b.columns)
    for name in a.groups:
        assert a.groups[name].dtype == b.groups[name].dtype and torch.equal(a.groups[name], b.groups[name]), name
    for name in set(a.columns) - set(but):
        assert torch.equal(a.columns[name], b.columns[name]), name


@pytest.mark.parametrize("family", FAMILIES)
def test_image_of_an_image_is_the_batch(family):
    actions = image((1, 0), (1.0, 1.0)) if family.get("distribution") == "categorical" else MIRRORS["actions"]
    policy = ActorCritic(D, C, A, **NETS, **family)
    symmetry = Symmetry({**MIRRORS, "actions": actions}, policy)
    ppo = ppo_of(policy, N, T, SIZES, [symmetry])
    collect(ppo, torch.rand(T, N) < 0.3)
    batch = everything(ppo)
    once = symmetry.image(batch)
    assert not torch.equal(once.columns["actions"], batch.columns["actions"])
    assert not torch.equal(once.groups["policy"], batch.groups["policy"])
    assert_equal_batches(symmetry.image(once), batch)


@pytest.mark.parametrize("family", FAMILIES)
def test_image_of_a_symmetric_policys_batch_has_the_parameters_of_the_mirrored_observation(family):
    actions = image((1, 0), (1.0, 1.0)) if family.get("distribution") == "categorical" else MIRRORS["actions"]
    as_tuple = tuple(tuple(part.tolist()) for part in actions)
    policy = SymmetricActorCritic(D, C, A, **NETS, **family, **{**AS_TUPLES, "action_mirror": as_tuple})
    symmetry = Symmetry({**MIRRORS, "actions": actions}, policy)
    ppo = ppo_of(policy, N, T, SIZES, [symmetry])
    collect(ppo, no_dones())
    images = symmetry.image(everything(ppo))
    with torch.no_grad():
        distribution, _ = evaluate(policy, images)
        for name, value in distribution.parameters.items():
            torch.testing.assert_close(images.columns[name], value, **EXACT)
        log_prob = distribution.log_prob(images.columns["actions"])
        torch.testing.assert_close(log_prob, images.columns["actions_log_prob"], **EXACT)


def test_transform_appends_images_and_repeats_the_rest():
    ppo, symmetry = make((None, False))
    collect(ppo, no_dones())
    with torch.no_grad():
        ppo.policy.std.copy_(torch.tensor([0.5, 2.0]))
    ppo.update()
    collect(ppo, no_dones())
    batch = everything(ppo)
    doubled, size = symmetry.transform(batch), T * N
    assert doubled.num_original == size
    images, columns = {name: column[size:] for name, column in doubled.columns.items()}, batch.columns
    mirrored = batch.groups["policy"][:, [1, 0, 2]] * torch.tensor([1, 1, -1])
    torch.testing.assert_close(doubled.groups["policy"][size:], mirrored)
    torch.testing.assert_close(doubled.groups["critic"][size:], batch.groups["critic"][:, [1, 0]])
    torch.testing.assert_close(images["actions"], -columns["actions"][:, [1, 0]])
    torch.testing.assert_close(images["action_mean"], -columns["action_mean"][:, [1, 0]])
    torch.testing.assert_close(images["action_std"], columns["action_std"][[1, 0]].expand(size, A))
    for name in ("values", "returns", "advantages", "actions_log_prob", "sample_mask"):
        assert torch.equal(doubled.columns[name], columns[name].repeat(2, 1)), name
    assert_equal_batches(
        MiniBatch(
            {name: group[:size] for name, group in doubled.groups.items()},
            {name: column[:size] for name, column in doubled.columns.items()},
        ),
        batch,
        but=["action_std"],
    )


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize("sequences", [False, True])
def test_transform_mirrors_image_groups_along_their_last_axis(dtype, sequences):
    columns = image((3, 2, 1, 0), (1.0, 1.0, 1.0, 1.0))
    _, symmetry = make((None, False))
    symmetry = Symmetry({**MIRRORS, "camera": columns}, make_policy((None, False)))
    leading = (T, N) if sequences else (N,)
    camera = torch.randint(255, (*leading, 1, 3, 4)).to(dtype)
    row = torch.zeros(*leading, 1)
    masks = (torch.ones(leading), torch.ones(leading)) if sequences else None
    batch = MiniBatch({"camera": camera}, {"actions": torch.zeros(*leading, A), "sample_mask": row}, masks)
    doubled = symmetry.transform(batch)
    assert doubled.groups["camera"].dtype == dtype
    originals, images = doubled.groups["camera"].split(N, dim=len(leading) - 1)
    assert torch.equal(originals, camera) and torch.equal(images, camera.flip(-1))


def gradients(policy, batch, weights, cfg):
    policy.zero_grad()
    terms = ppo_terms(*evaluate(policy, batch), batch, weights, cfg)
    (terms.surrogate + cfg.value_loss_coef * terms.value - cfg.entropy_coef * terms.entropy).backward()
    return {name: parameter.grad.clone() for name, parameter in policy.named_parameters()}


KINDS = [(None, False), (None, True), ("gru", False), ("lstm", True)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("valid_rate", [1.0, 0.7])
def test_update_with_augmentation_has_the_average_gradient_of_samples_and_images(kind, valid_rate):
    ppo, symmetry = make(kind, schedule="fixed", max_grad_norm=1e9)
    valid = torch.rand(T, N) < valid_rate
    collect(ppo, (torch.rand(T, N) < 0.2) | ~valid, valid)
    with torch.no_grad():  # the update meets other weights than those that acted
        for parameter in ppo.policy.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    batch = everything(ppo)
    weights = batch.sample_mask / batch.sample_mask.sum()
    halves = [gradients(ppo.policy, part, weights, ppo.cfg) for part in (batch, symmetry.image(batch))]
    ppo.update()
    for name, parameter in ppo.policy.named_parameters():
        average = 0.5 * (halves[0][name] + halves[1][name])
        torch.testing.assert_close(parameter.grad, average, atol=1e-6, rtol=1e-4)


@pytest.mark.parametrize("memory", [None, "gru"])
def test_update_with_augmentation_leaves_gradients_of_a_symmetric_policy_as_they_are(memory):
    """The image of a sample has the same gradient as the sample, so that the average is the same too."""
    found = []
    for augment in (False, True):
        torch.manual_seed(4)
        ppo, _ = make((memory, True), augment=augment, schedule="fixed", max_grad_norm=1e9)
        collect(ppo, torch.rand(T, N) < 0.2)
        ppo.update()
        found.append({name: parameter.grad.clone() for name, parameter in ppo.policy.named_parameters()})
    for name, gradient in found[0].items():
        torch.testing.assert_close(found[1][name], gradient, atol=1e-6, rtol=1e-4)


def test_update_with_augmentation_measures_kl_on_collected_samples_alone():
    ppo, _ = make((None, False))
    collect(ppo, no_dones())
    assert ppo.update().metrics["kl"].abs() < 1e-6  # of the first gradient step, though the policy is not symmetric


@pytest.mark.parametrize("kind", KINDS)
def test_symmetry_loss_is_the_same_with_and_without_augmentation(kind):
    found = []
    for augment in (False, True):
        torch.manual_seed(2)
        ppo, symmetry = make(kind, augment=augment, use_mirror_loss=True, coeff=0.5)
        for _ in range(2):  # the second one has a past
            valid = torch.rand(T, N) < 0.8
            ppo.begin_rollout()
            collect(ppo, torch.rand(T, N) < 0.2, valid)
        batch = symmetry.transform(everything_of(ppo))
        evaluate(ppo.policy, batch)
        loss = symmetry.losses(ppo.policy, batch)["symmetry_loss"]
        found.append((loss.detach(), torch.autograd.grad(loss, list(ppo.policy.actor.parameters()))))
    torch.testing.assert_close(found[1][0], found[0][0], **EXACT)
    for a, b in zip(found[0][1], found[1][1]):
        torch.testing.assert_close(b, a, **EXACT)
    assert (found[0][0] < 1e-10) == kind[1]


def everything_of(ppo):
    batches = ppo.storage.batches
    list(batches.shuffled(1, 1))
    return batches.gather(torch.arange(batches.num_units))


def test_symmetry_loss_is_the_weighted_mean_square_over_unmasked_samples():
    policy = ActorCritic(1, 1, 1, actor_hidden_dims=(), critic_hidden_dims=())
    with torch.no_grad():
        policy.actor[0].weight.fill_(3.0)
        policy.actor[0].bias.fill_(0.5)
    mirrors = {"policy": image((0,), (1.0,)), "actions": image((0,), (-1.0,))}  # so the difference is 2 a(x)
    symmetry = Symmetry(mirrors, policy, False, True, 0.25)
    mask = torch.tensor([[1.0], [1.0], [0.0]])
    batch = MiniBatch({"policy": torch.tensor([[1.0], [2.0], [1e4]])}, {"sample_mask": mask})
    policy.update_distribution(batch.groups)
    loss = symmetry.losses(policy, batch)["symmetry_loss"]
    assert loss.item() == pytest.approx(0.25 * (7.0**2 + 13.0**2) / 2)
    loss.backward()
    gradient = 0.25 * (2 * 7.0 + 2 * 13.0) / 2  # of the action for the image alone
    assert policy.actor[0].bias.grad.item() == pytest.approx(gradient)


def test_symmetry_loss_that_is_not_used_is_reported_and_changes_nothing():
    plain = make_policy((None, False))
    policies = [plain, copy.deepcopy(plain)]
    metrics = []
    for policy, extensions in zip(policies, ([], [Symmetry(MIRRORS, policies[1], False, False)])):
        torch.manual_seed(0)
        ppo = ppo_of(policy, N, T, SIZES, extensions, num_mini_batches=2, num_learning_epochs=2)
        collect(ppo, no_dones())
        metrics.append(ppo.update().metrics)
    assert metrics[1]["symmetry_loss"] > 0 and "symmetry_loss" not in metrics[0]
    for a, b in zip(*(policy.parameters() for policy in policies)):
        torch.testing.assert_close(b, a, **EXACT)


def test_symmetry_loss_of_discrete_actions_is_refused():
    policy = ActorCritic(D, C, A, **NETS, distribution="categorical")
    with pytest.raises(ValueError, match="set it to False for discrete actions"):
        Symmetry(MIRRORS, policy, use_mirror_loss=True, mirror_loss_coeff=1.0)


def test_mirror_loss_alone_makes_a_policy_symmetric():
    ppo, _symmetry = make((None, False), augment=False, use_mirror_loss=True, coeff=10.0, num_learning_epochs=20)
    losses = []
    for _ in range(10):
        collect(ppo, no_dones())
        losses.append(ppo.update().metrics["symmetry_loss"].item())
    assert losses[-1] < 0.05 * losses[0]


@pytest.mark.parametrize(
    ("mirrors", "message"),
    [
        ({"policy": MIRRORS["policy"]}, "no image of critic, actions"),
        ({**MIRRORS, "critic": image((1, 2), (1.0, 1.0))}, r"mirrors\['critic'\] is not a mirror image"),
        ({**MIRRORS, "critic": image((1, 0), (1.0, -1.0))}, r"mirrors\['critic'\] is not a mirror image"),
        ({**MIRRORS, "critic": image((1, 0), (2.0, 2.0))}, r"mirrors\['critic'\] is not a mirror image"),
        ({**MIRRORS, "policy": image((1, 2, 0), (1.0, 1.0, 1.0))}, r"mirrors\['policy'\] is not a mirror image"),
        ({**MIRRORS, "policy": None}, r"mirrors\['policy'\] is not a mirror image"),
        ({**MIRRORS, "actions": image((0,), (1.0,))}, r"mirrors\['actions'\] has 1 entries, and there are 2 actions"),
    ],
)
def test_symmetry_with_mirrors_that_do_not_fit_is_refused(mirrors, message):
    with pytest.raises(ValueError, match=message):
        Symmetry(mirrors, make_policy((None, False)))


def learn_config(policy, *extensions):
    return LearnConfig(
        policy=policy,
        algorithm=PPOConfig(num_learning_epochs=1, num_mini_batches=2),
        extensions=extensions,
        runner=RunnerConfig(num_steps_per_env=4, logger="none"),
    )


def test_from_env_without_mirrors_is_refused():
    cfg = learn_config(ActorCriticConfig(), SymmetryConfig())
    with pytest.raises(ValueError, match=r"PointEnv has no mirrors\(\), which SymmetryConfig needs"):
        PPO.from_env(cfg, PointEnv(ToyConfig(num_envs=2)), "cpu")


def test_from_env_with_mirrors_of_another_size_is_refused():
    env = PairEnv()
    env.mirrors = lambda: {**MIRRORS, "critic": image((0,), (1.0,))}
    with pytest.raises(ValueError, match=r"PairEnv.mirrors\(\)\['critic'\] does not fit the group's shape \[8, 2\]"):
        PPO.from_env(learn_config(ActorCriticConfig(), SymmetryConfig()), env, "cpu")
    env.mirrors = lambda: {"policy": MIRRORS["policy"]}
    with pytest.raises(ValueError, match=r"PairEnv.mirrors\(\): mirrors has no image of critic, actions"):
        PPO.from_env(learn_config(ActorCriticConfig(), SymmetryConfig()), env, "cpu")


@pytest.mark.parametrize("policy", [ActorCriticConfig, SymmetricActorCriticConfig])
def test_from_env_with_images_trains(policy):
    from rsl_rl.runners import OnPolicyRunner

    nets = policy(actor_hidden_dims=(8,), critic_hidden_dims=(8,), actor_groups=("policy", "camera"))
    symmetry = SymmetryConfig(use_mirror_loss=True, mirror_loss_coeff=0.1)
    cfg = replace(learn_config(nets, symmetry))
    runner = OnPolicyRunner(CameraEnv(CameraConfig(num_envs=4)), cfg)
    runner.learn(2)
    assert all(parameter.isfinite().all() for parameter in runner.alg.policy.parameters())


def test_transform_of_a_group_without_mirror_is_refused_when_it_is_read():
    __, symmetry = make((None, False))
    batch = MiniBatch({"other": torch.zeros(3, 2)}, {"actions": torch.zeros(3, A), "sample_mask": torch.ones(3, 1)})
    doubled = symmetry.transform(batch)
    with pytest.raises(ValueError, match="the group 'other' is read from mirrored samples"):
        doubled.groups["other"]
