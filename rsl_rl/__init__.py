"""PPO for legged robots: train a policy on thousands of simulated robots in minutes."""

__version__ = "6.0.0.dev0"
