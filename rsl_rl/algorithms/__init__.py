"""Learning algorithms."""

from rsl_rl.algorithms.algorithm import Algorithm
from rsl_rl.algorithms.distillation import Distillation
from rsl_rl.algorithms.extension import Extension
from rsl_rl.algorithms.grpo import GRPO
from rsl_rl.algorithms.ppo import PPO

__all__ = ["GRPO", "PPO", "Algorithm", "Distillation", "Extension"]
