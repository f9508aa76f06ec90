"""The page of a clip in Chromium: the robot has the clip's pose at the shown time; no error, no request."""

import numpy as np
import pytest
import torch

from rsl_rl.motion import ClipSet
from rsl_rl.motion.generate import generate
from rsl_rl.motion.page import gather_motion
from rsl_rl.robots import ROBOTS
from rsl_rl.viz.page import TEMPLATE, write_motion_page

PARITY = 1e-5  # of lengths [m], quaternions and angles [rad]

STATE = "({time: robotPage.time, rounds: robotPage.rounds, pose: [...robotPage.current.data.qpos]})"
SHOWN = "Number(document.querySelector('#timeline output').value.split(' ')[0])"


@pytest.fixture(scope="module")
def clips():
    """A loop that goes in a circle, and a clip that is no loop."""
    go2 = ROBOTS.load("go2")
    return {"trot": generate(go2, "trot", 0.8, turn=0.6), "sit": generate(go2, "sit")}


@pytest.fixture
def show(clips, visit, tmp_path):
    """Open the page of a clip."""
    if not TEMPLATE.is_file():
        pytest.skip("the page is not built: make page")

    def opened(name, **context):
        path = tmp_path / f"{name}.html"
        write_motion_page(path, gather_motion(clips[name], ROBOTS.load("go2"), "go2"))
        return visit(path, **context)

    return opened


def pose_at(clip, time):
    """The pose [7 + J] of a clip at a time [s] since the start of its first round."""
    frame = ClipSet([clip], "cpu").at(torch.zeros(1, dtype=torch.long), torch.tensor([time], dtype=torch.float32))
    return torch.cat((frame.link_pos[0, 0], frame.link_quat[0, 0], frame.joint_pos[0])).numpy()


def assert_pose(pose, expected):
    """Compare poses; the quaternions of a rotation have two signs."""
    pose = np.array(pose)
    pose[3:7] *= np.sign(pose[3:7] @ expected[3:7])
    np.testing.assert_allclose(pose, expected, atol=PARITY)


def wait_until(tab, condition):
    for _ in range(600):
        if tab.evaluate(condition):
            return
        tab.wait_for_timeout(50)
    raise AssertionError(f"30 s without {condition}")


def test_page_of_a_loop_plays_the_poses_of_the_clip_over_the_floor(show, clips):
    clip, states = clips["trot"], []
    with show("trot") as tab:
        assert tab.inner_text("#title") == clip.name
        for rounds in (0, 1, 3):
            wait_until(tab, f"robotPage.rounds >= {rounds} && robotPage.time > 0")
            states.append(tab.evaluate(STATE))
        wait_until(tab, f"Math.abs(robotPage.time - {states[0]['time']}) > {clip.length / 4}")  # another part of a step
        states.append(tab.evaluate(STATE))
        drawn = tab.evaluate("""(() => {
            robotPage.act('pause');
            robotPage.scene.draw(robotPage.current, []);
            const {scene, current: {data}} = robotPage;
            return scene.shapes.map(({mesh, geom}) => [12, 13, 14].map((i, axis) =>
                mesh.matrix.elements[i] - data.geom_xpos[3 * geom + axis]));
        })()""")
    for state in states:
        assert_pose(state["pose"], pose_at(clip, state["rounds"] * clip.length + state["time"]))
    first, *_, last = (np.array(state["pose"]) for state in states)
    assert np.linalg.norm(last[:2] - first[:2]) > 0.8 * clip.length  # it went on over the floor [m]
    assert np.abs(last[7:] - first[7:]).max() > 1e-3 and len(drawn) > 12
    np.testing.assert_allclose(drawn, 0, atol=1e-12)


def test_page_shows_the_pose_of_the_time_that_is_scrubbed_to_and_holds_it(show, clips):
    clip = clips["trot"]
    with show("trot") as tab:
        wait_until(tab, "robotPage.rounds >= 1")
        for frame in (5, clip.num_frames - 1):
            tab.locator("#timeline input").fill(str(frame / clip.fps))
            before = tab.evaluate(STATE)
            tab.wait_for_timeout(300)
            after = tab.evaluate(STATE)
            assert after == before and after["time"] == pytest.approx(frame / clip.fps, abs=1e-6)
            assert tab.evaluate(SHOWN) == pytest.approx(frame / clip.fps, abs=0.005)
            assert_pose(after["pose"], pose_at(clip, after["rounds"] * clip.length + after["time"]))
        assert tab.inner_text("#pause") == "Go on"
        tab.get_by_role("button", name="Reset").click()
        assert_pose(tab.evaluate(STATE)["pose"], pose_at(clip, 0.0))
        tab.get_by_role("button", name="Step").click()
        assert_pose(tab.evaluate(STATE)["pose"], pose_at(clip, 1 / clip.fps))
        tab.get_by_role("button", name="Go on").click()
        wait_until(tab, "robotPage.time > 0.1")
        tab.keyboard.press("Space")
        before = tab.evaluate(STATE)
        tab.wait_for_timeout(300)
        assert tab.evaluate(STATE) == before


def test_page_of_a_clip_that_does_not_loop_starts_again(show, clips):
    clip = clips["sit"]
    with show("sit") as tab:
        tab.evaluate(f"robotPage.act('pause'); robotPage.show({clip.length - 0.2}, 0); robotPage.advance(0.3)")
        state = tab.evaluate(STATE)
        assert (state["time"], state["rounds"]) == (pytest.approx(0.1), 0)
        assert_pose(state["pose"], pose_at(clip, 0.1))
        tab.select_option("#speed", "4")
        # in one call, because the page draws frames of its own between two
        time = """(() => {
            robotPage.show(0, 0); robotPage.lastFrame = performance.now(); robotPage.act('pause');
            robotPage.frame(robotPage.lastFrame + 100);
            return robotPage.time;
        })()"""
        assert tab.evaluate(time) == pytest.approx(0.4)


def test_page_of_a_clip_has_its_own_controls_only(show):
    visible = """[...document.querySelectorAll('button, select, input')].filter((each) => each.checkVisibility())
        .map((each) => each.id || each.dataset.section)"""
    controls = ["timeline-0", "pause", "step", "reset", "camera", "speed"]
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    with show("sit") as tab:
        assert tab.evaluate(visible) == controls
    with show("sit", **phone) as tab:
        assert tab.evaluate(visible) == [*controls, "about"]
        assert not tab.locator("#left-stick").is_visible()
        tab.get_by_role("button", name="About").click()
        assert "go2" in tab.inner_text("#card")
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
