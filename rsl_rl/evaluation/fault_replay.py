"""Load a fault dump of a training, simulate the last control steps of the robot again, and show them."""

from __future__ import annotations

import io
import math
import re
import zipfile
from pathlib import Path
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from rsl_rl.config.task import LeggedRobotConfig, TaskConfig
from rsl_rl.robots import ROBOTS
from rsl_rl.sim.base import PARAMETERS, Sim, make_sim
from rsl_rl.tasks.actuators import ExplicitActuator
from rsl_rl.tasks.faults import broken_state
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.terrain import build_terrain
from rsl_rl.utils.files import atomic_write, read_file
from rsl_rl.utils.height_field import HeightField
from rsl_rl.utils.registry import import_object, suggest
from rsl_rl.utils.text import one_line
from rsl_rl.viz.video import VideoClip, VideoError, contact_sheet_path, write_video

_FORMAT = 1
"""Format version of the files that can be read."""

_ROUNDING = 1e-6
"""Largest difference between two states that rounding on another processor can cause."""

_FIELDS = {"cause": str, "term": str, "environment": int, "iteration": int, "step": int}

SECTIONS = {"reward_term": "rewards", "observation_term": "observations"}
"""Causes outside the physics, and the section of the dump that describes them."""

_FRAME_TIME = 0.005  # simulated time between two frames of the video [s]
_SLOW_MOTION = 20  # factor of slow motion
_MAX_DRIFT = 0.5  # largest distance from the start that is drawn, so that the robot stays in the picture [m]
_MAX_LINEAR = 1000.0  # velocity up to which an axis is linear


class FaultDump(NamedTuple):
    """Contents of a fault dump: K control steps of one robot, the oldest first."""

    cause: str
    term: str
    environment: int
    iteration: int
    step: int  # in the rollout of the iteration
    states: Tensor  # [K, S] before each step
    targets: Tensor  # [K, J] joint targets [rad], or [K, physics steps, J] targets or torques of each physics step
    parameters: Dict[str, Tensor]  # of the robot, see Sim.parameters_of
    values: Dict[str, Any]  # rewards or observations by name, depending on the cause; or empty


class FaultReplay(NamedTuple):
    """Result of simulating the K control steps of a dump again, each from its recorded state, in D physics steps.

    Where the physics diverges, the engine resets the robot. The samples after that within the step are marked in
    ``lost``.
    """

    model_path: Path
    ground: Optional[HeightField]  # None: a plane
    joint_names: Tuple[str, ...]
    dt: float  # physics step [s]
    end_states: Tensor  # [K, S] after each step
    diverged: Tensor  # [K] bool: the physics diverged
    broken: Tensor  # [K] bool: diverged, or the end state is not finite or too fast
    differences: Tensor  # [K - 1] largest difference between the end state and the recorded state of the next step
    pose: Tensor  # [K, 1 + D, 7 + J] root position [m], quaternion, joint angles [rad], at the start and after each
    root_speed: Tensor  # [K, 1 + D] [m/s]              physics step
    joint_vel: Tensor  # [K, 1 + D, J] [rad/s]
    lost: Tensor  # [K, 1 + D] bool

    @property
    def control_dt(self) -> float:
        """Control period [s]."""
        return self.dt * (self.lost.shape[1] - 1)

    @property
    def disturbed_steps(self) -> List[int]:
        """Steps after which the recorded state was changed from outside, such as by a push or a reset."""
        return (self.differences > _ROUNDING).nonzero().flatten().tolist()


def find_fault_dump(run: Path, name: str) -> Path:
    """Return the file of a fault dump from its path, or from its name in the run's postmortem/ folder, with or without
    extension; an unknown name is a ValueError that lists the known ones."""
    folder, stem = run / "postmortem", re.sub(r"\.(pt|json)$", "", name)
    for path in (Path(name), *(parent / f"{stem}.pt" for parent in (Path(), folder, run))):
        if path.is_file() and path.suffix != ".json":
            _require_same_run(path.resolve(), run.resolve())
            return path
    known = sorted(path.stem for path in folder.glob("*.pt"))
    if not known:
        raise ValueError(f"there is no fault dump '{name}', and {run} has none: no robot broke there")
    raise ValueError(f"there is no fault dump '{name}'; {folder} has {', '.join(known)}.{suggest(stem, known)}")


