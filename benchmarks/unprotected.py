"""A worker: iterations of a training with and without the protection from faults, alternating."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from typing import Any, Callable, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple, cast
from unittest import mock

import torch
from torch import Tensor

from benchmarks.serving import Figures, serve
from rsl_rl.acceleration.flat_adam import FlatAdam
from rsl_rl.cli.experiments import Experiments
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.env.step_validator import PolicyInputs, ValidatedStep
from rsl_rl.env.vec_env import Observations, StepResult
from rsl_rl.runners import OnPolicyRunner
from rsl_rl.sim.base import Sim
from rsl_rl.tasks import faults
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.utils.host import prepare_host
from rsl_rl.utils.seeding import seed_everything


class TrustingValidator:
    """A replacement of StepValidator that masks nothing."""

    def __init__(self, groups: Sequence[str], num_envs: int, device: torch.device):
        self._groups, self._device = groups, device
        self.to_reset = torch.zeros(num_envs, dtype=torch.bool, device=device)
        self._valid = ~self.to_reset
        self._nothing = torch.zeros(2, device=device)

    def validate_obs(self, obs: Observations, bounds: Optional[Mapping[str, Any]] = None) -> PolicyInputs:
        return {name: obs[name].to(self._device) for name in self._groups}

    def validate_step(
        self, result: StepResult, acted_on: Mapping[str, Tensor], actions: Tensor, step: int
    ) -> ValidatedStep:
        extras = {**result.extras, "valid": self._valid}
        reward, done = result.reward.to(self._device), result.done.to(self._device)
        return ValidatedStep(self.validate_obs(result.obs), reward, done, extras)

    def first_event(self, cause: str) -> Optional[Dict[str, Tensor]]:
        return None

    def pop(self) -> Tuple[List[str], Tensor]:
        return ["excluded_steps", "to_reset"], self._nothing

    def clear_resets(self) -> None:
        pass


class NoRecorder:
    """A replacement of FaultRecorder that records nothing."""

    def __init__(self, sim: Sim, causes: Sequence[str]):
        pass

    def before_step(self) -> None:
        pass

    def record_inputs(self, inputs: Sequence[Tensor]) -> None:
        pass

    def after_step(self, broken: Tensor, rows: Mapping[str, Tensor]) -> None:
        pass

    def read(self, cause: str) -> Optional[Dict[str, Tensor]]:
        return None


@torch.no_grad()
def plain_step(self: FlatAdam, usable: Tensor) -> Tensor:
    """A replacement of FlatAdam.step_where_finite that takes every step."""
    for group in self._gradient_groups:
        group.mul_((self.max_grad_norm / (torch.linalg.vector_norm(group) + 1e-6)).clamp(max=1.0))
    settings = self.param_groups[0]
    beta1, beta2 = settings["betas"]
    self._step.add_(1.0)
    self._first.lerp_(self._gradients, 1.0 - beta1)
    self._second.mul_(beta2).addcmul_(self._gradients, self._gradients, value=1.0 - beta2)
    unbias_first, unbias_second = (-torch.expm1(self._step * math.log(beta)) for beta in (beta1, beta2))
    scale = self._second.sqrt().div_(unbias_second.sqrt()).add_(settings["eps"])
    self._values.addcmul_(torch.div(self._first, scale, out=scale), -settings["lr"] / unbias_first)
    return usable


@contextlib.contextmanager
def unprotected(runner: OnPolicyRunner) -> Iterator[None]:
    """Disable the protection of a runner with a LeggedRobot."""
    env = cast(LeggedRobot, runner.env)
    sound = torch.zeros(env.num_envs, dtype=torch.bool, device=env.device)
    nothing_found = faults.Faults(dict.fromkeys(faults.CAUSES, sound), None)

    trusting = TrustingValidator(runner.alg.obs_groups, env.num_envs, runner.device)
    with contextlib.ExitStack() as stack:
        for target, name, double in (
            (runner.collector, "validator", trusting),
            (env, "_recorder", NoRecorder(env.sim, faults.CAUSES)),
            (faults, "find_faults", lambda *_: nothing_found),
            (FlatAdam, "step_where_finite", plain_step),
        ):
            stack.enter_context(mock.patch.object(target, name, double))
        yield


def build(settings: dict) -> Callable[[], Figures]:
    """Return a function that runs a pair of iterations, in alternating order, and returns the seconds of both."""
    prepare_host()
    seed_everything(settings["seed"])
    cfg = Experiments().load(settings["task"])()
    if not isinstance(cfg.env, LeggedRobotConfig):
        raise ValueError(f"--task {settings['task']} has no robots; take a legged robot's, such as go2_flat")
    env = dataclasses.replace(cfg.env, num_envs=settings["num_robots"]).build(settings["device"], settings["seed"])
    runner = OnPolicyRunner(env, cfg, device=settings["device"])
    ways = {"with": contextlib.nullcontext, "without": lambda: unprotected(runner)}
    orders = itertools.cycle((("with", "without"), ("without", "with")))
    runner.learn(1, init_at_random_ep_len=True)

    def measure() -> Figures:
        return {way: seconds_of_an_iteration(runner, ways[way]()) for way in next(orders)}

    return measure


def seconds_of_an_iteration(runner: OnPolicyRunner, way: Any) -> float:
    """Return how long collecting and learning take once."""
    before = runner.tot_time
    with way:
        runner.learn(1)
    return runner.tot_time - before


if __name__ == "__main__":
    serve(build)
