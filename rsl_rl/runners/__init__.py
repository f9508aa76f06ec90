"""The training loop, checkpoints, trained policies in use."""

from rsl_rl.runners.on_policy_runner import OnPolicyRunner
from rsl_rl.runners.recovery import TrainingError

__all__ = ["OnPolicyRunner", "TrainingError"]
