"""Show a fault dump: values for a table, a plot and a video."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rsl_rl.evaluation.fault_replay import FaultDump, FaultReplay
from rsl_rl.viz.video import VideoClip, VideoError, contact_sheet_path, write_video

_FRAME_TIME = 0.005  # simulated time between two frames of the video [s]
_SLOW_MOTION = 20  # factor of slow motion
_MAX_DRIFT = 0.5  # largest distance from the start that is drawn, so that the robot stays in the picture [m]
_MAX_LINEAR = 1000.0  # velocity up to which an axis is linear


class StepSummary(NamedTuple):
    """State of the robot at one time; None where a value is not defined."""

    time_left: float  # until the end of the last recorded step [s]
    height: Optional[float] = None  # of the trunk [m]
    speed: Optional[float] = None  # of the trunk [m/s]
    joint_speed: Optional[float] = None  # of the fastest joint [rad/s]
    joint: str = ""
    target_error: Optional[float] = None  # largest |target - position| of a joint [rad]
    broke: str = ""  # how the physics broke in the control step that starts here, or empty


def headline(dump: FaultDump) -> str:
    """Return cause, offending term and robot in one line."""
    return f"{dump.cause}{f' ({dump.term})' if dump.term else ''} in robot {dump.environment}"


def step_summaries(dump: FaultDump, replay: FaultReplay) -> List[StepSummary]:
    """Return the state at the start of each recorded step, the oldest first, and at the end of the last one."""
    last = len(dump.states) - 1
    return [
        *(_step_summary(dump, replay, k, 0) for k in range(last + 1)),
        _step_summary(dump, replay, last, replay.lost.shape[1] - 1),
    ]


def _step_summary(dump: FaultDump, replay: FaultReplay, k: int, i: int) -> StepSummary:
    """Return the state in control step k after i physics steps."""
    steps, samples = replay.lost.shape
    time_left = ((steps - k) * (samples - 1) - i) * replay.dt
    if replay.lost[k, i]:
        return StepSummary(time_left)
    pose, speeds = replay.pose[k, i], replay.joint_vel[k, i].abs()
    fastest = int(speeds.nan_to_num(math.inf).argmax())
    now = StepSummary(
        time_left=time_left,
        height=float(pose[2]),
        speed=float(replay.root_speed[k, i]),
        joint_speed=float(speeds[fastest]),
        joint=replay.joint_names[fastest],
    )
    if i > 0:
        return now
    return now._replace(target_error=float((dump.targets[k] - pose[7:]).abs().max()), broke=_how(replay, k))


def _how(replay: FaultReplay, k: int) -> str:
    """Return how the physics broke in step k, or an empty text."""
    if replay.diverged[k]:
        return "diverged"
    if not replay.broken[k]:
        return ""
    return "too fast" if torch.isfinite(replay.end_states[k]).all() else "not finite"


def write_fault_report(dump: FaultDump, replay: FaultReplay, path: Path, video: bool) -> Iterator[str]:
    """Write a plot and, with ``video``, a video next to the fault dump; yield a line for each file."""
    plot_fault(dump, replay, path.with_suffix(".png"))
    yield f"plot: {path.with_suffix('.png')}"
    if not video:
        return
    stride = max(1, round(_FRAME_TIME / replay.dt))
    frames = _frames(replay, stride)
    if not frames:
        yield "no video: no pose of the robot is finite"
        return
    poses = torch.stack([replay.pose[k, i] for k, i in frames])
    poses[:, :3] = poses[0, :3] + (poses[:, :3] - poses[0, :3]).clamp(-_MAX_DRIFT, _MAX_DRIFT)
    captions = [_caption(_step_summary(dump, replay, k, i)) for k, i in frames]
    fps, target = 1 / (_SLOW_MOTION * stride * replay.dt), path.with_suffix(".mp4")
    try:
        clip = VideoClip(replay.model_path, poses.unsqueeze(1).double().numpy(), captions, fps, replay.ground)
        write_video(target, clip)
        yield f"video: {target}, {_SLOW_MOTION} times slower (contact sheet: {contact_sheet_path(target)})"
    except VideoError as error:
        yield str(error)


def _frames(replay: FaultReplay, stride: int) -> List[Tuple[int, int]]:
    """Return control step and physics step of every frame; the last frame is the end of the last step."""
    steps, samples = replay.lost.shape
    order = [(k, i) for k in range(steps) for i in range(samples - 1)] + [(steps - 1, samples - 1)]
    shown = ~replay.lost & torch.isfinite(replay.pose).all(dim=2)
    return [(k, i) for k, i in order[::-1][::stride][::-1] if shown[k, i]]


def _caption(now: StepSummary) -> str:
    return (
        f"{now.time_left:.3f} s before the end    trunk at {now.height:.2f} m, {now.speed:.3g} m/s    "
        f"fastest: {now.joint}, {now.joint_speed:.3g} rad/s"
    )


def plot_fault(dump: FaultDump, replay: FaultReplay, path: Path) -> None:
    """Draw the trunk's speed and the joints' velocities over the recorded steps as PNG."""
    steps, samples = replay.lost.shape
    begins = (np.arange(steps) - steps) * replay.control_dt
    seconds = begins[:, None] + np.arange(samples) * replay.dt  # [K, 1 + D]
    figure = Figure(figsize=(10, 9))  # without pyplot, which needs a display
    trunk, joints = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1.6))
    lost = replay.lost.unsqueeze(2)
    _draw(trunk, seconds, replay.root_speed.unsqueeze(2).masked_fill(lost, math.nan).numpy(), ("trunk",))
    _draw(joints, seconds, replay.joint_vel.masked_fill(lost, math.nan).numpy(), replay.joint_names)
    for axis in (trunk, joints):
        for k in replay.broken.nonzero().flatten().tolist():
            end = begins[k] + replay.control_dt
            axis.axvspan(begins[k], end, color="#d62728", alpha=0.15, label="physics broke")
        for k in replay.disturbed_steps:
            axis.axvline(begins[k + 1], color="#444444", linestyle="--", linewidth=1.2, label="changed from outside")
        axis.set_xlim(begins[0], 0.0)
    trunk.set_title(f"{headline(dump)}, iteration {dump.iteration}", parse_math=False)
    trunk.set_ylabel("trunk speed [m/s]")
    joints.set_ylabel("joint velocity [rad/s]")
    joints.set_xlabel("time to the end of the last step [s]")
    by_label = dict(zip(*joints.get_legend_handles_labels()[::-1]))  # each once
    figure.legend(by_label.values(), by_label.keys(), loc="lower center", ncols=5, fontsize=8)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.savefig(path, dpi=110)


def _draw(axis: Axes, seconds: np.ndarray, values: np.ndarray, names: Sequence[str]) -> None:
    """Draw values [K, 1 + D, n] at seconds [K, 1 + D] as n lines; an axis with very large values is logarithmic."""
    finite = np.where(np.isfinite(values), values, np.nan).reshape(-1, len(names))
    if np.nanmax(np.abs(finite), initial=0.0) > _MAX_LINEAR:
        axis.set_yscale("symlog", linthresh=1.0)
    colors = matplotlib.colormaps["tab20"]
    for i, name in enumerate(names):
        color = colors(i % colors.N)
        axis.plot(seconds.flatten(), finite[:, i], color=color, linewidth=1.2, marker=".", markersize=4, label=name)
    axis.grid(alpha=0.3)
