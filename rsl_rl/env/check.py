"""Try an environment: its interface, what it breaks of the contract, how to change that, and how fast it is."""

from __future__ import annotations

import inspect
import time
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

import torch
from torch import Tensor

from rsl_rl.env.adapters import as_vec_env
from rsl_rl.env.contract import ContractError, Correction, find_corrections
from rsl_rl.env.vec_env import VecEnv
from rsl_rl.utils.registry import import_object, is_of_python, suggest
from rsl_rl.utils.text import one_line

_NO_ENVIRONMENT = ("None", "NoReturn", "bool", "int", "float", "str", "bytes", "list", "dict", "tuple", "Path")
"""Return types of functions that do something else; a function without a return type is called."""


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
    Gymnasium environment, of which eight instances are made.

    A source of another kind is a ValueError. Errors of the environment itself pass through.
    """
    name = source if isinstance(source, str) else getattr(source, "__qualname__", type(source).__name__)
    if isinstance(source, str):
        if ":" not in source or "/" in source:
            return _gymnasium_env(source)
        source = import_object(source)
    if hasattr(source, "step") and not isinstance(source, type):
        return source
    _require_factory(source, name)
    try:
        made = source()
    except SystemExit as stop:
        raise ValueError(f"{name} ends the process in place of returning an environment") from stop
    if not hasattr(made, "step"):
        raise ValueError(f"{name} returns a {type(made).__name__} without step(), which is not an environment")
    return made


def _require_factory(source: Any, name: str) -> None:
    """Raise a ValueError for what cannot be called to make an environment, without calling it."""
    if not callable(source):
        raise ValueError(f"a {type(source).__name__} is not an environment; give one, or a function that returns one")
    if isinstance(source, type) and not (hasattr(source, "step") or hasattr(source, "__getattr__")):
        raise ValueError(f"{name} is a class without step(); name the class of an environment, or a function")
    if inspect.isabstract(source):
        raise ValueError(f"{name} is an interface; name a class derived from it, or a function")
    if is_of_python(source):
        raise ValueError(f"{name} is a function of Python itself; name a function that returns an environment")
    try:
        signature = inspect.signature(source)
        signature.bind()
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"{name} cannot be called without arguments ({error}); name a function without arguments that returns the "
            "environment"
        ) from error
    returned = signature.return_annotation
    returned = returned if isinstance(returned, str) else getattr(returned, "__name__", str(returned))
    if returned in _NO_ENVIRONMENT:
        raise ValueError(f"{name} is declared to return {returned}; name a function that returns an environment")


def _gymnasium_env(name: str) -> Any:
    try:
        import gymnasium  # an optional package
    except ImportError as error:
        raise ValueError(f"{name} is not package.module:make_env, and an id of Gymnasium needs: {error}") from error
    if name.startswith(".") or (name not in gymnasium.registry and "/" not in name and ":" not in name):
        raise ValueError(
            f"Gymnasium knows no environment {name or repr(name)}; give package.module:make_env, or one of its ids."
            f"{suggest(name, gymnasium.registry)}"
        )
    try:
        return gymnasium.make_vec(name, num_envs=8)
    except (gymnasium.error.Error, ImportError) as error:
        raise ValueError(f"Gymnasium cannot make {name}: {one_line(str(error))}") from error


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
