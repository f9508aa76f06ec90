"""A robot that a person steers: the loop, the web page in a real browser, and what is said where a part is missing."""

import asyncio
import http.client
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from pathlib import Path
from types import SimpleNamespace

import mujoco
import numpy as np
import pytest
import torch
from PIL import Image

from configs.go2_flat import Go2Flat
from rsl_rl.evaluation import teleop
from rsl_rl.evaluation.teleop import (
    TeleopCommands,
    for_teleop,
    open_native_viewer,
    open_web_viewer,
    push_robots,
    teleoperate,
    terrains_of,
)
from rsl_rl.robots.go2 import GO2
from rsl_rl.utils.height_field import HeightField
from rsl_rl.viz.frame import ALL_LEVELS, NEWEST, Choice, Frame

RANGES = ((-1.0, 1.0), (-0.5, 0.5), (-1.0, 1.0))
NO_POINTS = np.zeros((0, 3))
NO_FEET = np.zeros((4, 3))
CHOICE = Choice("4", "", ALL_LEVELS)
POSE = np.array([3.3, -2.6, 0.3, 1, 0, 0, 0, *GO2.default_joint_pos])


def moment(pose=POSE, velocity=(0.0, 0.0, 0.0), rewards=None, points=NO_POINTS, forces=NO_FEET):
    return Frame(np.atleast_2d(pose), velocity, rewards or {}, points, NO_FEET, forces)


class Standing:
    """A policy that holds the default pose and counts what it is asked."""

    def __init__(self, env):
        self._env, self.steps, self.resets, self.commands = env, 0, 0, []

    def __call__(self, obs):
        self.steps += 1
        self.commands.append(self._env.state.command[0].tolist())
        return torch.zeros(self._env.num_envs, self._env.num_actions)

    def reset(self, dones=None):
        self.resets += dones is None


class Script:
    """A screen that follows a script: for each tick a command, whether paused, whether reset."""

    choice = CHOICE

    def __init__(self, *ticks, pushes=()):
        self._ticks, self._now, self.shown, self._pushes = list(ticks), ticks[0], [], list(pushes)

    def is_open(self):
        if not self._ticks:
            return False
        self._now = self._ticks.pop(0)
        return True

    command = property(lambda self: self._now[0])
    paused = property(lambda self: self._now[1])

    def wants_reset(self):
        return self._now[2]

    def wanted_push(self):
        return self._pushes.pop(0) if self._pushes else None

    def show(self, frame):
        assert frame.points.shape == (0, 3)  # on a plane
        self.shown.append(frame._replace(rewards=dict(frame.rewards)))


@pytest.fixture
def env():
    return for_teleop(Go2Flat().env).build("cpu", seed=0)


@pytest.fixture
def page():
    from rsl_rl.viz.web_viewer import WebViewer

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    viewer = WebViewer(GO2.model_path, RANGES, (0.2, 0.0, 0.0), port, num_robots=3)
    viewer.add_menus(CHOICE, ("stairs_up", "waves"), 3)
    yield viewer
    viewer.close()


@pytest.mark.parametrize("value", [1e30, -1e30, math.nan, math.inf, "fast", None])
def test_a_command_of_the_page_is_clamped_to_its_range(page, value):
    assert page.command == (0.2, 0.0, 0.0)
    page.sliders[0]._impl.value = value  # as a message of a WebSocket sets it
    low, high = RANGES[0]
    expected = min(max(value, low), high) if isinstance(value, float) and math.isfinite(value) else 0.2
    assert page.command == (expected, 0.0, 0.0)


def test_the_page_serves_its_own_files_to_holders_of_its_token_only(page):
    address, _, query = page.address.partition("?")
    host, port = address.split("/")[2].split(":")
    host_header = {"Host": f"{host}:{port}"}

    def ask(path, **headers):
        connection = http.client.HTTPConnection(host, int(port), timeout=10)
        connection.putrequest("GET", path, skip_host=True)
        for name, value in {**host_header, **headers}.items():
            connection.putheader(name, value)
        connection.endheaders()
        response = connection.getresponse()
        content = response.read()
        connection.close()
        return response, content

    response, content = ask(f"/?{query}")
    cookie = response.getheader("Set-Cookie").partition(";")[0]
    assert response.status == 200 and b"<html" in content.lower()
    assert ask("/", Cookie=cookie)[0].status == 200 and ask("/")[0].status == 403
    for path in ("/../../../../../../../../../etc/passwd", "/%2e%2e/%2e%2e/setup.py", "/..\\..\\setup.py"):
        response, content = ask(f"{path}?{query}")
        assert response.status == 403 and b"root:" not in content
    assert ask(f"/?{query}", Host="evil.example")[0].status == 403
    assert ask(f"/?{query}", Origin="http://evil.example")[0].status == 403
    upgrade = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    upgrade["Sec-WebSocket-Key"] = "MDEyMzQ1Njc4OWFiY2RlZg=="
    assert ask("/", **upgrade)[0].status == 403


