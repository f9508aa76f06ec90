"""Proximal policy optimisation, from the observation to the gradient step.

The file reads in the order in which an iteration runs: T times :meth:`PPO.act` and :meth:`PPO.process_env_step`, then
:meth:`PPO.compute_returns` and :meth:`PPO.update`. A :class:`GradientSteps` takes the gradient step of each mini-batch.

- Stored in a step, before the environment moves: observation groups, recurrent states, actions, the parameters of their
  distribution and, of a critic with memory, values (:meth:`PPO.act`). After it: reward, done, sample mask and, if there
  is no last observation, the time-out (:meth:`PPO.process_env_step`).
- Time-outs: where the clock has ended an episode, :func:`credit_time_outs` adds gamma times the value of its last
  observation to the reward. If the environment does not give this observation, :func:`estimate_returns` adds gamma
  times the value of the state that this step acted on.
- A masked sample must be done. Its return is its own value, so that it changes no other return
  (:func:`estimate_returns`). It has the weight 0 in the loss (:meth:`GradientSteps.add_gradients`), in the statistics
  of the networks (:meth:`GradientSteps.run`) and in those of the advantages (``returns.normalize``).
- The ratio of probabilities is clipped in ``losses.surrogate_loss``, which ``losses.ppo_terms`` calls for
  :func:`ppo_backward`; the closed form, ``acceleration.ppo_loss_and_gradient``, clips it alike. The norms of gradients
  are clipped in ``step_where_finite`` of the optimiser.
- The learning rate changes in each gradient step with the adaptive schedule, when the KL divergence of the mini-batch
  is known and before the weights change (:meth:`GradientSteps.step`). With the linear schedule it changes once, at the
  start of :meth:`PPO.update`.
- Host-device synchronisations in an iteration: one, in the runner, which reads the metrics. Without
  ``acceleration.fused`` there are two more in each gradient step, in :class:`PlainAdam`.

The functions of tensors are in ``losses.py`` and ``storage/returns.py``. ``acceleration`` has faster implementations of
the networks, the loss and Adam, with the same results.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import torch
from torch import Tensor, nn

from rsl_rl.acceleration.selection import Acceleration
from rsl_rl.algorithms.algorithm import Algorithm, HiddenStates, UpdateResult
from rsl_rl.algorithms.build import build_policy, build_storage, group_specs
from rsl_rl.algorithms.extension import Extension, Extensions
from rsl_rl.algorithms.losses import adapt_learning_rate, ppo_terms
from rsl_rl.config.algorithm import OnPolicyConfig, PPOConfig, SurrogateConfig, ValueLearningConfig
from rsl_rl.config.learn import AccelerationConfig, LearnConfig
from rsl_rl.distributed import SINGLE_PROCESS, Collective
from rsl_rl.env.vec_env import Observations, VecEnv
from rsl_rl.modules.distributions import Distribution
from rsl_rl.modules.normalizer import ValueNormalizer
from rsl_rl.modules.policy import ActorCritic
from rsl_rl.storage.mini_batches import MiniBatch
from rsl_rl.storage.returns import bootstrap_timeouts, gae, normalize
from rsl_rl.storage.rollout import Column, RolloutStorage, Transition


class PolicyStep(NamedTuple):
    """What a policy computes for one step of all environments."""

    actions: Tensor  # [N, A]
    columns: Dict[str, Tensor]  # to store, each [N, size] or [size]: parameters of the distribution, and others
    values: Optional[Tensor]  # [N, 1]; None where they are computed for the whole rollout together
    hidden_states: HiddenStates  # after the step, of actor and critic first


def draw_actions(policy: ActorCritic, groups: Mapping[str, Tensor], states: HiddenStates) -> PolicyStep:
    """Draw actions for observation groups, from the recurrent states before them."""
    policy.set_hidden_states((states[0], states[1]))
    distribution = policy.update_distribution(groups)
    actions = distribution.sample()
    values = None if policy.critic_model.memory is None else policy.evaluate(groups)
    return PolicyStep(actions, distribution.parameters, values, policy.current_states(len(actions)))


class PPO(Algorithm):
    """Improve a policy by the clipped surrogate, https://arxiv.org/abs/1707.06347.

    ``storage`` holds one rollout, see :func:`build_storage`; ``extensions`` join in the order given. The metrics of an
    update are surrogate_loss, value_loss, entropy [nats] and kl [nats], and those of :meth:`GradientSteps.run`.
    """

    RANK_STATE = ("extensions",)
    cfg: PPOConfig
    learner: GradientSteps

    def __init__(
        self,
        policy: ActorCritic,
        storage: RolloutStorage,
        cfg: PPOConfig,
        extensions: Sequence[Extension] = (),
        acceleration: Optional[AccelerationConfig] = None,
    ):
        require_recomputable(policy, cfg)
        self.cfg, self.policy, self.storage = cfg, policy, storage
        self.device = next(policy.parameters()).device
        self.extensions = Extensions(extensions)
        self.acceleration = Acceleration(acceleration, self.device)
        self.acceleration.accelerate_networks(policy)
        self.transforms: List[BatchTransform] = value_scaling(policy)
        self.normalizes_rollout = not cfg.normalize_advantage_per_mini_batch  # all advantages of a rollout together
        if cfg.normalize_advantage_per_mini_batch:
            self.transforms.insert(0, self._normalize_advantages)
        accelerated = self.acceleration.ppo_backward(policy, not (self.transforms or self.extensions.change_loss))
        self.learner = GradientSteps(
            policy,
            ("surrogate_loss", "value_loss", "entropy", "kl"),
            accelerated or ppo_backward,
            cfg,
            self.extensions,
            self.acceleration,
            self.transforms,
        )
        self._policy_step = self.acceleration.graphed(draw_actions)
        self.obs_groups = tuple(storage.groups)
        self.description = self.acceleration.description

    @classmethod
    def from_env(cls, cfg: LearnConfig, env: VecEnv, device: Union[str, torch.device]) -> PPO:
        parts = build_parts(cfg, env, device)
        assert isinstance(cfg.algorithm, PPOConfig)
        return cls(parts.policy, parts.storage, cfg.algorithm, parts.extensions, cfg.acceleration)

    # Collecting a rollout: T times act and process_env_step

    def begin_rollout(self) -> None:
        self.storage.clear()
        for policy in self.acceleration.cached:
            policy.cache_weights()

    @torch.no_grad()
    def act(self, obs: Observations) -> Tensor:
        """Return actions [N, A] for observation groups, and store what is known of the step before the environment
        moves: observations, recurrent states, actions, the parameters of their distribution and, of a critic with
        memory, values. Log-probabilities, and the values of other critics, are computed for all steps together, in
        ``compute_returns``.
        """
        states = self.policy.current_states(self.storage.num_envs)
        self.transition = self.storage.begin_step(obs, states)
        step = self._policy_step(self.policy, self.transition.groups, states)
        self.policy.set_hidden_states(step.hidden_states)
        return store_step(self.transition, step)

    @torch.no_grad()
    def process_env_step(
        self, rewards: Tensor, dones: Tensor, extras: Mapping[str, Any], next_obs: Optional[Observations] = None
    ) -> None:
        """Finish the step with rewards [N] and dones [N]; the recurrent states of what is done are zeroed.

        Where ``extras["valid"]`` [N] is false the sample is masked: it must be done, its weight in every mean is zero,
        and its return is its own value, so that it changes no other return. Time-outs: :func:`credit_time_outs`.
        """
        row = store_result(self.transition, rewards, dones, extras, self.extensions, next_obs)
        credit_time_outs(self.policy, row, extras, self.cfg.gamma)
        self.storage.step += 1
        self.policy.reset(row["dones"])
        for extension in self.extensions.all:
            extension.reset(row["dones"].squeeze(-1))

    def reset(self, dones: Optional[Tensor] = None) -> None:
        self.policy.reset(dones)
        for extension in self.extensions.all:
            extension.reset(dones)

    @torch.no_grad()
    def compute_returns(self, obs: Observations) -> None:
        """Compute log-probabilities, values, returns and advantages of the rollout; ``obs`` are the groups after its
        last step."""
        columns = self.storage.columns
        acted = self.policy.family.of_parameters(columns)
        columns["actions_log_prob"].copy_(acted.log_prob(columns["actions"]))
        self._obs_after = obs
        estimate_returns(self.policy, self.storage, obs, self.cfg, self.normalizes_rollout, self.collective)
        for policy in self.acceleration.cached:
            policy.clear_cache()
        for extension in self.extensions.all:
            extension.finish_rollout(self.storage)

    # Learning from the rollout

    def update(self) -> UpdateResult:
        """Learn from the rollout and clear it. A linear schedule changes the learning rate here, an adaptive one in
        :meth:`GradientSteps.step`."""
        scheduled = self.cfg.learning_rate_at(self.progress)  # None unless the schedule is linear
        if scheduled is not None:
            self.learning_rate = scheduled
        cfg, storage = self.cfg.at(self.progress), self.storage
        if cfg.recompute_advantages:
            estimate = partial(
                estimate_returns, self.policy, storage, self._obs_after, cfg, self.normalizes_rollout, self.collective
            )
            return self.learner.run(storage, cfg, reestimated_batches(storage, cfg, estimate))
        return self.learner.run(storage, cfg, storage.batches.shuffled(cfg.num_mini_batches, cfg.num_learning_epochs))

    def _normalize_advantages(self, batch: MiniBatch) -> MiniBatch:
        return batch.with_columns(advantages=normalize(batch.columns["advantages"], batch.sample_mask, self.collective))

    @property
    def inference_policy(self) -> ActorCritic:
        return self.learner.inference_policy


# The parts of an iteration, which GRPO and distillation use too


def store_step(transition: Transition, step: PolicyStep) -> Tensor:
    """Write a step of the policy into the storage; return a copy of the actions."""
    columns = transition.columns
    columns["actions"].copy_(step.actions)
    for name, value in step.columns.items():
        columns[name].copy_(value)
    if step.values is not None:
        columns["values"].copy_(step.values)
    return step.actions.clone()


def store_result(
    transition: Transition,
    rewards: Tensor,
    dones: Tensor,
    extras: Mapping[str, Any],
    extensions: Extensions,
    next_obs: Optional[Observations],
) -> Dict[str, Tensor]:
    """Write what an environment's step has given into the storage, with the rewards of extensions; return the step's
    columns."""
    columns = transition.columns
    columns["rewards"].copy_(rewards.reshape(-1, 1))
    columns["dones"].copy_(dones.reshape(-1, 1))
    if "valid" in extras:
        columns["sample_mask"].copy_(extras["valid"].reshape(-1, 1))
    for extension in extensions.rewarding:
        if next_obs is None:
            raise ValueError(f"{type(extension).__name__} rewards what a step led to; pass next_obs")
        reward = extension.reward(transition, next_obs, columns["dones"])
        if reward is not None:
            columns["rewards"].add_(reward)
    return columns


def credit_time_outs(policy: ActorCritic, row: Dict[str, Tensor], extras: Mapping[str, Any], gamma: float) -> None:
    """Credit the return that a time limit cut off: where ``extras["time_outs"]`` [N] is set and the episode is done,
    add gamma times V of ``extras["final_obs"]`` to the reward.

    Without ``final_obs`` it is V of the state that the step acted on, which :func:`estimate_returns` adds.
    """
    if "time_outs" not in extras:
        return
    time_outs = extras["time_outs"].to(row["dones"].device).reshape(-1, 1)
    if "final_obs" in extras:
        values = policy.evaluate(extras["final_obs"], advance=False)
        row["rewards"].copy_(bootstrap_timeouts(row["rewards"], values, time_outs, row["dones"], gamma))
    else:
        row["time_outs"].copy_(time_outs)


def estimate_returns(
    policy: ActorCritic,
    storage: RolloutStorage,
    obs: Observations,
    cfg: ValueLearningConfig,
    normalizes: bool,
    collective: Collective,
) -> None:
    """Fill values, returns and advantages of a rollout by generalised advantage estimates; ``obs`` are the groups after
    its last step. With ``normalizes`` the advantages have zero mean and unit deviation.

    Where the return of a time-out is not credited yet, it is added to the stored reward. A masked step, which must be
    done, is given its own value as reward, so that its return is its value.
    """
    columns = storage.columns
    rewards, values, mask = columns["rewards"], columns["values"], columns["sample_mask"]
    policy.evaluate_rollout(storage.groups, values)
    rewards.copy_(bootstrap_timeouts(rewards, values, columns["time_outs"], columns["dones"], cfg.gamma))
    columns["time_outs"].zero_()  # credited now, and not again when returns are computed a second time
    last_values = policy.evaluate(obs, advance=False)
    rewards = torch.where(mask > 0, rewards, values)
    advantages = gae(rewards, values, last_values, columns["dones"], cfg.gamma, cfg.lam)
    torch.add(advantages, values, out=columns["returns"])
    if normalizes:
        normalize(advantages, mask, collective, out=columns["advantages"])
    else:
        torch.mul(advantages, mask, out=columns["advantages"])


def reestimated_batches(
    storage: RolloutStorage, cfg: ValueLearningConfig, estimate: Callable[[], None]
) -> Iterator[Tensor]:
    """Yield the indices of each mini-batch; ``estimate`` computes the returns again before each pass over the rollout
    but the first."""
    for again in range(cfg.num_learning_epochs):
        if again:
            with torch.no_grad():
                estimate()
        yield from storage.batches.shuffled(cfg.num_mini_batches, 1)


# Gradient steps

BatchTransform = Callable[[MiniBatch], MiniBatch]
"""A function from a mini-batch to another one of the same samples."""

Backward = Callable[[Distribution, Optional[Tensor], MiniBatch, Tensor, Any, Mapping[str, Tensor]], Tensor]
"""A function of (new distribution, new values, mini-batch, weight of each sample, config, additional losses) that adds
the gradient of the loss to the parameters', and returns the terms of the loss as one tensor without graph."""


