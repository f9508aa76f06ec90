"""Hook of MkDocs: show the web page in which policies walk, build/walk.html, where a page says `<!-- walk TASK -->`.

`make docs` writes build/walk.html with the policies of zoo/, if there are any. Without a page, the first place says how
to write one. A policy that the page does not have has no place.
"""

import html
import re
import shutil
from pathlib import Path
from urllib.parse import urlencode

from rsl_rl.viz.page import read_robots

PAGE = Path(__file__).resolve().parents[2] / "build" / "walk.html"

FRAME = """<details class="walk"><summary>{title}, {size:.1f} MB</summary>
<iframe src="walk.html#{place}" title="{title}" loading="lazy" allow="gamepad; clipboard-write"
style="width: 100%; height: 34rem; border: 1px solid #8886; border-radius: 8px"></iframe>
<a href="walk.html#{place}">Open it on the whole screen</a>
</details>"""

MISSING = "This site was built without policies. `rsl-rl play --task {}` with `--page walk.html` writes such a page."
"""Where a policy is missing; said once in a page."""


def on_page_markdown(markdown, **_):
    """Put the page, or how to write one, at the marked places."""
    robots = [str(robot["name"]) for robot in read_robots(PAGE)] if PAGE.is_file() else []
    missing = []

    def shown(match):
        task = match.group(1)
        if task not in robots:
            missing.append(task)
            return MISSING.format(task) if len(missing) == 1 and not robots else ""
        place = urlencode({"robot": robots.index(task), "command": "0.5,0,0"})
        title = html.escape(f"Drive {task} in this page")
        return FRAME.format(title=title, size=PAGE.stat().st_size / 1e6, place=place)

    return re.sub(r"<!-- walk (\w+) -->", shown, markdown)


def on_post_build(config, **_):
    """Copy the page to the site."""
    if PAGE.is_file():
        shutil.copy(PAGE, Path(config["site_dir"]) / "walk.html")