def test_the_policy_sees_the_persons_command_and_no_other(env):
    first, second = (0.5, 0.0, 0.0), (-0.3, 0.2, 0.4)
    policy, display = Standing(env), Script(*[(first, False, False)] * 200, *[(second, False, False)] * 5)
    env.commands.sources["velocity"]._steps = 3  # the task would draw another command by now
    teleoperate(env, policy, display)
    np.testing.assert_allclose(policy.commands[13:201], [first] * 188, rtol=1e-6)  # 0.5 m/s at 2 m/s^2: 13 steps
    largest = 0.02 * np.array([2.0, 2.0, 4.0])  # the task's limits of the acceleration, in a control step
    for k, command in enumerate(policy.commands[201:], start=1):
        change = np.clip(np.subtract(second, first), -k * largest, k * largest)
        np.testing.assert_allclose(command, first + change, atol=1e-6)
    assert len(display.shown) == pytest.approx(205 / 2, abs=1)  # 25 of 50 steps a second


def test_a_fallen_robot_goes_on_with_the_same_command(env):
    env.commands.sources["velocity"] = TeleopCommands(env, (0.7, 0.0, 0.0))
    upside_down = env.sim.pose_vel()._replace(
        root_pos=torch.tensor([[0.0, 0, 0.2]]), root_quat=torch.tensor([[0.0, 1, 0, 0]])
    )
    env.sim.reset(torch.ones(1, dtype=torch.bool), upside_down)
    done = env.step(torch.zeros(1, 12)).done
    assert done.item() and env.state.requested_command.tolist() == [pytest.approx([0.7, 0.0, 0.0])]


def test_a_paused_robot_stands_still_and_a_reset_starts_anew(env):
    go, pause, again = (((0.0, 0.0, 0.0), *rest) for rest in ((False, False), (True, False), (True, True)))
    policy, display = Standing(env), Script(*[go] * 10, *[pause] * 10, again, again, *[pause] * 4)
    teleoperate(env, policy, display)
    assert policy.steps == 10 and policy.resets == 3  # one at the start
    poses = [shown.poses[0] for shown in display.shown]
    assert (poses[6] == poses[9]).all() and not (poses[0] == poses[4]).all()
    assert not (poses[9][3:] == poses[-1][3:]).all()


def test_the_reward_terms_shown_are_the_environments(env):
    policy, display = Standing(env), Script(*[((0.5, 0.0, 0.0), False, False)] * 5)
    sums = []
    env.observers.append(lambda state, done: sums.append(env._rewards.compute().flatten() / env.cfg.sim.control_dt))
    teleoperate(env, policy, display)
    shown = display.shown[-1].rewards
    assert list(shown) == list(env.cfg.rewards.terms)
    np.testing.assert_allclose(list(shown.values()), sums[-1], rtol=1e-4, atol=1e-6)
    assert len(env.observers) == 1  # it leaves nothing behind


def test_every_geom_is_drawn_in_its_size(page):
    from rsl_rl.viz.web_viewer import geom_mesh

    model = mujoco.MjModel.from_xml_path(str(GO2.model_path))
    shapes, kinds = mujoco.mjtGeom, set()
    for geom in np.flatnonzero(model.geom_bodyid):
        kind, (a, b, _) = int(model.geom_type[geom]), model.geom_size[geom]
        kinds.add(kind)
        half = {
            int(shapes.mjGEOM_BOX): model.geom_size[geom],
            int(shapes.mjGEOM_SPHERE): (a, a, a),
            int(shapes.mjGEOM_CAPSULE): (a, a, a + b),
            int(shapes.mjGEOM_CYLINDER): (a, a, b),
        }[kind]
        np.testing.assert_allclose(geom_mesh(model, geom).bounds, (-np.array(half), half), atol=2e-3)
    assert len(kinds) == 4


