"""PPO for legged robots: train a policy on thousands of simulated robots in minutes."""

from rsl_rl.utils.public_names import former_path

__version__ = "6.0.0.dev0"
__path__.append(former_path(__name__))
