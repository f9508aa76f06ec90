"""``compat: "exact"``: updates that equal those of rsl_rl 5.5.1 to the last bit."""

import copy
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from rsl_rl.compat.exact import ExactPPO
from rsl_rl.runners import OnPolicyRunner
from tests.compat.era_configs import v3, v4, v5
from tests.compat.test_config import ClientPPO
from tests.era_clients import V5Env

SCRIPT = Path(__file__).with_name("exact_loop.py")


def config(actor=(), critic=(), std=(), **algorithm):
    """Return a configuration of version 5 with other settings of its sections."""
    cfg = v5()
    cfg["actor"].update(actor)
    cfg["critic"].update(critic)
    cfg["actor"]["distribution_cfg"].update(std)
    cfg["algorithm"].update(algorithm)
    cfg["multi_gpu"] = None
    return cfg


def memory(kind, layers=1):
    return {"class_name": "RNNModel", "rnn_type": kind, "rnn_hidden_dim": 7, "rnn_num_layers": layers}


CASES = {
    "adaptive": config(num_learning_epochs=5, num_mini_batches=4),
    "fixed": config(
        {"obs_normalization": False, "activation": "relu"}, std={"std_type": "log"}, schedule="fixed",
        num_mini_batches=5, use_clipped_value_loss=False, max_grad_norm=0.1, learning_rate=3e-4,
        normalize_advantage_per_mini_batch=True, entropy_coef=0.0, desired_kl=None,
    ),
    "gru": config(memory("gru"), memory("gru"), num_learning_epochs=3),
    "lstm": config(memory("lstm", 2), memory("lstm", 2), std={"std_range": (0.2, 0.49)}, num_mini_batches=3),
    "memory of the actor": config(memory("lstm"), gamma=0.9, lam=0.8, desired_kl=0.001),
}  # fmt: skip


def run(path, *arguments):
    environment = {**os.environ, "PYTHONPATH": str(path), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    done = subprocess.run(
        command, capture_output=True, text=True, env=environment, cwd=arguments[0].parent, check=False
    )
    assert done.returncode == 0, done.stderr
    return torch.load(arguments[-1], weights_only=True)


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=[] if case == "adaptive" else [pytest.mark.slow]) for case in CASES]
)
def test_exact_training_equals_rsl_rl_5_5_1_bit_for_bit(case, peer, root, tmp_path):
    torch.save(CASES[case], tmp_path / "theirs.pt")
    torch.save({**CASES[case], "compat": "exact"}, tmp_path / "ours.pt")
    weights = tmp_path / "weights.pt"
    theirs = run(peer, tmp_path / "theirs.pt", weights, tmp_path / "their_records.pt")
    ours = run(root, tmp_path / "ours.pt", weights, tmp_path / "our_records.pt")
    first = torch.load(weights, weights_only=False)["actor_state_dict"]
    assert not torch.equal(first["mlp.0.weight"], theirs[-1]["actor.mlp.0.weight"])
    for i, (mine, its) in enumerate(zip(ours, theirs)):
        assert mine.keys() == its.keys() and len(its) > 20
        for name, value in its.items():
            if name == "losses":  # sums of single precision, and of double precision
                torch.testing.assert_close(mine[name], value, rtol=1e-6, atol=1e-8)
            else:
                assert torch.equal(mine[name], value), f"{name} after update {i + 1}"


@pytest.mark.parametrize(("cfg", "words"), [
    ({**v5(), "compat": "exakt"}, "compat='exakt' is unknown; give 'exact'"),
    ({**v3(), "compat": "exact"}, "this one is for version 3"),
    ({**config(rnd_cfg={"weight": 1.0}), "compat": "exact"}, "reproduces PPO without rnd_cfg"),
    ({**config(class_name=ClientPPO), "compat": "exact"}, "reproduces PPO without class_name=ClientPPO"),
    ({**config(std={"class_name": "BetaDistribution"}), "compat": "exact"}, "reproduces GaussianDistribution alone"),
])  # fmt: skip
def test_what_exact_does_not_reproduce_is_refused(cfg, words):
    with pytest.raises(ValueError, match=words):
        OnPolicyRunner(V5Env(), cfg)


@pytest.mark.parametrize("cfg", [v4(), v5()], ids=["4", "5"])
def test_exact_runner_learns_saves_and_resumes(cfg, tmp_path, capsys):
    cfg["compat"] = "exact"
    before = copy.deepcopy(cfg)
    runner = OnPolicyRunner(V5Env(64), cfg, str(tmp_path))
    assert isinstance(runner.alg, ExactPPO) and cfg == before
    runner.learn(25)
    assert runner.collector.recent.means()[0] > -16  # -20 and less untrained
    assert "without effect" not in capsys.readouterr().err
    other = OnPolicyRunner(V5Env(64), cfg)
    other.load(str(tmp_path / "model_24.pt"))
    assert other.alg.learning_rate == runner.alg.learning_rate and other.current_learning_iteration == 24
    saved = torch.load(tmp_path / "model_24.pt", weights_only=True)
    assert saved["learning_rate"] == pytest.approx(runner.alg.learning_rate) != 1e-3
    obs = runner.env.get_observations()
    torch.testing.assert_close(other.get_inference_policy()(obs), runner.get_inference_policy()(obs))
    other.learn(1)


def test_exact_leaves_out_steps_that_are_not_valid_and_losses_that_are_not_finite():
    def alg_of(valid, reward):
        torch.manual_seed(0)
        alg = OnPolicyRunner(V5Env(), {**config(), "compat": "exact"}).alg
        env = V5Env(wrap=lambda groups: {name: group.clone() for name, group in groups.items()})
        obs = env.get_observations()
        for _ in range(6):
            obs, _, dones, _ = env.step(alg.act(obs))
            rewards = torch.where(valid, torch.ones(8), torch.full((8,), reward))
            alg.process_env_step(rewards, dones | ~valid, {"valid": valid}, obs)
        alg.compute_returns(obs)
        return alg, {name: value.clone() for name, value in alg.policy.state_dict().items()}

    some = torch.arange(8) < 6
    updates = []
    for reward in (3.0, -40.0):
        alg, _ = alg_of(some, reward)
        alg.update()
        updates.append(alg.policy.actor.mlp[0].weight)
    assert torch.equal(*updates)
    alg, before = alg_of(torch.ones(8).bool(), 0.0)
    alg.storage.advantages.fill_(torch.nan)
    metrics = alg.update()
    assert metrics["skipped_steps"] == 4 and torch.equal(alg.policy.actor.mlp[0].weight, before["actor.mlp.0.weight"])