def test_the_robot_stays_in_the_middle_and_the_grid_moves(page):
    page.show(moment(velocity=(0.1, 0.0, 0.0), rewards={"a_term": 0.25}))
    np.testing.assert_allclose(page._bodies[0][1].position, (0.0, 0.0, 0.3), atol=1e-9)
    np.testing.assert_allclose(page._grid.position, (-0.3, -0.4, 0.0), atol=1e-6)
    assert "| a_term | +0.250 |" in page._text.content and "+0.20 | +0.10" in page._text.content


def test_the_ground_and_the_scan_move_around_the_robot():
    from rsl_rl.viz.web_viewer import WebViewer, ground_mesh

    heights = np.zeros((21, 31), dtype=np.float32)
    heights[10:, :] = 0.5
    ground = HeightField(heights, 0.1, (-1.0, -1.5))
    vertices, faces = ground_mesh(ground)
    assert len(vertices) == 21 * 31 and len(faces) == 2 * 20 * 30 and faces.max() == len(vertices) - 1
    np.testing.assert_allclose(vertices[[0, -1]], [[-1.0, -1.5, 0.0], [1.0, 1.5, 0.5]], atol=1e-6)
    normals = np.cross(vertices[faces[:, 1]] - vertices[faces[:, 0]], vertices[faces[:, 2]] - vertices[faces[:, 0]])
    assert (normals[:, 2] > 0).all()
    viewer = WebViewer(GO2.model_path, RANGES, (0.2, 0.0, 0.0), 18124, ground=ground)
    points = np.array([[0.5, 0.5, 0.5], [0.1, 0.0, 0.5]])
    viewer.show(moment(points=points))
    here = -np.array(viewer._floor.position)
    np.testing.assert_allclose(here[:2], POSE[:2])
    np.testing.assert_allclose(viewer._points.points, points - here, atol=2e-3)  # sent as float16
    viewer.close()


def test_show_several_robots_on_a_plane_puts_them_side_by_side(page):
    page.show(moment(np.stack([POSE, POSE, POSE])))
    places = np.array([bodies[1].position for bodies in page._bodies])
    distances = np.linalg.norm(places[:, None] - places, axis=2)[np.triu_indices(3, 1)]
    np.testing.assert_allclose(places[0], (0.0, 0.0, 0.3), atol=1e-9)
    assert (distances > 1.0).all() and (places[:, 2] == 0.3).all()


def test_arrows_of_a_turned_robot_show_velocities_and_forces_in_the_world():
    from rsl_rl.viz.web_viewer import arrows_of

    model = mujoco.MjModel.from_xml_path(str(GO2.model_path))
    pose = np.array([1.0, 2.0, 0.3, math.sqrt(0.5), 0, 0, math.sqrt(0.5), *GO2.default_joint_pos])  # to the left
    weight = 9.81 * model.body_mass.sum()
    forces = np.array([[0, 0, weight], [0, 0, 0.0], [0, 0, 0], [0, 0.5 * weight, 0]])
    arrows = arrows_of(moment(pose, (0.0, 1.0, 0.0), forces=forces), (1.0, 0.0, 2.0), model)
    vectors = {name: both[:, 1] - both[:, 0] for name, both in arrows.items()}
    np.testing.assert_allclose(vectors["commanded velocity"], [[0, 0.5, 0]], atol=1e-9)
    np.testing.assert_allclose(vectors["measured velocity"], [[-0.5, 0, 0]], atol=1e-9)
    np.testing.assert_allclose(vectors["contact forces"], [[0, 0, 0.4], [0, 0.2, 0]], atol=1e-9)
    np.testing.assert_allclose(arrows["commanded velocity"][0, 0, :2], [1.0, 2.0])
    assert not len(arrows_of(moment(pose), (0.0, 0.0, 2.0), model)["commanded velocity"])  # no arrow without length


def test_show_with_an_unchecked_box_draws_no_arrows_of_its_kind(page):
    page._shown["contact forces"].value = False
    page.show(moment(velocity=(0.5, 0.0, 0.0), forces=np.full((4, 3), 100.0)))
    shown = {name: len(node.points) for name, node in page._arrows.items()}
    assert shown == {"commanded velocity": 1, "measured velocity": 1, "contact forces": 0}


