"""policy.json, and the same entries in the metadata of an ONNX file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, List, Mapping, Optional

from rsl_rl.contracts.contract import Contract, contract_json, contract_of, read_contract, write_contract
from rsl_rl.contracts.draft import FIELDS, Draft, draft_of
from rsl_rl.contracts.onnx_file import read_metadata, with_metadata
from rsl_rl.utils.files import atomic_write

KIND = "policy.json"


def recognises(path: Path) -> bool:
    """Return whether a file is of this format."""
    return path.suffix == ".json" or (path.suffix == ".onnx" and "observations" in read_metadata(path))


def read(path: Path, given: Mapping[str, Any]) -> Draft:
    """Read policy.json, or the metadata of an ONNX file; other entries there are of other programs."""
    if path.suffix == ".json":
        return draft_of(read_contract(path), KIND, path.name)
    values = {name: text for name, text in read_metadata(path).items() if name in FIELDS}
    try:
        contract = contract_of({name: json.loads(text) for name, text in values.items()})
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the metadata of {path}: {' '.join(str(error).split())}") from error
    return draft_of(contract, KIND, f"metadata of {path.name}")


def write(contract: Contract, path: Path, network: Optional[Path] = None) -> List[str]:
    """Write policy.json, or a copy of an ONNX network with these entries; nothing is lost."""
    if path.suffix != ".onnx":
        write_contract(contract, path)
    elif network is None or network.suffix != ".onnx":
        raise ValueError("the entries are written into an ONNX file; give --network policy.onnx")
    else:
        entries = {name: json.dumps(value) for name, value in contract_json(contract).items()}
        atomic_write(path, with_metadata(network, entries))
    return []
