"""Learning algorithms."""

from rsl_rl.algorithms.ppo import PPO

__all__ = ["PPO"]
