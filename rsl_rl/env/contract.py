"""Check an environment against the VecEnv contract before training starts."""

from __future__ import annotations

import inspect
import math
import numbers
import re
from typing import Any, Dict, List, Mapping, Optional

import torch
from torch import Tensor

from rsl_rl.env.vec_env import StepResult, VecEnv
from rsl_rl.utils.plain import require_plain

_ATTRIBUTES = ("num_envs", "num_actions", "max_episode_length", "device")


class ContractError(ValueError):
    """An environment that PPO cannot learn from; the message lists every broken promise and its remedy."""


def check_vec_env(env: VecEnv, num_steps: int = 3) -> List[str]:
    """Step an environment with zero actions and compare what it gives with what VecEnv promises.

    Returns what is off but will be corrected on the way in, one sentence each: done as float or integers, columns [N,
    1] for [N], missing time_outs, time_outs where nothing ended. Raises :class:`ContractError` for what cannot be
    corrected; what the environment itself raises passes through. The environment ends ``num_steps`` further on.
    """
    missing = [name for name in _ATTRIBUTES if not hasattr(env, name)]
    if missing:
        raise ContractError(f"{type(env).__name__} has no {', '.join(missing)}; set these attributes (see VecEnv)")
    report = _Report(env)
    report.attributes()
    report.finish()
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
    report.state()
    report.finish()
    return report.corrections


def can_reset_some(env: VecEnv) -> bool:
    """Tell whether the first thing that ``env.reset`` takes are the indices of the environments to start anew.

    A parameter is taken for them by its name, such as env_ids or indices: Gymnasium's is a seed.
    """
    reset = getattr(env, "reset", None)
    if not callable(reset) or getattr(reset, "__func__", None) is VecEnv.reset:
        return False
    names = list(inspect.signature(reset).parameters)
    return bool(names) and re.search(r"(^|_)(ids?|idx|indices)$", names[0]) is not None


def standardize_step(result: StepResult) -> StepResult:
    """Bring a step that :func:`check_vec_env` accepted into the promised form: reward [N] float, done [N] bool."""
    obs, reward, done, extras = result
    num_envs = len(reward)
    return StepResult(obs, reward.reshape(num_envs).to(torch.float32), done.reshape(num_envs).bool(), extras)


