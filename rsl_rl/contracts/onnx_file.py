"""Metadata of ONNX files, without loading the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Dict, Mapping

from rsl_rl.contracts.contract import MAX_SIZE


def _load(path: Path) -> Any:
    """Load a model; damage is a ValueError, and a missing package a ModuleNotFoundError that says what to install."""
    try:
        import onnx
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("onnx is not installed; run: pip install 'rsl-rl-lib[export]'") from error
    if path.stat().st_size > MAX_SIZE:
        raise ValueError(f"{path} has more than {MAX_SIZE // 1_000_000} MB")
    try:
        return onnx.load(str(path), load_external_data=False)
    except Exception as error:  # of protobuf's own kinds
        raise ValueError(f"{path} is not an ONNX model: {' '.join(str(error).split())[:200]}") from error


def read_metadata(path: Path) -> Dict[str, str]:
    """Return the metadata properties of an ONNX file."""
    return {entry.key: entry.value for entry in _load(path).metadata_props}


def with_metadata(path: Path, metadata: Mapping[str, str]) -> bytes:
    """Return an ONNX file with other metadata properties in place of its own."""
    model = _load(path)
    del model.metadata_props[:]
    for name, value in metadata.items():
        model.metadata_props.add(key=name, value=value)
    return model.SerializeToString()
