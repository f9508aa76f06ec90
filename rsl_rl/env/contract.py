"""Check an environment against the VecEnv contract before training starts."""

from __future__ import annotations

import math
import numbers
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from rsl_rl.env.protocols import Checkpointable, supports
from rsl_rl.env.vec_env import StepResult, VecEnv, is_groups
from rsl_rl.utils.checkpoints import check_serializable
from rsl_rl.utils.tensors import as_numbers, describe_unusable

_ATTRIBUTES = ("num_envs", "num_actions", "max_episode_length", "device")
_LARGEST = {"num_envs": 100_000_000, "num_actions": 100_000}


class ContractError(ValueError):
    """An environment that PPO cannot learn from; the message lists every violation and its remedy."""


class Correction(NamedTuple):
    """A violation that the runner corrects, and the line that makes the correction unnecessary."""

    sentence: str
    remedy: str


def check_vec_env(
    env: VecEnv, num_steps: int = 3, actions: Optional[Tensor] = None, groups: Sequence[str] = ("policy",)
) -> List[str]:
    """Step an environment and check that it keeps the VecEnv contract and has the observation ``groups``.

    ``actions`` are applied in every step; without them the actions are zeros [N, A] float. An environment with discrete
    actions needs them, as int64 [N, 1] for example. The environment is left ``num_steps`` further on.

    Return the violations that the runner corrects, one sentence each: done as float or integers, columns [N, 1] for
    [N], missing time_outs, time_outs where no episode ended. Raise a :class:`ContractError` for violations that cannot
    be corrected. Errors of the environment itself pass through.
    """
    return [correction.sentence for correction in find_corrections(env, num_steps, actions, groups)]


def find_corrections(
    env: VecEnv, num_steps: int = 3, actions: Optional[Tensor] = None, groups: Sequence[str] = ("policy",)
) -> List[Correction]:
    """Do what :func:`check_vec_env` does, and return the remedies too."""
    require_attributes(env)
    report = _ContractChecks(env, groups)
    report.observations(env.get_observations(), "get_observations()")
    previous_extras: Optional[Dict[str, Any]] = None
    if actions is None:
        actions = torch.zeros(env.num_envs, env.num_actions, device=env.device)
    for _ in range(num_steps):
        result = env.step(actions.clone())  # the environment may write to its argument
        report.step(result)
        if report.errors:
            break
        if result[3] is previous_extras and "time_outs" in result[3]:
            report.correct(
                "extras is the same dict every step, so its time_outs may be stale: they count only where done is set",
                'extras = {"time_outs": timed_out}  # a new dict in every step',
            )
        previous_extras = result[3]
    report.state()
    report.finish()
    return report.corrections


def require_attributes(env: VecEnv) -> None:
    """Raise a :class:`ContractError` for attributes that are missing or cannot be."""
    missing = [name for name in _ATTRIBUTES if not hasattr(env, name)]
    if missing:
        raise ContractError(f"{type(env).__name__} has no {', '.join(missing)}; set these attributes (see VecEnv)")
    report = _ContractChecks(env, ())
    report.attributes()
    report.finish()


def unpack_step(result: Any, num_envs: int) -> StepResult:
    """Return the result of a step; a part of another kind or size than promised is a :class:`ContractError`.

    Values are not read, so that nothing synchronises with the device.
    """
    obs, reward, done, extras = four_of(result)
    if not isinstance(extras, Mapping):
        raise ContractError(f"extras is a {type(extras).__name__} in this step; return a fresh dict every step")
    require_column(reward, "reward", num_envs)
    require_column(done, "done", num_envs)
    if "time_outs" in extras:
        require_column(extras["time_outs"], "extras['time_outs']", num_envs)
    return StepResult(obs, reward, done, extras)  # type: ignore[arg-type]  # any mapping will do


def four_of(result: Any) -> Tuple[Any, Any, Any, Any]:
    """Return the four parts of a step's result; a result of another form is a :class:`ContractError`."""
    if not isinstance(result, (tuple, list)) or len(result) != 4:
        raise ContractError(_other_order(result))
    return result[0], result[1], result[2], result[3]


def require_column(x: Any, name: str, num_envs: int) -> None:
    """Raise a :class:`ContractError` unless x is one real number per environment, [N] or [N, 1]."""
    unusable = describe_unusable(x, num_envs)
    if unusable:
        raise ContractError(f"{name} {unusable} in every step")


