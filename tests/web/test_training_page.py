"""The page of a training in Chromium: curves, evaluation, faults and a robot that walks; nothing in them is script."""

import json
import socket
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest

from rsl_rl.viz.page import TEMPLATE, PagePolicy, PageTraining, page_of_training
from rsl_rl.viz.page_server import PageServer
from rsl_rl.viz.request_guard import HOST, RequestGuard
from rsl_rl.viz.training_news import TrainingWatch

if not TEMPLATE.is_file():
    pytest.skip("the page is not built: make page", allow_module_level=True)

pytestmark = pytest.mark.slow  # a browser that draws with the processor may take minutes

HOSTILE = "<img src=x onerror=window.hacked=1></script><script>window.hacked=1</script>"
LOADING = 300  # [s], on a machine with a load
PHONE = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}


def lines(first, last):
    """Metrics of iterations, with an evaluation in every fifth."""
    for i in range(first, last + 1):
        row = {"iteration": i, "env_steps": 100 * i, "collect_s": 0.5, "learn_s": 0.25, "steps_per_s": 133.0}
        row.update({"mean_reward": i / 10, "value_loss": 1 / i, f"episode/{HOSTILE}": i, "faults/state": float(i == 3)})
        if i % 5 == 0:
            row.update({"evaluation/fall_rate": 1 / i, "evaluation/score": 2 / i, "evaluation/__proto__": 1})
        yield json.dumps(row).encode()


def until(tab, condition):
    """Wait for a condition in the page; its policy forbids Playwright's own way, which makes functions of text."""
    end = time.monotonic() + LOADING
    while not tab.evaluate(condition):
        assert time.monotonic() < end, condition
        tab.wait_for_timeout(100)


class Training:
    """A run folder that a test writes, and the server of its page."""

    def __init__(self, run, policy, **changes):
        self.run = run
        about = PageTraining("go2_flat", HOSTILE, 0, 40, {"fall_rate": 0.15}, True)
        self.server = PageServer(
            socket.create_server((HOST, 0)),
            RequestGuard("secret"),
            page_of_training(replace(about, **changes)),
            lambda: TrainingWatch(run, 0, 40),
            policy,
        )
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()
        self.address = f"http://{HOST}:{self.server.server_address[1]}/?token=secret"

    def write(self, *rows):
        with open(self.run / "metrics.jsonl", "ab") as file:
            file.writelines(row + b"\n" for row in rows)


@pytest.fixture
def watch_training(browser, tmp_path):
    """Open the page of a training; errors, messages of the console and foreign requests end the test."""
    opened = []

    def watch(policy, context=None, **changes):
        training = Training(tmp_path, policy, **changes)
        own = browser.new_context(**(context or {}))
        opened.append((training, own))
        tab, training.trouble = own.new_page(), []
        tab.on("pageerror", lambda error: training.trouble.append(f"error: {error}"))
        tab.on("console", lambda message: training.trouble.append(f"console: {message.text}"))
        tab.on("request", lambda request: training.trouble.append(request.url))
        tab.goto(training.address)
        until(tab, "Boolean(window.robotPage)")
        return training, tab

    yield watch
    for training, own in opened:
        own.close()
        training.server.end("closed")
        training.server.server_close()
        base = training.address.partition("?")[0]
        assert {line for line in training.trouble if not line.startswith(base)} == set()


