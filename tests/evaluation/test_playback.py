"""Recordings, the pictures of them, and how play.py reads a command."""

import sys
from concurrent.futures import Future
from dataclasses import replace

import numpy as np
import pytest
import torch
from matplotlib.collections import PathCollection, PolyCollection
from matplotlib.figure import Figure

from configs.go2_flat import Go2Flat
from rsl_rl.cli.play import split_commas
from rsl_rl.config.mdp import CommandConfig, EventTerm, RandomizationConfig, ScheduleConfig
from rsl_rl.evaluation import plots
from rsl_rl.evaluation.playback import (
    check_command,
    describe_robots,
    failures_of,
    for_playback,
    make_clip,
    run_playback,
    start_video,
    write_playback,
)
from rsl_rl.viz.video import VideoError


class Nodding:
    """A policy that moves every joint target up and down by turns."""

    def __init__(self, env):
        self._env, self._sign = env, 1.0

    def __call__(self, obs):
        self._sign = -self._sign
        return torch.full((self._env.num_envs, 12), self._sign)

    def reset(self, dones=None):
        pass


@pytest.fixture
def recorded():
    env = for_playback(Go2Flat().env, 2, 0.4, (0.5, -0.2, 0.1)).build("cpu", seed=0)
    return env, run_playback(env, Nodding(env), 0.4)


@pytest.fixture
def figures(monkeypatch):
    """What would have been saved as pictures."""
    kept = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, path, **_: kept.append(figure))
    return kept


def lie(task, mask, *, height):
    """A start state of a user: it leaves the robots where they are."""


def playback_events(**terms):
    cfg = replace(Go2Flat().env, randomization=RandomizationConfig(terms))
    return for_playback(cfg, 2, 0.4, None)


def test_playback_keeps_the_parameters_of_a_function_that_replaces_a_shipped_event():
    own = EventTerm("reset", func=f"{__name__}:lie", params={"height": 0.2})
    cfg = playback_events(start_state=own, model_parameters=own)
    assert cfg.randomization.terms["start_state"] == cfg.randomization.terms["model_parameters"] == own
    cfg.build("cpu", seed=0).step(torch.zeros(2, 12))


def test_playback_has_no_payload_and_no_start_velocity_under_any_name_of_the_event():
    own = {"mass": EventTerm("startup", func="model_parameters"), "start_state": EventTerm("reset")}
    terms = playback_events(**own).randomization.terms
    assert terms["mass"].params["payload"] == (0.0, 0.0) and terms["mass"].params["friction"] == (0.4, 1.25)
    assert terms["start_state"].params["initial_velocity"] == 0.0


def test_playback_gives_the_command_asked_for_whatever_the_schedule_of_the_training():
    commands = replace(Go2Flat().env.commands, schedule=ScheduleConfig(steps=10, end=1.5))
    env = for_playback(replace(Go2Flat().env, commands=commands), 2, 0.4, (0.5, -0.2, 0.1)).build("cpu", seed=0)
    torch.testing.assert_close(env.state.requested_command[0], torch.tensor((0.5, -0.2, 0.1)))


def test_command_within_the_training_has_no_note_one_beyond_has_and_one_far_beyond_is_refused():
    ranges = CommandConfig(lin_vel_x=(0.3, 1.0), lin_vel_y=(0.0, 0.0), schedule=ScheduleConfig(steps=10, end=1.5))
    for command in (None, (1.5, 0.0, -1.5), (0.0, 0.0, 0.0)):
        assert check_command(ranges, command) == ""
    assert check_command(ranges, (2.0, 0.0, 3.0)) == (
        "note: --command is beyond those of the training: vx=2 and the training had 0 to 1.5 m/s; yaw rate=3 and the "
        "training had -1.5 to 1.5 rad/s"
    )
    for command in ((3.1, 0.0, 0.0), (-0.1, 0.0, 0.0), (0.0, 0.1, 0.0), (0.0, 0.0, -1e30), (float("nan"), 0.0, 0.0)):
        with pytest.raises(ValueError, match=r"and the training had .* to .*; give at most twice that"):
            check_command(ranges, command)


