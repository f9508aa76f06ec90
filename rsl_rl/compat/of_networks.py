"""PPO and distillation over networks that a client constructs itself, as in rsl_rl 4 and 5."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Tuple

import torch
from torch import Tensor, nn

from rsl_rl.compat.algorithms import IN_ORDER
from rsl_rl.compat.eras import Era
from rsl_rl.compat.exact import ExactPPO
from rsl_rl.compat.former_code import resolve_optimizer
from rsl_rl.compat.model_policy import ModelPolicy
from rsl_rl.compat.models import MLPModel
from rsl_rl.compat.storage import GroupStorage
from rsl_rl.config.learn import AccelerationConfig

_WITHOUT_EFFECT = ("use_mixed_precision", "grad_reduce_bucket_mb", "share_cnn_encoders", "check_for_nan")


class PPO(ExactPPO):
    """PPO over an actor, a critic and a storage, with the arithmetic of version 5. Extensions need a runner."""

    def __init__(
        self, actor: MLPModel, critic: MLPModel, storage: GroupStorage, *args: Any, device: Any = "cpu", **settings: Any
    ):
        settings = {**Era(5).ppo_defaults, **dict(zip(IN_ORDER, args)), **settings}
        for name in ("rnd_cfg", "symmetry_cfg", "multi_gpu_cfg"):
            if settings.get(name):
                raise ValueError(f"{name} of a PPO without a runner is not supported; give it to OnPolicyRunner")
        optimizer = resolve_optimizer(settings.pop("optimizer", "adam"))
        settings = {name: value for name, value in settings.items() if name not in _WITHOUT_EFFECT}
        policy = ModelPolicy.of_networks(actor, critic)
        super().__init__(
            policy,
            storage,
            device=device,
            acceleration=AccelerationConfig(fused=False),
            joint_grad_norm=False,
            **settings,
        )
        if optimizer is not torch.optim.Adam:
            limit = self.optimizer.max_grad_norm
            self.learner.optimizer = optimizer(self.policy.parameters(), lr=self.cfg.learning_rate)
            self.optimizer.max_grad_norm = limit


class Distillation:
    """A student that learns the actions of a teacher, with the arithmetic of version 5."""

    teacher_loaded = False
    rnd = None

    def __init__(
        self,
        student: MLPModel,
        teacher: MLPModel,
        storage: GroupStorage,
        num_learning_epochs: int = 1,
        gradient_length: int = 15,
        learning_rate: float = 1e-3,
        max_grad_norm: float = 0.0,
        loss_type: str = "mse",
        optimizer: str = "adam",
        device: Any = "cpu",
        **others: Any,
    ):
        losses = {"mse": nn.functional.mse_loss, "huber": nn.functional.huber_loss}
        if loss_type not in losses:
            raise ValueError(f"loss_type={loss_type!r}; allowed: {', '.join(losses)}")
        unknown = [name for name, value in others.items() if value is not None and name not in _WITHOUT_EFFECT]
        if unknown:
            raise TypeError(f"Distillation without a runner has no argument {', '.join(unknown)}")
        self.student, self.teacher, self.storage = student.to(device), teacher.to(device), storage
        self.device, self.num_learning_epochs, self.gradient_length = device, num_learning_epochs, gradient_length
        self.learning_rate, self.max_grad_norm, self._loss = learning_rate, max_grad_norm, losses[loss_type]
        self.optimizer = resolve_optimizer(optimizer)(self.student.parameters(), lr=learning_rate)
        self.transition = storage.Transition()
        self.num_updates = 0
        self._states: Tuple[Any, Any] = (None, None)  # at the end of the latest update

    @torch.no_grad()
    def act(self, obs: Any) -> Tensor:
        """Return the student's actions [N, A] for observation groups."""
        step, noisy = self.transition, self.student.distribution is not None
        step.observations = obs
        step.actions = self.student(obs, stochastic_output=noisy)
        step.privileged_actions = self.teacher(obs)
        return step.actions

    @torch.no_grad()
    def process_env_step(self, obs: Any, rewards: Tensor, dones: Tensor, extras: Mapping[str, Any]) -> None:
        """Store the step; ``obs`` are the groups after it."""
        self.student.update_normalization(obs)
        self.transition.rewards, self.transition.dones = rewards, dones
        self.storage.add_transition(self.transition)
        self.transition.clear()
        for network in (self.student, self.teacher):
            network.reset(dones)

    def compute_returns(self, obs: Any) -> None:
        """Do nothing: nothing is learned from rewards."""

    def update(self) -> Dict[str, float]:
        """Take a gradient step every ``gradient_length`` steps of the rollout; return the mean loss as "behavior"."""
        self.num_updates += 1
        seen: List[float] = []
        for _ in range(self.num_learning_epochs):
            for network, state in zip((self.student, self.teacher), self._states):
                network.reset(hidden_state=state)
            self.student.detach_hidden_state()
            losses: List[Tensor] = []
            for batch in self.storage.generator():
                losses.append(self._loss(self.student(batch.observations), batch.privileged_actions))
                seen.append(float(losses[-1].detach()))
                if len(losses) == self.gradient_length:
                    self._step(torch.stack(losses).sum())
                    losses = []
                assert batch.dones is not None
                dones = batch.dones.reshape(-1)
                self.student.reset(dones)
                self.teacher.reset(dones)
                self.student.detach_hidden_state(dones)
        self.storage.clear()
        self._states = self.student.get_hidden_state(), self.teacher.get_hidden_state()
        self.student.detach_hidden_state()
        return {"behavior": sum(seen) / max(1, len(seen))}

    def _step(self, loss: Tensor) -> None:
        self.optimizer.zero_grad()
        loss.backward()
        if self.max_grad_norm:
            nn.utils.clip_grad_norm_(self.student.parameters(), self.max_grad_norm)
        self.optimizer.step()
        self.student.detach_hidden_state()

    def get_policy(self) -> MLPModel:
        """Return the student."""
        return self.student

    def train_mode(self) -> None:
        """Put the student into training mode; the teacher stays as it is."""
        self.student.train()
        self.teacher.eval()

    def eval_mode(self) -> None:
        """Put the networks into evaluation mode."""
        self.student.eval()
        self.teacher.eval()
