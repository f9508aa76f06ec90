"""Distillation by rsl_rl's name for its runner."""

from __future__ import annotations

from typing import Any

from rsl_rl.algorithms.distillation import Distillation
from rsl_rl.runners.on_policy_runner import OnPolicyRunner


class DistillationRunner(OnPolicyRunner):
    """An :class:`OnPolicyRunner` whose algorithm is :class:`Distillation`; the base class serves as well."""

    alg: Distillation

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        if not isinstance(self.alg, Distillation):
            raise ValueError(
                f"DistillationRunner got algorithm={type(self.alg_cfg).__name__}; give a DistillationConfig, or take "
                "OnPolicyRunner"
            )
