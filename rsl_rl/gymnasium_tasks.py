"""The tasks of `rsl-rl list` for ``gymnasium.make_vec``; importing this module registers them, as Gymnasium asks for.

``go2_flat`` becomes ``rsl_rl/Go2Flat-v0``. Needs the package gymnasium.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Optional, Sequence

import gymnasium

from rsl_rl.cli.experiments import Experiments
from rsl_rl.env.adapters.task_vector_env import TaskVectorEnv


def make_task(task: str, num_envs: int = 1, groups: Optional[Sequence[str]] = None, **settings: Any) -> TaskVectorEnv:
    """Return ``num_envs`` instances of a task of `rsl-rl list`.

    ``groups`` are the observation groups to return, by default those that the actor of the experiment reads.
    ``settings`` are those of :class:`TaskVectorEnv`: ``action_limit``, ``device`` and ``seed``.
    """
    experiment = Experiments().load(task)()
    return TaskVectorEnv(
        replace(experiment.env, num_envs=num_envs),  # type: ignore[type-var]
        tuple(groups or experiment.policy.actor_groups),
        discrete=experiment.policy.distribution == "categorical",
        **settings,
    )


def gymnasium_id(task: str) -> str:
    """Return the id of a task in Gymnasium's registry."""
    return f"rsl_rl/{''.join(part.capitalize() for part in task.split('_'))}-v0"


for _task in Experiments().names():
    gymnasium.register(gymnasium_id(_task), vector_entry_point=f"{__name__}:make_task", kwargs={"task": _task})
