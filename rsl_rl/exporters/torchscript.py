"""Export policies to TorchScript."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch

from rsl_rl.exporters.policy_module import ImagePolicy, example_inputs, policy_module
from rsl_rl.modules.actor_critic import ActorCritic


def export_torchscript(policy: ActorCritic, path: Path) -> Path:
    """Write a policy as a TorchScript file that needs no Python; inputs and outputs are those of its policy module."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torch.jit.*", category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)  # of torch.nn.GRU's own checks
        module = policy_module(policy)
        inputs = tuple(example_inputs(module).values())
        if isinstance(module, ImagePolicy):
            torch.jit.save(torch.jit.trace(module, inputs), str(path))
        else:
            torch.jit.script(module).save(str(path))
    return path
