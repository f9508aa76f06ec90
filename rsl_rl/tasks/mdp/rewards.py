"""Reward terms: functions of the robots' state, each [N]; penalties have a negative weight.

To add a term, write a function here and name it in ``env.rewards.terms``. Public functions of this file are terms. A
term of another package is named "package.module:function". Its parameters are in the ``params`` of the term.
"""

from __future__ import annotations

import inspect
import math
from typing import Callable, Dict, Mapping, Tuple

import torch
from torch import Tensor

from rsl_rl.config.mdp import Links, NotNegative, Positive, RewardConfig, Share
from rsl_rl.robots.robot import Names
from rsl_rl.tasks.robot_state import RobotState
from rsl_rl.utils.binding import bind_named, settings_of

RewardFunction = Callable[..., Tensor]


def track_lin_vel(state: RobotState, *, tracking_sigma: Positive = 0.25) -> Tensor:
    """exp(-error^2 / tracking_sigma) of the horizontal velocity: 1 without error."""
    error = state.command[:, :2] - state.base_lin_vel[:, :2]
    return error.square().sum(dim=1).div_(-tracking_sigma).exp_()


def track_yaw_rate(state: RobotState, *, tracking_sigma: Positive = 0.25) -> Tensor:
    """exp(-error^2 / tracking_sigma) of the yaw rate: 1 without error."""
    error = state.command[:, 2] - state.base_ang_vel[:, 2]
    return error.square().div_(-tracking_sigma).exp_()


def lin_vel_z(state: RobotState) -> Tensor:
    """Squared vertical velocity [(m/s)^2]."""
    return state.base_lin_vel[:, 2].square()


def ang_vel_xy(state: RobotState) -> Tensor:
    """Squared roll and pitch rates [(rad/s)^2]."""
    return state.base_ang_vel[:, :2].square().sum(dim=1)


def orientation(state: RobotState) -> Tensor:
    """Squared sine of the trunk's tilt."""
    return state.gravity[:, :2].square().sum(dim=1)


def base_height(state: RobotState, *, base_height_target: NotNegative = 0.3) -> Tensor:
    """Squared difference between the trunk's height and its target [m^2]."""
    return (state.base_height - base_height_target).square()


def torques(state: RobotState) -> Tensor:
    """Squared joint torques [(N m)^2]."""
    return state.joint_torque.square().sum(dim=1)


def energy(state: RobotState) -> Tensor:
    """Sum of the absolute mechanical power of the joints [W]."""
    return (state.joint_torque * state.joint_vel).abs().sum(dim=1)


def joint_acc(state: RobotState) -> Tensor:
    """Squared joint accelerations [(rad/s^2)^2]."""
    return state.joint_acc.square().sum(dim=1)


def joint_vel(state: RobotState) -> Tensor:
    """Squared joint velocities [(rad/s)^2]."""
    return state.joint_vel.square().sum(dim=1)


def action_rate(state: RobotState) -> Tensor:
    """Squared change of the action."""
    return (state.action - state.previous_action).square().sum(dim=1)


def joint_limits(state: RobotState, *, soft_joint_limit: Share = 0.9) -> Tensor:
    """Sum of the distances of joints beyond their soft limits [rad]."""
    distance = (state.joint_pos - state.joint_middle).abs_()
    return distance.sub_(state.joint_half_range, alpha=soft_joint_limit).clamp_(min=0.0).sum(dim=1)


def joint_deviation(state: RobotState, *, joints: Names = ".*") -> Tensor:
    """Squared distance of joints from the default pose [rad^2]."""
    return state.joints(state.joint_offset, joints).square().sum(dim=1)


def abduction_deviation(state: RobotState, *, joints: Names = "abduction") -> Tensor:
    """Squared distance of the abduction joints from the default pose [rad^2]."""
    return joint_deviation(state, joints=joints)


def collision(state: RobotState, *, collision_links: Links = ()) -> Tensor:
    """Number of ``collision_links`` that touch the floor."""
    if not collision_links:
        raise ValueError("the reward collision has no collision_links; name some, or remove the term")
    return (state.contact_strength(collision_links) > 0.1).sum(dim=1, dtype=torch.float32)


def feet_air_time(state: RobotState, *, air_time_target: NotNegative = 0.3, feet: Names = ".*") -> Tensor:
    """Duration of each finished swing minus ``air_time_target`` [s]; 0 while no motion is commanded."""
    excess = (state.air_time - air_time_target).clamp(max=0.2) * state.foot_touchdown
    return state.feet(excess, feet).sum(dim=1) * state.moving


def foot_clearance(state: RobotState, *, foot_clearance_target: NotNegative = 0.08, feet: Names = ".*") -> Tensor:
    """Squared error of the swing height, weighted by the foot's horizontal speed [m^3/s]."""
    error = (state.foot_height - foot_clearance_target).square()
    return state.feet(error * state.foot_vel[:, :, :2].norm(dim=-1), feet).sum(dim=1)


def foot_slip(state: RobotState, *, feet: Names = ".*") -> Tensor:
    """Squared horizontal speed of the feet on the floor [(m/s)^2]."""
    return state.feet(state.foot_vel[:, :, :2].square().sum(dim=-1) * state.foot_contact, feet).sum(dim=1)


def trot(state: RobotState) -> Tensor:
    """1 if diagonal feet have equal contact and feet of one side differ, 0 in the opposite case; 0 while no motion is
    commanded.

    Feet are in the order FL, FR, RL, RR.
    """
    contact = state.foot_contact.float()
    left, right = (contact[:, :2] - contact[:, 2:]).unbind(dim=1)  # front minus rear: 1 and -1, or -1 and 1, in a trot
    return (1 - left * right) / 2 * state.moving


