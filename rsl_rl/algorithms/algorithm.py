"""The interface of learning algorithms for runners, collectors and checkpoints. To add one, see docs/extending.md."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar, Dict, Mapping, NamedTuple, Optional, Protocol, Sequence, Tuple, Union

import torch
from torch import Tensor

from rsl_rl.config.learn import LearnConfig
from rsl_rl.distributed import SINGLE_PROCESS, Collective
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.modules.policy import ActorCritic
from rsl_rl.storage.rollout import Transition
from rsl_rl.utils.public_names import FormerCalls
from rsl_rl.utils.trajectories import HiddenState

HiddenStates = Sequence[HiddenState]
"""Recurrent states of the networks of an algorithm, in an order that the algorithm defines."""


class UpdateResult(NamedTuple):
    """What an update has done; all numbers are scalars on the device."""

    metrics: Dict[str, Tensor]
    """Numbers by name, which are shown and logged."""
    steps_taken: Tensor
    """Number of gradient steps taken."""
    steps_skipped: Tensor
    """Largest number of gradient steps that were skipped one after the other, those at the end of earlier updates
    included. A runner that finds too many goes back to an earlier state."""


class Learner(Protocol):
    """What learns in an algorithm and has a state, such as ``GradientSteps``."""

    learning_rate: Tensor
    """Scalar on the device."""
    skips_in_row: Tensor
    """Gradient steps skipped since the last one taken, a scalar on the device."""

    def join(self, collective: Collective) -> None:
        """Learn together with the other ranks of a collective."""
        ...

    def state_dict(self) -> Dict[str, Any]:
        """Return the state for :meth:`Algorithm.state_dict`."""
        ...

    def load_state_dict(self, state: Mapping[str, Any], load_optimizer: bool = True) -> None:
        """Load what :meth:`state_dict` returned."""
        ...


class Algorithm(metaclass=FormerCalls):
    """Learn a policy from rollouts.

    The order of calls is, T times, ``act`` and, after the environment's step, ``process_env_step``; then
    ``compute_returns`` and ``update``. From the first ``act`` of a rollout to ``compute_returns`` the weights do not
    change. None of these methods synchronises with the device, unless ``acceleration.fused`` is off.

    An algorithm without ``learner`` defines ``learning_rate``, ``state_dict`` and ``load_state_dict`` itself, and
    learns in one process unless it defines ``join`` too.
    """

    RANK_STATE: ClassVar[Tuple[str, ...]] = ()
    """Entries of ``state_dict`` that differ between the ranks of a distributed training."""

    collective: Collective = SINGLE_PROCESS
    """The processes that learn together, see :meth:`join`."""
    device: torch.device
    policy: ActorCritic
    """The policy that acts and learns."""
    obs_groups: Tuple[str, ...]
    """Observation groups that the algorithm reads; it receives no others."""
    transition: Transition
    """The current step between ``act`` and ``process_env_step``, with the column "actions"."""
    learner: Optional[Learner] = None
    """What takes the gradient steps."""
    description: str = ""
    """One line about how it computes, for the start of a run."""
    progress: float = 0.0
    """Share of the training that is done, from 0 to 1; a runner sets it before each rollout."""
    restarts_episodes: bool = False
    """Whether each rollout begins with new episodes; the environment must be Resettable then."""

    @classmethod
    @abstractmethod
    def from_env(cls, cfg: LearnConfig, env: VecEnv, device: Union[str, torch.device]) -> Algorithm:
        """Return the algorithm of a config for an environment; a config that does not fit is a ValueError."""

    def join(self, collective: Collective) -> None:
        """Learn together with the other ranks of a collective, from what rank 0 has learned so far.

        A subclass computes with ``self.collective`` what all ranks must agree on.
        """
        if self.learner is None:
            if collective.size == 1:
                return
            raise ValueError(
                f"{type(self).__name__} learns in one process and this training has {collective.size}; override "
                "join(), or start it without torchrun"
            )
        self.collective = collective
        self.learner.join(collective)
        collective.load_from_first(self)

    @abstractmethod
    def begin_rollout(self) -> None:
        """Discard the steps of an unfinished rollout."""

    @abstractmethod
    def act(self, obs: Observations) -> Tensor:
        """Return actions [N, A] for observation groups [N, ...], and store both. The caller owns the actions."""

    @abstractmethod
    def process_env_step(
        self, rewards: Tensor, dones: Tensor, extras: Mapping[str, Any], next_obs: Optional[Observations] = None
    ) -> None:
        """Finish the step with rewards [N] and dones [N]; ``next_obs`` are the groups to act on next.

        ``extras`` may hold ``time_outs`` [N] and ``final_obs`` as in ``StepResult``, and ``valid`` [N] bool: a step
        that is not valid is not learned from, and is done.
        """

    @abstractmethod
    def compute_returns(self, obs: Observations) -> None:
        """Finish the rollout; ``obs`` are the groups after its last step."""

    @abstractmethod
    def update(self) -> UpdateResult:
        """Learn from the rollout and clear it."""

    @property
    def learning_rate(self) -> float:
        """Learning rate of the optimiser; reading it synchronises with the device."""
        return float(self._required_learner.learning_rate)

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        self._required_learner.learning_rate.fill_(value)

    def state_dict(self) -> Dict[str, Any]:
        """Return what was learned so far in plain values; ``model_state_dict`` is the policy's."""
        return self._required_learner.state_dict()

    def load_state_dict(self, state: Mapping[str, Any], load_optimizer: bool = True) -> None:
        """Load what :meth:`state_dict` returned, or the policy alone; states of other networks are a RuntimeError,
        KeyError or ValueError."""
        self._required_learner.load_state_dict(state, load_optimizer)

    def restart_from(self, state: Mapping[str, Any], learning_rate: float) -> None:
        """Load an earlier state after a failure, with another learning rate."""
        self.reset()
        self.load_state_dict(state)
        self.learning_rate = learning_rate
        if self.learner is not None:
            self.learner.skips_in_row.zero_()

    @property
    def _required_learner(self) -> Learner:
        if self.learner is None:
            raise NotImplementedError(
                f"{type(self).__name__} has no learner; set one, or define learning_rate, state_dict and "
                "load_state_dict"
            )
        return self.learner

    @property
    def inference_policy(self) -> ActorCritic:
        """Policy to evaluate and to export."""
        return self.policy

    def train_mode(self) -> None:
        """Put the networks into training mode."""
        self.policy.train()

    def eval_mode(self) -> None:
        """Put the networks into evaluation mode."""
        self.policy.eval()

    def reset(self, dones: Optional[Tensor] = None) -> None:
        """Zero the recurrent states of the environments marked in dones [N]; of all for None."""
        self.policy.reset(dones)

    def get_hidden_states(self) -> HiddenStates:
        """Return the recurrent states in the running episodes."""
        return self.policy.get_hidden_states()

    def set_hidden_states(self, states: HiddenStates) -> None:
        """Set what :meth:`get_hidden_states` returned."""
        actor, critic = states
        self.policy.set_hidden_states((actor, critic))
