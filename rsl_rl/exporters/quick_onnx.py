"""Write a policy as ONNX in hundredths of a second, for a page that shows a training."""

from __future__ import annotations

import io
import json
import warnings
from typing import Any, Mapping

import torch

from rsl_rl.exporters.policy_module import example_inputs, output_names, policy_module
from rsl_rl.modules.policy import ActorCritic

OPSET = 18


def quick_onnx(policy: ActorCritic, metadata: Mapping[str, Any]) -> bytes:
    """Return a policy as the content of an ONNX file, with the metadata as JSON.

    PyTorch's older exporter, which traces by TorchScript, takes 0.1 s of processor time where that of
    :func:`~rsl_rl.exporters.onnx.export_onnx` takes 3 s, imports included. Its graph computes the same; it has other
    bytes and no checksum, so that it is not for keeping.
    """
    module = policy_module(policy)
    inputs, content = example_inputs(module), io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the older exporter, and of torch.nn.GRU's own checks
        torch.onnx.export(
            module,
            tuple(inputs.values()),
            content,  # type: ignore[arg-type]  # the older exporter writes to files too
            input_names=list(inputs),
            output_names=list(output_names(module)),
            opset_version=OPSET,
            dynamo=False,
        )
    entries = (metadata_entry(name, json.dumps(value)) for name, value in metadata.items())
    return content.getvalue() + b"".join(entries)


def metadata_entry(name: str, text: str) -> bytes:
    """Return a metadata property of an ONNX model, to be appended to the bytes of the model.

    In the protobuf format, ``metadata_props`` is field 14 of a model; key and value are its fields 1 and 2.
    """
    entry = b"".join(tag + _sized(part.encode()) for tag, part in ((b"\x0a", name), (b"\x12", text)))
    return b"\x72" + _sized(entry)


def _sized(content: bytes) -> bytes:
    """Return bytes behind their number, which is written in groups of seven bits from the lowest."""
    count, groups = len(content), []
    while count > 127:
        groups.append(128 | count & 127)
        count >>= 7
    return bytes([*groups, count]) + content
