"""A worker: collecting from a no-op environment, and learning, with this library."""

import sys
from pathlib import Path
from typing import Any, Callable, Dict

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.serving import Rollout, serve
from rsl_rl.algorithms import PPO
from rsl_rl.config.policy import ActorCriticConfig, ActorCriticRecurrentConfig


def build(settings: dict) -> Dict[str, Callable[[], object]]:
    num_envs, num_steps, num_obs = settings["num_envs"], settings["num_steps"], settings["num_obs"]
    hidden_dims = tuple(settings["hidden_dims"])
    nets: Dict[str, Any] = {"actor_hidden_dims": hidden_dims, "critic_hidden_dims": hidden_dims}
    if settings["policy"] == "mlp":
        cfg = ActorCriticConfig(**nets)
    else:
        cfg = ActorCriticRecurrentConfig(
            rnn_type=settings["policy"], rnn_hidden_size=settings["rnn_hidden_size"], **nets
        )
    ppo = PPO(
        cfg.build(num_obs, num_obs, settings["num_actions"]),
        device=settings["device"],
        num_learning_epochs=settings["num_epochs"],
        num_mini_batches=settings["num_mini_batches"],
    )
    ppo.init_storage(num_envs, num_steps, [num_obs], [num_obs], [settings["num_actions"]])
    rollout = Rollout.draw(settings)

    def collect() -> None:
        for obs, reward, done in zip(*rollout):
            ppo.act(obs, obs)
            ppo.process_env_step(reward, done, {})

    def update() -> None:
        for value in ppo.update().values():
            value.item()

    return {"collect": collect, "returns": lambda: ppo.compute_returns(rollout.obs[0]), "update": update}


serve(build)
