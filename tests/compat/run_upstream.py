"""Run by test_upstream in a process whose rsl_rl is an earlier version: train, or load a file, and act.

Usage: python run_upstream.py MAJOR MEMORY OUT.pt [CHECKPOINT]. MEMORY is "none", "gru" or "lstm". Without CHECKPOINT it
trains and leaves model.pt beside OUT.pt; with it, it loads that file. OUT.pt holds observations and actions.
"""

import sys
from pathlib import Path

import torch

here = Path(__file__).parent
sys.path[:0] = [str(here), str(here.parent)]
import era_clients  # noqa: E402
import era_configs  # noqa: E402

from rsl_rl.runners import OnPolicyRunner  # noqa: E402

major, memory, out = int(sys.argv[1]), sys.argv[2], Path(sys.argv[3])
torch.manual_seed(3)
size = "rnn_hidden_size" if major == 1 else "rnn_hidden_dim"
cfg = era_configs.CONFIGS[major](**({} if memory == "none" else {"rnn_type": memory, size: 12}))
if major >= 3:
    from tensordict import TensorDict

    env = era_clients.V5Env(wrap=lambda groups: TensorDict(groups, batch_size=[era_clients.N]))
else:
    env = era_clients.V1PrivilegedEnv() if major == 1 else era_clients.V2Env()
    env.obs_buf = torch.zeros(era_clients.N, era_clients.D)
runner = OnPolicyRunner(env, cfg, log_dir=str(out.parent), device="cpu")
runner.logger_type = "tensorboard"  # which up to 3.1 only learn() sets
if len(sys.argv) > 4:
    runner.load(sys.argv[4])
else:
    runner.learn(3)
    runner.save(str(out.with_name("model.pt")))
policy = runner.get_inference_policy()
torch.manual_seed(5)
steps = [torch.randn(era_clients.N, era_clients.D) for _ in range(3)]
critic = torch.randn(era_clients.N, era_clients.C)
actions = []
with torch.no_grad():
    if memory != "none":
        network = (
            runner.alg.get_policy() if major >= 4 else getattr(runner.alg, "policy", None) or runner.alg.actor_critic
        )
        network.reset()
        if major < 4:
            network.memory_a.hidden_states = network.memory_a.hidden_state = None
    for obs in steps:
        groups = env.wrap({"actor": obs, "critic": critic}) if major >= 3 else obs
        actions.append(policy(groups).clone())
rate = runner.alg.optimizer.param_groups[0]["lr"]
torch.save(
    {"obs": torch.stack(steps), "actions": torch.stack(actions), "lr": rate, "iter": runner.current_learning_iteration},
    out,
)
