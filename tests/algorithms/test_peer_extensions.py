"""Same weights, same rollouts, same batch order: with random network distillation and with symmetry the same rewards,
losses, gradients and weights as rsl-rl-lib 5.5.1, which runs in its own process."""

import pytest
import torch

from rsl_rl.config.extensions import RNDConfig
from rsl_rl.extensions import RandomNetworkDistillation, Symmetry
from rsl_rl.modules.policy import ActorCritic
from tests.learners import ppo_of

T, N, D, C, A, HIDDEN = 12, 32, 6, 4, 2, (32, 16)
MIRRORS = {
    "policy": (torch.tensor((1, 0, 3, 2, 4, 5)), torch.tensor((1.0, 1.0, -1.0, -1.0, -1.0, 1.0))),
    "critic": (torch.tensor((2, 3, 0, 1)), torch.tensor((1.0, -1.0, 1.0, -1.0))),
    "actions": (torch.tensor((1, 0)), torch.tensor((-1.0, -1.0))),
}
CLOSE = {"atol": 2e-6, "rtol": 2e-5}  # float32 rounding, summed in another order
AFTER_ADAM = {"atol": 2e-5, "rtol": 2e-4}  # which divides by the gradient's own size, and so enlarges a rounding


def peer_names(state, net):
    """Our names of one network's tensors in rsl-rl-lib's words."""
    renamed = {name.replace(f"{net}.", "mlp."): value for name, value in state.items() if name.startswith(f"{net}.")}
    if net == "actor" and "std" in state:
        renamed["distribution.std_param"] = state["std"]
    return renamed


def rollouts_of(count):
    return [
        {
            "groups": {"policy": torch.randn(T + 1, N, D), "critic": 2.0 + torch.randn(T + 1, N, C)},
            "rewards": torch.randn(T, N),
            "dones": torch.rand(T, N) < 0.1,
        }
        for _ in range(count)
    ]


def collect(ppo, rollout):
    """Collect a rollout with our PPO, and note the actions and the intrinsic rewards."""
    rows = [{name: group[t] for name, group in rollout["groups"].items()} for t in range(T + 1)]
    actions, intrinsic = [], []
    for t in range(T):
        actions.append(ppo.act(rows[t]))
        ppo.process_env_step(rollout["rewards"][t], rollout["dones"][t], {}, rows[t + 1])
        intrinsic.append(ppo.transition.columns["rewards"].squeeze(1) - rollout["rewards"][t])
    ppo.compute_returns(rows[T])
    rollout["actions"] = torch.stack(actions)
    return torch.stack(intrinsic)


MINI_BATCHES = {"num_learning_epochs": 3, "num_mini_batches": 4, "schedule": "adaptive"}
ONE_STEP = {"num_learning_epochs": 1, "num_mini_batches": 1, "schedule": "fixed"}
RND = {"weight": 0.5, "num_outputs": 5, "predictor_hidden_dims": (16, 8), "target_hidden_dims": (12,)}
BARE = {"state_normalization": False, "reward_normalization": False}
SCHEDULE = {"weight_schedule": "linear", "initial_step": 4, "final_step": 20, "final_weight": 2.0}
AUGMENT, MIRROR_LOSS = (True, False, 0.0), (False, True, 0.7)


