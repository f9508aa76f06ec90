"""Styles and the clocks of the feet: rhythms of clips, what robots are told, and the helper on the robot."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from configs.go2_style import RHYTHMS, style_task
from deploy.onnx_policy import Policy
from deploy.styles import Styles
from rsl_rl.contracts.contract import plain_mapping
from rsl_rl.evaluation.export_parity import sensor_readings
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


def told(env, name):
    """The clock [N, F, 2] and the style [N] of robots."""
    return env.state.commands["foot_clock"].unflatten(1, (2, -1)).mT, env.state.commands["style"].argmax(dim=1)


def test_clock_repeats_after_the_period_of_the_told_style(env):
    env.reset()
    rhythms = env.describe_interface(["policy"])["commands"]["foot_clock"]["rhythms"]
    clocks, styles = [], []
    for _ in range(60):
        clock, style = told(env, "foot_clock")
        clocks.append(clock.clone())
        styles.append(style)
        env.step(torch.zeros(6, 12))
    assert torch.stack(styles).unique(dim=0).shape[0] == 1 and set(styles[0].tolist()) == {0, 1}
    for robot, style in enumerate(styles[0].tolist()):
        steps = round(rhythms[style]["period"] / env.cfg.sim.control_dt)
        own = torch.stack(clocks)[:, robot]
        torch.testing.assert_close(own[steps:], own[:-steps], atol=1e-4, rtol=0)
        assert (own[steps // 2 : -steps] - own[steps + steps // 2 :]).abs().max() < 1e-4
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


def test_helper_on_the_robot_tells_what_the_simulation_tells(env):
    env.reset()
    terms, size = env.describe_interface(["policy"]), env.get_observations()["policy"].shape[1]
    whole = {**plain_mapping(12), **terms, "format": 2, "inputs": {"obs": [1, size]}, "outputs": {"actions": [1, 12]}}
    policies = [Policy(whole, lambda obs: [np.zeros((1, 12), np.float32)]) for _ in range(6)]
    helpers = [Styles(policy) for policy in policies]
    source = env.commands.sources["foot_clock"]
    for helper, phase in zip(helpers, source.state_dict()["phase"].flatten().tolist()):
        helper.phase = phase
    for _ in range(20):
        env.step(torch.zeros(6, 12))
        readings, told_style = sensor_readings(env), env.state.commands["style"].argmax(dim=1)
        command = env.state.command
        for robot, helper in enumerate(helpers):
            own = helper.next(helper.names[told_style[robot]], command[robot].numpy())
            for name in ("style", "foot_clock"):
                np.testing.assert_allclose(own[name], readings[name][robot].numpy(), atol=1e-3)
    given = {name: value[0].numpy() for name, value in readings.items()}
    obs = policies[0].observe(**given)
    np.testing.assert_allclose(obs[-10:], np.concatenate((own_clock(env), given["style"])), atol=1e-5)
    with pytest.raises(ValueError, match="style=trot; the policy has pace, bound"):
        helpers[0].next("trot", (0, 0, 0))


def own_clock(env):
    return env.get_observations()["policy"][0, -10:-2].numpy()


def test_style_without_clocks_has_a_helper_too_and_a_policy_without_styles_has_none():
    plain = SimpleNamespace(control_period=0.02, description={"commands": {"style": {"styles": ["a", "b"]}}})
    assert Styles(plain).next("b", (1, 0, 0))["style"].tolist() == [0.0, 1.0]
    with pytest.raises(ValueError, match="the policy has no styles"):
        Styles(SimpleNamespace(control_period=0.02, description={}))


def test_clock_with_clips_of_other_styles_is_a_value_error():
    task = style_task()
    with pytest.raises(ValueError, match="give a clip for each style of 'style', in their order"):
        replace(task, commands=task.commands.with_params("foot_clock", clips={"pace": "pace"}), num_envs=2).build()