def test_a_recording_has_what_the_plots_show(recorded):
    env, recording = recorded
    assert recording["pose"].shape == (20, 2, 19) and recording["torque"].shape == (20, 2, 12)
    default, scale = torch.tensor(env.robot.default_joint_pos), env.cfg.control.action_scale
    torch.testing.assert_close(recording["target"][0, 1], default - scale)
    torch.testing.assert_close(recording["target_change"][0, 1], torch.full((12,), -scale))  # from the default pose
    torch.testing.assert_close(recording["target_change"][1, 1], torch.full((12,), 2 * scale))
    torch.testing.assert_close(recording["command"][:, 0], torch.tensor((0.5, -0.2, 0.1)).expand(20, 3))


def test_the_motion_picture_tells_commanded_from_measured(recorded, figures, tmp_path):
    env, recording = recorded
    plots.plot_motion(recording, 0.02, env.sim.foot_names, tmp_path / "x.png")
    axes = figures[0].axes
    for i, unit in enumerate(("[m/s]", "[m/s]", "[rad/s]")):
        measured, commanded = axes[i].lines[:2]
        np.testing.assert_allclose(measured.get_ydata(), recording["velocity"][:, 0, i])
        np.testing.assert_allclose(commanded.get_ydata(), recording["command"][:, 0, i])
        assert unit in axes[i].get_ylabel()
        assert measured.get_color() != commanded.get_color() and measured.get_linestyle() != commanded.get_linestyle()
    np.testing.assert_allclose(axes[3].lines[0].get_ydata(), recording["pose"][:, 0, 2])
    scale = env.cfg.control.action_scale
    np.testing.assert_allclose(axes[4].lines[0].get_ydata()[:3], (scale, 2 * scale, 2 * scale), rtol=1e-5)
    assert [text.get_text() for text in figures[0].legends[0].texts][:2] == ["measured", "commanded"]


def test_a_bar_of_the_gait_diagram_is_a_stance():
    axis = Figure().subplots()
    contact = np.array([[0, 1], [1, 1], [1, 0], [0, 0], [1, 0]], dtype=bool)  # [steps, feet]
    plots._draw_stances(axis, 0.1 * (1 + np.arange(5)), contact, ("a_foot", "b_foot"))
    spans = [
        [(path.vertices[:, 0].min(), path.vertices[:, 0].max()) for path in bars.get_paths()]
        for bars in axis.collections
        if isinstance(bars, (PolyCollection, PathCollection))
    ]
    np.testing.assert_allclose(spans[0], [(0.1, 0.3), (0.4, 0.5)])
    np.testing.assert_allclose(spans[1], [(0.0, 0.2)])
    assert [label.get_text() for label in axis.get_yticklabels()] == ["a 60%", "b 40%"]


