"""Distillation of a trained policy into one that observes less."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Dict, Mapping, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor
from torch.nn import functional as F

from rsl_rl.algorithms.algorithm import HiddenStates
from rsl_rl.algorithms.config_attributes import config_attributes
from rsl_rl.algorithms.extension import Extension
from rsl_rl.algorithms.gradient_steps import FIXED
from rsl_rl.algorithms.losses import value_loss, value_scaling
from rsl_rl.algorithms.on_policy import PolicyStep
from rsl_rl.algorithms.teacher import actor_state, load_actor, load_teacher
from rsl_rl.algorithms.value_learning import ValueLearningAlgorithm
from rsl_rl.config.acceleration import AccelerationConfig
from rsl_rl.config.distillation import DistillationConfig
from rsl_rl.config.learn import LearnConfig
from rsl_rl.env.vec_env import VecEnv
from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.modules.distributions import Distribution
from rsl_rl.storage.columns import Column
from rsl_rl.storage.mini_batch import MiniBatch

TEACHER_ACTIONS = "teacher_actions"
"""Column of the rollout with the teacher's actions without exploration [T, N, A]."""


@config_attributes(DistillationConfig, "learning_rate", "max_grad_norm", "teacher", fixed=FIXED)
class Distillation(ValueLearningAlgorithm):
    """Train a policy, the student, to act as a frozen teacher would on the states that the student visits.

    The student's mean action learns from the teacher's by regression; its standard deviation is not trained. Its critic
    learns the returns of the rollouts, as in PPO, so that PPO can go on from the student's weights. In a share of the
    environments the teacher acts instead, see :class:`DistillationConfig`. Only the actor of ``teacher`` is used.
    """

    term_names = ("behavior_loss", "value_loss")
    cfg: DistillationConfig

    def __init__(
        self,
        actor_critic: ActorCritic,
        teacher: Optional[ActorCritic] = None,
        device: Union[str, torch.device] = "cpu",
        cfg: Optional[DistillationConfig] = None,
        extensions: Sequence[Extension] = (),
        acceleration: Optional[AccelerationConfig] = None,
        **settings: Any,
    ):
        if teacher is None:
            raise ValueError("a distillation needs a teacher; pass a policy, or set algorithm.teacher_run")
        cfg = DistillationConfig(**settings) if cfg is None else replace(cfg, **settings)
        _require_fit(actor_critic, teacher, extensions)
        super().__init__(actor_critic, device, cfg, extensions, acceleration)
        self.teacher = teacher.snapshot().to(self.device)
        self.transforms = value_scaling(self.policy)
        self.loss = DistillationLoss()
        self.num_updates = 0
        self._teacher_share = torch.tensor(cfg.teacher_share, device=self.device)
        self._acceleration.cache_frozen(self.teacher)

    @classmethod
    def from_env(
        cls, cfg: LearnConfig, env: VecEnv, device: Union[str, torch.device], teacher: Optional[ActorCritic] = None
    ) -> Distillation:
        """Return the algorithm for an environment; without ``teacher``, the one that the config names is loaded."""
        assert isinstance(cfg.algorithm, DistillationConfig)
        return super().from_env(cfg, env, device, teacher=teacher or load_teacher(cfg.algorithm, env))

    @property
    def read_groups(self) -> Tuple[str, ...]:
        return (*super().read_groups, *self.teacher.actor_model.groups)

    @property
    def columns(self) -> Dict[str, Column]:
        return {**super().columns, TEACHER_ACTIONS: Column(self.teacher.family.action_size)}

    def current_states(self) -> HiddenStates:
        return (*super().current_states(), self.teacher.current_states(self.storage.num_envs)[0])

    def get_hidden_states(self) -> HiddenStates:
        """Return the recurrent states of the student's actor and critic, and of the teacher."""
        return (*super().get_hidden_states(), self.teacher.get_hidden_states()[0])

    def set_hidden_states(self, states: HiddenStates) -> None:
        super().set_hidden_states(states[:2])
        self.teacher.set_hidden_states((states[2] if len(states) > 2 else None, None))

    def reset(self, dones: Optional[Tensor] = None) -> None:
        super().reset(dones)
        self.teacher.reset(dones)

    def policy_step(self, groups: Dict[str, Tensor], hidden_states: HiddenStates) -> PolicyStep:
        step = super().policy_step(groups, hidden_states)
        self.teacher.set_hidden_states((hidden_states[2], None))
        wanted = self.teacher.act_inference(groups)
        noise = step.actions - self.policy.action_mean
        envs = torch.arange(len(wanted), device=self.device).unsqueeze(1)
        actions = torch.where(envs < self._teacher_share * len(wanted), wanted + noise, step.actions)
        states = (*step.hidden_states, self.teacher.get_hidden_states()[0])
        return PolicyStep(actions, {**step.columns, TEACHER_ACTIONS: wanted}, step.values, states)

    def update(self) -> Dict[str, Tensor]:
        """Learn from the rollout and clear it; see :meth:`GradientStepAlgorithm.update` for the metrics.

        ``teacher_share`` is the share of the environments in which the teacher has acted.
        """
        metrics = super().update()
        metrics["teacher_share"] = self._teacher_share.clone()
        self._count_updates(self.num_updates + 1)
        return metrics

    def _count_updates(self, num_updates: int) -> None:
        self.num_updates = num_updates
        self._teacher_share.fill_(self.cfg.teacher_share_after(num_updates))

    def state_dict(self) -> Dict[str, Any]:
        state = super().state_dict()
        return {**state, "teacher_state_dict": actor_state(self.teacher.state_dict()), "num_updates": self.num_updates}

    def load_state_dict(self, state: Mapping[str, Any], load_optimizer: bool = True) -> None:
        super().load_state_dict(state, load_optimizer)
        if load_optimizer and "teacher_state_dict" in state:
            load_actor(self.teacher, state["teacher_state_dict"])
            self._acceleration.cache_frozen(self.teacher)
            self._count_updates(int(state["num_updates"]))


