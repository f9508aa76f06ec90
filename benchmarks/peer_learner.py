"""A worker: collecting from a no-op environment, and learning, with rsl-rl-lib 5.5."""

from typing import Callable, Dict

import torch
from rsl_rl.models import MLPModel, RNNModel
from serving import Rollout, serve
from tensordict import TensorDict

from rsl_rl.algorithms import PPO
from rsl_rl.storage import RolloutStorage


def build(settings: dict) -> Dict[str, Callable[[], object]]:
    num_envs, num_steps, num_actions = settings["num_envs"], settings["num_steps"], settings["num_actions"]
    device, hidden_dims = settings["device"], settings["hidden_dims"]
    rollout = Rollout.draw(settings)
    rows = [TensorDict({"policy": obs}, batch_size=[num_envs], device=device) for obs in rollout.obs]
    groups = {"actor": ["policy"], "critic": ["policy"]}
    noise = {"class_name": "GaussianDistribution", "init_std": 1.0, "std_type": "scalar"}
    model, memory = MLPModel, {}
    if settings["policy"] != "mlp":
        model = RNNModel
        memory = {"rnn_type": settings["policy"], "rnn_hidden_dim": settings["rnn_hidden_size"], "rnn_num_layers": 1}
    actor = model(rows[0], groups, "actor", num_actions, hidden_dims, "elu", distribution_cfg=noise, **memory)
    critic = model(rows[0], groups, "critic", 1, hidden_dims, "elu", **memory)
    ppo = PPO(
        actor.to(device),
        critic.to(device),
        RolloutStorage("rl", num_envs, num_steps, rows[0], [num_actions], device),
        num_learning_epochs=settings["num_epochs"],
        num_mini_batches=settings["num_mini_batches"],
        learning_rate=1e-3,
        schedule="adaptive",
        device=device,
    )

    @torch.inference_mode()
    def collect() -> None:
        for row, reward, done in zip(rows, rollout.rewards, rollout.dones):
            ppo.act(row)
            ppo.process_env_step(row, reward, done, {})

    @torch.inference_mode()
    def returns() -> None:
        ppo.compute_returns(rows[0])

    return {"collect": collect, "returns": returns, "update": ppo.update}


serve(build)
