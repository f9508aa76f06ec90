"""Reference motions that robots follow: command sources that play clips, and the start of episodes in a clip.

A task of reference motions has the command source :class:`Motion`, the event :class:`MotionStart` as "start_state", and
terms of rsl_rl.tasks.mdp.motion_terms, which find the state that a robot is to have by ``state.part(Reference)``.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import torch
from torch import Tensor

from rsl_rl.config.mdp import NotNegative, Positive, Range, Share
from rsl_rl.motion.clip import Clip, ClipSet, Frame
from rsl_rl.motion.library import find_clip
from rsl_rl.motion.rotations import from_vector, multiply, rotate
from rsl_rl.sim.base import LinkStates, RobotPoseVel
from rsl_rl.tasks.mdp.commands import FOREVER, CommandSource
from rsl_rl.tasks.mdp.context import TaskContext
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.tensors import Stored, Uniform, from_yaw, none_on_cpu, rotate_inverse


class StartSampler(Stored):
    """Draw the clip and the moment at which an episode starts, more often where episodes fail.

    Each clip is cut into bins of about ``bin_seconds``. The failure rate of a bin is the share of its control steps in
    which an episode failed, by sums that forget with ``memory`` [control steps]. A share ``uniform_share`` of the
    starts is uniform over the clips, and over the time of each. The others have chances in proportion to the failure
    rate of the bin and, with falling weights, of the two after it, so that a robot meets what is hard with some speed.
    """

    stored = ("failed", "visited")
    DECAY = 0.8
    """Weight of the failure rate of the next bin, and its square that of the one after it."""

    def __init__(self, clips: ClipSet, bin_seconds: float, uniform_share: float, memory: float, task: TaskContext):
        lengths = clips.lengths.tolist()
        counts = [max(1, math.ceil(length / bin_seconds - 1e-6)) for length in lengths]
        if memory < 1:
            raise ValueError(f"memory={memory:g}; give at least 1 control step")
        device = task.device
        self._lengths, self._loops = clips.lengths, clips.loops
        self._first = torch.tensor([sum(counts[:i]) for i in range(len(counts))], device=device)  # [M] bin
        self._counts = torch.tensor(counts, device=device)  # [M]
        self.clip_of = torch.arange(len(counts), device=device).repeat_interleave(self._counts)  # [B]
        self._width = (self._lengths / self._counts)[self.clip_of]  # [B] s
        self._begin = (torch.arange(sum(counts), device=device) - self._first[self.clip_of]) * self._width  # [B] s
        self._uniform = 1.0 / (len(counts) * self._counts[self.clip_of].float())  # [B], sums up to 1
        last = self._first + self._counts - 1
        self._following = [  # of each bin, in its clip; beyond the end the weight is 0
            (torch.arange(sum(counts), device=device) + ahead, self.DECAY**ahead) for ahead in (1, 2)
        ]
        self._last = last[self.clip_of]  # [B]
        self._uniform_share, self._forget = uniform_share, 1.0 / memory
        self.failed = torch.zeros(sum(counts), device=device)  # [B] steps in which an episode failed
        self.visited = torch.zeros(sum(counts), device=device)  # [B] steps
        self._num_envs, self._generator = task.num_envs, task.generator

    def bin_of(self, clip: Tensor, time: Tensor) -> Tensor:
        """Return the bins [N] of times [N] s of clips [N]."""
        length, count = self._lengths[clip], self._counts[clip]
        share = torch.where(self._loops[clip], (time / length) % 1.0, (time / length).clamp(0.0, 1.0))
        return self._first[clip] + torch.minimum((share * count).to(torch.long), count - 1)

    def record(self, clip: Tensor, time: Tensor, failed: Tensor) -> None:
        """Count a control step of N robots; ``failed`` [N] marks episodes that it ended as a failure."""
        bins = self.bin_of(clip, time)
        ones = torch.ones_like(time)
        for sums, values in ((self.visited, ones), (self.failed, failed.float())):
            sums.mul_(1.0 - self._forget).index_add_(0, bins, values)

    def failure_rate(self) -> Tensor:
        """Return the share of the steps of each bin that were failures, [B]."""
        return self.failed / self.visited.clamp(min=1e-6)

    def chances(self) -> Tensor:
        """Return the chance of each bin, [B]."""
        rate = self.failure_rate()
        hard = rate.clone()
        for index, weight in self._following:
            hard += torch.where(index <= self._last, weight * rate[index.clamp(max=len(rate) - 1)], 0.0)
        total = hard.sum()
        mixed = (1 - self._uniform_share) * hard / total.clamp(min=1e-9) + self._uniform_share * self._uniform
        return torch.where(total > 0, mixed, self._uniform)

    def __call__(self) -> Tuple[Tensor, Tensor]:
        """Return a clip and a moment [s] for each robot, [N] each."""
        bins = torch.multinomial(self.chances(), self._num_envs, replacement=True, generator=self._generator)
        share = torch.rand(self._num_envs, generator=self._generator, device=bins.device)
        return self.clip_of[bins], self._begin[bins] + share * self._width[bins]


class Ahead(NamedTuple):
    """Joints of the frames that a policy reads."""

    joint_pos: Tensor  # [N, K, J] rad
    joint_vel: Tensor  # [N, K, J] rad/s


class Reference(Stored):
    """The state that each of N robots is to have at the end of the next control step, from the clip that it follows.

    Each robot has its own place and heading: where an episode starts, the clip is turned about the vertical and moved
    so that its trunk is above the start of the robot. ``steps`` are the frames of ``ahead``, in control steps after
    that state, 0 first.
    """

    stored = ("clip", "time", "heading", "shift", "_fresh", "sampler")

    def __init__(self, task: TaskContext, clips: Sequence[Clip], steps: Sequence[int], sampler: Dict[str, float]):
        if not steps or steps[0] != 0 or list(steps) != sorted(set(steps)):
            raise ValueError(f"steps={tuple(steps)}; give control steps ahead in rising order, the first one 0")
        self._state, self._sim, self._dt = task.state, task.sim, task.control_dt
        self._levels = task.levels
        self.clips = ClipSet([of_trunk(clip, task.sim.joint_names) for clip in clips], task.device)
        self.names, self.lengths, self.loops = self.clips.names, self.clips.lengths, self.clips.loops
        twice = [name for name in self.names if self.names.count(name) > 1]
        if twice:
            raise ValueError(f"two clips have the name '{twice[0]}'; rename one, which is `name` in its file")
        self.steps, self._ahead_by = tuple(steps), torch.tensor([*steps], device=task.device) * self._dt
        self.sampler = StartSampler(self.clips, task=task, **sampler)
        n, device = task.num_envs, task.device
        self.clip = torch.zeros(n, dtype=torch.long, device=device)  # [N]
        self.time = torch.zeros(n, device=device)  # [N] of the state that is to be reached, in the clip [s]
        self.heading = torch.zeros(n, device=device)  # [N] by which the clip is turned [rad]
        self.shift = torch.zeros(n, 3, device=device)  # [N, 3] by which it is moved then [m]
        self._fresh = torch.zeros(n, dtype=torch.bool, device=device)  # [N] the time is that of the first step
        self._heading = Uniform(n, ((-math.pi, math.pi),), task.generator)
        self._links: Dict[Tuple[str, ...], LinkStates] = {}
        self._computed: Optional[Tuple[RobotPoseVel, Ahead]] = None  # of the present times
        self.starts_at: Tuple[Tensor, Tensor] = (self.clip, torch.full_like(self.time, math.nan))  # see ``start_at``
        task.observers.append(self._observe)

    def start_at(self, clip: Tensor, time: Tensor) -> None:
        """Let the next episodes of all robots start at times [N] s of clips [N], where the times are numbers."""
        self.starts_at = (clip, time)

    def draw_start(self) -> Tuple[Tensor, Tensor, Tensor]:
        """Return the clip, the moment in it [s] and the heading [rad] of the next start of each robot, [N] each."""
        return (*self.sampler(), self._heading()[:, 0])

    def restart(self, mask: Tensor, start: Tuple[Tensor, Tensor, Tensor]) -> RobotPoseVel:
        """Start the next episode of the robots marked in mask [N] as :meth:`draw_start` says; return the state there,
        of all robots [N, ...]; other rows are undefined."""
        clip, time, heading = start
        own = self.starts_at[1].isfinite()
        clip, time = torch.where(own, self.starts_at[0], clip), torch.where(own, self.starts_at[1], time)
        frame = self.clips.at(clip, time)
        origins = self._levels.origins
        shift = origins - rotate(from_yaw(heading), frame.link_pos[:, 0])
        shift[:, 2] = origins[:, 2]
        self.clip, self.heading = torch.where(mask, clip, self.clip), torch.where(mask, heading, self.heading)
        self.shift = torch.where(mask.unsqueeze(1), shift, self.shift)
        self.time = torch.where(mask, time + self._dt, self.time)
        self._fresh = self._fresh | mask
        self._computed = None
        return self._placed(frame, heading, shift)

    def advance(self) -> None:
        """Go on by one control step in all robots but those that have restarted since :meth:`begin_step`."""
        self.time = torch.where(self._fresh, self.time, self.time + self._dt)
        self._computed = None

    def begin_step(self) -> None:
        """Clear the marks of restarted robots, so that the next :meth:`advance` moves them too."""
        self._fresh = torch.zeros_like(self._fresh)

    @property
    def pose_vel(self) -> RobotPoseVel:
        """State that each robot is to have, [N, ...]."""
        return self._present()[0]

    @property
    def ahead(self) -> Ahead:
        """Joints in the frames ahead of that state, itself the first."""
        return self._present()[1]

    def _present(self) -> Tuple[RobotPoseVel, Ahead]:
        """Return ``pose_vel`` and ``ahead`` of the present times."""
        if self._computed is not None:
            return self._computed
        n, k = len(self.clip), len(self.steps)
        times = (self.time.unsqueeze(1) + self._ahead_by).flatten()  # [N K]
        frame = self.clips.at(self.clip.repeat_interleave(k), times)
        ahead = Ahead(frame.joint_pos.view(n, k, -1), frame.joint_vel.view(n, k, -1))
        first = frame if k == 1 else Frame(*(x.unflatten(0, (n, k))[:, 0] for x in frame))
        self._links.clear()
        self._computed = self._placed(first, self.heading, self.shift), ahead
        return self._computed

    def sequences(self, loop_time: float) -> List[Frame]:
        """Return each clip as it is, one frame for each control step from its first on; loops for ``loop_time`` [s]."""
        frames = []
        for i, (length, loops) in enumerate(zip(self.lengths.tolist(), self.loops.tolist())):
            count = int((loop_time if loops else length) / self._dt + 1e-3) + 1
            times = torch.arange(count, device=self.time.device) * self._dt
            frames.append(self.clips.at(torch.full_like(times, i, dtype=torch.long), times))
        return frames

    def velocity_ranges(self) -> Tuple[Tuple[float, float], ...]:
        """Return lowest and highest forward and left velocity [m/s] and yaw rate [rad/s] in the clips."""
        frames = self.sequences(float(self.lengths.max()))
        still = [torch.zeros(len(frame.joint_pos), device=self.time.device) for frame in frames]
        placed = [self._placed(frame, x, x.unsqueeze(1).expand(-1, 3)) for frame, x in zip(frames, still)]
        velocities = torch.cat([planar_velocity(pose_vel) for pose_vel in placed])
        return tuple(zip(velocities.amin(dim=0).tolist(), velocities.amax(dim=0).tolist()))

    def _placed(self, frame: Frame, heading: Tensor, shift: Tensor) -> RobotPoseVel:
        """Return moments of the clips, turned and moved."""
        turn, own = from_yaw(heading), frame.link_quat[:, 0]
        return RobotPoseVel(
            rotate(turn, frame.link_pos[:, 0]) + shift,
            multiply(turn, own),
            rotate(turn, frame.link_vel[:, 0]),
            rotate_inverse(own, frame.link_ang_vel[:, 0]),
            frame.joint_pos,
            frame.joint_vel,
        )

    def links(self, names: Tuple[str, ...]) -> LinkStates:
        """Return the states that links, or feet, are to have."""
        pose_vel = self.pose_vel
        if names not in self._links:
            self._links[names] = self._state.kinematics(names)(pose_vel)
        return self._links[names]

    @property
    def phase(self) -> Tensor:
        """Part of the clip that is over, from 0 to 1, [N]; of a loop, of its round."""
        share = self.time / self.lengths[self.clip]
        return torch.where(self.loops[self.clip], share % 1.0, share.clamp(0.0, 1.0))

    def _observe(self, state: RobotState, done: Tensor) -> None:
        self.sampler.record(self.clip, self.time, done & ~state.timed_out)

    def load_state_dict(self, state: Any) -> None:
        super().load_state_dict(state)
        self._computed = None


def of_trunk(clip: Clip, joint_names: Sequence[str]) -> Clip:
    """Return a clip with the trunk as its only link, and with joints in an order; missing ones are a ValueError."""
    missing = [name for name in joint_names if name not in clip.joint_names]
    if missing or len(clip.joint_names) != len(joint_names):
        raise ValueError(
            f"the clip '{clip.name}' has the joints {', '.join(clip.joint_names)}, and the robot "
            f"{', '.join(joint_names)}; take a clip of this robot, or retarget it: rsl-rl motion retarget"
        )
    poses, rates = ("joint_pos", "link_pos", "link_quat"), ("joint_vel", "link_vel", "link_ang_vel")
    if not all(getattr(clip, name).isfinite().all() for name in poses + rates):
        raise ValueError(
            f"the clip '{clip.name}' has numbers that are not finite; mend it: rsl-rl motion check FILE --mend nan"
        )
    order = [clip.joint_names.index(name) for name in joint_names]
    links = {name: getattr(clip, name)[:, :1] for name in ("link_pos", "link_quat", "link_vel", "link_ang_vel")}
    joints = {name: getattr(clip, name)[:, order] for name in ("joint_pos", "joint_vel")}
    return replace(clip, joint_names=tuple(joint_names), link_names=clip.link_names[:1], **links, **joints)


class Motion(CommandSource):
    """Play reference motions; the command is joint angles [rad] and joint velocities [rad/s] of the frame that is to be
    reached, [N, 2 J].

    ``clips`` are files of clips, or names that :func:`find_clip` knows. ``steps`` are those of the frames that terms
    give to the policy, in control steps after that frame. The other parameters are those of :class:`StartSampler`.
    """

    stored = ("_age", "reference")

    def __init__(
        self,
        task: TaskContext,
        *,
        clips: Tuple[str, ...],
        steps: Tuple[int, ...] = (0,),
        bin_seconds: Positive = 0.5,
        uniform_share: Share = 0.3,
        memory: Positive = 1000.0,
    ):
        found = [find_clip(name, task.cfg.robot) for name in clips]
        sampler = {"bin_seconds": bin_seconds, "uniform_share": uniform_share, "memory": memory}
        self.reference = Reference(task, found, steps, sampler)
        task.state.add_part(self.reference)
        super().__init__(task, ((-1e9, 1e9),) * (2 * len(task.sim.joint_names)), FOREVER)
        self._task = task

    @property
    def clips(self) -> Tuple[str, ...]:
        return self.reference.names

    def sequences(self, loop_time: float) -> List[Frame]:
        return self.reference.sequences(loop_time)

    def play_from_start(self) -> None:
        robots = torch.arange(len(self._age), device=self._age.device)
        self.reference.start_at(robots % len(self.clips), torch.zeros_like(self.reference.time))

    def recorded(self) -> Dict[str, Tensor]:
        """Return the pose "reference" [N, 7 + J], and the number of the "clip" that each robot follows [N]."""
        wanted = self.reference.pose_vel
        pose = torch.cat((wanted.root_pos, wanted.root_quat, wanted.joint_pos), dim=1)
        return {"reference": pose, "clip": self.reference.clip}

    def due(self) -> Tensor:
        self.reference.advance()
        return torch.zeros_like(self._age, dtype=torch.bool)

    def sample(self) -> Tensor:
        pose = self.reference.pose_vel
        return torch.cat((pose.joint_pos, pose.joint_vel), dim=1)

    def draw(self, command: Tensor, mask: Tensor) -> None:
        """Do nothing: the start of an episode decides what is played, and :meth:`follow` gives it."""

    def follow(self, command: Tensor) -> None:
        self.reference.begin_step()
        command.copy_(self.sample())

    def log(self) -> Dict[str, Tensor]:
        rate = self.reference.sampler.failure_rate()
        return {"Motion/failure_rate": rate.mean(), "Motion/failure_rate_of_hardest_bin": rate.max()}

    def describe(self) -> Dict[str, Any]:
        return {"steps": list(self.reference.steps), "clips": list(self.reference.names)}

    def readings(self, command: Tensor) -> Dict[str, Tensor]:
        pose, ahead, sim = self.reference.pose_vel, self.reference.ahead, self._task.sim
        return {
            "base_pos": sim.root_pos,
            "reference_joint_pos": ahead.joint_pos.flatten(1),
            "reference_joint_vel": ahead.joint_vel.flatten(1),
            "reference_base_pos": pose.root_pos,
            "reference_base_quat": pose.root_quat,
        }


def planar_velocity(pose_vel: RobotPoseVel) -> Tensor:
    """Return forward and left velocity [m/s] and yaw rate [rad/s] in the base frame, [N, 3]."""
    velocity = rotate_inverse(pose_vel.root_quat, pose_vel.root_lin_vel)
    return torch.cat((velocity[:, :2], pose_vel.root_ang_vel[:, 2:]), dim=1)


class MotionVelocity(CommandSource):
    """Give the velocity of the reference in its own base frame as the command "velocity": forward and left velocity
    [m/s] and yaw rate [rad/s], for metrics, plots and films."""

    def __init__(self, task: TaskContext):
        super().__init__(task, ((-1e9, 1e9),) * 3, FOREVER)
        self._state = task.state

    @property
    def final_ranges(self) -> Tuple[Range, ...]:
        """Lowest and highest velocities of the clips."""
        return self._state.part(Reference).velocity_ranges()

    def due(self) -> Tensor:
        return torch.zeros_like(self._age, dtype=torch.bool)

    def sample(self) -> Tensor:
        if not self._state.has_part(Reference):
            return self._age.new_zeros(len(self._age), 3, dtype=torch.float32)
        return planar_velocity(self._state.part(Reference).pose_vel)

    def draw(self, command: Tensor, mask: Tensor) -> None:
        """Do nothing: the reference gives the command in every step."""

    def follow(self, command: Tensor) -> None:
        command.copy_(self.sample())


class MotionStart:
    """Set the start state: a moment of a reference motion, see :class:`StartSampler`, with errors. These are uniform:
    of the joint angles at most ``joint_error`` [rad], of the trunk's orientation about each axis ``turn_error`` [rad],
    of its velocity along and about each axis ``velocity_error`` [m/s] and [rad/s]; it starts ``height`` [m] higher.
    """

    def __init__(
        self,
        task: TaskContext,
        *,
        joint_error: NotNegative = 0.1,
        turn_error: NotNegative = 0.1,
        velocity_error: NotNegative = 0.3,
        height: NotNegative = 0.005,
    ):
        self._task, self._reference, self._height = task, task.state.part(Reference), height
        errors = (joint_error,) * len(task.sim.joint_names) + (turn_error,) * 3 + (velocity_error,) * 6
        self._draw = Uniform(task.num_envs, [(-error, error) for error in errors], task.generator)

    def __call__(self, mask: Tensor) -> None:
        sim = self._task.sim
        # drawn for all robots in each step, so that other random numbers do not depend on who has fallen
        errors, start = self._draw(), self._reference.draw_start()
        if none_on_cpu(mask):
            return
        pose, num_joints = self._reference.restart(mask, start), len(sim.joint_names)
        joints, turn, lin_vel, ang_vel = errors.split([num_joints, 3, 3, 3], dim=1)
        pos = pose.root_pos.clone()
        pos[:, 2] += self._height
        start = RobotPoseVel(
            pos,
            multiply(pose.root_quat, from_vector(turn)),
            pose.root_lin_vel + lin_vel,
            pose.root_ang_vel + ang_vel,
            (pose.joint_pos + joints).clamp(*sim.joint_limits.unbind(dim=1)),
            pose.joint_vel,
        )
        sim.reset(mask, start)
