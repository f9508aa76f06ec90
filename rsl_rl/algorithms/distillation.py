"""Distillation of a trained policy into one that observes less."""

from __future__ import annotations

from functools import partial
from typing import Any, Dict, Mapping, Optional, Sequence, Union

import torch
from torch import Tensor

from rsl_rl.acceleration.selection import Acceleration
from rsl_rl.algorithms.algorithm import Algorithm, HiddenStates, UpdateResult
from rsl_rl.algorithms.extension import Extension, Extensions
from rsl_rl.algorithms.losses import behavior_loss, value_loss
from rsl_rl.algorithms.ppo import (
    GradientSteps,
    PolicyStep,
    build_parts,
    credit_time_outs,
    draw_actions,
    estimate_returns,
    reestimated_batches,
    require_recomputable,
    store_result,
    store_step,
    value_scaling,
)
from rsl_rl.algorithms.teacher import actor_state, load_actor, load_teacher
from rsl_rl.config.algorithm import DistillationConfig
from rsl_rl.config.learn import AccelerationConfig, LearnConfig
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.modules.distributions import Distribution
from rsl_rl.modules.policy import ActorCritic
from rsl_rl.storage.mini_batches import MiniBatch
from rsl_rl.storage.rollout import Column, RolloutStorage

TEACHER_ACTIONS = "teacher_actions"
"""Column of the rollout with the teacher's actions without exploration [T, N, A]."""


