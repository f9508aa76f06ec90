"""The module in which earlier versions have the RolloutBuffer."""

from rsl_rl.compat.rollout_buffer import RolloutBuffer, iterate_minibatches, transition_view

__all__ = ["RolloutBuffer", "iterate_minibatches", "transition_view"]
