"""ANYmal C on rough ground, following velocity commands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from rsl_rl.config.learn import RunnerConfig
from rsl_rl.config.task import LeggedRobotConfig

from .anymal_c_flat import anymal_task
from .go2_rough import Go2Rough, on_rough_ground


def anymal_rough_task() -> LeggedRobotConfig:
    """Return anymal_c_flat on the ground of go2_rough, with tiles and a height scan for its size."""
    task = on_rough_ground(anymal_task(), trunk_height=0.5)
    return replace(task, terrain=replace(task.terrain, tile_size=8.0, platform_size=2.0))


@dataclass(frozen=True)
class AnymalCRough(Go2Rough):
    """ANYmal C on rough ground, following velocity commands."""

    task: str = "anymal_c_rough"
    env: LeggedRobotConfig = field(default_factory=anymal_rough_task)
    runner: RunnerConfig = replace(Go2Rough.runner, experiment_name="anymal_c_rough")