class GradientSteps:
    """Gradient steps on the mini-batches of a rollout, with Adam.

    ``term_names`` are those of what ``backward`` returns, which become metrics. ``transforms`` change each
    mini-batch before extensions do. ``learning_rate`` and ``skips_in_row`` are scalars on the device.
    """

    def __init__(
        self,
        policy: ActorCritic,
        term_names: Tuple[str, ...],
        backward: Backward,
        cfg: OnPolicyConfig,
        extensions: Extensions,
        acceleration: Acceleration,
        transforms: Sequence[BatchTransform] = (),
        with_values: bool = True,
    ):
        self.policy, self.term_names, self.backward = policy, term_names, backward
        self.extensions, self.acceleration, self.transforms = extensions, acceleration, transforms
        self.with_values = with_values  # whether the loss reads the critic's values
        self.collective: Collective = SINGLE_PROCESS
        device = next(policy.parameters()).device
        self.learning_rate = torch.tensor(cfg.learning_rate, device=device)
        parameters = [*policy.parameters(), *extensions.parameters]
        apart = [group for group in (*policy.parameter_groups(), extensions.parameters) if group]
        groups = [parameters] if cfg.joint_grad_norm else apart  # each is clipped to max_grad_norm
        optimizer = acceleration.optimizer or PlainAdam
        self.optimizer = optimizer(parameters, groups, self.learning_rate, cfg.max_grad_norm)
        self.skips_in_row = torch.zeros((), device=device)  # gradient steps skipped since the last one taken
        self.averages = [PolicyAverage(policy, cfg.ema_decay)] if cfg.ema_decay > 0 else []
        self._step = acceleration.graphed(self.step)
        self._added: Tuple[str, ...] = ()  # names of the metrics that extensions give with each mini-batch

    def join(self, collective: Collective) -> None:
        """Learn together with the other ranks of a collective."""
        self.acceleration.require_fit(collective)
        self.collective = collective
        self.extensions.join(collective)

    def run(self, storage: RolloutStorage, cfg: OnPolicyConfig, mini_batches: Iterator[Tensor]) -> UpdateResult:
        """Take a gradient step for each mini-batch, update the running statistics, and clear the rollout.

        Metrics are the terms of the loss and what extensions give, averaged over the gradient steps taken; the last
        learning_rate and noise_std; and skipped_steps, how many gradient steps were skipped because something was not
        finite, or all samples were masked.
        """
        policy, columns = self.policy, storage.columns
        self.optimizer.attach()
        totals: Optional[Tensor] = None
        skips, num_steps = self.skips_in_row.clone(), 0
        for indices in mini_batches:
            terms = self._step(storage, cfg, indices)
            totals = terms.clone() if totals is None else totals.add_(terms)
            num_steps += 1
            torch.maximum(skips, self.skips_in_row, out=skips)
        assert totals is not None
        for model in (policy.actor_model, policy.critic_model):
            if model.has_statistics:
                model.update_normalization(storage.groups, columns["sample_mask"], self.collective)
        if isinstance(policy.value_normalizer, ValueNormalizer):
            policy.value_normalizer.update(columns["returns"], columns["sample_mask"], self.collective)
        for average in self.averages:
            average.update()
        taken = totals[len(self.term_names)]
        means = (totals / taken).unbind()
        metrics = dict(zip(self.term_names, means))
        metrics.update(zip(self._added, means[len(self.term_names) + 1 :]))
        metrics["learning_rate"] = self.learning_rate.clone()
        metrics["noise_std"] = policy.noise_std().detach().mean()
        metrics["skipped_steps"] = num_steps - taken
        for extension in self.extensions.all:
            self.extensions.add_metrics(metrics, extension, extension.update(storage))
        storage.clear()
        return UpdateResult(metrics, taken, skips)

    @torch.no_grad()
    def step(self, storage: RolloutStorage, cfg: OnPolicyConfig, indices: Tensor) -> Tensor:
        """Take one gradient step on the steps, or the environments, with these indices; all ranks take it together.

        Returns one tensor: the terms of the loss before the step; 1, which counts the steps taken; and the metrics of
        extensions. A loss or a gradient that is not finite on any rank, or no unmasked sample, leaves weights and
        optimiser as they are; the tensor is then zero.
        """
        self.optimizer.zero_grad()
        batches = storage.batches
        num_unmasked = batches.total_weight(indices)
        share = 1.0 / num_unmasked.clamp(min=1.0)  # weight of one sample in the mean over the unmasked ones
        added: Dict[str, Tensor] = {}
        for extension in self.extensions.learning:
            self.extensions.add_metrics(added, extension, extension.learn(batches.gather(indices)))
        parts: List[Tensor] = []  # terms of each part of the mini-batch; the gradients of the parts are added
        for rows in indices.tensor_split(max(1, math.ceil(len(indices) / self.acceleration.rows_at_once))):
            parts.append(self.add_gradients(batches.gather(rows), share, cfg, added))
        terms = torch.stack(parts).sum(dim=0)
        self._added = tuple(added)
        every = [terms, torch.ones_like(terms[:1])]
        for metric in added.values():
            every.append(metric.reshape(1))
        metrics = torch.cat(every)
        # Gradients and metrics become their means over the ranks, in place.
        num_unmasked = self.collective.weighted_mean((*self.optimizer.gradients, metrics), num_unmasked)
        terms = metrics[: len(terms)]
        if isinstance(cfg, SurrogateConfig) and cfg.schedule == "adaptive" and cfg.desired_kl is not None:
            kl = terms[self.term_names.index("kl")]
            self.learning_rate.copy_(adapt_learning_rate(self.learning_rate, kl, cfg.desired_kl))
        usable = terms.isfinite().all().logical_and(num_unmasked > 0)
        taken = self.optimizer.step_where_finite(usable)  # clips gradients too
        self.skips_in_row.add_(1.0).mul_(~taken)
        return torch.where(taken, metrics, 0.0)

    def add_gradients(self, batch: MiniBatch, share: Tensor, cfg: OnPolicyConfig, added: Dict[str, Tensor]) -> Tensor:
        """Add the gradient of the loss of a mini-batch, or of a part, to the parameters'; return the terms as a tensor.

        ``share`` is what a sample of weight 1 contributes to the mean; ``added`` takes the losses of extensions.
        """
        policy, extensions = self.policy, self.extensions
        with torch.enable_grad():
            for transform in self.transforms:
                batch = transform(batch)
            num_collected = batch.columns["sample_mask"].numel()
            for extension in extensions.transforming:
                batch = extension.transform(batch)
            share = share * (num_collected / batch.columns["sample_mask"].numel())
            distribution = policy.update_distribution(batch.groups, batch.masks, batch.hidden_states[0])
            values = None
            if self.with_values:
                values = policy.evaluate(batch.groups, batch.masks, batch.hidden_states[1])
                if isinstance(policy.value_normalizer, ValueNormalizer):
                    values = policy.value_normalizer.scaled(values)
            losses: Dict[str, Tensor] = {}
            for extension in extensions.with_losses:
                extensions.add_metrics(losses, extension, extension.losses(policy, batch))
            parameters = distribution.parameters
            detached = dict(zip(parameters, map(Tensor.detach, parameters.values())))
            policy.distribution = policy.family.of_parameters(detached)  # which frees the graph
            terms = self.backward(distribution, values, batch, batch.columns["sample_mask"] * share, cfg, losses)
        for name, loss in losses.items():
            if name in added or name in self.term_names:
                raise ValueError(f"an extension adds the loss '{name}', and this name is taken; rename it")
            added[name] = loss.detach()
        return terms

    @property
    def inference_policy(self) -> ActorCritic:
        """Policy to evaluate and to export: the average, if there is one."""
        return self.averages[0].policy if self.averages else self.policy

    def state_dict(self) -> Dict[str, Any]:
        """Return the state of policy, optimiser, extensions and average, for :class:`Algorithm`."""
        state = {
            "model_state_dict": self.policy.state_dict(),
            "optimizer_state_dict": self.optimizer.state_dict(),
            "learning_rate": float(self.learning_rate),
            "skips_in_row": float(self.skips_in_row),
            "extensions": self.extensions.state_dict(),
        }
        for average in self.averages:
            state["average"] = average.state_dict()
        return state

    def load_state_dict(self, state: Mapping[str, Any], load_optimizer: bool = True) -> None:
        """Load what :meth:`state_dict` returned, or the policy and its average alone."""
        self.policy.load_state_dict(state["model_state_dict"])
        for average in self.averages:
            average.load_state_dict(state.get("average"))
        if load_optimizer:
            self.optimizer.load_state_dict(state["optimizer_state_dict"])
            self.learning_rate.fill_(state.get("learning_rate", float(self.learning_rate)))
            self.skips_in_row.fill_(state.get("skips_in_row", 0.0))
            self.extensions.load_state_dict(state.get("extensions", {}))


