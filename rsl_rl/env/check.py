"""Try an environment: its interface, what it breaks of the contract, how to change that, and how fast it is."""

from __future__ import annotations

import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from rsl_rl.env.adapters import as_vec_env
from rsl_rl.env.contract import ContractError, Correction, find_corrections
from rsl_rl.env.vec_env import VecEnv
from rsl_rl.utils.registry import import_object


class EnvReport(NamedTuple):
    """What :func:`check_env` found."""

    form: str  # how the environment was recognised
    num_envs: int
    num_actions: int
    groups: Dict[str, Tuple[int, ...]]  # shape of each observation group for one environment
    findings: List[Correction]
    error: str  # why no training is possible; empty if one is
    steps_per_s: float  # environment steps with constant actions, all instances counted

    def lines(self) -> List[str]:
        """Return the report for a reader."""
        shapes = ", ".join(f"{name} {list(shape)}" for name, shape in self.groups.items())
        head = (
            f"{self.form}; {self.num_envs} instances, {self.num_actions} actions, observations: {shapes or 'unknown'}"
        )
        if self.error:
            return [head, f"error: {self.error}"]
        found = [line for finding in self.findings for line in (finding.sentence, f"    change: {finding.remedy}")]
        speed = f"{self.steps_per_s:,.0f} environment steps per second without a policy"
        return [head, *(found or ["nothing to correct"]), speed]


def load_env(source: Any) -> Any:
    """Return the environment that ``source`` is, makes when called, or names: "package.module:make_env", or the id of a
    Gymnasium environment, of which eight instances are made."""
    if isinstance(source, str):
        source = import_object(source) if ":" in source and "/" not in source else _gymnasium_env(source)
    if hasattr(source, "step") and not isinstance(source, type):
        return source
    if not callable(source):
        raise ValueError(f"a {type(source).__name__} is not an environment; give one, or a function that returns one")
    return source()


def _gymnasium_env(name: str) -> Any:
    import gymnasium  # an optional package

    return gymnasium.make_vec(name, num_envs=8)


def check_env(source: Any, num_steps: int = 100) -> EnvReport:
    """Check an environment of an interface that ``as_vec_env`` knows against the contract, and time it for
    ``num_steps`` control steps.

    ``source`` is the environment, a function that makes it, or a text; see :func:`load_env`. An environment of an
    unknown interface is a TypeError.
    """
    env = as_vec_env(load_env(source))
    form = getattr(type(env), "form", type(env).__name__)
    sizes = getattr(env, "num_envs", 0), getattr(env, "num_actions", 0)
    obs = env.get_observations()
    groups = {str(name): tuple(obs[name].shape[1:]) for name in obs.keys()}  # noqa: SIM118
    report = EnvReport(form, *sizes, groups, [], "", 0.0)
    actions = _constant_actions(env)
    try:
        findings = find_corrections(env, actions=actions, groups=())
    except ContractError as error:
        return report._replace(error=str(error))
    return report._replace(findings=findings, steps_per_s=_speed(env, actions, num_steps))


def _constant_actions(env: VecEnv) -> Optional[Tensor]:
    """Return actions [N, A] of zeros, or the first choice [N, 1] of an environment with discrete actions."""
    space = getattr(env, "single_action_space", None)
    if type(space).__name__ == "Discrete":
        return torch.zeros(env.num_envs, 1, dtype=torch.int64, device=env.device)
    return None


@torch.no_grad()
def _speed(env: VecEnv, actions: Optional[Tensor], num_steps: int) -> float:
    if actions is None:
        actions = torch.zeros(env.num_envs, env.num_actions, device=env.device)
    began = time.perf_counter()
    for _ in range(num_steps):
        reward = env.step(actions.clone())[1]
    reward.sum().item()  # sync, so that the time is complete
    return num_steps * env.num_envs / (time.perf_counter() - began)
