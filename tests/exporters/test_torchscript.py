import subprocess
import sys

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


ALONE = """
import sys, torch
for folder in sys.argv[1:]:
    policy, actions = torch.jit.load(f"{folder}/policy.pt"), []
    steps, state = (torch.load(f"{folder}/{name}.pt") for name in ("steps", "state"))
    for obs in steps:
        out = policy(obs, *state)
        action, *state = out if isinstance(out, tuple) else (out,)
        actions.append(action)
    torch.save(torch.stack(actions), f"{folder}/actions.pt")
assert "rsl_rl" not in sys.modules
"""


def test_files_act_like_their_policies_in_a_process_without_this_package(tmp_path):
    expected = {}
    for name, policy in policies():
        if name != "symmetric":
            policy.actor_obs_normalizer.update(3 + 2 * torch.randn(100, 3))
        export_torchscript(policy, tmp_path / name / "policy.pt")
        steps = torch.randn(6, 1, 3)
        policy.reset()
        with torch.no_grad():
            expected[tmp_path / name] = torch.stack([policy.act_inference(obs) for obs in steps])
        torch.save(steps, tmp_path / name / "steps.pt")
        torch.save([torch.zeros(2, 1, 5)] * len(policy_module(policy).state_names), tmp_path / name / "state.pt")
    command = [sys.executable, "-W", "ignore", "-c", ALONE, *map(str, expected)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for folder, actions in expected.items():
        torch.testing.assert_close(torch.load(folder / "actions.pt"), actions, atol=1e-6, rtol=1e-6, msg=folder.name)


def test_the_copy_shares_nothing():
    policy = ActorCritic(3, 3, 2)
    module = policy_module(policy)
    before = module(torch.ones(1, 3))
    with torch.no_grad():
        policy.actor[0].weight.add_(1.0)
    assert torch.equal(module(torch.ones(1, 3)), before)
