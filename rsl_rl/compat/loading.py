"""Checkpoints of any version for an algorithm that is there: which parts, and how they fit its network."""

from __future__ import annotations

import math
from typing import Any, Dict, Mapping, Optional

import torch

from rsl_rl.algorithms.algorithm import Algorithm
from rsl_rl.compat.checkpoints import to_native
from rsl_rl.compat.distillation import LaterTeacherDistillation, fitted_distillation
from rsl_rl.compat.model_policy import ModelPolicy, native_weights
from rsl_rl.modules.actor_critic import ActorCritic
from rsl_rl.modules.networks import CRITIC_PARTS


def wants(load_cfg: Optional[Mapping[str, bool]], part: str) -> bool:
    """Return whether a part of a checkpoint is to be loaded; None stands for all."""
    return True if load_cfg is None else bool(load_cfg.get(part, False))


def fitted(state: Any, alg: Algorithm, load_cfg: Optional[Mapping[str, bool]] = None, strict: bool = True) -> Any:
    """Return what a file holds as a checkpoint for an algorithm.

    Of networks that ``load_cfg`` leaves out, and without ``strict`` of tensors that the file lacks, the present values
    are taken.
    """
    if isinstance(alg, LaterTeacherDistillation):
        return fitted_distillation(state, alg)
    native = _of_models(state) if isinstance(alg.policy, ModelPolicy) else to_native(state)
    if not isinstance(native, dict) or "model_state_dict" not in native:
        return native
    weights: Dict[str, Any] = dict(native["model_state_dict"])
    if "format" not in native:
        weights = shift_std(weights, alg.policy, -1)
        _fit_optimizer(native, alg)
    if load_cfg is not None or not strict:
        present = alg.policy.state_dict()
        for name, value in present.items():
            part = "critic" if name.startswith(CRITIC_PARTS) else "actor"
            if not wants(load_cfg, part) or (not strict and name not in weights):
                weights[name] = value
        if not strict:
            weights = {name: value for name, value in weights.items() if name in present}
    return {**native, "model_state_dict": weights}


def _of_models(state: Any) -> Any:
    """Return a file of rsl_rl 5 with a client's networks as a checkpoint; others as they are."""
    if not isinstance(state, dict) or "actor_state_dict" not in state:
        return state
    kept = ("iter", "infos", "optimizer_state_dict")
    return {"model_state_dict": native_weights(state), **{key: state[key] for key in kept if key in state}}


def _fit_optimizer(state: Dict[str, Any], alg: Algorithm) -> None:
    """Add the parameters of extensions, which a file of another version has elsewhere."""
    optimizer = getattr(alg, "optimizer", None)
    if optimizer is not None and "optimizer_state_dict" in state:
        size = len(optimizer.param_groups[0]["params"])
        state["optimizer_state_dict"]["param_groups"][0]["params"] = list(range(size))


def shift_std(weights: Mapping[str, Any], policy: ActorCritic, sign: int) -> Dict[str, Any]:
    """Return weights with the last bias of a policy whose standard deviation depends on the state where others have it
    (``sign`` 1), or back where we have it (-1): ours is relative to the deviation of the start."""
    cfg = policy.cfg
    if not cfg.state_dependent_std or isinstance(policy, ModelPolicy):
        return dict(weights)
    name = f"actor.{len(policy.actor) - 1}.bias"
    bias = torch.clone(weights[name])
    first = math.log(cfg.init_noise_std) if cfg.noise_std_type == "log" else cfg.init_noise_std
    bias[len(bias) // 2 :] += sign * first
    return {**weights, name: bias}
