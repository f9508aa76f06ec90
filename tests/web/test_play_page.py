"""`rsl-rl play --page` of short trainings: what it writes opens in a browser and moves."""

import re

import pytest

from rsl_rl.viz.page import TEMPLATE, read_robots

if not TEMPLATE.is_file():
    pytest.skip("the page is not built: make page", allow_module_level=True)
pytest.importorskip("onnxscript")

TINY = ("--num_envs", "4", "--runner.num_steps_per_env", "4", "--max_iterations", "1", "--logger", "none")


@pytest.fixture
def play_page(run_script, tmp_path):
    """Train a task for one iteration and write its page."""

    def play(task, *flags):
        log = ("--task", task, "--log_root", str(tmp_path / "logs"))
        trained = run_script("-m", "rsl_rl", "train", *log, *TINY)
        assert trained.returncode == 0, trained.stderr
        done = run_script("-m", "rsl_rl", "play", *log, "--page", str(tmp_path / "walk.html"), *flags)
        assert done.returncode == 0, done.stdout + done.stderr
        assert re.search(r"page: .*walk\.html \([4-7]\.\d MB; open it in a browser\)", done.stdout)
        assert not list(tmp_path.rglob("play.mp4"))
        return tmp_path / "walk.html"

    return play


def move(tab):
    """Simulate two seconds; the robot moves, or falls and starts again, and every number is finite."""
    result = tab.evaluate("robotPage.simulate(2, [0.5, 0, 0])")
    assert 0 < result["error"] < 5
    assert tab.evaluate("[...robotPage.current.data.qpos].every(Number.isFinite)")
    assert tab.inner_text("#message") in ("", "The robot fell.")


@pytest.mark.slow
def test_page_of_two_tasks_has_both_with_ground_noise_and_card(play_page, visit):
    play_page("go2_flat")
    path = play_page("go2_rough", "--page_add", "--licence", "CC-BY-4.0")
    flat, rough = read_robots(path)
    assert (flat["name"], flat["ground"], flat["scan_height"]) == ("go2_flat", None, None)
    assert rough["scan_height"] == 0.3 and len(rough["ground"]["starts"]) == 10 * 4
    assert rough["noise"]["height_scan"] == 0.02 and rough["noise"]["joint_vel"] > 0
    assert {"name": "Licence", "value": "CC-BY-4.0"} in rough["card"]
    with visit(path, "#robot=1&start=9") as tab:
        assert tab.inner_text("#title") == "go2_rough"
        assert tab.evaluate("[...robotPage.current.data.qpos.subarray(0, 2)]") == pytest.approx(
            rough["ground"]["starts"][9]["position"][:2], abs=0.5
        )
        move(tab)


@pytest.mark.slow
@pytest.mark.parametrize("task", ["go2_flat_blind", "g1_flat", "h1_flat", "anymal_c_rough"])
def test_page_of_each_kind_of_policy_opens_and_moves(task, play_page, visit):
    with visit(play_page(task)) as tab:
        assert tab.inner_text("#title") == task
        move(tab)


def test_play_refuses_the_flags_of_a_page_without_one(run_script, tmp_path):
    log = ("--task", "go2_flat", "--log_root", str(tmp_path))
    assert run_script("-m", "rsl_rl", "train", *log, *TINY).returncode == 0
    done = run_script("-m", "rsl_rl", "play", *log, "--page_add")
    assert done.returncode == 2
    assert "--page" in done.stderr and "Traceback" not in done.stderr