def ppo_backward(
    distribution: Distribution,
    values: Optional[Tensor],
    batch: MiniBatch,
    weights: Tensor,
    cfg: PPOConfig,
    additional: Mapping[str, Tensor],
) -> Tensor:
    """Add the gradient of PPO's loss. ``acceleration`` has the same in closed form."""
    assert values is not None
    # the terms surrogate, in which the ratio of probabilities is clipped (losses.surrogate_loss), value, entropy and KL
    terms = ppo_terms(distribution, values, batch, weights, cfg)
    loss = terms.surrogate + cfg.value_loss_coef * terms.value - cfg.entropy_coef * terms.entropy
    for term in additional.values():
        loss = loss + term
    loss.backward()
    return torch.stack(terms).detach()


class PlainAdam(torch.optim.Adam):
    """PyTorch's Adam, which clips the gradient norm of each of ``groups`` and skips steps whose gradients are not
    finite.

    It has the interface of ``acceleration.FlatAdam``, and synchronises with the device at each step.
    """

    def __init__(
        self,
        parameters: Sequence[nn.Parameter],
        groups: Sequence[Sequence[nn.Parameter]],
        learning_rate: Tensor,
        max_grad_norm: float,
    ):
        super().__init__(list(parameters), lr=float(learning_rate))
        self._groups, self._learning_rate, self.max_grad_norm = groups, learning_rate, max_grad_norm

    @property
    def gradients(self) -> Sequence[Tensor]:
        """The gradients of the parameters that have one."""
        gradients: List[Tensor] = []
        for group in self._groups:
            for parameter in group:
                if parameter.grad is not None:
                    gradients.append(parameter.grad)
        return gradients

    def attach(self) -> None:
        """Do nothing: parameters may be replaced at any time."""

    def step_where_finite(self, usable: Tensor) -> Tensor:
        """Take a step if ``usable``, a bool, and every gradient is finite; return whether it was taken."""
        taken = usable
        for group in self._groups:
            norm = nn.utils.clip_grad_norm_(group, self.max_grad_norm)
            taken = taken.logical_and(norm.isfinite())
        if taken:  # sync
            self.param_groups[0]["lr"] = float(self._learning_rate)  # sync
            self.step()
        return taken

    def load_state_dict(self, state_dict: dict) -> None:
        super().load_state_dict(state_dict)
        self._learning_rate.fill_(float(self.param_groups[0]["lr"]))


