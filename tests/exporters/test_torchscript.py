import subprocess
import sys

import pytest
import torch

from rsl_rl.exporters import export_torchscript, policy_module
from rsl_rl.modules import ActorCritic, ActorCriticRecurrent, SymmetricActorCritic

NETS = {"actor_hidden_dims": (8,), "critic_hidden_dims": (8,), "actor_obs_normalization": True}
MIRROR = ((1, 0, 2), (1.0, 1.0, -1.0))


def policies():
    yield "mlp", ActorCritic(3, 3, 2, **NETS)
    mirrors = {"actor_mirror": MIRROR, "critic_mirror": MIRROR, "action_mirror": ((1, 0), (1.0, 1.0))}
    plain = {**NETS, "actor_obs_normalization": False}
    yield "symmetric", SymmetricActorCritic(3, 3, 2, **plain, **mirrors)
    for kind in ("gru", "lstm"):
        yield kind, ActorCriticRecurrent(3, 3, 2, rnn_type=kind, rnn_hidden_size=5, rnn_num_layers=2, **NETS)


@pytest.mark.parametrize(("name", "policy"), list(policies()), ids=lambda x: x if isinstance(x, str) else "")
def test_the_file_acts_like_the_policy_in_a_process_without_this_package(name, policy, tmp_path):
    if NETS["actor_obs_normalization"] and name != "symmetric":
        policy.actor_obs_normalizer.update(3 + 2 * torch.randn(100, 3))
    path = export_torchscript(policy, tmp_path / "exported" / "policy.pt")
    steps = torch.randn(6, 1, 3)
    policy.reset()
    with torch.no_grad():
        expected = torch.stack([policy.act_inference(obs) for obs in steps])
    torch.save(steps, tmp_path / "steps.pt")
    num_states = len(policy_module(policy).state_names)
    code = f"""
import sys, torch
policy, steps = torch.jit.load(r"{path}"), torch.load(r"{tmp_path / "steps.pt"}")
state, actions = [torch.zeros(2, 1, 5)] * {num_states}, []
for obs in steps:
    out = policy(obs, *state)
    action, state = (out[0], list(out[1:])) if {num_states} else (out, [])
    actions.append(action)
assert "rsl_rl" not in sys.modules
torch.save(torch.stack(actions), r"{tmp_path / "actions.pt"}")
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    torch.testing.assert_close(torch.load(tmp_path / "actions.pt"), expected, atol=1e-6, rtol=1e-6)


def test_the_copy_shares_nothing():
    policy = ActorCritic(3, 3, 2)
    module = policy_module(policy)
    before = module(torch.ones(1, 3))
    with torch.no_grad():
        policy.actor[0].weight.add_(1.0)
    assert torch.equal(module(torch.ones(1, 3)), before)
