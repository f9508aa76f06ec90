"""Measure the speed of a web page of `rsl-rl play --page`: `python -m benchmarks.page walk.html`.

The page runs in Chromium without a window, which draws with the processor (SwiftShader). Frames a second are those that
were drawn; the time of a frame is that of the page's own program, physics and policy included, without the drawing that
a graphics card does. Run nothing else at the same time.
"""

import argparse
import json
import shutil
from pathlib import Path
from typing import Any, Dict

from playwright.sync_api import sync_playwright

FLAGS = ("--no-sandbox", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--ignore-gpu-blocklist")

WARM_UP = 5.0  # in which the browser compiles physics and shaders [s]

MEASURE = """async (seconds) => {
    const page = robotPage, frame = page.frame.bind(page), begin = performance.now();
    let [frames, busy] = [0, 0];
    page.frame = (now) => {
        const start = performance.now();
        frame(now);
        busy += performance.now() - start;
        frames += 1;
    };
    const time = page.current.time;
    page.command[0].value = 0.5;
    await new Promise((resolve) => setTimeout(resolve, 1000 * seconds));
    delete page.frame;
    const passed = (performance.now() - begin) / 1000;
    return {frames_per_s: frames / passed, frame_ms: busy / frames, real_time: (page.current.time - time) / passed};
}"""


def measure(path: Path, width: int, height: int, seconds: float) -> Dict[str, Any]:
    """Return frames a second, the time of a frame [ms], simulated time per real time, and the mean time of physics and
    policy in a control step [ms], standing and walking."""
    executable = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=[*FLAGS])
        tab = browser.new_page(viewport={"width": width, "height": height})
        tab.goto(f"file://{path.resolve()}")
        while not tab.evaluate("Boolean(window.robotPage?.current)"):
            tab.wait_for_timeout(100)
        tab.wait_for_timeout(1000 * WARM_UP)
        shown = tab.evaluate(MEASURE, seconds)
        tab.evaluate("robotPage.act('pause')")
        tab.evaluate("robotPage.simulate(2, [0.5, 0, 0])")  # until the browser has compiled all
        control = {
            name: tab.evaluate(f"robotPage.simulate(10, [{vx}, 0, 0]).computing")
            for name, vx in {"standing_ms": 0.0, "walking_ms": 0.8}.items()
        }
        period = 1000 * tab.evaluate("robotPage.current.controlPeriod")
        browser.close()
    return {**shown, **control, "control_period_ms": period, "width": width, "height": height}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", type=Path)
    parser.add_argument("--size", type=int, nargs=2, default=(1280, 800), metavar=("WIDTH", "HEIGHT"))
    parser.add_argument("--seconds", type=float, default=10.0)
    flags = parser.parse_args()
    width, height = flags.size
    print(json.dumps(measure(flags.page, width, height, flags.seconds)))


if __name__ == "__main__":
    main()
