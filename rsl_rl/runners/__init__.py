"""The training loop, checkpoints, inference with trained policies."""

from rsl_rl.runners.distillation_runner import DistillationRunner
from rsl_rl.runners.on_policy_runner import OnPolicyRunner
from rsl_rl.runners.rollback import TrainingError

__all__ = ["DistillationRunner", "OnPolicyRunner", "TrainingError"]
