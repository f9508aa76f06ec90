"""Styles and the clocks of the feet: rhythms of clips, what robots are told, and the helper on the robot."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from configs.go2_style import RHYTHMS, style_task
from deploy.onnx_policy import Policy
from deploy.styles import StyledPolicy
from rsl_rl.contracts.contract import contract_of, plain_mapping
from rsl_rl.evaluation.doctor.log import read_log
from rsl_rl.evaluation.doctor.recompute import recompute
from rsl_rl.motion.gaits import GAITS, QUADRUPED
from rsl_rl.motion.library import find_clip
from rsl_rl.motion.rhythm import rhythm_of
from rsl_rl.robots import ROBOTS
from rsl_rl.tasks.demonstrations import states_of_clips
from rsl_rl.tasks.mdp.rewards import track_lin_vel, track_yaw_rate
from rsl_rl.tasks.mdp.style import clock_of_feet, foot_rhythm, lin_vel_in_rhythm, yaw_rate_in_rhythm


@pytest.mark.parametrize("gait", ("trot", "pace", "bound"))
def test_rhythm_of_a_clip_is_that_of_its_gait(gait):
    clip = find_clip(f"{gait} speed=0.5", "go2")
    rhythm, frame = rhythm_of(clip, ROBOTS.load("go2")), 1 / (len(clip.joint_pos) - 1)
    wanted = [GAITS[gait].touchdown[place] for place in QUADRUPED]
    apart = (np.array(rhythm.touchdown) - wanted + 0.5) % 1.0 - 0.5
    assert np.abs(apart).max() <= frame  # feet land between frames
    assert np.abs(np.array(rhythm.duty) - GAITS[gait].duty).max() <= 2 * frame
    assert rhythm.period == pytest.approx((len(clip.joint_pos) - 1) / clip.fps)


def test_clip_without_a_rhythm_is_a_value_error():
    with pytest.raises(ValueError, match=r"'stand' has no rhythm .*give one cycle in which each foot lands once"):
        rhythm_of(find_clip("stand", "go2"), ROBOTS.load("go2"))


@given(st.floats(0, 3), st.floats(0, 1, exclude_max=True), st.floats(0.1, 0.9))
def test_clock_of_a_foot_is_positive_while_the_foot_is_to_be_on_the_floor(phase, touchdown, duty):
    sine, cosine = clock_of_feet(torch.tensor([phase]).double(), torch.tensor([touchdown]), torch.tensor([duty]))
    assert sine**2 + cosine**2 == pytest.approx(1.0, abs=1e-5)
    since = (phase - touchdown) % 1.0
    if min(abs(since - edge) for edge in (0.0, duty, 1.0)) > 1e-4:
        assert (sine > 0) == (since < duty)


@pytest.fixture(scope="module")
def env():
    return replace(style_task(), num_envs=6).build(seed=1)


def told(env):
    """The clock [N, F, 2] and the style [N] of robots."""
    return env.state.commands["foot_clock"].unflatten(1, (2, -1)).mT, env.state.commands["style"].argmax(dim=1)


def test_clock_repeats_after_the_period_of_the_told_style(env):
    env.reset()
    rhythms = env.describe_interface(["policy"])["commands"]["foot_clock"]["rhythms"]
    clocks, styles = [], []
    for _ in range(60):
        clock, style = told(env)
        clocks.append(clock.clone())
        styles.append(style)
        env.step(torch.zeros(6, 12))
    assert torch.stack(styles).unique(dim=0).shape[0] == 1 and set(styles[0].tolist()) == {0, 1}
    for robot, style in enumerate(styles[0].tolist()):
        steps = round(rhythms[style]["period"] / env.cfg.sim.control_dt)
        own = torch.stack(clocks)[:, robot]
        torch.testing.assert_close(own[steps:], own[:-steps], atol=1e-4, rtol=0)
        half = own[: -(steps // 2)] - own[steps // 2 :]
        assert half.abs().amax() > 1.0  # and not after half of it


def test_reward_is_the_share_of_feet_that_follow_their_clocks(env):
    env.reset()
    state = env.state
    wanted = state.commands["foot_clock"][:, :4] > 0
    state.moving = torch.tensor([1.0, 1, 1, 1, 1, 0])
    state.foot_contact = wanted.clone()
    state.foot_contact[1, 2] ^= True
    state.foot_contact[2] ^= True
    state.foot_contact[5] ^= True
    assert foot_rhythm(state).tolist() == [1.0, 0.75, 0.0, 1.0, 1.0, 0.0]
    factor = torch.tensor([1.0, 0.75**2, 0.0, 1.0, 1.0, 1.0])  # a robot that is to stand has no rhythm to keep
    for own, whole in ((lin_vel_in_rhythm, track_lin_vel), (yaw_rate_in_rhythm, track_yaw_rate)):
        torch.testing.assert_close(own(state, tracking_sigma=0.5), factor * whole(state, tracking_sigma=0.5))


def test_clocks_of_clips_are_those_of_their_feet(env):
    """In the state of the discriminator the clock of a foot tells when it is on the floor; it is 0 in a stance."""
    clips = {"pace": (RHYTHMS["pace"], "stand"), "bound": (RHYTHMS["bound"],)}
    found = states_of_clips(env, "style", clips)
    feet, clocks = slice(-22, -10), slice(-10, -2)
    for style, states in (("pace", found["pace"][0]), ("bound", found["bound"][0])):
        down = (states[:, feet].unflatten(1, (4, 3)) * states[:, None, 25:28]).sum(
            dim=2
        ) / 9.0  # in the scales of STATE
        height = states[:, 24:25] / 5.0 - down  # of the centres of the feet
        standing = states[:, clocks][:, :4] > 0.3
        swinging = states[:, clocks][:, :4] < -0.3
        assert height[standing].max() < 0.025 < height[swinging].min(), style
        assert states[:, -2:].unique(dim=0).tolist() == [[1.0, 0.0] if style == "pace" else [0.0, 1.0]]
    assert (found["pace"][1][:, clocks] == 0).all()


def test_mirror_image_of_a_pace_is_half_a_cycle_later_and_that_of_a_bound_the_same(env):
    index, sign = env.mirrors()["style"]
    clips = {style: (clip,) for style, clip in RHYTHMS.items()}
    found = states_of_clips(env, "style", clips)
    mirrored = {style: (states[0][:, index] * sign)[:, -10:] for style, states in found.items()}
    half = (len(found["pace"][0]) - 2) // 2
    torch.testing.assert_close(mirrored["pace"][:half], found["pace"][0][half : 2 * half, -10:], atol=1e-5, rtol=0)
    torch.testing.assert_close(mirrored["bound"], found["bound"][0][:, -10:], atol=1e-5, rtol=0)


def test_policy_on_the_robot_is_told_what_the_simulation_tells():
    """Also while the command falls to zero within the limit of its change, and after a change of the style."""
    task = style_task()
    limit = replace(task.commands.limit, enabled=True)
    env = replace(task, num_envs=6, commands=replace(task.commands, limit=limit)).build(seed=1)
    env.reset()
    terms, size = env.describe_interface(["policy"]), env.get_observations()["policy"].shape[1]
    whole = {**plain_mapping(12), **terms, "format": 2, "inputs": {"obs": [1, size]}, "outputs": {"actions": [1, 12]}}
    contract_of(whole)  # it is a valid one
    policies = [StyledPolicy(Policy(whole, lambda obs: [np.zeros((1, 12), np.float32)])) for _ in range(6)]
    phases = env.commands.sources["foot_clock"].state_dict()["phase"].flatten().tolist()
    periods = [rhythm["period"] for rhythm in whole["commands"]["foot_clock"]["rhythms"]]
    for robot, policy in enumerate(policies):  # the first step of an episode is the reset
        style = int(env.state.commands["style"][robot].argmax())
        policy.style, policy.phase = policy.description["commands"]["style"]["styles"][style], phases[robot]
        policy.phase -= env.cfg.sim.control_dt / periods[style]
        policy(command=env.state.requested_command[robot].numpy(), **STANDING)
    seen = []
    for step in range(60):
        env.state.requested_command.copy_(torch.tensor([1.0, 0, 0] if step < 25 else [0.0, 0, 0]))
        if step == 12:
            env.state.commands["style"].copy_(env.state.commands["style"].flip(1))
        obs = env.step(torch.zeros(6, 12)).obs["policy"][:, -10:]
        style = env.state.commands["style"].argmax(dim=1).tolist()
        requested = env.state.requested_command[0].numpy()
        for robot, policy in enumerate(policies):
            policy.style = ("pace", "bound")[style[robot]]
            own = policy(command=requested, **STANDING)
            assert own.shape == (12,)
            np.testing.assert_allclose(policy.last_obs[-10:], obs[robot].numpy(), atol=1e-4)
        seen.append(obs[:, :8].abs().amax() > 0)
    assert seen[0] and seen[30] and not seen[-1]  # the clocks stop a while after the stick


def test_log_of_a_policy_with_styles_is_read_with_what_it_was_told(env, tmp_path):
    terms, size = env.describe_interface(["policy"]), env.get_observations()["policy"].shape[1]
    whole = {**plain_mapping(12), **terms, "format": 2, "inputs": {"obs": [1, size]}, "outputs": {"actions": [1, 12]}}
    runner = Policy(whole, lambda obs: [np.zeros((1, 12), np.float32)], log=tmp_path / "log.csv")
    policy, told, steps = StyledPolicy(runner, "bound"), [], itertools.count()
    runner.clock = lambda: 0.02 * next(steps)
    for _ in range(10):
        policy(command=(0.5, 0.0, 0.0), **STANDING)
        told.append(policy._styles.told(1, policy.phase))
    log = read_log(tmp_path / "log.csv", whole)
    assert log.notes == ()
    for name in ("style", "foot_clock"):
        np.testing.assert_allclose(log.readings[name], np.stack([one[name] for one in told]), atol=1e-5)
    again = recompute(log, Policy(whole, runner._network), runner._network, whole)
    np.testing.assert_allclose(again.observation, log.observation, atol=1e-4)


STANDING = {
    "base_quat": (1.0, 0, 0, 0),
    "base_lin_vel": (0.0, 0, 0),
    "base_ang_vel": (0.0, 0, 0),
    "joint_pos": (0.0,) * 12,
    "joint_vel": (0.0,) * 12,
}


def description(styles=("a", "b"), rhythms=({"period": 0.5, "touchdown": [0.0], "duty": [0.5]},) * 2):
    commands = {"style": {"styles": list(styles)}, "foot_clock": {"rhythms": list(rhythms)}}
    return SimpleNamespace(control_period=0.02, description={"commands": commands})


def test_policy_without_clocks_is_told_the_style_only():
    policy = StyledPolicy(description(rhythms=()), "b")
    assert {name: value.tolist() for name, value in policy.told().items()} == {"style": [0.0, 1.0]}
    assert policy.control_period == 0.02


@pytest.mark.parametrize(
    ("policy", "style", "message"),
    [
        (description(), "trot", "style=trot; the policy has a, b"),
        (description(styles=()), "", "the policy has 0 styles and 2 rhythms"),
        (description(rhythms=({"period": 0.5},)), "", "2 styles and 1 rhythms; give"),
        (description(rhythms=({"period": 0.0},) * 2), "", "the rhythm of the style a is unusable; give a period"),
        (description(rhythms=({"period": 1.0, "touchdown": [0.0], "duty": [1.0]},) * 2), "", "a is unusable; give"),
    ],
)
def test_styles_that_cannot_be_told_are_a_value_error(policy, style, message):
    with pytest.raises(ValueError, match=message):
        StyledPolicy(policy, style)


@pytest.mark.parametrize("clips", ({"pace": "pace"}, {"bound": "bound", "pace": "pace"}))
def test_clock_with_clips_of_other_styles_is_a_value_error(clips):
    task = style_task()
    with pytest.raises(ValueError, match="give a clip for each style, in order: pace, bound"):
        replace(task, commands=task.commands.with_params("foot_clock", clips=clips), num_envs=2).build()


def test_clock_before_its_style_is_a_value_error():
    task = style_task()
    terms = dict(reversed(task.commands.terms.items()))
    with pytest.raises(ValueError, match="style=style; name a command term that comes before this one"):
        replace(task, commands=replace(task.commands, terms=terms), num_envs=2).build()


def test_clock_goes_on_after_its_state_is_restored(env):
    env.reset()
    env.step(torch.zeros(6, 12))
    state, clocks = env.commands.state_dict(), []
    for _ in range(2):
        env.commands.load_state_dict(state)
        for _ in range(5):
            env.commands.step(torch.zeros(6, dtype=torch.bool))
        clocks.append(env.state.commands["foot_clock"].clone())
        env.reset()
    torch.testing.assert_close(clocks[0], clocks[1], atol=0, rtol=0)
