"""Export trained policies, one format per file; ``onnx`` needs the extra ``export``."""

from rsl_rl.exporters.policy_module import describe_module, export_torchscript, policy_module

__all__ = ["describe_module", "export_torchscript", "policy_module"]
