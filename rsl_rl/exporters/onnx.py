"""Export policies to ONNX."""

from __future__ import annotations

import hashlib
import json
import logging
import warnings
from pathlib import Path
from typing import Any, Mapping, Optional

import onnxscript  # noqa: F401  # needed by torch.onnx; imported here so that a missing package fails early
import torch

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
    module = policy_module(policy)
    inputs = example_inputs(module)
    make_folder(path.parent)
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
                output_names=list(output_names(module)),
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
    finally:
        logger.setLevel(level)
    assert program is not None
    for node in program.model.graph:
        node.metadata_props.clear()  # names of source files on this machine
    network_sha256 = hashlib.sha256(program.model_proto.SerializeToString()).hexdigest()
    for name, value in {**(metadata or {}), "network_sha256": network_sha256}.items():
        program.model.metadata_props[name] = json.dumps(value)
    content = program.model_proto.SerializeToString()
    atomic_write(path, content + _checksum_entry(content))
    return path


def _checksum_entry(content: bytes) -> bytes:
    """Return the metadata property with the SHA-256 of a model, in the protobuf format.

    ``metadata_props`` is field 14 of a model; key and value are its fields 1 and 2.
    """
    entry = b"\x0a\x06sha256\x12\x42" + json.dumps(hashlib.sha256(content).hexdigest()).encode()
    return b"\x72" + bytes([len(entry)]) + entry