def _require_same_run(path: Path, run: Path) -> None:
    """Raise a ValueError for the fault dump of another run, whose physics may differ."""
    owner = path.parent.parent
    if path.parent.name == "postmortem" and owner != run and (owner / "config.yaml").is_file():
        raise ValueError(f"{path} belongs to another run than {run}; add --load_run {owner}")


def load_fault_dump(path: Path, cfg: TaskConfig) -> FaultDump:
    """Read a fault dump without executing code in it; a file that is damaged, or of another robot, is a ValueError."""
    content = _read(path)
    env = content["env"]
    if env is None or not isinstance(cfg, LeggedRobotConfig):
        reason = "the task has no physics, or only the learner found the fault"
        raise ValueError(f"{path} has no physics to replay: {reason}; read {path.stem}.json")
    if env.get("robot") != cfg.robot:
        raise ValueError(f"{path} is of the robot '{env.get('robot')}' and the task has '{cfg.robot}'; correct --task")
    physics, values = env.get("physics"), env.get(SECTIONS.get(content["cause"], ""), {})
    try:
        states, targets, parameters = (physics[name] for name in ("states", "targets", "parameters"))
        whole = states.is_floating_point() and targets.is_floating_point() and states.dim() == 2
        whole = whole and targets.dim() in (2, 3) and len(states) == len(targets) > 0
        whole = whole and all(isinstance(value, Tensor) for value in parameters.values()) and isinstance(values, dict)
    except (TypeError, KeyError, AttributeError):
        whole = False
    if not whole:
        raise ValueError(f"{path} is damaged: its physics are not states, targets and parameters; use another file")
    return FaultDump(
        **{name: content[name] for name in _FIELDS},
        states=states,
        targets=targets,
        parameters=parameters,
        values=values,
    )


