"""Teleoperation: robots that follow a user's velocity command in real time."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Callable, Dict, Optional, Protocol, Sequence, Tuple

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
from rsl_rl.terrain.types import TYPES
from rsl_rl.utils.height_field import HeightField
from rsl_rl.utils.tensors import heading, turn
from rsl_rl.viz.frame import Choice, Command, Frame

MAX_ROBOTS = 16
"""Robots that a page can draw in real time."""

_FRAME_RATE = 25.0  # of the display [1/s]
_MAX_DELAY = 0.1  # longest delay that is made up for by faster steps [s]


class TeleopDisplay(Protocol):
    """Display of robots with controls for their command."""

    @property
    def command(self) -> Command: ...

    @property
    def choice(self) -> Choice:
        """Policy and ground that the user wants."""
        ...

    @property
    def paused(self) -> bool: ...

    def is_open(self) -> bool: ...

    def wants_reset(self) -> bool:
        """Return whether a reset was requested since the last call."""
        ...

    def wanted_push(self) -> Optional[Tuple[float, float]]:
        """Return the change of velocity, forward and left [m/s], that was requested since the last call, if any."""
        ...

    def offer(self, checkpoints: Sequence[str]) -> None:
        """Show the checkpoints to choose from."""
        ...

    def present(self, status: str, ground: Optional[HeightField]) -> None:
        """Show a line on the policy, and another ground; None is a plane."""
        ...

    def show(self, frame: Frame) -> None: ...

    def close(self) -> None: ...


def open_web_viewer(
    env: LeggedRobot, command: Command, port: int, choice: Choice, terrains: Sequence[str] = ()
) -> Tuple[TeleopDisplay, str]:
    """Serve a web page with sliders, and a menu of ``terrains``; return it and a line for the user."""
    try:
        from rsl_rl.viz.web_viewer import WebViewer
    except ModuleNotFoundError as error:
        raise ValueError(f"--viewer: {error}; install the extra: pip install 'rsl-rl-lib[viewer]'") from error
    page = WebViewer(env.robot.model_path, _ranges(env), command, port, env.sim.ground, env.num_envs)
    page.add_menus(choice, terrains, env.cfg.terrain.num_levels)
    return page, f"viewer: {page.address} (Ctrl-C ends it)"


def open_native_viewer(env: LeggedRobot, command: Command, choice: Choice) -> Tuple[TeleopDisplay, str]:
    """Open MuJoCo's viewer; return it and a line for the user."""
    try:
        from rsl_rl.viz.native_viewer import HELP, NativeViewer
    except ModuleNotFoundError as error:
        raise ValueError(f"--keyboard: {error}; install the extra: pip install 'rsl-rl-lib[sim]'") from error
    return NativeViewer(env.robot.model_path, _ranges(env), command, choice, env.sim.ground), HELP


def _ranges(env: LeggedRobot) -> Tuple[Tuple[float, float], ...]:
    return env.commands.sources["velocity"].final_ranges


def terrains_of(cfg: LeggedRobotConfig) -> Tuple[str, ...]:
    """Return the types of ground that a task can be shown on."""
    return tuple(dict.fromkeys((*cfg.terrain.all_types, *TYPES)))


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


def for_teleop(cfg: LeggedRobotConfig, num_robots: int = 1) -> LeggedRobotConfig:
    """Return the task with some robots, without disturbances and without a time limit."""
    return replace(for_playback(cfg, num_envs=num_robots, seconds=1.0, command=None), episode_length=1e6)


@torch.no_grad()
def teleoperate(
    env: LeggedRobot,
    policy: ActingPolicy,
    display: TeleopDisplay,
    changed: Callable[[], bool] = lambda: False,
) -> None:
    """Run a policy in real time with the command of a display, until the display is closed or ``changed`` returns true
    after a frame."""
    dt = env.cfg.sim.control_dt
    stride = max(1, round(1 / (_FRAME_RATE * dt)))
    commands, recorder = TeleopCommands(env, display.command), RewardRecorder(env)
    env.commands.sources["velocity"] = commands
    env.observers.append(recorder)
    obs = env.reset()
    policy.reset()
    step, next_time = 0, time.perf_counter()
    while display.is_open():
        commands.command = display.command
        push = display.wanted_push()
        if display.wants_reset():
            obs = env.reset()
            policy.reset()
        if not display.paused:
            if push is not None:
                push_robots(env, push)
            obs, _, done, _ = env.step(policy(obs))
            policy.reset(done)
        if step % stride == 0:
            display.show(frame_of(env, recorder.rewards))
            if changed():
                break
        step += 1
        next_time = max(next_time + dt, time.perf_counter() - _MAX_DELAY)
        time.sleep(max(0.0, next_time - time.perf_counter()))
    env.observers.remove(recorder)


def push_robots(env: LeggedRobot, change: Tuple[float, float]) -> None:
    """Change the velocity of all trunks, forward and left [m/s]."""
    sim = env.sim
    direction = heading(sim.root_quat)
    lin_vel = sim.root_lin_vel.clone()
    lin_vel[:, :2] += turn(direction, lin_vel.new_tensor(change).expand_as(direction))
    sim.set_root_velocity(torch.ones_like(sim.diverged), lin_vel, sim.root_ang_vel.clone())
    env.state.refresh_pose()


def frame_of(env: LeggedRobot, rewards: Dict[str, float]) -> Frame:
    """Return what is to be shown of the last step."""
    state, sim = env.state, env.sim
    poses = torch.cat((sim.root_pos, sim.root_quat, sim.joint_pos), dim=1)
    points = scan_points(state, poses[:1])[0].cpu().numpy() if sim.ground else np.zeros((0, 3))
    vx, vy, yaw_rate = state.planar_velocity[0].tolist()
    feet, forces = (x[0].double().cpu().numpy() for x in (state.foot_pos, state.foot_force))
    return Frame(poses.double().cpu().numpy(), (vx, vy, yaw_rate), rewards, points, feet, forces)