def gait(state: RobotState, *, stance_share: Share = 0.55, offsets: Tuple[float, ...] = ()) -> Tensor:
    """1 if each foot is on the floor, or in the air, as the command term gait_clock asks, else 0; 0 while no motion is
    commanded.

    A foot is to be on the floor during the first ``stance_share`` of its turn, which begins its part of ``offsets``,
    in turns, after that of the clock, in the order of ``foot_names``. By default they are equally spaced: the second of
    two feet is half a turn behind the first.
    """
    return _follows_clock(state, stance_share, offsets).all(dim=1) * state.moving


def foot_timing(state: RobotState, *, stance_share: Share = 0.55, offsets: Tuple[float, ...] = ()) -> Tensor:
    """Share of the feet that are on the floor, or in the air, as the command term gait_clock asks, see :func:`gait`; 0
    while no motion is commanded."""
    return _follows_clock(state, stance_share, offsets).float().mean(dim=1) * state.moving


def _follows_clock(state: RobotState, stance_share: float, offsets: Tuple[float, ...]) -> Tensor:
    """Return which feet are on the floor, or in the air, as the gait clock asks [N, F]."""
    sine, cosine = state.command_of("gait_clock").unbind(dim=1)
    num_feet = state.foot_contact.shape[1]
    if offsets and len(offsets) != num_feet:
        raise ValueError(f"a term of the gait clock has {len(offsets)} offsets for {num_feet} feet; give one for each")
    turns = torch.atan2(sine, cosine).div(2 * math.pi)
    delays = offsets or tuple(i / num_feet for i in range(num_feet))
    turns = torch.stack([turns - delay for delay in delays], dim=1)  # [N, F]; a tensor of delays would be copied here
    return state.foot_contact == (turns % 1.0 < stance_share)


def single_stance(state: RobotState, *, air_time_target: NotNegative = 0.3) -> Tensor:
    """Time of the current swing [s], at most ``air_time_target``, while all feet but one are on the floor.

    A swing of more than twice the target does not count, so that standing on one leg is not rewarded; 0 while no motion
    is commanded.
    """
    swinging = ~state.foot_contact
    swing_time = (state.air_time * swinging).sum(dim=1)
    counts = (swinging.sum(dim=1) == 1) & (swing_time < 2 * air_time_target)
    return swing_time.clamp(max=air_time_target) * counts * state.moving


def foot_tilt(state: RobotState, *, feet: Names = ".*") -> Tensor:
    """Sum of the squared sines of the angles between the soles and the floor; for models with ``<foot>_up`` sensors."""
    if not state.foot_up.shape[1]:
        raise ValueError("the reward foot_tilt needs a sensor <foot>_up (framezaxis) of each foot in the model; add it")
    return state.feet(state.foot_up[:, :, :2].square().sum(dim=-1), feet).sum(dim=1)


def stand_still(state: RobotState) -> Tensor:
    """Distance of the joints from the default pose while no motion is commanded [rad]."""
    return state.joint_offset.abs().sum(dim=1) * (1 - state.moving)


def standing_steps(state: RobotState) -> Tensor:
    """Number of feet off the floor while no motion is commanded."""
    return (~state.foot_contact).sum(dim=1, dtype=torch.float32) * (1 - state.moving)


def alive(state: RobotState) -> Tensor:
    """1 in every step."""
    return torch.ones_like(state.base_height)


TERMS: Dict[str, RewardFunction] = {
    name: function
    for name, function in list(globals().items())
    if inspect.isfunction(function) and function.__module__ == __name__ and not name.startswith("_")
}
"""Every term of this file by its name."""


class WeightedRewards:
    """Compute the reward terms of a config, and keep their sums over each episode."""

    def __init__(self, cfg: RewardConfig, state: RobotState, control_dt: float):
        if not cfg.terms:
            raise ValueError(f"env.rewards.terms is empty; name some of {', '.join(sorted(TERMS))}")
        self._state, self._terms = state, bind_rewards(cfg)
        device, num_envs = state.command.device, len(state.command)
        for name, term in self._terms.items():
            shape = list(term(state).shape)
            if shape != [num_envs]:
                raise ValueError(f"the reward '{name}' returns {shape}; return [N], here N={num_envs}")
        step_weights = [term.weight * control_dt for term in cfg.terms.values()]
        self._weights = torch.tensor(step_weights, device=device).unsqueeze(1)  # [terms, 1]
        self.episode_sums = torch.zeros(len(self._terms), num_envs, device=device)  # the caller adds each step's terms

    def compute(self) -> Tensor:
        """Return each term of the current state times its weight and the control period [terms, N]."""
        return torch.stack([term(self._state) for term in self._terms.values()]).mul_(self._weights)

    def reset(self, mask: Tensor) -> None:
        """Set the sums of the environments marked in mask [N] to zero."""
        self.episode_sums.masked_fill_(mask, 0.0)

    def state_dict(self) -> Dict[str, Tensor]:
        """Return the sum of each term by name, each [N]."""
        return dict(zip(self._terms, self.episode_sums.clone()))

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore the sums; a term that the state does not have starts from zero."""
        for own, name in zip(self.episode_sums, self._terms):
            own.copy_(state.get(name, torch.zeros_like(own)))


def bind_rewards(cfg: RewardConfig) -> Dict[str, Callable[[RobotState], Tensor]]:
    """Return the function of each reward term by name, with its parameters bound; a term of weight 0 is 0."""
    bound = {
        name: bind_named(name, term, TERMS, "reward term", f"env.rewards.terms.{name}", settings_of(cfg))
        for name, term in cfg.terms.items()
    }
    return {name: function if cfg.terms[name].weight else _zero for name, function in bound.items()}


def _zero(state: RobotState) -> Tensor:
    return torch.zeros_like(state.base_height)
