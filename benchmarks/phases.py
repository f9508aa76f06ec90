"""Rollout and timing of phases, for the workers that measure learners."""

import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional

import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.serving import Figures, wait_for

Phase = Callable[[], object]


class Rollout(NamedTuple):
    """Data of an environment that does nothing, drawn before the measurements."""

    obs: List[torch.Tensor]  # T times [N, D]
    rewards: List[torch.Tensor]  # T times [N]
    dones: List[torch.Tensor]  # T times [N] bool
    last_values: torch.Tensor  # [N, 1] values after the last step, for timing without a critic

    @classmethod
    def draw(cls, settings: dict) -> "Rollout":
        generator = torch.Generator().manual_seed(settings["seed"])
        shape, device = (settings["num_steps"], settings["num_envs"]), settings["device"]
        obs = torch.randn(*shape, settings["num_obs"], generator=generator).to(device)
        rewards = torch.randn(shape, generator=generator).to(device)
        dones = (torch.rand(shape, generator=generator) < settings["done_rate"]).to(device)
        last_values = torch.randn(settings["num_envs"], 1, generator=generator).to(device)
        return cls(list(obs), list(rewards), list(dones), last_values)


class Phases:
    """The phases of an iteration of a learner, and further functions to time.

    ``collect`` steps through the rollout and computes its returns, ``gae`` computes returns and advantages only,
    ``update`` learns; further functions run last. An update with matrix products in fused kernels is not ``countable``.
    """

    def __init__(self, device: str, collect: Phase, gae: Phase, update: Phase, countable: bool = True, **beside: Phase):
        self._device = device
        self._phases: Dict[str, Phase] = {"collect": collect, "gae": gae, "update": update, **beside}
        self._to_be_counted = countable
        self._update_flops: Optional[int] = None

    def __call__(self) -> Figures:
        """Run two iterations; return the seconds of each phase of the second, and the operations of an update,
        "update_flops", or None.

        The first one starts threads and fills caches, and counts operations.
        """
        self._iterate()
        return self._iterate()

    def _iterate(self) -> Figures:
        figures: Figures = {}
        for name, phase in self._phases.items():
            began = time.perf_counter()
            if name == "update" and self._to_be_counted:
                self._update_flops, self._to_be_counted = count_flops(phase), False
            else:
                phase()
            wait_for(self._device)
            figures[name] = time.perf_counter() - began
        figures["update_flops"] = self._update_flops
        return figures


def count_flops(phase: Phase) -> int:
    """Run a phase and return the additions and multiplications of its matrix products."""
    unknown = {  # to torch's table
        torch.ops.aten.addmm_: _addmm_flops,
        torch.ops.aten.baddbmm_: _baddbmm_flops,
        **({torch.ops.mkldnn._linear_pointwise: _linear_flops} if torch.backends.mkldnn.is_available() else {}),
    }
    with FlopCounterMode(display=False, custom_mapping=unknown) as counter:
        phase()
    return counter.get_total_flops()


def _addmm_flops(_: Any, a: torch.Size, b: torch.Size, **__: Any) -> int:
    return 2 * a[0] * a[1] * b[1]


def _baddbmm_flops(_: Any, a: torch.Size, b: torch.Size, **__: Any) -> int:
    return 2 * a[0] * a[1] * a[2] * b[2]


def _linear_flops(a: torch.Size, b: torch.Size, *_: Any, **__: Any) -> int:
    return 2 * a.numel() * b[0]
