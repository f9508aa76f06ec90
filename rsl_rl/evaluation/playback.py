"""Run a trained policy and write plots and a video of it."""

from __future__ import annotations

import math
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

import torch
from torch import Tensor

from rsl_rl.config.mdp import CommandConfig, RandomizationConfig
from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.evaluation.command_script import ScriptedCommands, TimedCommand
from rsl_rl.evaluation.conditions import ActingPolicy, for_evaluation, run, with_constant_command
from rsl_rl.evaluation.endurance import FAILURES, FailureJudge
from rsl_rl.evaluation.evaluate import Recorder
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.files import make_folder
from rsl_rl.utils.tensors import heading
from rsl_rl.viz.video import VideoClip, VideoError, contact_sheet_path, video_in_background

_FRAME_RATE = 25.0  # of the video [1/s]


def for_playback(
    cfg: LeggedRobotConfig, num_envs: int, seconds: float, command: Optional[Tuple[float, float, float]]
) -> LeggedRobotConfig:
    """Return the task without disturbances, with a new command every few seconds or with a constant ``command``."""
    cfg = for_evaluation(cfg, num_envs, seconds)
    commands = replace(cfg.commands, resampling_time=min(cfg.commands.resampling_time, 2.5))
    if command is not None:
        commands = with_constant_command(commands, command)
    return replace(cfg, commands=commands, randomization=_without_disturbances(cfg.randomization))


def check_command(cfg: CommandConfig, command: Optional[Tuple[float, float, float]]) -> str:
    """Return a note on a command beyond those of the training, which exported policies clip, or ""; one beyond twice
    their range is a ValueError."""
    if command is None or "velocity" in cfg.terms:  # ranges of one's own
        return ""
    ranges, beyond = (cfg.lin_vel_x, cfg.lin_vel_y, cfg.yaw_rate), []
    for name, unit, value, (low, high) in zip(("vx", "vy", "yaw rate"), ("m/s", "m/s", "rad/s"), command, ranges):
        lowest, highest = cfg.schedule.end * min(low, 0.0), cfg.schedule.end * max(high, 0.0)
        trained = f"the training had {lowest:g} to {highest:g} {unit}"
        if not 2 * lowest <= value <= 2 * highest:
            raise ValueError(f"--command: {name}={value:g} and {trained}; give at most twice that")
        if not lowest <= value <= highest:
            beyond.append(f"{name}={value:g} and {trained}")
    return f"note: --command is beyond those of the training: {'; '.join(beyond)}" if beyond else ""


def _without_disturbances(cfg: RandomizationConfig) -> RandomizationConfig:
    """Return the events without payloads and start velocities; a task's own functions keep their parameters."""
    params = {"model_parameters": {"payload": (0.0, 0.0)}, "start_state": {"initial_velocity": 0.0}}
    for name, term in cfg.terms.items():
        cfg = cfg.with_params(name, **params.get(term.func or name, {}))
    return cfg


@torch.no_grad()
def run_playback(
    env: LeggedRobot, policy: ActingPolicy, seconds: float, script: Sequence[TimedCommand] = ()
) -> Dict[str, Tensor]:
    """Run every robot for a time [s], with the commands of a script if there is one, and return the recording, see
    :class:`Recorder`."""
    if script:
        env.commands.sources["velocity"] = ScriptedCommands(env, script)
    env.commands.play_from_start()
    recorder = Recorder(env, env.num_envs)
    env.observers.append(recorder)
    for _ in run(env, policy, round(seconds / env.cfg.sim.control_dt)):
        pass
    env.observers.remove(recorder)
    return recorder.result()


def failures_of(recording: Mapping[str, Tensor], control_dt: float) -> List[List[Tuple[str, float]]]:
    """Return the failures of each robot of a recording, in order: a kind of endurance.FAILURES and its time [s]."""
    num_steps, num_robots = recording["fallen"].shape
    judge, found = FailureJudge(num_robots, control_dt), [[] for _ in range(num_robots)]
    for i in range(num_steps):
        kinds = judge(*(recording[name][i] for name in ("command", "velocity", "fallen")))
        for kind, robot in kinds.nonzero().tolist():
            found[robot].append((FAILURES[kind], (i + 1) * control_dt))
    return found