def require_mask(x: Any, name: str, num_envs: int) -> None:
    """Raise a :class:`ContractError` unless x is one bool per environment, [N]."""
    require_column(x, name, num_envs)
    if x.dtype != torch.bool or x.dim() != 1:
        given = f"{_dtype_name(x)} {list(x.shape)}"
        raise ContractError(f"{name} is {given} in this step; give bool [{num_envs}] in every step")


def standardize_step(result: Any, num_envs: int) -> StepResult:
    """Convert a step that :func:`check_vec_env` accepted to the promised form: reward [N] float, done [N] bool."""
    obs, reward, done, extras = unpack_step(result, num_envs)
    return StepResult(obs, reward.reshape(num_envs).to(torch.float32), done.reshape(num_envs).bool(), extras)


class _ContractChecks:
    """Check attributes, observations, steps and state of an environment, and collect its violations."""

    def __init__(self, env: VecEnv, required: Sequence[str]):
        self.env = env
        self.num_envs = env.num_envs  # at the start; it must not change
        self.required = required
        self.groups: Optional[Dict[str, torch.Size]] = None
        self.causes: Optional[List[str]] = None
        self.errors: List[str] = []
        self.corrections: List[Correction] = []

    def attributes(self) -> None:
        """Check sizes, device, episode limit and episode lengths [N]."""
        env = self.env
        for name in ("num_envs", "num_actions"):
            value = getattr(env, name)
            if (
                isinstance(value, bool)
                or not isinstance(value, numbers.Integral)
                or not 1 <= int(value) <= _LARGEST[name]
            ):
                self.error(f"{name}={value!r}; give a whole number from 1 to {_LARGEST[name]}")
        try:
            torch.device(env.device)
        except (RuntimeError, TypeError):
            self.error(f"device={env.device!r} is not a device; give 'cpu', 'cuda' or 'cuda:<index>'")
        if self.errors:
            return
        limit = env.max_episode_length
        if isinstance(limit, Tensor):
            unusable = describe_unusable(limit)
            if unusable:
                self.error(f"max_episode_length {unusable}")
            elif limit.shape not in ((), (env.num_envs,)) or not (limit.isfinite() & (limit > 0)).all():
                self.error(f"max_episode_length is a tensor {list(limit.shape)}; give one positive number, or one each")
        elif isinstance(limit, bool) or not isinstance(limit, numbers.Real) or not 0 < limit < math.inf:
            self.error(f"max_episode_length={limit!r}; give a positive number of control steps, or a tensor of them")
        ages = getattr(env, "episode_length_buf", None)
        if ages is not None and self.column(ages, "episode_length_buf") and not _is_integer(ages):
            self.error(f"episode_length_buf is {_dtype_name(ages)}; count control steps in int64")

    def state(self) -> None:
        """Check that the state of a Checkpointable environment can be saved."""
        if supports(self.env, Checkpointable):
            try:
                check_serializable(self.env.state_dict(), "state_dict()")
            except ValueError as error:
                self.error(str(error))

    def observations(self, obs: Any, source: str) -> None:
        """Check for groups [N, ...] of any real dtype, whose names and shapes stay the same; floats must be finite."""
        if not is_groups(obs):
            alone = ", and nothing beside it" if isinstance(obs, tuple) else ""
            self.error(
                f"{source} gives a {type(obs).__name__}; return a dict of groups, such as {{'policy': obs}}{alone}"
            )
            return
        names = sorted(map(str, obs.keys()))
        for group in (group for group in self.required if group not in names):
            self.error(f"{source} gives the groups {names} without '{group}'; name the actor's group '{group}'")
        shapes = {}
        for name in obs.keys():  # noqa: SIM118
            if self.tensor(obs[name], f"{source}['{name}']"):
                shapes[str(name)] = obs[name].shape
                if obs[name].numel() == 0 and (name in self.required or not self.required):
                    self.error(f"{source}['{name}'] has the shape {list(obs[name].shape)}; give at least one number")
                self.finite(torch.isfinite(obs[name]).reshape(self.num_envs, -1).all(dim=1), f"{source}['{name}']")
        if self.groups is not None and shapes != self.groups and not self.errors:
            self.error(f"{source} gives {_sizes(shapes)} after {_sizes(self.groups)}; keep groups and shapes the same")
        self.groups = shapes

    def final_observations(self, final: Any, obs: Mapping[str, Tensor], done: Tensor) -> None:
        """Check for the groups of ``obs``. Values must be finite where an episode ended; other rows may hold
        anything."""
        if not is_groups(final):
            self.error(f"extras['final_obs'] is a {type(final).__name__}; give groups like those of step().obs")
            return
        groups = {name: final[name] for name in final.keys()}  # noqa: SIM118
        missing = [str(name) for name in obs.keys() if name not in groups]  # noqa: SIM118
        if missing:
            self.error(
                f"extras['final_obs'] has no {', '.join(missing)}; give every group of step().obs, or leave it out"
            )
        for name, group in groups.items():
            label = f"extras['final_obs']['{name}']"
            if not self.tensor(group, label):
                continue
            if name in obs.keys() and obs[name].dim() > 1 and group.shape != obs[name].shape:  # noqa: SIM118
                self.error(f"{label} has the shape {list(group.shape)}; give {list(obs[name].shape)}, like step().obs")
            elif not torch.isfinite(group[done]).all():
                self.error(f"{label} holds values that are not finite where an episode ended")

    def step(self, result: Any) -> None:
        """Check the result of a step."""
        if not isinstance(result, (tuple, list)) or len(result) != 4:
            self.error(_other_order(result))
            return
        obs, reward, done, extras = result
        self.observations(obs, "step().obs")
        self.column(reward, "reward", "reward", floating=True)
        self.flags(done, "done", "done", "whether each episode ended")
        if not isinstance(extras, Mapping):
            self.error(f"extras is a {type(extras).__name__}; return a fresh dict every step")
            return
        if "time_outs" not in extras:
            self.correct(
                "extras has no time_outs; every done counts as a failure, none as a time-out",
                'extras["time_outs"] = self.episode_length_buf >= self.max_episode_length  # [N] bool',
            )
        else:
            meaning = "whether the time limit ended each episode"
            self.flags(extras["time_outs"], "extras['time_outs']", "timed_out", meaning)
        if not self.errors:
            self.extras(extras, obs, reward, done.reshape(self.num_envs).bool())

    def extras(self, extras: Mapping[str, Any], obs: Mapping[str, Tensor], reward: Tensor, done: Tensor) -> None:
        """Check the extras against ``done``, the rewards against the extras, and the log."""
        broken = self.invalid(extras.get("invalid", {}), done)
        self.finite(torch.isfinite(reward.reshape(self.num_envs)) | broken, "reward")
        if "time_outs" in extras and (extras["time_outs"].reshape(self.num_envs).bool() & ~done).any():
            self.correct(
                "extras['time_outs'] is set where done is not; it counts only where both are",
                'extras["time_outs"] = timed_out & done',
            )
        if "no_transition" in extras:
            self.mask(extras["no_transition"], "extras['no_transition']")
        if "final_obs" in extras:
            self.final_observations(extras["final_obs"], obs, done & ~broken)
        for name in ("log", "episode"):
            self.log(extras.get(name, {}), f"extras['{name}']")

    def invalid(self, causes: Any, done: Tensor) -> Tensor:
        """Check for a mask [N] bool by cause, set only where ``done`` is; return the union of the masks [N]."""
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
            elif not self.mask(rows, label):
                continue
            elif (rows & ~done).any():
                self.error(f"{label} is set where done is not; reset what broke, and set done for it")
            else:
                union = union | rows
        return union

    def mask(self, x: Any, name: str) -> bool:
        """Check for one bool per environment, [N]."""
        if not self.column(x, name):
            return False
        if x.dtype != torch.bool:
            self.error(f"{name} is {_dtype_name(x)}; give bool")
            return False
        return True

    def log(self, log: Any, label: str) -> None:
        """Check for a dict of numbers or tensors; others are left out of the log."""
        if not isinstance(log, Mapping):
            self.correct(
                f"{label} is a {type(log).__name__}, which is left out of the log",
                f"{label} = {{'name': number}}",
            )
            return
        for name, value in log.items():
            if as_numbers(value) is None:
                self.correct(
                    f"{label}[{name!r}] is a {type(value).__name__}, which is left out of the log",
                    f"{label}[{name!r}] = number  # or a tensor of numbers",
                )

    def error(self, sentence: str) -> None:
        """Add a violation that cannot be corrected, once."""
        if sentence not in self.errors:
            self.errors.append(sentence)

    def correct(self, sentence: str, remedy: str) -> None:
        """Add a violation that the runner corrects, once."""
        if Correction(sentence, remedy) not in self.corrections:
            self.corrections.append(Correction(sentence, remedy))

    def finish(self) -> None:
        """Raise a ContractError if there are errors."""
        if self.errors:
            raise ContractError(f"{type(self.env).__name__} breaks the VecEnv contract: " + "; ".join(self.errors))

    def finite(self, rows: Tensor, name: str) -> None:
        """Check which environments hold finite values, rows [N] bool; some may not, but not all."""
        broken = int((~rows).sum())
        if broken == self.num_envs:
            self.error(f"{name} holds values that are not finite in every environment; repair the term behind them")
        elif broken:
            self.correct(
                f"{name} holds values that are not finite in {broken} of {self.num_envs} environments; such steps are "
                "left out of learning",
                "find the term that divides by zero or takes a root below it",
            )

    def flags(self, x: Any, name: str, variable: str, meaning: str) -> None:
        """Check for one bool per environment; the numbers 0 and 1 are corrected. ``variable`` is x in the remedy."""
        if self.column(x, name, variable) and x.dtype != torch.bool:
            self.correct(f"{name} is {_dtype_name(x)}; it is read as bool", f"{name} = {variable}.bool()")
            if not ((x == 0) | (x == 1)).all():
                self.error(f"{name} holds values other than 0 and 1; return {meaning}")

    def column(self, x: Any, name: str, variable: str = "", floating: bool = False) -> bool:
        """Check for one number per environment: [N], or with ``variable``, x in the remedy, [N, 1], which is
        corrected."""
        if not self.tensor(x, name, floating):
            return False
        if variable and x.shape == (self.num_envs, 1):
            sentence = f"{name} has the shape {list(x.shape)}; it is read as [{self.num_envs}]"
            self.correct(sentence, f"{name} = {variable}.squeeze(-1)")
        elif x.shape != (self.num_envs,):
            self.error(f"{name} has the shape {list(x.shape)}; give one number per environment, [{self.num_envs}]")
            return False
        return True

    def tensor(self, x: Any, name: str, floating: bool = False) -> bool:
        """Check for a tensor with N rows of real numbers on the environment's device."""
        unusable = describe_unusable(x)
        if isinstance(x, Tensor) and x.device.type != torch.device(self.env.device).type:
            self.error(
                f"{name} lies on {x.device} and env.device is {self.env.device}; keep every tensor on env.device"
            )
        elif unusable:
            self.error(f"{name} {unusable}")
        elif x.dim() == 0 or x.shape[0] != self.num_envs:
            self.error(f"{name} has the shape {list(x.shape)}; its first dimension must be num_envs={self.num_envs}")
        elif floating and not x.is_floating_point():
            self.error(f"{name} is {_dtype_name(x)}; give floating-point numbers")
        else:
            return True
        return False


def _other_order(result: Any) -> str:
    """Return a sentence that explains how the result of another interface becomes a StepResult."""
    several = isinstance(result, (tuple, list))
    got = f"{len(result)} values" if several else f"a {type(result).__name__}"
    others = (
        ": legged_gym's (obs, privileged_obs, reward, done, extras) becomes "
        "({'policy': obs, 'critic': privileged_obs}, reward, done, extras); "
        "of Gymnasium's terminated and truncated, either is done, the second is time_outs"
    )
    five = others if several and len(result) == 5 else ""
    return f"step() gives {got}; return StepResult(obs, reward, done, extras){five}"


def _sizes(shapes: Mapping[str, torch.Size]) -> str:
    return "{" + ", ".join(f"{name}: {list(shape)}" for name, shape in sorted(shapes.items())) + "}"


def _is_integer(x: Tensor) -> bool:
    """Return whether a tensor's dtype is an integer type."""
    return not (x.is_floating_point() or x.is_complex() or x.dtype == torch.bool)


def _dtype_name(x: Tensor) -> str:
    """Return a tensor's dtype without "torch."."""
    return str(x.dtype).replace("torch.", "")