class _Report:
    """Collects what is wrong, each sentence once."""

    def __init__(self, env: VecEnv):
        self.env = env
        self.num_envs = env.num_envs  # of the start; it must not change
        self.errors: List[str] = []
        self.corrections: List[str] = []
        self.groups: Optional[Dict[str, torch.Size]] = None
        self.causes: Optional[List[str]] = None

    def error(self, sentence: str) -> None:
        if sentence not in self.errors:
            self.errors.append(sentence)

    def correct(self, sentence: str) -> None:
        if sentence not in self.corrections:
            self.corrections.append(sentence)

    def finish(self) -> None:
        if self.errors:
            raise ContractError(f"{type(self.env).__name__} breaks the VecEnv contract: " + "; ".join(self.errors))

    def attributes(self) -> None:
        """Numbers that are whole and positive, a device that torch knows, ages [N] in whole steps."""
        env = self.env
        for name in ("num_envs", "num_actions"):
            value = getattr(env, name)
            if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
                self.error(f"{name}={value!r}; give a whole number of at least 1")
        try:
            torch.device(env.device)
        except (RuntimeError, TypeError):
            self.error(f"device={env.device!r} is no device; give 'cpu', 'cuda' or 'cuda:<index>'")
        if self.errors:
            return
        limit = env.max_episode_length
        if isinstance(limit, Tensor):
            if limit.shape not in ((), (env.num_envs,)) or not (limit.isfinite() & (limit > 0)).all():
                self.error(f"max_episode_length is a tensor {list(limit.shape)}; give one positive number, or one each")
        elif isinstance(limit, bool) or not isinstance(limit, numbers.Real) or not 0 < limit < math.inf:
            self.error(f"max_episode_length={limit!r}; give a positive number of control steps, or a tensor of them")
        ages = getattr(env, "episode_length_buf", None)
        if ages is not None and self.column(ages, "episode_length_buf", columns=False) and not _is_whole(ages):
            self.error(f"episode_length_buf is {_dtype(ages)}; count control steps in int64")

    def state(self) -> None:
        """Something that a checkpoint can hold, where there is a state_dict."""
        state_dict = getattr(self.env, "state_dict", None)
        if callable(state_dict):
            try:
                require_plain(state_dict(), "state_dict()")
            except ValueError as error:
                self.error(str(error))

    def observations(self, obs: Any, source: str) -> None:
        """Groups [N, ...] of finite floats on the environment's device, the same ones every time."""
        if not _is_groups(obs):
            alone = ", and nothing beside it" if isinstance(obs, tuple) else ""
            self.error(
                f"{source} gives a {type(obs).__name__}; return a dict of groups, such as {{'policy': obs}}{alone}"
            )
            return
        if "policy" not in obs.keys():  # noqa: SIM118 - a TensorDict's `in` looks at values
            names = sorted(map(str, obs.keys()))
            self.error(f"{source} gives the groups {names} without 'policy'; name the actor's group 'policy'")
        shapes = {}
        for name in obs.keys():  # noqa: SIM118
            if self.tensor(obs[name], f"{source}['{name}']", floating=True):
                shapes[str(name)] = obs[name].shape
                self.finite(torch.isfinite(obs[name]).reshape(self.num_envs, -1).all(dim=1), f"{source}['{name}']")
        if self.groups is not None and shapes != self.groups and not self.errors:
            self.error(f"{source} gives {_sizes(shapes)} after {_sizes(self.groups)}; keep groups and shapes the same")
        self.groups = shapes

    def final_observations(self, final: Any, obs: Mapping[str, Tensor], done: Tensor) -> None:
        """The groups of ``obs``, or the critic's alone as one tensor, that hold numbers where an episode ended; other
        rows may hold anything."""
        if not isinstance(final, Tensor) and not _is_groups(final):
            self.error(f"extras['final_obs'] is a {type(final).__name__}; give groups like those of step().obs")
            return
        groups = {"": final} if isinstance(final, Tensor) else {name: final[name] for name in final.keys()}  # noqa: SIM118
        missing = [] if isinstance(final, Tensor) else [str(name) for name in obs.keys() if name not in groups]  # noqa: SIM118
        if missing:
            self.error(
                f"extras['final_obs'] has no {', '.join(missing)}; give every group of step().obs, or leave it out"
            )
        for name, group in groups.items():
            label = f"extras['final_obs']['{name}']" if name else "extras['final_obs']"
            if not self.tensor(group, label, floating=True):
                continue
            if name in obs.keys() and obs[name].dim() > 1 and group.shape != obs[name].shape:  # noqa: SIM118
                self.error(f"{label} has the shape {list(group.shape)}; give {list(obs[name].shape)}, like step().obs")
            elif not torch.isfinite(group[done]).all():
                self.error(f"{label} holds values that are not finite where an episode ended")

    def step(self, result: Any) -> None:
        if not isinstance(result, (tuple, list)) or len(result) != 4:
            self.error(_other_order(result))
            return
        obs, reward, done, extras = result
        self.observations(obs, "step().obs")
        self.column(reward, "reward", floating=True)
        self.flags(done, "done", "whether each episode ended")
        if not isinstance(extras, Mapping):
            self.error(f"extras is a {type(extras).__name__}; return a fresh dict every step")
            return
        if "time_outs" not in extras:
            self.correct("extras has no time_outs; every done counts as a failure, none as cut off by the clock")
        else:
            self.flags(extras["time_outs"], "extras['time_outs']", "whether the clock ended each episode")
        if not self.errors:
            self.extras(extras, obs, reward, done.reshape(self.num_envs).bool())

    def extras(self, extras: Mapping[str, Any], obs: Mapping[str, Tensor], reward: Tensor, done: Tensor) -> None:
        """What depends on where episodes ended, and on what broke there; and what the loggers get."""
        broken = self.invalid(extras.get("invalid", {}), done)
        self.finite(torch.isfinite(reward.reshape(self.num_envs)) | broken, "reward")
        if "time_outs" in extras and (extras["time_outs"].reshape(self.num_envs).bool() & ~done).any():
            self.correct("extras['time_outs'] is set where done is not; it counts only where both are")
        if "final_obs" in extras:
            self.final_observations(extras["final_obs"], obs, done & ~broken)
        for name in ("log", "episode"):
            self.log(extras.get(name, {}), f"extras['{name}']")

    def invalid(self, causes: Any, done: Tensor) -> Tensor:
        """Names of causes, each with the rows [N] bool that nobody may learn from, all of them done; return their
        union."""
        union = torch.zeros_like(done)
        if not isinstance(causes, Mapping):
            self.error(f"extras['invalid'] is a {type(causes).__name__}; give a dict from causes to [N] bool")
            return union
        names = sorted(map(str, causes))
        if self.causes not in (None, names):
            self.error(f"extras['invalid'] names {names} after {self.causes}; name the same causes in every step")
        self.causes = names
        for cause, rows in causes.items():
            label = f"extras['invalid'][{cause!r}]"
            if not isinstance(cause, str):
                self.error(f"{label} is named by a {type(cause).__name__}; name the cause by a text")
            elif not self.column(rows, label, columns=False):
                continue
            elif rows.dtype != torch.bool:
                self.error(f"{label} is {_dtype(rows)}; give bool")
            elif (rows & ~done).any():
                self.error(f"{label} is set where done is not; reset what broke, and set done for it")
            else:
                union = union | rows
        return union

    def log(self, log: Any, label: str) -> None:
        if not isinstance(log, Mapping):
            self.error(f"{label} is a {type(log).__name__}; give a dict of numbers or tensors")
            return
        for name, value in log.items():
            try:
                torch.as_tensor(value, dtype=torch.float32)
            except (TypeError, ValueError, RuntimeError):
                self.error(f"{label}[{name!r}] is a {type(value).__name__}; give a number or a tensor of numbers")

    def finite(self, rows: Tensor, name: str) -> None:
        """Numbers in all rows [N]; training leaves out a few without, but cannot do without all."""
        broken = int((~rows).sum())
        if broken == self.num_envs:
            self.error(f"{name} holds values that are not finite in every environment; repair the term behind them")
        elif broken:
            self.correct(
                f"{name} holds values that are not finite in {broken} of {self.num_envs} environments; such steps are "
                "left out of learning"
            )

    def flags(self, x: Any, name: str, meaning: str) -> None:
        """Yes or no per environment; numbers 0 and 1 are corrected."""
        if self.column(x, name) and x.dtype != torch.bool:
            self.correct(f"{name} is {_dtype(x)}; it is read as bool")
            if not ((x == 0) | (x == 1)).all():
                self.error(f"{name} holds values other than 0 and 1; return {meaning}")

    def column(self, x: Any, name: str, floating: bool = False, columns: bool = True) -> bool:
        """One number per environment: [N], or with ``columns`` [N, 1] to be corrected."""
        if not self.tensor(x, name, floating):
            return False
        if columns and x.shape == (self.num_envs, 1):
            self.correct(f"{name} has the shape {list(x.shape)}; it is read as [{self.num_envs}]")
        elif x.shape != (self.num_envs,):
            self.error(f"{name} has the shape {list(x.shape)}; give one number per environment, [{self.num_envs}]")
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
        elif x.dim() == 0 or x.shape[0] != self.num_envs:
            self.error(f"{name} has the shape {list(x.shape)}; its first dimension must be num_envs={self.num_envs}")
        elif floating and not x.is_floating_point():
            self.error(f"{name} is {_dtype(x)}; give floating-point numbers")
        else:
            return True
        return False


def _other_order(result: Any) -> str:
    """Say how the results of other interfaces become a StepResult."""
    several = isinstance(result, (tuple, list))
    got = f"{len(result)} values" if several else f"a {type(result).__name__}"
    others = (
        ": legged_gym's (obs, privileged_obs, reward, done, extras) becomes "
        "({'policy': obs, 'critic': privileged_obs}, reward, done, extras); "
        "of Gymnasium's terminated and truncated, either is done, the second is time_outs"
    )
    five = others if several and len(result) == 5 else ""
    return f"step() gives {got}; return StepResult(obs, reward, done, extras){five}"


def _is_groups(obs: Any) -> bool:
    return isinstance(obs, Mapping) or hasattr(obs, "keys")


def _is_whole(x: Tensor) -> bool:
    return not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)


def _dtype(x: Tensor) -> str:
    return str(x.dtype).replace("torch.", "")


def _sizes(shapes: Mapping[str, torch.Size]) -> str:
    return "{" + ", ".join(f"{name}: {list(shape)}" for name, shape in sorted(shapes.items())) + "}"
