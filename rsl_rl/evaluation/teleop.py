"""Teleoperation: a robot that follows a user's velocity command in real time."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Dict, Mapping, Protocol, Sequence, Tuple

import numpy as np
import torch
from torch import Tensor

from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.evaluation.conditions import ActingPolicy
from rsl_rl.evaluation.playback import for_playback, scan_points
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.tasks.mdp.commands import CommandSource
from rsl_rl.tasks.mdp.rewards import bind_rewards
from rsl_rl.tasks.robot_state import RobotState

Command = Tuple[float, float, float]
"""Forward and left velocity [m/s], yaw rate [rad/s]."""

_FRAME_RATE = 25.0  # of the display [1/s]
_MAX_DELAY = 0.1  # longest delay that is made up for by faster steps [s]


class TeleopDisplay(Protocol):
    """Display of a robot with controls for its command."""

    @property
    def command(self) -> Command: ...

    @property
    def paused(self) -> bool: ...

    def is_open(self) -> bool: ...

    def wants_reset(self) -> bool:
        """Return whether a reset was requested since the last call."""
        ...

    def show(
        self, pose: np.ndarray, velocity: Sequence[float], rewards: Mapping[str, float], points: np.ndarray
    ) -> None:
        """Show a pose [7 + J], the measured velocity in the order of the command, the reward terms [1/s], and points of
        the height scan [K, 3], which are none on a plane."""
        ...

    def close(self) -> None: ...


def open_web_viewer(env: LeggedRobot, command: Command, port: int) -> Tuple[TeleopDisplay, str]:
    """Serve a web page with sliders; return it and a line for the user."""
    try:
        from rsl_rl.viz.web_viewer import WebViewer
    except ModuleNotFoundError as error:
        raise ValueError(f"--viewer: {error}; install the extra: pip install 'rsl-rl-lib[viewer]'") from error
    page = WebViewer(env.robot.model_path, _ranges(env), command, port, ground=env.sim.ground)
    return page, f"viewer: {page.address} (Ctrl-C ends it)"


def open_native_viewer(env: LeggedRobot, command: Command) -> Tuple[TeleopDisplay, str]:
    """Open MuJoCo's viewer; return it and a line for the user."""
    try:
        from rsl_rl.viz.native_viewer import HELP, NativeViewer
    except ModuleNotFoundError as error:
        raise ValueError(f"--keyboard: {error}; install the extra: pip install 'rsl-rl-lib[sim]'") from error
    return NativeViewer(env.robot.model_path, _ranges(env), command, env.sim.ground), HELP


def _ranges(env: LeggedRobot) -> Tuple[Tuple[float, float], ...]:
    return env.commands.sources["velocity"].ranges


class TeleopCommands(CommandSource):
    """Set the user's command for all robots in every step."""

    def __init__(self, env: LeggedRobot, command: Command):
        super().__init__(env.context, _ranges(env), env.cfg.commands.resampling_time)
        self.command, self._like = command, env.state.command

    def sample(self) -> Tensor:
        return self._like.new_tensor(self.command).expand_as(self._like)

    def draw(self, command: Tensor, mask: Tensor) -> None:
        command.copy_(self.sample())


class RewardRecorder:
    """An observer of :class:`LeggedRobot` that records the first robot's reward terms of the last step."""

    def __init__(self, env: LeggedRobot):
        self._weights = {name: term.weight for name, term in env.cfg.rewards.terms.items()}
        self._terms = bind_rewards(env.cfg.rewards)
        self.rewards: Dict[str, float] = dict.fromkeys(self._terms, 0.0)  # weighted [1/s]

    def __call__(self, state: RobotState, done: Tensor) -> None:
        for name, term in self._terms.items():
            self.rewards[name] = self._weights[name] * float(term(state)[0])


def for_teleop(cfg: LeggedRobotConfig) -> LeggedRobotConfig:
    """Return the task with one robot, without disturbances and without a time limit."""
    return replace(for_playback(cfg, num_envs=1, seconds=1.0, command=None), episode_length=1e6)


@torch.no_grad()
def teleoperate(env: LeggedRobot, policy: ActingPolicy, display: TeleopDisplay) -> None:
    """Run a policy in real time with the command of a display, until the display is closed."""
    dt, state, sim = env.cfg.sim.control_dt, env.state, env.sim
    stride = max(1, round(1 / (_FRAME_RATE * dt)))
    commands, recorder = TeleopCommands(env, display.command), RewardRecorder(env)
    env.commands.sources["velocity"] = commands
    env.observers.append(recorder)
    obs = env.reset()
    policy.reset()
    step, next_time, no_points = 0, time.perf_counter(), np.zeros((0, 3))
    while display.is_open():
        commands.command = display.command
        if display.wants_reset():
            obs = env.reset()
            policy.reset()
        if not display.paused:
            obs, _, done, _ = env.step(policy(obs))
            policy.reset(done)
        if step % stride == 0:
            pose = torch.cat((sim.root_pos, sim.root_quat, sim.joint_pos), dim=1)[0]
            points = scan_points(state, pose.unsqueeze(0))[0].cpu().numpy() if sim.ground else no_points
            vx, vy, yaw_rate = (*state.base_lin_vel[0, :2].tolist(), float(state.base_ang_vel[0, 2]))
            display.show(pose.double().cpu().numpy(), (vx, vy, yaw_rate), recorder.rewards, points)
        step += 1
        next_time = max(next_time + dt, time.perf_counter() - _MAX_DELAY)
        time.sleep(max(0.0, next_time - time.perf_counter()))
    env.observers.remove(recorder)
