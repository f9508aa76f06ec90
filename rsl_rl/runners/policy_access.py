"""What a runner gives of its policy: to act with, and as files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Union

import torch

from rsl_rl.algorithms.algorithm import Algorithm
from rsl_rl.exporters import export_torchscript
from rsl_rl.runners.inference import InferencePolicy


class PolicyAccess:
    """The policy of an algorithm, in use and exported."""

    alg: Algorithm
    device: torch.device

    def train_mode(self) -> None:
        """Put the networks into training mode."""
        self.alg.train_mode()

    def eval_mode(self) -> None:
        """Put the networks into evaluation mode."""
        self.alg.eval_mode()

    def get_inference_policy(self, device: Union[str, torch.device, None] = None) -> InferencePolicy:
        """Return a copy of the policy as a function from observations to actions without noise; see InferencePolicy."""
        return InferencePolicy(self.alg.inference_policy, device if device is not None else self.device)

    def export_policy_to_jit(self, path: Union[str, Path], filename: str = "policy.pt") -> Path:
        """Write the policy, normaliser included, as TorchScript into the folder ``path``; return the file."""
        return export_torchscript(self.alg.inference_policy, Path(path) / filename)

    def export_policy_to_onnx(
        self,
        path: Union[str, Path],
        filename: str = "policy.onnx",
        metadata: Union[Mapping[str, Any], bool, None] = None,
        verbose: bool = False,
    ) -> Path:
        """Write the policy, normaliser included, as ONNX into the folder ``path``; return the file.

        Entries of ``metadata`` go into the file as JSON. ``verbose``, also in third place, changes nothing. Without
        torch 2.6 and the extra ``export`` it is an ImportError.
        """
        from rsl_rl.exporters.onnx import export_onnx  # imports an optional package

        entries = None if isinstance(metadata, bool) else metadata
        return export_onnx(self.alg.inference_policy, Path(path) / filename, entries)
