"""Trained policies as files that robots load, one format per file."""

from rsl_rl.exporters.policy_module import policy_module
from rsl_rl.exporters.torchscript import export_torchscript

__all__ = ["export_torchscript", "policy_module"]