def test_the_joint_picture_has_a_column_for_each_leg(recorded, figures, tmp_path):
    env, recording = recorded
    sim = env.sim
    plots.plot_joints(recording, 0.02, sim.joint_names, sim.torque_limits, 4, tmp_path / "x.png")
    axes = np.array(figures[0].axes).reshape(6, 4)
    for j, name in enumerate(sim.joint_names):
        position, torque = axes[j % 3, j // 3], axes[3 + j % 3, j // 3]
        assert position.get_title() == name and torque.get_title().startswith(name)
        np.testing.assert_allclose(position.lines[0].get_ydata(), recording["pose"][:, 0, 7 + j])
        np.testing.assert_allclose(position.lines[1].get_ydata(), recording["target"][:, 0, j])
        np.testing.assert_allclose(torque.lines[0].get_ydata(), recording["torque"][:, 0, j])
        assert [line.get_ydata()[0] for line in torque.lines[1:3]] == [-sim.torque_limits[j], sim.torque_limits[j]]


@pytest.mark.parametrize(
    ("joints", "legs", "grid"), [(12, 4, (3, 4)), (12, 2, (6, 2)), (13, 2, (4, 4)), (3, 0, (1, 3))]
)
def test_every_joint_finds_a_place(joints, legs, grid):
    assert plots._grid(joints, legs) == grid and grid[0] * grid[1] >= joints


def test_the_end_of_an_episode_is_marked(recorded, figures, tmp_path):
    env, recording = recorded
    recording["done"][7, 0] = True
    plots.plot_motion(recording, 0.02, env.sim.foot_names, tmp_path / "x.png")
    np.testing.assert_allclose(figures[0].axes[0].lines[2].get_xdata(), 0.16)
    assert "episode ended" in [text.get_text() for text in figures[0].legends[0].texts]


def test_pictures_are_written_or_left_out(recorded, tmp_path):
    env, recording = recorded
    assert list(write_playback(recording, env, tmp_path, video=None, plot=False))[2:] == [] and not list(
        tmp_path.iterdir()
    )
    lines = list(write_playback(recording, env, tmp_path, video=None, plot=True))
    assert len(lines) == 2 + 2  # robots and files
    assert all((tmp_path / name).stat().st_size > 10_000 for name in ("play.png", "play_joints.png"))


def test_without_matplotlib_one_line_says_what_to_install(recorded, tmp_path, monkeypatch):
    env, recording = recorded
    monkeypatch.delitem(sys.modules, "rsl_rl.evaluation.plots")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    *_, line = write_playback(recording, env, tmp_path, video=None, plot=True)
    assert line.startswith("no plots: ") and "pip install 'rsl-rl-lib[sim]'" in line and "\n" not in line


def test_last_line_of_a_playback_says_where_the_video_is_or_why_there_is_none(recorded, tmp_path):
    env, recording = recorded
    video = Future()
    video.set_result(tmp_path / "play.mp4")
    *_, line = write_playback(recording, env, tmp_path, video, plot=False)
    assert line == f"video: {tmp_path / 'play.mp4'} (contact sheet: {tmp_path / 'play_frames.png'})"
    video = Future()
    video.set_exception(VideoError("no video: no driver"))
    *_, line = write_playback(recording, env, tmp_path, video, plot=False)
    assert line == "no video: no driver"
    with start_video(recording, env, tmp_path / "new", wanted=False) as video:
        assert video is None
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("--command 0.8,0,0 --seconds 2", "--command 0.8 0 0 --seconds 2"),
        ("--command=-0.5,0,0.1", "--command -0.5 0 0.1"),
        ("--command 0.8 0 0", "--command 0.8 0 0"),
        ("--task a,b --command --video", "--task a,b --command --video"),
    ],
)
def test_a_command_may_have_commas(typed, read):
    assert split_commas(typed.split()) == read.split()


def test_playback_says_of_each_robot_how_it_fared():
    """Robot 1 follows; robot 2 stands still although it is told to walk; robot 3 falls."""
    command = torch.tensor([0.5, 0.0, 0.0]).expand(150, 3, 3)
    velocity = command.clone()
    velocity[:, 1] = 0.0
    fallen = torch.zeros(150, 3, dtype=torch.bool)
    fallen[99, 2] = True
    lines = list(describe_robots({"command": command, "velocity": velocity, "fallen": fallen}, 0.02))
    assert lines == [
        "robot 1: no failure; mean errors 0.00 m/s and 0.00 rad/s",
        "robot 2: freeze at 2.2 s; mean errors 0.50 m/s and 0.00 rad/s",
        "robot 3: fall at 2.0 s; mean errors 0.00 m/s and 0.00 rad/s",
    ]


def test_an_episode_that_reaches_its_time_limit_is_no_fall():
    env = replace(for_playback(Go2Flat().env, 2, 0.4, (0.5, 0.0, 0.0)), episode_length=0.2).build("cpu", seed=0)
    recording = run_playback(env, Nodding(env), 0.4)
    assert recording["done"].any() and failures_of(recording, 0.02) == [[], []]


def test_captions_of_a_video_name_failures_from_their_time_on(recorded):
    env, recording = recorded
    recording = {**recording, "fallen": torch.zeros_like(recording["fallen"])}
    recording["fallen"][9, 1] = True  # at 0.2 s, of 0.4 s
    captions = make_clip(recording, env).captions
    assert [("robot 2: fall" in caption) for caption in captions] == [
        i >= len(captions) / 2 for i in range(len(captions))
    ]
