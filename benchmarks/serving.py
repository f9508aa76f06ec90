"""The worker protocol of scripts/benchmark.py: measure in a separate process, on request.

A worker gets its settings as JSON, says "ready", and answers each line on its standard input with figures, as JSON: its
own, and its peak memory so far [MB].
"""

import json
import os
import resource
import sys
from typing import Callable, Dict, Optional

import torch

Figures = Dict[str, Optional[float]]


def serve(build: Callable[[dict], Callable[[], Figures]]) -> None:
    """Construct the measurement from the settings, and run it on each request."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # output of libraries must not mix with results
    settings = json.loads(sys.argv[1])
    torch.manual_seed(settings["seed"])
    measure = build(settings)
    print("ready", file=answers, flush=True)
    for _ in sys.stdin:
        figures = measure()
        figures["peak_mb"] = _peak_memory(settings["device"]) / 1e6
        print(json.dumps(figures), file=answers, flush=True)


def wait_for(device: str) -> None:
    """Wait until a device has finished all operations."""
    if torch.device(device).type == "cuda":
        torch.cuda.synchronize(device)


def _peak_memory(device: str) -> float:
    if torch.device(device).type == "cuda":
        of_torch, warp = torch.cuda.max_memory_allocated(device), sys.modules.get("warp")
        return of_torch + (warp.get_mempool_used_mem_high(device) if warp is not None else 0)
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
