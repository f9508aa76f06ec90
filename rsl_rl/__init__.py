"""PPO for legged robots: thousands of simulated worlds, one policy, minutes of training."""

__version__ = "6.0.0.dev0"
