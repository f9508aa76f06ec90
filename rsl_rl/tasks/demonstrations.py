"""What a task's observation groups would be for robots that move as in a clip."""

from __future__ import annotations

from dataclasses import replace
from typing import Dict, List, Mapping, Sequence

import torch
from torch import Tensor

from rsl_rl.env.vec_env import VecEnv
from rsl_rl.motion.clip import ClipSet
from rsl_rl.motion.library import find_clip
from rsl_rl.sim.base import RobotPoseVel, make_sim
from rsl_rl.tasks.legged_robot import LeggedRobot
from rsl_rl.tasks.mdp.motion import of_trunk, planar_velocity
from rsl_rl.tasks.mdp.observations import ObservationGroup, ObservationTable
from rsl_rl.tasks.mdp.style import FootClock, Style
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.tensors import rotate_inverse


def states_of_clips(env: VecEnv, group: str, motions: Mapping[str, Sequence[str]]) -> Dict[str, List[Tensor]]:
    """Return what an observation group is in the frames of clips, one for each control step, [F, D] by style.

    The terms of the group are computed from a simulation of robots in the poses of the frames, with their velocities,
    by the functions of the task; it is MuJoCo's on the CPU, whatever the engine of the task. Terms that depend on
    forces or on the time in an episode have no meaning there. The command of the velocity is the mean one of the clip,
    that of a :class:`Style` is the style of the clip, and that of a :class:`FootClock` the clock of its feet. The rest
    of the commands is 0.
    """
    if not isinstance(env, LeggedRobot):
        raise ValueError(f"{type(env).__name__} is not a legged robot; name a function of its own in AMPConfig.source")
    source = next((one for one in env.commands.sources.values() if isinstance(one, Style)), None)
    if source is not None and sorted(source.styles) != sorted(motions):
        raise ValueError(
            f"AMPConfig.motions has the styles {', '.join(motions)}, and the task {', '.join(source.styles)}; name the "
            "same"
        )
    return {
        style: [_observed(env, group, name, style if source is not None else "") for name in names]
        for style, names in motions.items()
    }


def _observed(env: LeggedRobot, group: str, name: str, style: str) -> Tensor:
    """Return what a group is in the frames of a clip [F, D]; with the command of a style if that is not empty."""
    cfg, device, dt = env.cfg, torch.device("cpu"), env.cfg.sim.control_dt
    clip = find_clip(name, cfg.robot)
    clips = ClipSet([of_trunk(clip, env.sim.joint_names)], device)
    length, loops = float(clips.lengths[0]), bool(clips.loops[0])
    count = int(length / dt + 1e-3) + 1 + int(loops)  # a loop goes on into its next round
    if count < 2:
        raise ValueError(f"the clip '{name}' is shorter than one control step of {dt:g} s; give a longer one")
    times = torch.arange(count, device=device) * dt
    frame = clips.at(torch.zeros(count, dtype=torch.long, device=device), times)
    quat = frame.link_quat[:, 0]
    pose_vel = RobotPoseVel(
        frame.link_pos[:, 0],
        quat,
        frame.link_vel[:, 0],
        rotate_inverse(quat, frame.link_ang_vel[:, 0]),
        frame.joint_pos,
        frame.joint_vel,
    )
    sim = make_sim(env.robot.model_path, count, replace(cfg.sim, backend="mujoco"), str(device))
    state = RobotState(sim, env.robot, dt, cfg.commands.dead_zone)
    for command, source in env.commands.sources.items():
        value = torch.zeros(count, len(source.ranges), device=device)
        if isinstance(source, Style):
            value[:, source.styles.index(style)] = 1.0
        if isinstance(source, FootClock):
            value = source.of_clip(clip, times)
        if command == "velocity":
            value[:, :3] = planar_velocity(pose_vel).mean(dim=0)
        state.commands[command] = value
    sim.reset(torch.ones(count, dtype=torch.bool, device=device), pose_vel)
    state.refresh_pose()
    terms = cfg.observations[group]
    late = [term for term, own in terms.terms.items() if own.delay != (0, 0) or (own.history or terms.history) > 1]
    if late:
        raise ValueError(f"env.observations.{group} has a history or a delay of '{late[0]}'; a state has none")
    own = ObservationGroup(terms, f"env.observations.{group}.terms", state, torch.Generator(device))
    return ObservationTable({group: own}, state)(state, {})[group].to(env.device, copy=True)