def test_keys_change_the_command_within_its_range(page):
    for _ in range(12):
        page._change(0, 0.1, None)
    page._change(1, -0.1, None)
    assert page.command == pytest.approx((1.0, -0.1, 0.0))
    page._zero()
    assert page.command == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("value", ["../../secret", "", 3, None, math.nan])
def test_choice_of_a_value_that_is_not_in_the_menu_changes_nothing(page, value):
    page.offer(["2", "4", "best"])
    for menu in (page._checkpoint, page._terrain, page._level):
        menu._impl.value = value  # as a message of a WebSocket sets it
    assert page.choice == CHOICE
    page._checkpoint._impl.value, page._terrain._impl.value, page._level._impl.value = NEWEST, "waves", "2"
    assert page.choice == Choice(NEWEST, "waves", 2)
    page.offer(["5"])
    assert page.choice == Choice(NEWEST, "waves", 2) and page._checkpoint.options[0] == NEWEST


@pytest.mark.parametrize("value", [math.nan, "a", 1e30, None])
def test_push_of_any_value_is_finite_and_limited(page, value):
    assert page.wanted_push() is None
    page._push_speed._impl.value = page._push_angle._impl.value = value
    page._wants_push.set()
    assert math.hypot(*page.wanted_push()) <= 3.0 + 1e-9 and page.wanted_push() is None


@pytest.mark.parametrize(
    ("end", "push"),
    [((0.0, 0.2, 5.0), (0.6, 0.0)), ((-0.1, 0.0, 0.0), (0.0, 0.3)), ((0.0, -40.0, 0.0), (-3.0, 0.0))],
)
def test_drag_of_a_robot_that_looks_to_the_left_is_a_push_in_its_own_frame(page, end, push):
    half = math.sqrt(0.5)
    page.show(moment(pose=np.stack([POSE, [*POSE[:3], half, 0.0, 0.0, half, *POSE[7:]], POSE])))
    for phase in ("start", "update", "end"):
        assert page.wanted_push() is None
        event = SimpleNamespace(phase=phase, start_position=(0.0, 0.0, 0.0), end_position=end)
        asyncio.run(page._drag(1, event))
    assert page.wanted_push() == pytest.approx(push) and page.wanted_push() is None


def test_push_is_forward_and_left_of_each_robot():
    env = for_teleop(Go2Flat().env, 2).build("cpu", seed=0)
    half = math.sqrt(0.5)
    turned = env.sim.pose_vel()._replace(root_quat=torch.tensor([[1.0, 0, 0, 0], [half, 0, 0, half]]))
    env.sim.reset(torch.ones(2, dtype=torch.bool), turned)
    before = env.sim.root_lin_vel.clone(), env.sim.root_ang_vel.clone()
    push_robots(env, (1.0, 0.5))
    change = env.sim.root_lin_vel - before[0]
    torch.testing.assert_close(change, torch.tensor([[1.0, 0.5, 0.0], [-0.5, 1.0, 0.0]]), atol=1e-5, rtol=0)
    torch.testing.assert_close(env.sim.root_ang_vel, before[1], atol=1e-5, rtol=0)


def test_teleoperate_with_a_push_moves_the_robot(env):
    stand = ((0.0, 0.0, 0.0), False, False)
    speeds = []
    for pushes in ((), ((0.0, 2.0),)):
        display = Script(*[stand] * 6, pushes=(None, None, *pushes))
        teleoperate(env, Standing(env), display)
        speeds.append(max(shown.velocity[1] for shown in display.shown))
    assert speeds[1] > speeds[0] + 1.0


def test_teleoperate_ends_after_the_frame_in_which_another_choice_is_made(env):
    display = Script(*[((0.0, 0.0, 0.0), False, False)] * 20)
    teleoperate(env, Standing(env), display, changed=lambda: len(display.shown) == 3)
    assert len(display.shown) == 3 and display.is_open() and not env.observers


def test_terrains_of_a_task_have_its_own_types_and_all_others_once():
    names = terrains_of(Go2Flat().env)
    assert "stairs_up" in names and len(names) == len(set(names))


