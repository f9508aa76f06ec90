"""Export trained policies, one format per file; ``onnx`` needs the extra ``export``."""

from rsl_rl.exporters.policy_module import describe_module, policy_module
from rsl_rl.exporters.torchscript import export_torchscript

__all__ = ["describe_module", "export_torchscript", "policy_module"]
