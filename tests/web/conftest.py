"""A page of a trained Go2 in Chromium."""

import shutil
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from configs.go2_flat import flat_task
from deploy.onnx_policy import open_onnx
from rsl_rl.evaluation.page_robot import gather_robot
from rsl_rl.evaluation.playback import for_playback
from rsl_rl.viz.page import TEMPLATE, write_page

FLAGS = ("--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist")
VIEWPORT = {"width": 800, "height": 270}  # small, as software draws it [px]
LOADING = 300  # time that a page may take on a machine with a load [s]

IS_READY = "Boolean(window.robotPage || document.querySelector('#message.error'))"


@pytest.fixture(scope="session")
def go2():
    """The robot of a page: a trained Go2 on a plane, see go2_flat.md."""
    env = for_playback(flat_task(), 1, 1.0, None).build("cpu", seed=1)

    def gather(folder: Path):
        onnx = Path(shutil.copy(Path(__file__).with_name("go2_flat.onnx"), folder / "policy.onnx"))
        return gather_robot(env, flat_task(), onnx.read_bytes(), open_onnx(onnx)[0], ("policy",), {"Task": "go2_flat"})

    return gather


@pytest.fixture(scope="session")
def browser():
    """Chromium, if it is there."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    executable = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if executable is None:
        pytest.skip("no chromium is installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=[*FLAGS])
        yield browser
        browser.close()


@pytest.fixture
def visit(browser):
    """Open a page; errors, messages of the console and requests to other places end the test."""

    @contextmanager
    def opened(path: Path, hash: str = "", script: str = "", **context):
        with browser.new_context(**{"viewport": VIEWPORT, **context}) as own:
            tab, trouble = own.new_page(), []
            tab.on("pageerror", lambda error: trouble.append(f"error: {error}"))
            tab.on("console", lambda message: trouble.append(f"console: {message.text}"))
            tab.on("request", lambda request: trouble.append(f"request: {request.url}"))
            if script:
                tab.add_init_script(script)
            tab.goto(f"file://{path}{hash}")
            until = time.monotonic() + LOADING
            while not tab.evaluate(IS_READY):
                assert time.monotonic() < until, f"the page does not load: {trouble}"
                tab.wait_for_timeout(100)
            yield tab
            (document, *others) = trouble
            assert document == f"request: file://{path}{hash.split('#')[0]}"
            assert others == []

    return opened


@pytest.fixture(scope="session")
def page_file(go2, tmp_path_factory):
    """The page of the Go2."""
    if not TEMPLATE.is_file():
        pytest.skip("the page is not built: make page")
    folder = tmp_path_factory.mktemp("page")
    write_page(folder / "walk.html", go2(folder))
    return folder / "walk.html"
