"""A robot that walks in real time under a person's command."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Dict, Mapping, Protocol, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.evaluation.evaluate import ActingPolicy
from rsl_rl.evaluation.playback import for_replay
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.tasks.mdp.commands import VelocityCommands
from rsl_rl.tasks.mdp.rewards import TERMS
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.registry import import_object

Command = Tuple[float, float, float]
"""Forward and left velocity [m/s], yaw rate [rad/s]."""

_FRAME_RATE = 25.0  # of what is shown [1/s]
_LARGEST_DELAY = 0.1  # that is caught up with; after a longer one the robot walks on late [s]


class Screen(Protocol):
    """Where a person sees a robot and steers it."""

    @property
    def command(self) -> Command: ...

    @property
    def paused(self) -> bool: ...

    def is_open(self) -> bool: ...

    def wants_reset(self) -> bool:
        """Whether a new start was asked for since the last call."""
        ...

    def show(self, pose: np.ndarray, velocity: Sequence[float], rewards: Mapping[str, float]) -> None:
        """Show a pose [7 + J], the measured counterpart of the command, and the weighted reward terms [1/s]."""
        ...

    def close(self) -> None: ...


def open_page(env: LeggedRobot, command: Command, port: int) -> Tuple[Screen, str]:
    """Serve a web page with sliders that begin at a command; also return how to use it."""
    try:
        from rsl_rl.viz.web_viewer import WebViewer
    except ModuleNotFoundError as error:
        raise ValueError(f"--viewer: {error}; install the extra: pip install 'rsl-rl-lib[viewer]'") from error
    page = WebViewer(env.robot.model_path, _ranges(env), command, port)
    return page, f"viewer: {page.address} (Ctrl-C ends it)"


def open_window(env: LeggedRobot, command: Command) -> Tuple[Screen, str]:
    """Open MuJoCo's own window; also return how to use it."""
    try:
        from rsl_rl.viz.native_viewer import HELP, NativeViewer
    except ModuleNotFoundError as error:
        raise ValueError(f"--keyboard: {error}; install the extra: pip install 'rsl-rl-lib[sim]'") from error
    return NativeViewer(env.robot.model_path, _ranges(env), command), HELP


def _ranges(env: LeggedRobot) -> Tuple[Tuple[float, float], ...]:
    commands = env.cfg.commands
    return commands.lin_vel_x, commands.lin_vel_y, commands.yaw_rate


class SteeredCommands(VelocityCommands):
    """Gives all robots the command that a person holds, in every step; nothing is drawn."""

    def __init__(self, env: LeggedRobot, wanted: Command):
        super().__init__(env.cfg.commands, env.num_envs, env.cfg.sim.control_dt, torch.Generator(env.device))
        self.wanted = wanted

    def draw(self, command: Tensor, mask: Tensor) -> None:
        command.copy_(torch.tensor(self.wanted, device=command.device).expand_as(command))


class RewardMeter:
    """An observer of :class:`LeggedRobot` that keeps the first robot's reward terms of the last step."""

    def __init__(self, env: LeggedRobot):
        self._cfg = env.cfg.rewards
        self._terms = {name: TERMS[name] if name in TERMS else import_object(name) for name in self._cfg.weights}
        self.rewards: Dict[str, float] = dict.fromkeys(self._terms, 0.0)  # weighted [1/s]

    def __call__(self, state: RobotState, done: Tensor) -> None:
        for name, term in self._terms.items():
            self.rewards[name] = self._cfg.weights[name] * float(term(state, self._cfg)[0])


def for_walking(cfg: LeggedRobotConfig) -> LeggedRobotConfig:
    """Return the task with one undisturbed robot and episodes that only a fall ends."""
    return replace(for_replay(cfg, num_envs=1, seconds=1.0, command=None), episode_length=1e6)


@torch.no_grad()
def walk(env: LeggedRobot, policy: ActingPolicy, screen: Screen) -> None:
    """Let a policy act in real time under the screen's command until the screen is closed."""
    dt, state, sim = env.cfg.sim.control_dt, env.state, env.sim
    stride = max(1, round(1 / (_FRAME_RATE * dt)))
    commands, meter = SteeredCommands(env, screen.command), RewardMeter(env)
    env.commands = commands
    env.observers.append(meter)
    obs = env.reset()
    policy.reset()
    step, due = 0, time.perf_counter()
    while screen.is_open():
        commands.wanted = screen.command
        if screen.wants_reset():
            obs = env.reset()
            policy.reset()
        if not screen.paused:
            obs, _, done, _ = env.step(policy(obs))
            policy.reset(done)
        if step % stride == 0:
            pose = torch.cat((sim.root_pos[0], sim.root_quat[0], sim.joint_pos[0])).double().cpu().numpy()
            vx, vy, yaw_rate = (*state.base_lin_vel[0, :2].tolist(), float(state.base_ang_vel[0, 2]))
            screen.show(pose, (vx, vy, yaw_rate), meter.rewards)
        step += 1
        due = max(due + dt, time.perf_counter() - _LARGEST_DELAY)
        time.sleep(max(0.0, due - time.perf_counter()))
    env.observers.remove(meter)