@pytest.mark.parametrize(
    ("rnd", "symmetry", "settings"),
    [
        ({**RND, "learning_rate": 3e-3}, None, MINI_BATCHES),
        ({**RND, **SCHEDULE, "groups": ("policy", "critic"), "activation": "tanh"}, None, MINI_BATCHES),
        ({**RND, **BARE, "weight_schedule": "step", "final_step": 17, "final_weight": 0.1}, None, MINI_BATCHES),
        (None, AUGMENT, ONE_STEP),
        (None, MIRROR_LOSS, ONE_STEP),
        (None, (False, False, 0.0), MINI_BATCHES),
        (None, (True, True, 0.2), {**MINI_BATCHES, "normalize_advantage_per_mini_batch": True}),
        (RND, (True, True, 0.2), MINI_BATCHES),
    ],
)
def test_update_with_extensions_is_that_of_the_peer(ask_peer, monkeypatch, rnd, symmetry, settings):
    policy = ActorCritic(
        D,
        C,
        A,
        actor_hidden_dims=HIDDEN,
        critic_hidden_dims=HIDDEN,
        actor_groups=("policy",),
        critic_groups=("critic",),
    )
    settings = {"gamma": 0.98, "lam": 0.9, "entropy_coef": 0.02, "value_loss_coef": 0.7, **settings}
    weights = {name: value.clone() for name, value in policy.state_dict().items()}
    extensions, theirs, given = [], {}, {"rnd": None, "symmetry": None, "rnd_groups": ["policy"]}
    if rnd is not None:
        cfg = RNDConfig(**rnd)
        extensions.append(RandomNetworkDistillation(cfg, sum({"policy": D, "critic": C}[g] for g in cfg.groups)))
        given.update(rnd=peer_rnd(cfg), rnd_groups=list(cfg.groups))
        for name in ("predictor", "target"):
            given[name] = {key: value.clone() for key, value in getattr(extensions[0], name).state_dict().items()}
    if symmetry is not None:
        extensions.append(Symmetry(MIRRORS, policy, *symmetry))
        names = ("use_data_augmentation", "use_mirror_loss", "mirror_loss_coeff")
        given["symmetry"] = dict(zip(names, symmetry))
    ppo = ppo_of(policy, N, T, {"policy": D, "critic": C}, extensions, **settings)

    order, rollouts, ours = torch.randperm(T * N), rollouts_of(2), []
    monkeypatch.setattr(torch, "randperm", lambda *args, **kwargs: order)
    for rollout in rollouts:
        intrinsic = collect(ppo, rollout)
        returns = ppo.storage.columns["returns"].clone()
        ours.append((intrinsic, returns, ppo.update().metrics))
    given.update(
        actor=peer_names(weights, "actor"), critic=peer_names(weights, "critic"), mirrors=MIRRORS, order=order,
        rollouts=rollouts, settings=settings, hidden=HIDDEN, num_envs=N,
    )  # fmt: skip
    theirs = ask_peer("peer_extensions.py", given)

    for (intrinsic, returns, metrics), its in zip(ours, theirs["updates"]):
        torch.testing.assert_close(intrinsic, its["intrinsic"], **AFTER_ADAM)
        torch.testing.assert_close(returns, its["returns"], **AFTER_ADAM)
        for name, theirs_name in (("surrogate_loss", "surrogate"), ("value_loss", "value"), ("entropy", "entropy")):
            assert metrics[name].item() == pytest.approx(its["losses"][theirs_name], rel=1e-4, abs=1e-5), name
        if rnd is not None:
            assert metrics["rnd_loss"].item() == pytest.approx(its["losses"]["rnd"], rel=1e-4)
        if symmetry is not None:
            coeff = symmetry[2] if symmetry[1] else 1.0
            assert metrics["symmetry_loss"].item() == pytest.approx(coeff * its["losses"]["symmetry"], rel=1e-4)
    torch.testing.assert_close(ours[0][0], theirs["updates"][0]["intrinsic"], **CLOSE)  # before any update
    grads = {name: parameter.grad for name, parameter in policy.named_parameters()}
    for net in ("actor", "critic"):
        for name, value in peer_names(grads, net).items():
            torch.testing.assert_close(value, theirs["gradients"][net][name], **AFTER_ADAM)
        for name, value in peer_names(policy.state_dict(), net).items():
            torch.testing.assert_close(value.detach(), theirs["weights"][net][name], **AFTER_ADAM)
    if rnd is not None:
        predictor = extensions[0].predictor
        for name, parameter in predictor.named_parameters():
            torch.testing.assert_close(parameter.grad, theirs["gradients"]["predictor"][name], **AFTER_ADAM)
            torch.testing.assert_close(parameter.detach(), theirs["weights"]["predictor"][name], **AFTER_ADAM)
        if cfg.state_normalization:
            torch.testing.assert_close(extensions[0].state_normalizer.mean, theirs["state_mean"])


def peer_rnd(cfg):
    """Our settings in rsl-rl-lib's words."""
    schedule = None
    if cfg.weight_schedule != "constant":
        schedule = {"mode": cfg.weight_schedule, "final_step": cfg.final_step, "final_value": cfg.final_weight}
        if cfg.weight_schedule == "linear":
            schedule["initial_step"] = cfg.initial_step
    names = (
        "num_outputs", "predictor_hidden_dims", "target_hidden_dims", "activation", "state_normalization",
        "reward_normalization", "weight", "learning_rate",
    )  # fmt: skip
    return {**{name: getattr(cfg, name) for name in names}, "weight_schedule": schedule}
