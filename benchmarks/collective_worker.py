"""One process of a collective measurement; collectives.py starts as many as it needs.

The argument is JSON with rank, size, address (a file that all share), bytes and repeats. Rank 0 prints seconds by
operation and size: the least and the median over the repeats, each of the slowest process.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Callable, Dict, List

import torch
import torch.distributed as dist


def main(settings: Dict) -> None:
    rank, size = settings["rank"], settings["size"]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{settings['address']}", rank=rank, world_size=size)
    results: Dict[str, List[Dict[str, float]]] = {"all_reduce": [], "broadcast": [], "all_gather": []}
    for num_bytes in settings["bytes"]:
        data = torch.ones(num_bytes // 4)
        parts = [torch.empty_like(data) for _ in range(size)]
        operations: Dict[str, Callable[[], object]] = {
            "all_reduce": lambda data=data: dist.all_reduce(data),
            "broadcast": lambda data=data: dist.broadcast(data, src=0),
            "all_gather": lambda parts=parts, data=data: dist.all_gather(parts, data),
        }
        for name, operation in operations.items():
            operation()  # connects the processes
            times = []
            for _ in range(settings["repeats"]):
                dist.barrier()
                began = time.perf_counter()
                operation()
                times.append(time.perf_counter() - began)
                data.fill_(1.0)
            slowest = torch.tensor(times, dtype=torch.float64)
            dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
            results[name].append({"least": slowest.min().item(), "median": statistics.median(slowest.tolist())})
    if rank == 0:
        print(json.dumps(results))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