def describe_robots(recording: Mapping[str, Tensor], control_dt: float) -> Iterator[str]:
    """Yield a line for each robot of a recording: its errors, and how it failed."""
    error = (recording["command"] - recording["velocity"]).nan_to_num()
    lin_vel_error = error[:, :, :2].norm(dim=2).mean(dim=0).tolist()
    yaw_rate_error = error[:, :, 2].abs().mean(dim=0).tolist()
    rows = zip(lin_vel_error, yaw_rate_error, failures_of(recording, control_dt))
    for robot, (lin, yaw, found) in enumerate(rows, start=1):
        fate = ", ".join(f"{kind} at {seconds:.1f} s" for kind, seconds in found) or "no failure"
        yield f"robot {robot}: {fate}; mean errors {lin:.2f} m/s and {yaw:.2f} rad/s"


@contextmanager
def start_video(
    recording: Mapping[str, Tensor], env: LeggedRobot, folder: Path, wanted: bool
) -> Iterator[Optional[Future[Path]]]:
    """Write the video of a recording, play.mp4, while the body runs.

    Yield the future of :func:`video_in_background`, or None if no video is wanted.
    """
    if not wanted:
        yield None
        return
    make_folder(folder)
    with video_in_background(folder / "play.mp4", make_clip(recording, env)) as video:
        yield video


def write_playback(
    recording: Mapping[str, Tensor], env: LeggedRobot, folder: Path, video: Optional[Future[Path]], plot: bool
) -> Iterator[str]:
    """Write plots, if asked for, and wait for the video of :func:`start_video`; yield a line for each robot, and for
    each file that is written or cannot be written."""
    make_folder(folder)
    yield from describe_robots(recording, env.cfg.sim.control_dt)
    if plot:
        yield from _write_plots(recording, env, folder)
    if video is not None:
        try:
            path = video.result()
            yield f"video: {path} (contact sheet: {contact_sheet_path(path)})"
        except VideoError as error:
            yield str(error)


def _write_plots(recording: Mapping[str, Tensor], env: LeggedRobot, folder: Path) -> Iterator[str]:
    try:
        from rsl_rl.evaluation.plots import plot_joints, plot_motion
    except ModuleNotFoundError as error:
        yield f"no plots: {error}; install the extra: pip install 'rsl-rl-lib[sim]'"
        return
    control_dt, sim = env.cfg.sim.control_dt, env.sim
    plot_motion(recording, control_dt, sim.foot_names, folder / "play.png")
    yield f"plot: {folder / 'play.png'} (velocities, base height, action rate, gait)"
    joints = folder / "play_joints.png"
    plot_joints(recording, control_dt, sim.joint_names, sim.torque_limits.cpu(), len(sim.foot_names), joints)
    yield f"plot: {joints} (joint positions and targets, torques and limits)"


def make_clip(recording: Mapping[str, Tensor], env: LeggedRobot, title: str = "") -> VideoClip:
    """Return the video clip of a recording; captions show commanded and measured velocity of the first robot, and the
    failures of all robots so far."""
    control_dt = env.cfg.sim.control_dt
    stride = max(1, round(1 / (_FRAME_RATE * control_dt)))
    captions = [
        "{}commanded vx {:+.2f} vy {:+.2f} m/s, yaw {:+.2f} rad/s    measured {:+.2f} {:+.2f}, {:+.2f}".format(
            title, *c, *v
        )
        for c, v in zip(recording["command"][::stride, 0].tolist(), recording["velocity"][::stride, 0].tolist())
    ]
    for robot, found in enumerate(failures_of(recording, control_dt), start=1):
        for kind, seconds in found:
            first = min(len(captions) - 1, math.ceil(seconds / control_dt / stride))
            captions[first:] = [f"{caption}    robot {robot}: {kind}" for caption in captions[first:]]
    poses = recording["pose"][::stride]
    clip = VideoClip(env.robot.model_path, poses.double().numpy(), captions, 1 / (stride * control_dt))
    if "reference" in recording:
        followed = [env.commands.clips[i] for i in recording["clip"][::stride, 0].tolist()]
        captions = [f"{name}    {caption}" for name, caption in zip(followed, captions)]
        clip = clip._replace(captions=captions, ghosts=recording["reference"][::stride].double().numpy())
    if env.terrain is None:
        return clip
    return clip._replace(ground=env.terrain.ground, points=scan_points(env.state, poses[:, 0]).cpu().numpy())


def scan_points(state: RobotState, pose: Tensor) -> Tensor:
    """Return the points of the height scan of robots in given poses [..., 7 + J], on the ground, [..., K, 3]."""
    rows = pose.flatten(0, -2).to(state.action.device, state.action.dtype)
    x, y = state.scan_grid(rows[:, :2], heading(rows[:, 3:7]))
    points = torch.stack((x, y, state.ground.height_at(x, y)), dim=-1)
    return points.view(*pose.shape[:-1], *points.shape[1:])
