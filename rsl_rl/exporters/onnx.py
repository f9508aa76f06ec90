"""Export policies to ONNX."""

from __future__ import annotations

import hashlib
import json
import logging
import warnings
from pathlib import Path
from typing import Any, Mapping, Optional, Sequence

import onnx
import torch
from onnxscript import ir  # torch.onnx needs the package too
from torch import Tensor, nn

from rsl_rl.exporters.policy_module import example_inputs, output_names, policy_module
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
    return OnnxGraph(policy).write(policy, path, metadata)


class OnnxGraph:
    """The graph of a policy, for policies whose networks have the same shape: tracing takes a second of processor time,
    and writing with other weights a few hundredths of one."""

    def __init__(self, policy: ActorCritic):
        module = policy_module(policy)
        self._program = _trace(module, example_inputs(module), output_names(module))
        self._traced = self._program.model_proto

    def write(self, policy: ActorCritic, path: Path, metadata: Optional[Mapping[str, Any]] = None) -> Path:
        """Write a policy with such networks; the bytes are those of :func:`export_onnx`."""
        weights = policy_module(policy).state_dict()
        model = onnx.ModelProto()
        model.CopyFrom(self._traced)
        for initializer in model.graph.initializer:
            if initializer.name in weights:
                initializer.raw_data = weights[initializer.name].numpy().tobytes()
        program = self._program
        program.model = ir.from_proto(model)
        return _write(program, path, metadata)


def export_module(
    module: nn.Module,
    inputs: Mapping[str, Tensor],
    outputs: Sequence[str],
    path: Path,
    metadata: Optional[Mapping[str, Any]] = None,
) -> Path:
    """Write any module as one ONNX file, see :func:`export_onnx`; ``inputs`` are examples by name, in order."""
    return _write(_trace(module.cpu().eval(), inputs, outputs), path, metadata)


def _write(program: Any, path: Path, metadata: Optional[Mapping[str, Any]]) -> Path:
    """Fold the constants of a traced program, and write it with metadata and checksums."""
    program.optimize()
    for node in program.model.graph:
        node.metadata_props.clear()  # names of source files on this machine
    network_sha256 = hashlib.sha256(program.model_proto.SerializeToString()).hexdigest()
    for name, value in {**(metadata or {}), "network_sha256": network_sha256}.items():
        program.model.metadata_props[name] = json.dumps(value)
    content = program.model_proto.SerializeToString()
    make_folder(path.parent)
    atomic_write(path, content + _checksum_entry(content))
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


def _checksum_entry(content: bytes) -> bytes:
    """Return the metadata property with the SHA-256 of a model, in the protobuf format.

    ``metadata_props`` is field 14 of a model; key and value are its fields 1 and 2.
    """
    entry = b"\x0a\x06sha256\x12\x42" + json.dumps(hashlib.sha256(content).hexdigest()).encode()
    return b"\x72" + bytes([len(entry)]) + entry