def test_present_another_ground_replaces_the_last_one_and_shows_the_status_without_markup(page):
    from rsl_rl.viz.web_viewer import WebViewer

    assert isinstance(page, WebViewer)
    ground = HeightField(np.zeros((5, 5), dtype=np.float32), 0.5, (-1.0, -1.0))
    page.present("playing [a](b)", ground)
    page.show(moment(np.stack([POSE] * 3), points=np.zeros((2, 3))))
    assert page._grid is None and page._status.content == r"playing \[a\]\(b\)"
    assert np.ptp([bodies[1].position for bodies in page._bodies], axis=0).max() == 0  # where they are
    page.present("", None)
    page.show(moment(np.stack([POSE] * 3)))
    assert page._floor is None and page._points is None
    np.testing.assert_allclose(page._grid.position, (-0.3, -0.4, 0.0), atol=1e-6)


def test_a_command_beyond_the_tasks_ranges_widens_a_slider(page):
    from rsl_rl.viz.web_viewer import WebViewer

    viewer = WebViewer(GO2.model_path, ((-1.0, 1.0), (0.0, 0.0), (-1.0, 1.0)), (1.5, 0.0, 0.0), 18123)
    assert viewer.command == (1.5, 0.0, 0.0) and viewer.sliders[0].max == 1.5
    assert viewer.sliders[1].disabled  # the task knows no sideways
    viewer.close()


def find_chromium():
    names = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


