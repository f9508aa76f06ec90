"""What the checkpoints of this folder are of; read by make.py and by the test."""

from rsl_rl.config.algorithm import PPOConfig
from rsl_rl.config.learn import LearnConfig, RunnerConfig
from rsl_rl.config.policy import (
    ActorCriticConfig,
    ActorCriticRecurrentConfig,
    SymmetricActorCriticConfig,
    SymmetricActorCriticRecurrentConfig,
)

NETS = {"actor_hidden_dims": (8,), "critic_hidden_dims": (8,), "init_noise_std": 0.6}
NORMALIZED = {"actor_obs_normalization": True, "critic_obs_normalization": True}

POLICIES = {
    "mlp": ActorCriticConfig(**NETS, **NORMALIZED),
    "gru": ActorCriticRecurrentConfig(rnn_type="gru", rnn_hidden_size=8, noise_std_type="log", **NETS, **NORMALIZED),
    "lstm": ActorCriticRecurrentConfig(rnn_type="lstm", rnn_hidden_size=5, **NETS, **NORMALIZED),
    "symmetric_mlp": SymmetricActorCriticConfig(**NETS),
    "symmetric_gru": SymmetricActorCriticRecurrentConfig(
        rnn_type="gru", rnn_hidden_size=4, noise_std_type="log", **NETS
    ),
    "symmetric_lstm": SymmetricActorCriticRecurrentConfig(rnn_type="lstm", rnn_hidden_size=4, **NETS),
}

ITERATIONS, MORE_ITERATIONS = 4, 2
ACTING_STEPS = 6


def config_of(name):
    """Return the LearnConfig of a case."""
    return LearnConfig(
        policy=POLICIES[name],
        algorithm=PPOConfig(num_learning_epochs=2, num_mini_batches=2, learning_rate=2e-3, schedule="fixed", gamma=0.9),
        runner=RunnerConfig(num_steps_per_env=8, save_interval=ITERATIONS, logger="none"),
    )