class PolicyAverage:
    """The exponential average of a policy's weights over updates, to evaluate and export.

    The decay of update t is min(decay, (1 + t) / (10 + t)), so that the first weights have little influence.
    """

    def __init__(self, policy: ActorCritic, decay: float):
        self._trained, self._decay, self._num_updates = policy, decay, 0
        self.policy = policy.snapshot()

    @torch.no_grad()
    def update(self) -> None:
        """Add the current weights to the average."""
        self._num_updates += 1
        decay = min(self._decay, (1 + self._num_updates) / (10 + self._num_updates))
        for average, value in zip(self.policy.parameters(), self._trained.parameters()):
            average.lerp_(value, 1.0 - decay)
        for average, value in zip(self.policy.buffers(), self._trained.buffers()):
            average.copy_(value)

    def state_dict(self) -> Dict[str, Any]:
        """Return the average and the number of updates in it."""
        return {"num_updates": self._num_updates, "model_state_dict": self.policy.state_dict()}

    def load_state_dict(self, state: Optional[Mapping[str, Any]]) -> None:
        """Load what :meth:`state_dict` returned; None begins with the current weights."""
        state = state or {"num_updates": 0, "model_state_dict": self._trained.state_dict()}
        self._num_updates = int(state["num_updates"])
        self.policy.load_state_dict(state["model_state_dict"])


