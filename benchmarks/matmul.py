"""A worker: the speed of float32 matrix products on this machine, with all threads."""

import math
import time
from typing import Callable

import torch

from benchmarks.serving import Figures, serve, wait_for
from rsl_rl.utils.host import prepare_host
from rsl_rl.utils.seeding import require_device

REPETITIONS = 5


def build(settings: dict) -> Callable[[], Figures]:
    device = settings["device"]
    require_device("device", device)
    prepare_host()
    sizes = (4096, 8192) if torch.device(device).type == "cuda" else (1024, 2048)

    def measure() -> Figures:
        return {"gflops": max(speed(size, device) for size in sizes)}

    return measure


def speed(size: int, device: str) -> float:
    """Return the largest speed of products of two square matrices [GFLOP/s]."""
    a, b = (torch.rand(size, size, device=device) for _ in range(2))
    product = torch.empty_like(a)
    best = math.inf
    for _ in range(1 + REPETITIONS):  # the first warms up
        began = time.perf_counter()
        torch.mm(a, b, out=product)
        wait_for(device)
        best = min(best, time.perf_counter() - began)
    return 2 * size**3 / best / 1e9


serve(build)