class DistillationLoss:
    """Add the gradient of the loss of distillation, and of additional losses, to the parameters."""

    def __call__(
        self,
        distribution: Distribution,
        values: Tensor,
        batch: MiniBatch,
        weights: Tensor,
        cfg: DistillationConfig,
        additional: Mapping[str, Tensor],
    ) -> Tensor:
        """Return the sums [2] of the behaviour loss and of the squared error of the values, without graph."""
        behavior = behavior_loss(distribution.mode, batch.columns[TEACHER_ACTIONS], cfg.loss_type)
        terms = torch.stack(((behavior * weights).sum(), (value_loss(values, batch.returns) * weights).sum()))
        loss = terms[0] + cfg.value_loss_coef * terms[1]
        for term in additional.values():
            loss = loss + term
        loss.backward()
        return terms.detach()


def behavior_loss(actions: Tensor, teacher_actions: Tensor, loss_type: str = "mse") -> Tensor:
    """Return the difference [..., 1] of actions [..., A], the mean over their components of the square ('mse') or of
    Huber's loss ('huber')."""
    function = F.huber_loss if loss_type == "huber" else F.mse_loss
    return function(actions, teacher_actions, reduction="none").mean(dim=-1, keepdim=True)


def _require_fit(student: ActorCritic, teacher: ActorCritic, extensions: Sequence[Extension]) -> None:
    """Raise a ValueError where nothing could be learned."""
    for role, policy in (("student", student), ("teacher", teacher)):
        if not policy.family.action_dtype.is_floating_point:
            raise ValueError(
                f"the {role} has distribution='{policy.cfg.distribution}', and distillation compares mean actions; "
                "take 'gaussian' or 'beta'"
            )
    sizes = student.family.action_size, teacher.family.action_size
    if sizes[0] != sizes[1]:
        raise ValueError(f"the student has {sizes[0]} actions and the teacher {sizes[1]}; take a teacher of this robot")
    for extension in extensions:
        if type(extension).transform is not Extension.transform:
            raise ValueError(
                f"{type(extension).__name__} adds samples for which the teacher has no actions; leave it out of "
                "extensions, or take a symmetric policy instead of mirrored samples"
            )