class Distillation(Algorithm):
    """Train a policy, the student, to act as a frozen teacher would on the states that the student visits.

    The student's mean action learns from the teacher's by regression; its standard deviation is not trained. Its critic
    learns the returns of the rollouts, as in PPO, so that PPO can go on from the student's weights. In a share of the
    environments the teacher acts instead, see :class:`DistillationConfig`. Only the actor of ``teacher`` is used. The
    metrics of an update are behavior_loss, value_loss, teacher_share, the share of the environments in which the
    teacher has acted, and those of :meth:`GradientSteps.run`.
    """

    RANK_STATE = ("extensions",)
    cfg: DistillationConfig
    learner: GradientSteps

    def __init__(
        self,
        policy: ActorCritic,
        teacher: ActorCritic,
        storage: RolloutStorage,
        cfg: DistillationConfig,
        extensions: Sequence[Extension] = (),
        acceleration: Optional[AccelerationConfig] = None,
    ):
        _require_fit(policy, teacher, extensions)
        require_recomputable(policy, cfg)
        self.cfg, self.policy, self.storage = cfg, policy, storage
        self.device = next(policy.parameters()).device
        self.extensions = Extensions(extensions)
        self.acceleration = Acceleration(acceleration, self.device)
        self.acceleration.accelerate_networks(policy)
        self.learner = GradientSteps(
            policy,
            ("behavior_loss", "value_loss"),
            distillation_backward,
            cfg,
            self.extensions,
            self.acceleration,
            value_scaling(policy),
        )
        self._policy_step = self.acceleration.graphed(self.policy_step)
        self.obs_groups = tuple(storage.groups)
        self.description = self.acceleration.description
        self.teacher = teacher.snapshot().to(self.device)
        self.acceleration.cache_frozen(self.teacher)
        self.num_updates = 0
        self._teacher_share = torch.tensor(cfg.teacher_share, device=self.device)

    @classmethod
    def from_env(
        cls, cfg: LearnConfig, env: VecEnv, device: Union[str, torch.device], teacher: Optional[ActorCritic] = None
    ) -> Distillation:
        """Return the algorithm for an environment; without ``teacher``, the one that the config names is loaded."""
        algorithm = cfg.algorithm
        assert isinstance(algorithm, DistillationConfig)
        teacher = load_teacher(algorithm, env) if teacher is None else teacher
        parts = build_parts(cfg, env, device, teacher.actor_model.groups, teacher_columns(teacher))
        return cls(parts.policy, teacher, parts.storage, algorithm, parts.extensions, cfg.acceleration)

    def begin_rollout(self) -> None:
        self.storage.clear()
        for policy in self.acceleration.cached:
            policy.cache_weights()

    @torch.no_grad()
    def act(self, obs: Observations) -> Tensor:
        """Return actions [N, A] for observation groups, and store them and the teacher's."""
        num_envs = self.storage.num_envs
        states = self.policy.current_states(num_envs)
        self.transition = self.storage.begin_step(obs, states)
        step = self._policy_step(self.transition.groups, (*states, self.teacher.current_states(num_envs)[0]))
        self.set_hidden_states(step.hidden_states)
        return store_step(self.transition, step)

    def policy_step(self, groups: Dict[str, Tensor], states: HiddenStates) -> PolicyStep:
        """Draw actions for one step of all environments; the teacher's, with the same noise, in its share of them."""
        step = draw_actions(self.policy, groups, states[:2])
        self.teacher.set_hidden_states((states[2], None))
        wanted = self.teacher.act_inference(groups)
        noise = step.actions - self.policy.distribution.mode
        envs = torch.arange(len(wanted), device=self.device).unsqueeze(1)
        actions = torch.where(envs < self._teacher_share * len(wanted), wanted + noise, step.actions)
        after = (*step.hidden_states, self.teacher.get_hidden_states()[0])
        return PolicyStep(actions, {**step.columns, TEACHER_ACTIONS: wanted}, step.values, after)

    @torch.no_grad()
    def process_env_step(
        self, rewards: Tensor, dones: Tensor, extras: Mapping[str, Any], next_obs: Optional[Observations] = None
    ) -> None:
        row = store_result(self.transition, rewards, dones, extras, self.extensions, next_obs)
        credit_time_outs(self.policy, row, extras, self.cfg.gamma)
        self.storage.step += 1
        self.reset(row["dones"].squeeze(-1))

    def reset(self, dones: Optional[Tensor] = None) -> None:
        self.policy.reset(dones)
        self.teacher.reset(dones)
        for extension in self.extensions.all:
            extension.reset(dones)

    @torch.no_grad()
    def compute_returns(self, obs: Observations) -> None:
        columns = self.storage.columns
        acted = self.policy.family.of_parameters(columns)
        columns["actions_log_prob"].copy_(acted.log_prob(columns["actions"]))
        self._obs_after = obs
        estimate_returns(self.policy, self.storage, obs, self.cfg, True, self.collective)
        for policy in self.acceleration.cached:
            policy.clear_cache()
        for extension in self.extensions.all:
            extension.finish_rollout(self.storage)

    def update(self) -> UpdateResult:
        cfg, storage = self.cfg, self.storage
        batches = storage.batches.shuffled(cfg.num_mini_batches, cfg.num_learning_epochs)
        if cfg.recompute_advantages:
            estimate = partial(estimate_returns, self.policy, storage, self._obs_after, cfg, True, self.collective)
            batches = reestimated_batches(storage, cfg, estimate)
        result = self.learner.run(storage, cfg, batches)
        result.metrics["teacher_share"] = self._teacher_share.clone()
        self._count_updates(self.num_updates + 1)
        return result

    def _count_updates(self, num_updates: int) -> None:
        self.num_updates = num_updates
        self._teacher_share.fill_(self.cfg.teacher_share_after(num_updates))

    def get_hidden_states(self) -> HiddenStates:
        """Return the recurrent states of the student's actor and critic, and of the teacher."""
        return (*super().get_hidden_states(), self.teacher.get_hidden_states()[0])

    def set_hidden_states(self, states: HiddenStates) -> None:
        super().set_hidden_states(states[:2])
        self.teacher.set_hidden_states((states[2] if len(states) > 2 else None, None))

    @property
    def inference_policy(self) -> ActorCritic:
        return self.learner.inference_policy

    def state_dict(self) -> Dict[str, Any]:
        state = super().state_dict()
        return {**state, "teacher_state_dict": actor_state(self.teacher.state_dict()), "num_updates": self.num_updates}

    def load_state_dict(self, state: Mapping[str, Any], load_optimizer: bool = True) -> None:
        super().load_state_dict(state, load_optimizer)
        if load_optimizer and "teacher_state_dict" in state:
            load_actor(self.teacher, state["teacher_state_dict"])
            self.acceleration.cache_frozen(self.teacher)
            self._count_updates(int(state["num_updates"]))


def teacher_columns(teacher: ActorCritic) -> Dict[str, Column]:
    """Return the columns that a distillation stores beside others."""
    return {TEACHER_ACTIONS: Column(teacher.family.action_size)}


def distillation_backward(
    distribution: Distribution,
    values: Optional[Tensor],
    batch: MiniBatch,
    weights: Tensor,
    cfg: DistillationConfig,
    additional: Mapping[str, Tensor],
) -> Tensor:
    """Add the gradient of the loss of distillation, and of additional losses, to the parameters; return the sums [2] of
    the behaviour loss and of the squared error of the values."""
    assert values is not None
    behavior = behavior_loss(distribution.mode, batch.columns[TEACHER_ACTIONS], cfg.loss_type)
    errors = value_loss(values, batch.columns["returns"])
    terms = torch.stack(((behavior * weights).sum(), (errors * weights).sum()))
    loss = terms[0] + cfg.value_loss_coef * terms[1]
    for term in additional.values():
        loss = loss + term
    loss.backward()
    return terms.detach()


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
