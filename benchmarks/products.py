"""Time the learner's matrix products by torch's own library and by oneDNN, to see whether the choice is right here.

    python -m benchmarks.products --rows 64 256 2048

Times are processor times of one thread, the least of several, so that other programs disturb them little. ``forward``
is a layer with its bias, ``input`` and ``weight`` are the gradients, for the layers of an MLP 512-256-128 and of an
LSTM of 256 units. On another CPU's instructions: ``MKL_ENABLE_INSTRUCTIONS=AVX2 ONEDNN_MAX_CPU_ISA=AVX2``.
"""

from __future__ import annotations

import argparse
import time
from typing import Callable, Dict, Tuple

import torch
from torch import Tensor
from torch.nn import functional as F

from rsl_rl.acceleration.products import library, onednn_linear
from rsl_rl.utils.host import prepare_host
from rsl_rl.utils.provenance import cpu_name, instruction_set

LAYERS = {"MLP": ((48, 512), (512, 256), (256, 128)), "LSTM": ((304, 1024), (1024, 256))}
"""Inputs and outputs of the layers of each network."""


def passes(rows: int, inputs: int, outputs: int) -> Dict[str, Tuple[Callable[[], Tensor], Callable[[], Tensor]]]:
    """Return each product of a layer, by torch's own library and by oneDNN."""
    x, grad = torch.randn(rows, inputs), torch.randn(rows, outputs)
    weight, bias = torch.randn(outputs, inputs), torch.randn(outputs)
    narrow = outputs <= inputs  # the gradient of the weight is computed with few rows
    a, b = (grad.t(), x) if narrow else (x.t(), grad)
    return {
        "forward": (lambda: F.linear(x, weight, bias), lambda: onednn_linear(x, weight, bias)),
        "input": (lambda: grad @ weight, lambda: onednn_linear(grad, weight.t())),
        "weight": (lambda: a @ b, lambda: onednn_linear(a, b.t())),
    }


def least_times(functions: Tuple[Callable[[], Tensor], ...], repeats: int) -> Tuple[float, ...]:
    """Return the least processor time of each function [s]; the functions take turns."""
    best = [float("inf")] * len(functions)
    for repeat in range(1 + repeats):  # the first warms up
        for i, function in enumerate(functions):
            began = time.process_time()
            function()
            best[i] = min(best[i], time.process_time() - began) if repeat else best[i]
    return tuple(best)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[64, 256, 2048])
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()
    prepare_host()
    torch.set_num_threads(1)
    print(f"{cpu_name()}; {instruction_set()}; products of trainings are by {library()}")
    print(f"{'':6} {'rows':>6}   {'torch [ms]':>10} {'oneDNN [ms]':>12} {'oneDNN / torch':>15}")
    for network, layers in LAYERS.items():
        for rows in arguments.rows:
            totals = {"forward": (0.0, 0.0), "input": (0.0, 0.0), "weight": (0.0, 0.0)}
            for inputs, outputs in layers:
                for name, functions in passes(rows, inputs, outputs).items():
                    own, onednn = least_times(functions, arguments.repeats)
                    totals[name] = (totals[name][0] + own, totals[name][1] + onednn)
            for name, (own, onednn) in totals.items():
                print(f"{network:6} {rows:6} {name:8} {own * 1e3:8.2f} {onednn * 1e3:12.2f} {onednn / own:15.2f}")


if __name__ == "__main__":
    main()