def test_training_page_shows_what_is_in_the_run_folder_as_it_comes(watch_training, go2, tmp_path):
    robots, folder = [], tmp_path / "policy"
    folder.mkdir()
    robot = replace(go2(folder), name=HOSTILE)

    def policy():
        robots.append(robot)
        return PagePolicy(10 * len(robots), robot, "", 0.5)

    training, tab = watch_training(policy)
    assert tab.inner_text("#policy-state") == "Waiting for the first checkpoint."
    training.write(*lines(1, 10), b"\xff\xfe", b'{"iteration": NaN}')
    (tmp_path / "model_10.pt").touch()
    until(tab, "document.body.classList.contains('walking')")
    assert tab.inner_text("#training-state") == "Iteration 10 of 40"
    assert tab.inner_text("#samples") == "1,000"
    assert tab.inner_text("#phases") == "collect 0.50 s\nlearn 0.25 s"
    assert tab.inner_text("#faults") == "state 1, 2 damaged lines in metrics.jsonl"
    titles = tab.eval_on_selector_all("#curves .curve span", "spans => spans.map((span) => span.textContent)")
    assert titles == ["mean reward", "fall rate", "value loss"]
    assert HOSTILE.replace("_", " ") in tab.text_content("#other-curves")
    rows = tab.eval_on_selector_all("#evaluation-rows tr", "rows => rows.map((row) => row.innerText.split('\\t'))")
    assert rows[0] == ["Fall rate", "0.1", "≤ 0.15", "met"] and len(rows) == 3
    assert tab.evaluate("robotPage.simulate(4, [0.5, 0, 0])")["error"] < 0.3
    tab.evaluate("robotPage.command[0].value = 0.5, robotPage.writeLink()")
    camera = tab.evaluate("robotPage.scene.camera.position.distanceTo(robotPage.scene.controls.target)")
    training.write(*lines(11, 20))
    (tmp_path / "model_20.pt").touch()
    until(tab, "document.querySelector('#policy-state').textContent.includes('iteration 20 walks')")
    assert tab.evaluate("robotPage.command[0].value") == 0.5  # what a user has set stays
    assert tab.evaluate("robotPage.scene.camera.position.distanceTo(robotPage.scene.controls.target)") == pytest.approx(
        camera, rel=0.01
    )
    training.server.end(f"interrupted {HOSTILE}")
    until(tab, "document.body.classList.contains('ended')")
    assert tab.inner_text("#training-state") == f"Ended: interrupted {HOSTILE}"
    assert tab.evaluate("window.hacked ?? null") is None
    assert tab.evaluate("document.querySelectorAll('img, #panel script').length") == 0
    assert tab.evaluate("robotPage.simulate(1, [0.5, 0, 0])")["falls"] == 0  # it goes on walking


def test_training_page_says_why_there_is_no_policy(watch_training, tmp_path):
    training, tab = watch_training(lambda: PagePolicy(-1, None, f"no module {HOSTILE}", 0.0))
    training.write(*lines(1, 3))
    (tmp_path / "model_0.pt").touch()
    until(tab, "document.querySelector('#policy-state').textContent.startsWith('No policy')")
    assert tab.inner_text("#policy-state") == f"No policy of iteration 0: no module {HOSTILE}"
    tab.keyboard.press("r")  # there is nothing to reset
    tab.keyboard.press("w")
    assert tab.inner_text("#message") == ""


def test_training_page_on_a_phone_fits_and_names_every_control(watch_training, go2, tmp_path):
    folder = tmp_path / "policy"
    folder.mkdir()
    robot = go2(folder)
    training, tab = watch_training(lambda: PagePolicy(5, robot, "", 0.0), PHONE)
    training.write(*lines(1, 5))
    (tmp_path / "model_5.pt").touch()
    until(tab, "document.body.classList.contains('walking')")
    assert tab.locator("#training").is_visible()
    tab.get_by_role("button", name="Drive").click()
    assert not tab.locator("#training").is_visible() and tab.get_by_label("Forward", exact=True).is_visible()
    tab.get_by_role("button", name="Training").click()
    tab.get_by_text("More curves").click()
    assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    unnamed = """[...document.querySelectorAll('button, select, input, canvas, progress')]
        .filter((each) => !(each.innerText || each.ariaLabel || each.labels?.[0]?.textContent
            || each.getAttribute('aria-labelledby'))).map((each) => each.outerHTML)"""
    assert tab.evaluate(unnamed) == []


def test_training_page_of_a_task_without_a_robot_has_curves_only(watch_training):
    training, tab = watch_training(lambda: PagePolicy(-1, None, "", 0.0), task="toy", has_robot=False, gate={})
    training.write(*lines(1, 5))
    until(tab, "document.querySelectorAll('#curves canvas').length > 1")
    assert tab.locator("#curves").is_visible() and not tab.locator("#view").is_visible()
    assert not tab.locator("#policy-state").is_visible()


@pytest.mark.slow
def test_training_is_watched_from_start_to_end(browser, root, tmp_path):
    flags = ("--task", "go2_flat", "--num_envs", "32", "--max_iterations", "60", "--save_interval", "10")
    command = [sys.executable, "-m", "rsl_rl", "train", *flags, "--log_root", str(tmp_path), "--page", "0"]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as training:
        assert training.stdout is not None
        address = next(line.split()[1] for line in training.stdout if line.startswith("page: "))
        tab, trouble = browser.new_page(), []
        tab.on("pageerror", lambda error: trouble.append(str(error)))
        tab.goto(address)
        until(tab, "document.body.classList.contains('walking')")
        assert 0 < tab.evaluate("robotPage.simulate(2, [0.5, 0, 0])")["error"] < 5
        threading.Thread(target=training.stdout.read).start()
        until(tab, "document.body.classList.contains('ended')")
        assert training.wait(60) == 0 and trouble == []
    (run,) = (tmp_path / "go2_flat").iterdir()
    assert tab.inner_text("#training-state") == f"Ended: done: {run}"
    tab.close()
