"""Same weights, same rollout, same batch order: the same losses and gradients as rsl-rl-lib 5.5.1, which runs in its
own process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rsl_rl.algorithms import PPO
from rsl_rl.modules import ActorCritic

PACKAGES = ("rsl-rl-lib==5.5.1", "tensordict==0.15.3", "cloudpickle", "orjson", "pyvers", "importlib_metadata", "zipp")
T, N, D, C, A, HIDDEN = 12, 32, 7, 9, 3, (32, 16)


@pytest.fixture(scope="session")
def peer(pytestconfig) -> Path:
    """A folder with rsl-rl-lib 5.5.1, installed once and kept in pytest's cache."""
    folder = pytestconfig.cache.mkdir("rsl-rl-lib-5.5.1")
    if not (folder / "complete").exists():
        command = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--upgrade",
            "--target",
            str(folder),
            *PACKAGES,
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            pytest.skip(f"rsl-rl-lib 5.5.1 cannot be installed here: {done.stderr.strip().splitlines()[-1]}")
        (folder / "complete").touch()
    return folder


def peer_names(state: dict, net: str) -> dict:
    """Our names of one network's tensors in rsl-rl-lib's words."""
    renamed = {name.replace(f"{net}.", "mlp."): value for name, value in state.items() if name.startswith(f"{net}.")}
    if net == "actor":
        noise = {"std": "distribution.std_param", "log_std": "distribution.log_std_param"}
        renamed.update({noise[name]: value for name, value in state.items() if name in noise})
    return renamed


@pytest.mark.parametrize(
    ("noise_std_type", "settings"),
    [
        ("scalar", {"num_learning_epochs": 1, "num_mini_batches": 1, "schedule": "fixed"}),
        ("scalar", {"num_learning_epochs": 5, "num_mini_batches": 4, "schedule": "adaptive"}),
        (
            "log",
            {"num_learning_epochs": 3, "num_mini_batches": 2, "use_clipped_value_loss": False, "max_grad_norm": 0.1},
        ),
    ],
)
def test_losses_gradients_and_weights_are_those_of_the_peer(peer, tmp_path, monkeypatch, noise_std_type, settings):
    settings = {"gamma": 0.98, "lam": 0.9, "entropy_coef": 0.02, "value_loss_coef": 0.7, **settings}
    policy = ActorCritic(D, C, A, actor_hidden_dims=HIDDEN, critic_hidden_dims=HIDDEN, noise_std_type=noise_std_type)
    ppo = PPO(policy, **settings)
    ppo.init_storage(N, T, [D], [C], [A])
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
    actions = []
    for t in range(T):
        actions.append(ppo.act(rollout["obs"][t], rollout["critic_obs"][t]).clone())
        ppo.process_env_step(rollout["rewards"][t], dones[t], {"time_outs": rollout["time_outs"][t]})
    rollout["actions"] = torch.stack(actions)
    ppo.compute_returns(rollout["last_critic_obs"])
    order = torch.randperm(T * N)

    given = {
        "rollout": rollout, "settings": settings, "order": order, "hidden": HIDDEN, "noise_std_type": noise_std_type,
        "actor": peer_names(weights, "actor"), "critic": peer_names(weights, "critic"),
    }  # fmt: skip
    torch.save(given, tmp_path / "given.pt")
    script = Path(__file__).with_name("peer_update.py")
    command = [sys.executable, str(script), str(tmp_path / "given.pt"), str(tmp_path / "peer.pt")]
    environment = {**os.environ, "PYTHONPATH": str(peer), "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
    assert done.returncode == 0, done.stderr
    theirs = torch.load(tmp_path / "peer.pt", weights_only=False)

    returns, advantages = ppo.storage.returns.clone(), ppo.storage.advantages.clone()
    monkeypatch.setattr(torch, "randperm", lambda *args, **kwargs: order)  # rsl-rl-lib draws one order for all epochs
    ours = ppo.update()

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