@pytest.fixture
def browser():
    """A headless Chromium that draws on the CPU."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="pip install playwright")
    if find_chromium() is None:
        pytest.skip("no Chromium: apt-get install chromium-headless-shell")
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=find_chromium(),
            args=["--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist"],
        )
        yield chromium
        chromium.close()


def until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


@pytest.mark.slow
def test_a_browser_shows_and_steers_the_robot(page, browser, tmp_path):
    first, second = (browser.new_page(viewport={"width": 1100, "height": 700}) for _ in range(2))
    for tab in (first, second):
        tab.goto(page.address)
        tab.get_by_text("pause", exact=True).wait_for(timeout=30_000)
    page.show(moment(rewards={"a_term": 0.25}))
    first.get_by_text("a_term").wait_for(timeout=20_000)
    until(lambda: robot_in(first, tmp_path))

    entry = first.locator("input.mantine-NumberInput-input").first
    entry.fill("0.8")
    entry.press("Enter")
    until(lambda: page.command == (0.8, 0.0, 0.0))
    first.close()
    second.get_by_text("pause", exact=True).click()  # one has gone, the other steers on
    until(lambda: page.paused)
    second.get_by_text("resume", exact=True).click()
    until(lambda: not page.paused)
    second.get_by_text("reset", exact=True).click()
    until(page.wants_reset)
    assert not page.wants_reset()
    second.get_by_text("stop (all sliders to zero)").click()
    until(lambda: page.command == (0.0, 0.0, 0.0))
    page.wanted_push()
    second.locator("canvas").last.click(position={"x": 300, "y": 600})
    second.keyboard.press("p")
    until(lambda: page.wanted_push() == pytest.approx((0.0, 1.0)))
    x, y = place_of_robot(second, tmp_path)
    second.mouse.move(x, y)
    second.mouse.down()
    second.mouse.move(x + 120, y, steps=10)
    second.mouse.up()
    dragged = []
    until(lambda: dragged.append(page.wanted_push()) or dragged[-1] is not None)
    assert math.hypot(*dragged[-1]) > 0.1
    second.close()
    page.show(moment())


def place_of_robot(tab, folder):
    """The middle of the blue plate of the Go2 in the picture [pixels]."""
    robot_in(tab, folder)
    image = np.asarray(Image.open(folder / "tab.png").convert("RGB")).astype(int)
    red, green, blue = np.moveaxis(image, 2, 0)
    rows, columns = np.nonzero((blue > red + 60) & (blue > green))
    inside = (rows > 200) & (rows < 500) & (columns > 350) & (columns < 750)
    return float(np.median(columns[inside])), float(np.median(rows[inside]))


def robot_in(tab, folder) -> bool:
    """Whether the blue plate and the black feet of the Go2 are in the middle of the picture."""
    tab.screenshot(path=folder / "tab.png", timeout=30_000)
    image = np.asarray(Image.open(folder / "tab.png").convert("RGB")).astype(int)[200:500, 350:750]
    red, green, blue = np.moveaxis(image, 2, 0)
    return ((blue > red + 60) & (blue > green)).sum() > 100 and (image.max(axis=2) < 70).sum() > 100


def test_missing_parts_are_one_line_each(env, monkeypatch):
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    with pytest.raises(ValueError, match=r"^--keyboard needs a display .*--viewer"):
        open_native_viewer(env, (0.0, 0.0, 0.0), CHOICE)
    with pytest.raises(ValueError, match=r"^--port 0: give a number from 1 to 65535"):
        open_web_viewer(env, (0.0, 0.0, 0.0), 0, CHOICE)
    monkeypatch.delitem(sys.modules, "rsl_rl.viz.web_viewer", raising=False)
    monkeypatch.setitem(sys.modules, "viser", None)
    with pytest.raises(ValueError, match=r"^--viewer: .*viser.*pip install 'rsl-rl-lib\[viewer\]'$"):
        open_web_viewer(env, (0.0, 0.0, 0.0), 8080, CHOICE)


def test_a_key_changes_the_command_within_the_ranges():
    from rsl_rl.viz.native_viewer import NativeViewer

    window = NativeViewer.__new__(NativeViewer)  # without the window
    window._ranges, window._command, window.paused, window._reset = RANGES, [0.0, 0.0, 0.0], False, False
    for key in [265] * 15 + [263, 263, ord(".")]:
        window.on_key(key)
    assert window.command == pytest.approx((1.0, -0.1, 0.2))
    window.on_key(32)
    window.on_key(259)
    assert window.paused and window.wants_reset() and not window.wants_reset()
    window.on_key(257)
    assert window.command == (0.0, 0.0, 0.0)


@pytest.mark.slow
def test_viewer_that_follows_loads_what_a_training_saves_until_ctrl_c(run_script, root):
    experiment = f"viewer-{uuid.uuid4().hex[:8]}"
    arguments = ("--task", "go2_flat", "--experiment_name", experiment)
    try:
        tiny = ("--num_envs", "16", "--runner.num_steps_per_env", "8", "--max_iterations", "1")
        assert run_script("scripts/train.py", *arguments, *tiny).returncode == 0
        for wrong, problem in (
            (("--viewer", "--seconds", "2"), "leave out --seconds"),
            (("--viewer", "--num_envs", "17"), "--num_envs 17: the viewer shows 1 to 16 robots"),
            (("--keyboard", "--num_envs", "2"), "leave out --num_envs"),
            (("--viewer", "--follow", "--checkpoint", "1"), "leave out --checkpoint 1"),
            (("--follow",), "leave out --follow"),
        ):
            done = run_script("scripts/play.py", *arguments, *wrong)
            assert done.returncode == 2 and problem in done.stderr and done.stderr.count("\n") == 1
        flags = ("--viewer", "--follow", "--num_envs", "2", "--port", "18321", "--command", "0.5,0,0")
        command = [sys.executable, "scripts/play.py", *arguments, *flags]
        with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True, env={**os.environ}) as process:
            try:
                lines = iter(process.stdout.readline, "")
                address = next(m[1] for m in (re.match(r"viewer: (\S+)", line) for line in lines) if m)
                assert urllib.request.urlopen(address, timeout=10).status == 200
                with pytest.raises(urllib.error.HTTPError, match="403"):
                    urllib.request.urlopen(address.partition("?")[0], timeout=10)
                done = run_script("scripts/train.py", *arguments, *tiny[:-1], "2", "--resume")
                assert done.returncode == 0, done.stderr
                assert any("model_2.pt" in line for line in lines)  # the viewer has loaded it
                process.send_signal(signal.SIGINT)
                assert process.wait(20) == 0
            finally:
                process.kill()
    finally:
        shutil.rmtree(Path(root) / "logs" / experiment, ignore_errors=True)


def test_a_slow_machine_does_not_hurry_afterwards(env, monkeypatch):
    clock, slept = [0.0], []

    class Clock:
        perf_counter = staticmethod(lambda: clock[0])

        @staticmethod
        def sleep(seconds):
            slept.append(seconds)
            clock[0] += seconds

    monkeypatch.setattr(teleop, "time", Clock)
    policy, display = Standing(env), Script(*[((0.0, 0.0, 0.0), False, False)] * 30)
    begin = policy.__call__
    monkeypatch.setattr(Standing, "__call__", lambda self, obs: (late(self), begin(obs))[1])

    def late(self):
        clock[0] += 10.0 if self.steps == 5 else 0.001  # asleep once

    teleoperate(env, policy, display)
    assert slept[:5] == pytest.approx([0.019] * 5) and slept[20:] == pytest.approx([0.019] * 10)