def _read(path: Path) -> Dict[str, Any]:
    packed = read_file(path)
    try:
        if zipfile.ZipFile(io.BytesIO(packed)).testzip() is not None:
            raise ValueError("a checksum is wrong")
        content = torch.load(io.BytesIO(packed), map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file can cause any error
        reason = one_line(str(error))[:160]
        raise ValueError(f"{path} is damaged or not a fault dump ({reason}); use another file") from error
    fields = {"format": int, **_FIELDS, "env": (dict, type(None))}
    if not isinstance(content, dict) or not all(isinstance(content.get(name, ...), fields[name]) for name in fields):
        raise ValueError(f"{path} is not a fault dump: it lacks some of {', '.join(fields)}")
    if content["format"] != _FORMAT:
        raise ValueError(f"{path} has format {content['format']}, and this version reads {_FORMAT}; update rsl-rl-lib")
    return content


def replay_fault(dump: FaultDump, cfg: LeggedRobotConfig, device: str = "cpu") -> FaultReplay:
    """Simulate all steps of a fault dump in parallel, with the physics of the task."""
    robot = ROBOTS.load(cfg.robot)
    terrain = build_terrain(cfg.terrain)
    ground = None if terrain is None else terrain.ground
    sim = make_sim(robot.model_path, len(dump.states), cfg.sim, device, ground)
    state = RobotState(sim, robot, cfg.sim.control_dt)
    if issubclass(import_object(cfg.control.actuator.builds), ExplicitActuator):
        sim.use_torques()
    targets = dump.targets.to(sim.device)
    _restore(sim, dump)
    tracks: Dict[str, List[Tensor]] = {"pose": [], "root_speed": [], "joint_vel": [], "lost": []}
    lost = torch.zeros(sim.num_envs, dtype=torch.bool, device=sim.device)
    for i in range(1 + cfg.sim.decimation):
        if i > 0:
            inputs = targets if targets.dim() == 2 else targets[:, (i - 1) % targets.shape[1]]
            sim.step(inputs, 1)
            lost = lost | sim.diverged
        tracks["pose"].append(torch.cat((sim.root_pos, sim.root_quat, sim.joint_pos), dim=1))
        tracks["root_speed"].append(sim.root_lin_vel.norm(dim=1))
        tracks["joint_vel"].append(sim.joint_vel.clone())
        tracks["lost"].append(lost)
    too_fast = broken_state(state, cfg.terminations)
    end_states = sim.physics_state().cpu()
    return FaultReplay(
        model_path=robot.model_path,
        ground=ground,
        joint_names=sim.joint_names,
        dt=cfg.sim.dt,
        end_states=end_states,
        diverged=lost.cpu(),
        broken=(lost | too_fast).cpu(),
        differences=_differences(end_states[:-1], dump.states[1:]),
        **{name: torch.stack(track, dim=1).cpu() for name, track in tracks.items()},
    )


def _restore(sim: Sim, dump: FaultDump) -> None:
    """Set the robot's parameters in every world, and the start state of one step in each."""
    joints = [len(sim.joint_names)]
    shapes = {name: list(sim.shape_of_parameter(name)) for name in PARAMETERS}
    got = {name: list(value.shape) for name, value in dump.parameters.items()}
    sizes, own = [dump.states.shape[1], dump.targets.shape[-1]], [sim.physics_state().shape[1], *joints]
    known = all(name in shapes and shapes[name] == shape for name, shape in got.items())
    if sizes != own or not known or ("stiffness" in got) != ("damping" in got):
        raise ValueError(
            f"the fault dump has states and targets of {sizes} numbers and the parameters {got}, and this simulation "
            f"has {own} and {shapes}; use the model and the engine of the training"
        )
    sim.set_parameters({name: value.expand(sim.num_envs, *value.shape) for name, value in dump.parameters.items()})
    sim.set_physics_state(dump.states.to(sim.device))


def _differences(end_states: Tensor, recorded: Tensor) -> Tensor:
    """Return the largest difference in each row; two numbers that are not finite count as equal."""
    broken = ~torch.isfinite(end_states) & ~torch.isfinite(recorded)
    return (end_states - recorded).masked_fill(broken, 0.0).abs().nan_to_num(math.inf, math.inf).amax(dim=1)


def describe_replay(dump: FaultDump, replay: FaultReplay) -> str:
    """Return a line that says whether the fault occurs again."""
    cause = f"the cause is the term {dump.term}"
    if replay.broken[-1]:
        line = "the physics breaks as in training"
        if dump.cause in SECTIONS:
            line = f"the physics breaks here, but did not in training, where {cause}"
    elif dump.cause in SECTIONS:
        line = f"the physics does not break: {cause}"
    else:
        line = "the physics does not break here, but did in training: its settings, the engine or the model differ"
    return f"{line}; {_agreement(replay)}"


def _agreement(replay: FaultReplay) -> str:
    """Return a text about the differences between recorded and simulated states."""
    differences, disturbed_steps = replay.differences, replay.disturbed_steps
    if not len(differences):
        return "there is only one step"
    line = f"the largest difference from a recorded state is {float(differences.max()):.2g}"
    if not disturbed_steps:
        return line
    if len(disturbed_steps) == len(differences) > 2:
        return f"{line}, and no state agrees: the physics of the run differed"
    times = ", ".join(f"{(len(differences) - k) * replay.control_dt:.3f} s" for k in disturbed_steps)
    return f"{line}: {times} before the end, the state was changed from outside, such as by a push or a reset"


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
    moments = [*((k, 0) for k in range(last + 1)), (last, replay.lost.shape[1] - 1)]
    return [_step_summary(dump, replay, k, i) for k, i in moments]


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
    broke = ""
    if replay.broken[k]:
        is_finite = bool(torch.isfinite(replay.end_states[k]).all())
        broke = "diverged" if replay.diverged[k] else "too fast" if is_finite else "not finite"
    return now._replace(target_error=float((dump.targets[k] - pose[7:]).abs().max()), broke=broke)


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
    captions = [
        f"{now.time_left:.3f} s before the end    trunk at {now.height:.2f} m, {now.speed:.3g} m/s    "
        f"fastest: {now.joint}, {now.joint_speed:.3g} rad/s"
        for now in (_step_summary(dump, replay, k, i) for k, i in frames)
    ]
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
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=110)
    atomic_write(path, picture.getvalue())


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
