"""What a post-mortem looks like: numbers for a table, a picture and a film."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Iterator, List, NamedTuple, Optional, Sequence, Tuple

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rsl_rl.evaluation.fault_replay import Case, Repetition
from rsl_rl.viz.video import Film, VideoError, frames_of, write_video

_FRAME_TIME = 0.005  # between two frames of the film, in the robot's time [s]
_SLOW_MOTION = 20  # times slower than real time
_STAGE = 0.5  # how far from where it began a robot is shown, lest it fly out of the film [m]
_LARGEST_LINEAR = 1000.0  # velocity up to which an axis is linear


class Moment(NamedTuple):
    """One moment of a case in numbers; None where there is nothing to say."""

    time_left: float  # until the last recorded step was over [s]
    height: Optional[float] = None  # of the trunk [m]
    speed: Optional[float] = None  # of the trunk [m/s]
    joint_speed: Optional[float] = None  # of the fastest joint [rad/s]
    joint: str = ""
    target_error: Optional[float] = None  # largest |target - position| of a joint [rad]
    broke: str = ""  # how physics broke in the control step that begins here, if it did


def headline(case: Case) -> str:
    """Name the cause, the term to blame and the robot."""
    return f"{case.cause}{f' ({case.term})' if case.term else ''} in robot {case.environment}"


def moments(case: Case, repetition: Repetition) -> List[Moment]:
    """Return where each recorded step begins, the oldest first, and what the last one leads to."""
    last = len(case.states) - 1
    return [
        *(_moment(case, repetition, k, 0) for k in range(last + 1)),
        _moment(case, repetition, last, repetition.lost.shape[1] - 1),
    ]


def _moment(case: Case, repetition: Repetition, k: int, i: int) -> Moment:
    """Return what step k looks like after i physics steps."""
    steps, samples = repetition.lost.shape
    time_left = ((steps - k) * (samples - 1) - i) * repetition.dt
    if repetition.lost[k, i]:
        return Moment(time_left)
    pose, speeds = repetition.pose[k, i], repetition.joint_vel[k, i].abs()
    fastest = int(speeds.nan_to_num(math.inf).argmax())
    now = Moment(
        time_left=time_left,
        height=float(pose[2]),
        speed=float(repetition.root_speed[k, i]),
        joint_speed=float(speeds[fastest]),
        joint=repetition.joint_names[fastest],
    )
    if i > 0:
        return now
    return now._replace(target_error=float((case.targets[k] - pose[7:]).abs().max()), broke=_how(repetition, k))


def _how(repetition: Repetition, k: int) -> str:
    """Say how physics broke in step k, if it did."""
    if repetition.diverged[k]:
        return "engine gave up"
    if not repetition.broken[k]:
        return ""
    return "too fast" if torch.isfinite(repetition.reached[k]).all() else "not finite"


def write_postmortem(case: Case, repetition: Repetition, path: Path, video: bool) -> Iterator[str]:
    """Write a picture and, if asked for, a film beside the post-mortem's file; yield a line on each as it is done."""
    plot_postmortem(case, repetition, path.with_suffix(".png"))
    yield f"plot: {path.with_suffix('.png')}"
    if not video:
        return
    stride = max(1, round(_FRAME_TIME / repetition.dt))
    frames = _frames(repetition, stride)
    if not frames:
        yield "no video: no pose of the robot is finite"
        return
    poses = torch.stack([repetition.pose[k, i] for k, i in frames])
    poses[:, :3] = poses[0, :3] + (poses[:, :3] - poses[0, :3]).clamp(-_STAGE, _STAGE)
    captions = [_caption(_moment(case, repetition, k, i)) for k, i in frames]
    fps, place = 1 / (_SLOW_MOTION * stride * repetition.dt), path.with_suffix(".mp4")
    try:
        write_video(place, Film(repetition.model_path, poses.unsqueeze(1).double().numpy(), captions, fps))
        yield f"video: {place}, {_SLOW_MOTION} times slower (at a glance: {frames_of(place)})"
    except VideoError as error:
        yield str(error)


def _frames(repetition: Repetition, stride: int) -> List[Tuple[int, int]]:
    """Return the control step and the physics step within it of every frame; the last one is where the steps lead."""
    steps, samples = repetition.lost.shape
    order = [(k, i) for k in range(steps) for i in range(samples - 1)] + [(steps - 1, samples - 1)]
    shown = ~repetition.lost & torch.isfinite(repetition.pose).all(dim=2)
    return [(k, i) for k, i in order[::-1][::stride][::-1] if shown[k, i]]


def _caption(now: Moment) -> str:
    return (
        f"{now.time_left:.3f} s before the end    trunk at {now.height:.2f} m, {now.speed:.3g} m/s    "
        f"fastest: {now.joint}, {now.joint_speed:.3g} rad/s"
    )


def plot_postmortem(case: Case, repetition: Repetition, path: Path) -> None:
    """Draw the trunk's speed and the joints' velocities over the recorded steps as PNG."""
    steps, samples = repetition.lost.shape
    begins = (np.arange(steps) - steps) * repetition.control_dt
    seconds = begins[:, None] + np.arange(samples) * repetition.dt  # [K, 1 + D]
    figure = Figure(figsize=(10, 9))  # by itself, without pyplot: no display is asked for
    trunk, joints = figure.subplots(2, 1, sharex=True, height_ratios=(1, 1.6))
    lost = repetition.lost.unsqueeze(2)
    _draw(trunk, seconds, repetition.root_speed.unsqueeze(2).masked_fill(lost, math.nan).numpy(), ("trunk",))
    _draw(joints, seconds, repetition.joint_vel.masked_fill(lost, math.nan).numpy(), repetition.joint_names)
    for axis in (trunk, joints):
        for k in repetition.broken.nonzero().flatten().tolist():
            end = begins[k] + repetition.control_dt
            axis.axvspan(begins[k], end, color="#d62728", alpha=0.15, label="physics broke")
        for k in repetition.touched:
            axis.axvline(begins[k + 1], color="#444444", linestyle="--", linewidth=1.2, label="moved by something else")
        axis.set_xlim(begins[0], 0.0)
    trunk.set_title(f"{headline(case)}, iteration {case.iteration}", parse_math=False)
    trunk.set_ylabel("trunk speed [m/s]")
    joints.set_ylabel("joint velocity [rad/s]")
    joints.set_xlabel("time to the end of the last step [s]")
    by_label = dict(zip(*joints.get_legend_handles_labels()[::-1]))  # each once
    figure.legend(by_label.values(), by_label.keys(), loc="lower center", ncols=5, fontsize=8)
    figure.tight_layout(rect=(0, 0.08, 1, 1))
    figure.savefig(path, dpi=110)


def _draw(axis: Axes, seconds: np.ndarray, values: np.ndarray, names: Sequence[str]) -> None:
    """Draw values [K, 1 + D, n] at seconds [K, 1 + D] as n lines; an axis of absurd values is logarithmic."""
    finite = np.where(np.isfinite(values), values, np.nan).reshape(-1, len(names))
    if np.nanmax(np.abs(finite), initial=0.0) > _LARGEST_LINEAR:
        axis.set_yscale("symlog", linthresh=1.0)
    colors = matplotlib.colormaps["tab20"]
    for i, name in enumerate(names):
        color = colors(i % colors.N)
        axis.plot(seconds.flatten(), finite[:, i], color=color, linewidth=1.2, marker=".", markersize=4, label=name)
    axis.grid(alpha=0.3)