# Construction


class Parts(NamedTuple):
    """What an algorithm is made of."""

    policy: ActorCritic
    storage: RolloutStorage
    extensions: List[Extension]


def build_parts(
    cfg: LearnConfig,
    env: VecEnv,
    device: Union[str, torch.device],
    more_groups: Sequence[str] = (),
    more_columns: Mapping[str, Column] = {},
    storage_class: Callable[..., RolloutStorage] = RolloutStorage,
) -> Parts:
    """Build policy, storage and extensions of a config for an environment; ``more_groups`` and ``more_columns`` are
    stored beside what policy and extensions need."""
    obs = env.get_observations()
    policy = build_policy(cfg.policy, env, obs).to(device)
    extensions = [extension.build(env=env, policy=policy, device=device) for extension in cfg.extensions]
    together = Extensions(extensions)
    groups = group_specs(obs, (*policy.actor_model.groups, *policy.critic_model.groups, *together.groups, *more_groups))
    columns = {**together.columns, **more_columns}
    assert isinstance(cfg.algorithm, OnPolicyConfig)
    sizes = env.num_envs, cfg.runner.num_steps_per_env
    storage = build_storage(policy, cfg.algorithm, *sizes, groups, columns, storage_class)
    return Parts(policy, storage, extensions)


def value_scaling(policy: ActorCritic) -> List[BatchTransform]:
    """Return what scales the values and returns of a mini-batch to the critic's outputs, where these are normalised."""
    normalizer = policy.value_normalizer
    if not isinstance(normalizer, ValueNormalizer):
        return []

    def scale(batch: MiniBatch) -> MiniBatch:
        columns = batch.columns
        return batch.with_columns(
            values=normalizer.scaled(columns["values"]), returns=normalizer.scaled(columns["returns"])
        )

    return [scale]


def require_recomputable(policy: ActorCritic, cfg: ValueLearningConfig) -> None:
    """Raise a ValueError where advantages are to be estimated again and the values of single steps cannot be."""
    if cfg.recompute_advantages and policy.critic_model.memory is not None:
        raise ValueError(
            "algorithm.recompute_advantages=True is for critics without memory; set it to false, or "
            "policy.memory_of to ('actor',)"
        )
