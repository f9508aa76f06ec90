"""Seeds and devices of a process."""

from __future__ import annotations

import os
import random
from typing import Any, Dict, List, Optional

import numpy as np
import torch


def seed_everything(seed: int) -> None:
    """Seed the generators of Python, numpy and torch on every device."""
    random.seed(seed)
    np.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def make_deterministic() -> List[str]:
    """Make torch deterministic on this machine, and return sentences on what that changes.

    Call it before anything runs on a GPU. An operation without a deterministic implementation is then a RuntimeError.
    """
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it when it starts
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]  # it is never read
    notes = [
        f"deterministic: sums are split over {torch.get_num_threads()} CPU threads; another number rounds otherwise"
    ]
    if torch.cuda.is_available():
        torch.backends.cudnn.benchmark = False
        notes.append(
            "deterministic: on the GPU cuBLAS products, cuDNN's algorithms, cumsum, scatter, index_add and index_put "
            "are replaced by forms with a fixed order of additions"
        )
    else:
        notes.append("deterministic: no operation on the CPU had to be replaced")
    return notes


def require_device(name: str, device: str) -> None:
    """Raise a ValueError where torch does not know the device or the machine does not have it."""
    try:
        parsed = torch.device(device)
    except RuntimeError:
        raise ValueError(f"{name}='{device}' is not a device; allowed: cpu, cuda, cuda:<index>") from None
    if parsed.type == "cuda" and (parsed.index or 0) >= torch.cuda.device_count():
        raise ValueError(
            f"{name}={device}: torch sees {torch.cuda.device_count()} CUDA devices here; take cpu or install CUDA"
        )
    if parsed.type not in ("cpu", "cuda"):
        raise ValueError(f"{name}={device} is not supported; allowed: cpu, cuda, cuda:<index>")


def random_states() -> Dict[str, Any]:
    """Return the states of the process's generators: Python, numpy, torch on the CPU and on every CUDA device."""
    version, internal, gauss = random.getstate()
    name, keys, position, has_gauss, cached = np.random.get_state()  # the legacy generator that libraries draw from
    return {
        "python": [version, list(internal), gauss],
        "numpy": [name, torch.from_numpy(np.asarray(keys).astype(np.int64)), position, has_gauss, cached],
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state_all() if torch.cuda.is_available() else [],
    }


def restore_random_states(states: Optional[Dict[str, Any]]) -> None:
    """Restore the result of :func:`random_states`; None, as in checkpoints of other trainers, changes nothing."""
    if not states:
        return
    version, internal, gauss = states["python"]
    random.setstate((version, tuple(internal), gauss))
    name, keys, position, has_gauss, cached = states["numpy"]
    np.random.set_state((name, keys.cpu().numpy().astype(np.uint32), position, has_gauss, cached))
    torch.set_rng_state(states["torch"].cpu())
    if torch.cuda.is_available() and len(states["cuda"]) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all([state.cpu() for state in states["cuda"]])
