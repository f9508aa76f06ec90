"""Run by test_peer_extensions in a process whose rsl_rl is rsl-rl-lib 5.5.1: updates with extensions on given rollouts.

Usage: python peer_extensions.py INPUT.pt OUTPUT.pt
"""

import sys

import torch
from rsl_rl.models import MLPModel
from tensordict import TensorDict

from rsl_rl.algorithms import PPO
from rsl_rl.storage import RolloutStorage

given = torch.load(sys.argv[1])


def mirrored(name, x):
    index, sign = given["mirrors"][name]
    return x[..., index] * sign


def augment(env, obs, actions):
    """The samples with their mirror images behind them, in the form that rsl-rl-lib asks for."""
    if obs is not None:
        obs = torch.cat([obs, TensorDict({name: mirrored(name, x) for name, x in obs.items()}, obs.batch_size)])
    return obs, None if actions is None else torch.cat([actions, mirrored("actions", actions)])


def groups_of(rollout, t):
    return TensorDict({name: rows[t] for name, rows in rollout["groups"].items()}, batch_size=[given["num_envs"]])


first = given["rollouts"][0]
num_steps, num_envs, num_actions = first["actions"].shape
obs = groups_of(first, 0)
noise = {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": "scalar"}
groups = {"actor": ["policy"], "critic": ["critic"], "rnd_state": given["rnd_groups"]}
actor = MLPModel(obs, groups, "actor", num_actions, given["hidden"], "elu", distribution_cfg=noise)
critic = MLPModel(obs, groups, "critic", 1, given["hidden"], "elu")
actor.load_state_dict(given["actor"])
critic.load_state_dict(given["critic"])
settings = dict(given["settings"])
if given["rnd"] is not None:
    num_states = sum(obs[group].shape[-1] for group in given["rnd_groups"])
    settings["rnd_cfg"] = {"num_states": num_states, "obs_groups": groups, **given["rnd"]}
if given["symmetry"] is not None:
    settings["symmetry_cfg"] = {"env": None, "data_augmentation_func": augment, **given["symmetry"]}
storage = RolloutStorage("rl", num_envs, num_steps, obs, [num_actions])
ppo = PPO(actor, critic, storage, **settings)
if given["rnd"] is not None:
    ppo.rnd.predictor.load_state_dict(given["predictor"])
    ppo.rnd.target.load_state_dict(given["target"])
torch.randperm = lambda *args, **kwargs: given["order"]

found = []
for rollout in given["rollouts"]:
    intrinsic = []
    with torch.no_grad():
        for t in range(num_steps):
            ppo.act(groups_of(rollout, t))
            ppo.transition.actions = rollout["actions"][t]
            ppo.transition.actions_log_prob = actor.get_output_log_prob(rollout["actions"][t]).detach()
            extras = {"time_outs": torch.zeros(num_envs, dtype=torch.bool)}
            ppo.process_env_step(groups_of(rollout, t + 1), rollout["rewards"][t], rollout["dones"][t], extras)
            intrinsic.append(ppo.intrinsic_rewards.clone() if ppo.rnd else torch.zeros(num_envs))
        ppo.compute_returns(groups_of(rollout, num_steps))
    returns, losses = storage.returns.clone(), ppo.update()
    found.append({"intrinsic": torch.stack(intrinsic), "returns": returns, "losses": losses})
networks = {"actor": actor, "critic": critic}
if ppo.rnd:
    networks["predictor"] = ppo.rnd.predictor
torch.save(
    {
        "updates": found,
        "weights": {name: network.state_dict() for name, network in networks.items()},
        "gradients": {name: {n: p.grad for n, p in net.named_parameters()} for name, net in networks.items()},
        "state_mean": ppo.rnd.state_normalizer.mean if given["rnd"] and given["rnd"]["state_normalization"] else None,
    },
    sys.argv[2],
)
