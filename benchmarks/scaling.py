"""A model of the time that communication takes on 1 to 1024 GPUs, from published numbers.

Time of an all-reduce: the cost model by which NCCL 2.20.3 chooses its algorithm (function ncclTopoTuneModel of
src/graph/tuning.cc, https://github.com/NVIDIA/nccl/blob/v2.20.3-1/src/graph/tuning.cc), for rings and trees and its
protocols LL, LL128 and Simple. A ring of n GPUs has 2 (n - 1) steps and sends 2 (n - 1) / n of the message over each
link; a tree has 2 (g - 1 + log2(m)) steps for m nodes of g GPUs and sends the message twice.

Time of collecting and learning: published rates of Isaac-Velocity-Rough-G1-v0 with rsl_rl, which has the standard
shapes (4096 environments per GPU, 24 steps, 5 epochs of 4 mini-batches, networks of 512-256-128), in Isaac Lab's
documentation:
https://isaac-sim.github.io/IsaacLab/main/source/overview/reinforcement-learning/performance_benchmarks.html

Left out: waiting for the slowest GPU, communication that overlaps with computing, and NVLink SHARP.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple

from rich.console import Console
from rich.table import Table

from benchmarks.flags import require_counts, require_picture

PROTOCOLS = ("LL", "LL128", "Simple")

BASE_LATENCY = {"tree": (6.8, 14.0, 0.0), "ring": (6.6, 14.0, 8.4)}
"""Latency of a collective by algorithm and protocol [us]."""

STEP_LATENCY = {
    "nvlink": {"tree": (0.6, 1.25, 28.0), "ring": (0.6, 1.9, 3.4)},
    "pci": {"tree": (1.0, 1.9, 28.0), "ring": (1.0, 2.5, 5.7)},
    "network": {"tree": (5.0, 8.5, 28.0), "ring": (2.7, 4.0, 14.0)},
}
"""Latency of a step by link, algorithm and protocol [us]."""

NETWORK_OVERHEAD = (1.0, 1.0, 3.0)
"""Least time of a step of a ring over several nodes, by protocol [us]."""

RING_SHARE, TREE_SHARE = (0.25, 0.92, 1.0), (0.92 / 3.8, 0.92 * 0.78, 0.92)
"""Share of the links' bandwidth that a protocol uses; for a tree NCCL takes 0.92 of the links at first."""

TREE_CORRECTION = 0.5
"""NCCL's smallest correction of a tree's bandwidth, that of messages of about a megabyte; used for all sizes."""


class Cluster(NamedTuple):
    """Links of a cluster."""

    gpus_per_node: int
    link: str  # between the GPUs of a node: nvlink or pci
    link_bandwidth: float  # of a ring within a node [GB/s]
    network_bandwidth: float  # of a node [GB/s]
    network_latency: float  # in addition to that of InfiniBand [us]
    has_ll128: bool  # NCCL uses this protocol with NVLink only


CLUSTERS: Mapping[str, Cluster] = {
    # NVLink 4: 450 GB/s in each direction, of which rings reach about 0.8; 8 adapters of 400 Gbit/s reach 46 GB/s each
    # (https://github.com/NVIDIA/nccl-tests/issues/290).
    "H100, NVLink, InfiniBand": Cluster(8, "nvlink", 360.0, 8 * 46.0, 0.0, True),
    # PCIe 4.0 x16, and one adapter of 100 Gbit/s with TCP for four GPUs; its latency is an assumption.
    "L40, PCIe, 100 Gbit/s Ethernet": Cluster(4, "pci", 20.0, 11.0, 20.0, False),
}

PUBLISHED = {"RTX 4090": (88_000.0, 82_000.0), "L40": (64_000.0, 62_000.0)}
"""Environment steps per second of one GPU: with physics and policy, and with learning too."""

GPU_OF = {"H100, NVLink, InfiniBand": "RTX 4090", "L40, PCIe, 100 Gbit/s Ethernet": "L40"}
"""GPU with published rates that stands for that of a cluster; there are none of an H100."""


