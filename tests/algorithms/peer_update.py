"""Run by test_peer_parity in a process whose rsl_rl is rsl-rl-lib 5.5.1: one update on a given rollout.

Usage: python peer_update.py INPUT.pt OUTPUT.pt
"""

import sys

import torch
from rsl_rl.models import MLPModel, RNNModel
from tensordict import TensorDict

from rsl_rl.algorithms import PPO
from rsl_rl.storage import RolloutStorage

given = torch.load(sys.argv[1])
rollout, settings = given["rollout"], given["settings"]
num_steps, num_envs, num_actions = rollout["actions"].shape
obs = TensorDict({"policy": rollout["obs"][0], "critic": rollout["critic_obs"][0]}, batch_size=[num_envs])
groups = {"actor": ["policy"], "critic": ["critic"]}
noise = {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": given["noise_std_type"]}
model = RNNModel if given["memory"] else MLPModel
actor = model(obs, groups, "actor", num_actions, given["hidden"], "elu", distribution_cfg=noise, **given["memory"])
critic = model(obs, groups, "critic", 1, given["hidden"], "elu", **given["memory"])
actor.load_state_dict(given["actor"])
critic.load_state_dict(given["critic"])

storage = RolloutStorage("rl", num_envs, num_steps, obs, [num_actions])
ppo = PPO(actor, critic, storage, **settings)
with torch.no_grad():
    actor(obs)  # a past, for those that remember it
    critic(obs)
    for t in range(num_steps):
        row = TensorDict({"policy": rollout["obs"][t], "critic": rollout["critic_obs"][t]}, batch_size=[num_envs])
        ppo.act(row)
        ppo.transition.actions = rollout["actions"][t]
        ppo.transition.actions_log_prob = actor.get_output_log_prob(rollout["actions"][t]).detach()
        ppo.process_env_step(row, rollout["rewards"][t], rollout["dones"][t], {"time_outs": rollout["time_outs"][t]})
last = TensorDict({"policy": rollout["obs"][-1], "critic": rollout["last_critic_obs"]}, batch_size=[num_envs])
with torch.no_grad():
    ppo.compute_returns(last)
torch.randperm = lambda *args, **kwargs: given["order"]
losses = ppo.update()
torch.save(
    {
        "losses": losses,
        "returns": storage.returns,
        "advantages": storage.advantages,
        "learning_rate": ppo.learning_rate,
        "actor": actor.state_dict(),
        "critic": critic.state_dict(),
        "actor_grad": {name: p.grad for name, p in actor.named_parameters()},
        "critic_grad": {name: p.grad for name, p in critic.named_parameters()},
    },
    sys.argv[2],
)
