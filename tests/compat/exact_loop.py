"""Run by test_exact twice, with rsl-rl-lib 5.5.1 and with this package: the same training loop from the same weights.

Usage: python exact_loop.py CONFIG.pt WEIGHTS.pt OUT.pt. Upstream writes WEIGHTS.pt where it is missing. OUT.pt holds
the weights, the moments of Adam, the learning rate and the losses after each of the updates.
"""

import copy
import sys
from pathlib import Path

import torch

here = Path(__file__).parent
sys.path[:0] = [str(here), str(here.parent)]
import era_clients  # noqa: E402

from rsl_rl.runners import OnPolicyRunner  # noqa: E402

torch.set_num_threads(1)
config, weights, out = (Path(name) for name in sys.argv[1:4])
cfg = torch.load(config, weights_only=False)
ours = "compat" in cfg


def groups_of(groups):
    """Return groups that the next step does not change."""
    copies = {name: group.clone() for name, group in groups.items()}
    if ours:
        return copies
    from tensordict import TensorDict

    return TensorDict(copies, batch_size=[len(copies["actor"])])


def make_env():
    env = era_clients.V5Env(16, wrap=groups_of)
    env._ages[:] = torch.arange(16) % era_clients.LIMIT  # episodes end at different steps
    env.state[:] = torch.linspace(-2.9, 2.9, 16)[:, None]  # and some fail
    return env


alg = OnPolicyRunner(make_env(), cfg, None, "cpu").alg
if not weights.exists():
    torch.save(alg.save(), weights)
alg.load(torch.load(weights, weights_only=False), None, True)
torch.manual_seed(5)
env, records = make_env(), []
obs = env.get_observations()
alg.train_mode()
for _ in range(4):
    with torch.no_grad():
        for _ in range(cfg["num_steps_per_env"]):
            obs, rewards, dones, extras = env.step(alg.act(obs))
            alg.process_env_step(obs, rewards, dones, extras)
        alg.compute_returns(obs)
    returns, advantages = alg.storage.returns.clone(), alg.storage.advantages.clone()
    losses = alg.update()
    state = copy.deepcopy(alg.save())
    record = {f"{role}.{name}": x for role in ("actor", "critic") for name, x in state[f"{role}_state_dict"].items()}
    moments = state["optimizer_state_dict"]["state"]
    record.update({f"moment {i} {name}": x for i, own in moments.items() for name, x in own.items()})
    record.update(
        {"returns": returns, "advantages": advantages, "actor obs": obs["actor"], "critic obs": obs["critic"]}
    )
    record["learning rate"] = torch.tensor(alg.learning_rate, dtype=torch.float64)
    names = ("value_loss", "surrogate_loss", "entropy") if ours else ("value", "surrogate", "entropy")
    record["losses"] = torch.tensor([float(losses[name]) for name in names], dtype=torch.float64)
    records.append(record)
torch.save(records, out)
