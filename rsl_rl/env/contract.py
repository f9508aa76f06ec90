"""Check an environment against the VecEnv contract before training starts."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional

import torch
from torch import Tensor

from rsl_rl.env.vec_env import StepResult, VecEnv

_ATTRIBUTES = ("num_envs", "num_actions", "max_episode_length", "device")


class ContractError(ValueError):
    """An environment that PPO cannot learn from; the message lists every broken promise and its remedy."""


def check_vec_env(env: VecEnv, num_steps: int = 3) -> List[str]:
    """Step an environment with zero actions and compare what it gives with what VecEnv promises.

    Returns what is off but will be corrected on the way in, one sentence each: done as float or integers, columns [N,
    1] for [N], missing time_outs. Raises :class:`ContractError` for what cannot be corrected. The environment ends
    ``num_steps`` further on.
    """
    missing = [name for name in _ATTRIBUTES if not hasattr(env, name)]
    if missing:
        raise ContractError(f"{type(env).__name__} has no {', '.join(missing)}; set these attributes (see VecEnv)")
    report = _Report(env)
    report.observations(env.get_observations(), "get_observations()")
    previous_extras: Optional[Dict[str, Any]] = None
    for _ in range(num_steps):
        result = env.step(torch.zeros(env.num_envs, env.num_actions, device=env.device))
        report.step(result)
        if report.errors:
            break
        if result[3] is previous_extras and "time_outs" in result[3]:
            report.correct(
                "extras is the same dict every step, so its time_outs may be stale: they count only where done is set"
            )
        previous_extras = result[3]
    if report.errors:
        raise ContractError(f"{type(env).__name__} breaks the VecEnv contract: " + "; ".join(report.errors))
    return report.corrections


def standardize_step(result: StepResult) -> StepResult:
    """Bring a step that :func:`check_vec_env` accepted into the promised form: reward [N] float, done [N] bool, own
    copies."""
    obs, reward, done, extras = result
    num_envs = len(reward)
    return StepResult(obs, reward.reshape(num_envs).to(torch.float32), done.reshape(num_envs).bool(), extras)


class _Report:
    """Collects what is wrong, each sentence once."""

    def __init__(self, env: VecEnv):
        self.env = env
        self.errors: List[str] = []
        self.corrections: List[str] = []
        self.groups: Optional[Dict[str, torch.Size]] = None

    def error(self, sentence: str) -> None:
        if sentence not in self.errors:
            self.errors.append(sentence)

    def correct(self, sentence: str) -> None:
        if sentence not in self.corrections:
            self.corrections.append(sentence)

    def observations(self, obs: Any, source: str) -> None:
        """Groups [N, ...] of finite floats on the environment's device, the same ones every time."""
        if not isinstance(obs, Mapping) and not hasattr(obs, "keys"):
            self.error(f"{source} gives a {type(obs).__name__}; return a dict of groups, such as {{'policy': obs}}")
            return
        if "policy" not in obs.keys():  # noqa: SIM118 - a TensorDict's `in` looks at values
            self.error(
                f"{source} gives the groups {sorted(obs.keys())} without 'policy'; name the actor's group 'policy'"
            )
        shapes = {}
        for name in obs.keys():  # noqa: SIM118
            if self.tensor(obs[name], f"{source}['{name}']", floating=True):
                shapes[name] = obs[name].shape
                if not torch.isfinite(obs[name]).all():
                    self.error(
                        f"{source}['{name}'] holds values that are not finite; repair the term that computes them"
                    )
        if self.groups is not None and shapes != self.groups and not self.errors:
            self.error(f"{source} gives {_sizes(shapes)} after {_sizes(self.groups)}; keep groups and shapes the same")
        self.groups = shapes

    def final_observations(self, obs: Any, done: Tensor) -> None:
        """Groups, or one tensor, that hold numbers where an episode ended; other rows may hold anything."""
        groups = {"": obs} if isinstance(obs, Tensor) else obs
        if not isinstance(groups, Mapping) and not hasattr(groups, "keys"):
            self.error(f"extras['final_obs'] is a {type(obs).__name__}; give groups like those of step().obs")
            return
        for name in groups.keys():  # noqa: SIM118
            label = f"extras['final_obs']['{name}']"
            if self.tensor(groups[name], label, floating=True) and not torch.isfinite(groups[name][done]).all():
                self.error(f"{label} holds values that are not finite where an episode ended")

    def step(self, result: Any) -> None:
        if not isinstance(result, (tuple, list)) or len(result) != 4:
            got = f"{len(result)} values" if isinstance(result, (tuple, list)) else f"a {type(result).__name__}"
            self.error(f"step() gives {got}; return StepResult(obs, reward, done, extras)")
            return
        obs, reward, done, extras = result
        self.observations(obs, "step().obs")
        if self.column(reward, "reward", floating=True) and not torch.isfinite(reward).all():
            self.error("reward holds values that are not finite; repair the term that computes them")
        if self.column(done, "done") and done.dtype != torch.bool:
            self.correct(f"done is {_dtype(done)}; it is read as bool")
            if not ((done == 0) | (done == 1)).all():
                self.error("done holds values other than 0 and 1; return whether each episode ended")
        if not isinstance(extras, Mapping):
            self.error(f"extras is a {type(extras).__name__}; return a fresh dict every step")
            return
        if "time_outs" not in extras:
            self.correct("extras has no time_outs; every done counts as a failure, none as cut off by the clock")
        elif self.column(extras["time_outs"], "extras['time_outs']") and extras["time_outs"].dtype != torch.bool:
            self.correct(f"extras['time_outs'] is {_dtype(extras['time_outs'])}; it is read as bool")
        if "final_obs" in extras and not self.errors:
            self.final_observations(extras["final_obs"], done.reshape(self.env.num_envs).bool())

    def column(self, x: Any, name: str, floating: bool = False) -> bool:
        """One number per environment: [N], or [N, 1] to be corrected."""
        if not self.tensor(x, name, floating):
            return False
        if x.shape == (self.env.num_envs, 1):
            self.correct(f"{name} has the shape {list(x.shape)}; it is read as [{self.env.num_envs}]")
        elif x.shape != (self.env.num_envs,):
            self.error(f"{name} has the shape {list(x.shape)}; give one number per environment, [{self.env.num_envs}]")
            return False
        return True

    def tensor(self, x: Any, name: str, floating: bool = False) -> bool:
        """A tensor with N rows on the environment's device."""
        if not isinstance(x, Tensor):
            self.error(f"{name} is a {type(x).__name__}; give a torch tensor")
        elif x.device.type != torch.device(self.env.device).type:
            self.error(
                f"{name} lies on {x.device} and env.device is {self.env.device}; keep every tensor on env.device"
            )
        elif x.dim() == 0 or x.shape[0] != self.env.num_envs:
            self.error(
                f"{name} has the shape {list(x.shape)}; its first dimension must be num_envs={self.env.num_envs}"
            )
        elif floating and not x.is_floating_point():
            self.error(f"{name} is {_dtype(x)}; give floating-point numbers")
        else:
            return True
        return False


def _dtype(x: Tensor) -> str:
    return str(x.dtype).replace("torch.", "")


def _sizes(shapes: Mapping[str, torch.Size]) -> str:
    return "{" + ", ".join(f"{name}: {list(shape)}" for name, shape in sorted(shapes.items())) + "}"
