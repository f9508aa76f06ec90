"""A worker: collecting from a no-op environment, and learning, with this library."""

from typing import Any, Dict, Sequence

import torch

from benchmarks.phases import Phases, Rollout
from benchmarks.serving import serve
from rsl_rl.algorithms import PPO
from rsl_rl.config.learn import AccelerationConfig
from rsl_rl.config.policy import ActorCriticConfig, ActorCriticRecurrentConfig
from rsl_rl.utils.host import prepare_host


def build(settings: dict) -> Phases:
    num_envs, num_steps, num_obs = settings["num_envs"], settings["num_steps"], settings["num_obs"]
    hidden_dims = tuple(settings["hidden_dims"])
    nets: Dict[str, Any] = {"actor_hidden_dims": hidden_dims, "critic_hidden_dims": hidden_dims}
    if settings["policy"] == "mlp":
        cfg = ActorCriticConfig(**nets)
    else:
        cfg = ActorCriticRecurrentConfig(
            rnn_type=settings["policy"], rnn_hidden_size=settings["rnn_hidden_size"], **nets
        )
    if settings["device"] == "cpu":
        prepare_host()
    acceleration = AccelerationConfig(**{name: settings[name] for name in ("cuda_graphs", "bfloat16", "compile")})
    policy = cfg.build(num_obs, num_obs, settings["num_actions"])
    ppo = PPO(
        policy,
        device=settings["device"],
        acceleration=acceleration,
        num_learning_epochs=settings["num_epochs"],
        num_mini_batches=settings["num_mini_batches"],
    )
    ppo.init_storage(num_envs, num_steps, [num_obs], None, [settings["num_actions"]])
    rollout = Rollout.draw(settings)

    def collect() -> None:
        for obs, reward, done in zip(rollout.obs, rollout.rewards, rollout.dones):
            ppo.act(obs, obs)
            ppo.process_env_step(reward, done, {})
        ppo.compute_returns(rollout.obs[0])

    @torch.no_grad()
    def gae() -> None:
        ppo.storage.compute_returns(rollout.last_values, ppo.cfg.gamma, ppo.cfg.lam)

    def update() -> None:
        torch.stack(list(ppo.update().values())).tolist()

    @torch.no_grad()
    def products() -> None:
        """Compute only the matrix products of collecting: those of the actor in each step, and of the critic."""
        for obs in rollout.obs:
            multiply(actor, obs)
        multiply(critic, ppo.storage.observations.flatten(0, 1))

    actor, critic = ([p for p in net.parameters() if p.dim() == 2] for net in (policy.actor, policy.critic))
    beside = {"products": products} if settings["policy"] == "mlp" else {}
    replayed = acceleration.cuda_graphs and settings["device"] != "cpu"
    return Phases(settings["device"], collect, gae, update, countable=not replayed, **beside)


def multiply(weights: Sequence[torch.Tensor], x: torch.Tensor) -> None:
    """Multiply rows by matrices, a thousand rows at a time, so that they fit into a CPU's cache."""
    for block in x.split(1024) if x.device.type == "cpu" else (x,):
        for weight in weights:
            block = block @ weight.t()


serve(build)
