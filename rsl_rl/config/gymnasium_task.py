"""Settings of environments of the package gymnasium."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Dict

from rsl_rl.config.base import MAX_ENVS, TaskConfig, require, require_choice, require_counts

ACTION_MAPS = ("clip", "tanh", "none")


@dataclass(frozen=True)
class GymnasiumConfig(TaskConfig):
    """Instances of an environment of Gymnasium's registry; needs the package gymnasium."""

    builds: ClassVar[str] = "rsl_rl.env.adapters.gymnasium_vector:make_vec_env"

    id: str = "Pendulum-v1"
    """Id of the environment, such as Pendulum-v1; "package:Name-v0" imports the package that registers it before."""
    num_envs: int = 16
    """Instances at once; with torchrun on all ranks together."""
    settings: Dict[str, Any] = field(default_factory=dict)
    """Arguments of the environment, as gymnasium.make takes them."""
    vectorization: str = "sync"
    """Instances one after the other in this process ('sync'), each in a process of its own ('async'), or the
    environment's own vector implementation ('vector_entry_point')."""
    actions: str = "clip"
    """How actions get into a bounded box: 'clip' or 'tanh' from [-1, 1], or 'none' to pass them on as they are."""

    def __post_init__(self):
        super().__post_init__()
        require_counts(self, 1, "num_envs", high=MAX_ENVS)
        require(self.id != "", "env.id is empty; give the id of an environment, such as Pendulum-v1")
        require_choice(self, ("sync", "async", "vector_entry_point"), "vectorization")
        require_choice(self, ACTION_MAPS, "actions")
