"""The legged robot: an environment that follows velocity commands."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Union

import torch
from torch import Tensor

from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.env.protocols import Mirror
from rsl_rl.env.vec_env import Observations, StepResult, VecEnv
from rsl_rl.robots import ROBOTS, Robot
from rsl_rl.sim.base import make_sim, require_same_shapes
from rsl_rl.tasks import faults
from rsl_rl.tasks.actuators import Actuator
from rsl_rl.tasks.faults import FaultRecorder
from rsl_rl.tasks.mdp.commands import Commands
from rsl_rl.tasks.mdp.context import TaskContext
from rsl_rl.tasks.mdp.events import Events
from rsl_rl.tasks.mdp.observations import ObservationTable, mirrors_by_type, observation_groups
from rsl_rl.tasks.mdp.rewards import WeightedRewards
from rsl_rl.tasks.mdp.terminations import Terminations, any_of
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.terrain import build_levels, build_terrain
from rsl_rl.utils.host import single_thread_if_small
from rsl_rl.utils.registry import import_object
from rsl_rl.utils.tensors import none_on_cpu


class StepLog:
    """Compute the metrics of a step that a log averages over the robots, each [N]; NaN for robots that do not count.

    ``lin_vel_error`` [m/s] and ``yaw_rate_error`` [rad/s], the tracking errors, count in every step. The others count
    in the step that ends an episode: ``rew_<term>`` is the sum of a reward term over the episode, divided by
    ``episode_length`` [s], ``fall_rate`` is 1 for an end before the time limit, and ``termination_<cause>`` is 1 for an
    end with that cause, maybe among others. Robots that broke in the step do not count.
    """

    def __init__(self, rewards: Iterable[str], causes: Iterable[str], episode_length: float):
        self._names = [f"rew_{name.rpartition(':')[2]}" for name in rewards]
        self._cause_names = [f"termination_{cause}" for cause in causes]
        self._episode_length = episode_length

    def __call__(
        self,
        state: RobotState,
        episode_sums: Tensor,
        causes: Iterable[Tensor],
        done: Tensor,
        time_outs: Tensor,
        broken: Optional[Tensor],
    ) -> Dict[str, Tensor]:
        """Return the metrics of the last step; ``episode_sums`` of rewards are [terms, N], masks [N].

        ``causes`` are the robots that fail by each cause. ``broken`` is None if no robot broke.
        """
        errors = {
            "lin_vel_error": torch.hypot(*(state.command[:, :2] - state.base_lin_vel[:, :2]).unbind(dim=1)),
            "yaw_rate_error": (state.command[:, 2] - state.base_ang_vel[:, 2]).abs_(),
        }
        if none_on_cpu(done):
            no_value = torch.full_like(errors["yaw_rate_error"], math.nan)
            return {**dict.fromkeys((*self._names, "fall_rate", *self._cause_names), no_value), **errors}
        not_counted = ~done
        if broken is not None:
            not_counted |= broken
            errors = {name: error.masked_fill_(broken, math.nan) for name, error in errors.items()}
        per_second = (episode_sums / self._episode_length).masked_fill_(not_counted, math.nan)
        ends = torch.stack((~time_outs, *causes)).float().masked_fill_(not_counted, math.nan)
        names = (*self._names, "fall_rate", *self._cause_names)
        return {**dict(zip(names, (*per_second.unbind(), *ends.unbind()))), **errors}


def _place_of(path: Path) -> str:
    """Return a path that begins with the package in which a shipped robot is, or an absolute one of any other file.

    The path of a shipped robot is then the same on another machine.
    """
    path = path.resolve()
    for package in ("rsl_rl", "rsl_rl_zoo"):
        for folder in getattr(sys.modules.get(package), "__path__", ()):
            if Path(folder).resolve() in path.parents:
                return (Path(package) / path.relative_to(Path(folder).resolve())).as_posix()
    return path.as_posix()


class LeggedRobot(VecEnv):
    """N robots on the ground with velocity commands; terms and values are those of :class:`LeggedRobotConfig`.

    The order of one control step is: joint targets from actions; physics; rewards, terminations and the observation
    after the physics, which is ``final_obs`` of episodes that end; resets, new commands and pushes; the next
    observation. Broken robots (see rsl_rl.tasks.faults) are reset too, and reported in ``extras["invalid"]``.
    """

    def __init__(self, cfg: LeggedRobotConfig, device: str = "cpu", seed: int = 0):
        self.cfg = cfg
        own_robot: Robot = ROBOTS.load(cfg.robot)
        self.robot = own_robot.in_pose(cfg.control.default_joint_pos, "env.control.default_joint_pos")
        self.terrain = build_terrain(cfg.terrain)  # None: a plane
        ground = None if self.terrain is None else self.terrain.ground
        self.sim = make_sim(self.robot.model_path, cfg.num_envs, cfg.sim, device, ground)
        self.device = self.sim.device
        self.num_envs, self.num_actions = cfg.num_envs, len(self.sim.joint_names)
        self.max_episode_length = max(1, round(cfg.episode_length / cfg.sim.control_dt))
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long, device=self.device)
        self._generator = torch.Generator(self.device).manual_seed(seed)
        self.state = RobotState(self.sim, self.robot, cfg.sim.control_dt, cfg.commands.dead_zone)
        self._default_joint_pos = self.state.default_joint_pos
        self.joint_targets = self._default_joint_pos.expand(self.num_envs, -1)  # [N, J] of the last step [rad]
        lengths = (self.max_episode_length, cfg.sim.control_dt)
        self.levels = build_levels(cfg.terrain, self.terrain, self.num_envs, self._generator, *lengths)
        self.actuator: Actuator = import_object(cfg.control.actuator.builds)(
            cfg.control.actuator, self.sim, self.state, cfg.sim.decimation
        )
        self.context = TaskContext(cfg, self.robot, self.sim, self.state, self.actuator, self._generator, self.levels)
        self.action_scale = self.context.per_joint("action_scale")  # [J] [rad] per unit of action
        self.observers: List[Callable[[RobotState, Tensor], None]] = self.context.observers
        self.commands = Commands(cfg.commands, self.context)
        self._events = Events(cfg.randomization, self.context)
        self._events.startup()
        self._terminations = Terminations(cfg.terminations, self.state)
        self._rewards = WeightedRewards(cfg.rewards, self.state, cfg.sim.control_dt)
        self._step_log = StepLog(cfg.rewards.terms, self._terminations.causes(self.state), cfg.episode_length)
        self._groups = observation_groups(cfg, self.state, self._generator)
        self._observation_table = ObservationTable(self._groups, self.state)
        self._observations: Dict[str, Tensor] = {}
        self._recorder = FaultRecorder(self.sim, faults.CAUSES, self.actuator.inputs_per_step)
        self.reset()

    def get_observations(self) -> Observations:
        return self._observations

    def reset(self, env_ids: Union[Sequence[int], Tensor, None] = None) -> Observations:
        """Start new episodes in the given robots, or in all, and return the observations of all."""
        mask = torch.ones(self.num_envs, dtype=torch.bool, device=self.device)
        if env_ids is not None:
            mask.zero_()
            mask[torch.as_tensor(env_ids, device=self.device)] = True
        self._reset(mask)
        self.commands.start(mask)
        self.state.refresh_pose()
        self._observation_table.draw_noise()
        self._observations = self._observation_table(self.state, self._observations, mask, same_step=True)
        return self._observations

    def step(self, actions: Tensor) -> StepResult:
        with single_thread_if_small(self.num_envs):
            return self._step(actions)

    def _step(self, actions: Tensor) -> StepResult:
        cfg, state = self.cfg, self.state
        state.previous_action.copy_(state.action)
        state.action.copy_(actions).clamp_(-cfg.control.action_clip, cfg.control.action_clip)
        self.joint_targets = torch.addcmul(self._default_joint_pos, state.action, self.action_scale)
        self._recorder.before_step()
        self.actuator.step(self.joint_targets)
        self._recorder.record_inputs(self.actuator.inputs)
        self.episode_length_buf += 1
        state.refresh()

        terms = self._rewards.compute()
        reward = terms.sum(dim=0)
        self._observation_table.draw_noise()
        final_obs = self._observation_table(state, self._observations)
        found, broken = faults.find_faults(state, cfg.terminations, reward, final_obs)
        causes = self._terminations.causes(state)
        terminated = any_of(causes, self.num_envs, self.sim.device)
        if broken is not None:
            rows = {"velocities": faults.velocities(state), "rewards": terms.t(), **final_obs}
            self._recorder.after_step(torch.stack(tuple(found.values())), rows)
            reward = terms.masked_fill_(broken, 0.0).sum(dim=0)  # broken robots get no reward
            terminated = terminated | broken
        reward = reward.clamp(min=0.0) if cfg.rewards.only_positive else reward
        self._rewards.episode_sums += terms
        over = (self.episode_length_buf >= self.max_episode_length) | self.levels.at_edge(self.sim.root_pos)
        for ended in self._terminations.time_outs(state).values():
            over = over | ended
        time_outs = state.timed_out = over & ~terminated
        done = terminated | time_outs
        log = self._step_log(state, self._rewards.episode_sums, causes.values(), done, time_outs, broken)
        log.update(self.levels.step(self.sim.root_pos, self.sim.root_quat, state.command, done, time_outs))
        log.update(self._events.log(), **self.commands.log())
        for observer in self.observers:
            observer(state, done)

        state.end_step()
        self._reset(done)
        self.commands.step(done)
        self._events.interval()
        state.refresh_pose()
        started = None if none_on_cpu(done) else done
        self._observations = self._observation_table(state, self._observations, started)
        self._observation_table.end_step()
        extras = {"time_outs": time_outs, "final_obs": final_obs, "log": log, "invalid": found}
        return StepResult(self._observations, reward, done, extras)

    def _reset(self, mask: Tensor) -> None:
        """Reset the robots marked in mask [N] to random start states."""
        self._events.reset(mask)
        if none_on_cpu(mask):
            return
        self.episode_length_buf = self.episode_length_buf.masked_fill(mask, 0)
        self._rewards.reset(mask)
        self.state.reset(mask)
        self.levels.reset(mask)
        self.actuator.reset(mask)

    def state_dict(self) -> Dict[str, Any]:
        """Return everything that the next steps depend on: physics, episodes, commands, random generator."""
        more = {"events": self._events.state_dict(), "actuator": self.actuator.state_dict()}
        more["observation_errors"] = self._observation_table.state_dict()
        more["levels"] = self.levels.state_dict()
        return {
            "sim": self.sim.state_dict(),
            "robots": self.state.state_dict(),
            "commands": self.commands.state_dict(),
            "episode_length": self.episode_length_buf.clone(),
            "episode_sums": self._rewards.state_dict(),
            "observations": {name: group.clone() for name, group in self._observations.items()},
            "generator": self._generator.get_state(),
            **{name: part for name, part in more.items() if part},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what :meth:`state_dict` returned, bit by bit; another shape of a tensor is a ValueError."""
        own = {name: value for name, value in self.state_dict().items() if name != "generator"}
        require_same_shapes(state, own, "the saved state of the environment")
        self.sim.load_state_dict(state["sim"])
        self.state.load_state_dict(state["robots"])
        self.commands.load_state_dict(state["commands"])
        self._events.load_state_dict(state.get("events", {}))
        self.levels.load_state_dict(state.get("levels", {}))
        self.actuator.load_state_dict(state.get("actuator", {}))
        self._observation_table.load_state_dict(state.get("observation_errors", {}))
        self.episode_length_buf = state["episode_length"].to(self.device, copy=True)
        self._rewards.load_state_dict(state["episode_sums"])
        generator_state = state["generator"].cpu()
        if len(generator_state) != len(self._generator.get_state()):
            raise ValueError(
                f"the saved random generator is of another type of device than {self.device}; resume on the device of "
                "the run, or load it with load_env=False (--fresh_episodes)"
            )
        self._generator.set_state(generator_state)
        groups = {name: group.to(self.device, copy=True) for name, group in state["observations"].items()}
        self._observations = groups
        self._recorder = FaultRecorder(self.sim, faults.CAUSES, self.actuator.inputs_per_step)

    def postmortem(self, cause: str) -> Optional[Dict[str, Any]]:
        """Return data on the first robot that broke for a cause of ``extras["invalid"]``: values by name, the offending
        term, and its last states, joint targets and parameters for a replay; None if there was none."""
        event = self._recorder.read(cause)
        if event is None:
            return None
        robot = int(event["environment"])
        values = {
            "velocities": dict(zip(faults.velocity_names(self.state), event["velocities"].tolist())),
            "rewards": dict(zip(self.cfg.rewards.terms, event["rewards"].tolist())),
            "observations": {
                f"{name} {term}": value
                for name, group in self._groups.items()
                if name in event
                for term, value in group.split(event[name]).items()
            },
        }
        physics = {"states": event["states"], "targets": event["targets"], "parameters": self.sim.parameters_of(robot)}
        offending = {"environment": robot, "term": faults.offending_term(cause, values)}
        return {**offending, **values, "robot": self.cfg.robot, "physics": physics}

    def mirrors(self) -> Dict[str, Mirror]:
        """Return the left-right mirror image of each observation group and of "actions"."""
        index, sign = mirrors_by_type(self.robot)["joints"]
        return {
            "critic": self._groups["policy"].mirror(self.robot),  # if there is no such group
            **{name: group.mirror(self.robot) for name, group in self._groups.items()},
            "actions": (torch.tensor(index, device=self.device), torch.tensor(sign, device=self.device)),
        }

    @property
    def target_limits(self) -> Tensor:
        """Return the lowest and highest joint target of an exported policy, [J, 2] [rad].

        A target beyond a joint's range by torque_limit / stiffness asks for the whole torque, and one further away for
        no more. In the simulation the targets are not clamped.
        """
        margin = self.sim.torque_limits / self.context.per_joint("stiffness")
        return self.sim.joint_limits + torch.stack((-margin, margin), dim=1)

    def describe_interface(self, actor_groups: Sequence[str]) -> Dict[str, Any]:
        """Return the interface of a policy that reads these groups, for deployment: SI units, radians, joint order."""
        control, largest, scale = self.cfg.control, self.cfg.terminations, self.cfg.control.action_scale
        limits = {"base_lin_vel": largest.max_speed}
        limits.update(dict.fromkeys(("base_ang_vel", "joint_vel"), largest.max_turning_speed))
        return {
            "robot": self.cfg.robot,
            "control_period": self.cfg.sim.control_dt,
            "sensing_period": self.cfg.sim.control_dt,
            "action_delay": [steps * self.cfg.sim.dt for steps in self.actuator.delay_steps],
            "command_ranges": [list(bounds) for bounds in self.commands.sources["velocity"].final_ranges],
            "commands": self.commands.describe(),
            "observations": [
                term for group in actor_groups for term in self._groups[group].describe(self.cfg.sim.control_dt)
            ],
            "joint_names": list(self.sim.joint_names),
            "default_joint_pos": list(self.robot.default_joint_pos),
            "action_scale": scale if isinstance(scale, float) else list(self.context.values_of_joints("action_scale")),
            "action_clip": control.action_clip,
            "actuator": self.actuator.describe(),
            "stiffness": list(self.context.values_of_joints("stiffness")),
            "damping": list(self.context.values_of_joints("damping")),
            "torque_limits": self.sim.torque_limits.tolist(),
            "joint_limits": self.sim.joint_limits.tolist(),
            "target_limits": self.target_limits.tolist(),
            "input_limits": limits,  # of absolute values, in SI units
            "simulation": {
                "model": _place_of(self.robot.model_path),
                "standing_height": self.robot.standing_height,
                **self._terminations.describe(),
            },
        }
