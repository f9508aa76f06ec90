"""Environments without physics, for tests and examples."""

from rsl_rl.tasks.toy.simple import CameraEnv, ChoiceEnv, FarGoalEnv, PointEnv, RecallEnv, ToyEnv
from rsl_rl.tasks.toy.tokens import ReverseEnv, TargetSumEnv, TokensEnv

__all__ = [
    "CameraEnv",
    "ChoiceEnv",
    "FarGoalEnv",
    "PointEnv",
    "RecallEnv",
    "ReverseEnv",
    "TargetSumEnv",
    "TokensEnv",
    "ToyEnv",
]
