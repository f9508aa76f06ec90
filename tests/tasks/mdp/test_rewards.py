"""Each reward term against numbers worked out by hand on a state made by hand."""

import itertools
from types import SimpleNamespace

import pytest
import torch

from rsl_rl.config.mdp import RewardConfig, RewardTerm
from rsl_rl.robots.go2 import GO2
from rsl_rl.tasks.mdp import rewards
from rsl_rl.tasks.mdp.rewards import bind_rewards

JOINTS = [f"{leg}_{part}_joint" for leg in ("FL", "FR") for part in ("hip", "thigh", "calf")]
FEET = ("FL_foot", "FR_foot", "RL_foot", "RR_foot")
CFG = RewardConfig(dict.fromkeys(rewards.TERMS, RewardTerm(1.0))).with_params("collision", collision_links=("thigh",))


def state(**changes):
    values = {
        "contact_strength": {("thigh",): torch.tensor([[5.0], [0.0]])}.get,
        "command": torch.tensor([[1.0, 0.0, 0.5], [0.0, 0.0, 0.0]]),
        "moving": torch.tensor([1.0, 0.0]),
        "base_lin_vel": torch.tensor([[0.5, 0.0, 0.2], [0.0, 0.0, 0.0]]),
        "base_ang_vel": torch.tensor([[0.1, 0.2, 0.5], [0.0, 0.0, 1.0]]),
        "gravity": torch.tensor([[0.6, 0.0, -0.8], [0.0, 0.0, -1.0]]),
        "base_height": torch.tensor([0.2, 0.3]),
        "joint_pos": torch.tensor([[0.5, 0, 0, 0.95, 0, 0], [0.0] * 6]),
        "joint_offset": torch.tensor([[0.3, 0, 0, 0.9, 0, -0.1], [0.0] * 6]),
        "joint_middle": torch.tensor([0.2, 0, 0, 0, 0, 0]),
        "joint_half_range": torch.tensor([0.3, 1, 1, 1, 1, 1]),
        "joint_vel": torch.tensor([[2.0, 0, 0, 0, 0, 0], [0.0] * 6]),
        "joint_acc": torch.tensor([[10.0, 0, 0, 0, 0, 0], [0.0] * 6]),
        "joint_torque": torch.tensor([[-3.0, 0, 0, 0, 0, 4.0], [0.0] * 6]),
        "action": torch.tensor([[1.0, 0, 0, 0, 0, 0], [0.0] * 6]),
        "previous_action": torch.tensor([[0.0, 2.0, 0, 0, 0, 0], [0.0] * 6]),
        "air_time": torch.tensor([[0.4, 0.1, 0.0, 0.9], [0.4, 0.0, 0.0, 0.0]]),
        "foot_touchdown": torch.tensor([[True, True, False, True], [True, False, False, False]]),
        "foot_contact": torch.tensor([[True, False, False, True], [True, True, False, False]]),
        "foot_height": torch.tensor([[0.08, 0.08, 0.08, 0.02], [0.08] * 4]),
        "foot_up": torch.tensor([[[0.0, 0.0, 1.0]] * 3 + [[0.6, 0.0, 0.8]], [[0.0, 0.0, 1.0]] * 4]),
        "joints": lambda x, names: x[:, GO2.joint_indices(names, JOINTS)],
        "feet": lambda x, names: x[:, GO2.foot_indices(names, FEET)],
        "command_of": {"gait_clock": torch.tensor([[1.0, 0.0], [0.0, 1.0]])}.get,  # a quarter turn and none
        "foot_vel": torch.tensor([[[0.0, 0.0, 9.0]] * 3 + [[3.0, 4.0, 0.0]], [[0.0] * 3] * 4]),
    }
    return SimpleNamespace(**{**values, **changes})


