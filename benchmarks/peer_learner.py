"""A worker: collecting from a no-op environment, and learning, with rsl-rl-lib 5.5."""

import importlib.util
from pathlib import Path

import torch
from rsl_rl.models import MLPModel, RNNModel
from tensordict import TensorDict

from benchmarks.phases import Phases, Rollout
from benchmarks.serving import serve
from rsl_rl.algorithms import PPO
from rsl_rl.storage import RolloutStorage


class KnownValues:
    """A critic with given values."""

    def __init__(self, values: torch.Tensor):
        self._values = values  # [N, 1]

    def __call__(self, obs: TensorDict) -> torch.Tensor:
        return self._values

    def get_hidden_state(self) -> None:
        return None

    def reset(self, hidden_state: None = None) -> None:
        pass


def prepare_host() -> None:
    """Set threads and allocator as our worker does; our file is loaded by path, since ``rsl_rl`` is the peer's."""
    path = Path(__file__).resolve().parent.parent / "rsl_rl" / "utils" / "host.py"
    spec = importlib.util.spec_from_file_location("our_host", path)
    assert spec is not None and spec.loader is not None
    host = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(host)
    host.prepare_host()


def build(settings: dict) -> Phases:
    num_envs, num_steps, num_actions = settings["num_envs"], settings["num_steps"], settings["num_actions"]
    device, hidden_dims = settings["device"], settings["hidden_dims"]
    if device == "cpu":
        prepare_host()
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
    known_values = KnownValues(rollout.last_values)

    @torch.inference_mode()
    def collect() -> None:
        for row, reward, done in zip(rows, rollout.rewards, rollout.dones):
            ppo.act(row)
            ppo.process_env_step(row, reward, done, {})
        ppo.compute_returns(rows[0])

    @torch.inference_mode()
    def gae() -> None:
        ppo.critic = known_values
        ppo.compute_returns(rows[0])
        ppo.critic = critic

    return Phases(device, collect, gae, ppo.update, countable=settings["policy"] == "mlp")


serve(build)
