"""Other policies with their names in rsl_rl: an :class:`ActorCritic` with another config each."""

from __future__ import annotations

from rsl_rl.config.policy import (
    ActorCriticRecurrentConfig,
    SymmetricActorCriticConfig,
    SymmetricActorCriticRecurrentConfig,
)
from rsl_rl.modules.actor_critic import ActorCritic


class ActorCriticRecurrent(ActorCritic):
    """An :class:`ActorCritic` with a GRU or LSTM in front of the heads; see :class:`ActorCriticRecurrentConfig`."""

    config_class = ActorCriticRecurrentConfig
    is_recurrent = True


class SymmetricActorCritic(ActorCritic):
    """An :class:`ActorCritic` whose action for a mirrored robot is the mirror image of that for the robot, and whose
    value is the same; see :class:`SymmetricActorCriticConfig`."""

    config_class = SymmetricActorCriticConfig


class SymmetricActorCriticRecurrent(ActorCriticRecurrent, SymmetricActorCritic):
    """An :class:`ActorCriticRecurrent` whose action for a mirrored robot with a mirrored past is the mirror image of
    that for the robot; see :class:`SymmetricActorCriticRecurrentConfig`."""

    config_class = SymmetricActorCriticRecurrentConfig