@dataclass(frozen=True)
class Scaling:
    """Compute how much of an iteration is communication on 1 to 1024 GPUs, from published numbers."""

    num_envs: int = 4096
    """Environments of each GPU."""
    num_steps: int = 24
    """Steps of a rollout."""
    epochs: int = 5
    """Epochs of an update."""
    mini_batches: int = 4
    """Mini-batches of an epoch."""
    hidden_dims: Tuple[int, ...] = (512, 256, 128)
    """Hidden layers of actor and critic."""
    num_obs: int = 48
    """Size of the observation."""
    num_actions: int = 12
    """Number of actions."""
    small_per_gradient_step: int = 2
    """Small all-reduces of a gradient step: KL divergence, and whether the gradient is finite."""
    small_per_env_step: int = 1
    """Small all-reduces of a step of the environments: moments of the observations, requests to stop."""
    physics_factor: float = 1.0
    """Speed of the physics relative to the published one."""
    share: float = 0.05
    """Share of communication for which the number of environments is computed."""
    plot: Optional[Path] = None
    """Draw the shares into this PNG file."""

    def __post_init__(self):
        require_counts(self, "num_envs", "num_steps", "epochs", "mini_batches", "hidden_dims", "num_obs", "num_actions")
        if not 0 < self.share < 1:
            raise ValueError(f"--share {self.share} must lie between 0 and 1")
        if self.physics_factor <= 0:
            raise ValueError(f"--physics_factor {self.physics_factor}: give a positive number")
        require_picture(self, "plot")


class Point(NamedTuple):
    """Times of an iteration on a number of GPUs [s], and the environments of each GPU for a share of communication."""

    gpus: int
    communication: float
    collect: float
    learn: float
    all_reduce: float  # one gradient
    envs_of_iteration: int
    envs_of_update: int

    @property
    def share_of_iteration(self) -> float:
        return self.communication / (self.communication + self.collect + self.learn)

    @property
    def share_of_update(self) -> float:
        return self.communication / (self.communication + self.learn)


def all_reduce_seconds(num_bytes: float, gpus: int, cluster: Cluster) -> float:
    """Return the time of an all-reduce with the fastest algorithm and protocol [s]."""
    nodes = math.ceil(gpus / cluster.gpus_per_node)
    if gpus == 1:
        return 0.0
    times = []
    for i, protocol in enumerate(PROTOCOLS):
        if protocol != "LL128" or cluster.has_ll128:
            times += [_ring(num_bytes, gpus, nodes, cluster, i), _tree(num_bytes, gpus, nodes, cluster, i)]
    return 1e-6 * min(times)


def _bandwidth(nodes: int, cluster: Cluster) -> float:
    """Return the bandwidth of the slowest link of a ring [bytes/us]."""
    return 1e3 * (cluster.link_bandwidth if nodes == 1 else min(cluster.link_bandwidth, cluster.network_bandwidth))


def _ring(num_bytes: float, gpus: int, nodes: int, cluster: Cluster, protocol: int) -> float:
    steps, network_steps = 2 * (gpus - 1), 2 * nodes if nodes > 1 else 0
    inside = STEP_LATENCY[cluster.link]["ring"][protocol]
    if nodes > 1:
        inside = max(inside, NETWORK_OVERHEAD[protocol])
    outside = STEP_LATENCY["network"]["ring"][protocol] + cluster.network_latency
    latency = BASE_LATENCY["ring"][protocol] + max(0, steps - network_steps) * inside + network_steps * outside
    return latency + num_bytes * steps / gpus / (_bandwidth(nodes, cluster) * RING_SHARE[protocol])


