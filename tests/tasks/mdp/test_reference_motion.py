"""Reference motions: where they are, how they go on, where episodes start, and the terms of them."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from configs.go2_flat import flat_task
from deploy.onnx_policy import Policy
from deploy.references import References
from rsl_rl.cli.export import write_references
from rsl_rl.config.mdp import CommandTerm, ObservationGroupConfig, ObservationTerm
from rsl_rl.contracts.contract import plain_mapping
from rsl_rl.evaluation.export_parity import sensor_readings
from rsl_rl.evaluation.motion_tracking import for_tracking, measure_tracking, tracks_motions
from rsl_rl.evaluation.playback import make_clip, run_playback
from rsl_rl.motion.clip import ClipSet, load_clip, save_clip
from rsl_rl.motion.generate import generate
from rsl_rl.motion.library import find_clip
from rsl_rl.motion.rotations import multiply, rotate
from rsl_rl.robots import ROBOTS
from rsl_rl.sim.base import RobotPoseVel
from rsl_rl.tasks.demonstrations import states_of_clips
from rsl_rl.tasks.mdp import motion_terms
from rsl_rl.tasks.mdp.motion import MotionStart, Reference, StartSampler
from rsl_rl.utils.tensors import from_yaw, yaw_of
from tests.motions import glide, task_of, write_clips

DT = 0.02
KEYS = ("trunk", "FL_calf", "RR_thigh", "FL_foot", "RR_foot")


@pytest.fixture(scope="module")
def clips(tmp_path_factory):
    return write_clips(tmp_path_factory.mktemp("clips"))


@pytest.fixture(scope="module")
def env(clips):
    return task_of(clips).build(seed=1)


def follow(env, steps):
    """Step with the joints of the reference as targets."""
    reference = env.state.part(Reference)
    for _ in range(steps):
        action = (reference.pose_vel.joint_pos - env.state.default_joint_pos) / env.action_scale
        result = env.step(action)
    return result


def put(env, pose):
    """Put all robots into a pose."""
    env.sim.reset(torch.ones(env.num_envs, dtype=torch.bool), pose)
    env.state.refresh_pose()


def test_episodes_start_in_a_frame_of_the_clip_at_the_origin_with_any_heading(env):
    env.reset()
    reference, sim = env.state.part(Reference), env.sim
    frame = reference.clips.at(reference.clip, reference.time - DT)
    torch.testing.assert_close(sim.joint_pos, frame.joint_pos, atol=1e-6, rtol=0)
    torch.testing.assert_close(sim.joint_vel, frame.joint_vel, atol=1e-5, rtol=0)
    torch.testing.assert_close(sim.root_pos[:, :2], torch.zeros(6, 2), atol=1e-6, rtol=0)
    torch.testing.assert_close(sim.root_pos[:, 2], frame.link_pos[:, 0, 2], atol=1e-6, rtol=0)
    turned = yaw_of(sim.root_quat) - yaw_of(frame.link_quat[:, 0]) - reference.heading
    torch.testing.assert_close(turned.cos(), torch.ones(6), atol=1e-5, rtol=0)
    speed = rotate(from_yaw(reference.heading), frame.link_vel[:, 0])
    torch.testing.assert_close(sim.root_lin_vel, speed, atol=1e-5, rtol=0)
    assert reference.heading.std() > 0.3 and len(reference.time.unique()) > 3


def test_reference_goes_on_by_a_control_step_and_ends_it_where_the_robot_is_to_be(env):
    env.reset()
    reference = env.state.part(Reference)
    start, clip = reference.time.clone() - DT, reference.clip.clone()
    begin = reference.clips.at(clip, start)
    for i in range(1, 4):
        torch.testing.assert_close(reference.time, start + i * DT)
        frame = reference.clips.at(clip, start + i * DT)
        moved = rotate(from_yaw(reference.heading), frame.link_pos[:, 0] - begin.link_pos[:, 0])
        torch.testing.assert_close(reference.pose_vel.root_pos[:, :2], moved[:, :2], atol=1e-5, rtol=0)
        ahead = reference.clips.at(clip, start + (i + 3) * DT)
        torch.testing.assert_close(reference.ahead.joint_pos[:, 1], ahead.joint_pos)
        torch.testing.assert_close(env.state.commands["motion"][:, :12], frame.joint_pos)
        if i < 3:
            follow(env, 1)


def test_velocity_command_is_that_of_the_reference(env):
    env.reset()
    for robot, name in enumerate(env.state.part(Reference).clip.tolist()):
        wanted = (0.4, 0.5) if name == 0 else (0.2, -0.5)
        assert env.state.command[robot].tolist() == pytest.approx([wanted[0], 0.0, wanted[1]], abs=0.01)


def test_terms_of_a_robot_that_is_where_it_is_to_be(env):
    env.reset()
    reference, state = env.state.part(Reference), env.state
    put(env, reference.pose_vel)
    ones, links = torch.ones(6), {"links": KEYS}
    for score in (motion_terms.anchor_pos, motion_terms.anchor_turn, motion_terms.joint_pos):
        torch.testing.assert_close(score(state), ones, atol=1e-4, rtol=0)
    for score in (motion_terms.link_pos, motion_terms.link_turn, motion_terms.link_vel, motion_terms.link_ang_vel):
        torch.testing.assert_close(score(state, **links), ones, atol=1e-4, rtol=0)
    assert motion_terms.mpkpe(state, **links).max() < 1e-5 and motion_terms.turn_error(state).max() < 1e-3
    torch.testing.assert_close(motion_terms.reference_offset(state), torch.zeros(6, 3), atol=1e-6, rtol=0)
    identity = torch.tensor([1.0, 0, 0, 1, 0, 0]).expand(6, 6)
    torch.testing.assert_close(motion_terms.reference_turn(state), identity, atol=1e-6, rtol=0)
    for termination in (motion_terms.anchor_height, motion_terms.anchor_tilt, motion_terms.anchor_distance):
        assert not termination(state).any()


@settings(max_examples=15, deadline=None)
@given(st.floats(-0.5, 0.5), st.floats(-0.5, 0.5), st.floats(-3.0, 3.0))
def test_aligned_reference_ignores_place_and_heading_and_the_metrics_do_not(env, x, y, yaw):
    env.reset()
    pose = env.state.part(Reference).pose_vel
    turn = from_yaw(torch.full((6,), yaw))
    shift = torch.tensor([x, y, 0.0])
    put(env, pose._replace(root_pos=pose.root_pos + shift, root_quat=multiply(turn, pose.root_quat)))
    state, distance = env.state, math.hypot(x, y)
    torch.testing.assert_close(motion_terms.link_pos(state, links=KEYS, sigma=0.05), torch.ones(6), atol=1e-3, rtol=0)
    torch.testing.assert_close(motion_terms.link_turn(state, links=KEYS, sigma=0.1), torch.ones(6), atol=1e-3, rtol=0)
    score = math.exp(-(distance**2) / 0.3**2)
    torch.testing.assert_close(motion_terms.anchor_pos(state), torch.full((6,), score), atol=1e-4, rtol=0)
    score = math.exp(-(abs(yaw) ** 2) / 0.4**2)
    torch.testing.assert_close(motion_terms.anchor_turn(state), torch.full((6,), score), atol=1e-4, rtol=0)
    assert (motion_terms.anchor_distance(state, largest=0.25) == (distance > 0.25)).all() or abs(distance - 0.25) < 1e-4
    if yaw == 0:
        torch.testing.assert_close(motion_terms.mpkpe(state, links=KEYS), torch.full((6,), distance), atol=1e-4, rtol=0)
        assert motion_terms.root_relative_mpkpe(state, links=KEYS).max() < 1e-4


def test_link_errors_are_root_mean_squares_of_distances(env):
    """A joint that is wrong moves the foot by the length of the calf times the angle, and not the knee."""
    env.reset()
    pose = env.state.part(Reference).pose_vel
    joints = pose.joint_pos.clone()
    joints[:, 2] += 0.1  # the knee of the front left leg
    put(env, pose._replace(joint_pos=joints))
    chord = 2 * 0.213 * math.sin(0.05)
    score = math.exp(-(chord**2) / 4 / 0.1**2)
    links = ("trunk", "FL_calf", "FL_foot", "RR_foot")
    torch.testing.assert_close(
        motion_terms.link_pos(env.state, links=links, sigma=0.1), torch.full((6,), score), atol=1e-3, rtol=0
    )
    torch.testing.assert_close(
        motion_terms.mpkpe(env.state, links=links), torch.full((6,), chord / 4), atol=1e-4, rtol=0
    )
    torch.testing.assert_close(motion_terms.joint_error(env.state), torch.full((6,), 0.1 / 12), atol=1e-6, rtol=0)
    score = math.exp(-(0.1**2) / 2 / 0.4**2)
    turned = motion_terms.link_turn(env.state, links=("FL_calf", "trunk"))
    torch.testing.assert_close(turned, torch.full((6,), score), atol=1e-4, rtol=0)


def test_terminations_by_height_and_tilt(env):
    env.reset()
    pose = env.state.part(Reference).pose_vel
    put(env, pose._replace(root_pos=pose.root_pos + torch.tensor([0.0, 0.0, 0.2])))
    assert motion_terms.anchor_height(env.state, largest=0.19).all()
    assert not motion_terms.anchor_height(env.state, largest=0.21).any()
    assert motion_terms.link_height(env.state, links=("FL_foot",), largest=0.19).all()
    tilt = torch.tensor([math.cos(0.5), math.sin(0.5), 0.0, 0.0]).expand(6, 4)  # by 1 rad
    put(env, pose._replace(root_quat=multiply(pose.root_quat, tilt)))
    assert motion_terms.anchor_tilt(env.state, largest=0.45).all()  # 1 - cos(1) = 0.46
    assert not motion_terms.anchor_tilt(env.state, largest=0.47).any()


def test_motion_that_ends_is_a_time_out_and_a_loop_ends_when_told(clips):
    task = task_of(clips[1:], num_envs=4)
    env = replace(task, terminations=task.terminations.with_params("motion_end", hold=0.1, loop_time=0.3)).build(seed=2)
    reference = env.state.part(Reference)
    for _ in range(50):
        due = reference.time - reference.lengths[reference.clip] >= 0.1
        result = follow(env, 1)
        assert torch.equal(result.done, due) and torch.equal(result.extras["time_outs"], due)
    loops = replace(task_of(clips[:1], num_envs=4), terminations=env.cfg.terminations).build(seed=2)
    reference = loops.state.part(Reference)
    for _ in range(20):
        due = reference.time >= 0.3
        assert torch.equal(follow(loops, 1).extras["time_outs"], due)


class Context:
    """What a sampler reads of a task."""

    num_envs, device = 4000, torch.device("cpu")

    def __init__(self):
        self.generator = torch.Generator().manual_seed(0)


def sampler(uniform_share=0.25, bin_seconds=0.25):
    clips = ClipSet([glide(), glide(loop=False, frames=51, name="once")], "cpu")  # of 0.5 s and 1 s
    return StartSampler(clips, bin_seconds, uniform_share, 100.0, Context())


def test_starts_are_uniform_over_clips_and_over_the_time_of_each_before_any_failure():
    draw = sampler()
    assert draw.clip_of.tolist() == [0, 0, 1, 1, 1, 1]
    assert draw.chances().tolist() == pytest.approx([1 / 4] * 2 + [1 / 8] * 4)
    clip, time = draw()
    assert clip.float().mean().item() == pytest.approx(0.5, abs=0.05)
    assert time[clip == 1].mean().item() == pytest.approx(0.5, abs=0.05) and time.max() < 1.0
    assert torch.equal(draw.clip_of[draw.bin_of(clip, time)], clip)


def test_bins_of_a_loop_come_round_again_and_those_of_another_clip_end():
    draw = sampler()
    clip = torch.tensor([0, 0, 0, 0, 1, 1, 1])
    time = torch.tensor([0.1, 0.3, 0.6, 0.9, 0.1, 0.99, 3.0])
    assert draw.bin_of(clip, time).tolist() == [0, 1, 0, 1, 2, 5, 5]


def test_starts_are_more_frequent_where_episodes_fail_and_before_it_in_the_same_clip():
    draw = sampler()
    clip, time = torch.tensor([0, 1, 1, 1]), torch.tensor([0.3, 0.1, 0.6, 0.9])  # bins 1, 2, 4, 5
    failed = torch.tensor([True, True, True, False])
    for _ in range(50):
        draw.record(clip, time, failed)
    assert draw.failure_rate().tolist() == pytest.approx([0, 1, 1, 0, 1, 0])
    hard = torch.tensor([0.8, 1.0, 1.64, 0.8, 1.0, 0.0])  # the failure of a clip has no part in the one before it
    uniform = torch.tensor([1 / 4] * 2 + [1 / 8] * 4)
    torch.testing.assert_close(draw.chances(), 0.75 * hard / hard.sum() + 0.25 * uniform)
    for _ in range(2000):  # forgotten
        draw.record(clip, time, torch.zeros(4, dtype=torch.bool))
    assert draw.failure_rate().max() < 1e-6


def test_failures_are_recorded_and_time_outs_are_not(clips):
    env = task_of(clips[1:], num_envs=4, terminations=("anchor_height",)).build(seed=1)
    reference = env.state.part(Reference)
    while not follow(env, 1).extras["time_outs"].any():
        pass
    assert reference.sampler.failed.sum() == 0
    pose = env.state.part(Reference).pose_vel
    put(env, pose._replace(root_pos=pose.root_pos + torch.tensor([0.0, 0.0, 1.0])))
    follow(env, 1)
    assert reference.sampler.failed.sum() == 4


def test_saved_task_goes_on_bit_by_bit(clips):
    task = task_of(clips, start={"joint_error": 0.1}, episode_length=1.0)
    env = task.build(seed=1)
    follow(env, 30)
    state = env.state_dict()
    results = []
    for one in (env, task.build(seed=5)):
        one.load_state_dict(state)
        results.append([follow(one, 1) for _ in range(40)])
    for a, b in zip(*results):
        assert torch.equal(a.reward, b.reward) and torch.equal(a.done, b.done)
        assert all(torch.equal(a.obs[name], b.obs[name]) for name in a.obs)
    assert sum(int(result.done.sum()) for result in results[0]) > 0


def test_mirror_image_of_the_references_is_that_of_the_mirrored_robot(env):
    robot = env.robot
    index, sign = torch.tensor(robot.mirrored_joints), torch.tensor(robot.mirror_signs)

    def mirrored(pose):
        flip = torch.tensor([1.0, -1.0, 1.0])
        quat = pose.root_quat * torch.tensor([1.0, -1.0, 1.0, -1.0])
        rest = (pose.root_lin_vel * flip, pose.root_ang_vel * -flip)
        return RobotPoseVel(
            pose.root_pos * flip, quat, *rest, pose.joint_pos[:, index] * sign, pose.joint_vel[:, index] * sign
        )

    env.reset()
    follow(env, 3)
    reference = env.state.part(Reference)
    own, wanted = RobotPoseVel(*(x.clone() for x in env.sim.pose_vel())), reference.pose_vel
    group = env._groups["critic"]  # private: the mirror of a group that the symmetric policy reads
    names = ("reference_joint_pos", "reference_offset", "reference_turn", "reference_feet", "foot_positions")
    image, signs = env.mirrors()["critic"]

    def values():
        terms = group.found.items()
        return torch.cat([term.function(env.state) * group.terms[name].scale for name, term in terms], dim=1)

    put(env, own)
    before, ahead = values(), reference.ahead
    reference._links.clear()  # private: the state that robots are to have is replaced by its mirror image
    reference._computed = mirrored(wanted), type(ahead)(*(x[:, :, index] * sign for x in ahead))
    put(env, mirrored(own))
    start = 0
    for name, size in zip(group.terms, group.sizes):
        if name in names:
            part = slice(start, start + size)
            value = group.found[name].function(env.state) * group.terms[name].scale
            torch.testing.assert_close(value, (before[:, image] * signs)[:, part], atol=2e-5, rtol=0)
        start += size
    reference.advance()


def test_states_of_clips_are_what_the_group_is_for_a_robot_in_the_frames(clips):
    styles = {"round": (clips[0],), "there": (clips[1],)}
    group = ObservationGroupConfig(
        {
            name: ObservationTerm(scale=scale, noise=0.3)
            for name, scale in (
                ("joint_pos", 1.0), ("joint_vel", 0.1), ("base_height", 2.0), ("gravity", 1.0), ("foot_positions", 1.0),
                ("base_lin_vel", 1.0), ("base_ang_vel", 1.0), ("style", 1.0),
            )
        }
    )  # fmt: skip
    task = task_of(clips)
    commands = task.commands.with_terms(
        {"style": CommandTerm("rsl_rl.tasks.mdp.style:Style", {"styles": ("there", "round")})}
    )
    env = replace(task, commands=commands, observations={**task.observations, "style": group}).build(seed=1)
    found = states_of_clips(env, "style", styles)
    (loop,), (once,) = found["round"], found["there"]
    assert loop.shape[0] == 25 + 2 and once.shape[0] == 41  # a loop goes on into its next round
    assert loop[:, -2:].unique(dim=0).tolist() == [[0.0, 1.0]] and once[:, -2:].unique(dim=0).tolist() == [[1.0, 0.0]]
    clip = load_clip(clips[0])
    torch.testing.assert_close(loop[:26, :12], clip.joint_pos - env.state.default_joint_pos, atol=1e-5, rtol=0)
    torch.testing.assert_close(loop[25], loop[0], atol=1e-3, rtol=0)
    torch.testing.assert_close(loop[:, 24], torch.full((27,), 0.6), atol=1e-4, rtol=0)
    torch.testing.assert_close(loop[5, 40:46], torch.tensor([0.4, 0, 0, 0, 0, 0.5]), atol=1e-2, rtol=0)
    foot = clip.link_pos[7] - clip.link_pos[7, :1]
    knee = foot[clip.link_names.index("FL_calf")]
    assert (loop[7, 28:31] - knee).norm() < 0.5  # below its knee, in the base frame
    with pytest.raises(ValueError, match="has the styles a, and the task there, round; name the same"):
        states_of_clips(env, "style", {"a": (clips[0],)})


def description_of(env):
    terms = env.describe_interface(["policy"])
    size = env.get_observations()["policy"].shape[1]
    whole = {**plain_mapping(12), **terms, "format": 2}
    return {**whole, "inputs": {"obs": [1, size]}, "outputs": {"actions": [1, 12]}}


def test_controller_of_an_exported_policy_reads_the_same_as_the_policy(clips):
    env = task_of(clips, num_envs=3).build(seed=4)
    policies = [Policy(description_of(env), lambda obs: [np.zeros((1, 12), np.float32)]) for _ in range(3)]
    for _ in range(25):
        readings, obs = sensor_readings(env), env.get_observations()["policy"]
        for robot, policy in enumerate(policies):
            policy.last_action = env.state.action[robot].numpy()
            given = {name: value[robot].numpy() for name, value in readings.items()}
            np.testing.assert_allclose(policy.observe(**given), obs[robot].numpy(), atol=2e-5)
        follow(env, 1)
    with pytest.raises(ValueError, match="senses reference_turn: give reference_base_quat with base_quat, 6 finite"):
        policies[0].observe(**{**given, "reference_base_quat": None})
    with pytest.raises(ValueError, match="give base_pos and reference_base_pos with base_quat"):
        policies[0].observe(**{**given, "base_pos": None})


def test_controller_of_a_policy_with_a_style_is_told_the_style(clips):
    task = task_of(clips, num_envs=3)
    own = CommandTerm("rsl_rl.tasks.mdp.style:Style", {"styles": ("pace", "bound"), "only": "bound"})
    groups = {**task.observations, "policy": ObservationGroupConfig({"style": ObservationTerm(scale=2.0)})}
    env = replace(task, commands=task.commands.with_terms({"style": own}), observations=groups).build(seed=4)
    assert env.get_observations()["policy"].tolist() == [[0.0, 2.0]] * 3
    policy = Policy(description_of(env), lambda obs: [np.zeros((1, 12), np.float32)])
    assert policy.description["commands"]["style"] == {"styles": ["pace", "bound"]}
    given = {name: value[0].numpy() for name, value in sensor_readings(env).items()}
    assert policy.observe(**given).tolist() == [0.0, 2.0]
    with pytest.raises(ValueError, match="senses style: give style, 2 finite numbers"):
        policy.observe(**{**given, "style": None})


def test_references_of_a_file_are_those_of_the_simulation_from_where_the_robot_is(clips, tmp_path):
    env = task_of(clips, num_envs=4).build(seed=4)
    reference = env.state.part(Reference)
    path = write_references(tmp_path / "references.npz", env.commands)
    policy = Policy(description_of(env), lambda obs: [np.zeros((1, 12), np.float32)])
    reference.start_at(torch.tensor([0, 1, 0, 1]), torch.zeros(4))
    env.reset()
    streams = [References(path, policy, clip) for clip in ("glide", "once") * 2]
    for robot, stream in enumerate(streams):
        stream.start(env.sim.root_quat[robot].numpy(), env.sim.root_pos[robot].numpy())
    for _ in range(35):
        readings = sensor_readings(env)
        for robot, stream in enumerate(streams):
            for name, value in stream.next().items():
                np.testing.assert_allclose(value, readings[name][robot].numpy(), atol=1e-4, err_msg=name)
        follow(env, 1)
    with pytest.raises(ValueError, match=r"clip=walk; .* has glide, once"):
        References(path, policy, "walk")


def test_clips_are_measured_from_their_first_frame_to_their_last(clips):
    env = for_tracking(task_of(clips, num_envs=5, episode_length=0.1)).build(seed=4)
    reference = env.state.part(Reference)

    def policy(obs):
        put(env, reference.pose_vel._replace(root_pos=reference.pose_vel.root_pos + torch.tensor([0.0, 0.0, 0.1])))
        return torch.zeros(5, 12)

    policy.reset = lambda dones=None: None
    loop, once = measure_tracking(env, policy, loop_time=1.0)
    assert (loop.name, loop.episodes, once.name, once.episodes) == ("glide", 3, "once", 2)
    assert loop.failures == once.failures == 0 and len(loop.by_time["mpkpe"]) == 5 and len(once.by_time["mpkpe"]) == 8
    assert loop.errors["mpkpe"] == pytest.approx(0.1, abs=0.03)
    assert reference.starts_at[1].isnan().all()
    strict = task_of(clips, num_envs=4, terminations=("anchor_height",))
    strict = replace(strict, terminations=strict.terminations.with_params("anchor_height", largest=0.05))
    strict = for_tracking(strict).build(seed=4)
    reference, steps = strict.state.part(Reference), []

    def sinks(obs):
        steps.append(1)
        if len(steps) == 10:
            put(strict, reference.pose_vel._replace(root_pos=reference.pose_vel.root_pos + torch.tensor([0.0, 0, 0.3])))
        return (reference.pose_vel.joint_pos - strict.state.default_joint_pos) / strict.action_scale

    sinks.reset = lambda dones=None: None
    for one in measure_tracking(strict, sinks, loop_time=1.0):
        assert one.failures == one.episodes == 2 and one.success_rate == 0.0
        assert sum(not math.isnan(value) for value in one.by_time["mpkpe"]) <= 3


def test_clip_whose_file_has_changed_is_read_again(tmp_path):
    path, go2 = tmp_path / "own.npz", ROBOTS.load("go2")
    for motion in ("sit", "bow"):
        save_clip(generate(go2, motion), path)
        assert find_clip(str(path), "go2").name == motion


def test_clip_of_another_robot_and_unknown_names_say_what_to_give(clips, tmp_path):
    with pytest.raises(ValueError, match=r"the clip 'glide' has the joints .*retarget"):
        replace(task_of(clips), robot="g1").build()
    with pytest.raises(ValueError, match="the clip 'trot pace=3' has 'pace=3'; give a number as speed=, side="):
        find_clip("trot pace=3", "go2")
    with pytest.raises(ValueError, match=r"the clip 'bow\.npz' is not a file; give the path of one, or a motion"):
        find_clip("bow.npz", "go2")
    with pytest.raises(ValueError, match=r"steps=.*in rising order, the first one 0"):
        task_of(clips, steps=(1, 0)).build()
    with pytest.raises(ValueError, match="a term needs a Reference; add the command source"):
        task = task_of(clips)
        replace(task, commands=replace(task.commands, terms={})).build()


def test_clips_that_no_training_can_use_are_an_error(tmp_path, env):
    whole, other = glide(), tmp_path / "elsewhere.npz"
    save_clip(whole, tmp_path / "whole.npz")
    save_clip(whole, other)
    with pytest.raises(ValueError, match="two clips have the name 'glide'"):
        task_of((str(tmp_path / "whole.npz"), str(other))).build()
    joint_pos = whole.joint_pos.clone()
    joint_pos[3, 2] = math.nan
    save_clip(replace(whole, joint_pos=joint_pos), tmp_path / "gap.npz")
    with pytest.raises(ValueError, match="not finite; mend it"):
        task_of((str(tmp_path / "gap.npz"),)).build()
    with pytest.raises(ValueError, match="num_envs=1 is fewer than the 2 clips"):
        measure_tracking(task_of(env.cfg.commands.terms["motion"].params["clips"], num_envs=1).build(), None)


def test_random_numbers_of_a_step_do_not_depend_on_who_restarts(clips):
    states = []
    for mask in (torch.zeros(6, dtype=torch.bool), torch.arange(6) < 2):
        env = task_of(clips).build(seed=5)
        env.reset()
        MotionStart(env.context)(mask)
        states.append(env.context.generator.get_state())
    assert torch.equal(*states)


def test_playback_shows_each_clip_from_its_first_frame_and_the_reference_as_a_ghost(clips):
    env = task_of(clips, num_envs=4).build(seed=2)

    def still(obs):
        return torch.zeros(4, 12)

    still.reset = lambda dones=None: None
    recording = run_playback(env, still, 0.1)
    assert recording["clip"].tolist() == [[0, 1, 0, 1]] * 5
    assert (env.state.part(Reference).time < 0.15).all()
    film = make_clip(recording, env)
    assert film.captions[0].startswith("glide    commanded")
    np.testing.assert_allclose(film.ghosts[0, :, 7:], recording["reference"][0, :, 7:])
    assert tracks_motions(env) and env.commands.clips == ("glide", "once")
    assert not tracks_motions(replace(flat_task(), num_envs=2).build())
