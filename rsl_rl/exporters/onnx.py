"""Export policies to ONNX."""

from __future__ import annotations

import hashlib
import json
import logging
import warnings
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

import onnxscript  # noqa: F401  (torch.onnx needs it)
import torch
from torch import Tensor, nn

from rsl_rl.exporters.policy_module import example_inputs, output_names, policy_module
from rsl_rl.exporters.quick_onnx import metadata_entry
from rsl_rl.modules.policy import ActorCritic
from rsl_rl.utils.files import atomic_write, make_folder

if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 6):
    raise ImportError(f"ONNX export needs torch 2.6 or later, and this is {torch.__version__}")

OPSET = 18
"""Version of the operator set; onnxruntime supports it since 1.14."""


def export_onnx(policy: ActorCritic, path: Path, metadata: Optional[Mapping[str, Any]] = None) -> Path:
    """Write a policy as one ONNX file; inputs and outputs are those of its policy module.

    Each entry of ``metadata`` becomes a metadata property of the model, as JSON. Behind them are network_sha256, the
    checksum of the model without properties, and sha256, that of the file before it.
    """
    module = policy_module(policy)
    return export_module(module, example_inputs(module), output_names(module), path, metadata)


def export_module(
    module: nn.Module,
    inputs: Mapping[str, Tensor],
    outputs: Sequence[str],
    path: Path,
    metadata: Optional[Mapping[str, Any]] = None,
) -> Path:
    """Write any module as one ONNX file, see :func:`export_onnx`; ``inputs`` are examples by name, in order."""
    program = _trace(module.cpu().eval(), inputs, outputs)
    program.optimize()
    for node in program.model.graph:
        node.metadata_props.clear()  # names of source files on this machine
    network_sha256 = hashlib.sha256(program.model_proto.SerializeToString()).hexdigest()
    for name, value in {**(metadata or {}), "network_sha256": network_sha256}.items():
        program.model.metadata_props[name] = json.dumps(value)
    content = program.model_proto.SerializeToString()
    make_folder(path.parent)
    checksum = hashlib.sha256(content).hexdigest()
    atomic_write(path, content + metadata_entry("sha256", json.dumps(checksum)))
    return path


def _trace(module: nn.Module, inputs: Mapping[str, Tensor], outputs: Sequence[str]) -> Any:
    """Return the ONNX program of a module, with the names of its parameters, before constants are folded."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    try:
        logger.setLevel(logging.ERROR)  # it warns about every missing optional package
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                module,
                tuple(inputs.values()),
                input_names=list(inputs),
                output_names=list(outputs),
                opset_version=OPSET,
                dynamo=True,
                optimize=False,
                verbose=False,
            )
    finally:
        logger.setLevel(level)
    assert program is not None
    return program
