"""What the workers of scripts/benchmark.py share: one process an implementation, since both import as ``rsl_rl``.

A worker gets its settings as JSON, says "ready", and answers each line on its standard input with the figures of one
iteration, as JSON: the seconds of each phase, and its own peak memory so far [MB].
"""

import json
import resource
import sys
import time
from typing import Callable, Dict, List, NamedTuple

import torch


class Rollout(NamedTuple):
    """What a no-op environment hands over, drawn before anything is timed."""

    obs: List[torch.Tensor]  # T times [N, D]
    rewards: List[torch.Tensor]  # T times [N]
    dones: List[torch.Tensor]  # T times [N] bool

    @classmethod
    def draw(cls, settings: dict) -> "Rollout":
        generator = torch.Generator().manual_seed(settings["seed"])
        shape, device = (settings["num_steps"], settings["num_envs"]), settings["device"]
        obs = torch.randn(*shape, settings["num_obs"], generator=generator).to(device)
        rewards = torch.randn(shape, generator=generator).to(device)
        dones = (torch.rand(shape, generator=generator) < settings["done_rate"]).to(device)
        return cls(list(obs), list(rewards), list(dones))


def serve(build: Callable[[dict], Dict[str, Callable[[], object]]]) -> None:
    """Build the phases of an iteration from the settings, and time them whenever asked."""
    settings = json.loads(sys.argv[1])
    torch.manual_seed(settings["seed"])
    cuda = settings["device"].startswith("cuda")
    phases = build(settings)
    print("ready", flush=True)
    for _ in sys.stdin:
        figures = {}
        for name, phase in phases.items():
            began = time.perf_counter()
            phase()
            if cuda:
                torch.cuda.synchronize()
            figures[name] = time.perf_counter() - began
        memory = (
            torch.cuda.max_memory_allocated() if cuda else 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        )
        figures["peak_mb"] = memory / 1e6
        print(json.dumps(figures), flush=True)
