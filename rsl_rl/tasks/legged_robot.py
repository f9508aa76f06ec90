"""A legged robot that follows velocity commands: the order of one control step."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

import torch
from torch import Tensor

from rsl_rl.config.task import LeggedRobotConfig
from rsl_rl.env.protocols import Mirror
from rsl_rl.env.vec_env import Observations, StepResult, VecEnv
from rsl_rl.robots import ROBOTS, Robot
from rsl_rl.sim.base import Motion
from rsl_rl.sim.selection import make_sim
from rsl_rl.tasks import faults
from rsl_rl.tasks.fault_recorder import FlightRecorder
from rsl_rl.tasks.mdp import terminations
from rsl_rl.tasks.mdp.commands import VelocityCommands
from rsl_rl.tasks.mdp.events import push, randomize_models, start_distribution
from rsl_rl.tasks.mdp.observations import ObservationTable, mirror_of_kind, observation_groups
from rsl_rl.tasks.mdp.weighted_rewards import WeightedRewards
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.tasks.step_log import StepLog
from rsl_rl.utils.cpu_checks import none_on_cpu
from rsl_rl.utils.host import one_thread_for_few
from rsl_rl.utils.rotations import from_yaw


class LeggedRobot(VecEnv):
    """N robots on a floor, commanded by velocity; terms and numbers come from :class:`LeggedRobotConfig`.

    One control step: actions become joint targets; physics; terminations and rewards of the state reached; its
    observation, which is ``final_obs`` of the episodes that end; then resets, new commands and pushes; then the
    observation to act on next. Robots that broke (see rsl_rl.tasks.faults) are reset too, and told of in
    ``extras["invalid"]``.
    """

    def __init__(self, cfg: LeggedRobotConfig, device: str = "cpu", seed: int = 0):
        self.cfg = cfg
        self.robot: Robot = ROBOTS.load(cfg.robot)
        self.sim = make_sim(self.robot.model_path, cfg.num_envs, cfg.sim, device)
        self.device = self.sim.device
        self.num_envs, self.num_actions = cfg.num_envs, len(self.sim.joint_names)
        self.max_episode_length = max(1, round(cfg.episode_length / cfg.sim.control_dt))
        self.episode_length_buf = torch.zeros(self.num_envs, dtype=torch.long, device=self.device)
        self._generator = torch.Generator(self.device).manual_seed(seed)
        self._default_joint_pos = torch.tensor(self.robot.default_joint_pos, device=self.device)
        self.joint_targets = self._default_joint_pos.expand(self.num_envs, -1)  # [N, J] of the last step [rad]
        self._start = torch.tensor([0.0, 0.0, self.robot.standing_height], device=self.device).expand(self.num_envs, 3)
        self._still = torch.zeros(self.num_envs, self.num_actions, device=self.device)
        self._draw_start = start_distribution(
            cfg.randomization, self.robot.default_joint_pos, self.num_envs, self._generator
        )
        self.state = RobotState(self.sim, self._default_joint_pos, cfg.sim.control_dt)
        self.commands = VelocityCommands(cfg.commands, self.num_envs, cfg.sim.control_dt, self._generator)
        self._rewards = WeightedRewards(cfg.rewards, self.state, cfg.sim.control_dt)
        self._step_log = StepLog(cfg.rewards.weights, cfg.episode_length)
        self.state.contact_force(cfg.terminations.contact_links + cfg.rewards.collision_links)  # a typo fails here
        randomize_models(self.sim, self.state, cfg.randomization, cfg.control, self._generator)
        self._groups = observation_groups(cfg, self.state, self._generator)
        self.num_obs = sum(self._groups["policy"].sizes)
        self.num_privileged_obs = sum(self._groups["critic"].sizes) if cfg.critic_observations else None
        self._observation_table = ObservationTable(self._groups, self.state)
        self.extras: Dict[str, Any] = {}
        self.observers: List[Callable[[RobotState, Tensor], None]] = []  # told of every step, before the resets
        self._recorder = FlightRecorder(self.sim, faults.CAUSES)
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
        self.commands.draw(self.state.command, mask)
        self.state.refresh_pose()
        self._observation_table.draw_noise()
        self._observe()
        return self._observations

    def step(self, actions: Tensor) -> StepResult:
        with one_thread_for_few(self.num_envs):
            return self._step(actions)

    def _step(self, actions: Tensor) -> StepResult:
        cfg, state = self.cfg, self.state
        state.previous_action.copy_(state.action)
        state.action.copy_(actions).clamp_(-cfg.control.action_clip, cfg.control.action_clip)
        self.joint_targets = torch.add(self._default_joint_pos, state.action, alpha=cfg.control.action_scale)
        self._recorder.before_step(self.joint_targets)
        self.sim.step(self.joint_targets, cfg.sim.decimation)
        self.episode_length_buf += 1
        state.refresh()

        terms = self._rewards.compute()
        reward = terms.sum(dim=0)
        self._observation_table.draw_noise()
        final_obs = self._observation_table(state)
        found, broken = faults.find_faults(state, cfg.terminations, reward, final_obs)
        terminated = self._terminated()
        if broken is not None:
            rows = {"velocities": faults.velocities(state), "rewards": terms.t(), **final_obs}
            self._recorder.after_step(torch.stack(tuple(found.values())), rows)
            reward = terms.masked_fill_(broken, 0.0).sum(dim=0)  # who broke gets nothing
            terminated |= broken
        reward = reward.clamp(min=0.0) if cfg.rewards.only_positive else reward
        self._rewards.episode_sums += terms
        time_outs = (self.episode_length_buf >= self.max_episode_length) & ~terminated
        done = terminated | time_outs
        log = self._step_log(state, self._rewards.episode_sums, done, time_outs, broken)
        self.extras = {"time_outs": time_outs, "final_obs": final_obs, "log": log, "invalid": found}
        for observer in self.observers:
            observer(state, done)

        state.end_step()
        self._reset(done)
        self.commands.draw(state.command, self.commands.due() | done)
        if cfg.randomization.push_interval > 0:
            push(self.sim, cfg.randomization, cfg.sim.control_dt, self._generator)
        if none_on_cpu(done):  # what a reset would have changed stays
            state.refresh_velocity()
            self._show(self._observation_table.update(state))
        else:
            state.refresh_pose()
            self._observe()
        self.rew_buf, self.reset_buf = reward, done
        return StepResult(self._observations, reward, done, self.extras)

    def _terminated(self) -> Tensor:
        cfg, state = self.cfg.terminations, self.state
        return terminations.forbidden_contact(state, cfg) | terminations.tilted(state, cfg)

    def _reset(self, mask: Tensor) -> None:
        """Put the robots marked in mask [N] onto their feet, each a little differently."""
        start = self._draw_start()
        if none_on_cpu(mask):
            return
        heading, lin_vel, ang_vel, joint_pos = start.split([1, 3, 3, self.num_actions], dim=1)
        joint_pos = joint_pos.clamp(*self.sim.joint_limits.unbind(dim=1))
        self.sim.reset(mask, Motion(self._start, from_yaw(heading[:, 0]), lin_vel, ang_vel, joint_pos, self._still))
        self.episode_length_buf = self.episode_length_buf.masked_fill(mask, 0)
        self._rewards.reset(mask)
        self.state.reset(mask)

    def _observe(self) -> None:
        self._show(self._observation_table(self.state))

    def _show(self, groups: Dict[str, Tensor]) -> None:
        self._observations = groups
        self.obs_buf = groups["policy"]
        self.privileged_obs_buf: Optional[Tensor] = groups.get("critic")

    def state_dict(self) -> Dict[str, Any]:
        """Return all that the next steps depend on: physics, episodes, commands, random draws."""
        return {
            "sim": self.sim.state_dict(),
            "robots": self.state.state_dict(),
            "commands": self.commands.state_dict(),
            "episode_length": self.episode_length_buf.clone(),
            "episode_sums": self._rewards.state_dict(),
            "observations": {name: group.clone() for name, group in self._observations.items()},
            "generator": self._generator.get_state(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from what :meth:`state_dict` gave, bit by bit; another number of robots is a ValueError."""
        self.sim.load_state_dict(state["sim"])
        self.state.load_state_dict(state["robots"])
        self.commands.load_state_dict(state["commands"])
        self.episode_length_buf = state["episode_length"].to(self.device, copy=True)
        self._rewards.load_state_dict(state["episode_sums"])
        draws = state["generator"].cpu()
        if len(draws) != len(self._generator.get_state()):
            raise ValueError(
                f"the random draws saved are of another kind of device than {self.device}; go on where the run began, "
                "or load it with load_env=False (--fresh_episodes)"
            )
        self._generator.set_state(draws)
        self._show({name: group.to(self.device, copy=True) for name, group in state["observations"].items()})
        self._recorder = FlightRecorder(self.sim, faults.CAUSES)

    def postmortem(self, cause: str) -> Optional[Dict[str, Any]]:
        """Tell of the first robot that broke for one of the causes in ``extras["invalid"]``: numbers by name, the term
        to blame, and, for physics to repeat them, its last states, targets and parameters; None where there was none.
        """
        event = self._recorder.read(cause)
        if event is None:
            return None
        robot = int(event["environment"])
        values = {
            "velocities": dict(zip(faults.velocity_names(self.state), event["velocities"].tolist())),
            "rewards": dict(zip(self.cfg.rewards.weights, event["rewards"].tolist())),
            "observations": {
                f"{name} {term}": value
                for name, group in self._groups.items()
                if name in event
                for term, value in group.split(event[name]).items()
            },
        }
        physics = {"states": event["states"], "targets": event["targets"], "parameters": self.sim.parameters_of(robot)}
        blamed = {"environment": robot, "term": faults.culprit(cause, values)}
        return {**blamed, **values, "robot": self.cfg.robot, "physics": physics}

    def mirrors(self) -> Dict[str, Mirror]:
        """Return the left-right mirror image of each observation group and of "actions"."""
        index, sign = mirror_of_kind(self.robot)["joints"]
        return {
            "critic": self._groups["policy"].mirror(self.robot),  # where there is no such group
            **{name: group.mirror(self.robot) for name, group in self._groups.items()},
            "actions": (torch.tensor(index, device=self.device), torch.tensor(sign, device=self.device)),
        }

    def describe_interface(self, actor_groups: Sequence[str]) -> Dict[str, Any]:
        """Return what a robot must know to run a policy that reads these groups: SI units, radians, joints in order."""
        control, commands = self.cfg.control, self.cfg.commands
        return {
            "control_period": self.cfg.sim.control_dt,
            "command_ranges": [list(commands.lin_vel_x), list(commands.lin_vel_y), list(commands.yaw_rate)],
            "observations": [term for group in actor_groups for term in self._groups[group].describe()],
            "joint_names": list(self.sim.joint_names),
            "default_joint_pos": list(self.robot.default_joint_pos),
            "action_scale": control.action_scale,
            "action_clip": control.action_clip,
            "stiffness": [control.stiffness] * self.num_actions,
            "damping": [control.damping] * self.num_actions,
            "torque_limits": self.sim.torque_limits.tolist(),
        }
