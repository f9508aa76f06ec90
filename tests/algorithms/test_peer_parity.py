"""Same weights, same rollout, same batch order: the same losses and gradients as rsl-rl-lib 5.5.1, which runs in its
own process."""

import pytest
import torch

from rsl_rl.modules.policy import ActorCritic, ActorCriticRecurrent
from tests.learners import ppo_of

T, N, D, C, A, H, HIDDEN = 12, 32, 7, 9, 3, 10, (32, 16)


def peer_names(state: dict, net: str) -> dict:
    """Our names of one network's tensors in rsl-rl-lib's words."""
    memory = {"actor": "memory_a.", "critic": "memory_c."}[net]
    renamed = {name.replace(f"{net}.", "mlp."): value for name, value in state.items() if name.startswith(f"{net}.")}
    renamed.update({name.replace(memory, "rnn."): value for name, value in state.items() if name.startswith(memory)})
    if net == "actor":
        noise = {"std": "distribution.std_param", "log_std": "distribution.log_std_param"}
        renamed.update({noise[name]: value for name, value in state.items() if name in noise})
    return renamed


@pytest.mark.parametrize(
    ("memory", "noise_std_type", "settings"),
    [
        ({}, "scalar", {"num_learning_epochs": 1, "num_mini_batches": 1, "schedule": "fixed"}),
        ({}, "scalar", {"num_learning_epochs": 5, "num_mini_batches": 4, "schedule": "adaptive"}),
        (
            {},
            "log",
            {"num_learning_epochs": 3, "num_mini_batches": 2, "use_clipped_value_loss": False, "max_grad_norm": 0.1},
        ),
        ({"rnn_type": "gru"}, "scalar", {"num_learning_epochs": 1, "num_mini_batches": 1, "schedule": "fixed"}),
        ({"rnn_type": "lstm"}, "scalar", {"num_learning_epochs": 5, "num_mini_batches": 4, "schedule": "adaptive"}),
        ({"rnn_type": "gru", "rnn_num_layers": 2}, "log", {"num_learning_epochs": 2, "num_mini_batches": 2}),
    ],
)
def test_update_from_equal_weights_and_rollout_equals_rsl_rl_lib(
    ask_peer, monkeypatch, memory, noise_std_type, settings
):
    settings = {"gamma": 0.98, "lam": 0.9, "entropy_coef": 0.02, "value_loss_coef": 0.7, **settings}
    nets = {"actor_hidden_dims": HIDDEN, "critic_hidden_dims": HIDDEN, "critic_groups": ("critic",)}
    nets["noise_std_type"] = noise_std_type
    if memory:
        policy = ActorCriticRecurrent(D, C, A, rnn_hidden_size=H, **memory, **nets)
    else:
        policy = ActorCritic(D, C, A, **nets)
    ppo = ppo_of(policy, N, T, {"policy": D, "critic": C}, **settings)
    weights = {name: value.clone() for name, value in policy.state_dict().items()}
    dones = torch.rand(T, N) < 0.1
    rollout = {
        "obs": torch.randn(T, N, D),
        "critic_obs": torch.randn(T, N, C),
        "last_critic_obs": torch.randn(N, C),
        "rewards": torch.randn(T, N),
        "dones": dones,
        "time_outs": dones & (torch.rand(T, N) < 0.5),  # the peer bootstraps unmasked, so give it true flags only
    }
    with torch.no_grad():  # a past, for those that remember it
        policy.act(rollout["obs"][0])
        policy.evaluate(rollout["critic_obs"][0])
    actions = []
    for t in range(T):
        actions.append(ppo.act({"policy": rollout["obs"][t], "critic": rollout["critic_obs"][t]}))
        ppo.process_env_step(rollout["rewards"][t], dones[t], {"time_outs": rollout["time_outs"][t]})
    rollout["actions"] = torch.stack(actions)
    ppo.compute_returns({"critic": rollout["last_critic_obs"]})
    order = torch.randperm(T * N)

    given = {
        "rollout": rollout, "settings": settings, "order": order, "hidden": HIDDEN, "noise_std_type": noise_std_type,
        "memory": {"rnn_hidden_dim": H, **memory} if memory else {},
        "actor": peer_names(weights, "actor"), "critic": peer_names(weights, "critic"),
    }  # fmt: skip
    theirs = ask_peer("peer_update.py", given)

    returns, advantages = (ppo.storage.columns[name].clone() for name in ("returns", "advantages"))
    # rsl-rl-lib draws one order of the steps for all epochs, and leaves environments with memory in theirs.
    drawn = torch.arange(N) if memory else order
    monkeypatch.setattr(torch, "randperm", lambda *args, **kwargs: drawn)
    ours = ppo.update().metrics

    close = {"atol": 2e-6, "rtol": 2e-5}  # float32 rounding, summed in another order
    torch.testing.assert_close(returns, theirs["returns"], **close)
    torch.testing.assert_close(advantages, theirs["advantages"], **close)
    for mine, its in (("surrogate_loss", "surrogate"), ("value_loss", "value"), ("entropy", "entropy")):
        assert ours[mine].item() == pytest.approx(theirs["losses"][its], rel=2e-5, abs=2e-6)
    assert ours["learning_rate"].item() == pytest.approx(theirs["learning_rate"], rel=1e-6)
    # Adam divides by the gradient's own size, so its first steps enlarge a rounding of 1e-6 in the weights.
    grads = {name: parameter.grad for name, parameter in policy.named_parameters()}
    for net in ("actor", "critic"):
        for name, value in peer_names(grads, net).items():
            torch.testing.assert_close(value, theirs[f"{net}_grad"][name], atol=2e-5, rtol=2e-4)
        for name, value in peer_names(policy.state_dict(), net).items():
            torch.testing.assert_close(value.detach(), theirs[net][name], atol=2e-5, rtol=2e-4)
