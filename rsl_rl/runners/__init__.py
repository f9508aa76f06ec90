"""The training loop."""

from rsl_rl.runners.on_policy_runner import OnPolicyRunner

__all__ = ["OnPolicyRunner"]