def _tree(num_bytes: float, gpus: int, nodes: int, cluster: Cluster, protocol: int) -> float:
    inside = STEP_LATENCY[cluster.link]["tree"][protocol]
    outside = STEP_LATENCY["network"]["tree"][protocol] + cluster.network_latency
    depth = (gpus / nodes - 1) * inside + math.log2(nodes) * outside
    bandwidth = _bandwidth(nodes, cluster) * TREE_SHARE[protocol] * TREE_CORRECTION
    return BASE_LATENCY["tree"][protocol] + 2 * depth + 2 * num_bytes / bandwidth


def gradient_bytes(cfg: Scaling) -> int:
    """Return the size of the gradient of actor, critic and standard deviations in float32."""
    count = cfg.num_actions
    for outputs in (cfg.num_actions, 1):
        sizes = (cfg.num_obs, *cfg.hidden_dims, outputs)
        count += sum((inputs + 1) * units for inputs, units in zip(sizes, sizes[1:]))
    return 4 * count


def point(cfg: Scaling, name: str, gpus: int) -> Point:
    """Return the times of an iteration on a number of GPUs of a cluster."""
    cluster = CLUSTERS[name]
    with_policy, with_learning = PUBLISHED[GPU_OF[name]]
    samples = cfg.num_envs * cfg.num_steps
    collect = samples / with_policy / cfg.physics_factor
    learn = samples * (1 / with_learning - 1 / with_policy) * cfg.epochs / 5  # published for 5 epochs
    gradient = all_reduce_seconds(gradient_bytes(cfg), gpus, cluster)
    small = all_reduce_seconds(8 * cfg.num_obs, gpus, cluster)
    gradient_steps = cfg.epochs * cfg.mini_batches
    num_small = gradient_steps * cfg.small_per_gradient_step + cfg.num_steps * cfg.small_per_env_step
    communication = gradient_steps * gradient + num_small * small
    needed = communication * (1 - cfg.share) / cfg.share  # seconds of computing for this share
    envs = [math.ceil(cfg.num_envs * needed / seconds) for seconds in (collect + learn, learn)]
    return Point(gpus, communication, collect, learn, gradient, *envs)


def measure(cfg: Scaling) -> Dict[str, Any]:
    """Print a table for each cluster, draw the shares if asked for, and return the numbers."""
    numbers = [2**i for i in range(11)]
    results = {name: [point(cfg, name, gpus) for gpus in numbers] for name in CLUSTERS}
    print(f"gradient: {gradient_bytes(cfg) / 1024:.0f} KiB")
    for name, points in results.items():
        Console().print(_table(cfg, name, points))
    if cfg.plot is not None:
        from benchmarks.plot import plot_shares  # imports matplotlib

        plot_shares(results, cfg.plot)
    described = {name: [_describe(one) for one in points] for name, points in results.items()}
    settings = {**dataclasses.asdict(cfg), "plot": None if cfg.plot is None else str(cfg.plot)}
    return {"benchmark": "scaling", "settings": settings, "results": described}


def _describe(one: Point) -> Dict[str, Any]:
    shares = {"share_of_iteration": one.share_of_iteration, "share_of_update": one.share_of_update}
    return {**one._asdict(), **shares}


def _table(cfg: Scaling, name: str, points: Sequence[Point]) -> Table:
    first = points[0]
    computing = f"{1e3 * first.collect:.0f} ms of collecting and {1e3 * first.learn:.0f} ms of learning"
    table = Table(title=f"{name}: {cfg.num_envs} environments per GPU, {computing} per iteration")
    percent = f"{100 * cfg.share:g} %"
    columns = ("GPUs", "all-reduce [us]", "communication [ms]", "of the iteration", "of the update")
    for column in (*columns, f"environments for {percent}", f"for {percent} of the update"):
        table.add_column(column, justify="right")
    for one in points:
        shares = [f"{100 * share:.2f} %" for share in (one.share_of_iteration, one.share_of_update)]
        times = f"{1e6 * one.all_reduce:.0f}", f"{1e3 * one.communication:.2f}"
        table.add_row(str(one.gpus), *times, *shares, str(one.envs_of_iteration), str(one.envs_of_update))
    return table