BY_HAND = {
    "track_lin_vel": (2.718281828 ** (-0.25 / 0.25), 1.0),
    "track_yaw_rate": (1.0, 2.718281828 ** (-1.0 / 0.25)),
    "lin_vel_z": (0.04, 0.0),
    "ang_vel_xy": (0.05, 0.0),
    "orientation": (0.36, 0.0),
    "base_height": (0.01, 0.0),
    "torques": (25.0, 0.0),
    "energy": (6.0, 0.0),
    "joint_acc": (100.0, 0.0),
    "joint_vel": (4.0, 0.0),
    "action_rate": (5.0, 0.0),
    "joint_limits": (0.03 + 0.05, 0.0),
    "joint_deviation": (0.09 + 0.81 + 0.01, 0.0),
    "abduction_deviation": (0.09 + 0.81, 0.0),
    "collision": (1.0, 0.0),
    "feet_air_time": (0.1 - 0.2 + 0.2, 0.0),  # the third is capped; the second robot was told to stand
    "foot_clearance": (0.06**2 * 5.0, 0.0),
    "foot_slip": (25.0, 0.0),
    "trot": (1.0, 0.0),
    "gait": (0.0, 0.0),  # feet at 0.25, 0, 0.75 and 0.5 turns are to be down, down, up, down
    "foot_timing": (0.75, 0.0),  # the second foot is up
    "single_stance": (0.0, 0.0),  # two feet are in the air
    "foot_tilt": (0.36, 0.0),
    "stand_still": (0.0, 0.0),
    "standing_steps": (0.0, 2.0),  # the first robot is told to move
    "alive": (1.0, 1.0),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_a_term_gives_what_it_should(name):
    assert bind_rewards(CFG)[name](state()).tolist() == pytest.approx(BY_HAND[name], abs=1e-6)


def test_every_term_is_worked_out_above():
    assert set(rewards.TERMS) == set(BY_HAND)


def test_standing_still_means_the_default_pose():
    still = state(moving=torch.zeros(2))
    assert rewards.stand_still(still).tolist() == pytest.approx([1.3, 0.0])


def test_a_pace_is_no_trot():
    lateral = state(
        foot_contact=torch.tensor([[True, False, True, False], [True, True, True, True]]), moving=torch.ones(2)
    )
    assert rewards.trot(lateral).tolist() == [0.5, 0.5]


def test_a_trot_is_counted_pair_by_pair():
    feet = list(itertools.product((False, True), repeat=4))
    pairs = [((fl == rr) + (fr == rl) + (fl != fr) + (rl != rr)) / 4 for fl, fr, rl, rr in feet]
    every = state(foot_contact=torch.tensor(feet), moving=torch.ones(16))
    assert rewards.trot(every).tolist() == pairs


@pytest.mark.parametrize(
    ("name", "params", "value"),
    [
        ("joint_deviation", {"joints": "hip"}, 0.0),
        ("joint_deviation", {"joints": ("FL_hip_joint", "knee")}, 0.09 + 0.01),
        ("foot_slip", {"feet": "front"}, 0.0),
        ("foot_clearance", {"feet": "right"}, 0.06**2 * 5.0),
        ("feet_air_time", {"feet": "left"}, 0.1),
        ("foot_tilt", {"feet": ("left", "FR_foot")}, 0.0),
    ],
)
def test_a_term_counts_the_joints_and_feet_that_it_is_given(name, params, value):
    cfg = RewardConfig({name: RewardTerm(1.0, params=params)})
    assert bind_rewards(cfg)[name](state())[0] == pytest.approx(value, abs=1e-6)


def test_a_swing_on_one_leg_counts_until_twice_its_target():
    contact, times = torch.tensor([[True, False]]).repeat(4, 1), torch.tensor([0.1, 0.35, 0.59, 0.61])
    biped = state(
        foot_contact=contact, air_time=torch.stack((torch.full((4,), 0.02), times), dim=1), moving=torch.ones(4)
    )
    assert rewards.single_stance(biped, air_time_target=0.3).tolist() == pytest.approx([0.1, 0.3, 0.3, 0.0])
    both = state(foot_contact=torch.ones(4, 2, dtype=torch.bool), air_time=biped.air_time, moving=torch.ones(4))
    assert not rewards.single_stance(both, air_time_target=0.3).any()


def test_two_feet_follow_the_gait_clock_half_a_turn_apart():
    angle = torch.tensor([0.0, 0.3, 0.54, 0.56, 0.8]) * 2 * torch.pi  # left foot down until 0.55, right foot from 0.5
    left, right = [True, True, True, False, False], [True, False, True, True, True]
    clock = torch.stack((angle.sin(), angle.cos()), dim=1)
    walks = torch.tensor([left, right]).t()
    for contact, matches in (
        (walks, [1.0] * 5),
        (~walks, [0.0] * 5),
        (torch.ones_like(walks), [1, 0, 1, 0, 0]),
    ):
        biped = state(foot_contact=contact, command_of=lambda name: clock, moving=torch.ones(5))
        assert rewards.gait(biped).tolist() == matches


def test_a_tilt_of_the_feet_needs_a_sensor():
    with pytest.raises(ValueError, match="foot_tilt needs a sensor <foot>_up"):
        rewards.foot_tilt(state(foot_up=torch.zeros(2, 0, 3)))


def test_a_term_of_weight_zero_is_zero_and_needs_no_parameters():
    cfg = RewardConfig({"collision": RewardTerm(0.0), "alive": RewardTerm(1.0)})
    assert [term(state()).tolist() for term in bind_rewards(cfg).values()] == [[0.0, 0.0], [1.0, 1.0]]
